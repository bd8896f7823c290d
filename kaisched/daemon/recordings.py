"""Recordings of cycles: of a running daemon, and those of ``kaisched snapshot take``."""

from __future__ import annotations

import threading
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import urllib3
from msgspec.structs import replace
from urllib3.exceptions import HTTPError

from kaisched.clock import monotonic_s
from kaisched.cluster.claims.device_claims import OFF, ON
from kaisched.cluster.kubernetes.resources import (
    SHARDS,
    STORAGE,
    find_gang_api,
    list_cluster,
    watched_kinds,
)
from kaisched.cluster.pods import sharing_of
from kaisched.cluster.state import Kept
from kaisched.daemon.http_wire import Page, Reads, Source, text_page
from kaisched.daemon.loop import usage_feed
from kaisched.engine.planning import planned_cluster, read_plan_input
from kaisched.engine.policy import build_policy
from kaisched.engine.recording import (
    MAX_FILE,
    encoded,
    parsed,
    record,
    recorded_usage,
    replay,
    sealed,
)
from kaisched.engine.shards import shards_in
from kaisched.errors import ClusterUnavailable, ConfigError, KaischedError, root_of
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.usage import check_url
from kaisched.units import UnitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from kaisched.clock import Clock
    from kaisched.cluster.embedded import EmbeddedCluster
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.cluster import KubernetesCluster
    from kaisched.cluster.state import StoreState
    from kaisched.core.snapshot import Snapshot
    from kaisched.daemon.http_wire import Request
    from kaisched.engine.recording import RecordedUsage, Recording
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.cycle import Cycle
    from kaisched.framework.policy import Policy

WAIT_S: Final = 30.0
"""How long a request waits for a cycle."""
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
        source: KubernetesCluster | EmbeddedCluster,
        shard: SchedulingShard,
        schedulers: Iterable[str],
    ) -> None:
        """Keep what every recording of the shard contains."""
        self.name = shard.name
        self.wake: Callable[[], None] = lambda: None
        self._source = source
        self._shard, self._schedulers = shard, tuple(schedulers)
        self._requests: deque[_Request] = deque()
        self._state: StoreState | None = None

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

    @property
    def is_wanted(self) -> bool:
        """Whether a request waits for a recording of the next cycle."""
        return bool(self._requests)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of the source, and keep the state that it was made from."""
        snapshot = self._source.snapshot()
        self._state = self._source.state()
        return snapshot

    def end(self, cycle: Cycle, facts: Mapping[str, Any], policy: Policy) -> None:
        """Answer all requests with a cycle, before the next one invalidates its results.

        Args:
            cycle: the finished cycle, whose snapshot was taken here.
            facts: facts remembered before the cycle.
            policy: the policy of the cycle.

        """
        state, self._state = self._state, None
        if state is None:
            return
        recording = record(
            "daemon",
            state,
            self._shard,
            policy,
            schedulers=self._schedulers,
            now_s=cycle.start_s,
            usage=recorded_usage(cycle.usage, cycle.snapshot),
            facts=facts,
        )
        recording = sealed(recording, cycle.result)
        while self._requests:
            waiting = self._requests.popleft()
            waiting.recording = recording
            waiting.is_done.set()


def recording_page(shards: Callable[[], Iterable[Recordings]]) -> Source:
    """Make the page that returns the next cycle of one shard, the first or that of ``?shard=``.

    The page shows names of all tenants. So it is served on loopback only.
    """

    def page(request: Request) -> Page:
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

    return Source(page, Reads(query=("shard=",)))


_DAEMON_WAIT_S: Final = 40.0
"""A daemon answers within 30 s, with a cycle or with an error."""
_GLANCE_S: Final = 0.05
_OK: Final = 200


class Taken(NamedTuple):
    """A recording, with its warnings and problems."""

    recording: Recording
    warnings: list[str]
    problems: list[str]
    """Problems of objects that were left out."""


def from_manifests(files: Sequence[str], shard_file: Path | None) -> Taken:
    """Record what ``kaisched plan`` would do with these files in its first cycle.

    Raises:
        KaischedError: as :func:`kaisched.engine.planning.read_plan_input`.

    """
    what = read_plan_input(files, shard_file)
    cluster, problems = planned_cluster(what)
    cluster.snapshot()
    made = record(
        "manifests",
        cluster.state(),
        what.shard,
        what.policy,
        schedulers=cluster.store.ours.schedulers,
        now_s=cluster.clock.now_s(),
    )
    return Taken(_with_result(made), what.warnings, list(map(str, problems)))


def from_cluster(
    client: Client,
    clock: Clock,
    schedulers: Iterable[str],
    *,
    shard_files: Sequence[Path] = (),
    shard_name: str = "",
    is_deleting: bool = False,
) -> Taken:
    """Record what a scheduler that starts now would do in its first cycle.

    It lacks what only a running scheduler knows (binds under way, failed searches, its own usage
    store); :func:`from_daemon` asks for that. With ``is_deleting``, disruption budgets do not
    matter.

    Raises:
        KaischedError: the cluster cannot be read, or its shard is wrong or not the only one.

    """
    first = list_cluster(client, (SHARDS,))
    shards = [obj for obj in first.objects if isinstance(obj, SchedulingShard)]
    found = _chosen(shards_in(shard_files, sorted(shards, key=lambda it: it.name)), shard_name)
    policy, said = build_policy(found.shard, found.file)
    shard = found.shard
    kinds = watched_kinds(
        [policy.workloads],
        find_gang_api(client),
        is_deleting=is_deleting,
        has_claims=shard.spec.resource_claims,
        has_share_claims=bool(shard.share_class),
    )
    listed = list_cluster(client, kinds)
    kept = Kept()
    for obj in listed.objects:
        kept.put(obj)
    made = record(
        "cluster",
        kept.bare_state(
            has_volumes=listed.kinds.issuperset(it.qualified for it in STORAGE),
            sharing=sharing_of(shard),
            claims=ON if shard.spec.resource_claims else OFF,
        ),
        shard,
        policy,
        schedulers=schedulers,
        now_s=clock.now_s(),
    )
    usage, why = _usage_of(found, clock, made)
    warnings = [*first.warnings, *listed.warnings, *found.warnings, *said, *why]
    return Taken(_with_result(replace(made, usage=usage)), warnings, [])


def from_daemon(url: str, shard_name: str = "") -> Taken:
    """Ask a running scheduler for its next cycle.

    Raises:
        ConfigError: the address is none, or does not answer with a recording.
        ClusterUnavailable: no daemon answers, or no cycle ends.

    """
    wrong_url = ConfigError(
        "no address of a daemon",
        path="--daemon",
        value=url,
        fix="write it like http://127.0.0.1:8082; kubectl port-forward brings the port here",
    )
    try:
        check_url(url)
    except UnitError:
        raise wrong_url from None
    parts = urlsplit(url)
    if parts.scheme != "http":
        raise wrong_url
    query = f"?{urlencode({'shard': shard_name})}" if shard_name else ""
    try:
        with urllib3.PoolManager(retries=False, timeout=_DAEMON_WAIT_S) as pool:
            answer = pool.request(
                "GET",
                f"http://{parts.netloc}/snapshot{query}",
                redirect=False,
                preload_content=False,
            )
            data = answer.read(MAX_FILE + 1)
    except (HTTPError, OSError) as wrong:
        raise ClusterUnavailable(
            f"no answer from {parts.netloc}: {root_of(wrong)}",
            fix="is `snapshots.enabled` set there, and the port forwarded?",
        ) from wrong
    if answer.status != _OK:
        raise ClusterUnavailable(f"{parts.netloc}: {data[:300].decode('utf-8', 'replace').strip()}")
    if len(data) > MAX_FILE:
        raise ClusterUnavailable(f"{parts.netloc} answered more than {MAX_FILE >> 20} MiB")
    return Taken(parsed(data, url), [], [])


def _chosen(found: Sequence[FoundShard], name: str) -> FoundShard:
    names = ", ".join(it.shard.name for it in found)
    if name:
        for it in found:
            if it.shard.name == name:
                return it
        raise ConfigError("no such shard", path="--shard-name", value=name, fix=f"known: {names}")
    if len(found) > 1:
        raise ConfigError(f"several shards: {names}", fix="choose one with --shard-name")
    return found[0]


def _usage_of(
    found: FoundShard, clock: Clock, made: Recording
) -> tuple[RecordedUsage | None, list[str]]:
    """Return the usage history if it can be read from here, and warnings if not."""
    config = found.shard.spec.usage_db_config
    if config is None:
        return None, []
    if config.client_type != "prometheus":
        store = f"the {config.client_type} store is the daemon's own"
        return None, [f"usage history: {store}; take the snapshot from the daemon to include it"]
    snapshot = replay(made).snapshot
    try:
        feed, wait_s = usage_feed(found, clock)
    except KaischedError as wrong:
        return None, [f"usage history: {wrong}"]
    if feed is None:
        return None, []
    try:
        feed.usage(snapshot, clock.now_s())
        end_s = monotonic_s() + min(wait_s, _DAEMON_WAIT_S)
        while not feed.is_ready() and monotonic_s() < end_s:
            clock.sleep(_GLANCE_S)
        usage = feed.usage(snapshot, clock.now_s())
    finally:
        feed.close()
    return recorded_usage(usage, snapshot), [f"usage history: {why}" for why in usage.reasons]


def _with_result(made: Recording) -> Recording:
    return sealed(made, replay(made).result)
