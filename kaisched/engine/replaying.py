"""Replay: runs the cycle of a recording again."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec
import numpy as np
from msgspec.structs import replace

from kaisched.cluster.grouping import Owner
from kaisched.cluster.pods import Sharing
from kaisched.cluster.rowstore import JobPast
from kaisched.cluster.state import Assumed, PoolState, StoreState, restored
from kaisched.core.usage import Usage, UsageState
from kaisched.engine.policy import build_policy
from kaisched.errors import ConfigError, ObjectError, join_path
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.decode import BadObject, decode_object, type_of
from kaisched.objects.faults import Fault, Source
from kaisched.objects.load import within
from kaisched.objects.shard import SchedulingShard

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.cluster.store import StateStore
    from kaisched.core.snapshot import Snapshot
    from kaisched.engine.recording import RecordedPools, RecordedUsage, Recording
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult
    from kaisched.objects.wire import KubernetesObject

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
    objects: Sequence[KubernetesObject] = ()
    """Those that were read."""


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
    snapshot = _store(recording, objects, shard, policy).snapshot()
    usage = None
    if recording.usage is not None:
        usage = _usage(recording.usage, snapshot, file)
    result, _ = run_cycle(snapshot, usage, policy, recording.now_s, Memory(recording.facts))
    return Replay(snapshot, result, problems, warnings, objects)


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
    shard: SchedulingShard,
    policy: Policy,
) -> StateStore:
    state = StoreState(
        objects=(),
        owners=tuple(Owner(it.group, it.kind, it.metadata, it.gang) for it in recording.owners),
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
        sharing=Sharing(recording.has_reservations, recording.writes_lookups, shard.share_class),
        claims=recording.claims,
        past={job: JobPast(it.started_s, it.evicted_s) for job, it in recording.past.items()},
    )
    pool, gpus = shard.spec.partition_label_value, shard.spec.gpu_resources
    names, table = recording.scheduler_names, policy.workloads
    return restored(objects, state, names, pool, gpus, table)


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
