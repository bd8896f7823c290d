"""SchedulingShards as a cluster stores them: whatever they hold, with what was usable last.

A definition of ours checks most of a shard, but neither plugins nor their arguments, and another
definition checks less. So an edit may be wrong. The status of a shard remembers its last usable
spec, which a process takes that starts meanwhile.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import structlog

from kaisched.cluster.kubernetes.client import MERGE, Answer, Pauses
from kaisched.cluster.kubernetes.pods import SERVER_FAULT, is_passing
from kaisched.cluster.kubernetes.resources import whole
from kaisched.engine.policy import default_shard
from kaisched.engine.shards import policy_errors
from kaisched.errors import ClusterUnavailable, Collector, KaischedError
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import KubernetesObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.reflector import Change
    from kaisched.objects.shard import ShardSpec
    from kaisched.usage.history import ServerHealth

USABLE: Final = "Usable"
"""The type of the condition."""
SERVER: Final = "UsageServerReachable"
"""The type of the condition about the server of usage history."""
LAST_USABLE: Final = "lastUsableSpec"
"""The key of the status with the last usable spec."""
MOST_MESSAGE: Final = 1024


class StoredShard(KubernetesObject, frozen=True, kw_only=True):
    """A shard whose spec may have any form."""

    API_VERSION = SchedulingShard.API_VERSION
    KIND = SchedulingShard.KIND
    IS_NAMESPACED = False

    spec: Any = None
    status: Any = None


STORED: Final = whole(StoredShard, "schedulingshards")


class Reading(NamedTuple):
    """A shard as its spec says, or the errors of the spec."""

    shard: SchedulingShard | None
    errors: tuple[KaischedError, ...] = ()


def read(stored: StoredShard) -> Reading:
    """Read the present spec of a shard."""
    try:
        shard, _ = decode_object(_plain(stored, stored.spec), SchedulingShard)
    except BadObject as bad:
        rest = bad.obj if isinstance(bad.obj, SchedulingShard) else None
        more = policy_errors(rest, reported=bad.errors) if rest is not None else []
        return Reading(None, (*bad.errors, *more))
    errors = policy_errors(shard)
    return Reading(None if errors else shard, tuple(errors))


def last_usable(stored: StoredShard) -> SchedulingShard | None:
    """Return the shard as it was usable last; None if the status does not say it."""
    status = stored.status if isinstance(stored.status, dict) else {}
    spec = status.get(LAST_USABLE)
    return None if spec is None else read(msgspec.structs.replace(stored, spec=spec)).shard


def usable_among(
    stored: Iterable[StoredShard],
) -> tuple[list[SchedulingShard], dict[str, tuple[KaischedError, ...]]]:
    """Return all shards, wrong ones as they were usable last, and the errors of these by name.

    Raises:
        KaischedError: a shard is wrong and was never usable; it holds the errors of all such.

    """
    shards, wrong, errors = [], {}, Collector()
    for each in stored:
        reading = read(each)
        shard = reading.shard or last_usable(each)
        if reading.errors:
            wrong[each.name] = reading.errors
        if shard is None:
            errors.errors += reading.errors
        else:
            shards.append(shard)
    errors.stop_if_any()
    return shards, wrong


def desired_status(
    stored: StoredShard, reading: Reading, now: str, server: ServerHealth | None = None
) -> Mapping[str, Any] | None:
    """Return the part of the status that is to be written; None if it is there.

    ``server`` says whether the server of usage history answers, if that is known.
    """
    status = stored.status if isinstance(stored.status, dict) else {}
    listed = status.get("conditions")
    conditions = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    desired = _with_condition(conditions, _usable_condition(reading), now)
    if server is not None:
        desired = _with_condition(desired, _server_condition(server), now)
    elif reading.shard is not None and not _asks_server(reading.shard):
        desired = [it for it in desired if it.get("type") != SERVER]
    is_kept = bool(reading.errors) or status.get(LAST_USABLE) == stored.spec
    if desired == conditions and is_kept:
        return None
    written: dict[str, Any] = {"conditions": desired}
    if not reading.errors:
        written[LAST_USABLE] = stored.spec
    return written


def is_reported_wrong(stored: StoredShard, reading: Reading) -> bool:
    """Tell whether the status says already what is wrong with a shard."""
    status = stored.status if isinstance(stored.status, dict) else {}
    listed = status.get("conditions")
    ours = _usable_condition(reading)
    return any(
        isinstance(it, dict) and all(it.get(key) == value for key, value in ours.items())
        for it in (listed if isinstance(listed, list) else ())
    )


def _usable_condition(reading: Reading) -> dict[str, str]:
    return {
        "type": USABLE,
        "status": "False" if reading.errors else "True",
        "reason": "Wrong" if reading.errors else "Read",
        "message": "; ".join(map(str, reading.errors))[:MOST_MESSAGE],
    }


def _server_condition(server: ServerHealth) -> dict[str, str]:
    return {
        "type": SERVER,
        "status": "True" if server.is_reachable else "False",
        "reason": "Answers" if server.is_reachable else "NoAnswer",
        "message": server.message[:MOST_MESSAGE],
    }


def _with_condition(
    conditions: list[dict[str, Any]], ours: dict[str, str], now: str
) -> list[dict[str, Any]]:
    """Return the conditions with one that is changed or added; the same ones if it is there."""
    before = next((it for it in conditions if it.get("type") == ours["type"]), {})
    if all(before.get(key) == value for key, value in ours.items()):
        return conditions
    since = before.get("lastTransitionTime") if before.get("status") == ours["status"] else None
    others = [it for it in conditions if it.get("type") != ours["type"]]
    return [*others, {**ours, "lastTransitionTime": since or now}]


def _asks_server(shard: SchedulingShard) -> bool:
    usage = shard.spec.usage_db_config
    return usage is not None and usage.client_type == "prometheus"


def _plain(stored: StoredShard, spec: object) -> dict[str, Any]:
    meta = msgspec.to_builtins(stored.metadata)
    plain = {"apiVersion": stored.API_VERSION, "kind": stored.KIND, "metadata": meta}
    return plain if spec is None else {**plain, "spec": spec}


_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Events of objects without a namespace are in this one."""
_CONTROLLER: Final = "kaisched"
_TRIES: Final = 3


class ShardReports:
    """Writes statuses in a thread of its own, so that nothing waits for the server's answers."""

    def __init__(self, client: Client, clock: Clock, identity: str) -> None:
        """Begin without reports."""
        self._client, self._clock, self._identity = client, clock, identity
        self._due: dict[str, StoredShard] = {}
        self._latest: dict[str, StoredShard] = {}
        self._servers: dict[str, ServerHealth] = {}
        self._lock, self._wake, self._end = threading.Lock(), threading.Event(), threading.Event()
        self._log: Any = structlog.get_logger()
        self._thread = threading.Thread(target=self._run, name="shard-reports", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; reports that wait are not written."""
        self._end.set()
        self._wake.set()

    def add(self, stored: StoredShard) -> None:
        """Report on a shard; from any thread."""
        with self._lock:
            self._due[stored.name] = self._latest[stored.name] = stored
        self._wake.set()

    def note_server(self, shard: str, server: ServerHealth) -> None:
        """Report whether the server of a shard's usage history answers; from any thread."""
        with self._lock:
            self._servers[shard] = server
            if shard in self._latest:
                self._due[shard] = self._latest[shard]
        self._wake.set()

    def write(self, shards: Iterable[StoredShard]) -> None:
        """Report on some shards and wait until that is done, as before the process ends."""
        for stored in shards:
            self._write(stored)

    def _run(self) -> None:
        while not self._end.is_set():
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                due, self._due = self._due, {}
            self.write(due.values())

    def _write(self, stored: StoredShard) -> None:
        reading = read(stored)
        server = self._servers.get(stored.name)
        desired = desired_status(stored, reading, self._now("%Y-%m-%dT%H:%M:%SZ"), server)
        if desired is None:
            return
        # The server refuses it if the shard has changed since; then there is a later report.
        version = {"resourceVersion": stored.metadata.resource_version}
        body = {"metadata": version, "status": desired}
        answer = self._send("PATCH", f"{STORED.path}/{stored.name}/status", body, MERGE)
        if not answer.is_done:
            self._log.info("shard_status_refused", shard=stored.name, answer=answer.text())
        elif reading.errors and not is_reported_wrong(stored, reading):
            self._send("POST", _EVENTS, self._event(stored, reading))

    def _send(
        self, method: str, path: str, body: dict[str, Any], content_type: str = "application/json"
    ) -> Answer:
        pauses, answer = Pauses(), Answer(SERVER_FAULT, b"")
        for _ in range(_TRIES):
            try:
                answer = self._client.call(method, path, body=body, content_type=content_type)
            except ClusterUnavailable:
                answer = Answer(SERVER_FAULT, b"")
            if not is_passing(answer) or self._end.wait(pauses.next_s(answer.retry_after_s)):
                break
        return answer

    def _event(self, stored: StoredShard, reading: Reading) -> dict[str, Any]:
        text = "; ".join(map(str, reading.errors))
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{stored.name[:200]}-", "namespace": "default"},
            "eventTime": self._now("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._identity[:128],
            "action": "Read",
            "reason": "ShardWrong",
            "note": text[:MOST_MESSAGE],
            "type": "Warning",
            "regarding": {
                "apiVersion": stored.API_VERSION,
                "kind": stored.KIND,
                "name": stored.name,
                "uid": stored.metadata.uid,
            },
        }

    def _now(self, form: str) -> str:
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime(form)


class ShardWatch:
    """Compares the present shards of the cluster with those at our start."""

    def __init__(self, report: Callable[[StoredShard], None] = lambda _: None) -> None:
        """Report nothing before :meth:`start`, which is never called if files define the shards.

        ``report`` is called with each shard whose status may have to be written.
        """
        self._served: dict[str, ShardSpec] | None = None
        self._found: dict[str, ShardSpec] = {}
        self._report = report
        self._log: Any = structlog.get_logger()
        self.outdated: tuple[str, ...] = ()
        """Changes that a restart would apply, for people to read."""
        self.wrong: dict[str, str] = {}
        """The first error of each shard that is wrong, by name."""

    def start(
        self, shards: Sequence[SchedulingShard], wrong: Mapping[str, Sequence[KaischedError]]
    ) -> None:
        """Remember the cluster's shards at the start, and the errors of wrong ones by name."""
        self._found = {shard.name: shard.spec for shard in shards}
        self._served = self._wanted()
        for name, errors in wrong.items():
            self._note_errors(name, errors)

    def handle(self, change: Change) -> None:
        """Process an added, changed or deleted shard; from the reflector's thread."""
        stored: Any = change.obj
        if self._served is None:
            return
        if change.is_gone:
            self._found.pop(stored.name, None)
            self.wrong.pop(stored.name, None)
        else:
            self._report(stored)
            reading = read(stored)
            self._note_errors(stored.name, reading.errors)
            if reading.shard is not None:
                self._found[stored.name] = reading.shard.spec
        wanted = self._wanted()
        outdated = tuple(
            f"{name}: {_difference(self._served.get(name), wanted.get(name))}"
            for name in sorted({*self._served, *wanted})
            if self._served.get(name) != wanted.get(name)
        )
        if outdated != self.outdated:
            self.outdated = outdated
            if outdated:
                fix = "restart the scheduler to apply them; until then it works as at its start"
                self._log.warning("shards_changed", shards=list(outdated), fix=fix)
            else:
                self._log.info("shards_as_at_start")

    def summary(self) -> str:
        """Return how the present shards differ from those at the start, for a probe."""
        texts = [f"{name} is wrong: {text}" for name, text in sorted(self.wrong.items())]
        if self.outdated:
            texts.append(f"restart to apply changes: {', '.join(self.outdated)}")
        return "; ".join(texts) or "as at the start"

    def _note_errors(self, name: str, errors: Sequence[KaischedError]) -> None:
        """Log the errors of a shard, once."""
        if not errors:
            self.wrong.pop(name, None)
        elif self.wrong.get(name) != str(errors[0]):
            self.wrong[name] = str(errors[0])
            fix = (
                "correct it; until then it counts as it was usable last, after a restart too"
                if name in self._found
                else "correct or delete it: it was never usable, and ends the next start"
            )
            self._log.error("shard_wrong", shard=name, err=[str(it) for it in errors], fix=fix)

    def _wanted(self) -> dict[str, ShardSpec]:
        """Return the shards that a restart would serve: without any, the default one."""
        default = default_shard()
        return dict(self._found) or {default.name: default.spec}


def _difference(served: ShardSpec | None, wanted: ShardSpec | None) -> str:
    """Name the parts in which two specs differ."""
    if served is None:
        return "is new"
    if wanted is None:
        return "is gone"
    old, new = msgspec.to_builtins(served), msgspec.to_builtins(wanted)
    parts = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
    return ", ".join(f"spec.{part}" for part in parts)
