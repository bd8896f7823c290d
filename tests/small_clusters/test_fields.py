"""Each field of pods, nodes and volumes that is honored changes where a pod goes.

docs/reference/pods.md lists them. Two nodes of 8 GPUs, ``node-0`` in zone a and ``node-1`` in b;
the pod ``p`` asks for one GPU and goes to ``node-0``, the first, unless something keeps it away.
"""

from copy import deepcopy
from typing import Any, Final, NamedTuple

import pytest

from tests.reference import making as m
from tests.small_clusters.deciding import decided

HOST: Final = "kubernetes.io/hostname"
FIRST, SECOND, NOWHERE = "node-0", "node-1", ""


class Case(NamedTuple):
    """A cluster with a field and without it, and where the pod goes in each of them."""

    fields: tuple[str, ...]
    with_it: list[Any]
    goes: str
    without: list[Any]
    would_go: str


CASES: dict[str, Case] = {}
"""By the first field that a case is about."""


def case(fields: str, with_it: list[Any], goes: str, without: Any, would_go: str = FIRST) -> None:
    """Add a case; fields are written as Kind.field, each of which the clusters differ by."""
    names = tuple(fields.split())
    assert names[0] not in CASES
    CASES[names[0]] = Case(names, with_it, goes, without, would_go)


def changed(obj: Any, path: str, value: Any) -> Any:
    """Return an object with another value at a path; None takes it away."""
    found = deepcopy(obj)
    at = found
    *above, last = path.split(".")
    for key in above:
        at = at[int(key)] if isinstance(at, list) else at.setdefault(key, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return found


def nodes(**of_first: Any) -> list[Any]:
    """Two nodes; what is said is of the first."""
    made = [
        m.node(f"node-{at}", labels={HOST: f"node-{at}", "zone": zone, "size": str(at)})
        for at, zone in enumerate("ab")
    ]
    for path, value in of_first.items():
        made[0] = changed(made[0], path.replace("__", "."), value)
    return made


def cluster(pod: Any, *others: Any, **of_first: Any) -> list[Any]:
    return [*nodes(**of_first), m.queue(), *others, pod]


def p(**spec: Any) -> Any:
    return m.pod("p", **spec)


def only(**spec: Any) -> None:
    """Add a case for a field of the spec that keeps the pod off the first node."""
    ((field, value),) = spec.items()
    case(f"PodSpec.{field}", cluster(p(**{field: value})), SECOND, cluster(p()))


# -- nodes -----------------------------------------------------------------------------------------

only(nodeSelector={"zone": "b"})


def near_node(term: Any, path: str = "requiredDuringSchedulingIgnoredDuringExecution") -> Any:
    terms = {"nodeSelectorTerms": [term]} if path.startswith("required") else [term]
    return p(affinity={"nodeAffinity": {path: terms}})


def expression(key: str, operator: str, *values: str) -> Any:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


case(
    "PodSpec.affinity Affinity.nodeAffinity"
    " NodeAffinity.requiredDuringSchedulingIgnoredDuringExecution NodeSelector.nodeSelectorTerms"
    " NodeSelectorTerm.matchExpressions",
    cluster(near_node(expression("zone", "In", "b"))),
    SECOND,
    cluster(p()),
)
IN_A = cluster(near_node(expression("zone", "In", "a")))
case(
    "NodeSelectorRequirement.values",
    cluster(near_node(expression("zone", "In", "b"))),
    SECOND,
    IN_A,
)
case(
    "NodeSelectorRequirement.operator",
    cluster(near_node(expression("zone", "NotIn", "a"))),
    SECOND,
    IN_A,
)
case("NodeSelectorRequirement.key", cluster(near_node(expression("x", "In", "a"))), NOWHERE, IN_A)
FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
case("NodeSelectorTerm.matchFields", cluster(near_node(FIELD)), SECOND, cluster(p()))


def prefers_zone(zone: str, weight: int) -> Any:
    return {"weight": weight, "preference": expression("zone", "In", zone)}


def prefers(*wishes: Any) -> Any:
    return p(
        affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [*wishes]}}
    )


case(
    "NodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    " PreferredSchedulingTerm.preference",
    cluster(prefers(prefers_zone("b", 1))),
    SECOND,
    cluster(p()),
)
case(
    "PreferredSchedulingTerm.weight",
    cluster(prefers(prefers_zone("a", 1), prefers_zone("b", 2))),
    SECOND,
    cluster(prefers(prefers_zone("a", 2), prefers_zone("b", 1))),
)
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
CLOSED = {"spec__taints": [TAINT]}
case(
    "NodeSpec.taints Taint.effect",
    cluster(p(), **CLOSED),
    SECOND,
    cluster(p(), spec__taints=[{**TAINT, "effect": "x"}]),
)
TOLERANCE = {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
OPEN = cluster(p(tolerations=[TOLERANCE]), **CLOSED)
case("PodSpec.tolerations", OPEN, FIRST, cluster(p(), **CLOSED), SECOND)
for name, other in (("key", "l"), ("operator", "Lt"), ("value", "w"), ("effect", "NoExecute")):
    closed = cluster(p(tolerations=[{**TOLERANCE, name: other}]), **CLOSED)
    case(f"Toleration.{name}", closed, SECOND, OPEN)
for name in ("key", "value"):
    closed = cluster(p(tolerations=[TOLERANCE]), spec__taints=[{**TAINT, name: "x"}])
    case(f"Taint.{name}", closed, SECOND, OPEN)
case("NodeSpec.unschedulable", cluster(p(), spec__unschedulable=True), SECOND, cluster(p()))
READY = {"type": "Ready", "status": "True"}
case(
    "NodeStatus.conditions NodeCondition.status",
    cluster(p(), status__conditions=[{**READY, "status": "False"}]),
    SECOND,
    cluster(p(), status__conditions=[READY]),
)
case(
    "NodeCondition.type",
    cluster(p(), status__conditions=[READY, {**READY, "type": "DiskPressure"}]),
    SECOND,
    cluster(p(), status__conditions=[READY, {**READY, "type": "Other"}]),
)
case(
    "NodeStatus.allocatable",
    cluster(p(), status__allocatable={"cpu": "1", "memory": "1Gi", "pods": "9"}),
    SECOND,
    cluster(p()),
)
SMALL = {"cpu": "1", "memory": "1Gi", "pods": "9", "nvidia.com/gpu": "0"}
case(
    "NodeStatus.capacity",
    cluster(p(), status__allocatable={}, status__capacity=SMALL),
    SECOND,
    cluster(p(), status__allocatable={}, status__capacity={**SMALL, "nvidia.com/gpu": "8"}),
)

# -- amounts ---------------------------------------------------------------------------------------

MUCH = {"cpu": "70"}
"""More than the 64 CPUs of a node."""


def asking(path: str, value: Any, **more: Any) -> list[Any]:
    """Return a cluster with a pod without GPUs whose spec has a value at a path."""
    return cluster(changed(m.pod("p", gpus=0, **more), path, value))


SIDE = {"name": "side", "resources": {"requests": {"cpu": "40"}}}
NONE = cluster(m.pod("p", gpus=0))
case(
    "PodSpec.containers Container.resources ResourceRequirements.requests",
    asking("spec.containers.0.resources", {"requests": MUCH}),
    NOWHERE,
    NONE,
)
case(
    "ResourceRequirements.limits",
    asking("spec.containers.0.resources", {"limits": MUCH}),
    NOWHERE,
    NONE,
)
case("PodSpec.overhead", asking("spec.overhead", MUCH), NOWHERE, NONE)
case("PodSpec.resources", asking("spec.resources", {"requests": MUCH}), NOWHERE, NONE)
MAIN = {"main": {"resources": {"requests": {"cpu": "40"}}}}
PEAK = asking("spec.initContainers", [SIDE], **MAIN)
case(
    "PodSpec.initContainers",
    asking("spec.initContainers", [changed(SIDE, "resources.requests", MUCH)]),
    NOWHERE,
    PEAK,
)
case(
    "Container.restartPolicy",
    asking("spec.initContainers", [{**SIDE, "restartPolicy": "Always"}], **MAIN),
    NOWHERE,
    PEAK,
)


def resized(**status: Any) -> list[Any]:
    """A pod of 10 CPUs runs on the first node, of whose 64 the next pod asks for 30."""
    asked = {"resources": {"requests": {"cpu": "10"}}}
    runs = m.pod("runs", gpus=0, at="node-0", main=asked)
    init = [{"name": "early", "restartPolicy": "Always", **asked}]
    runs["spec"]["initContainers"] = init
    runs["status"] |= status
    wants = m.pod("p", gpus=0, main={"resources": {"requests": {"cpu": "30"}}})
    return cluster(wants, runs)


def has(name: str, **amounts: Any) -> Any:
    return [{"name": name, **amounts}]


PLAIN = resized()
FORTY = {"cpu": "40"}
case(
    "PodStatus.containerStatuses ContainerStatus.allocatedResources",
    resized(containerStatuses=has("main", allocatedResources=FORTY)),
    SECOND,
    PLAIN,
)
case(
    "ContainerStatus.resources",
    resized(containerStatuses=has("main", resources={"requests": FORTY})),
    SECOND,
    PLAIN,
)
case(
    "PodStatus.initContainerStatuses",
    resized(initContainerStatuses=has("early", allocatedResources=FORTY)),
    SECOND,
    PLAIN,
)
case(
    "ContainerStatus.name Container.name",
    resized(containerStatuses=has("main", allocatedResources=FORTY)),
    SECOND,
    resized(containerStatuses=has("other", allocatedResources=FORTY)),
)


def as_a_whole(**status: Any) -> list[Any]:
    return [
        changed(it, "spec.resources", {"requests": {"cpu": "20"}})
        if it["metadata"]["name"] == "runs"
        else it
        for it in resized(**status)
    ]


case("PodStatus.allocatedResources", as_a_whole(allocatedResources=FORTY), SECOND, as_a_whole())
case("PodStatus.resources", as_a_whole(resources={"requests": FORTY}), SECOND, as_a_whole())


def refused(**status: Any) -> list[Any]:
    """The pod asks for 50 CPUs more than it has."""
    made = resized(containerStatuses=has("main", allocatedResources={"cpu": "10"}), **status)
    large = {"requests": {"cpu": "60"}}
    return [
        changed(it, "spec.containers.0.resources", large)
        if it["metadata"]["name"] == "runs"
        else it
        for it in made
    ]


PENDING = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
case(
    "PodStatus.conditions PodCondition.reason",
    refused(conditions=[PENDING]),
    FIRST,
    refused(conditions=[{**PENDING, "reason": "Deferred"}]),
    SECOND,
)
case(
    "PodCondition.type",
    refused(conditions=[PENDING]),
    FIRST,
    refused(conditions=[{**PENDING, "type": "Other"}]),
    SECOND,
)
case("PodStatus.resize", refused(resize="Infeasible"), FIRST, refused(), SECOND)

# -- other pods ------------------------------------------------------------------------------------

LABELS = {"labels": {"app": "x", "hash": "1"}}


def beside(asks: Any, at: str = SECOND, namespace: str = "team", **of_it: Any) -> list[Any]:
    """A pod with the label app=x runs somewhere."""
    runs = changed(m.pod("runs", at=at, **LABELS, **of_it), "metadata.namespace", namespace)
    return cluster(p(**LABELS, **asks), runs)


def term(**more: Any) -> Any:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, **more}


def near(kind: str = "podAffinity", **more: Any) -> Any:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(**more)]}}}


def wish(kind: str, weight: int = 1, **more: Any) -> Any:
    wishes = [{"weight": weight, "podAffinityTerm": term(**more)}]
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": wishes}}}


NEAR = beside(near())
case(
    "Affinity.podAffinity PodAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    " PodAffinityTerm.labelSelector LabelSelector.matchLabels",
    NEAR,
    SECOND,
    cluster(p(**LABELS), m.pod("runs", gpus=0, at=SECOND, **LABELS)),
)
case("PodAffinityTerm.topologyKey", beside(near(topologyKey="none")), NOWHERE, NEAR, SECOND)
case("PodAffinityTerm.namespaces", beside(near(namespaces=["x"])), NOWHERE, NEAR, SECOND)
case(
    "PodAffinityTerm.namespaceSelector",
    beside(near(namespaceSelector={}), namespace="other"),
    SECOND,
    beside(near(), namespace="other"),
    FIRST,
)
case(
    "PodAffinityTerm.matchLabelKeys",
    cluster(
        p(labels={"app": "x", "hash": "2"}, **near(matchLabelKeys=["hash"])),
        m.pod("runs", at=SECOND, **LABELS),
        m.pod("alike", at=FIRST, labels={"app": "x", "hash": "2"}),
    ),
    FIRST,
    cluster(
        p(labels={"app": "x", "hash": "1"}, **near(matchLabelKeys=["hash"])),
        m.pod("runs", at=SECOND, **LABELS),
        m.pod("alike", at=FIRST, labels={"app": "x", "hash": "2"}),
    ),
    SECOND,
)
case(
    "PodAffinityTerm.mismatchLabelKeys",
    beside(near("podAntiAffinity", mismatchLabelKeys=["hash"]), at=FIRST),
    FIRST,
    beside(near("podAntiAffinity"), at=FIRST),
    SECOND,
)
case(
    "Affinity.podAntiAffinity PodAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
    beside(near("podAntiAffinity"), at=FIRST),
    SECOND,
    beside({}, at=FIRST),
)
case(
    "PodAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    " WeightedPodAffinityTerm.podAffinityTerm",
    beside(wish("podAntiAffinity"), at=FIRST),
    SECOND,
    beside({}, at=FIRST),
)
TWO = [m.pod("one", at=FIRST, **LABELS), m.pod("two", at=SECOND, **LABELS)]


def weighs(weight: int) -> list[Any]:
    """Near to either; the second is preferred by 5, the first by the weight."""
    first, second = (
        {
            "weight": it,
            "podAffinityTerm": {
                "topologyKey": HOST,
                "labelSelector": {"matchLabels": {"kai.scheduler/queue": "vision", "which": which}},
            },
        }
        for it, which in ((weight, "one"), (5, "two"))
    )
    pods = [changed(it, "metadata.labels.which", it["metadata"]["name"]) for it in TWO]
    wishes = {"preferredDuringSchedulingIgnoredDuringExecution": [first, second]}
    return cluster(p(affinity={"podAffinity": wishes}), *pods)


case(
    "WeightedPodAffinityTerm.weight PodAffinity.preferredDuringSchedulingIgnoredDuringExecution",
    weighs(4),
    SECOND,
    weighs(6),
)
SELECTS = {"key": "app", "operator": "In", "values": ["x"]}


def selects(**more: Any) -> list[Any]:
    return beside(
        near("podAntiAffinity", labelSelector={"matchExpressions": [SELECTS | more]}), FIRST
    )


case("LabelSelector.matchExpressions", selects(), SECOND, beside({}, FIRST))
for name, value in (("key", "other"), ("operator", "NotIn"), ("values", ["y"])):
    case(f"LabelSelectorRequirement.{name}", selects(**{name: value}), FIRST, selects(), SECOND)


def spread(**more: Any) -> list[Any]:
    """One pod runs on the first node, and counts."""
    rule = {"whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1, **term(), **more}
    rules = {"topologySpreadConstraints": [{key: it for key, it in rule.items() if it is not None}]}
    return beside(rules, at=FIRST)


case(
    "PodSpec.topologySpreadConstraints TopologySpreadConstraint.labelSelector",
    spread(),
    SECOND,
    spread(labelSelector=None),
)
case("TopologySpreadConstraint.maxSkew", spread(maxSkew=2), FIRST, spread(), SECOND)
case("TopologySpreadConstraint.topologyKey", spread(topologyKey="no"), NOWHERE, spread(), SECOND)
case(
    "TopologySpreadConstraint.whenUnsatisfiable",
    [*spread(whenUnsatisfiable="ScheduleAnyway"), m.pod("full", gpus=8, at=SECOND)],
    FIRST,
    [*spread(), m.pod("full", gpus=8, at=SECOND)],
    NOWHERE,
)
case(
    "TopologySpreadConstraint.matchLabelKeys",
    changed(spread(matchLabelKeys=["hash"]), "4.metadata.labels.hash", "2"),
    FIRST,
    changed(spread(), "4.metadata.labels.hash", "2"),
    SECOND,
)
case(
    "TopologySpreadConstraint.minDomains",
    [*spread(minDomains=3), m.pod("more", at=SECOND, **LABELS)],
    NOWHERE,
    [*spread(minDomains=2), m.pod("more", at=SECOND, **LABELS)],
)


def barred(policy: str, value: str, node: Any, asks: Any) -> list[Any]:
    """The only empty zone has no node for the pod: with Honor it does not count."""
    found = spread(**{policy: value})
    found[3:3] = [m.node("node-2", labels={HOST: "node-2", "zone": "c"}, **node)]
    found[-1]["spec"] |= asks
    return [*found, m.pod("more", at=SECOND, **LABELS)]


AWAY = near_node(expression("zone", "NotIn", "c"))["spec"]["affinity"]
for policy, node, asks in (
    ("nodeAffinityPolicy", {}, {"affinity": AWAY}),
    ("nodeTaintsPolicy", {"spec": {"taints": [TAINT]}}, {}),
):
    case(
        f"TopologySpreadConstraint.{policy}",
        barred(policy, "Ignore", node, asks),
        NOWHERE,
        barred(policy, "Honor", node, asks),
    )


def port(number: int, **more: Any) -> Any:
    return {"main": {"ports": [{"containerPort": 80, "hostPort": number, **more}]}}


def ports(number: int = 80, **more: Any) -> list[Any]:
    runs = m.pod("runs", at=FIRST, **port(80, protocol="TCP", hostIP="10.0.0.1"))
    return cluster(p(**port(number, **{"protocol": "TCP", "hostIP": "10.0.0.1", **more})), runs)


case("Container.ports ContainerPort.hostPort", ports(), SECOND, ports(81))
case("ContainerPort.protocol", ports(protocol="UDP"), FIRST, ports(), SECOND)
case("ContainerPort.hostIP", ports(hostIP="10.0.0.2"), FIRST, ports(), SECOND)
OWN = {"main": {"ports": [{"containerPort": 80}]}, "hostNetwork": True}
TAKES = m.pod("runs", at=FIRST, **OWN)
case(
    "PodSpec.hostNetwork ContainerPort.containerPort",
    cluster(p(**OWN), TAKES),
    SECOND,
    cluster(p(**{**OWN, "hostNetwork": False}), TAKES),
)

# -- queues and states -----------------------------------------------------------------------------

case("PodSpec.schedulerName", cluster(p(schedulerName="other")), NOWHERE, cluster(p()))
case(
    "PodSpec.schedulingGates PodSchedulingGate.name",
    cluster(p(schedulingGates=[{"name": "g"}])),
    NOWHERE,
    cluster(p()),
)
case("PodSpec.nodeName", cluster(p(), m.pod("runs", gpus=8, at=FIRST)), SECOND, cluster(p()))
FULL = m.pod("full", gpus=8, at=SECOND)


def rival(**spec: Any) -> list[Any]:
    """An older pod of the same queue wants all of the only node with room."""
    older = m.pod("older", gpus=8, created="2026-01-01T00:00:00Z", **spec)
    return cluster(m.pod("p", gpus=8), FULL, older)


case("PodSpec.priority", rival(priority=20), FIRST, rival(), NOWHERE)
LOW = m.priority_class("low", 20)
case(
    "PodSpec.priorityClassName",
    [*rival(priorityClassName="low"), LOW],
    FIRST,
    [*rival(), LOW],
    NOWHERE,
)


def group(**spec: Any) -> list[Any]:
    pods = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "team", "labels": {"kai.scheduler/queue": "vision"}},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    return cluster(p(**spec), pods)


case(
    "PodSpec.schedulingGroup PodSchedulingGroup.podGroupName",
    group(schedulingGroup={"podGroupName": "g"}),
    NOWHERE,
    group(),
)


def ends(**status: Any) -> list[Any]:
    """A pod has all of the first node."""
    old = m.pod("old", gpus=8, at=FIRST)
    old["status"] |= status
    return cluster(p(), old)


case("PodStatus.phase", ends(phase="Succeeded"), FIRST, ends(), SECOND)


def nominated(**status: Any) -> list[Any]:
    """Half of the first node is being freed, for a pod that comes second or has the node named."""
    leaves = m.pod(
        "leaves",
        gpus=4,
        at=FIRST,
        meta={"deletionTimestamp": "2099-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30},
    )
    waits = m.pod("waits", gpus=8, created="2026-02-02T00:00:00Z")
    waits["status"] = {"phase": "Pending", **status}
    return cluster(m.pod("p", gpus=2), FULL, leaves, waits)


case("PodStatus.nominatedNodeName", nominated(nominatedNodeName=FIRST), NOWHERE, nominated())

# -- volumes ---------------------------------------------------------------------------------------

DISK = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}}
DISK |= {
    "spec": {
        "storageClassName": "disk",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "10Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [expression("zone", "In", "b")]}},
    },
    "status": {"phase": "Available"},
}
CLAIM = m.claim("data", storageClassName="disk", resources={"requests": {"storage": "5Gi"}})
LOCAL = {**m.storage_class("WaitForFirstConsumer"), "provisioner": "kubernetes.io/no-provisioner"}


def stored(pod: Any = None, **changes: Any) -> list[Any]:
    """A claim that gets the only volume, which is on the second node; kind__path says a change."""
    objects = {"pv": DISK, "claim": CLAIM, "kind": LOCAL}
    for path, value in changes.items():
        which, _, rest = path.partition("__")
        objects[which] = changed(objects[which], rest.replace("__", "."), value)
    return [*cluster(pod or p(volumes=m.uses("data"))), *objects.values()]


STORED = stored()
case(
    "PodSpec.volumes Volume.persistentVolumeClaim PersistentVolumeClaimVolumeSource.claimName",
    STORED,
    SECOND,
    stored(p()),
)
OWNED = changed(CLAIM, "metadata.name", "p-scratch")
OWNED["metadata"]["ownerReferences"] = [
    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
]


def ephemeral(name: str) -> list[Any]:
    pod = p(volumes=[{"name": name, "ephemeral": {"volumeClaimTemplate": {}}}], meta={"uid": "u"})
    pod = changed(m.pod("p", volumes=pod["spec"]["volumes"]), "metadata.uid", "u")
    return [*cluster(pod), DISK, OWNED, LOCAL]


case("Volume.ephemeral", ephemeral("scratch"), SECOND, stored(p()))
case("Volume.name", ephemeral("other"), NOWHERE, ephemeral("scratch"), SECOND)
for field, path, value, goes in (
    ("PersistentVolumeSpec.accessModes", "pv__spec__accessModes", ["ReadOnlyMany"], NOWHERE),
    ("PersistentVolumeSpec.capacity", "pv__spec__capacity", {"storage": "1Gi"}, NOWHERE),
    ("PersistentVolumeSpec.claimRef", "pv__spec__claimRef", {"name": "x"}, NOWHERE),
    ("PersistentVolumeSpec.storageClassName", "pv__spec__storageClassName", "x", NOWHERE),
    ("PersistentVolumeSpec.volumeMode", "pv__spec__volumeMode", "Block", NOWHERE),
    (
        "PersistentVolumeSpec.volumeAttributesClassName",
        "pv__spec__volumeAttributesClassName",
        "x",
        NOWHERE,
    ),
    (
        "PersistentVolumeSpec.nodeAffinity VolumeNodeAffinity.required",
        "pv__spec__nodeAffinity",
        {},
        FIRST,
    ),
    ("PersistentVolumeStatus.phase", "pv__status__phase", "Released", NOWHERE),
    ("PersistentVolumeClaimSpec.accessModes", "claim__spec__accessModes", ["x"], NOWHERE),
    (
        "PersistentVolumeClaimSpec.resources VolumeResourceRequirements.requests",
        "claim__spec__resources__requests__storage",
        "20Gi",
        NOWHERE,
    ),
    (
        "PersistentVolumeClaimSpec.selector",
        "claim__spec__selector",
        {"matchLabels": {"a": "b"}},
        NOWHERE,
    ),
    ("PersistentVolumeClaimSpec.storageClassName", "claim__spec__storageClassName", "x", NOWHERE),
    (
        "PersistentVolumeClaimSpec.volumeAttributesClassName",
        "claim__spec__volumeAttributesClassName",
        "x",
        NOWHERE,
    ),
    ("PersistentVolumeClaimSpec.volumeMode", "claim__spec__volumeMode", "Block", NOWHERE),
    ("PersistentVolumeClaimSpec.volumeName", "claim__spec__volumeName", "x", NOWHERE),
    ("PersistentVolumeClaimStatus.phase", "claim__status__phase", "Lost", NOWHERE),
    ("StorageClass.provisioner", "kind__provisioner", "example.com/x", FIRST),
    ("StorageClass.volumeBindingMode", "kind__volumeBindingMode", "Immediate", NOWHERE),
):
    case(field, stored(**{path: value}), goes, STORED, SECOND)
MADE: Any = {"kind__provisioner": "example.com/x", "pv__status__phase": "Released"}
IN_B = [{"matchLabelExpressions": [{"key": "zone", "values": ["b"]}]}]
case(
    "StorageClass.allowedTopologies",
    stored(**MADE, kind__allowedTopologies=IN_B),
    SECOND,
    stored(**MADE),
)

ELSEWHERE: Final = {
    "PodSpec.preemptionPolicy": (
        "tests/small_clusters/test_wishes.py::test_nothing_is_evicted_for_a_pod_that_never_preempts"
    ),
    "PodSpec.resourceClaims PodResourceClaim.name PodResourceClaim.resourceClaimName": (
        "tests/unit/cluster/claims/test_placing.py"
        "::test_a_claim_by_name_is_kept_by_its_users_and_given_back_by_the_last"
    ),
    "PodResourceClaim.resourceClaimTemplateName PodStatus.resourceClaimStatuses"
    " PodResourceClaimStatus.name PodResourceClaimStatus.resourceClaimName": (
        "tests/unit/cluster/claims/test_placing.py::test_a_claim_is_made_allocated_and_given_back"
    ),
    "PodStatus.extendedResourceClaimStatus PodExtendedResourceClaimStatus.requestMappings"
    " PodExtendedResourceClaimStatus.resourceClaimName": (
        "tests/unit/cluster/claims/test_extended.py"
        "::test_what_a_pod_has_by_its_claim_counts_once_whatever_becomes_of_the_class"
    ),
    "PodStatus.startTime PodCondition.lastTransitionTime PodCondition.status": (
        "tests/unit/cluster/test_translate.py"
        "::test_a_pod_was_placed_when_it_was_scheduled_or_else_started"
    ),
}
"""Fields to tests of more than a node for one pod."""


@pytest.mark.proportion
@pytest.mark.parametrize("field", CASES)
def test_the_field_decides_where_the_pod_goes(tmp_path, field):
    it = CASES[field]
    found = [decided(tmp_path, *objects) for objects in (it.with_it, it.without)]
    bound, other = (each[0].get("team/p", NOWHERE) for each in found)
    assert (bound, other) == (it.goes, it.would_go), found
    assert found[0] != found[1]
