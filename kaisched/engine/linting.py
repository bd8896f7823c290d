"""Linter of manifests: everything that is wrong with them, without a cluster.

It asks the checks that loading, planning and the daemon use, and adds those that need all objects
at once: quotas against those above and against the nodes, and the queues that jobs name.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kaisched.clock import ManualClock
from kaisched.cluster.claims.device_claims import NOTHING_KNOWN
from kaisched.cluster.pools.projects import different_lists
from kaisched.config.loading import settings_errors
from kaisched.config.settings import KIND as SETTINGS_KIND
from kaisched.core.axis import GPU
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.engine.desks import Desks
from kaisched.engine.lint_claims import claim_doubts
from kaisched.engine.lint_min_runtime import advice, cores_of
from kaisched.engine.lint_topologies import unknown_names
from kaisched.engine.lint_unbounded import unbounded
from kaisched.engine.planning import (
    OUR_NAMES,
    PlanInput,
    complete,
    fill,
    planned_cluster,
    read_manifests,
)
from kaisched.engine.policy import build_policy, default_policy, default_shard
from kaisched.engine.quota_sums import quota_sums
from kaisched.engine.shards import read_shard, shard_errors, shared_pools
from kaisched.errors import ConfigError, KaischedError, ObjectError
from kaisched.objects.decode import faults_of
from kaisched.objects.faults import Source, did_you_mean
from kaisched.objects.gpus import SHARE_IS_NO_CLAIM
from kaisched.objects.labels import queue_of
from kaisched.objects.load import check_queues, identity_of
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import PartialObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.cluster.store import StateStore
    from kaisched.core.snapshot import Snapshot
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

    Args:
        files: what to check.
        shard_file: the shard that they are for; by default the only one among them.

    Raises:
        ConfigError: a file does not exist, or the shard file is wrong.

    """
    loaded = read_manifests(files)
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
            _of_object("unknown-topology", it.error, is_error=it.is_required)
            for it in unknown_names(loaded)
        ),
        *(_of_object(it.rule, it.error, is_error=it.is_error) for it in claim_doubts(loaded)),
    ]
    _use_all_that_have_a_form(loaded)
    found += _together(loaded, given.shard if given is not None else None)
    once: dict[str, Finding] = {}
    for finding in found:
        once.setdefault(str(finding.error), finding)
    return list(once.values())


def _of_object(rule: str, error: ObjectError, *, is_error: bool = True) -> Finding:
    return Finding(rule, error, is_error, error.document)


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
        if not text.startswith("objects of kinds that are not read"):
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
        source = loaded.sources.get((Queue.KIND, each.queue), Source())
        error = ObjectError(
            each.message,
            file=source.file,
            document=source.document,
            kind=Queue.KIND,
            name=each.queue,
            path="spec.reclaimMinRuntime",
            fix=each.fix,
        )
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
    desks = Desks(pairs, ManualClock(), OUR_NAMES)
    fill(desks.cluster, loaded)
    stores = desks.cluster.stores
    for store in stores:
        desks.cluster.snapshot_of(store)  # by then each job has an owner
    return [(store, desks.cluster.snapshot_of(store)) for store in stores]


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
        name = found.queues[-1]
        source = loaded.sources.get((Queue.KIND, name), Source())
        error = ObjectError(
            found.text,
            file=source.file,
            document=source.document,
            kind=Queue.KIND,
            name=name,
            path="spec.nodePools",
            fix=found.fix,
        )
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
    source_of_other = {(it.kind, it.name): it.source for it in loaded.others}
    for obj in objects:
        template = getattr(getattr(obj, "spec", None), "template", None)
        if template is None and not isinstance(obj, PartialObject):
            continue
        metas = [obj.metadata]
        if template is not None:
            metas.append(ObjectMeta(name="", labels=template.metadata.labels))
        kind, name = identity_of(obj)
        kind = kind.partition(".")[0]
        other = source_of_other.get((kind, obj.metadata.name), Source())
        source = loaded.sources.get((kind, name), other)
        for queue in dict.fromkeys(filter(None, map(queue_of, metas))):
            if not any(queue in each.queues.row_of_name for each in snapshots):
                missing = int(Refusal.QUEUE_MISSING)
                yield _queue_error(missing, queue, snapshots[0], (kind, name), source)


def _refused(objects: Iterable[Manifest], loaded: Loaded) -> Iterator[ObjectError]:
    """Yield the workloads that ask for what is not offered, whose pods would wait."""
    source_of = {(it.kind, it.name): it.source for it in loaded.others}
    for obj in objects:
        if isinstance(obj, PartialObject) and obj.gang.unsupported:
            kind, name = identity_of(obj)
            kind = kind.partition(".")[0]
            source = source_of.get((kind, obj.metadata.name), Source())
            yield ObjectError(
                obj.gang.unsupported,
                file=source.file,
                document=source.document,
                kind=kind,
                name=name,
            )


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
    return ObjectError(
        why if is_elsewhere else said,
        file=source.file,
        document=source.document,
        kind=where[0],
        name=where[1],
        value=queue,
        fix=near if is_near else cure,
    )
