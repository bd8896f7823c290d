"""Recordings of a running daemon: each request gets the next cycle with all its inputs."""

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
    from kaisched.objects.shard import SchedulingShard

WAIT_S: Final = 30.0
"""How long a request waits for a cycle."""
_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_JSON: Final = "application/json"


class _Request:
    """Request for a recording."""

    def __init__(self) -> None:
        self.is_done = threading.Event()
        self.recording: Recording | None = None


class Recordings:
    """Recordings of one shard. ``next_one`` is for any thread, the rest for the loop's."""

    def __init__(
        self,
        source: StateSource,
        shard: SchedulingShard,
        schedulers: Iterable[str],
    ) -> None:
        """Keep what every recording of the shard contains."""
        self.name = shard.name
        self.wake: Callable[[], None] = lambda: None
        self._source = source
        self._shard, self._schedulers = shard, tuple(schedulers)
        self._requests: deque[_Request] = deque()

    def next_one(self, wait_s: float = WAIT_S) -> Recording:
        """Wait for the next cycle and return it.

        Raises:
            ClusterUnavailable: no cycle succeeded within the time.

        """
        waiting = _Request()
        self._requests.append(waiting)
        self.wake()
        waiting.is_done.wait(wait_s)
        if waiting.recording is None:
            raise ClusterUnavailable(
                f"shard {self.name}: no cycle ended within {wait_s:.0f} s",
                fix="see /readyz for the cause; a standby makes no decisions",
            )
        return waiting.recording

    def begin(self) -> Recorder | None:
        """Return a recording source for this turn, None without a request."""
        return Recorder(self, self._source) if self._requests else None

    def end(self, turn: Turn, state: StoreState, facts: Mapping[str, Any], policy: Policy) -> None:
        """Answer all requests with this turn, before the next cycle invalidates its results."""
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
        while self._requests:
            waiting = self._requests.popleft()
            waiting.recording = recording
            waiting.is_done.set()


class Recorder:
    """Snapshot source that keeps the state from which the snapshot was made."""

    def __init__(self, recordings: Recordings, source: StateSource) -> None:
        """Start without a state."""
        self._recordings, self._source = recordings, source
        self._state: StoreState | None = None

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the inner source."""
        snapshot = self._source.snapshot()
        self._state = self._source.state()
        return snapshot

    def end(self, turn: Turn, facts: Mapping[str, Any], policy: Policy) -> None:
        """Hand out the recording.

        Args:
            turn: the finished turn.
            facts: facts remembered before the turn.
            policy: the policy of the turn.

        """
        if self._state is not None:
            self._recordings.end(turn, self._state, facts, policy)


def recording_page(shards: Callable[[], Iterable[Recordings]]) -> Source:
    """Make the page that returns the next cycle of one shard, the first or that of ``?shard=``.

    The page shows names of all tenants. So it is served on loopback only, and not to a browser's
    page that reaches us by another host name.
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
