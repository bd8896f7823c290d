"""What shapes ask of other pods, indexed; and which pods a term speaks of.

Kept among the session's hints and extended as shapes and label sets are appended, so that a cycle
in a cluster without pod affinity and host ports pays one comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kaisched import BoolVec, Constraints, PodTerm, Session
from kaisched_plugins.predicates.statics import is_met

_HINT = "predicates.podterms"


class PodTerms:
    """The shapes with ports or pod terms, of one generation of shape and label set numbers."""

    def __init__(self, generation: int) -> None:
        """Know no shape yet."""
        self.generation = generation
        self.shapes: object = None
        self.seen = 0
        self.last: Constraints | None = None
        self.port_shapes: list[int] = []
        self.holders: dict[PodTerm, list[int]] = {}
        """Anti-affinity term to the shapes that carry it."""
        self.self_averse: dict[int, tuple[str, ...]] = {}
        """Shape to the topology keys over which its pods keep away from each other."""
        self.self_seeking: set[int] = set()
        """Shapes whose pods meet their own affinity: the first of them may start anywhere."""
        self._matches: dict[PodTerm, BoolVec] = {}

    @classmethod
    def of(cls, session: Session) -> PodTerms:
        """Return the index for the session's shapes."""
        terms: PodTerms | None = session.hints.get(_HINT)
        if terms is None or not terms.is_of(session):
            terms = session.hints[_HINT] = cls(session.snapshot.generation)
        if terms.shapes is not session.shapes:
            terms.extend(session)
        return terms

    def is_of(self, session: Session) -> bool:
        """Tell whether the session's shapes begin with those that are known."""
        if self.shapes is session.shapes:
            return True
        constraints = session.shapes.constraints
        return self.generation == session.snapshot.generation and (
            not self.seen
            or (len(constraints) >= self.seen and constraints[self.seen - 1] is self.last)
        )

    def extend(self, session: Session) -> None:
        """Take up the shapes that came since the last look."""
        constraints = session.shapes.constraints
        for shape in range(self.seen, len(constraints)):
            self.last = constraints[shape]
            self._take_up(session, shape, self.last)
        self.seen = len(constraints)
        self.shapes = session.shapes

    def _take_up(self, session: Session, shape: int, asked: Constraints) -> None:
        if asked.host_ports:
            self.port_shapes.append(shape)
        if not (asked.pod_affinity or asked.pod_anti_affinity):
            return
        own = asked.label_set
        for term in asked.pod_anti_affinity:
            self.holders.setdefault(term, []).append(shape)
        averse = [
            term.topology_key
            for term in asked.pod_anti_affinity
            if self.matches(session, term)[own]
        ]
        if averse:
            self.self_averse[shape] = tuple(averse)
        if asked.pod_affinity and self.matches_all(session, asked.pod_affinity)[own]:
            self.self_seeking.add(shape)

    def matches(self, session: Session, term: PodTerm) -> BoolVec:
        """``(label sets + 1,)`` whether a term speaks of such pods; last False, for -1."""
        count = len(session.label_sets.namespace)
        known = self._matches.get(term)
        if known is not None and len(known) > count + 1:
            # A record of an older cycle is worked out: later ones know label sets it has not.
            own = known[: count + 1].copy()
            own[count] = False
            return own
        if known is None or len(known) <= count:
            start = 0 if known is None else len(known) - 1
            fresh = np.zeros(count + 1, np.bool_)
            if known is not None:
                fresh[:start] = known[:start]
            fresh[start:count] = list(_matching(session, term, range(start, count)))
            known = self._matches[term] = fresh
        return known

    def matches_all(self, session: Session, terms: Sequence[PodTerm]) -> BoolVec:
        """Tell the same for all of several terms together."""
        both = self.matches(session, terms[0])
        for term in terms[1:]:
            both = both & self.matches(session, term)
        return both


def _matching(session: Session, term: PodTerm, numbers: range) -> Iterator[bool]:
    sets = session.label_sets
    for number in numbers:
        if term.match_none or not (
            term.all_namespaces or sets.namespace[number] in term.namespaces
        ):
            yield False
            continue
        labels = sets.labels[number]
        yield all(is_met(each, labels.get(each.key)) for each in term.selector)
