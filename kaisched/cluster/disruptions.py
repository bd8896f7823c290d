"""Disruption budgets of a store: which pods each protects, and what it allows as things stand.

The rules are those of the Eviction API (Kubernetes, registry of pods, ``eviction.go``): a budget
whose status lags behind its spec allows nothing; pods that do not run yet, or leave already, count
against none; a pod that is not ready counts against none while enough others are healthy, or if
the budget says so; a pod that several budgets select is never evicted.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

import numpy as np

from kaisched.core.axis import IntVec, RowVec, TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import SEVERAL, UNPROTECTED, DisruptionBudgets, LabelSets
from kaisched.objects.pod import LabelSelector, PodDisruptionBudget, SelectorRequirement, is_valid

_RUNNING: Final = int(TaskState.RUNNING)
_MOST_DISRUPTED: Final = 2000
"""With more pods in ``disruptedPods`` the API refuses every eviction."""


class Disruptions:
    """The budgets, and what of pods matters to them."""

    def __init__(self) -> None:
        """Know none."""
        self._budgets: dict[str, PodDisruptionBudget] = {}
        self._unready: set[str] = set()
        self.unseen: set[str] = set()
        """Pods that were evicted and that their budgets, as last heard of, still count."""
        self._selected = np.array([UNPROTECTED], np.int64)
        """Label set to the budget that selects it; the last entry stands for no label set."""
        self._basis: tuple[int, int] = (0, 0)
        """Compactions of the store and changes of selectors that this rests on."""
        self._changes = 0

    def __len__(self) -> int:
        """Return how many budgets there are."""
        return len(self._budgets)

    def put(self, budget: PodDisruptionBudget, assumed: Container[str]) -> bool:
        """Take in a budget that came or changed; tell whether anything is different.

        ``assumed`` are the pods of which an eviction was sent that their events do not show yet.
        """
        old = self._budgets.get(budget.key)
        if old is not None and _essence(old) == _essence(budget):
            return False
        self._budgets[budget.key] = budget
        if old is None or old.spec.selector != budget.spec.selector:
            self._changes += 1
        namespace = budget.metadata.namespace
        self.unseen -= {
            key
            for key in self.unseen
            if key.partition("/")[0] == namespace
            and (key not in assumed or key.partition("/")[2] in budget.status.disrupted_pods)
        }
        return True

    def remove(self, key: str) -> bool:
        """Drop a budget; tell whether there was one."""
        if self._budgets.pop(key, None) is None:
            return False
        self._changes += 1
        return True

    def record_pod(self, key: str, *, is_unready: bool) -> None:
        """Note whether a pod runs without being ready."""
        if is_unready:
            self._unready.add(key)
        elif self._unready:
            self._unready.discard(key)

    def drop_pod(self, key: str) -> None:
        """Forget a pod that is gone."""
        self.forget(key)
        self.record_pod(key, is_unready=False)

    def record_eviction(self, key: str) -> None:
        """Count a pod that runs, and is evicted, until its budget shows it."""
        if self._budgets and key not in self._unready:
            self.unseen.add(key)

    def restore(self, keys: Iterable[str]) -> None:
        """Count these evictions and no others, as was known elsewhere."""
        self.unseen = set(keys)

    def forget(self, key: str) -> None:
        """Count a pod's eviction no longer: it was not evicted after all."""
        if self.unseen:
            self.unseen.discard(key)

    def table(
        self, snapshot: Snapshot, row_of_task: Mapping[str, int], compactions: int
    ) -> DisruptionBudgets:
        """Return what the budgets allow of the pods of a snapshot."""
        keys = sorted(self._budgets)
        budgets = [self._budgets[key] for key in keys]
        tasks = snapshot.tasks
        selected = self._select(snapshot.label_sets, budgets, compactions)
        of_task: RowVec = selected[tasks.label_set_of_task]
        allowed = np.array([_allowed(budget) for budget in budgets], np.int64)
        for row in _rows(self.unseen, row_of_task):
            if of_task[row] >= 0:
                allowed[of_task[row]] -= 1
        of_task[tasks.state != _RUNNING] = UNPROTECTED
        for row in _rows(self._unready, row_of_task):
            if of_task[row] >= 0 and _lets_unready_go(budgets[int(of_task[row])]):
                of_task[row] = UNPROTECTED
        np.maximum(allowed, 0, out=allowed)
        for column in (allowed, of_task):
            column.setflags(write=False)
        return DisruptionBudgets(tuple(keys), allowed, of_task)

    def _select(
        self, sets: LabelSets, budgets: list[PodDisruptionBudget], compactions: int
    ) -> IntVec:
        """Return the budget of each label set; only new ones are looked at."""
        basis = (compactions, self._changes)
        if basis != self._basis:
            self._selected, self._basis = self._selected[-1:], basis
        seen = len(self._selected) - 1
        if seen == len(sets.namespace):
            return self._selected
        rows_of: dict[str, list[int]] = {}
        for row, budget in enumerate(budgets):
            rows_of.setdefault(budget.metadata.namespace, []).append(row)
        found: list[int] = []
        for namespace, labels in zip(sets.namespace[seen:], sets.labels[seen:], strict=True):
            candidates = rows_of.get(namespace, ())
            rows = [row for row in candidates if selects(budgets[row].spec.selector, labels)]
            found.append(SEVERAL if len(rows) > 1 else next(iter(rows), UNPROTECTED))
        added = np.array([*found, UNPROTECTED], np.int64)
        self._selected = np.concatenate((self._selected[:-1], added))
        return self._selected


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a selector fits labels; None, or one that makes no sense, fits none."""
    if selector is None:
        return False
    wanted, expressions = selector.match_labels, selector.match_expressions
    return (
        all(is_valid(one) for one in expressions)
        and all(labels.get(key) == value for key, value in wanted.items())
        and all(_is_met(one, labels.get(one.key)) for one in expressions)
    )


def _is_met(requirement: SelectorRequirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _essence(budget: PodDisruptionBudget) -> tuple[object, ...]:
    return budget.metadata.generation, budget.spec, budget.status


def _allowed(budget: PodDisruptionBudget) -> int:
    status = budget.status
    is_behind = status.observed_generation < budget.metadata.generation
    if is_behind or len(status.disrupted_pods) > _MOST_DISRUPTED:
        return 0
    return max(status.disruptions_allowed, 0)


def _lets_unready_go(budget: PodDisruptionBudget) -> bool:
    status = budget.status
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return status.current_healthy >= status.desired_healthy > 0


def _rows(keys: Iterable[str], row_of_task: Mapping[str, int]) -> list[int]:
    return [row_of_task[key] for key in sorted(keys) if key in row_of_task]
