"""Preferences: scores nodes by what pods prefer, as kube-scheduler does."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from pydantic import Field

from kaisched import (
    HOLDING_STATES,
    Arguments,
    BoolVec,
    FloatVec,
    IntVec,
    Plugin,
    PodTerm,
    RowVec,
    Session,
    hookimpl,
)
from kaisched_plugins.predicates.neighbours import Neighbours, PodTerms
from kaisched_plugins.predicates.spreading import Tally
from kaisched_plugins.predicates.statics import AVOIDED, StaticMasks

_TAINTS, _NODES, _SPREAD, _PODS = 3, 2, 2, 2
"""The weights of the four preferences, those of kube-scheduler."""
_FEW: Final = 64
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
        shapes = scores.drop(task)
        return (np.array(shapes, np.int64), node) if shapes else None


class _Pull(NamedTuple):
    """Pods that draw others into their domains, or push them away."""

    key: str
    """The label of nodes whose values are the domains."""
    tasks: RowVec
    weights: IntVec
    """What each of them weighs."""

    def counts(self, session: Session) -> IntVec:
        """``(N,)`` the weights of the pods in each node's domain: a pod counts until it is gone."""
        nodes = session.node_of_task_now.take(self.tasks)
        there = HOLDING_STATES.take(session.state_now.take(self.tasks)) & (nodes >= 0)
        column, values = session.nodes.statics.label_column(self.key)
        domains = np.zeros(len(values) + 1, np.int64)
        np.add.at(domains, column[nodes[there]], self.weights[there])
        domains[-1] = 0  # nodes without the label are in no domain
        counts: IntVec = domains[column]
        return counts


class _Scores:
    """The scores of one cycle: of each shape those of all nodes, until a move makes them stale."""

    def __init__(self, session: Session, arguments: PreferencesArguments) -> None:
        self._terms, self._masks = PodTerms.of(session), StaticMasks.of(session)
        self._neighbours = Neighbours(self._terms)
        self._arguments = arguments
        self._known: dict[int, FloatVec | None] = {}
        self._pulls: dict[int, list[_Pull]] = {}
        self._counting: dict[int, set[int]] = {}
        """Task to the shapes whose scores count it, and few others."""
        self._counting_many: set[int] = set()
        """The shapes whose scores count many tasks: they are stale after any move."""

    @property
    def _are_about_pods(self) -> bool:
        terms = self._terms
        return terms.have_preferences or len(terms.seeking) > 0

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

    def drop(self, task: RowVec) -> list[int]:
        """Forget the scores that count some tasks; return the shapes of these scores."""
        few = (self._counting.get(it, ()) for it in task.tolist())
        stale = self._counting_many.union(*few)
        dropped = sorted(stale & self._known.keys())
        for shape in dropped:
            del self._known[shape]
        return dropped

    def _made(self, session: Session, shape: int) -> FloatVec | None:
        constraints = session.shapes.constraints[shape]
        codes = self._masks.standing(constraints)
        is_open = np.ones(len(session.nodes), np.bool_) if codes is None else codes == 0
        wishes, is_new = constraints.preferences, shape not in self._pulls
        if is_new:
            self._pulls[shape] = list(self._pulls_of(session, shape))
        counted = [it.tasks for it in self._pulls[shape]]
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
            counted += [crowd.tasks for crowd in crowds]
            parts.append((_SPREAD, _evenness(tallies, is_open)))
        if pulls := self._pulls[shape]:
            near = np.sum([it.counts(session) for it in pulls], axis=0)
            parts.append((_PODS, _part(near, is_open)))
        if is_new and counted:
            self._note(shape, np.concatenate(counted))
        scores = [weight / _ALL * part for weight, part in parts if part is not None]
        return sum(scores[1:], start=scores[0]) if scores else None

    def _note(self, shape: int, tasks: RowVec) -> None:
        """Note which tasks the scores of a shape count."""
        if tasks.size > _FEW:
            self._counting_many.add(shape)
            return
        for task in tasks.tolist():
            self._counting.setdefault(task, set()).add(shape)

    def _pulls_of(self, session: Session, shape: int) -> Iterator[_Pull]:
        """Yield the pods that a shape's own terms select, and those whose terms select its pods."""
        terms, tasks = self._terms, session.tasks
        own = session.shapes.constraints[shape]
        by_key: dict[str, list[tuple[int, PodTerm]]] = {}
        for weight, term in own.preferences.pods:
            by_key.setdefault(term.topology_key, []).append((weight, term))
        for key, some in by_key.items():
            yield from _pull(key, terms.weighed(session, some)[tasks.label_set_of_task])
        weights = self._weights_of_shapes(session, shape) if self._are_about_pods else {}
        for key, of_shape in weights.items():
            yield from _pull(key, of_shape[tasks.shape_of_task])

    def _weights_of_shapes(self, session: Session, shape: int) -> dict[str, IntVec]:
        """Return, by topology key, what pods of each shape weigh by their terms on a shape's pods.

        Pods that require to be near to their own kind are there by that rule.
        """
        terms, every = self._terms, session.shapes.constraints
        drawing = int(not self._arguments.ignore_preferred_terms_of_existing_pods)
        seeking = self._arguments.hard_pod_affinity_weight
        found: dict[str, IntVec] = {}
        for label_set in self._neighbours.labels_of(session, shape, every[shape]).tolist():
            for holders, factor in ((terms.drawing, drawing), (terms.seeking, seeking)):
                against = holders.against(session, label_set) if factor and len(holders) else {}
                for key, weights in against.items():
                    of_shape = found.setdefault(key, np.zeros(len(every), np.int64))
                    for other, weight in weights.items():
                        is_own = other == shape and holders is terms.seeking
                        if other < len(every) and not is_own:
                            of_shape[other] += factor * weight
        return found


def _pull(key: str, weight_of_task: IntVec) -> Iterator[_Pull]:
    tasks = np.flatnonzero(weight_of_task)
    if tasks.size:
        yield _Pull(key, tasks, weight_of_task[tasks])


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
