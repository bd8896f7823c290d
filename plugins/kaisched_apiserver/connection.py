"""One connection of a client: requests one after the other, or a watch for as long as it lasts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple, cast

from kaisched_apiserver.answers import Answer, WatchAnswer, refused
from kaisched_apiserver.api import Api
from kaisched_apiserver.faults import Fault, Faults
from kaisched_apiserver.parsing import BadHttpError, Head, take_body, take_head
from kaisched_apiserver.requests import Request, request_of
from kaisched_apiserver.statuses import ApiError, expired
from kaisched_apiserver.watches import Watch

_MOST_UNSENT: Final = 64 * 2**20
"""A client that leaves more than this unread is cut off."""
_PHRASES: Final = {it.value: it.phrase for it in HTTPStatus}
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_DROPPED: Final = 0


class Seen(NamedTuple):
    """A request that was answered; a ``status`` of 0 is none: the connection was dropped."""

    verb: str
    plural: str
    subresource: str
    namespace: str
    name: str
    status: int


class Connection(asyncio.Protocol):
    """Reads requests, lets faults happen, writes answers."""

    def __init__(
        self,
        api: Api,
        faults: Faults,
        log: deque[Seen],
        date: Callable[[], str],
        is_open: set[Connection],
    ) -> None:
        """Belong to a server, in whose set it is while it is open."""
        self._api = api
        self._faults = faults
        self._log = log
        self._date = date
        self._is_open = is_open
        self._buffer = bytearray()
        self._head: Head | None = None
        self._is_busy = False
        self._unsent: list[bytes] = []
        self._watch: Watch | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._is_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        del exc
        self._is_open.discard(self)
        self._is_busy = True
        self._end_watch()

    def data_received(self, data: bytes) -> None:
        """Take what came, and answer what is whole."""
        self._buffer += data
        self._work()

    def drop(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    # -- requests --------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_busy and self._step():
                pass
        except BadHttpError as wrong:
            error = ApiError(wrong.status, _PHRASES[wrong.status], _PHRASES[wrong.status])
            self._write(refused(error), is_last=True)

    def _step(self) -> bool:
        """Answer the next request; return whether there was one."""
        if self._head is None:
            self._head = take_head(self._buffer)
            if self._head is None:
                return False
            if self._head.is_waiting:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = take_body(self._buffer, self._head.length)
        if body is None:
            return False
        head, self._head = self._head, None
        method = "GET" if head.method == "HEAD" else head.method
        request = request_of(method, head.target, body, head.content_type, head.accept, head.token)
        if request is None:
            page = self._api.page(head.target.partition("?")[0], head.token)
            self._write(page, is_last=not head.is_keeping_alive, has_body=head.method != "HEAD")
            return True
        fault = self._faults.of(request)
        if fault is not None and fault.delay_s > 0:
            self._is_busy = True
            self._loop.call_later(fault.delay_s, self._late, head, request, fault)
        else:
            self._answer(head, request, fault)
        return True

    def _late(self, head: Head, request: Request, fault: Fault) -> None:
        if not self._transport.is_closing():
            self._is_busy = False
            self._answer(head, request, fault)
            self._work()

    def _answer(self, head: Head, request: Request, fault: Fault | None) -> None:
        effect = fault.effect if fault is not None else "none"
        if effect == "drop_before":
            self._note(request, _DROPPED)
            self.drop()
            return
        if fault is not None and effect == "status":
            answer: Answer | WatchAnswer = refused(fault.error())
        else:
            answer = self._api.answer(request)
        if effect == "drop_after":
            self._note(request, _DROPPED)
            self.drop()
        elif isinstance(answer, Answer):
            self._note(request, answer.status)
            has_body = head.method != "HEAD"
            self._write(answer, is_last=not head.is_keeping_alive, has_body=has_body)
        else:
            self._note(request, HTTPStatus.OK)
            self._open_watch(answer, effect)

    def _note(self, request: Request, status: int) -> None:
        self._log.append(
            Seen(
                request.verb,
                request.plural,
                request.subresource,
                request.namespace,
                request.name,
                int(status),
            )
        )

    def _write(self, answer: Answer, *, is_last: bool = False, has_body: bool = True) -> None:
        extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
        if is_last:
            extra += "Connection: close\r\n"
        head = (
            f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, '')}\r\n"
            f"Content-Type: {answer.content_type}\r\nDate: {self._date()}\r\n"
            f"Content-Length: {len(answer.body)}\r\n{extra}\r\n"
        )
        data = head.encode("latin-1", "replace")
        self._transport.write(data + answer.body if has_body else data)
        if is_last:
            self._is_busy = True
            self._transport.close()

    # -- watches ---------------------------------------------------------------------------------

    def _open_watch(self, asked: WatchAnswer, effect: str) -> None:
        self._is_busy = True
        self._transport.write(_STREAM)
        watch = Watch(asked, self._send, self._finish, self._api.clock.now_s)
        self._watch = watch
        if effect == "mute":
            watch.is_mute = True
            return
        if effect == "expire":
            watch.fail(expired(f"too old resource version: {asked.version}"))
            return
        self._timer = self._loop.call_later(asked.timeout_s, self._time_out)
        self._api.watches.add(watch)
        watch.replay()

    def _send(self, line: bytes) -> None:
        """Send soon: what happens in one turn of the loop goes out in one piece."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(line)

    def _flush(self) -> None:
        if not self._unsent or self._transport.is_closing():
            return
        data = b"".join(self._unsent)
        self._unsent.clear()
        self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        if self._transport.get_write_buffer_size() > _MOST_UNSENT:
            self.drop()

    def _time_out(self) -> None:
        if self._watch is not None:
            self._watch.bookmark(self._api.storage.version)
            self._finish()

    def _finish(self) -> None:
        """End the stream in good order; the connection can be used again."""
        if self._watch is None or self._transport.is_closing():
            return
        self._flush()
        self._end_watch()
        self._transport.write(b"0\r\n\r\n")
        self._is_busy = False
        self._loop.call_soon(self._work)

    def _end_watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._watch is not None:
            self._api.watches.discard(self._watch)
            self._watch = None
