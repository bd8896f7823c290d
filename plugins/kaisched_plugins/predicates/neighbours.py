"""Filters by the nodes of other pods: pod affinity, anti-affinity, spread and host ports.

Each question counts, from the ledger, the few tasks that it is about; these tasks are found once in
a cycle. Topology domains are numbered label values of the nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    HOLDING_STATES,
    NO_PREFERENCES,
    BoolVec,
    CodeVec,
    Constraints,
    IntVec,
    PodTerm,
    Refusal,
    RowVec,
    Session,
    SpreadRule,
    TaskState,
)
from kaisched_plugins.predicates.spreading import Tally, tally
from kaisched_plugins.predicates.statics import StaticMasks
from kaisched_plugins.predicates.volumes import FreeVolumes

# When two pods cannot share a node because of their host ports.


HostPort = tuple[str, str, int]
"""(protocol, host IP, port)."""

_EVERY_ADDRESS = ("", "0.0.0.0")  # noqa: S104 - compared with, not bound to


def are_in_conflict(one: Iterable[HostPort], other: Iterable[HostPort]) -> bool:
    """Tell whether two pods want the same port; an unset or wildcard address is every address."""
    others = list(other)
    return any(_is_same(mine, theirs) for mine in one for theirs in others)


def _is_same(one: HostPort, other: HostPort) -> bool:
    if (one[0] or "TCP", one[2]) != (other[0] or "TCP", other[2]):
        return False
    return one[1] == other[1] or one[1] in _EVERY_ADDRESS or other[1] in _EVERY_ADDRESS


# An index of shapes' constraints on other pods, and of the pods that each term selects.
#
# The index is one of the session's hints and grows with shapes and label sets. So a cycle in a
# cluster without pod affinity and host ports costs one comparison.


PRESENT = ACTIVE_STATES.copy()
"""States of a pod that counts as a neighbour. A stuck pod counts: its end is unknown."""
PRESENT[TaskState.STUCK] = True
_HINT = "predicates.podterms"
_Pair = tuple[str, str]


class PodTerms:
    """The shapes with ports or pod terms, of one generation of shape and label set numbers."""

    def __init__(self, generation: int) -> None:
        """Start without shapes."""
        self.generation = generation
        self.shapes: object = None
        self.seen = 0
        self.last: Constraints | None = None
        self.are_any = False
        """Whether any shape has ports or terms, so that answers may rest on where pods stand."""
        self.port_shapes: list[int] = []
        self.mig_by_annotation: list[int] = []
        """Shapes whose pods took MIG instances by annotation."""
        self.holders = Holders()
        """Anti-affinity terms, which keep other pods away."""
        self.drawing, self.seeking = Holders(), Holders()
        """Preferred terms, and required affinity, which count in the scores of other pods."""
        self.have_preferences = False
        """Whether any shape prefers some nodes to others."""
        self.self_averse: dict[int, tuple[str, ...]] = {}
        """Shape to the topology keys of its pods' anti-affinity to each other."""
        self.self_seeking: set[int] = set()
        """Shapes whose pods have affinity to each other: the first pod may start anywhere."""
        self._sets = _LabelIndex()
        self._matches: dict[PodTerm, tuple[int, list[int]]] = {}
        """Term to (number of label sets checked, the label sets that it selects)."""

    @classmethod
    def of(cls, session: Session) -> PodTerms:
        """Return the index for the session's shapes."""
        terms: PodTerms | None = session.hints.get(_HINT)
        if terms is None or not terms.is_of(session):
            terms = session.hints[_HINT] = cls(session.generation)
        if terms.shapes is not session.shapes:
            terms.extend(session)
        return terms

    def is_of(self, session: Session) -> bool:
        """Tell whether the session's shapes begin with the indexed shapes."""
        if self.shapes is session.shapes:
            return True
        constraints = session.shapes.constraints
        return self.generation == session.generation and (
            not self.seen
            or (len(constraints) >= self.seen and constraints[self.seen - 1] is self.last)
        )

    def extend(self, session: Session) -> None:
        """Add the shapes that are new since the last call."""
        constraints = session.shapes.constraints
        for shape in range(self.seen, len(constraints)):
            self.last = constraints[shape]
            self._take_up(session, shape, self.last)
        self.seen = len(constraints)
        self.shapes = session.shapes

    def _take_up(self, session: Session, shape: int, asked: Constraints) -> None:
        if asked.host_ports:
            self.port_shapes.append(shape)
        if asked.devices is not None and asked.devices.legacy_slices:
            self.mig_by_annotation.append(shape)
        self.are_any |= asked.has_pod_terms
        self.have_preferences |= asked.preferences != NO_PREFERENCES
        for term in asked.pod_affinity:
            self.seeking.add(term, shape)
        for weight, term in asked.preferences.pods:
            self.drawing.add(term, shape, weight)
        if not (asked.pod_affinity or asked.pod_anti_affinity):
            return
        own = asked.label_set
        for term in filter(None, (it.for_others for it in asked.pod_anti_affinity)):
            self.holders.add(term, shape)
        averse = [
            term.topology_key
            for term in asked.pod_anti_affinity
            if own >= 0 and _speaks_of(session, term, own)
        ]
        if averse:
            self.self_averse[shape] = tuple(averse)
        seeks = asked.pod_affinity and own >= 0
        if seeks and all(_speaks_of(session, term, own) for term in asked.pod_affinity):
            self.self_seeking.add(shape)

    def matches(self, session: Session, terms: Iterable[PodTerm]) -> BoolVec:
        """``(label sets + 1,)`` whether any term selects such pods; the last, for -1, is False."""
        count = len(session.label_sets.namespace)
        found = np.zeros(count + 1, np.bool_)
        for term in terms:
            numbers = self._numbers(session, term)
            found[numbers[: bisect_left(numbers, count)]] = True
        return found

    def weighed(self, session: Session, terms: Iterable[tuple[int, PodTerm]]) -> IntVec:
        """``(label sets + 1,)`` the sum of the weights of the terms that select such pods."""
        count = len(session.label_sets.namespace)
        found = np.zeros(count + 1, np.int64)
        for weight, term in terms:
            numbers = self._numbers(session, term)
            found[numbers[: bisect_left(numbers, count)]] += weight
        return found

    def _numbers(self, session: Session, term: PodTerm) -> list[int]:
        """Return the label sets that a term selects; perhaps some of later cycles too.

        A record of an older cycle may be made after later cycles.
        """
        seen, numbers = self._matches.get(term, (0, []))
        count = len(session.label_sets.namespace)
        if seen < count:
            some = self._sets.candidates(session, term, seen)
            fresh = [number for number in some if _speaks_of(session, term, number)]
            numbers = numbers + fresh
            self._matches[term] = (count, numbers)
        return numbers

    def matches_all(self, session: Session, terms: Sequence[PodTerm]) -> BoolVec:
        """``(label sets + 1,)`` whether all terms select such pods."""
        both = self.matches(session, terms[:1])
        for term in terms[1:]:
            both &= self.matches(session, (term,))
        return both


class Holders:
    """Terms on other pods with their shapes, found by the labels that the terms select."""

    def __init__(self) -> None:
        """Start without terms."""
        self._shapes: dict[PodTerm, dict[int, int]] = {}
        """By term, the shapes that have it, and with what weight."""
        self._by_pair: dict[_Pair, list[PodTerm]] = {}
        self._rest: list[PodTerm] = []
        """Terms that name no value of a label."""
        self._named: set[str] = set()
        """Keys of the labels that terms name: others make no difference."""
        self._against: dict[tuple[str, frozenset[_Pair]], dict[str, Counter[int]]] = {}
        """Namespace and such labels to the shapes with terms that select them, by topology key."""

    def __len__(self) -> int:
        """Return how many terms there are."""
        return len(self._shapes)

    def add(self, term: PodTerm, shape: int, weight: int = 1) -> None:
        """Add a term of a shape."""
        self._against.clear()
        is_known = term in self._shapes
        self._shapes.setdefault(term, {})[shape] = weight
        if is_known:
            return
        self._named.update(each.key for each in term.selector)
        pairs = _pairs_of(term)
        if pairs is None:
            self._rest.append(term)
        for pair in pairs or ():
            self._by_pair.setdefault(pair, []).append(term)

    def against(self, session: Session, label_set: int) -> dict[str, Counter[int]]:
        """Return the shapes with terms that select pods of a label set, by topology key.

        With the sum of the weights of these terms.
        """
        sets = session.label_sets
        labels = sets.labels[label_set].items()
        of = sets.namespace[label_set], frozenset(it for it in labels if it[0] in self._named)
        if of not in self._against:
            found: dict[str, Counter[int]] = {}
            for term in self._candidates(session, label_set):
                if _speaks_of(session, term, label_set):
                    found.setdefault(term.topology_key, Counter()).update(self._shapes[term])
            self._against[of] = found
        return self._against[of]

    def _candidates(self, session: Session, label_set: int) -> Iterable[PodTerm]:
        """Return the terms that may select a label set, each once."""
        pairs = session.label_sets.labels[label_set].items()
        named = {term: None for pair in pairs for term in self._by_pair.get(pair, ())}
        return (*named, *self._rest)


class _LabelIndex:
    """An index of label sets by label."""

    def __init__(self) -> None:
        self._seen = 0
        self._by_pair: dict[_Pair, list[int]] = {}

    def candidates(self, session: Session, term: PodTerm, start: int) -> Iterable[int]:
        """Return the label sets from ``start`` on that a term may select, in order."""
        labels = session.label_sets.labels
        pairs = _pairs_of(term)
        if pairs is None:
            return range(start, len(labels))
        for number in range(self._seen, len(labels)):
            for pair in labels[number].items():
                self._by_pair.setdefault(pair, []).append(number)
        self._seen = max(self._seen, len(labels))
        found: set[int] = set()
        for pair in pairs:
            numbers = self._by_pair.get(pair, ())
            found.update(numbers[bisect_left(numbers, start) : bisect_left(numbers, len(labels))])
        return sorted(found)


def _pairs_of(term: PodTerm) -> list[_Pair] | None:
    """Return labels of which every pod that a term selects has one; None if it names none."""
    if term.match_none:
        return []
    for requirement in term.selector:
        if requirement.operator == "In":
            return [(requirement.key, value) for value in requirement.values]
    return None


def _speaks_of(session: Session, term: PodTerm, number: int) -> bool:
    """Tell whether a term selects pods with a label set."""
    sets = session.label_sets
    return term.selects(sets.namespace[number], sets.labels[number])


# A port is free, and anti-affinity met, when the pod is gone, not before: until then it runs, and
# the kubelet would turn away who wants its port.
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
        self._first: set[int] = set()
        """Shapes with affinity to themselves of which no pod is anywhere yet."""
        self.volumes = FreeVolumes()
        self._counting: dict[tuple[int, Sequence[SpreadRule]], list[BoolVec]] = {}

    def codes(self, session: Session, shape: int, codes: CodeVec | None) -> CodeVec | None:
        """Return the codes ``(N,)`` of all nodes, on top of those of labels and taints."""
        constraints = session.shapes.constraints[shape]
        refused = np.zeros(len(session.nodes), np.int16) if codes is None else codes.copy()
        watched: list[Crowd] = []
        if constraints.host_ports:
            staying, _ = self._port_crowds(session, shape, constraints)
            watched.append(staying)
            _refuse(refused, staying.counts(session) > 0, Refusal.HOST_PORT)
        averse = self._averse_crowds(session, shape)
        for key, crowd in averse:
            _refuse_domains(session, key, crowd, refused, Refusal.POD_ANTI_AFFINITY)
        watched += [crowd for _, crowd in averse]
        if constraints.pod_affinity:
            watched.append(self._refuse_affinity(session, shape, refused))
        if constraints.spread:
            watched += self._refuse_spread(session, shape, refused)
        # Asked last: a refusal that passes with time must not hide a permanent refusal.
        for key, crowd in averse:
            leaving = replace(crowd, states=_LEAVING)
            _refuse_domains(session, key, leaving, refused, Refusal.POD_ANTI_AFFINITY_LEAVING)
        if constraints.host_ports:
            _, leaving = self._port_crowds(session, shape, constraints)
            _refuse(refused, leaving.counts(session) > 0, Refusal.HOST_PORT_LEAVING)
        if watched:
            self.watched[shape] = tuple(watched)
        return refused if refused.any() else None

    def stale(self, session: Session, task: RowVec) -> list[int]:
        """Return the shapes whose codes may differ now that ``task`` moved."""
        terms = self.terms
        return [
            shape
            for shape, crowds in self.watched.items()
            # To these one domain is left: any move may change which.
            if shape in terms.self_seeking or any(crowd.has(session, task) for crowd in crowds)
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

    def _averse_crowds(self, session: Session, shape: int) -> list[tuple[str, Crowd]]:
        """Return pods of which none may be in a domain, by topology key.

        By anti-affinity in both directions, of the shape and of other pods. All terms of one
        topology key are one question.
        """
        terms, constraints = self.terms, session.shapes.constraints[shape]
        own: dict[str, list[PodTerm]] = {}
        for term in constraints.pod_anti_affinity:
            own.setdefault(term.topology_key, []).append(term)
        pairs = [
            (key, self._crowd(session, "labels", (shape, key), terms.matches(session, listed)))
            for key, listed in own.items()
        ]
        for label_set in (
            self.labels_of(session, shape, constraints).tolist() if terms.holders else ()
        ):
            for key, shapes in terms.holders.against(session, label_set).items():
                holders = _among(session, shapes)
                pairs.append((key, self._crowd(session, "shapes", (label_set, key), holders)))
        return pairs

    def _refuse_affinity(self, session: Session, shape: int, refused: CodeVec) -> Crowd:
        """Refuse domains by affinity; return the pods that the answer rests on."""
        wanted = session.shapes.constraints[shape].pod_affinity
        crowd = self._crowd(session, "all", wanted, self.terms.matches_all(session, wanted))
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
        is_first = not exists and shape in self.terms.self_seeking
        (self._first.add if is_first else self._first.discard)(shape)
        _refuse(refused, ~(labelled if is_first else met), Refusal.POD_AFFINITY)
        return crowd

    def _refuse_spread(self, session: Session, shape: int, refused: CodeVec) -> list[Crowd]:
        """Refuse by spread constraints; return the pods that the answer rests on."""
        rules = session.shapes.constraints[shape].spread
        tallies, crowds = self.spread(session, shape, rules)
        for each in tallies:
            _refuse(refused, each.column < 0, Refusal.TOPOLOGY_LABEL)
        for each in tallies:
            _refuse(refused, each.is_over, Refusal.TOPOLOGY_SPREAD)
        return crowds

    def spread(
        self, session: Session, shape: int, rules: Sequence[SpreadRule]
    ) -> tuple[list[Tally], list[Crowd]]:
        """Return the counts of some spread constraints of a shape, and the pods that they count.

        As in kube-scheduler, a node counts that has the labels of all constraints, and a pod does
        until it is asked to leave.
        """
        own = session.shapes.constraints[shape].label_set
        tallies, crowds = [], []
        for rule, is_eligible in zip(rules, self._eligible(session, shape, rules), strict=True):
            members = self.terms.matches(session, (rule.pods,))
            crowd = self._crowd(session, "labels", (shape, rule), members)
            crowds.append(crowd := replace(crowd, states=ACTIVE_STATES))
            domains = session.nodes.statics.label_column(rule.pods.topology_key)
            adds = int(members[own])
            tallies.append(tally(rule, domains, is_eligible, crowd.counts(session), adds))
        return tallies, crowds

    def _eligible(self, session: Session, shape: int, rules: Sequence[SpreadRule]) -> list[BoolVec]:
        """Return ``(N,)`` the nodes that count for each of some spread constraints of a shape."""
        found = self._counting.get((shape, rules))
        if found is None:
            masks, constraints = StaticMasks.of(session), session.shapes.constraints[shape]
            labelled = np.ones(len(session.nodes), np.bool_)
            for rule in rules:
                labelled &= session.nodes.statics.label_column(rule.pods.topology_key)[0] >= 0
            found = self._counting[shape, rules] = []
            for rule in rules:
                counts = labelled.copy()
                if rule.honors_affinity:
                    counts &= masks.is_selected(constraints)
                if rule.honors_taints:
                    counts &= ~masks.is_tainted(constraints)
                found.append(counts)
        return found

    def domains(self, session: Session, shape: int) -> IntVec | None:
        """Return the number of each node's domain, in one of which all pods must be; -1 for none.

        None unless they have affinity to themselves and none of them is anywhere yet.
        """
        if shape not in self._first:
            return None
        terms = session.shapes.constraints[shape].pod_affinity
        columns = [
            session.nodes.statics.label_column(key)[0]
            for key in dict.fromkeys(term.topology_key for term in terms)
        ]
        _, domain = np.unique(np.stack(columns), axis=1, return_inverse=True)
        return np.where((np.stack(columns) >= 0).all(axis=0), domain.reshape(-1), -1)

    # -- crowds ------------------------------------------------------------------------------

    def _crowd(self, session: Session, kind: str, key: object, members: BoolVec) -> Crowd:
        """Return the tasks of some label sets, or of some shapes, by the kind of question."""
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

    def labels_of(self, session: Session, shape: int, constraints: Constraints) -> RowVec:
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


def _refuse_domains(
    session: Session, key: str, crowd: Crowd, refused: CodeVec, refusal: Refusal
) -> None:
    """Refuse the domains of a topology key in which any pod of a crowd is."""
    counts = crowd.counts(session) if crowd.tasks.size else None
    if counts is not None and counts.any():
        column, domains = _domain_counts(session, key, counts)
        _refuse(refused, (column >= 0) & (domains[column] > 0), refusal)


def _among(session: Session, shapes: Iterable[int]) -> BoolVec:
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
