"""Claims on devices: what the server checks about them, and what a kubelet does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import FieldFault, invalid, not_allowed, wrong
from kaisched_apiserver.storage import Storage

CLAIMS: Final = ("resource.k8s.io", "resourceclaims")
_MOST_USERS: Final = 256


# -- what the server checks ----------------------------------------------------------------------


def check_claim(
    resource: Resource, old: dict[str, Any], new: dict[str, Any], subresource: str, now: str
) -> None:
    """Refuse a change of a claim that a server refuses; an allocation gets its time.

    Raises:
        ApiError: 422.

    """
    if subresource == "status":
        new["metadata"] = dict(old["metadata"])
        faults = list(_status_faults(old, new))
    else:
        faults = list(_faults(old, new))
    if faults:
        raise invalid(resource, old["metadata"]["name"], faults)
    allocation = (new.get("status") or {}).get("allocation")
    if allocation is not None and not allocation.get("allocationTimestamp"):
        allocation["allocationTimestamp"] = now


def _faults(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldFault]:
    if new.get("spec") != old.get("spec"):
        yield wrong("spec", "...", "field is immutable")
    before = old["metadata"].get("finalizers") or ()
    added = [it for it in new["metadata"].get("finalizers") or () if it not in before]
    if added and "deletionTimestamp" in old["metadata"]:
        why = "no new finalizers can be added if the object is being deleted"
        yield not_allowed("metadata.finalizers", f"{why}, found new finalizers {added}")


def _status_faults(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldFault]:
    before, now = old.get("status") or {}, new.get("status") or {}
    had, has = before.get("allocation"), now.get("allocation")
    if had is not None and has is not None and had != has:
        yield wrong("status.allocation", "...", "field is immutable")
    users = now.get("reservedFor") or []
    if users and has is None:
        yield not_allowed("status.reservedFor", "may not be specified when `allocated` is not set")
    if len(users) > _MOST_USERS:
        yield wrong("status.reservedFor", len(users), f"must have at most {_MOST_USERS} items")
    known = {it.get("uid") for it in before.get("reservedFor") or ()}
    if "deletionTimestamp" in old["metadata"] and any(it.get("uid") not in known for it in users):
        why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp`"
        yield not_allowed("status.reservedFor", f"{why} are set")


# -- what a kubelet checks -----------------------------------------------------------------------


def claims_of(pod: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it is the pod's own) of its claims; no name if it is not made yet."""
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {it["name"]: it.get("resourceClaimName", "") for it in statuses}
    for ref in pod["spec"].get("resourceClaims") or ():
        if ref.get("resourceClaimName"):
            yield ref["resourceClaimName"], False
        elif made.get(ref["name"], "?"):
            yield made.get(ref["name"], ""), True
    special = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    if special.get("resourceClaimName"):
        yield special["resourceClaimName"], True


def why_not_prepared(storage: Storage, pod: dict[str, Any]) -> str:
    """Return why a kubelet does not start a pod with claims yet; empty if it does."""
    meta = pod["metadata"]
    for name, is_own in claims_of(pod):
        record = storage.get(CLAIMS, f"{meta['namespace']}/{name}")
        if record is None:
            return f"claim {name} does not exist"
        claim = record.object()
        owners = claim["metadata"].get("ownerReferences") or ()
        if is_own and all(it.get("uid") != meta["uid"] for it in owners):
            return f"claim {name} is not the pod's own"
        status = claim.get("status") or {}
        if all(it.get("uid") != meta["uid"] for it in status.get("reservedFor") or ()):
            return f"claim {name} is not reserved for the pod"
        if status.get("allocation") is None:
            return f"claim {name} has no devices"
    return ""
