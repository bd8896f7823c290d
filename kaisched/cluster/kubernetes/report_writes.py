"""Writes of statuses: what an object lacks, as a request to the API server."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kaisched.cluster.kubernetes.client import MERGE, STRATEGIC
from kaisched.cluster.kubernetes.seen import SCHEDULED, UNSCHEDULABLE, Seen
from kaisched.cluster.kubernetes.statuses import matches, stamped
from kaisched.objects.queue import Queue

_CORE: Final = "/api/v1/namespaces"


class Write(NamedTuple):
    """A request to be sent now."""

    path: str
    body: dict[str, Any]
    content_type: str = MERGE
    message: str = ""
    """The new message of a pod's condition; empty for other writes."""


def for_queue(seen: Seen, desired: dict[str, Any], name: str, now: str) -> Write | None:
    """Return the write of a part of a queue's status; None if the queue has it."""
    if matches(seen.status, desired):
        return None
    status = stamped(desired, seen.status, now) if "conditions" in desired else desired
    path = f"/apis/{Queue.API_VERSION}/queues/{name}/status"
    return Write(path, {"metadata": version_of(seen), "status": status})


def for_pod(seen: Seen, desired: tuple[str, str] | None, name: str, now: str) -> Write | None:
    """Return the write of a pod's condition; None if it has it, or is another pod."""
    condition: dict[str, Any] = {"type": SCHEDULED, "lastTransitionTime": now}
    uid, message = desired or ("", "")
    if seen.is_placed:
        # The same condition that the server sets when a pod is bound.
        condition |= {"status": "True", "reason": None, "message": None}
        message = ""
    elif uid != seen.uid or message == seen.status:
        return None
    else:
        condition |= {"status": "False", "reason": UNSCHEDULABLE, "message": message}
    namespace, _, name = name.partition("/")
    meta = {"uid": seen.uid, **version_of(seen)}
    body = {"metadata": meta, "status": {"conditions": [condition]}}
    return Write(f"{_CORE}/{namespace}/pods/{name}/status", body, STRATEGIC, message)


def version_of(seen: Seen) -> dict[str, str]:
    """Return the metadata of a write that is refused if the object has changed since."""
    return {"resourceVersion": seen.version} if seen.version else {}
