"""Requests about the claims that the scheduler makes itself, for extended resources.

A pod has one such claim, whose name follows from its UID: making it again finds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kaisched.cluster.claims.drafts import NOTE, Draft, made_claim, owner_of
from kaisched.cluster.kubernetes.bind_steps import PassingError, StepFailedError
from kaisched.cluster.kubernetes.claim_api import (
    FINALIZER,
    ClaimApi,
    ClaimGoneError,
    Raw,
    give_back,
)
from kaisched.cluster.kubernetes.pods import is_passing

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.pods import Writers

_AS_MADE: Final = ""
"""In place of a UID: the claim may have any."""


def make(writers: Writers, pod: str, uid: str, draft: Draft) -> ClaimApi:
    """Make the claim of a pod, or find it.

    Raises:
        StepFailedError: it cannot be made.
        PassingError: the server asks for another try.
        ClusterUnavailable: no answer; it may have been made.

    """
    claim = made_claim(draft.claim)
    api = ClaimApi(writers, claim.key, _AS_MADE)
    owner = {**_raw(owner_of(pod, uid)), "controller": True}
    meta: Raw = {
        "name": claim.name,
        "namespace": claim.metadata.namespace,
        "annotations": {NOTE: "true", **writers.annotations()},
        "ownerReferences": [owner],
        "finalizers": [FINALIZER],
    }
    body = {"kind": "ResourceClaim", "metadata": meta, "spec": _spec(draft)}
    raw = api.create(body)
    if raw is None:
        raw = _found(api, uid)
        if raw is None:
            raise StepFailedError(f"claim {claim.key} is gone")
        if raw["metadata"].get("deletionTimestamp"):
            raise StepFailedError(f"claim {claim.key} is being deleted")
    return ClaimApi(writers, claim.key, raw["metadata"]["uid"])


def tell(writers: Writers, pod: str, uid: str, draft: Draft) -> None:
    """Write into the status of a pod which claim it has, and what each container has of it.

    Raises:
        StepFailedError: the server does not accept it.
        PassingError: the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    mappings = [
        {"containerName": it.container, "resourceName": it.resource, "requestName": it.request}
        for it in draft.special.mappings
    ]
    status = {
        "resourceClaimName": made_claim(draft.claim).name,
        "requestMappings": mappings,
    }
    answer = writers.patch_status(pod, uid, {"extendedResourceClaimStatus": status})
    if is_passing(answer):
        raise PassingError(answer, f"pod {pod}")
    if not answer.is_done:
        raise StepFailedError(f"status of pod {pod}: {answer.text()}")


def remove(writers: Writers, key: str, uid: str) -> None:
    """Give the devices of a pod's claim back and delete it; nothing happens without one.

    Args:
        writers: send the requests.
        key: of the claim.
        uid: of the pod.

    Raises:
        PassingError: it has changed meanwhile, or the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    raw = _found(ClaimApi(writers, key, _AS_MADE), uid)
    if raw is None:
        return
    api = ClaimApi(writers, key, raw["metadata"]["uid"])
    give_back(api, frozenset({uid}), is_unused=True)
    api.delete()


def _found(api: ClaimApi, pod_uid: str) -> Raw | None:
    """Return the claim of a pod; None if there is none, or it is another's."""
    try:
        raw = api.read()
    except ClaimGoneError:
        return None
    owners = raw["metadata"].get("ownerReferences") or ()
    is_ours = any(it.get("uid") == pod_uid for it in owners)
    return raw if is_ours else None


def _raw(struct: msgspec.Struct) -> Raw:
    found: Raw = msgspec.json.decode(msgspec.json.encode(struct))
    return found


def _spec(draft: Draft) -> Raw:
    requests = [
        {
            "name": it.name,
            "exactly": {
                "deviceClassName": it.exactly.device_class_name,
                "allocationMode": it.exactly.allocation_mode,
                "count": it.exactly.count,
            },
        }
        for it in draft.special.spec.devices.requests
        if it.exactly is not None
    ]
    return {"devices": {"requests": requests}}
