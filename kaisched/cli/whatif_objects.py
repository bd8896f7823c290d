"""What ``kaisched whatif`` applies and compares: objects, and a state without and with a change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.when import bounded, when_document
from kaisched.core.titles import workload_document
from kaisched.engine.planning import OUR_NAMES, failures_of, read_manifests
from kaisched.engine.recording import replay
from kaisched.errors import ConfigError
from kaisched.objects.gangs import KNOWN
from kaisched.objects.kueue import KINDS as KUEUE
from kaisched.objects.labels import POD_GROUP, QUEUE
from kaisched.objects.load import workloads_among
from kaisched.objects.pod import Container, Pod, PodSpec, Resources
from kaisched.objects.podgroup import PodGroup, PodGroupSpec
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import Amounts, ObjectMeta
from kaisched.objects.workloads import Deployment, Job, PartialObject, ReplicaSet, StatefulSet
from kaisched.sim.forecast.course import settled
from kaisched.sim.forecast.forecast import Forecast, world_of
from kaisched.sim.forecast.past import past_of
from kaisched.view.documents import queue_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.titles import TopOwner
    from kaisched.daemon.recordings import Taken
    from kaisched.engine.recording import Recording, Replay
    from kaisched.framework.intents import Evict
    from kaisched.framework.report.records import QueueShare
    from kaisched.objects.load import Manifest
    from kaisched.sim.forecast.course import JobState, Settled

SCHEMA: Final = "kaisched.io/whatif/v1"
NAME: Final = "whatif"
"""Namespace and pod group of a gang that is no file."""
_ELSEWHERE: Final = (SchedulingShard, *KUEUE)
_MAKERS: Final = (Job, ReplicaSet, Deployment, StatefulSet, PartialObject)


def objects_of(files: Sequence[str], queue: str, gpus: int, pods: int) -> list[Manifest]:
    """Return what is to be applied.

    Raises:
        ConfigError: nothing or two things are named, a file is missing, or it has no pods.
        ObjectError: an object of a file is wrong.

    """
    if bool(files) == bool(queue):
        message = "files and --queue name two things" if files else "nothing is to be submitted"
        fix = "name manifests, or --queue with --gpus and --pods"
        raise ConfigError(message, fix=fix)
    return _gang(queue, gpus, pods) if queue else _manifests(files)


def _gang(queue: str, gpus: int, pods: int) -> list[Manifest]:
    group = PodGroup(
        metadata=ObjectMeta(name=NAME, namespace=NAME),
        spec=PodGroupSpec(min_member=pods, queue=queue),
    )
    limits: Amounts = {"nvidia.com/gpu": gpus} if gpus else {}
    container = Container(name="main", resources=Resources(limits=limits))
    spec = PodSpec(scheduler_name=OUR_NAMES[0], containers=[container])
    notes, marks = {POD_GROUP: NAME}, {QUEUE: queue}
    made = [
        Pod(
            metadata=ObjectMeta(
                name=f"{NAME}-{at}", namespace=NAME, annotations=notes, labels=marks
            ),
            spec=spec,
        )
        for at in range(pods)
    ]
    return [group, *made]


def _manifests(files: Sequence[str]) -> list[Manifest]:
    loaded = read_manifests(files)
    found = workloads_among(loaded.others, KNOWN)
    problems = [*loaded.problems, *found.problems]
    if problems:
        problems[0].others = tuple(problems[1:])
        raise problems[0]
    objects: list[Manifest] = [*loaded.objects, *found.objects]
    if found.left_out:
        kinds = ", ".join(sorted(found.left_out))
        fix = "name pods, pod groups, queues, nodes or workloads with their pods"
        raise ConfigError("such objects are not read", file=files[0], value=kinds, fix=fix)
    maker = next((obj for obj in objects if isinstance(obj, _MAKERS)), None)
    if maker is not None and not any(isinstance(obj, Pod) for obj in objects):
        fix = "add its pods, as a cluster makes them, or use --queue with --gpus and --pods"
        name = maker.metadata.name
        raise ConfigError("a workload makes no pods here", file=files[0], value=name, fix=fix)
    other = next((obj for obj in objects if isinstance(obj, _ELSEWHERE)), None)
    if other is not None:
        fix = "use `kaisched whatif set shard`, or `kaisched plan` with all objects of Kueue"
        name = f"{other.KIND} {other.name}"
        raise ConfigError("such objects are not applied here", file=files[0], value=name, fix=fix)
    if not objects:
        raise ConfigError("holds no object", file=files[0], fix="name a file of manifests")
    return objects


# -- the difference ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A state without and with a change, each after all has settled."""

    without: Settled
    with_it: Settled
    warnings: list[str]
    problems: list[str]
    """Problems of objects and of plugins; also among the warnings."""
    foreseen: dict[str, Forecast]
    """By submitted job that waits: when it may start."""

    def jobs(self) -> Iterator[tuple[str, str, JobState | None, JobState | None]]:
        """Yield the name and queue of the jobs that differ, without and with the change."""
        for name in sorted(self.without.jobs.keys() | self.with_it.jobs.keys()):
            before, after = self.without.jobs.get(name), self.with_it.jobs.get(name)
            if before is None or after is None or _state(before) != _state(after):
                there = after or before
                yield name, there.queue if there is not None else "", before, after

    def evictions(self) -> list[Evict]:
        """Return the evictions that the change causes."""
        known = {it.pod for it in self.without.evictions}
        return [it for it in self.with_it.evictions if it.pod not in known]

    def queues(self) -> Iterator[tuple[str, QueueShare | None, QueueShare | None]]:
        """Yield the queues that differ, in the order of the tree."""
        before = {share.name: share for share in self.without.shares}
        after = {share.name: share for share in self.with_it.shares}
        for name in dict.fromkeys((*before, *after)):
            one, other = before.get(name), after.get(name)
            if one is None or other is None or queue_document(one) != queue_document(other):
                yield name, one, other


def compare(found: Taken, changed: Recording, file: str, *, has_when: bool) -> Difference:
    """Run a recording and its change until nothing moves."""
    plain, other = replay(found.recording, file), replay(changed, file)
    without, with_it = settled(world_of(plain.result)), settled(world_of(other.result))
    failures = failures_of([*without.failures, *with_it.failures])
    problems = [*found.problems, *map(str, other.problems), *failures]
    warnings = [*found.warnings, *(it for it in other.warnings if it not in found.warnings)]
    if not (without.is_quiet and with_it.is_quiet):
        warnings.append(f"things still move after {with_it.cycles} cycles")
    foreseen = _foreseen(other, changed, without, with_it) if has_when else {}
    return Difference(without, with_it, [*warnings, *problems], problems, foreseen)


def _foreseen(
    other: Replay, changed: Recording, without: Settled, with_it: Settled
) -> dict[str, Forecast]:
    """Forecast the starts of submitted jobs."""
    world = world_of(other.result)
    past = past_of(other.objects, world.snapshot, world.now_s, changed.scheduler_names)
    row = {name: job for job, name in enumerate(world.snapshot.jobs.name)}
    new = [name for name in with_it.jobs if name not in without.jobs]
    found = bounded(world, [row[name] for name in new], past)
    return {name: found[row[name]] for name in new}


def difference_document(difference: Difference) -> dict[str, Any]:
    """Return everything that differs."""
    return {
        "schemaVersion": SCHEMA,
        "jobs": [
            {
                "podGroup": name,
                "workload": workload_document(owner_of(before, after)),
                "queue": queue,
                "without": _job_document(before),
                "with": _job_document(after),
            }
            for name, queue, before, after in difference.jobs()
        ],
        "evictions": [
            {
                "pod": it.pod,
                "podGroup": it.pod_group,
                "workload": workload_document(it.top_owner),
                "action": it.action,
                "beneficiary": it.beneficiary,
                "beneficiaryWorkload": workload_document(it.beneficiary_owner),
                "reason": it.reason,
            }
            for it in difference.evictions()
        ],
        "queues": [
            {
                "name": name,
                "without": queue_document(before) if before is not None else None,
                "with": queue_document(after) if after is not None else None,
            }
            for name, before, after in difference.queues()
        ],
        "when": {name: when_document(it) for name, it in difference.foreseen.items()},
        "warnings": difference.warnings,
    }


def owner_of(*states: JobState | None) -> TopOwner | None:
    """Return what a job comes from, by its states without and with a change."""
    return next((it.top_owner for it in states if it is not None), None)


def _job_document(job: JobState | None) -> dict[str, Any] | None:
    if job is None:
        return None
    record = job.record
    return {
        "running": job.running,
        "waiting": job.waiting,
        "runningBefore": job.before,
        "reason": record.reason if record is not None else None,
        "message": record.message if record is not None else None,
    }


def _state(job: JobState) -> tuple[int, int, str]:
    return job.running, job.waiting, job.record.reason if job.record is not None else ""
