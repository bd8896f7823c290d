"""Plan: some of the daemon's own cycles on a cluster in memory, in virtual time."""

from __future__ import annotations

import sys
from collections import ChainMap, Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaisched.clock import ManualClock
from kaisched.cluster.embedded import EmbeddedCluster, EmbeddedPool
from kaisched.cluster.pods import Sharing, leaving_of
from kaisched.cluster.pools.handover import PoolTurns, pool_turns
from kaisched.cluster.pools.owners import SharedOwners
from kaisched.cluster.store import StateStore
from kaisched.engine.migration.kueue import translate
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import read_shard, shard_among, shards_among
from kaisched.errors import ConfigError, ObjectError
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.records import who_failed
from kaisched.framework.report.result import ShardCycle
from kaisched.objects.faults import Source
from kaisched.objects.kueue import ClusterQueue
from kaisched.objects.labels import pool_name, time_of
from kaisched.objects.load import (
    Loaded,
    identity_of,
    jobs_for,
    load_manifests,
    load_text,
    missing_owners,
    without_pods,
    workloads_among,
)
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.units import UnitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.clock import Clock
    from kaisched.cluster.declared import Problem
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult
    from kaisched.objects.load import Manifest
    from kaisched.objects.shard import SchedulingShard
    from kaisched.objects.workloads import Table

OUR_NAMES: Final = ("kaisched", "kai-scheduler")
"""Scheduler names whose pods a plan places: ours, and KAI-Scheduler's, which we replace."""
STDIN: Final = "-"
PERIOD_S: Final = 1.0
"""Least virtual time between two cycles of a plan: the daemon's default period."""


@dataclass(frozen=True)
class PlanInput:
    """Objects to plan for, and the policy."""

    loaded: Loaded
    shard: SchedulingShard
    policy: Policy
    warnings: list[str]
    others: Sequence[tuple[SchedulingShard, Policy]] = ()
    """Shards of other node pools, with their policies."""


@dataclass(frozen=True)
class Plan:
    """Decisions of the cycles, and problems of the objects."""

    steps: list[ShardCycle] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def cycles(self) -> list[CycleResult]:
        """Decisions of the cycles, in order."""
        return [step.result for step in self.steps]


def read_plan_input(
    files: Sequence[str],
    shard_file: Path | None = None,
    actions: Sequence[str] | None = None,
    *,
    is_one: bool = True,
) -> PlanInput:
    """Read manifests and build the policy.

    Args:
        files: files, folders, or ``-`` for standard input.
        shard_file: file of the shard; by default the shard is among the manifests.
        actions: run these instead of the shard's, in this order.
        is_one: take no more than one shard among the manifests.

    Raises:
        ConfigError: a file does not exist, a shard is wrong, or there are too many.

    """
    loaded = read_manifests(files)
    if shard_file is not None:
        shards = [read_shard(shard_file)]
    else:
        shards = [shard_among(loaded)] if is_one else shards_among(loaded)
    pairs, warnings = [], [str(warning) for warning in loaded.warnings]
    for found in shards:
        policy, more_warnings = build_policy(found.shard, found.file, actions=actions)
        pairs.append((found.shard, policy))
        warnings += [*found.warnings, *more_warnings]
    (shard, policy), *others = pairs
    table = dict(ChainMap(*(dict(each.workloads) for _, each in pairs)))
    ours = jobs_for(loaded.objects, OUR_NAMES)
    warnings += complete(loaded, shard, policy, table=table)
    warnings += without_pods(loaded.objects, ours)
    return PlanInput(loaded, shard, policy, warnings, others)


def read_manifests(files: Iterable[str | Path]) -> Loaded:
    """Read files, folders and standard input together.

    Raises:
        ConfigError: a file does not exist.

    """
    names = [str(file) for file in files]
    for name in names:
        if name != STDIN and not Path(name).exists():
            raise ConfigError("no such file or folder", file=name)
    loaded = load_manifests([name for name in names if name != STDIN])
    if STDIN in names:
        more = load_text(sys.stdin.buffer.read(), "standard input")
        loaded.objects.extend(more.objects)
        loaded.problems.extend(more.problems)
        loaded.faulty.extend(more.faulty)
        loaded.warnings.extend(more.warnings)
        loaded.others.extend(more.others)
        loaded.sources.update(more.sources)
        loaded.files.update(more.files)
    loaded.warnings += _empty(names, loaded)
    return loaded


def _empty(names: Iterable[str], loaded: Loaded) -> Iterator[ObjectError]:
    """Yield a warning for each named file and folder in which nothing was found."""
    full = [file for file, objects in loaded.files.items() if objects]
    full += [problem.file for problem in loaded.problems]
    for name in names:
        file = "standard input" if name == STDIN else name
        if not any(Path(name) in (Path(it), *Path(it).parents) for it in full) and file not in full:
            what = "file" if Path(name).is_dir() else "object"
            fix = "name a folder of .yaml and .json files" if what == "file" else "check the path"
            yield ObjectError(f"holds no {what}", file=file, fix=fix)


def complete(
    loaded: Loaded,
    shard: SchedulingShard,
    policy: Policy,
    scheduler: str = OUR_NAMES[0],
    *,
    table: Table | None = None,
) -> list[str]:
    """Add workloads to the manifests, put our objects for Kueue's, and return warnings.

    Args:
        loaded: the manifests; workloads and problems with them are added.
        shard: the shard they are for.
        policy: its policy, which knows the grouping of the pods of each kind of workload.
        scheduler: gets the pods of Kueue's LocalQueues.
        table: the grouping for all shards, if there are several.

    """
    table = policy.workloads if table is None else table
    found = workloads_among(loaded.others, table)
    loaded.objects.extend(found.objects)
    loaded.problems.extend(found.problems)
    kinds = [f"{count} {kind}" for kind, count in sorted(found.left_out.items())]
    left_out = [f"objects of kinds that are not read were left out: {', '.join(kinds)}"]
    translated = translate(loaded, shard, policy, scheduler)
    missing = missing_owners(loaded.objects, table)
    return [*(left_out if kinds else ()), *translated, *missing]


def open_cluster(
    shard: SchedulingShard, policy: Policy, clock: Clock, schedulers: Iterable[str] = OUR_NAMES
) -> EmbeddedCluster:
    """Return an empty cluster in memory for the nodes of a shard."""
    return EmbeddedCluster(clock, schedulers=schedulers, **_options(shard, policy))


def _options(shard: SchedulingShard, policy: Policy) -> dict[str, Any]:
    """Return what a shard and its policy say of its state store."""
    return {
        "node_pool": shard.spec.partition_label_value,
        "gpu_resources": shard.spec.gpu_resources,
        "workloads": policy.workloads,
        "stuck_after_s": policy.stuck_after_s,
        "sharing": Sharing(share_class=shard.share_class, least=shard.least_share),
        "checks_queues": shard.spec.queue_use_policy,
    }


def fill(cluster: EmbeddedCluster, loaded: Loaded) -> list[ObjectError]:
    """Put the manifests into the cluster; return all problems."""
    problems = list(loaded.problems)

    def left_out(obj: Manifest, error: ObjectError) -> None:
        source = loaded.sources.get(identity_of(obj))
        if source is not None:
            error.file, error.document = source.file, source.document
        problems.append(error)

    # As a daemon keeps them: pods of a pod group with a fault hear of the fault.
    groups = [obj for obj, _ in loaded.faulty if isinstance(obj, PodGroup)]
    told = {(PodGroup.KIND, obj.key) for obj in groups} - loaded.sources.keys()
    groups = [obj for obj in groups if identity_of(obj) in told]
    # All at once: objects created at one instant are ordered by name, on a real clock too.
    cluster.load([*loaded.objects, *groups], on_error=left_out)
    _leave_out_queues(cluster, loaded.problems)
    for problem in cluster.problems():
        if (problem.kind, problem.name) in told:
            continue
        kind, name, source = place_of(problem, cluster, loaded)
        problems.append(
            ObjectError(
                # Do not repeat what the error itself says first.
                problem.text.removeprefix(f"{problem.kind} {problem.name}: "),
                file=source.file,
                document=source.document,
                kind=kind,
                name=name,
            )
        )
    return problems


def _leave_out_queues(cluster: EmbeddedCluster, problems: Iterable[ObjectError]) -> None:
    """Tell the cluster of queues that were left out, so that their jobs' reasons name the cause."""
    for problem in problems:
        is_queue = problem.kind in (Queue.KIND, ClusterQueue.KIND)
        if is_queue and all(it.rows.row_of_queue(problem.name) < 0 for it in cluster.stores):
            fault = ": ".join(filter(None, (problem.path, problem.message)))
            for store in cluster.stores:
                store.rows.leave_out_queue(problem.name, fault)


def planned_cluster(what: PlanInput) -> tuple[EmbeddedCluster, list[ObjectError]]:
    """Return a cluster with the objects, at the time of the newest one, and its problems."""
    clock = ManualClock(_newest_s(what.loaded.objects))
    cluster = open_cluster(what.shard, what.policy, clock)
    return cluster, fill(cluster, what.loaded)


def plan(what: PlanInput, rounds: int = 1) -> Plan:
    """Run cycles until nothing changes any more, at most ``rounds``.

    A cycle without decisions is not the last if it noted something new: a job waited in vain.
    Time is virtual. It begins with the last creation or deletion of an object, and advances to the
    cluster's next event, at least a second a cycle. In a round each shard has a cycle, and one more
    if jobs are passed on to it.
    """
    clock = ManualClock(_newest_s(what.loaded.objects))
    shards, planned = _opened(what, clock)
    cluster = shards.cluster
    for _ in range(rounds):
        steps, is_settled = shards.round()
        planned.steps.extend(steps)
        due = [at_s for at_s in (cluster.next_event_s(), shards.next_end_s()) if at_s is not None]
        if not due and is_settled:
            break
        cluster.advance_to(max(min(due, default=0.0), clock.now_s() + PERIOD_S))
    planned.warnings.extend(failures_of(planned.cycles))
    planned.warnings.extend(
        f"{it.what.replace('_', ' ')}: pod {it.pod} on {it.node}: {it.detail}"
        for it in cluster.history
        if it.what in ("bind_failed", "eviction_failed")
    )
    return planned


def cycles_in_pools(what: PlanInput) -> Plan:
    """Let each shard have its next cycle, and pass no job on: each is in one pool."""
    shards, planned = _opened(what, ManualClock(_newest_s(what.loaded.objects)))
    planned.steps.extend(shards.cycles())
    planned.warnings.extend(failures_of(planned.cycles))
    return planned


def _opened(what: PlanInput, clock: ManualClock) -> tuple[PlannedShards, Plan]:
    """Return the shards with the objects, and the plan that begins."""
    shards = PlannedShards([(what.shard, what.policy), *what.others], clock)
    problems = fill(shards.cluster, what.loaded)
    warnings = [*what.warnings, *_nothing_to_do(shards.cluster)]
    return shards, Plan(problems=problems, warnings=warnings)


def failures_of(cycles: Iterable[CycleResult]) -> list[str]:
    """Describe each failure of a plugin or an action once."""
    failures = (each for cycle in cycles for each in cycle.failures)
    texts = (f"{who_failed(each.plugin, each.question)} failed: {each.error}" for each in failures)
    return list(dict.fromkeys(texts))


def _nothing_to_do(cluster: EmbeddedCluster) -> list[str]:
    """Say what is missing if a plan can only be empty."""
    snapshots = [cluster.snapshot_of(store) for store in cluster.stores]
    if not any(len(snapshot.nodes) for snapshot in snapshots):
        return ["no nodes among the manifests, so nothing can be placed"]
    if not any(len(snapshot.jobs.name) for snapshot in snapshots):
        return [f"no pods of ours among the manifests: schedulerName {' or '.join(OUR_NAMES)}"]
    return []


def _newest_s(objects: Iterable[Manifest]) -> float:
    """Return the time of the last creation or deletion that the objects show."""
    newest_s = 0.0
    for obj in objects:
        leaving = leaving_of(obj.metadata)
        if leaving is not None and leaving.asked_s > newest_s:  # not where it is NaN
            newest_s = leaving.asked_s
        try:
            newest_s = max(newest_s, time_of(obj.metadata.creation_timestamp))
        except UnitError:
            continue  # reported elsewhere, or of no interest
    return newest_s


def step_of(
    shard: SchedulingShard, result: CycleResult, moved: Iterable[tuple[str, str]] = ()
) -> ShardCycle:
    """Return a cycle of a shard; ``moved`` are the jobs that went on, with their pools."""
    passed_on = {job: pool_name(pool) for job, pool in moved}
    return ShardCycle(shard.name, pool_name(shard.spec.partition_label_value), result, passed_on)


@dataclass(slots=True)
class _PlannedShard:
    shard: SchedulingShard
    policy: Policy
    port: EmbeddedPool
    turns: PoolTurns
    memory: Memory


class PlannedShards:
    """The shards of a cluster in memory, which pass jobs with lists of pools on to each other."""

    def __init__(
        self,
        shards: Sequence[tuple[SchedulingShard, Policy]],
        clock: Clock,
    ) -> None:
        """Make an empty cluster, and a store of it for each shard."""
        owners = SharedOwners()
        self._woken: set[int] = set()
        """Shards that were given a job, by their place in the order."""
        self._moves: Counter[str] = Counter()
        """By job, how often it was passed on since anything else happened."""
        self._shards: list[_PlannedShard] = []
        for at, (shard, policy) in enumerate(shards):
            spec = shard.spec
            owners_here = owners.for_shard(
                spec.partition_label_value,
                admits_all=spec.admits_all_projects,
                wake=partial(self._woken.add, at),
            )
            options = {**_options(shard, policy), "owners": owners_here}
            if at == 0:
                self.cluster = EmbeddedCluster(clock, schedulers=OUR_NAMES, **options)
                store = self.cluster.store
            else:
                store = StateStore(OUR_NAMES, offers_shares=True, **options)
            port = EmbeddedPool(self.cluster, store)
            turns = pool_turns(store, shard)
            self._shards.append(_PlannedShard(shard, policy, port, turns, Memory()))

    def round(self) -> tuple[list[ShardCycle], bool]:
        """Let each shard have a cycle, and again those that are given jobs.

        Returns:
            The cycles, and whether all is settled: nothing was done, and nothing new was noted.

        """
        steps, is_settled = [], True
        waiting = list(range(len(self._shards)))
        while waiting:
            for at in waiting:
                step, is_idle = self._cycle(self._shards[at])
                self._woken.discard(at)  # what it was given before its cycle it has seen
                steps.append(step)
                is_settled &= is_idle
            waiting = sorted(self._woken)
        if not is_settled:
            self._moves.clear()
        for step in steps:
            self._moves.update(step.passed_on.keys())
        return steps, is_settled

    def cycles(self) -> list[ShardCycle]:
        """Let each shard have a cycle after which no job is passed on."""
        return [self._cycle(one, is_passing=False)[0] for one in self._shards]

    def next_end_s(self) -> float | None:
        """Return when the next job may go on to another pool that did not refuse it as all is."""
        now_s = self.cluster.clock.now_s()
        ends = [one.turns.next_end_s(now_s, partial(self._is_new_to, one)) for one in self._shards]
        return min((end_s for end_s in ends if end_s is not None), default=None)

    def _is_new_to(self, one: _PlannedShard, job: str) -> bool:
        """Tell whether a job was not passed on through its whole list since anything happened."""
        book = one.port.store.pools
        laps = 2 if book.is_idle_first else 1
        return self._moves[job] < laps * len(book.jobs[job].pools)

    def _cycle(self, one: _PlannedShard, *, is_passing: bool = True) -> tuple[ShardCycle, bool]:
        port, clock = one.port, self.cluster.clock
        cycle = next_cycle(port, port, one.policy, None, clock, one.memory)
        is_idle = not cycle.has_intents and _noted(cycle.memory) == _noted(one.memory)
        one.memory = cycle.memory
        # Read at once: results are computed from the state that their cycle left.
        len(cycle.result.records), len(cycle.result.shares)
        now_s = clock.now_s()
        moved = one.turns.after(cycle.snapshot, cycle.result, now_s) if is_passing else []
        return step_of(one.shard, cycle.result, moved), is_idle


def _noted(memory: Memory) -> dict[str, object]:
    """Return the facts of a cycle which could change the next one."""
    return {name: fact for name, fact in memory.facts.items() if fact}


def place_of(problem: Problem, cluster: EmbeddedCluster, loaded: Loaded) -> tuple[str, str, Source]:
    """Return kind, name and source of the object that a problem is about.

    A job without a PodGroup has what its pods and their owners say. Of these the first that has the
    label or annotation which the problem names is meant, or else the first pod.
    """
    at = (problem.kind, problem.name)
    if at in loaded.sources or problem.kind != PodGroup.KIND:
        return *at, loaded.sources.get(at, Source())
    sayers = list(_sayers(problem.name, cluster, loaded))
    told = [obj for obj in sayers if _is_named(obj, problem.text)]
    for obj in told or sayers:
        source = _source_of(obj, loaded)
        if source is not None:
            kind, name = identity_of(obj)
            return kind.partition(".")[0], name, source
    return *at, Source()


def _sayers(job: str, cluster: EmbeddedCluster, loaded: Loaded) -> Iterator[Manifest]:
    """Yield the pods of a job among the manifests, and then what owns them, from inside out."""
    keys = {pod.key for store in cluster.stores for pod in store.members.pods_of(job)}
    pods = [pod for pod in loaded.of(Pod) if pod.key in keys]
    found: list[Manifest] = [*sorted(pods, key=lambda pod: pod.key)]
    of_uid = {obj.metadata.uid: obj for obj in loaded.objects if obj.metadata.uid}
    for obj in found:  # grows
        yield obj
        for owner in obj.metadata.owner_references:
            if owner.uid in of_uid and of_uid[owner.uid] not in found:
                found.append(of_uid[owner.uid])


def _is_named(obj: Manifest, text: str) -> bool:
    meta = obj.metadata
    return any(f"{key}'" in text or f".{key}:" in text for key in (*meta.annotations, *meta.labels))


def _source_of(obj: Manifest, loaded: Loaded) -> Source | None:
    kind, name = identity_of(obj)
    among = (
        it.source
        for it in loaded.others
        if (it.kind, it.name) == (kind.partition(".")[0], obj.metadata.name)
    )
    return loaded.sources.get((kind, name)) or next(among, None)
