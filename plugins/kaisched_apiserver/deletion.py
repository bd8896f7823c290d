"""Deleting: at once, or gracefully, or when the last finalizer is done."""

from __future__ import annotations

from typing import Any

from kaisched.objects.labels import format_time
from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import ApiError, conflict

_ENDED = ("Succeeded", "Failed")


def check_preconditions(resource: Resource, obj: dict[str, Any], options: dict[str, Any]) -> None:
    """Refuse to delete another object or version than is meant.

    Raises:
        ApiError: 409.

    """
    wanted = options.get("preconditions") or {}
    meta, name = obj["metadata"], obj["metadata"]["name"]
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    if uid and uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record"
            f" ({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise _precondition_failed(resource, name, why)
    if version and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({meta['resourceVersion']}). The object might have been"
            " modified"
        )
        raise _precondition_failed(resource, name, why)


def _precondition_failed(resource: Resource, name: str, why: str) -> ApiError:
    # Here the message names the kind where all others name the plural.
    error = conflict(resource, name, why)
    message = error.message.replace(f'{resource.qualified} "{name}"', f'{resource.kind} "{name}"')
    details = {**(error.details or {}), "kind": resource.kind}
    return ApiError(409, "Conflict", message, details)


def grace_of(resource: Resource, obj: dict[str, Any], options: dict[str, Any]) -> int:
    """Return the seconds an object has left once it is deleted; only pods on a node have any."""
    if resource.key != ("", "pods"):
        return 0
    spec = obj["spec"]
    if not spec.get("nodeName") or obj["status"].get("phase") in _ENDED:
        return 0
    grace = options.get("gracePeriodSeconds")
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds", 30)
    return max(int(grace), 0)


def mark_deleted(obj: dict[str, Any], grace_s: int, now_s: float) -> bool:
    """Mark an object as leaving; return whether it may stay for a while yet.

    Grace only ever gets shorter. An object with finalizers stays until the last one is taken off.
    """
    meta = obj["metadata"]
    if "deletionTimestamp" in meta:
        grace_s = min(grace_s, meta.get("deletionGracePeriodSeconds", 0))
        if grace_s < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionTimestamp"] = format_time(int(now_s) + grace_s)
    else:
        meta["deletionTimestamp"] = format_time(int(now_s) + grace_s)
        if "generation" in meta:
            meta["generation"] += 1
    meta["deletionGracePeriodSeconds"] = grace_s
    return grace_s > 0 or bool(meta.get("finalizers"))
