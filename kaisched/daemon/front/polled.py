"""Answers to probes, fetched before a probe asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from kaisched.daemon.front.channel import Channel, Waits


class _Answer(NamedTuple):
    asked_s: float
    status: int
    content_type: str
    body: bytes


class Polled:
    """Polls the parent with one question, and keeps its last answer for a while.

    A probe then does not wait for the scheduling interpreter. If the parent has not answered for
    too long, the probe has to wait for it: the probe of a scheduler that hangs must fail.
    """

    is_gone = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        channel: Channel,
        question: str,
        limits: dict[str, Any],
    ) -> None:
        """Ask for the first answer."""
        self._loop, self._channel, self._question = loop, channel, question
        self._limits = limits
        self._asked_s = 0.0
        self._last: _Answer | None = None
        self._ask()

    def _ask(self) -> None:
        self._asked_s = self._loop.time()
        self._channel.ask(self._question, self)

    def answer(
        self, status: int, content_type: str, body: bytes, more: Mapping[str, Any] | None = None
    ) -> None:
        """Keep an answer, and ask again after the poll period."""
        del more
        self._last = _Answer(self._asked_s, status, content_type, body)
        self._loop.call_later(self._limits["poll_s"], self._ask)

    def give(self, client: Waits) -> None:
        """Give a client the last answer; if that is too old, ask the parent."""
        last = self._last
        if last is None or self._loop.time() - last.asked_s > self._limits["fresh_s"]:
            self._channel.ask(self._question, client)
        else:
            client.answer(last.status, last.content_type, last.body)
