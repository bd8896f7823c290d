"""Linter of manifests: everything that is wrong with them, without a cluster.

It asks the checks that loading, planning and the daemon use, and adds those that need all objects
at once: quotas against those above and against the nodes, and the queues that jobs name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.clock import ManualClock
from kaisched.cluster.claims.device_claims import NOTHING_KNOWN
from kaisched.cluster.pools.projects import different_lists
from kaisched.config.loading import settings_errors
from kaisched.config.settings import KIND as SETTINGS_KIND
from kaisched.core.axis import CPU, GPU, MEMORY, TaskState
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.engine.lint_names import claim_doubts, unknown_names
from kaisched.engine.planning import (
    PlanInput,
    PlannedShards,
    complete,
    fill,
    planned_cluster,
    read_manifests,
)
from kaisched.engine.policy import build_policy, default_policy, default_shard
from kaisched.engine.shards import read_shard, shard_errors, shared_pools
from kaisched.errors import ConfigError, KaischedError, ObjectError
from kaisched.objects.decode import faults_of
from kaisched.objects.faults import Fault, Source, did_you_mean, to_error
from kaisched.objects.gpus import SHARE_IS_NO_CLAIM
from kaisched.objects.labels import queue_of
from kaisched.objects.load import check_queues, identity_of
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import TIME_BASED_FAIRSHARE, SchedulingShard
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import PartialObject
from kaisched.units import UNLIMITED, format_amount, parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.cluster.store import StateStore
    from kaisched.core.axis import BoolVec, FloatVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import QueueTable
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.policy import Policy
    from kaisched.objects.load import Loaded, Manifest

_ABOUT_QUEUES: Final = (Refusal.QUEUE_MISSING, Refusal.QUEUE_ORPHAN, Refusal.QUEUE_NOT_LEAF)
RULES: Final = {
    "object": "An object has a fault and is not used.",
    "without-effect": "A value is accepted and has no effect, or not the one that was meant.",
    "queue-tree": "A queue has no parents up to a root, or is in a cycle.",
    "pool-lists": "Queues of one project list different node pools.",
    "quota-sum": "Quotas below a queue add up to more than it has, or than the cluster has.",
    "unbounded": "A queue has work without GPUs that gives way to no quota of GPUs.",
    "min-runtime": "A job is larger than its queue's part, and nothing protects it.",
    "unknown-queue": "A job names a queue that cannot take it.",
    "unknown-topology": "A job names a topology or level that no Topology here has, or can have.",
    "unknown-class": "A claim names a device class that no DeviceClass among the files is.",
    "selector": "A selector of devices does not parse, or is not understood here.",
    "shard": "A SchedulingShard has an error in its policy.",
    "settings": "A settings file has an error.",
    "scenario": "A scenario file has an error, or jobs that wait for ever.",
}
"""Rules by name, with what a finding of each means."""


class Finding(NamedTuple):
    """A fault of an object, or a doubt about it."""

    rule: str
    error: KaischedError
    is_error: bool = True
    document: int = 0
    """Number of the document in the file; 0 where it is not known."""


def lint(files: Sequence[str], shard_file: Path | None = None) -> list[Finding]:
    """Return all findings about files, folders, or ``-`` for standard input; each once.

    Raises:
        ConfigError: a file does not exist, or the shard file is wrong.

    """
    return found_in(read_manifests(files), shard_file)


def found_in(loaded: Loaded, shard_file: Path | None = None) -> list[Finding]:
    """Return all findings about manifests; each once.

    Args:
        loaded: what to check; what is missing is added.
        shard_file: the shard that they are for; by default the only one among them.

    Raises:
        ConfigError: the shard file is wrong.

    """
    given = read_shard(shard_file) if shard_file is not None else None
    found = [
        *_settings(loaded),
        *(_of_object("object", problem) for problem in loaded.problems),
        *(
            _of_object("without-effect", it, is_error=False)
            for it in loaded.warnings
            if not it.path.startswith("status.")  # which manifests do not have yet
        ),
        *_queue_tree(loaded),
        *_pool_lists(loaded),
        *_shards(loaded, given),
        *(
            _of_object(it.rule, it.error, is_error=it.is_error)
            for it in (*unknown_names(loaded), *claim_doubts(loaded))
        ),
    ]
    _use_all_that_have_a_form(loaded)
    found += _together(loaded, given.shard if given is not None else None)
    once: dict[str, Finding] = {}
    for finding in found:
        once.setdefault(str(finding.error), finding)
    return list(once.values())


def _of_object(rule: str, error: ObjectError, *, is_error: bool = True) -> Finding:
    return Finding(rule, error, is_error, error.document)


def _of_queue(loaded: Loaded, name: str, message: str, path: str, fix: str) -> ObjectError:
    """Return what is to be said of a queue, at the place where it is written."""
    source = loaded.sources.get((Queue.KIND, name), Source())
    return ObjectError(
        message,
        file=source.file,
        document=source.document,
        kind=Queue.KIND,
        name=name,
        path=path,
        fix=fix,
    )


def _settings(loaded: Loaded) -> Iterator[Finding]:
    """Yield the errors of settings files, which are no manifests."""
    settings = [it.source for it in loaded.others if it.kind == SETTINGS_KIND]
    loaded.others = [it for it in loaded.others if it.kind != SETTINGS_KIND]
    for file, document in settings:
        if Path(file).is_file():
            for error in settings_errors(Path(file)):
                yield Finding("settings", error, document=document)


def _use_all_that_have_a_form(loaded: Loaded) -> None:
    """Add objects whose faults are reported, so that nothing is reported for want of them."""
    for obj, source in loaded.faulty:
        is_good = all(fault.is_warning for fault in faults_of(obj))
        if is_good and identity_of(obj) not in loaded.sources:
            loaded.sources[identity_of(obj)] = source
            loaded.objects.append(obj)


def _together(loaded: Loaded, given: SchedulingShard | None) -> Iterator[Finding]:
    """Yield what is found once all objects are in a cluster in memory."""
    workloads = list(loaded.objects)
    shard, policy = _policy_for(loaded, given)
    known = list(map(str, loaded.problems))
    doubts = complete(loaded, shard, policy)
    workloads += [obj for obj in loaded.objects if isinstance(obj, PartialObject)]
    yield from (_of_object("object", error) for error in _refused(workloads, loaded))
    cluster, problems = planned_cluster(PlanInput(loaded, shard, policy, []))
    not_missed = _not_missed(loaded, given)
    for problem in problems:
        if any(text in str(problem) for text in not_missed):
            continue
        if problem.kind != Queue.KIND and str(problem) not in known:
            yield _of_object("object", problem)
    for text in doubts:
        is_about_kinds = text.startswith("objects of kinds that are not read")
        if not is_about_kinds or not (loaded.objects or loaded.problems):
            yield Finding("without-effect", ConfigError(text), is_error=False)
    snapshot = cluster.snapshot()
    lends = any(setting.plugin.lends for setting in policy.plugins)
    for error in quota_sums(snapshot, loaded, is_lent=lends):
        yield _of_object("quota-sum", error, is_error=False)
    if shard.spec.usage_db_config is not None:
        yield from _min_runtimes(snapshot, policy, loaded)
    pools = [(cluster.store, snapshot)] if given is not None else _in_pools(loaded)
    pools = pools or [(cluster.store, snapshot)]
    snapshots = [each for _, each in pools]
    flat = policy.fairness == "projects"
    doubts_of_queues = (
        it for each in snapshots if not lends for it in unbounded(each, loaded, flat)
    )
    yield from (_of_object("unbounded", it, is_error=False) for it in doubts_of_queues)
    if any(len(each.queues.name) or each.queues.why_not for each in snapshots):
        jobs = (error for store, each in pools for error in _jobs(store, each, loaded))
        for error in (*jobs, *_owners(workloads, snapshots, loaded)):
            yield _of_object("unknown-queue", error)


def _min_runtimes(snapshot: Snapshot, policy: Policy, loaded: Loaded) -> Iterator[Finding]:
    """Yield the queues that need a minimum runtime for jobs among the manifests."""
    total = int(snapshot.total[GPU])
    for each in advice(policy, snapshot.queues, total, cores_of(snapshot)):
        error = _of_queue(loaded, each.queue, each.message, "spec.reclaimMinRuntime", each.fix)
        yield _of_object("min-runtime", error, is_error=False)


def _not_missed(loaded: Loaded, given: SchedulingShard | None) -> tuple[str, ...]:
    """Return faults of pods for want of objects that are just not among the files."""
    is_without_shard = given is None and not loaded.of(SchedulingShard)
    return (NOTHING_KNOWN, *([SHARE_IS_NO_CLAIM] if is_without_shard else []))


def _in_pools(loaded: Loaded) -> list[tuple[StateStore, Snapshot]]:
    """Return the stores of the shards among the manifests, if there are several without errors."""
    pairs: list[tuple[SchedulingShard, Policy]] = []
    for shard in loaded.of(SchedulingShard):
        try:
            pairs.append((shard, build_policy(shard)[0]))
        except KaischedError:
            return []  # reported
    if len(pairs) < 2 or next(shared_pools([(shard, "") for shard, _ in pairs]), None):  # noqa: PLR2004
        return []
    planned = PlannedShards(pairs, ManualClock())
    fill(planned.cluster, loaded)
    stores = planned.cluster.stores
    for store in stores:
        planned.cluster.snapshot_of(store)  # by then each job has an owner
    return [(store, planned.cluster.snapshot_of(store)) for store in stores]


def _policy_for(loaded: Loaded, given: SchedulingShard | None) -> tuple[SchedulingShard, Policy]:
    """Return the given shard, the only one among the manifests, or else the default one."""
    if given is not None:
        return given, build_policy(given)[0]
    shards = loaded.of(SchedulingShard)
    if len(shards) == 1:
        try:
            return shards[0], build_policy(shards[0])[0]
        except KaischedError:
            pass  # reported
    return default_shard(), default_policy()


def _queue_tree(loaded: Loaded) -> Iterator[Finding]:
    """Yield the queues without parents up to a root; queues with faults count as parents."""
    faulty = [obj for obj, _ in loaded.faulty if isinstance(obj, Queue)]
    _, problems = check_queues([*loaded.of(Queue), *faulty], loaded.sources)
    bad = {queue.name for queue in faulty}
    yield from (_of_object("queue-tree", it) for it in problems if it.name not in bad)


def _pool_lists(loaded: Loaded) -> Iterator[Finding]:
    """Yield the queues whose lists of node pools differ from another of their project."""
    for found in different_lists(loaded.of(Queue)):
        error = _of_queue(loaded, found.queues[-1], found.text, "spec.nodePools", found.fix)
        yield _of_object("pool-lists", error, is_error=False)


def _shards(loaded: Loaded, given: FoundShard | None) -> Iterator[Finding]:
    for text in given.warnings if given is not None else ():
        yield Finding("without-effect", ConfigError(text), is_error=False)
    for error, source in shard_errors(loaded):
        yield Finding("shard", error, document=source.document)
    shards = [
        (shard, loaded.sources[identity_of(shard)].file) for shard in loaded.of(SchedulingShard)
    ]
    for shard, file in [*shards, *([given[:2]] if given is not None else [])]:
        try:
            _, said = build_policy(shard, file)
        except KaischedError:
            continue  # among the errors
        for text in said:
            yield Finding("without-effect", ConfigError(text, file=file), is_error=False)
    yield from (Finding("shard", error) for error in shared_pools(shards))


def _jobs(store: StateStore, snapshot: Snapshot, loaded: Loaded) -> Iterator[ObjectError]:
    """Yield the jobs whose queue cannot take them, at their pod group or at their pods."""
    jobs = snapshot.jobs
    for row in np.flatnonzero(np.isin(jobs.refusal, [int(it) for it in _ABOUT_QUEUES])).tolist():
        name, queue = jobs.name[row], jobs.queue_name[row]
        refusal = int(jobs.refusal[row])
        group = (PodGroup.KIND, name)
        pods = [(Pod.KIND, key) for key, _ in store.pending_pods(name)]
        for kind, key in [group] if group in loaded.sources else pods:
            source = loaded.sources.get((kind, key), Source())
            yield _queue_error(refusal, queue, snapshot, (kind, key), source)


def _owners(
    objects: Iterable[Manifest], snapshots: Sequence[Snapshot], loaded: Loaded
) -> Iterator[ObjectError]:
    """Yield the workloads whose label, or that of their pods, names a queue that does not exist."""
    sources = _sources(loaded)
    for obj in objects:
        template = getattr(getattr(obj, "spec", None), "template", None)
        if template is None and not isinstance(obj, PartialObject):
            continue
        metas = [obj.metadata]
        if template is not None:
            metas.append(ObjectMeta(name="", labels=template.metadata.labels))
        where, source = _place_of(obj, sources)
        for queue in dict.fromkeys(filter(None, map(queue_of, metas))):
            if not any(queue in each.queues.row_of_name for each in snapshots):
                missing = int(Refusal.QUEUE_MISSING)
                yield _queue_error(missing, queue, snapshots[0], where, source)


def _refused(objects: Iterable[Manifest], loaded: Loaded) -> Iterator[ObjectError]:
    """Yield the workloads that ask for what is not offered, whose pods would wait."""
    sources = _sources(loaded)
    for obj in objects:
        if isinstance(obj, PartialObject) and obj.gang.unsupported:
            where, source = _place_of(obj, sources)
            yield to_error(Fault((), obj.gang.unsupported), source, *where)


def _sources(loaded: Loaded) -> Mapping[tuple[str, str], Source]:
    """Return where objects are written, those included of which only a part is read."""
    return {**{(it.kind, it.name): it.source for it in loaded.others}, **loaded.sources}


def _place_of(
    obj: Manifest, sources: Mapping[tuple[str, str], Source]
) -> tuple[tuple[str, str], Source]:
    """Return kind and name of a workload, and where it is written."""
    kind, name = identity_of(obj)
    kind = kind.partition(".")[0]
    other = sources.get((kind, obj.metadata.name), Source())
    return (kind, name), sources.get((kind, name), other)


def _queue_error(
    refusal: int, queue: str, snapshot: Snapshot, where: tuple[str, str], source: Source
) -> ObjectError:
    text = TEXTS[refusal]
    why = snapshot.queues.why_not.get(queue, "")
    near = did_you_mean(queue, list(snapshot.queues.name))
    is_near = refusal == Refusal.QUEUE_MISSING and near.endswith("?")
    cure = text.cure[:1].lower() + text.cure[1:].removesuffix(".")
    said = f"{text.sentence}: {why}" if why else text.sentence
    is_elsewhere = why.startswith(f"queue {queue} is in node pool ")
    fault = Fault((), why if is_elsewhere else said, queue, near if is_near else cure)
    return to_error(fault, source, *where)


def quota_sums(
    snapshot: Snapshot, loaded: Loaded, *, is_lent: bool = False
) -> Iterator[ObjectError]:
    """Yield each queue whose children have more quota than it may use, and likewise the roots.

    Where the policy lends, quotas of a queue and of those below it add up, so only their sum in the
    cluster is compared.
    """
    queues, tree = snapshot.queues, snapshot.queues.tree
    have = snapshot.axis.charged(snapshot.nodes.allocatable.sum(axis=1))
    parents = np.full_like(tree.parent_of_queue, -1) if is_lent else tree.parent_of_queue
    for parent in sorted({-1, *parents.tolist()}):
        children = np.flatnonzero(parents == parent)
        for at, resource in enumerate(snapshot.axis.names):
            quotas = queues.deserved[at, children]
            summed = sum(int(it) for it in quotas if it < UNLIMITED)
            bound = int(have[at]) if len(snapshot.nodes) else UNLIMITED
            if parent >= 0:
                bound = min(int(queues.deserved[at, parent]), int(queues.limit[at, parent]))
            if not 0 < summed > bound:
                continue
            told, against = format_amount(resource, summed), format_amount(resource, bound)
            if parent >= 0:
                name, who = queues.name[parent], "of its children"
                word = "quota" if bound == queues.deserved[at, parent] else "limit"
                against, fix = f"its own {word} of {against}", "raise that of the queue"
            else:
                largest = np.where(quotas < UNLIMITED, quotas, -1).argmax()
                name = queues.name[int(children[largest])]
                who = "of all queues" if is_lent else "of all top-level queues"
                against, fix = f"the {against} that the nodes in the files have", "give all nodes"
            yield _of_queue(
                loaded,
                name,
                f"the quotas {who} add up to {told} {resource}, more than {against}",
                f"spec.resources.{resource}.quota",
                f"lower them, or {fix}",
            )


def unbounded(snapshot: Snapshot, loaded: Loaded, by_projects: bool) -> Iterator[ObjectError]:
    """Yield each queue with a job without GPUs, in it or below, and no quota of CPU or memory.

    It deserves any amount of what it does not mention. So its job can fill a node of which the GPUs
    are another queue's quota. By projects, inner queues have no quota.
    """
    queues, tasks, names = snapshot.queues, snapshot.tasks, snapshot.axis.names
    mentioned = {queue.name: queue.spec.resources for queue in loaded.of(Queue)}
    living = ((tasks.state != int(TaskState.GONE)) & (tasks.job_of_task >= 0)).nonzero()[0]
    asks = snapshot.shapes.charge.take(tasks.shape_of_task[living], axis=1)
    owner = snapshot.jobs.queue_of_job[tasks.job_of_task[living]]
    without = (owner >= 0) & (asks[GPU] == 0)
    first = 1 if by_projects else None
    leaves = np.unique(owner[without]).tolist()
    path = {row: queues.tree.path(row)[:first].tolist() for row in leaves}
    for row in sorted({each for rows in path.values() for each in rows}):
        below, name = range(row, int(queues.tree.end_of_queue[row])), queues.name[row]
        others = np.setdiff1d(np.arange(len(queues)), [*queues.tree.path(row), *below])
        if not (queues.deserved[GPU, others] > 0).any():
            continue
        for resource in (CPU, MEMORY):
            at = without & (owner >= below.start) & (owner < below.stop) & (asks[resource] > 0)
            if names[resource] in mentioned.get(name, names) or not at.any():
                continue
            job = snapshot.jobs.name[int(tasks.job_of_task[living[at][0]])]
            yield _of_queue(
                loaded,
                name,
                f"deserves {names[resource]} without bound, as it does not mention it: work without"
                f" GPUs, such as {job}, never gives way to the GPUs of other queues' quotas",
                f"spec.resources.{names[resource]}.quota",
                "write a quota, 0 for none; or -1 to have it so",
            )


class Core(NamedTuple):
    """What a preemptible job needs at least, in thousandths of a GPU."""

    job: str
    queue: int
    gpus: int


class Advice(NamedTuple):
    """A queue for which a minimum runtime is advisable."""

    queue: str
    message: str
    fix: str


def advice(
    policy: Policy, queues: QueueTable, total: int, cores: Iterable[Core]
) -> Iterator[Advice]:
    """Yield advice for each queue with such a job, about the largest.

    Args:
        policy: whose plugins are enabled; without fairness over time there is nothing to advise.
        queues: the queues of the jobs.
        total: what is divided, in thousandths of a GPU.
        cores: of jobs that run for long, or nobody knows for how long.

    """
    if not _counts_history(policy):
        return
    part, is_safe = _parts(queues, total), _protected(policy, queues)
    largest: dict[int, Core] = {}
    for core in cores:
        most = min(total, int(queues.limit[GPU, core.queue]))
        is_large = part[core.queue] < core.gpus <= most and not is_safe[core.queue]
        if is_large and core.gpus > largest.get(core.queue, Core("", -1, 0)).gpus:
            largest[core.queue] = core
    for row, core in sorted(largest.items()):
        name = queues.name[row]
        needs, has, of = (format_amount("gpu", int(it)) for it in (core.gpus, part[row], total))
        yield Advice(
            name,
            f"job {core.job} needs {needs} GPUs at once, and by quota and weight queue {name} has"
            f" {has} of {of}: past usage decides when it runs, and others may take the room back"
            " before it ends, once they owe its queue nothing more",
            f"set reclaimMinRuntime of queue {name} to about its run time, or handOver: timeSlices"
            f" of {TIME_BASED_FAIRSHARE}",
        )


def cores_of(snapshot: Snapshot) -> Iterator[Core]:
    """Yield what the preemptible jobs of a snapshot need whose pods are all alike."""
    jobs, podsets = snapshot.jobs, snapshot.podsets
    gpus = snapshot.shapes.request[GPU]
    for job, name in enumerate(jobs.name):
        shape, queue = int(jobs.shape_of_job[job]), int(jobs.queue_of_job[job])
        lives = int(jobs.active[job]) + int(jobs.pending[job]) > 0
        if shape >= 0 and queue >= 0 and lives and jobs.is_preemptible[job]:
            first = int(jobs.first_podset[job])
            pods = int(podsets.minimum[first : first + int(jobs.podset_count[job])].sum())
            yield Core(name, queue, pods * int(gpus[shape]))


def _counts_history(policy: Policy) -> bool:
    """Tell whether past usage changes shares, and large jobs do not take turns anyway."""
    arguments = _arguments(policy, TIME_BASED_FAIRSHARE)
    return bool(arguments and arguments.k_value) and arguments.hand_over == "none"


def _arguments(policy: Policy, name: str) -> Any:
    found = [each.plugin for each in policy.plugins if each.plugin.name == name]
    return found[0].arguments if found else None


def _parts(queues: QueueTable, total: int) -> FloatVec:
    """Return ``(Q,)`` what each queue has by quota and weight, if all want everything."""
    part = np.zeros(len(queues))
    deserved, weight = queues.deserved[GPU], np.maximum(queues.weight[GPU], 0.0)
    parents = queues.tree.parent_of_queue
    for level in queues.tree.levels:
        for parent in np.unique(parents[level]).tolist():
            rows = level[parents[level] == parent]
            whole = float(total) if parent < 0 else part[parent]
            quota = np.where(deserved[rows] == UNLIMITED, whole, deserved[rows])
            rest = max(whole - float(quota.sum()), 0.0)
            summed = float(weight[rows].sum())
            part[rows] = quota + (rest * weight[rows] / summed if summed else 0.0)
    return part


def _protected(policy: Policy, queues: QueueTable) -> BoolVec:
    """Return ``(Q,)`` whether jobs are safe from reclaim for a while after they start."""
    arguments = _arguments(policy, "minruntime")
    if arguments is None:
        return np.zeros(len(queues), np.bool_)
    least_s = parse_duration(arguments.default_reclaim_min_runtime)
    safe_s = np.append(queues.reclaim_min_runtime_s, least_s)  # above a root: row -1
    for level in queues.tree.levels:
        above = safe_s[queues.tree.parent_of_queue[level]]
        safe_s[level] = np.where(safe_s[level] < 0, above, safe_s[level])
    return safe_s[:-1] > 0
