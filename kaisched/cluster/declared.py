"""Declared nodes, topologies and queues, and what is wrong with objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kaisched.cluster.columns import set_or_drop
from kaisched.errors import ObjectError
from kaisched.objects.decode import faults_of
from kaisched.objects.faults import Source, to_error
from kaisched.objects.load import check_queues
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
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


class Declared:
    """Queue objects and the faults of nodes and topologies."""

    def __init__(self) -> None:
        """Start without queues and faults."""
        self._queues: dict[str, Queue] = {}
        self._queue_faults: dict[str, ObjectError] | None = None
        self._node_faults: dict[str, str] = {}
        self._topology_faults: dict[str, str] = {}

    def record_node(self, name: str, fault: str = "") -> None:
        """Note the fault of a node; empty if the node is valid or gone."""
        set_or_drop(self._node_faults, name, fault or None)

    def record_topology(self, name: str, fault: str = "") -> None:
        """Note the fault of a topology; empty if the topology is valid or gone."""
        set_or_drop(self._topology_faults, name, fault or None)

    def has_queue(self, queue: Queue) -> bool:
        """Tell whether a queue is known with an equal specification."""
        known = self._queues.get(queue.name)
        return known is not None and has_same_wishes(known, queue)

    def put_queue(self, queue: Queue) -> None:
        """Keep a queue, valid or not."""
        self._queues[queue.name] = queue
        self._queue_faults = None

    def drop_queue(self, name: str) -> None:
        """Remove a queue; unknown names are fine."""
        self._queues.pop(name, None)
        self._queue_faults = None

    def queue_faults(self) -> Mapping[str, ObjectError]:
        """Return the faults of queues by name; an identical object while no queue changes."""
        if self._queue_faults is None:
            _, errors = check_queues(self._queues.values())
            self._queue_faults = {error.name: error for error in reversed(errors)}
        return self._queue_faults

    def problems(self, groups: Mapping[str, Mapping[str, str]]) -> list[Problem]:
        """Return all that is wrong, by kind and name.

        ``groups`` has the faults by pod group and in each by pod; the group's own stand under "".
        """
        _, errors = check_queues(self._queues.values())
        found = [Problem(Node.KIND, name, text) for name, text in self._node_faults.items()]
        found += [Problem(Topology.KIND, *fault) for fault in self._topology_faults.items()]
        found += [Problem(Queue.KIND, error.name, str(error)) for error in errors]
        for group, faults in groups.items():
            found += [
                Problem(Pod.KIND, pod, text) if pod else Problem(PodGroup.KIND, group, text)
                for pod, text in faults.items()
            ]
        return sorted(found)


def has_same_wishes(old: Queue | PodGroup, new: Queue | PodGroup) -> bool:
    """Tell whether what is decided by is the same; statuses, which we write, do not count."""
    before, now = old.metadata, new.metadata
    return old.spec == new.spec and all(
        getattr(before, name) == getattr(now, name)
        for name in (
            "uid",
            "labels",
            "annotations",
            "creation_timestamp",
            "deletion_timestamp",
            "owner_references",
        )
    )
