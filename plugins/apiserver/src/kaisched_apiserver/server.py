"""The API server as a whole: a thread with an event loop that listens on loopback."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from types import TracebackType
from typing import Final, Self, TypeVar

from kaisched.clock import Clock, SystemClock
from kaisched.errors import ConfigError
from kaisched_apiserver.api import Api
from kaisched_apiserver.connection import Connection, Faults, Seen

T = TypeVar("T")

LOG_LENGTH: Final = 100_000
"""So many requests are remembered."""


class ApiServer:
    """A Kubernetes API server in a thread of its own.

    Use it as a context manager, or with :meth:`start` and :meth:`stop`. ``api`` belongs to the
    server's thread: from another one, go through :meth:`call`.
    """

    def __init__(
        self,
        *,
        address: str = "127.0.0.1",
        port: int = 0,
        clock: Clock | None = None,
        bookmark_period_s: float = 60.0,
    ) -> None:
        """Make a server that does not listen yet.

        Args:
            address: where to listen.
            port: 0 for any that is free.
            clock: the machine's unless given; times of objects come from it.
            bookmark_period_s: how often watches that asked for bookmarks get one.

        """
        self.address = address
        self.port = port
        self.clock: Clock = SystemClock() if clock is None else clock
        self.api = Api(self.clock)
        self.faults = Faults()
        self.log: deque[Seen] = deque(maxlen=LOG_LENGTH)
        """The requests that were answered, the oldest first."""
        self._bookmark_period_s = bookmark_period_s
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="apiserver", daemon=True)
        self._listener: asyncio.Server | None = None
        self._date = ("", 0)

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self.address}:{self.port}"

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Listen.

        Raises:
            ConfigError: the address is not ours or the port is taken.

        """
        self._thread.start()
        try:
            self.call(self._start_timers)
            self._wait_for(self._listen())
        except ConfigError:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Cut all connections and listen no more."""
        if self._thread.is_alive():
            self._wait_for(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        if not self._loop.is_closed():
            self._loop.close()

    def restart(self, *, is_history_lost: bool = True) -> None:
        """Be gone and come back on the same port, with the same objects.

        Every connection is cut. Without its history the server answers old watches with 410.
        """
        self.take_down()
        if is_history_lost:
            self.call(self.api.storage.forget_history)
        self.bring_up()

    def take_down(self) -> None:
        """Refuse connections until :meth:`bring_up`."""
        self._wait_for(self._close())

    def bring_up(self, reading_s: float = 0.0) -> None:
        """Listen again on the same port; for so long it has not read yet who may do what."""

        def end_reading() -> None:
            self.api.access.is_reading = False

        if reading_s:
            self.api.access.is_reading = True
            self.call(lambda: self.later(reading_s, end_reading))
        self._wait_for(self._listen())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- from other threads ----------------------------------------------------------------------

    def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns in the server's thread, between two requests."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def later(self, delay_s: float, function: Callable[[], object]) -> None:
        """Call a function in the server's thread after a delay; only from that thread."""
        self._loop.call_later(delay_s, function)

    def expire_watches(self, plural: str = "") -> None:
        """End open watches, of one kind or of all, with an event of code 410."""
        self.call(lambda: self.api.watches.expire(plural))

    def mute_watches(self, plural: str = "") -> None:
        """Leave open watches half-open: nothing comes through them any more."""

        def mute() -> None:
            for watch in self.api.watches.all(plural):
                watch.is_mute = True

        self.call(mute)

    def end_watches(self, plural: str = "") -> None:
        """End open watches in good order, as at their timeout."""

        def end() -> None:
            for watch in self.api.watches.all(plural):
                watch.end()

        self.call(end)

    def drop_connections(self) -> None:
        """Cut every connection."""

        def drop() -> None:
            for connection in list(self._connections):
                connection.drop()

        self.call(drop)

    # -- in the server's thread ------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _wait_for(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _listen(self) -> None:
        try:
            self._listener = await self._loop.create_server(
                self._connection, self.address, self.port, backlog=1_024
            )
        except OSError as wrong:
            raise ConfigError(
                f"cannot listen on {self.address} port {self.port}: {wrong.strerror or wrong}",
                path="port",
                fix="choose another port, or 0 for any that is free",
            ) from wrong
        self.port = int(self._listener.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            for each in listener.sockets:
                self._loop.remove_reader(each.fileno())
            # What was accepted just now is known in two turns: a listener that is closed loses it.
            await _turns(2)
            listener.close()
        for connection in list(self._connections):
            connection.drop()
        await _turns(1)  # in which they say that they are cut

    def _connection(self) -> Connection:
        return Connection(self.api, self.faults, self.log, self._http_date, self._connections)

    def _http_date(self) -> str:
        """Return the present as a header has it, made once a second."""
        now_s = int(self.clock.now_s())
        if self._date[1] != now_s or not self._date[0]:
            self._date = (formatdate(now_s, usegmt=True), now_s)
        return self._date[0]

    def _start_timers(self) -> None:
        self._loop.call_later(self._bookmark_period_s, self._send_bookmarks)

    def _send_bookmarks(self) -> None:
        version = self.api.storage.version
        for watch in self.api.watches.all():
            if watch.asked.version <= version:
                watch.bookmark(version)
        self._start_timers()


async def _turns(count: int) -> None:
    """Let the loop do what is due, so many times."""
    for _ in range(count):
        await asyncio.sleep(0)
