"""Filters by the nodes of other pods: pod affinity, anti-affinity and host ports.

Each question counts, from the ledger, the few tasks that it is about; these tasks are found once in
a cycle. Topology domains are numbered label values of the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kaisched import (
    HOLDING_STATES,
    BoolVec,
    CodeVec,
    Constraints,
    IntVec,
    PodTerm,
    Refusal,
    RowVec,
    Session,
    TaskState,
)
from kaisched_plugins.predicates.podterms import PRESENT, PodTerms
from kaisched_plugins.predicates.ports import are_in_conflict

# A port is free when its pod is gone, not before: the kubelet would turn the next pod away.
_LEAVING = HOLDING_STATES & ~PRESENT


@dataclass(slots=True, eq=False)
class Crowd:
    """The tasks that a question is about, on any node."""

    members: BoolVec
    """By label set or by shape."""
    tasks: RowVec
    is_by_shape: bool
    states: BoolVec = field(default_factory=lambda: PRESENT)

    def counts(self, session: Session) -> IntVec:
        """``(N,)`` how many of the tasks are on each node now."""
        node = session.node_of_task_now.take(self.tasks)
        there = self.states.take(session.state_now.take(self.tasks)) & (node >= 0)
        return np.bincount(node[there], minlength=len(session.nodes))

    def has(self, session: Session, task: RowVec) -> bool:
        """Tell whether any of some tasks belongs to the crowd."""
        tasks = session.tasks
        column = tasks.shape_of_task if self.is_by_shape else tasks.label_set_of_task
        return bool(self.members[column.take(task)].any())


class Neighbours:
    """One cycle's answers about other pods."""

    def __init__(self, terms: PodTerms) -> None:
        """Start without crowds."""
        self.terms = terms
        self._crowds: dict[tuple[str, object], Crowd] = {}
        self.watched: dict[int, tuple[Crowd, ...]] = {}
        """Shapes whose last answer rests on where some tasks stand."""
        self._labels: dict[int, RowVec] = {}
        self.woken: set[int] = set()
        """Shapes whose terms count since this cycle: earlier answers did not include them."""

    def codes(self, session: Session, shape: int, codes: CodeVec | None) -> CodeVec | None:
        """Return the codes ``(N,)`` of all nodes, on top of those of labels and taints."""
        constraints = session.shapes.constraints[shape]
        if constraints.pod_anti_affinity and self.terms.wake(session, shape):
            self.woken.add(shape)
        refused = np.zeros(len(session.nodes), np.int16) if codes is None else codes.copy()
        watched: list[Crowd] = []
        if constraints.host_ports:
            self._refuse_ports(session, shape, constraints, refused, watched)
        self._refuse_anti(session, shape, constraints, refused, watched)
        if constraints.pod_affinity:
            self._refuse_affinity(session, shape, constraints, refused, watched)
        if shape in self.terms.self_averse:
            self._leave_one_a_domain(session, shape, refused)
        if constraints.host_ports:
            # Asked last: a refusal that passes with time must not hide a permanent refusal.
            _, leaving = self._port_crowds(session, shape, constraints)
            _refuse(refused, leaving.counts(session) > 0, Refusal.HOST_PORT_LEAVING)
        if watched:
            self.watched[shape] = tuple(watched)
        return refused if refused.any() else None

    def stale(self, session: Session, task: RowVec) -> list[int] | None:
        """Return the shapes whose codes may differ now that ``task`` moved; None for all."""
        terms = self.terms
        if self.woken and not self.woken.isdisjoint(session.tasks.shape_of_task[task].tolist()):
            return None
        return [
            shape
            for shape, crowds in self.watched.items()
            # For these shapes a domain was chosen: any move may change the choice.
            if shape in terms.self_averse
            or shape in terms.self_seeking
            or any(crowd.has(session, task) for crowd in crowds)
        ]

    def room(self, session: Session, shape: int) -> IntVec | None:
        """``(N,)`` how many more pods of the shape each node may take, or None for no bound."""
        constraints = session.shapes.constraints[shape]
        room: IntVec | None = None
        if constraints.host_ports:
            staying, _ = self._port_crowds(session, shape, constraints)
            room = (staying.counts(session) == 0).astype(np.int64)
        for key in self.terms.self_averse.get(shape, ()):
            column, _ = session.nodes.statics.label_column(key)
            one = np.where(column >= 0, 1, _MANY)
            room = one if room is None else np.minimum(room, one)
        return room

    def beside_mig(self, session: Session, shape: int, codes: CodeVec | None) -> CodeVec | None:
        """Refuse MIG instances of nodes where a pod has taken some by annotation.

        The device plugin does not know which these are, and would give them away again. No pod is
        placed in this way any more, so the answer holds for the whole cycle.
        """
        part = session.axis.gpu_part
        if part is None or not (session.shapes.request[:, shape] * part).any():
            return codes
        members = _among(session, self.terms.mig_by_annotation)
        crowd = replace(self._crowd(session, "mig", "annotation", members), states=HOLDING_STATES)
        taken = crowd.counts(session) > 0
        if not taken.any():
            return codes
        refused = np.zeros(len(session.nodes), np.int16) if codes is None else codes.copy()
        _refuse(refused, taken, Refusal.MIG_BY_ANNOTATION)
        return refused

    # -- the rules ---------------------------------------------------------------------------

    def _refuse_ports(
        self,
        session: Session,
        shape: int,
        constraints: Constraints,
        refused: CodeVec,
        watched: list[Crowd],
    ) -> None:
        staying, _ = self._port_crowds(session, shape, constraints)
        watched.append(staying)
        _refuse(refused, staying.counts(session) > 0, Refusal.HOST_PORT)

    def _refuse_anti(
        self,
        session: Session,
        shape: int,
        constraints: Constraints,
        refused: CodeVec,
        watched: list[Crowd],
    ) -> None:
        """Refuse domains by anti-affinity in both directions: of the shape and of other pods.

        All terms of one topology key are one question: no such pod may be in the domain.
        """
        terms = self.terms
        own: dict[str, list[PodTerm]] = {}
        for term in constraints.pod_anti_affinity:
            own.setdefault(term.topology_key, []).append(term)
        pairs = [
            (key, self._crowd(session, "labels", (shape, key), terms.matches(session, listed)))
            for key, listed in own.items()
        ]
        for label_set in (
            self._labels_of(session, shape, constraints).tolist() if terms.holders else ()
        ):
            for key, shapes in terms.holders.against(session, label_set).items():
                holders = _among(session, shapes)
                pairs.append((key, self._crowd(session, "shapes", (label_set, key), holders)))
        for key, crowd in pairs:
            watched.append(crowd)
            if crowd.tasks.size:
                column, domains = _domain_counts(session, key, crowd.counts(session))
                _refuse(refused, (column >= 0) & (domains[column] > 0), Refusal.POD_ANTI_AFFINITY)

    def _refuse_affinity(
        self,
        session: Session,
        shape: int,
        constraints: Constraints,
        refused: CodeVec,
        watched: list[Crowd],
    ) -> None:
        wanted = constraints.pod_affinity
        crowd = self._crowd(session, "all", wanted, self.terms.matches_all(session, wanted))
        watched.append(crowd)
        counts = crowd.counts(session)
        met = np.ones(len(refused), np.bool_)
        labelled = np.ones(len(refused), np.bool_)
        exists = False
        for key in dict.fromkeys(term.topology_key for term in wanted):
            column, domains = _domain_counts(session, key, counts)
            labelled &= column >= 0
            met &= domains[column] > 0
            exists = exists or bool(domains[:-1].any())
        met &= labelled
        if not exists and shape in self.terms.self_seeking:
            met = labelled
        _refuse(refused, ~met, Refusal.POD_AFFINITY)
        if not exists and shape in self.terms.self_seeking:
            self._leave_one_domain(session, shape, refused)

    # -- choices made here, because a batch is placed on one answer ------------------------------

    def _leave_one_domain(self, session: Session, shape: int, refused: CodeVec) -> None:
        """Leave only one domain to a group with affinity to itself: where most of its pods fit.

        One answer places a whole batch, and all its pods must be in the same domain.
        """
        keys = dict.fromkeys(
            term.topology_key for term in session.shapes.constraints[shape].pod_affinity
        )
        columns = [session.nodes.statics.label_column(key)[0] for key in keys]
        open_rows = np.flatnonzero(refused == 0)
        if not open_rows.size:
            return
        stacked = np.stack([column[open_rows] for column in columns])
        _, domain = np.unique(stacked, axis=1, return_inverse=True)
        domain = domain.reshape(-1)
        for room in (session.room, session.room_once_released):
            total = np.bincount(domain, weights=room(shape)[open_rows])
            if total.any():
                break
        else:
            return
        refused[open_rows[domain != int(total.argmax())]] = int(Refusal.POD_AFFINITY)

    def _leave_one_a_domain(self, session: Session, shape: int, refused: CodeVec) -> None:
        """Leave a group with anti-affinity to itself one node of each domain, with room."""
        for key in self.terms.self_averse[shape]:
            column, values = session.nodes.statics.label_column(key)
            open_rows = np.flatnonzero((refused == 0) & (column >= 0))
            domain = column[open_rows]
            if open_rows.size <= 1 or len(values) == len(column):
                continue  # every node is a domain of its own: node_room says the rest
            now = session.room(shape)[open_rows] > 0
            later = session.room_once_released(shape)[open_rows] > 0
            order = np.lexsort((open_rows, ~later, ~now, domain))
            ranked = domain[order]
            is_first = np.ones(len(order), np.bool_)
            is_first[1:] = ranked[1:] != ranked[:-1]
            refused[open_rows[order[~is_first]]] = int(Refusal.POD_ANTI_AFFINITY)

    # -- crowds ------------------------------------------------------------------------------

    def _crowd(self, session: Session, kind: str, key: object, members: BoolVec) -> Crowd:
        crowd = self._crowds.get((kind, key))
        if crowd is None:
            is_by_shape = kind in ("shapes", "ports", "mig")
            tasks = session.tasks
            column = tasks.shape_of_task if is_by_shape else tasks.label_set_of_task
            rows = np.flatnonzero(members[column] & (tasks.state != int(TaskState.GONE)))
            crowd = self._crowds[kind, key] = Crowd(members, rows, is_by_shape)
        return crowd

    def _port_crowds(
        self, session: Session, shape: int, constraints: Constraints
    ) -> tuple[Crowd, Crowd]:
        """Return the pods that use a port of the shape: staying pods, and leaving pods."""
        crowd = self._crowds.get(("ports", shape))
        if crowd is None:
            every = session.shapes.constraints
            members = _among(session, self.terms.port_shapes)
            for other in np.flatnonzero(members).tolist():
                members[other] = are_in_conflict(constraints.host_ports, every[other].host_ports)
            crowd = self._crowd(session, "ports", shape, members)
        return crowd, replace(crowd, states=_LEAVING)

    def _labels_of(self, session: Session, shape: int, constraints: Constraints) -> RowVec:
        """Label sets of a shape's pods: one where it has pod terms, else those of its tasks."""
        if constraints.label_set >= 0:
            return np.array([constraints.label_set])
        labels = self._labels.get(shape)
        if labels is None:
            tasks = session.tasks
            own = (tasks.shape_of_task == shape) & (tasks.state != int(TaskState.GONE))
            # The last cell takes the -1 of tasks without labels; no term matches it.
            seen = np.zeros(len(session.label_sets.namespace) + 1, np.bool_)
            seen[tasks.label_set_of_task[own]] = True
            labels = self._labels[shape] = np.flatnonzero(seen[:-1])
        return labels


_MANY = 1 << 40


def _refuse(refused: CodeVec, where: BoolVec, refusal: Refusal) -> None:
    refused[where & (refused == 0)] = int(refusal)


def _among(session: Session, shapes: Sequence[int]) -> BoolVec:
    """``(shapes + 1,)`` which shapes are listed; those of later cycles are left out.

    The list grows with every cycle, and records of an older cycle may be made after that.
    """
    count = len(session.shapes.constraints)
    listed = np.zeros(count + 1, np.bool_)
    listed[[shape for shape in shapes if shape < count]] = True
    return listed


def _domain_counts(session: Session, key: str, counts: IntVec) -> tuple[RowVec, IntVec]:
    """Return (domain of each node, -1 for none; count by domain, the last cell for none)."""
    column, values = session.nodes.statics.label_column(key)
    domains = np.bincount(column + 1, weights=counts, minlength=len(values) + 1)
    return column, np.roll(domains, -1).astype(np.int64)
