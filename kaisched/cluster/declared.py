"""Declared nodes, topologies and queues, kept to report why some of them are not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kaisched.cluster.problems import Problem, problems_of
from kaisched.cluster.translate import has_same_wishes
from kaisched.objects.load import check_queues

if TYPE_CHECKING:
    from kaisched.errors import ObjectError
    from kaisched.objects.queue import Queue


class Declared:
    """Queue objects and the faults of nodes and topologies."""

    def __init__(self) -> None:
        """Start without queues and faults."""
        self._queues: dict[str, Queue] = {}
        self._queue_faults: dict[str, ObjectError] | None = None
        self._node_faults: dict[str, str] = {}
        self._topology_faults: dict[str, str] = {}

    def note_node(self, name: str, fault: str = "") -> None:
        """Note the fault of a node; empty if the node is valid or gone."""
        _note(self._node_faults, name, fault)

    def note_topology(self, name: str, fault: str = "") -> None:
        """Note the fault of a topology; empty if the topology is valid or gone."""
        _note(self._topology_faults, name, fault)

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
        """Return the faults of nodes, topologies, queues, and of ``groups`` and their pods."""
        _, errors = check_queues(self._queues.values())
        return problems_of(self._node_faults, self._topology_faults, errors, groups)


def _note(faults: dict[str, str], name: str, fault: str) -> None:
    if fault:
        faults[name] = fault
    else:
        faults.pop(name, None)
