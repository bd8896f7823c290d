"""The rows of queues: laid out in preorder when a queue changed, and why queues have no row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Final

import numpy as np

from kaisched.cluster.pods import created_s, terms_of
from kaisched.core.axis import Amounts, FloatVec, IntVec, ResourceAxis
from kaisched.core.constraints import NodeTerm
from kaisched.core.refusals import Refusal
from kaisched.core.tables import (
    DRAINED,
    HELD,
    NO_LIMIT_S,
    OPEN,
    SHARING,
    WORKLOADS,
    Flavor,
    FlavorQuota,
    OwnAffinity,
    QueueTable,
    Sharing,
)
from kaisched.core.tree import QueueTree, build_tree
from kaisched.objects.faults import Source, to_error
from kaisched.objects.queue import (
    BY_USAGE,
    MaxRunTime,
    Queue,
    QueueNodeAffinity,
    base_units,
    flavor_faults,
    queue_lending,
    queue_shares,
    sharing_weight,
)
from kaisched.units import UNLIMITED, parse_duration

_LONGEST: Final = 20
"""So many queues of a line are looked at: a sentence could not name more, and lines may be long."""


def broken_lines(
    orphans: Iterable[str], parent: Mapping[str, str], left_out: Mapping[str, str]
) -> dict[str, str]:
    """Say of each queue outside the tree where its line of parents ends.

    Args:
        orphans: the queues that are not in the tree.
        parent: parent by name, of all queues without a fault.
        left_out: faults of the others, by name.

    """
    return {name: _broken(name, parent, left_out) for name in orphans}


def _broken(name: str, parent: Mapping[str, str], left_out: Mapping[str, str]) -> str:
    line = [name]
    while (above := parent[line[-1]]) in parent and above not in line:
        if len(line) == _LONGEST:
            return f"queue {name} is below {_LONGEST} queues or more that lead to no root"
        line.append(above)
    if above in line:
        ring = line[line.index(above) :]
        told = " below ".join([*ring, above])
        if len(ring) == 1:
            told = f"{above} below itself"
        where = "is in" if above == name else "is below"
        return f"queue {name} {where} a cycle of queues: {told}"
    who = f"queue {name}" if len(line) == 1 else f"queue {name} is below {line[-1]}, which"
    if above in left_out:
        return f"{who} has the parent {above}, which is left out: {left_out[above]}"
    return f"{who} has the parent {above}, which does not exist"


def queue_flavors(queue: Queue) -> tuple[Flavor, ...]:
    """Return the flavors of a queue, in its order.

    Raises:
        ObjectError: the first fault of the flavors, with its path.

    """
    fault = next((it for it in flavor_faults(queue) if not it.is_warning), None)
    if fault is not None:
        raise to_error(fault, Source(), queue.KIND, queue.name)
    return tuple(
        Flavor(
            flavor.name,
            tuple(
                FlavorQuota(
                    name,
                    base_units(name, resource.quota),
                    base_units(name, resource.borrowing_limit),
                    base_units(name, resource.lending_limit),
                )
                for name, resource in flavor.resources.items()
            ),
            tuple(sorted(flavor.node_labels.items())),
        )
        for flavor in queue.spec.flavors
    )


def flavored_quota(flavors: tuple[Flavor, ...]) -> dict[str, int]:
    """Return the quota of each resource in all flavors together."""
    total: dict[str, int] = {}
    for flavor in flavors:
        for it in flavor.quotas:
            total[it.resource] = min(total.get(it.resource, 0) + it.quota, UNLIMITED)
    return total


DEFAULT_PRIORITY: Final = 100
UNSET_S: Final = -1.0
_UNMANAGED_WHEN_ABSENT: Final = ("cpu", "memory")
_STOPS: Final = {"None": OPEN, "Hold": HELD, "HoldAndDrain": DRAINED}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as the store keeps it; amounts in base units by resource name.

    A resource without a quota or limit is unlimited, one without a weight has weight 1.
    """

    name: str
    parent: str = ""
    created_s: float = 0.0
    priority: int = DEFAULT_PRIORITY
    quota: Mapping[str, int] = field(default_factory=dict)
    limit: Mapping[str, int] = field(default_factory=dict)
    weight: Mapping[str, float] = field(default_factory=dict)
    preempt_min_runtime_s: float = UNSET_S
    reclaim_min_runtime_s: float = UNSET_S
    max_run_time: tuple[tuple[int, bool, float], ...] = ()
    """(type of workload, whether preemptible, seconds)."""
    node_affinity: tuple[tuple[int, tuple[NodeTerm, ...]], ...] = ()
    """(type of workload, terms of which one must hold)."""
    stop: int = OPEN
    """OPEN, HELD or DRAINED, for it and all queues below."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    borrowing_limit: Mapping[str, int] = field(default_factory=dict)
    lending_limit: Mapping[str, int] = field(default_factory=dict)
    sharing: Sharing = SHARING


class QueueRows:
    """Queues. Changes take effect when :meth:`lay_out` is called."""

    def __init__(self, axis: ResourceAxis) -> None:
        """Make an empty tree."""
        self._axis = axis
        self._queue: dict[str, QueueRow] = {}
        self._left_out: dict[str, str] = {}
        self._told: Mapping[str, str] = {}
        """What jobs hear that name a queue which is not ours."""
        self.is_laid_out = True
        self.table = self._tabulate(build_tree((), ()))
        self._orphans: frozenset[str] = frozenset()
        self.is_any_stopped = False

    def __len__(self) -> int:
        return len(self.table)

    def put(self, queue: QueueRow) -> None:
        """Add or replace a queue."""
        self._left_out.pop(queue.name, None)
        if self._queue.get(queue.name) != queue:
            self._queue[queue.name] = queue
            self.is_laid_out = False

    def remove(self, name: str) -> None:
        """Drop a queue; unknown names are fine."""
        known = self._queue.pop(name, None) is not None
        if self._left_out.pop(name, None) is not None or known:
            self.is_laid_out = False

    def leave_out(self, name: str, fault: str) -> None:
        """Note why there is no row of a queue that was declared."""
        self._left_out[name] = fault
        self.is_laid_out = False

    def record_why_not(self, why_not: Mapping[str, str]) -> bool:
        """Record why queues that jobs name are not ours; return whether that has changed."""
        if why_not == self._told:
            return False
        self._told, self.is_laid_out = why_not, False
        return True

    def lay_out(self) -> bool:
        """Build the table again; return whether rows or stop policies have changed."""
        before, stopped = self.table.tree, self.table.stop_of_queue
        ordered = sorted(self._queue.values(), key=lambda queue: queue.name)
        names = [queue.name for queue in ordered]
        tree = build_tree(
            names, [queue.parent for queue in ordered], [queue.created_s for queue in ordered]
        )
        self.table = self._tabulate(tree)
        orphans = frozenset(names[position] for position in tree.orphans)
        is_moved = (
            tree.names != before.names
            or orphans != self._orphans
            or not np.array_equal(tree.parent_of_queue, before.parent_of_queue)
            or not np.array_equal(self.table.stop_of_queue, stopped)
        )
        self.is_any_stopped = bool(self.table.stop_of_queue.any())
        self._orphans = orphans
        self.is_laid_out = True
        return is_moved

    def count_by(self, axis: ResourceAxis) -> None:
        """Count by another axis."""
        self._axis = axis
        self.table = self._tabulate(self.table.tree)

    def find(self, name: str) -> tuple[int, Refusal]:
        """Return (row of a leaf, why its jobs wait, or NONE), or (-1, why jobs cannot be in it)."""
        row = self.table.row_of_name.get(name, -1)
        if row < 0:
            known = name in self._orphans
            return -1, Refusal.QUEUE_ORPHAN if known else Refusal.QUEUE_MISSING
        if not self.table.tree.is_leaf[row]:
            return -1, Refusal.QUEUE_NOT_LEAF
        is_stopped = self.is_any_stopped and self.table.stop_of_queue[row] != OPEN
        return row, Refusal.QUEUE_ON_HOLD if is_stopped else Refusal.NONE

    def _tabulate(self, tree: QueueTree) -> QueueTable:
        rows = [self._queue[name] for name in tree.names]
        names = self._axis.names
        weight = np.array([[it.weight.get(name, 1.0) for it in rows] for name in names], np.float64)
        table = QueueTable(
            name=tree.names,
            row_of_name=MappingProxyType({name: row for row, name in enumerate(tree.names)}),
            tree=tree,
            deserved=_amounts(rows, names, lambda queue: queue.quota),
            limit=_amounts(rows, names, lambda queue: queue.limit),
            weight=weight.reshape(len(names), len(rows)),
            priority=np.array([queue.priority for queue in rows], np.int64),
            created_s=np.array([queue.created_s for queue in rows], np.float64),
            preempt_min_runtime_s=np.array([q.preempt_min_runtime_s for q in rows], np.float64),
            reclaim_min_runtime_s=np.array([q.reclaim_min_runtime_s for q in rows], np.float64),
            stop_of_queue=_stops(rows, tree),
            borrowing_limit=_amounts(rows, names, lambda queue: queue.borrowing_limit),
            lending_limit=_amounts(rows, names, lambda queue: queue.lending_limit),
            sharing=tuple(queue.sharing for queue in rows),
            max_run_time_s=_run_times(rows, tree),
            node_affinity=_affinity(rows),
            why_not=self._why_not(tree),
            labels=tuple(queue.labels for queue in rows),
            annotations=tuple(queue.annotations for queue in rows),
        )
        for of_table in fields(table):
            column = getattr(table, of_table.name)
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return table

    def _why_not(self, tree: QueueTree) -> Mapping[str, str]:
        """Say of each queue that was declared and is not in the tree what is wrong with it."""
        if len(tree) == len(self._queue) and not self._left_out and not self._told:
            return MappingProxyType({})
        orphans = self._queue.keys() - set(tree.names)
        parent = {name: queue.parent for name, queue in self._queue.items()}
        broken = broken_lines(sorted(orphans), parent, self._left_out)
        faults = {name: f"queue {name} is left out: {it}" for name, it in self._left_out.items()}
        return MappingProxyType({**self._told, **broken, **faults})


def _stops(rows: list[QueueRow], tree: QueueTree) -> IntVec:
    """Return what holds for each queue: the strictest from it to the root."""
    stops: IntVec = np.array([queue.stop for queue in rows], np.int64)
    for row, parent in enumerate(tree.parent_of_queue.tolist()):  # parents stand before children
        if parent >= 0:
            stops[row] = max(stops[row], stops[parent])
    return stops


def _run_times(rows: list[QueueRow], tree: QueueTree) -> FloatVec | None:
    """Return ``(2, 3, Q)`` how long jobs may run: the shortest from each queue to the root."""
    if not any(queue.max_run_time for queue in rows):
        return None
    times: FloatVec = np.full((2, len(WORKLOADS), len(rows)), NO_LIMIT_S)
    for row, parent in enumerate(tree.parent_of_queue.tolist()):  # parents stand before children
        if parent >= 0:
            times[:, :, row] = times[:, :, parent]
        for workload, is_preemptible, seconds in rows[row].max_run_time:
            at = int(is_preemptible), workload, row
            times[at] = min(times[at], seconds)
    return times


def _affinity(rows: list[QueueRow]) -> tuple[OwnAffinity, ...] | None:
    """Return what each queue itself demands of nodes; None if no queue does."""
    if not any(queue.node_affinity for queue in rows):
        return None
    return tuple(
        tuple(
            tuple(dict.fromkeys(terms for kind, terms in queue.node_affinity if kind == workload))
            for workload in range(len(WORKLOADS))
        )
        for queue in rows
    )


def _amounts(
    rows: list[QueueRow], names: tuple[str, ...], of: Callable[[QueueRow], Mapping[str, int]]
) -> Amounts:
    amounts = [[of(queue).get(name, UNLIMITED) for queue in rows] for name in names]
    return np.array(amounts, np.int64).reshape(len(names), len(rows))


def queue_row(queue: Queue) -> QueueRow:
    """Return a queue's row.

    GPUs are always shared out. CPU and memory that the queue says nothing about are not managed: no
    quota bounds them and no limit. Pod slots are never shared out.
    """
    spec = queue.spec
    shares, lending = queue_shares(queue), queue_lending(queue)
    for name in _UNMANAGED_WHEN_ABSENT:
        if name not in spec.resources:
            del shares[name]
    shares.pop("pods", None)
    flavors = queue_flavors(queue)
    quota = {name: share.quota for name, share in shares.items()} | flavored_quota(flavors)
    return QueueRow(
        name=queue.name,
        parent=spec.parent_queue,
        created_s=created_s(queue.metadata),
        priority=spec.priority,
        quota=quota,
        limit={name: share.limit for name, share in shares.items()},
        weight={name: share.weight for name, share in shares.items()},
        preempt_min_runtime_s=_runtime_s(spec.preempt_min_runtime),
        reclaim_min_runtime_s=_runtime_s(spec.reclaim_min_runtime),
        max_run_time=tuple(_limits(spec.max_run_time)),
        node_affinity=tuple(_affinities(spec.node_affinity)),
        stop=_STOPS[spec.stop_policy],
        labels=queue.metadata.labels,
        annotations=queue.metadata.annotations,
        borrowing_limit={name: it.borrowing_limit for name, it in lending.items()},
        lending_limit={name: it.lending_limit for name, it in lending.items()},
        sharing=Sharing(
            weight=sharing_weight(queue),
            is_on=spec.fair_sharing.enabled,
            within=spec.preemption.within_cluster_queue,
            across=spec.preemption.reclaim_within_cohort,
            flavors=flavors,
            when_can_borrow=spec.flavor_fungibility.when_can_borrow,
            when_can_preempt=spec.flavor_fungibility.when_can_preempt,
            flavor_preference=spec.flavor_fungibility.preference,
            borrowing=spec.preemption.borrow_within_cohort.policy,
            borrowing_up_to=spec.preemption.borrow_within_cohort.max_priority_threshold,
            is_by_usage=spec.admission_scope.admission_mode == BY_USAGE,
        ),
    )


def _limits(entries: Sequence[MaxRunTime]) -> Iterator[tuple[int, bool, float]]:
    for entry in entries:
        seconds = parse_duration(entry.time)
        for name in entry.workloads or WORKLOADS:
            yield WORKLOADS.index(name), True, seconds
            if entry.non_preemptible:
                yield WORKLOADS.index(name), False, seconds


def _affinities(
    entries: Sequence[QueueNodeAffinity],
) -> Iterator[tuple[int, tuple[NodeTerm, ...]]]:
    for entry in entries:
        terms = terms_of(term.match_expressions for term in entry.terms)
        for name in entry.workloads or WORKLOADS:
            yield WORKLOADS.index(name), terms


def _runtime_s(text: str | int | None) -> float:
    return UNSET_S if text is None else parse_duration(text)
