"""Binding a pod to a node."""

from __future__ import annotations

from typing import Any

from kaisched_apiserver.metadata import uid_conflict, version_conflict
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import ApiError, conflict


def bind(resource: Resource, pod: dict[str, Any], binding: dict[str, Any], now: str) -> None:
    """Put a pod on the node a Binding names; the node need not exist.

    Args:
        resource: pods.
        pod: changed in place.
        binding: its ``metadata.uid`` and ``resourceVersion`` are preconditions, its labels and
            annotations are put on the pod.
        now: the present as a text.

    Raises:
        ApiError: 409, the pod is another one, leaving, bound or gated; 500, no node is named.

    """
    meta, name = pod["metadata"], pod["metadata"]["name"]
    given = binding.get("metadata") or {}
    node = (binding.get("target") or {}).get("name")
    if not node:
        raise ApiError(500, "", "target.name: Required value")
    if given.get("uid", meta["uid"]) != meta["uid"]:
        raise uid_conflict(resource, meta, given["uid"])
    if given.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
        raise version_conflict(resource, meta, given["resourceVersion"])
    why = _why_not(pod)
    if why:
        raise conflict(resource, name, why, subresource="binding")
    for part in ("annotations", "labels"):
        if given.get(part):
            meta[part] = {**(meta.get(part) or {}), **given[part]}
    pod["spec"]["nodeName"] = node
    pod["status"].pop("nominatedNodeName", None)
    set_condition(pod, {"type": "PodScheduled", "status": "True"}, now)


def _why_not(pod: dict[str, Any]) -> str:
    name, spec = pod["metadata"]["name"], pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def set_condition(pod: dict[str, Any], condition: dict[str, Any], now: str) -> None:
    """Set a condition of a pod; its time is that of the last change of its status."""
    conditions = pod["status"].setdefault("conditions", [])
    old = next((it for it in conditions if it.get("type") == condition["type"]), None)
    is_same = old is not None and old.get("status") == condition["status"]
    since = old.get("lastTransitionTime") if old is not None and is_same else now
    whole = {
        "type": condition["type"],
        "status": condition["status"],
        "lastProbeTime": None,
        "lastTransitionTime": since,
        **condition,
    }
    if old is None:
        conditions.append(whole)
    else:
        conditions[conditions.index(old)] = whole
