"""Filters by labels, taints and conditions of nodes: one code for each node until these change.

Selectors are evaluated once per distinct label value, taints once per distinct set of taints. Each
node's answer is then looked up by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from kaisched import (
    CORDON,
    KEEPS_AWAY,
    BoolVec,
    CodeVec,
    Constraints,
    IntVec,
    NodeStatics,
    Refusal,
    Requirement,
    RowVec,
    Session,
    tolerates,
)

_Term: TypeAlias = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""Requirements on labels, and on fields; all must hold."""
_NAME_FIELD = "metadata.name"
AVOIDED = ("PreferNoSchedule",)
"""Effects of taints that pods avoid where they can."""
NODE_TYPE_LABEL = "run.ai/type"
"""The label of nodes whose values are Run:ai's node types."""


_HINT = "predicates.masks"
_CELLS = 8_000_000
"""Above so many codes all are dropped: 16 MB, far more than a normal cluster needs."""


class StaticMasks:
    """Refusal codes ``(N,)`` by constraints, for one :class:`NodeStatics`."""

    def __init__(self, statics: NodeStatics) -> None:
        """Start without codes."""
        self.statics = statics
        self._number_of_value: dict[str, dict[str, int]] = {}
        self._none: BoolVec = np.zeros(len(statics.name), np.bool_)
        self._none.setflags(write=False)
        self._standing: dict[tuple[object, ...], CodeVec | None] = {}
        self._rows: dict[tuple[_Term, ...] | None, RowVec] = {}

    @classmethod
    def of(cls, session: Session) -> StaticMasks:
        """Return the codes for the session's nodes, kept while these are the same."""
        masks: StaticMasks | None = session.hints.get(_HINT)
        if masks is None or masks.statics is not session.nodes.statics:
            masks = session.hints[_HINT] = cls(session.nodes.statics)
        return masks

    def codes(self, constraints: Constraints) -> CodeVec | None:
        """Return the codes of all nodes, or None when every node is allowed."""
        return self.with_volumes(self.standing(constraints), constraints)

    def with_volumes(self, codes: CodeVec | None, constraints: Constraints) -> CodeVec | None:
        """Add the constraints of volumes; not kept, since hardly two pods have the same."""
        if not constraints.volume_terms and constraints.wait is None:
            return codes
        count = len(self.statics.name)
        if constraints.wait is not None:
            return np.full(count, constraints.wait[0], np.int16)
        codes = np.zeros(count, np.int16) if codes is None else codes.copy()
        for terms in constraints.volume_terms:
            _mark(codes, ~self.is_any_term_met(terms), Refusal.VOLUME_AFFINITY)
        return codes if codes.any() else None

    def rows_met(self, terms: tuple[_Term, ...] | None) -> RowVec:
        """Return the rows of the nodes where any of some terms holds; of all nodes for None."""
        if terms not in self._rows:
            met = ~self._none if terms is None else self.is_any_term_met(terms)
            self._rows[terms] = met.nonzero()[0]
        return self._rows[terms]

    def standing(self, constraints: Constraints) -> CodeVec | None:
        """Return the codes without the constraints of volumes; None if every node is allowed."""
        key = (
            constraints.tolerations,
            constraints.node_selector,
            constraints.node_terms,
            constraints.node_types,
            constraints.queue_terms,
        )
        if key not in self._standing:
            if len(self._standing) * len(self.statics.name) > _CELLS:
                self._standing.clear()
            self._standing[key] = self._codes_of(constraints)
        return self._standing[key]

    def _codes_of(self, constraints: Constraints) -> CodeVec | None:
        statics = self.statics
        codes = np.zeros(len(statics.name), np.int16)
        if self._has_bad_nodes:
            _mark(codes, ~statics.is_ready, Refusal.NODE_NOT_READY)
            if not any(tolerates(each, CORDON) for each in constraints.tolerations):
                _mark(codes, statics.is_unschedulable, Refusal.NODE_UNSCHEDULABLE)
            _mark(codes, statics.has_pressure, Refusal.NODE_PRESSURE)
        if any(statics.taint_sets[1]):
            _mark(codes, self.is_tainted(constraints), Refusal.TAINT)
        self._mark_unselected(codes, constraints)
        codes.setflags(write=False)
        return codes if codes.any() else None

    def _mark_unselected(self, codes: CodeVec, constraints: Constraints) -> None:
        for key, value in constraints.node_selector:
            wanted = self._matches(Requirement(key, "In", (value,)))
            _mark(codes, ~wanted, Refusal.NODE_SELECTOR)
        if constraints.node_terms is not None:
            met = self.is_any_term_met(constraints.node_terms)
            _mark(codes, ~met, Refusal.NODE_AFFINITY)
        if constraints.node_types:
            typed = self._matches(Requirement(NODE_TYPE_LABEL, "In", constraints.node_types))
            _mark(codes, ~typed, Refusal.NODE_TYPE)
        for terms in constraints.queue_terms:
            met = self.is_any_term_met(terms)
            _mark(codes, ~met, Refusal.QUEUE_NODE_AFFINITY)

    def is_selected(self, constraints: Constraints) -> BoolVec:
        """``(N,)`` where selectors and affinity let such a pod go, whatever else keeps it away."""
        codes = np.zeros(len(self.statics.name), np.int16)
        self._mark_unselected(codes, constraints)
        selected: BoolVec = codes == 0
        return selected

    @cached_property
    def _has_bad_nodes(self) -> bool:
        statics = self.statics
        return not (
            statics.is_ready.all()
            and not statics.is_unschedulable.any()
            and not statics.has_pressure.any()
        )

    def is_tainted(self, constraints: Constraints) -> BoolVec:
        """``(N,)`` whether a node has a taint that nothing tolerates."""
        return self.count_taints(constraints, KEEPS_AWAY) > 0

    def count_taints(self, constraints: Constraints, effects: Sequence[str]) -> IntVec:
        """``(N,)`` how many taints of some effects a node has that nothing tolerates."""
        column, taint_sets = self.statics.taint_sets
        counts = [
            sum(
                taint.effect in effects
                and not any(tolerates(each, taint) for each in constraints.tolerations)
                for taint in taints
            )
            for taints in taint_sets
        ]
        return np.array(counts, np.int64).take(column)

    @cached_property
    def has_soft_taints(self) -> bool:
        """Whether any node has a taint that pods avoid where they can."""
        return any(it.effect in AVOIDED for taints in self.statics.taint_sets[1] for it in taints)

    def is_any_term_met(self, terms: Iterable[_Term]) -> BoolVec:
        """``(N,)`` where any of some terms holds."""
        met = np.zeros(len(self.statics.name), np.bool_)
        for expressions, fields in terms:
            if not expressions and not fields:
                continue  # an empty term matches no node, as in Kubernetes
            one = self._all_met(expressions, fields)
            if one is not self._none:
                met |= one
        return met

    def _all_met(
        self, expressions: Iterable[Requirement], fields: Iterable[Requirement]
    ) -> BoolVec:
        """Tell where all requirements hold; ``_none`` itself where one of them holds nowhere."""
        both: BoolVec | None = None
        for requirement in expressions:
            one = self._matches(requirement)
            if one is self._none:
                return one
            both = one if both is None else both & one
        for requirement in fields:
            one = self._field_matches(requirement)
            both = one if both is None else both & one
        return self._none if both is None else both

    def _matches(self, requirement: Requirement) -> BoolVec:
        """``(N,)`` where a requirement on labels holds.

        Values are looked up: a label such as the host name has as many as there are nodes.
        """
        column, values = self.statics.label_column(requirement.key)
        # The last cell stands for "no such label": the column says -1 there.
        if requirement.operator not in ("In", "NotIn"):
            return np.array([is_met(requirement, value) for value in (*values, None)])[column]
        is_inside = requirement.operator == "In"
        numbers = self._numbers(requirement.key, values)
        found = [numbers[value] for value in requirement.values if value in numbers]
        if not found:
            return self._none if is_inside else ~self._none
        answers = np.full(len(values) + 1, not is_inside)
        answers[found] = is_inside
        return answers[column]

    def _numbers(self, key: str, values: Sequence[str]) -> dict[str, int]:
        """Return the number of each value of a label."""
        numbers = self._number_of_value.get(key)
        if numbers is None:
            numbers = {value: number for number, value in enumerate(values)}
            self._number_of_value[key] = numbers
        return numbers

    def _field_matches(self, requirement: Requirement) -> BoolVec:
        """``(N,)`` where a requirement on ``metadata.name``, the only field, holds (In, NotIn)."""
        count = len(self.statics.name)
        if requirement.key != _NAME_FIELD:
            return np.zeros(count, np.bool_)
        rows = [self._row_of_name[v] for v in requirement.values if v in self._row_of_name]
        named = np.zeros(count, np.bool_)
        named[rows] = True
        if requirement.operator == "NotIn":
            return ~named
        return named if requirement.operator == "In" else np.zeros(count, np.bool_)

    @cached_property
    def _row_of_name(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.statics.name)}


def _mark(codes: CodeVec, where: BoolVec, refusal: Refusal) -> None:
    """Set a code where there is none yet: the first reason is kept."""
    codes[where & (codes == 0)] = int(refusal)


_INTEGER = re.compile(r"[+-]?0*[0-9]{1,19}", re.ASCII)
_LARGEST = 2**63


def _integer(text: str) -> int | None:
    """Return a number of 64 bits; None for any other text."""
    number = int(text) if _INTEGER.fullmatch(text) else _LARGEST
    return number if -_LARGEST <= number < _LARGEST else None


def _is_beyond(requirement: Requirement, value: str, sign: int) -> bool:
    number = _integer(value)
    bound = _integer(requirement.values[0]) if requirement.values else None
    return number is not None and bound is not None and number * sign > bound * sign


_OPERATORS: Mapping[str, Callable[[Requirement, str | None], bool]] = {
    "In": lambda requirement, value: value in requirement.values,
    "NotIn": lambda requirement, value: value not in requirement.values,
    "Exists": lambda _, value: value is not None,
    "DoesNotExist": lambda _, value: value is None,
    "Gt": lambda requirement, value: value is not None and _is_beyond(requirement, value, 1),
    "Lt": lambda requirement, value: value is not None and _is_beyond(requirement, value, -1),
}


def is_met(requirement: Requirement, value: str | None) -> bool:
    """Tell whether a label's value (None for no such label) meets a requirement."""
    operator = _OPERATORS.get(requirement.operator)
    return operator is not None and operator(requirement, value)
