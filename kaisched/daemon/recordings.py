"""Recordings of a running daemon: whoever asks gets the next cycle, with all that it rested on."""

from __future__ import annotations

import threading
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kaisched.daemon.serving import Page, Source, text_page
from kaisched.engine.recording import record, recorded_usage
from kaisched.engine.recording_file import encoded
from kaisched.engine.replaying import sealed
from kaisched.errors import ClusterUnavailable, KaischedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaisched.cluster.state import StateSource, StoreState
    from kaisched.core.snapshot import Snapshot
    from kaisched.daemon.serving import Request
    from kaisched.engine.recording import Recording
    from kaisched.engine.turn import Turn
    from kaisched.framework.policy import Policy
    from kaisched.objects import SchedulingShard

WAIT_S: Final = 30.0
"""How long a cycle is waited for."""
_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_JSON: Final = "application/json"


class _Wish:
    """Somebody who waits for a recording."""

    def __init__(self) -> None:
        self.is_done = threading.Event()
        self.recording: Recording | None = None


class Recordings:
    """Of one shard. ``next_one`` is for any thread, the rest for the loop's."""

    def __init__(
        self,
        source: StateSource,
        shard: SchedulingShard,
        schedulers: Iterable[str],
    ) -> None:
        """Hold what a recording says of every cycle."""
        self.name = shard.name
        self.wake: Callable[[], None] = lambda: None
        self._source = source
        self._shard, self._schedulers = shard, tuple(schedulers)
        self._wishes: deque[_Wish] = deque()

    def next_one(self, wait_s: float = WAIT_S) -> Recording:
        """Wait for the next cycle and return it.

        Raises:
            ClusterUnavailable: no cycle ended well within the time.

        """
        wish = _Wish()
        self._wishes.append(wish)
        self.wake()
        wish.is_done.wait(wait_s)
        if wish.recording is None:
            raise ClusterUnavailable(
                f"shard {self.name}: no cycle ended within {wait_s:.0f} s",
                fix="see /readyz for what it waits for; one that stands by decides nothing",
            )
        return wish.recording

    def begin(self) -> Recorder | None:
        """Return the source for a turn that somebody asked for, None where nobody did."""
        return Recorder(self, self._source) if self._wishes else None

    def end(self, turn: Turn, state: StoreState, facts: Mapping[str, Any], policy: Policy) -> None:
        """Hand out the recording of a turn. Now: results are read before the next cycle begins."""
        recording = record(
            "daemon",
            state,
            self._shard,
            policy,
            schedulers=self._schedulers,
            now_s=turn.start_s,
            usage=recorded_usage(turn.usage, turn.snapshot),
            facts=facts,
        )
        recording = sealed(recording, turn.result)
        while self._wishes:
            wish = self._wishes.popleft()
            wish.recording = recording
            wish.is_done.set()


class Recorder:
    """A snapshot source that notes what the snapshot was made of."""

    def __init__(self, recordings: Recordings, source: StateSource) -> None:
        """Note nothing yet."""
        self._recordings, self._source = recordings, source
        self._state: StoreState | None = None

    def snapshot(self) -> Snapshot:
        """Return the source's."""
        snapshot = self._source.snapshot()
        self._state = self._source.state()
        return snapshot

    def end(self, turn: Turn, facts: Mapping[str, Any], policy: Policy) -> None:
        """Hand out what was noted.

        Args:
            turn: what became of it.
            facts: what the turn remembered of the one before.
            policy: by which it decided.

        """
        if self._state is not None:
            self._recordings.end(turn, self._state, facts, policy)


def recording_page(shards: Callable[[], Iterable[Recordings]]) -> Source:
    """Return the page that gives the next cycle of one shard, the first or that of ``?shard=``.

    It tells names of all tenants, so it is served on loopback only, and to no page of a browser
    that has another name for us.
    """

    def page(request: Request) -> Page:
        if request.host.rpartition(":")[0] not in _HOSTS and request.host not in _HOSTS:
            return text_page(HTTPStatus.FORBIDDEN, "only as localhost: forward the port")
        wanted = request.query.get("shard", [""])[0]
        known = list(shards())
        chosen = next((it for it in known if wanted in {"", it.name}), None)
        if chosen is None:
            names = ", ".join(it.name for it in known)
            return text_page(HTTPStatus.NOT_FOUND, f"no such shard; here are {names or 'none yet'}")
        try:
            return Page(HTTPStatus.OK, _JSON, encoded(chosen.next_one()))
        except KaischedError as error:
            return text_page(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    return Source(page, query=("shard=",), headers=("host",))
