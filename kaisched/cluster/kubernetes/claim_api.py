"""Requests about ResourceClaims: read whole, changed in part, and written back as they were read.

A claim is handled as the JSON that the server sent. Settings of drivers and what drivers report
about devices are in its status, and must not change when we write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kaisched.cluster.kubernetes.bind_steps import PassingError, StepFailedError
from kaisched.cluster.kubernetes.client import STRATEGIC, Answer
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    FORBIDDEN,
    GONE,
    Writers,
    is_passing,
    lacks_right,
)
from kaisched.objects.devices import RESOURCE_API, RESOURCE_API_BEFORE

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps a claim as long as it has devices; the claim controller takes it off with them."""
_NO_PATH: Final = "resourceclaims"
"""What the message about a claim that does not exist begins with."""
Raw = dict[str, Any]


class _ConflictError(PassingError):
    """There is a claim by that name."""


class ClaimGoneError(Exception):
    """The claim does not exist, or is another one by that name."""


@dataclass(frozen=True, slots=True)
class ClaimApi:
    """Sends the requests about one claim."""

    writers: Writers
    key: str
    uid: str
    """Empty for any claim by that name; only to read and to create."""

    def read(self) -> Raw:
        """Return the claim as it is.

        Raises:
            ClaimGoneError: it is gone.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        raw = self._checked("GET", "get", "", None)
        if self.uid and raw["metadata"].get("uid") != self.uid:
            raise ClaimGoneError
        return raw

    def create(self, body: Raw) -> Raw | None:
        """Make the claim; return it, None if there is one by its name.

        Raises:
            StepFailedError: the server does not accept it.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been made.

        """
        try:
            return self._checked("POST", "create", "", body)
        except _ConflictError:
            return None

    def delete(self) -> None:
        """Delete the claim; nothing happens if it is gone.

        Raises:
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        try:
            self._checked("DELETE", "delete", "", {"preconditions": {"uid": self.uid}})
        except ClaimGoneError:
            return

    def mark(self, *, is_protected: bool) -> Raw:
        """Put on the annotations of the leader, and the finalizer; return the claim as it is then.

        By the annotations the server refuses the write of the status that follows if another leads
        by then. A claim without the finalizer could be deleted while pods use its devices.

        Raises:
            StepFailedError: it cannot be changed.
            ClaimGoneError: it is gone.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        meta: Raw = {"uid": self.uid}
        if is_protected:
            meta["finalizers"] = [FINALIZER]
        if notes := self.writers.annotations():
            meta["annotations"] = notes
        return self._checked("PATCH", "patch", "", {"metadata": meta})

    def unprotect(self, raw: Raw) -> None:
        """Take off the finalizer, unless the claim has changed.

        Raises:
            ClaimGoneError: it is gone.
            PassingError: it has changed, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        meta = {
            "uid": self.uid,
            "resourceVersion": raw["metadata"].get("resourceVersion", ""),
            "$deleteFromPrimitiveList/finalizers": [FINALIZER],
        }
        self._checked("PATCH", "patch", "", {"metadata": meta})

    def put_status(self, raw: Raw, status: Raw) -> Raw:
        """Write the status, if the claim is still as it was read; return the claim.

        Raises:
            StepFailedError: the server does not accept it.
            ClaimGoneError: it is gone.
            PassingError: it has changed, or the server asks for another try.
            ClusterUnavailable: no answer; it may have been done.

        """
        return self._checked("PUT", "update", "/status", {**raw, "status": status})

    def _checked(self, method: str, verb: str, part: str, body: Raw | None) -> Raw:
        answer = self._call(method, part, body)
        if answer.code == GONE:
            raise ClaimGoneError
        if lacks_right(answer):
            needs = f"{verb} on resourceclaims{part} of resource.k8s.io"
            if part:
                needs += f", and {verb} on resourceclaims/binding from Kubernetes 1.36"
            self.writers.log.error("claim_forbidden", answer=answer.text(), needs=needs)
        if is_passing(answer) or answer.code in {CONFLICT, FORBIDDEN}:
            if answer.code == CONFLICT and "UID" in answer.status().message:
                raise ClaimGoneError
            if method == "POST" and answer.code == CONFLICT:
                raise _ConflictError(answer, f"claim {self.key}")
            raise PassingError(answer, f"claim {self.key}")
        if not answer.is_done:
            raise StepFailedError(f"claim {self.key}: {answer.text()}")
        found: Raw = msgspec.json.decode(answer.data)
        return found

    def _call(self, method: str, part: str, body: Raw | None) -> Answer:
        """Send a request in the version that is served, the newest first."""
        namespace, _, name = self.key.partition("/")
        kind = STRATEGIC if method == "PATCH" else "application/json"
        path = f"namespaces/{namespace}/resourceclaims"
        if method != "POST":
            path += f"/{name}{part}"
        answer = Answer(GONE, b"")
        for version in (RESOURCE_API, RESOURCE_API_BEFORE):
            is_whole = body is not None and method in {"POST", "PUT"}
            said = {**(body or {}), "apiVersion": version} if is_whole else body
            answer = self.writers.client.call(
                method, f"/apis/{version}/{path}", body=said, content_type=kind
            )
            if answer.code != GONE or answer.status().message.startswith(_NO_PATH):
                break
        return answer


def has_user(raw: Raw, uids: frozenset[str]) -> bool:
    """Tell whether one of some pods may use a claim."""
    return any(it.get("uid") in uids for it in users_of(raw))


def users_of(raw: Raw) -> list[Raw]:
    """Return who may use a claim."""
    found: list[Raw] = (raw.get("status") or {}).get("reservedFor") or []
    return found


def allocation_in(raw: Raw) -> Raw | None:
    """Return what a claim has."""
    found: Raw | None = (raw.get("status") or {}).get("allocation")
    return found


def devices_in(allocation: Raw | None) -> list[tuple[str, ...]]:
    """Return what tells one allocation from another: its devices, and the parts of shared ones."""
    results = ((allocation or {}).get("devices") or {}).get("results") or []
    parts = ("request", "driver", "pool", "device", "shareID")
    return [tuple(str(it.get(part) or "") for part in parts) for it in results]


def can_be_used_on(node: str, allocation: Raw) -> bool:
    """Tell whether an allocation names no other node; labels of nodes were judged before."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    named = [
        field.get("values") or ()
        for term in terms
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
    ]
    return all(node in names for names in named)


def give_back(
    api: ClaimApi, pods: frozenset[str], ours: Raw | None = None, *, is_unused: bool = False
) -> None:
    """Take pods off a claim, and its devices if nobody is left; nothing happens if it is gone.

    Args:
        api: of the claim.
        pods: UIDs of the pods.
        ours: an allocation that goes even if none of them may use the claim yet.
        is_unused: any allocation goes that nobody may use yet.

    Raises:
        PassingError: the claim has changed meanwhile, or the server asks for another try.
        ClusterUnavailable: no answer; it may have been done.

    """
    try:
        raw = api.mark(is_protected=False)
        allocation = allocation_in(raw)
        is_ours = ours is not None and devices_in(ours) == devices_in(allocation)
        is_due = is_ours or has_user(raw, pods) or (is_unused and not users_of(raw))
        if allocation is not None and is_due:
            left = [it for it in users_of(raw) if it.get("uid") not in pods]
            status = {key: it for key, it in raw["status"].items() if key != "reservedFor"}
            if left:
                status["reservedFor"] = left
            else:
                status = {}
            if status != raw["status"]:
                raw = api.put_status(raw, status)
        is_free = allocation_in(raw) is None
        # This also makes a request fail that is still on its way from an earlier try.
        if is_free and FINALIZER in (raw["metadata"].get("finalizers") or ()):
            api.unprotect(raw)
    except ClaimGoneError:
        return
