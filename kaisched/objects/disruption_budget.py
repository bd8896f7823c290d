"""PodDisruptionBudgets: limits on how many of some pods may be evicted now."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kaisched.objects.faults import Fault
from kaisched.objects.pod import LabelSelector, SelectorRequirement
from kaisched.objects.wire import KubernetesObject, Wire


class DisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    """Pods that a budget protects."""

    selector: LabelSelector | None = None
    """Pods of its namespace; None selects no pod, an empty one every pod."""
    unhealthy_pod_eviction_policy: str = ""
    """``AlwaysAllow``: pods that are not ready do not count; else only while enough are healthy."""


class DisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    """Numbers that the controller of budgets has computed."""

    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    """Evicted pods, by name, whose end the controller has not seen yet."""


class PodDisruptionBudget(KubernetesObject, frozen=True, kw_only=True):
    """A budget for evictions."""

    API_VERSION: ClassVar[str] = "policy/v1"
    KIND: ClassVar[str] = "PodDisruptionBudget"

    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()
    status: DisruptionBudgetStatus = DisruptionBudgetStatus()


def is_valid(requirement: SelectorRequirement) -> bool:
    """Tell whether a requirement is valid; a selector with an invalid one selects no pod."""
    if not requirement.key:
        return False
    if requirement.operator in ("In", "NotIn"):
        return bool(requirement.values)
    return requirement.operator in ("Exists", "DoesNotExist") and not requirement.values


def disruption_budget_faults(budget: PodDisruptionBudget) -> Iterator[Fault]:
    """Yield warnings about selectors that select nothing, and about a missing status."""
    selector = budget.spec.selector
    for at, one in enumerate(selector.match_expressions if selector is not None else ()):
        if not is_valid(one):
            yield Fault(
                ("spec", "selector", "matchExpressions", at),
                "no requirement, so that the budget protects no pod",
                f"{one.key} {one.operator}",
                "write a key, In or NotIn with values, or Exists or DoesNotExist without",
                is_warning=True,
            )
    if budget.status == DisruptionBudgetStatus():
        yield Fault(
            ("status", "disruptionsAllowed"),
            "missing, so that no pod it selects may be evicted",
            fix="write how many may be, or take the object from a cluster",
            is_warning=True,
        )
