"""Streams: answers that stay open, and get each part that the parent pushes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

    from kaisched.daemon.front.client import Client

_BEAT: Final = b":\n\n"
"""A comment of Server-Sent Events: it keeps the connection, and finds out who is gone."""


class Streams:
    """Streams of one listener, by name. Each client keeps at most one part that waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: dict[str, Any]) -> None:
        """Start without streams."""
        self._loop, self._limits = loop, limits
        self._stream_of: dict[Client, str] = {}
        self._beat()

    def join(self, client: Client, name: str) -> bool:
        """Give a client a stream, if need be that of one who takes none of it; False for none."""
        if len(self._stream_of) >= self._limits["streams"]:
            slow = next((it for it in self._stream_of if it.is_behind), None)
            if slow is None:
                return False
            slow.drop("slow")
        self._stream_of[client] = name
        return True

    def leave(self, client: Client) -> None:
        """Forget a client, whether or not it has a stream."""
        self._stream_of.pop(client, None)

    def push(self, name: str, part: bytes) -> None:
        """Send a part to all who have the stream."""
        for client, stream in list(self._stream_of.items()):
            if stream == name:
                client.push(part)

    def _beat(self) -> None:
        for client in list(self._stream_of):
            client.beat(_BEAT)
        self._loop.call_later(self._limits["beat_s"], self._beat)
