"""What is wrong with the objects of a store, for people to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kaisched.objects.decode import faults_of
from kaisched.objects.faults import Source, to_error
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.errors import ObjectError
    from kaisched.objects.wire import KubernetesObject


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong with an object that is in the store all the same, or left out of it."""

    kind: str
    name: str
    text: str


def fault_of(obj: KubernetesObject) -> str:
    """Return the first thing wrong with an object that keeps it out, or an empty string."""
    fault = next((fault for fault in faults_of(obj) if not fault.is_warning), None)
    return "" if fault is None else str(to_error(fault, Source()))


def problems_of(
    nodes: Mapping[str, str],
    topologies: Mapping[str, str],
    queues: Iterable[ObjectError],
    groups: Mapping[str, Mapping[str, str]],
) -> list[Problem]:
    """Return all that is wrong, by kind and name.

    Args:
        nodes: faults by node.
        topologies: faults by topology.
        queues: errors of queues.
        groups: faults by pod group, and in each by pod; the group's own stand under "".

    """
    found = [Problem(Node.KIND, name, text) for name, text in nodes.items()]
    found += [Problem(Topology.KIND, name, text) for name, text in topologies.items()]
    found += [Problem(Queue.KIND, error.name, str(error)) for error in queues]
    for group, faults in groups.items():
        found += [
            Problem(Pod.KIND, pod, text) if pod else Problem(PodGroup.KIND, group, text)
            for pod, text in faults.items()
        ]
    return sorted(found)
