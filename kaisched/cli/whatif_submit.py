"""The objects that ``kaisched whatif submit`` applies: from files, or a gang of equal pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.engine.planning import OUR_NAMES, read_manifests
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.objects.load import Manifest

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
