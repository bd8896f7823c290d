"""Recording: one file with all inputs of a cycle, so that the cycle can be run again.

``docs/reference/snapshot-file.md`` describes the file. A file may come from a stranger: it is plain
JSON, sizes are bounded before anything is read as a whole, and every value is checked.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import gzip
import hashlib
import io
import math
import platform
import zlib
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NoReturn

import msgspec
import numpy as np
from msgspec.structs import replace

from kaisched import __version__
from kaisched.cluster.grouping import Owner
from kaisched.cluster.pods import Sharing
from kaisched.cluster.rowstore import JobPast
from kaisched.cluster.state import Assumed, PoolState, StoreState, restored
from kaisched.core.axis import FIXED
from kaisched.core.usage import Usage, UsageState
from kaisched.engine.policy import build_policy
from kaisched.errors import ConfigError, ObjectError, join_path
from kaisched.files import replace_file
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.decode import BadObject, decode_object, type_of, without_nulls
from kaisched.objects.faults import Fault, Source, explain, to_error
from kaisched.objects.load import within
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import BAD_JSON, ObjectMeta, StrictWire
from kaisched.objects.workloads import Gang

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.cluster.store import StateStore
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult
    from kaisched.objects.wire import KubernetesObject

SCHEMA: Final = "kaisched.io/snapshot/v1"
LATEST_S: Final = 1e11
"""Latest possible time of a recording, in seconds since 1970."""
_MOST_PARTS: Final = 1 << 62

Seconds = Annotated[float, msgspec.Meta(ge=0, le=LATEST_S)]
Parts = Annotated[int, msgspec.Meta(ge=0, le=_MOST_PARTS)]


class Versions(StrictWire, frozen=True, kw_only=True):
    """Versions of the software that made the recording."""

    kaisched: str
    python: str = ""
    numpy: str = ""
    plugins: dict[str, str] = {}
    """Enabled plugins, with the name and version of their packages."""


class RecordedOwner(Gang, frozen=True, kw_only=True):
    """Metadata of a workload, and the gang in its spec."""

    group: str
    kind: str
    metadata: ObjectMeta

    @property
    def gang(self) -> Gang:
        """The gang alone."""
        return Gang(**{name: getattr(self, name) for name in Gang.__struct_fields__})


class RecordedAssumption(StrictWire, frozen=True, kw_only=True):
    """A pod with a bind, an eviction or a promise that was sent and is not confirmed."""

    pod: str
    node: str = ""
    sent: Literal["bind", "eviction", "promise"]
    cards: list[str] = []
    """The groups of the shared GPUs of a bind."""


class RecordedPast(StrictWire, frozen=True, kw_only=True):
    """Times of a job's last start and eviction, as far as the scheduler itself knew."""

    started_s: Seconds | None = msgspec.field(default=None, name="startedSeconds")
    evicted_s: Seconds | None = msgspec.field(default=None, name="evictedSeconds")


class RecordedPools(StrictWire, frozen=True, kw_only=True):
    """Which jobs with lists of node pools were the shard's, each by one of its pods."""

    served: dict[str, bool]
    """The pools that shards serve, with whether each admits all projects."""
    owned: list[str] = []
    impatient: list[str] = []
    """Of jobs that might evict although idle pools come first."""


class RecordedUsage(StrictWire, frozen=True, kw_only=True):
    """Usage history as the division saw it, in parts per billion of the capacity."""

    resources: list[str]
    queues: dict[str, list[Parts]]
    age_s: Seconds | None = msgspec.field(default=None, name="ageSeconds")
    """None without any sample."""
    coverage: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    state: Literal["fresh", "partial", "stale", "absent"] = "fresh"
    reasons: list[str] = []
    weighed_s: Seconds | None = msgspec.field(default=None, name="weighedSeconds")
    """None if it is unknown how much of the past the parts cover."""


class Recording(StrictWire, frozen=True, kw_only=True):
    """All inputs of one cycle, and a digest of its result."""

    schema_version: Literal["kaisched.io/snapshot/v1"]
    origin: Literal["daemon", "cluster", "manifests"]
    is_redacted: bool = msgspec.field(default=False, name="redacted")
    versions: Versions
    now_s: Seconds = msgspec.field(name="nowSeconds")
    shard: dict[str, Any]
    """The SchedulingShard, without the address of its usage store."""
    scheduler_names: list[str]
    extended: list[str] = []
    """Resources besides cpu, memory, gpu and pods."""
    objects: list[msgspec.Raw]
    owners: list[RecordedOwner] = []
    assumed: list[RecordedAssumption] = []
    past: dict[str, RecordedPast] = {}
    evictions_s: list[Seconds] = msgspec.field(default_factory=list, name="evictionsSeconds")
    """Times of the evictions in the last hour, for an eviction budget."""
    disrupted: list[str] = []
    """Evicted pods that disruption budgets still count."""
    stuck: list[str] = []
    """Pods deleted so long ago that their room is no longer expected."""
    without_owner: list[str] = []
    """Pods that waited for an unread owner."""
    has_volumes: bool = msgspec.field(default=False, name="volumes")
    """Whether claims, volumes and classes were known, so that pods waited for their claims."""
    offers_shares: bool = msgspec.field(default=False, name="shares")
    """Whether pods could share GPUs."""
    pools: RecordedPools | None = None
    """None where there was one pool."""
    has_reservations: bool = msgspec.field(default=False, name="reservations")
    """Whether reservation pods held the GPUs that pods shared."""
    writes_lookups: bool = msgspec.field(default=False, name="lookups")
    """Whether ConfigMaps were written in which pods look up their GPU."""
    claims: str = ""
    """Whether claims on devices were allocated: empty if the objects say so, "on", "off", or why
    pods with claims waited."""
    usage: RecordedUsage | None = None
    facts: dict[str, Any] = {}
    """Memory of plugins and actions from the cycle before, by their names."""
    result: str = ""
    """SHA-256 of the result's canonical bytes; empty without a result."""


def record(
    origin: Literal["daemon", "cluster", "manifests"],
    state: StoreState,
    shard: SchedulingShard,
    policy: Policy,
    *,
    schedulers: Iterable[str],
    now_s: float,
    usage: RecordedUsage | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Recording:
    """Return a recording without a result: see :func:`kaisched.engine.recording.sealed`."""
    return Recording(
        schema_version=SCHEMA,
        origin=origin,
        versions=_versions(policy),
        now_s=now_s,
        shard=plain_shard(shard, policy),
        scheduler_names=sorted(schedulers),
        extended=list(state.extended),
        objects=[msgspec.Raw(data) for data in state.objects],
        owners=[recorded_owner(it) for it in state.owners],
        assumed=[
            RecordedAssumption(pod=it.pod, node=it.node, sent=_sent(it), cards=[*it.cards])
            for it in state.assumed
        ],
        past={
            job: RecordedPast(started_s=it.started_s, evicted_s=it.evicted_s)
            for job, it in state.past.items()
        },
        evictions_s=list(state.evictions_s),
        disrupted=list(state.disrupted),
        stuck=list(state.stuck),
        without_owner=list(state.without_owner),
        has_volumes=state.has_volumes,
        offers_shares=state.offers_shares,
        pools=recorded_pools(state.pools),
        has_reservations=state.sharing.has_reservations,
        writes_lookups=state.sharing.writes_lookups,
        claims=state.claims,
        usage=usage,
        facts=dict(facts or {}),
    )


def recorded_pools(pools: PoolState | None) -> RecordedPools | None:
    """Return what a shard owned as it is recorded."""
    if pools is None:
        return None
    return RecordedPools(
        served=dict(pools.served), owned=list(pools.owned), impatient=list(pools.impatient)
    )


def recorded_owner(owner: Owner) -> RecordedOwner:
    """Return a workload as it is recorded."""
    return RecordedOwner(
        group=owner.api_group,
        kind=owner.kind,
        metadata=owner.meta,
        **{name: getattr(owner.gang, name) for name in Gang.__struct_fields__},
    )


def _sent(assumed: Assumed) -> Literal["bind", "eviction", "promise"]:
    if assumed.is_promise:
        return "promise"
    return "eviction" if assumed.is_leaving else "bind"


def recorded_usage(usage: Usage | None, snapshot: Snapshot) -> RecordedUsage | None:
    """Return usage by name; ``snapshot`` is the one that the usage is for."""
    if usage is None:
        return None
    return RecordedUsage(
        resources=list(snapshot.axis.names),
        queues=dict(zip(snapshot.queues.name, usage.parts.T.tolist(), strict=True)),
        age_s=usage.age_s if usage.age_s < float("inf") else None,
        coverage=usage.coverage,
        state=usage.state.value,
        reasons=list(usage.reasons),
        weighed_s=usage.weighed_s if usage.weighed_s < float("inf") else None,
    )


def plain_shard(shard: SchedulingShard, policy: Policy) -> dict[str, Any]:
    """Return a shard as plain values, without the address of its usage store.

    An address may hold a password, and a replay reads no store. The store itself remains, since it
    enables fairness over time. Overrides by the process are written into the shard.
    """
    spec: dict[str, Any] = msgspec.to_builtins(shard.spec)
    if policy.evictions_per_hour >= 0:
        spec["evictionsPerHour"] = policy.evictions_per_hour
    store = spec.get("usageDBConfig")
    if isinstance(store, dict):
        for secret in ("connectionString", "connectionStringEnvVar", "extraParams"):
            store.pop(secret, None)
        store.get("usageParams", {}).pop("extraParams", None)
    return {
        "apiVersion": shard.API_VERSION,
        "kind": shard.KIND,
        "metadata": {"name": shard.name},
        "spec": spec,
    }


def resources_of(recording: Recording) -> tuple[str, ...]:
    """Return the names of all resources, in the order of the axis."""
    return (*FIXED, *sorted(recording.extended))


def _versions(policy: Policy) -> Versions:
    return Versions(
        kaisched=__version__,
        python=platform.python_version(),
        numpy=version("numpy"),
        plugins={
            it.plugin.name: f"{it.distribution} {it.version}".strip() for it in policy.plugins
        },
    )


MAX_FILE: Final = 256 << 20
"""Largest file that is read, in bytes."""
MAX_UNPACKED: Final = 1 << 30
"""Most bytes of an unpacked file."""
MAX_RATIO: Final = 200
"""Most bytes unpacked per byte of a compressed file; our files have about 30."""
_FREE: Final = 1 << 20
"""Bytes that a compressed file may always unpack to."""
_BLOCK: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
_FIX: Final = "name a file that `kaisched snapshot take` has written"
_DECODER: Final = msgspec.json.Decoder(Recording)


def encoded(recording: Recording) -> bytes:
    """Encode a recording as JSON; equal recordings give equal bytes."""
    return msgspec.json.encode(recording, order="sorted") + b"\n"


def write_recording(recording: Recording, file: Path) -> None:
    """Write a recording, whole or not at all; compressed if its name ends in ``.gz``.

    Raises:
        ConfigError: the file cannot be written.

    """
    data = encoded(recording)
    if file.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    try:
        replace_file(file, data)
    except OSError as wrong:
        raise ConfigError(
            f"cannot be written: {wrong.strerror or wrong}",
            file=str(file),
            fix="name a file in a folder that you may write to",
        ) from wrong


def read_recording(file: Path) -> Recording:
    """Read a recording.

    Raises:
        ConfigError: the file is missing, too large, or no recording; names path and value.

    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE + 1)
    except OSError as wrong:
        raise ConfigError(
            f"cannot be read: {wrong.strerror or wrong}", file=str(file), fix=_FIX
        ) from wrong
    if len(data) > MAX_FILE:
        raise ConfigError(f"larger than {MAX_FILE >> 20} MiB", file=str(file), fix=_FIX)
    return parsed(data, str(file))


def parsed(data: bytes, name: str) -> Recording:
    """Parse the recording in the bytes of a file; errors name ``name`` as the file.

    Raises:
        ConfigError: it is no recording, or too large.

    """
    text = _unpacked(data, name) if data.startswith(_GZIP) else data
    try:
        return _DECODER.decode(text)
    except msgspec.ValidationError as wrong:
        raise _explained(text, name, str(wrong)) from None
    except BAD_JSON as wrong:
        raise ConfigError(f"no JSON: {wrong}", file=name, fix=_FIX) from None
    except RecursionError:
        raise ConfigError("nested too deep", file=name, fix=_FIX) from None


def _unpacked(data: bytes, name: str) -> bytes:
    """Unpack a compressed file, and stop as soon as it is too large."""
    most = min(MAX_UNPACKED, max(_FREE, MAX_RATIO * len(data)))
    parts: list[bytes] = []
    size = 0
    try:
        for part in _parts(data):
            parts.append(part)
            size += len(part)
            if size > most:
                raise ConfigError(
                    f"unpacks to more than {most} bytes, as no recording of {len(data)} bytes does",
                    file=name,
                    fix=_FIX,
                )
    except (OSError, EOFError, zlib.error) as wrong:
        raise ConfigError(f"no gzip file: {wrong}", file=name, fix=_FIX) from wrong
    return b"".join(parts)


def _parts(data: bytes) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        while part := stream.read(_BLOCK):
            yield part


def _explained(text: bytes, name: str, said: str) -> ConfigError:
    """Return the first fault of JSON that is no recording, with path and value."""
    try:
        value: Any = without_nulls(msgspec.json.decode(text))
    except RecursionError:
        return ConfigError("nested too deep", file=name, fix=_FIX)
    except (msgspec.DecodeError, ValueError) as wrong:
        return ConfigError(str(wrong), file=name, fix=_FIX)
    found = value.get("schemaVersion") if isinstance(value, dict) else None
    if found != SCHEMA:
        return ConfigError(
            "no recording of a version that is read here",
            file=name,
            path="schemaVersion",
            value=found,
            fix=f"it must be {SCHEMA}; {_FIX}",
        )
    fault = next(explain(value, Recording), None)
    if fault is None:
        return ConfigError(said, file=name, fix=_FIX)
    error = to_error(fault, Source(name))
    return ConfigError(
        error.message, file=name, path=error.path, value=error.value, fix=error.fix or _FIX
    )


TIMES_BY_JOB: Final = ("stalegang", "stalegang.hopes", "promises", "timelimit")
"""Facts of actions that hold, for each job, the time since which something is true."""
TURNS: Final = "turns"


@dataclass(frozen=True, slots=True)
class Replay:
    """Outcome of a recording's replay."""

    snapshot: Snapshot
    result: CycleResult
    problems: list[ObjectError] = field(default_factory=list)
    """Problems of objects that were left out."""
    warnings: list[str] = field(default_factory=list)
    objects: Sequence[KubernetesObject | Owner] = ()
    """Those that were read, workloads among them."""


def digest(result: CycleResult) -> str:
    """Return the SHA-256 of a result's canonical bytes."""
    return hashlib.sha256(result.encode()).hexdigest()


def sealed(recording: Recording, result: CycleResult) -> Recording:
    """Return a recording with the digest of its result."""
    return replace(recording, result=digest(result))


def replay(recording: Recording, file: str = "", shard: SchedulingShard | None = None) -> Replay:
    """Run the cycle of a recording, by its own shard or by ``shard``.

    Raises:
        ConfigError: the recording contradicts itself; names file, path and value.
        ObjectError: its shard is wrong.
        PluginError: a plugin of the shard is not installed, or is broken.

    """
    shard = shard if shard is not None else recorded_shard(recording, file)
    policy, warnings = build_policy(shard, file)
    _check_facts(recording, file)
    objects, problems = objects_of(recording, file)
    owners = [Owner(it.group, it.kind, it.metadata, it.gang) for it in recording.owners]
    snapshot = _store(recording, objects, owners, shard, policy).snapshot()
    usage = None
    if recording.usage is not None:
        usage = _usage(recording.usage, snapshot, file)
    result, _ = run_cycle(snapshot, usage, policy, recording.now_s, Memory(recording.facts))
    return Replay(snapshot, result, problems, warnings, [*objects, *owners])


def recorded_shard(recording: Recording, file: str = "") -> SchedulingShard:
    """Return the shard of a recording.

    Raises:
        ObjectError: the shard is wrong.

    """
    try:
        return decode_object(recording.shard, SchedulingShard, Source(file))[0]
    except BadObject as bad:
        raise within(bad.errors, ("shard",))[0] from None


def objects_of(
    recording: Recording, file: str = ""
) -> tuple[list[KubernetesObject], list[ObjectError]]:
    """Return the objects of a recording, and an error for each bad one."""
    objects: list[KubernetesObject] = []
    problems: list[ObjectError] = []
    for number, data in enumerate(recording.objects):
        try:
            objects.append(_object(data, Source(file)))
        except BadObject as bad:
            problems.extend(within(bad.errors, ("objects", number)))
    return objects, problems


def _object(data: msgspec.Raw, source: Source) -> KubernetesObject:
    raw: Any = msgspec.json.decode(data)
    raw = raw if isinstance(raw, dict) else {}
    kind = str(raw.get("kind", ""))
    type_ = type_of(str(raw.get("apiVersion", "")), kind)
    if type_ is None or isinstance(type_, Fault):
        message = "no such kind" if type_ is None else type_.message
        raise BadObject([ObjectError(message, file=source.file, kind=kind, path="kind")])
    return decode_object(raw, type_, source)[0]


def _store(
    recording: Recording,
    objects: Iterable[KubernetesObject],
    owners: Iterable[Owner],
    shard: SchedulingShard,
    policy: Policy,
) -> StateStore:
    state = StoreState(
        objects=(),
        owners=tuple(owners),
        extended=tuple(recording.extended),
        assumed=tuple(
            Assumed(it.pod, it.node, it.sent == "eviction", it.sent == "promise", tuple(it.cards))
            for it in recording.assumed
        ),
        evictions_s=tuple(recording.evictions_s),
        disrupted=tuple(recording.disrupted),
        stuck=tuple(recording.stuck),
        without_owner=tuple(recording.without_owner),
        has_volumes=recording.has_volumes,
        offers_shares=recording.offers_shares,
        pools=_pools(recording.pools),
        sharing=Sharing(
            recording.has_reservations,
            recording.writes_lookups,
            shard.share_class,
            shard.least_share,
        ),
        claims=recording.claims,
        past={job: JobPast(it.started_s, it.evicted_s) for job, it in recording.past.items()},
    )
    pool, gpus = shard.spec.partition_label_value, shard.spec.gpu_resources
    names, table = recording.scheduler_names, policy.workloads
    checks = shard.spec.queue_use_policy
    return restored(objects, state, names, pool, gpus, table, checks_queues=checks)


def _pools(recorded: RecordedPools | None) -> PoolState | None:
    if recorded is None:
        return None
    return PoolState(recorded.served, tuple(recorded.owned), tuple(recorded.impatient))


def _usage(recorded: RecordedUsage, snapshot: Snapshot, file: str) -> Usage:
    """Return the usage of the snapshot's queues and resources; none if none is recorded."""
    parts = np.zeros((len(snapshot.axis), len(snapshot.queues)), np.int64)
    rows = [snapshot.axis.position.get(name, -1) for name in recorded.resources]
    position = {name: column for column, name in enumerate(snapshot.queues.name)}
    for name, amounts in recorded.queues.items():
        if len(amounts) != len(rows):
            raise ConfigError(
                f"{len(amounts)} numbers for {len(rows)} resources",
                file=file,
                path=join_path("usage", "queues", name),
                fix="give one number for each of usage.resources",
            )
        column = position.get(name, -1)
        for row, amount in zip(rows, amounts, strict=True):
            if row >= 0 and column >= 0:
                parts[row, column] = amount
    parts.setflags(write=False)
    age_s = math.inf if recorded.age_s is None else recorded.age_s
    state, reasons = UsageState(recorded.state), tuple(recorded.reasons)
    weighed_s = math.inf if recorded.weighed_s is None else recorded.weighed_s
    return Usage(parts, age_s, recorded.coverage, state, reasons, weighed_s)


def _check_facts(recording: Recording, file: str) -> None:
    """Refuse facts that would break an action; a cycle isolates failing plugins by itself."""
    for name in TIMES_BY_JOB:
        since = recording.facts.get(name, {})
        if not (isinstance(since, dict) and all(map(_is_number, since.values()))):
            _refuse_fact(name, since, "no times by job", "a map of job names to seconds", file)
    turns = recording.facts.get(TURNS, [])
    if not (isinstance(turns, list) and all(map(_is_eviction, turns))):
        fix = "a list of [state, beneficiary, seconds], all numbers"
        _refuse_fact(TURNS, turns, "no evictions", fix, file)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_eviction(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(_is_number, value))  # noqa: PLR2004


def _refuse_fact(name: str, value: object, problem: str, fix: str, file: str) -> NoReturn:
    path = join_path("facts", name)
    raise ConfigError(problem, file=file, path=path, value=value, fix=f"write {fix}")
