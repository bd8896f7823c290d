"""What labels, taints and conditions of nodes allow: one code a node, the same until they change.

Selectors are evaluated once per distinct label value, taints once per distinct set of taints; nodes
then look their answer up by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np

from kaisched import (
    BoolVec,
    CodeVec,
    Constraints,
    NodeStatics,
    Refusal,
    Requirement,
    Taint,
    Toleration,
)

_Term: TypeAlias = tuple[tuple[Requirement, ...], tuple[Requirement, ...]]
"""Requirements on labels, and on fields; all must hold."""
_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NAME_FIELD = "metadata.name"


class StaticMasks:
    """Refusal codes ``(N,)`` by constraints, for one :class:`NodeStatics`."""

    def __init__(self, statics: NodeStatics) -> None:
        """Know nothing yet."""
        self.statics = statics
        self._codes: dict[tuple[object, ...], CodeVec | None] = {}

    def codes(self, constraints: Constraints) -> CodeVec | None:
        """Return the codes of all nodes, or None when every node is allowed."""
        key = (constraints.tolerations, constraints.node_selector, constraints.node_terms)
        if key not in self._codes:
            self._codes[key] = self._evaluate(constraints)
        codes = self._codes[key]
        if constraints.volume_terms or constraints.volume_wait is not None:
            return self._with_volumes(codes, constraints)
        return codes

    def _with_volumes(self, codes: CodeVec | None, constraints: Constraints) -> CodeVec | None:
        """Add what volumes demand; not remembered, since hardly two pods demand the same."""
        count = len(self.statics.name)
        if constraints.volume_wait is not None:
            return np.full(count, constraints.volume_wait[0], np.int16)
        codes = np.zeros(count, np.int16) if codes is None else codes.copy()
        for terms in constraints.volume_terms:
            _mark(codes, ~self._is_any_term_met(terms), Refusal.VOLUME_AFFINITY)
        return codes if codes.any() else None

    def _evaluate(self, constraints: Constraints) -> CodeVec | None:
        statics = self.statics
        codes = np.zeros(len(statics.name), np.int16)
        if self._has_bad_nodes:
            _mark(codes, ~statics.is_ready, Refusal.NODE_NOT_READY)
            if not any(tolerates(each, _CORDON) for each in constraints.tolerations):
                _mark(codes, statics.is_unschedulable, Refusal.NODE_UNSCHEDULABLE)
            _mark(codes, statics.has_pressure, Refusal.NODE_PRESSURE)
        column, taint_sets = statics.taint_sets
        if any(taint_sets):
            _mark(codes, self._is_tainted(constraints)[column], Refusal.TAINT)
        for key, value in constraints.node_selector:
            wanted = self._matches(Requirement(key, "In", (value,)))
            _mark(codes, ~wanted, Refusal.NODE_SELECTOR)
        if constraints.node_terms is not None:
            met = self._is_any_term_met(constraints.node_terms)
            _mark(codes, ~met, Refusal.NODE_AFFINITY)
        codes.setflags(write=False)
        return codes if codes.any() else None

    @cached_property
    def _has_bad_nodes(self) -> bool:
        statics = self.statics
        return not (
            statics.is_ready.all()
            and not statics.is_unschedulable.any()
            and not statics.has_pressure.any()
        )

    def _is_tainted(self, constraints: Constraints) -> BoolVec:
        """``(taint sets,)`` whether a set has a taint that nothing tolerates."""
        return np.array(
            [
                any(
                    taint.effect in _KEEPS_AWAY
                    and not any(tolerates(each, taint) for each in constraints.tolerations)
                    for taint in taints
                )
                for taints in self.statics.taint_sets[1]
            ],
            np.bool_,
        )

    def _is_any_term_met(self, terms: Iterable[_Term]) -> BoolVec:
        met = np.zeros(len(self.statics.name), np.bool_)
        for expressions, fields in terms:
            if not expressions and not fields:
                continue  # an empty term matches no node, as in Kubernetes
            one = np.ones_like(met)
            for requirement in expressions:
                one &= self._matches(requirement)
            for requirement in fields:
                one &= self._field_matches(requirement)
            met |= one
        return met

    def _matches(self, requirement: Requirement) -> BoolVec:
        column, values = self.statics.label_column(requirement.key)
        # The last cell stands for "no such label": the column says -1 there.
        answers = [is_met(requirement, value) for value in (*values, None)]
        return np.array(answers, np.bool_)[column]

    def _field_matches(self, requirement: Requirement) -> BoolVec:
        """Only ``metadata.name`` exists as a field, with In and NotIn."""
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
    """Set a code where there is none yet: the first reason stands."""
    codes[where & (codes == 0)] = int(refusal)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether a toleration covers a taint, by the rules of Kubernetes."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


def _is_beyond(requirement: Requirement, value: str, sign: int) -> bool:
    try:
        return int(value) * sign > int(requirement.values[0]) * sign
    except (ValueError, IndexError):
        return False


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
