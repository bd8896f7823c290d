"""Preferences: scores nodes by what pods prefer, as kube-scheduler does."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from pydantic import Field

from kaisched import (
    HOLDING_STATES,
    Arguments,
    BoolVec,
    Constraints,
    FloatVec,
    IntVec,
    Plugin,
    PodTerm,
    RowVec,
    Session,
    hookimpl,
)
from kaisched_plugins.predicates.neighbours import (
    Crowd,
    Neighbours,
    PodTerms,
    among,
    domain_counts,
)
from kaisched_plugins.predicates.spreading import Tally
from kaisched_plugins.predicates.statics import AVOIDED, StaticMasks

_TAINTS, _NODES, _SPREAD, _PODS = 3, 2, 2, 2
"""The weights of the four preferences, those of kube-scheduler."""
_ALL: Final = _TAINTS + _NODES + _SPREAD + _PODS


class PreferencesArguments(Arguments):
    """How the terms of pods that have a node count for other pods."""

    hard_pod_affinity_weight: int = Field(
        default=1,
        ge=0,
        le=100,
        description="Weight of their required affinity to the pod that is placed.",
    )
    ignore_preferred_terms_of_existing_pods: bool = Field(
        default=False, description="Whether their preferred terms on it have no effect."
    )


class Preferences(Plugin):
    """Prefers nodes by preferred affinity, ``ScheduleAnyway`` spread and ``PreferNoSchedule``."""

    name = "preferences"
    default_weight = 900.0
    is_score_rising = True  # pods that change their own scores are placed one by one

    Arguments = PreferencesArguments

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return the scores of this cycle; nothing is counted yet."""
        return _Scores(session, self.arguments)

    @hookimpl
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Answer the weighted mean of the four preferences; None where all nodes are alike."""
        scores: _Scores = session.state[self.name]
        found = scores.of(session, shape)
        return None if found is None else found.take(rows)

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise it while no pod prefers anything, and no node is to be avoided."""
        scores: _Scores = session.state[self.name]
        return scores.is_silent(question)

    @hookimpl
    def on_moves(
        self, session: Session, task: RowVec, node: RowVec, sign: int
    ) -> tuple[RowVec, RowVec] | None:
        """Return the shapes whose scores depended on the nodes of these tasks."""
        scores: _Scores = session.state[self.name]
        shapes = scores.drop(session, task)
        return (np.array(shapes, np.int64), node) if shapes else None


class _Scores:
    """The scores of one cycle: of each shape those of all nodes, until a move makes them stale."""

    def __init__(self, session: Session, arguments: PreferencesArguments) -> None:
        self._terms, self._masks = PodTerms.of(session), StaticMasks.of(session)
        self._neighbours = Neighbours(self._terms)
        self._arguments = arguments
        self._known: dict[int, FloatVec | None] = {}
        self._counting_labels: dict[int, set[int]] = {}
        """Label set to the shapes whose scores count pods with these labels."""
        self._counting_shapes: dict[int, set[int]] = {}
        """Shape to the shapes whose scores count its pods."""
        self._listed: set[int] = set()
        """The shapes that are in there."""

    @property
    def _are_about_pods(self) -> bool:
        return self._terms.have_preferences or len(self._terms.drawing) > 0

    def is_silent(self, question: str) -> bool:
        """Tell whether there is nothing to answer in this cycle."""
        if question == "node_score":
            return not (self._are_about_pods or self._masks.has_soft_taints)
        return question == "on_moves" and not self._are_about_pods

    def of(self, session: Session, shape: int) -> FloatVec | None:
        """``(N,)`` the scores of a shape; None where all nodes are alike."""
        if shape not in self._known:
            self._known[shape] = self._made(session, shape)
        return self._known[shape]

    def drop(self, session: Session, task: RowVec) -> list[int]:
        """Forget the scores that count some tasks; return the shapes of these scores."""
        tasks, stale = session.tasks, set[int]()
        for counting, column in (
            (self._counting_labels, tasks.label_set_of_task),
            (self._counting_shapes, tasks.shape_of_task),
        ):
            for number in set(column.take(task).tolist()) if counting else ():
                stale |= counting.get(number, set())
        dropped = sorted(stale & self._known.keys())
        for shape in dropped:
            del self._known[shape]
        return dropped

    def _made(self, session: Session, shape: int) -> FloatVec | None:
        constraints = session.shapes.constraints[shape]
        codes = self._masks.standing(constraints)
        is_open = np.ones(len(session.nodes), np.bool_) if codes is None else codes == 0
        wishes, crowds = constraints.preferences, list[Crowd]()
        parts: list[tuple[int, FloatVec | None]] = []
        if self._masks.has_soft_taints:
            taints = _part(self._masks.count_taints(constraints, AVOIDED), is_open, 0)
            parts.append((_TAINTS, None if taints is None else 1.0 - taints))
        if wishes.nodes:
            wanted = np.zeros(len(session.nodes), np.int64)
            for weight, term in wishes.nodes:
                wanted += weight * self._masks.is_any_term_met((term,))
            parts.append((_NODES, _part(wanted, is_open, 0)))
        if wishes.spread:
            tallies, crowds = self._neighbours.spread(session, shape, wishes.spread)
            parts.append((_SPREAD, _evenness(tallies, is_open)))
        if wishes.pods or len(self._terms.drawing):
            near = np.zeros(len(session.nodes), np.int64)
            for weight, key, crowd in self._neighbours_of(session, shape):
                crowds.append(crowd)
                column, domains = domain_counts(session, key, crowd.counts(session))
                near += weight * np.where(column >= 0, domains[column], 0)
            parts.append((_PODS, _part(near, is_open)))
        self._list(shape, crowds)
        scores = [weight / _ALL * part for weight, part in parts if part is not None]
        return sum(scores[1:], start=scores[0]) if scores else None

    def _neighbours_of(self, session: Session, shape: int) -> Iterator[tuple[int, str, Crowd]]:
        """Yield pods that draw a shape's pods near, or push them away: weight, domains, which.

        By the shape's own terms, and by those of pods that have a node.
        """
        terms, every = self._terms, session.shapes.constraints
        own = every[shape]
        for weight, term in own.preferences.pods:
            members = terms.matches(session, (term,))
            yield weight, term.topology_key, self._crowd(session, "labels", term, members)
        if not len(terms.drawing):
            return
        for label_set in self._neighbours.labels_of(session, shape, own).tolist():
            for term, shapes in terms.drawing.about(session, label_set).items():
                weights: dict[int, list[int]] = {}
                for other in dict.fromkeys(it for it in shapes if it < len(every)):
                    weight = self._weight(every[other], term, is_same=other == shape)
                    weights.setdefault(weight, []).append(other)
                for weight, some in weights.items():
                    if weight:
                        key, members = (shape, label_set, term, weight), among(session, some)
                        crowd = self._crowd(session, "shapes", key, members)
                        yield weight, term.topology_key, crowd

    def _crowd(self, session: Session, kind: str, key: object, members: BoolVec) -> Crowd:
        """Return pods as they count for affinity: until they are gone."""
        crowd = self._neighbours.crowd(session, kind, key, members)
        return replace(crowd, states=HOLDING_STATES)

    def _weight(self, constraints: Constraints, term: PodTerm, *, is_same: bool) -> int:
        """Return what a term of a pod weighs for a pod that it selects.

        Pods that require to be near to their own kind are there by that rule.
        """
        weight = 0
        if not self._arguments.ignore_preferred_terms_of_existing_pods:
            weight += sum(it for it, wish in constraints.preferences.pods if wish == term)
        if term in constraints.pod_affinity and not is_same:
            weight += self._arguments.hard_pod_affinity_weight
        return weight

    def _list(self, shape: int, crowds: Sequence[Crowd]) -> None:
        """Note which pods a shape's scores count; these are the same all through a cycle."""
        if shape in self._listed:
            return
        self._listed.add(shape)
        for crowd in crowds:
            counting = self._counting_shapes if crowd.is_by_shape else self._counting_labels
            for number in np.flatnonzero(crowd.members).tolist():
                counting.setdefault(number, set()).add(shape)


def _part(
    amounts: IntVec | FloatVec, is_open: BoolVec, least: int | None = None
) -> FloatVec | None:
    """Return amounts from 0 to 1: the least of the open nodes, or ``least``, to the most.

    None if there is no difference.
    """
    some = amounts[is_open]
    if not some.size:
        return None
    low, high = some.min() if least is None else least, some.max()
    return np.clip((amounts - low) / (high - low), 0.0, 1.0) if low < high else None


def _evenness(tallies: Sequence[Tally], is_open: BoolVec) -> FloatVec | None:
    """Return 1 where the fewest pods are, less where more are, 0 for nodes that lack a label.

    Each constraint counts the more, the more domains it has.
    """
    is_open = is_open & np.logical_and.reduce([it.column >= 0 for it in tallies])
    if not is_open.any():
        return None
    pods: FloatVec = np.zeros(len(is_open))
    for each in tallies:
        domains = len(np.unique(each.column[is_open]))
        # By the standard library: NumPy's logarithm is not the same on every processor.
        pods += each.counts[each.column] * math.log(domains + 2) + (each.rule.max_skew - 1)
    low, high = pods[is_open].min(), pods[is_open].max()
    evenness: FloatVec = np.clip((high + low - pods) / (high or 1.0), 0.0, 1.0)
    return evenness * is_open if high else is_open.astype(np.float64)
