"""What the API says of an object, as far as the checker, the kubelets and the churn look at it.

Amounts are read here a second time, on purpose: the checker shares no line with what it checks.
"""

import re
from dataclasses import dataclass
from decimal import Decimal, Overflow

OURS = "kaisched"
GPU = "nvidia.com/gpu"
GROUP_NOTE = "pod-group-name"
QUEUE_LABEL = "kai.scheduler/queue"
RUN_SECONDS = "kaisched.io/run-seconds"
ENDED = ("Succeeded", "Failed")
_FACTORS = {
    "m": Decimal("0.001"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
}


_ALONE = re.compile(
    r"(?P<namespace>[^/]+)/pg-(?P<pod>.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


def job_of(name):
    """Return the pod group a job's name means; of a pod that is a job of its own, the pod."""
    found = _ALONE.fullmatch(name)
    return f"{found['namespace']}/{found['pod']}" if found else name


def amount(text):
    """Read a quantity as the churn writes it; one beyond all numbers, of others, is endless."""
    digits = str(text).rstrip("KMGTEikm")
    try:
        return Decimal(digits) * _FACTORS[str(text)[len(digits) :]]
    except Overflow:
        return Decimal("Infinity")


@dataclass(frozen=True, slots=True)
class Pod:
    key: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    is_leaving: bool = False
    grace_s: float = 0.0
    """What is left to it once it is leaving."""
    group: str = ""
    """The PodGroup it names, with the namespace."""
    queue: str = ""
    asks: tuple = ()
    """(resource, amount) pairs."""
    is_evicted: bool = False
    """Whether the Eviction API was asked for it."""
    lease: str = ""
    leader: str = ""
    epoch: str = ""
    is_gated: bool = False
    priority: str = ""
    run_s: float = 0.0
    scheduler: str = OURS
    why: str = ""
    """What its condition says of why it waits."""

    @property
    def holds_room(self):
        return bool(self.node) and self.phase not in ENDED

    @property
    def gpus(self):
        return int(dict(self.asks).get(GPU, 0))


@dataclass(frozen=True, slots=True)
class Node:
    key: str
    uid: str
    room: tuple = ()
    """(resource, amount) pairs of what can be allocated."""
    is_ready: bool = True
    is_open: bool = True
    """Neither cordoned nor tainted."""


@dataclass(frozen=True, slots=True)
class Group:
    key: str
    uid: str
    minimum: int = 1
    grace_s: float = 60.0
    queue: str = ""
    priority: str = ""
    is_leaving: bool = False


@dataclass(frozen=True, slots=True)
class Queue:
    key: str
    uid: str
    parent: str = ""
    quota: float = 0.0
    limit: float = -1.0


@dataclass(frozen=True, slots=True)
class Lease:
    key: str
    uid: str
    holder: str = ""
    epoch: int = 0
    renewed: str = ""


def pod_of(obj):
    meta, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
    notes = meta.get("annotations") or {}
    asks = {"pods": Decimal(1)}
    for container in spec["containers"]:
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in wanted.items():
            asks[name] = asks.get(name, Decimal(0)) + amount(text)
    conditions = {it["type"]: it for it in status.get("conditions") or []}
    group = notes.get(GROUP_NOTE, "")
    return Pod(
        key=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        node=spec.get("nodeName") or "",
        phase=status.get("phase", "Pending"),
        is_leaving="deletionTimestamp" in meta,
        grace_s=float(meta.get("deletionGracePeriodSeconds") or 0),
        group=f"{meta['namespace']}/{group}" if group else "",
        queue=(meta.get("labels") or {}).get(QUEUE_LABEL, ""),
        asks=tuple(sorted(asks.items())),
        is_evicted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        lease=notes.get("kaisched.io/lease", ""),
        leader=notes.get("kaisched.io/leader", ""),
        epoch=notes.get("kaisched.io/leader-epoch", ""),
        is_gated=bool(spec.get("schedulingGates")),
        priority=spec.get("priorityClassName", ""),
        run_s=float(notes.get(RUN_SECONDS, "inf")),
        scheduler=spec.get("schedulerName", ""),
        why=conditions.get("PodScheduled", {}).get("message", ""),
    )


def node_of(obj):
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    conditions = {it["type"]: it["status"] for it in status.get("conditions") or []}
    room = {name: amount(text) for name, text in (status.get("allocatable") or {}).items()}
    return Node(
        key=meta["name"],
        uid=meta["uid"],
        room=tuple(sorted(room.items())),
        is_ready=conditions.get("Ready") == "True",
        is_open=not spec.get("unschedulable") and not spec.get("taints"),
    )


def group_of(obj):
    meta, spec = obj["metadata"], obj.get("spec") or {}
    grace = spec.get("stalenessGracePeriod")
    return Group(
        key=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        minimum=int(spec.get("minMember") or 1),
        grace_s=60.0 if grace is None else float(str(grace).removesuffix("s")),
        queue=spec.get("queue", ""),
        priority=spec.get("priorityClassName", ""),
        is_leaving="deletionTimestamp" in meta,
    )


def queue_of(obj):
    meta, spec = obj["metadata"], obj.get("spec") or {}
    gpu = (spec.get("resources") or {}).get("gpu") or {}
    return Queue(
        key=meta["name"],
        uid=meta["uid"],
        parent=spec.get("parentQueue") or "",
        quota=float(gpu.get("quota", 0)),
        limit=float(gpu.get("limit", -1)),
    )


def lease_of(obj):
    meta, spec = obj["metadata"], obj.get("spec") or {}
    return Lease(
        key=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        holder=spec.get("holderIdentity") or "",
        epoch=int(spec.get("leaseTransitions") or 0),
        renewed=spec.get("renewTime") or "",
    )
