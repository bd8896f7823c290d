"""An index of shapes' constraints on other pods, and of the pods that each term selects.

The index is one of the session's hints and grows with shapes and label sets. So a cycle in a
cluster without pod affinity and host ports costs one comparison. Terms of pods that are on no node
are not read: other pods cost a shape nothing unless its terms select them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import numpy as np

from kaisched import ACTIVE_STATES, BoolVec, Constraints, PodTerm, Session, TaskState
from kaisched_plugins.predicates.statics import is_met

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
        self.dormant: set[int] = set()
        """Shapes with anti-affinity whose pods have been on no node so far."""
        self.holders = Holders()
        """Anti-affinity terms of the other shapes, which keep pods away from theirs."""
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
        if terms.dormant:
            terms.wake_standing(session)
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
        if not (asked.pod_affinity or asked.pod_anti_affinity):
            return
        own = asked.label_set
        if asked.pod_anti_affinity:
            self.dormant.add(shape)
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

    def wake_standing(self, session: Session) -> None:
        """Add the terms of shapes with a pod on a node now."""
        tasks = session.tasks
        stands = np.zeros(len(session.shapes.constraints), np.bool_)
        stands[tasks.shape_of_task[PRESENT[tasks.state]]] = True
        for shape in sorted(self.dormant):
            if shape < len(stands) and stands[shape]:
                self.wake(session, shape)

    def wake(self, session: Session, shape: int) -> bool:
        """Add a shape's terms; False when they are already added."""
        if shape not in self.dormant:
            return False
        self.dormant.discard(shape)
        for term in session.shapes.constraints[shape].pod_anti_affinity:
            self.holders.add(term, shape)
        return True

    def matches(self, session: Session, terms: Iterable[PodTerm]) -> BoolVec:
        """``(label sets + 1,)`` whether any term selects such pods; the last, for -1, is False."""
        count = len(session.label_sets.namespace)
        found = np.zeros(count + 1, np.bool_)
        for term in terms:
            numbers = self._numbers(session, term)
            found[numbers[: bisect_left(numbers, count)]] = True
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
    """Anti-affinity terms with their shapes, found by the labels that the terms select."""

    def __init__(self) -> None:
        """Start without terms."""
        self._entries: list[tuple[PodTerm, int]] = []
        self._shapes: dict[PodTerm, list[int]] = {}
        self._by_pair: dict[_Pair, list[PodTerm]] = {}
        self._rest: list[PodTerm] = []
        """Terms that name no value of a label."""
        self._against: dict[int, tuple[int, dict[str, list[int]]]] = {}
        """Label set to (number of entries checked, shapes that exclude it by topology key)."""

    def __len__(self) -> int:
        """Return how many pairs of a term and a shape there are."""
        return len(self._entries)

    def add(self, term: PodTerm, shape: int) -> None:
        """Add a term of a shape."""
        self._entries.append((term, shape))
        shapes = self._shapes.get(term)
        if shapes is not None:
            shapes.append(shape)
            return
        self._shapes[term] = [shape]
        pairs = _pairs_of(term)
        if pairs is None:
            self._rest.append(term)
        for pair in pairs or ():
            self._by_pair.setdefault(pair, []).append(term)

    def against(self, session: Session, label_set: int) -> dict[str, list[int]]:
        """Return the shapes that exclude pods of a label set, by topology key."""
        known = self._against.get(label_set)
        if known is None:
            fresh = [
                (term, shape)
                for term in self._candidates(session, label_set)
                if _speaks_of(session, term, label_set)
                for shape in self._shapes[term]
            ]
            shapes: dict[str, list[int]] = {}
        else:
            seen, shapes = known
            fresh = [
                entry for entry in self._entries[seen:] if _speaks_of(session, entry[0], label_set)
            ]
        for term, shape in fresh:
            shapes.setdefault(term.topology_key, []).append(shape)
        self._against[label_set] = (len(self._entries), shapes)
        return shapes

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
    if term.match_none or not (term.all_namespaces or sets.namespace[number] in term.namespaces):
        return False
    labels = sets.labels[number]
    return all(is_met(each, labels.get(each.key)) for each in term.selector)
