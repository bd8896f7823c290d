"""Answers that are there before anybody asks: those of probes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import asyncio

    from kaisched.daemon.front.channel import Channel, Waits


class _Answer(NamedTuple):
    asked_s: float
    status: int
    content_type: str
    body: bytes


class Polled:
    """Asks the parent one question again and again, and knows its last answer for a while.

    A probe then waits for nobody's interpreter. Where the parent has not answered for too long,
    the probe waits for it as everybody does: a scheduler that hangs has to fail its probe.
    """

    is_gone = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        channel: Channel,
        question: str,
        limits: dict[str, Any],
    ) -> None:
        """Ask for the first time."""
        self._loop, self._channel, self._question = loop, channel, question
        self._limits = limits
        self._asked_s = 0.0
        self._last: _Answer | None = None
        self._ask()

    def _ask(self) -> None:
        self._asked_s = self._loop.time()
        self._channel.ask(self._question, self)

    def answer(self, status: int, content_type: str, body: bytes) -> None:
        """Keep an answer, and ask again in a while."""
        self._last = _Answer(self._asked_s, status, content_type, body)
        self._loop.call_later(self._limits["poll_s"], self._ask)

    def give(self, client: Waits) -> None:
        """Answer a client with what is known; where that is too old, have the parent answer."""
        last = self._last
        if last is None or self._loop.time() - last.asked_s > self._limits["fresh_s"]:
            self._channel.ask(self._question, client)
        else:
            client.answer(last.status, last.content_type, last.body)
