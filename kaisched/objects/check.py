"""Checks of objects against each other: names, parents, cycles.

A bad object never stops the rest: each check returns the usable objects, and why others are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from kaisched.errors import ObjectError
from kaisched.objects.faults import Fault, Source, did_you_mean, to_error
from kaisched.objects.group_faults import cycles
from kaisched.objects.kinds import faults_of
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import KubernetesObject

Sources = Mapping[tuple[str, str], Source]
"""Sources of objects, by (kind, key), as ``Loaded.sources``."""

_PARENT: Final = ("spec", "parentQueue")
_MOST_SHOWN: Final = 8
_BAD_BY_ITSELF: Final = Fault((), "reported already")
_T = TypeVar("_T", bound=KubernetesObject)


def check_queues(
    queues: Iterable[Queue], sources: Sources | None = None
) -> tuple[list[Queue], list[ObjectError]]:
    """Return the queues that form a forest, in their order, and a problem for each rejected one.

    Of two queues with one name the first counts. A queue whose parent is missing or bad is dropped
    with all queues below it, and so are the members of a cycle.
    """
    sources, queues = sources or {}, list(queues)
    valid, problems = _each_by_itself(queues, sources)
    parent = {queue.name: queue.spec.parent_queue for queue in valid}
    verdicts: dict[str, Fault | None] = {}
    for cycle in cycles(parent):
        for at, member in enumerate(cycle):
            verdicts[member] = _cycle_fault(cycle, at)
    for name in {queue.name for queue in queues} - set(parent):
        parent[name], verdicts[name] = "", _BAD_BY_ITSELF
    for queue in valid:
        _judge(queue.name, parent, verdicts)
    for queue in valid:
        fault = verdicts[queue.name]
        if fault is not None:
            problems.append(_error(fault, queue, sources))
    return [queue for queue in valid if verdicts[queue.name] is None], problems


def check_pod_groups(
    groups: Iterable[PodGroup], sources: Sources | None = None
) -> tuple[list[PodGroup], list[ObjectError]]:
    """Return the pod groups that may be scheduled, in their order, and problems of the rest.

    Of two groups with one name in one namespace the first counts.
    """
    return _each_by_itself(groups, sources or {})


def warnings_about(
    objects: Iterable[KubernetesObject], sources: Sources | None = None
) -> list[ObjectError]:
    """Return warnings about objects that are used all the same."""
    return [
        _error(fault, obj, sources or {})
        for obj in objects
        for fault in faults_of(obj)
        if fault.is_warning
    ]


def _each_by_itself(objects: Iterable[_T], sources: Sources) -> tuple[list[_T], list[ObjectError]]:
    valid: list[_T] = []
    problems: list[ObjectError] = []
    names: set[str] = set()
    for obj in objects:
        faults = [fault for fault in faults_of(obj) if not fault.is_warning]
        if obj.key in names:
            fix = "rename or drop one of the two"
            faults = [Fault(("metadata", "name"), "given twice; the first counts", obj.key, fix)]
        names.add(obj.key)
        problems.extend(_error(fault, obj, sources) for fault in faults)
        if not faults:
            valid.append(obj)
    return valid, problems


def _judge(name: str, parent: Mapping[str, str], verdicts: dict[str, Fault | None]) -> None:
    """Walk up to the first queue with a verdict, then pass the verdict down to the start."""
    way: list[str] = []
    while name in parent and name not in verdicts:
        way.append(name)
        name = parent[name]
    for child in reversed(way):
        above = parent[child]
        if above and above not in parent:
            near = did_you_mean(above, sorted(set(parent) - {child}))
            fix = near if near.endswith("?") else f'create queue "{above}" or name another'
            verdicts[child] = Fault(_PARENT, "no such queue", above, fix)
        elif above and verdicts[above] is not None:
            verdicts[child] = Fault(
                _PARENT, "the parent cannot be used", above, f'put queue "{above}" right first'
            )
        else:
            verdicts[child] = None


def _cycle_fault(cycle: list[str], at: int) -> Fault:
    turned = [cycle[(at + step) % len(cycle)] for step in range(min(len(cycle), _MOST_SHOWN))]
    chain = " -> ".join([*turned, turned[0] if len(cycle) <= _MOST_SHOWN else "..."])
    return Fault(
        _PARENT, f"queues inside each other: {chain}", fix="give one of them no parentQueue"
    )


def _error(fault: Fault, obj: KubernetesObject, sources: Sources) -> ObjectError:
    return to_error(fault, sources.get((obj.KIND, obj.key), Source()), obj.KIND, obj.name)
