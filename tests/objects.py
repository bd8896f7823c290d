"""Objects of a cluster as people and controllers post them, of as little as tests need."""

from kaisched.cluster.kubernetes.client import MERGE, STRATEGIC

GROUP = "scheduling.run.ai"
QUEUES = f"/apis/{GROUP}/v2/queues"
"""Where queues are posted."""


def groups_path(namespace):
    """Where the pod groups of a namespace are posted."""
    return f"/apis/{GROUP}/v2alpha2/namespaces/{namespace}/podgroups"


def pod(
    name, queue, gpus=1, *, group="", limits=None, labels=None, annotations=None, main=None, **spec
):
    """A pod of one container that asks for GPUs, or for other limits; ``main`` is more of it."""
    limits = limits or ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    container = {"name": "main", "image": "none", **(main or {})}
    if limits:
        container["resources"] = {"limits": limits}
    notes = {"pod-group-name": group} if group else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"kai.scheduler/queue": queue, **(labels or {})},
            "annotations": {**notes, **(annotations or {})},
        },
        "spec": {"schedulerName": "kaisched", "containers": [container], **spec},
    }


def group(name, queue, minimum=None, *, labels=None, annotations=None, **spec):
    """A pod group that starts with so many pods."""
    least = {} if minimum is None else {"minMember": minimum}
    return {
        "apiVersion": f"{GROUP}/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"queue": queue, **least, **spec},
    }


def queue(name, quota=0, parent="", *, limit=-1, weight=1, labels=None, **spec):
    """A queue that deserves so many GPUs."""
    resources = {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight}}
    return {
        "apiVersion": f"{GROUP}/v2",
        "kind": "Queue",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"parentQueue": parent, "resources": resources, **spec},
    }


def node_status(gpus=8):
    """What a ready node of so many GPUs reports."""
    room = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"capacity": room, "allocatable": room, "conditions": ready}


def make_ready(must, name, gpus=8):
    """Let a node be ready that was posted; a server gives a new one a taint."""
    path = f"/api/v1/nodes/{name}"
    must("PATCH", f"{path}/status", {"status": node_status(gpus)}, STRATEGIC)
    must("PATCH", path, {"spec": {"taints": None}}, MERGE)
