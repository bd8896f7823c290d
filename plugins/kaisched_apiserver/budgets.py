"""Evictions and the PodDisruptionBudgets that may forbid them."""

from __future__ import annotations

from typing import Any, Final

from kaisched_apiserver.selectors import selected_by
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Record, Storage

_KEY: Final = ("policy", "poddisruptionbudgets")
_PODS: Final = ("", "pods")
_DENIED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_RETRY_S: Final = 10
_ENDED: Final = ("Succeeded", "Failed")


def take_from_budget(storage: Storage, pod: dict[str, Any], now: str, *, is_dry_run: bool) -> None:
    """Count an eviction against the pod's budget, if it has one and the eviction disrupts.

    Raises:
        ApiError: 429, the budget allows none now; 500, the pod has more than one budget.

    """
    if not _is_disrupted(pod):
        return
    found = budgets_of(storage, pod)
    if not found:
        return
    if len(found) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource"
        raise ApiError(500, "InternalError", f"{message} does not support.")
    budget = found[0].object()
    status, meta = budget.get("status") or {}, budget["metadata"]
    name = meta["name"]
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if not _is_ready(pod) and (
        healthy >= wanted > 0 or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    ):
        return
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _denied(
            f"The disruption budget {name} is still being processed by the server.", _RETRY_S
        )
    if status.get("disruptionsAllowed", 0) <= 0:
        raise _denied(
            f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )
    if not is_dry_run:
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: now}
        left = status["disruptionsAllowed"] - 1
        budget["status"] = {**status, "disruptionsAllowed": left, "disruptedPods": disrupted}
        storage.put(_KEY, budget)


def budgets_of(storage: Storage, pod: dict[str, Any]) -> list[Record]:
    """Return the budgets whose selector fits a pod."""
    budgets = storage.collection(_KEY)
    labels = pod["metadata"].get("labels") or {}
    mine = [budgets.records[key] for key in budgets.within(pod["metadata"]["namespace"])]
    return [it for it in mine if selected_by(it.object()["spec"].get("selector"))(labels)]


def renewed(storage: Storage, budget: Record) -> dict[str, Any]:
    """Return a budget with its status worked out from the pods there are, as a controller does."""
    obj = budget.object()
    spec = obj["spec"]
    fits = selected_by(spec.get("selector"))
    pods = storage.collection(_PODS)
    there = [pods.records[key] for key in pods.within(budget.namespace)]
    mine = [
        record.object()
        for record in there
        if fits(record.labels) and record.fields["status.phase"] not in _ENDED
    ]
    expected = len(mine)
    healthy = sum(_is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in mine)
    if "maxUnavailable" in spec:
        wanted = max(expected - _share(spec["maxUnavailable"], expected), 0)
    else:
        wanted = _share(spec.get("minAvailable", 1), expected)
    obj["status"] = {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "disruptionsAllowed": max(healthy - wanted, 0) if expected else 0,
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
    }
    return obj


def _share(amount: int | str, expected: int) -> int:
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-expected * int(amount[:-1]) // 100)
    return int(amount)


def _is_disrupted(pod: dict[str, Any]) -> bool:
    phase = pod["status"].get("phase")
    return phase not in {"Pending", "Succeeded", "Failed"} and not pod["metadata"].get(
        "deletionTimestamp"
    )


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(it.get("type") == "Ready" and it.get("status") == "True" for it in conditions)


def _denied(why: str, retry_after_s: int = 0) -> ApiError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    details = {"causes": causes}
    return ApiError(429, "TooManyRequests", _DENIED, details, retry_after_s=retry_after_s)
