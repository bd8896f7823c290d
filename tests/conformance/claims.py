"""The claims of a case: objects of the cluster, and what rounds write into them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kaisched.cluster.claims.conversion import written
from kaisched.cluster.claims.device_claims import DeviceClaims
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.pods import DeviceClaimRef, PodRow
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.framework.intents import Bind
from kaisched.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from kaisched.objects.wire import ObjectMeta


class CaseClaims:
    """Claims that keep their devices from session to session."""

    def __init__(self, cluster: Mapping[str, Any]) -> None:
        """Read slices, classes and claims."""
        dra = cluster.get("dra") or {}
        self._classes = [
            msgspec.convert({"metadata": {"name": it}}, DeviceClass)
            for it in dra.get("device_classes", ())
        ]
        self._slices = [_slice(it) for it in dra.get("resource_slices", ())]
        claims = [_claim(it) for it in dra.get("resource_claims", ())]
        self.claims = {it.key: it for it in claims}

    def started(self, pods: Sequence[PodRow]) -> DeviceClaims:
        """Return the store of claims for a session, after telling it of all pods with claims."""
        known = DeviceClaims()
        self._deallocate(pods)
        for obj in (*self._classes, *self._slices, *self.claims.values()):
            known.update(obj)
        known.settle()
        for pod in pods:
            known.noted(pod)
        return known

    def bind(self, binds: Sequence[Bind]) -> None:
        """Write what pods got for their claims."""
        for bind in binds:
            for key, allocation in bind.claims:
                claim = self.claims[key]
                status = msgspec.structs.replace(
                    claim.status, allocation=written(allocation, lambda: "share")
                )
                self.claims[key] = msgspec.structs.replace(claim, status=status)

    def _deallocate(self, pods: Sequence[PodRow]) -> None:
        """Take devices back from claims whose pods have all left, as a controller does."""
        for key, claim in self.claims.items():
            name = key.partition("/")[2]
            users = [it for it in pods if any(ref.name == name for ref in it.device_claims)]
            if users and not any(it.node for it in users):
                status = msgspec.structs.replace(claim.status, allocation=None)
                self.claims[key] = msgspec.structs.replace(claim, status=status)


def pod_of(
    task: Mapping[str, Any],
    namespace: str,
    created_s: float,
    request: Mapping[str, int],
    constraints: Constraints,
    state: TaskState,
    node: str,
) -> PodRow:
    """Return a task with claims as the store of claims takes it in."""
    named = [*(task["resource_claims"] or ()), *(task["resource_claim_templates"] or {}).values()]
    return PodRow(
        key=f"{namespace}/{task['id']}",
        uid=task["id"],
        meta=ObjectMeta(name=task["id"], namespace=namespace),
        is_ours=True,
        state=state,
        node=node,
        nominated="",
        request=request,
        constraints=constraints,
        has_pod_terms=False,
        priority=None,
        priority_class="",
        order_priority=0,
        created_s=created_s,
        started_s=0.0,
        fault="",
        device_claims=tuple(DeviceClaimRef(it, it, is_own=False) for it in named),
    )


def with_gpus(known: DeviceClaims, node: NodeRow) -> NodeRow:
    """Return a node with its GPUs for claims."""
    return known.gpus.with_gpus(node)


def _slice(one: Mapping[str, Any]) -> ResourceSlice:
    devices = [{"name": str(at)} for at in range(one["count"])]
    pool = {"name": one["node"] or one["name"], "resourceSliceCount": 1}
    spec = {"driver": one["driver"], "pool": pool, "devices": devices}
    if one["node"]:
        spec["nodeName"] = one["node"]
    else:
        spec["allNodes"] = True
    return msgspec.convert({"metadata": {"name": one["name"]}, "spec": spec}, ResourceSlice)


def _claim(one: Mapping[str, Any]) -> ResourceClaim:
    request = {
        "name": "request",
        "exactly": {"deviceClassName": one["device_class"], "count": one["count"]},
    }
    status: dict[str, Any] = {}
    given = one["status"] or {}
    if given.get("allocated_devices"):
        results = [{**it, "request": "request"} for it in given["allocated_devices"]]
        status["allocation"] = {"devices": {"results": results}}
    status["reservedFor"] = given.get("reserved_for") or []
    return msgspec.convert(
        {
            "metadata": {"name": one["name"], "namespace": one["namespace"]},
            "spec": {"devices": {"requests": [request]}},
            "status": status,
        },
        ResourceClaim,
    )
