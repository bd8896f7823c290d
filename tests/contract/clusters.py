"""Random objects of a small world, for the suites: few names, so that all meet each other."""

from hypothesis import strategies as st
from msgspec import convert

from kaisched.cluster.store import StateStore, update
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup, SubGroupSpec
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta, TopologyConstraint
from kaisched.objects.workloads import (
    Gang,
    Job,
    PartialObject,
    PriorityClass,
    ReplicaSet,
    Segments,
    parts_of,
)

NODES = ("n0", "n1", "n2")
QUEUES = ("a", "b", "c", "d")
GROUPS = ("g0", "g1")
PODS = tuple(f"p{number}" for number in range(6))
SEGMENTS = Segments(
    size=2,
    pods=3,
    minimum=3,
    leader="inside",
    topology=TopologyConstraint(topology="t", preferred_topology_level="zone"),
)
ROLES = [
    SubGroupSpec(name="master", min_member=1),
    SubGroupSpec(name="worker", min_member=2),
]
API_OF = {
    "Job": "batch/v1",
    "ReplicaSet": "apps/v1",
    "Pod": "v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
}
REFERRED = (
    ("Job", "o0"),
    ("ReplicaSet", "o1"),
    ("Job", "o1"),
    ("Pod", "p0"),
    ("LeaderWorkerSet", "o2"),
    ("JobSet", "o3"),
    ("PyTorchJob", "o4"),
)


def make(type_, name, *, namespace="", labels=None, annotations=None, uid="", **rest):
    """An object as a manifest says it."""
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    metadata |= {"namespace": namespace or "ns"} if type_.IS_NAMESPACED else {}
    metadata |= {"uid": uid, "creationTimestamp": rest.pop("created", "2026-01-01T00:00:00Z")}
    metadata |= rest.pop("metadata", {})
    return convert({"metadata": metadata, **rest}, type_)


def node(name, gpus=8, **rest):
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": gpus, "pods": 110, "x.io/y": 4}
    return make(Node, name, status={"allocatable": amounts, **rest.pop("status", {})}, **rest)


def queue(name, parent="", gpu=4, **rest):
    resources = {"gpu": {"quota": gpu}}
    return make(Queue, name, spec={"parentQueue": parent, "resources": resources}, **rest)


def pod(name, queue_name="a", gpus=1, *, scheduler="kaisched", where="", phase="", **rest):
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus, **rest.pop("extra", {})}
    labels = {"kai.scheduler/queue": queue_name, **rest.pop("labels", {})}
    spec = {
        "schedulerName": scheduler,
        "nodeName": where,
        "containers": [{"resources": {"requests": requests}}],
        **rest.pop("spec", {}),
    }
    status = {"phase": phase or "Pending", **rest.pop("status", {})}
    return make(Pod, name, labels=labels, spec=spec, status=status, **rest)


def group(name, queue_name="a", **spec):
    return make(PodGroup, name, spec={"queue": queue_name, **spec})


def store_of(*objects):
    """A store with node n0, queue a and some objects."""
    store = StateStore()
    for obj in (node("n0"), queue("a"), *objects):
        update(store, obj)
    return store


@st.composite
def nodes(draw):
    return node(
        draw(st.sampled_from(NODES)),
        draw(st.integers(0, 8)),
        spec={"unschedulable": draw(st.booleans())},
        status={
            "conditions": [{"type": "Ready", "status": draw(st.sampled_from(["True", "False"]))}]
        },
        labels=draw(st.sampled_from([{}, {"zone": "z"}, {"kai.scheduler/node-pool": "other"}])),
    )


@st.composite
def queues(draw):
    return queue(
        draw(st.sampled_from(QUEUES)),
        draw(st.sampled_from(["", "", "a", "b", "nowhere"])),
        draw(st.sampled_from([0, 2, -1, -7])),
        created=draw(st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"])),
    )


@st.composite
def groups(draw):
    parts = draw(
        st.sampled_from(
            [
                {},
                {"minMember": 2},
                {"minMember": -1},
                {"subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 0}]},
                {
                    "minSubGroup": 1,
                    "subGroups": [
                        {"name": "in", "minSubGroup": 1},
                        {"name": "x", "minMember": 1, "parent": "in"},
                        {"name": "y", "minMember": 2, "parent": "in"},
                        {"name": "z", "minMember": 1},
                    ],
                },
                {"subGroups": [{"name": "x", "minMember": 1, "parent": "lost"}]},
            ]
        )
    )
    return group(
        draw(st.sampled_from(GROUPS)),
        draw(st.sampled_from(QUEUES)),
        priorityClassName=draw(st.sampled_from(["", "build", "own"])),
        preemptibility=draw(st.sampled_from(["", "preemptible", "non-preemptible"])),
        **parts,
    )


@st.composite
def pods(draw):
    name = draw(st.sampled_from(PODS))
    where = draw(st.sampled_from(["", "", *NODES, "unknown"]))
    kind, owner = draw(st.sampled_from([("", ""), ("", ""), *REFERRED]))
    metadata = {}
    if kind:
        uid = "1" if kind == "Pod" else f"uid-{owner}"
        metadata["ownerReferences"] = [
            {"apiVersion": API_OF[kind], "kind": kind, "name": owner, "uid": uid}
            | {"controller": True}
        ]
    if draw(st.integers(0, 5)) == 0:
        metadata["deletionTimestamp"] = "2026-03-01T00:00:00Z"
    annotations = draw(
        st.sampled_from(
            [{}, {}, *({"pod-group-name": name} for name in GROUPS), {"gpu-fraction": "0.5"}]
        )
    )
    labels = draw(
        st.sampled_from(
            [
                {},
                {},
                {"kai.scheduler/subgroup-name": "x"},
                {"kai.scheduler/subgroup-name": "y"},
                {"kai.scheduler/task-priority": "7"},
                {"priorityClassName": "own"},
                {"kai.scheduler/node-pool": "other"},
                {"spark-app-selector": "app"},
                {"spark-app-selector": "app", "spark-role": "driver"},
                {"training.kubeflow.org/replica-type": "master"},
                {"training.kubeflow.org/replica-type": "worker"},
                {
                    "leaderworkerset.sigs.k8s.io/group-index": "0",
                    "leaderworkerset.sigs.k8s.io/worker-index": "1",
                    "jobset.sigs.k8s.io/replicatedjob-name": "x",
                    "jobset.sigs.k8s.io/job-index": "1",
                },
            ]
        )
    )
    return pod(
        name,
        draw(st.sampled_from(QUEUES)),
        draw(st.integers(0, 2)),
        uid=draw(st.sampled_from(["1", "1", "2"])),
        scheduler=draw(st.sampled_from(["kaisched", "kaisched", "default-scheduler"])),
        where=where,
        phase=draw(st.sampled_from(["Pending", "Running" if where else "Pending", "Succeeded"])),
        labels=labels,
        annotations=annotations,
        metadata=metadata,
        extra=draw(st.sampled_from([{}, {}, {}, {"x.io/y": 1}])),
        spec=draw(
            st.sampled_from(
                [
                    *({}, {}, {}),
                    {"schedulingGates": [{"name": "wait"}]},
                    {"schedulingGroup": {"podGroupName": "g0"}},
                ]
            )
        ),
        status=draw(st.sampled_from([{}, {"nominatedNodeName": "n0"}])),
    )


@st.composite
def others(draw):
    kind, name = draw(
        st.sampled_from([(Job, "o0"), (Job, "o1"), (ReplicaSet, "o1"), (PriorityClass, "own")])
    )
    if kind is PriorityClass:
        return make(kind, name, value=draw(st.sampled_from([10, 200])))
    notes = draw(st.sampled_from([{}, {"kai.scheduler/batch-min-member": "2"}]))
    labels = draw(st.sampled_from([{}, {"kai.scheduler/queue": "b"}]))
    return make(kind, name, uid=f"uid-{name}", labels=labels, annotations=notes)


@st.composite
def workloads(draw):
    """A workload whose spec says how large its gang is, or a group of Kubernetes' own gang API."""
    name, kind, api_version, *gangs = draw(
        st.sampled_from(
            [
                (
                    "o2",
                    "LeaderWorkerSet",
                    API_OF["LeaderWorkerSet"],
                    Gang(minimum=2),
                    Gang(minimum=3, is_leader_first=True),
                    Gang(minimum=3, segments={"w": SEGMENTS}, sub_groups=parts_of(SEGMENTS, "w")),
                ),
                (
                    "o3",
                    "JobSet",
                    API_OF["JobSet"],
                    Gang(),
                    Gang(
                        sub_groups=[
                            SubGroupSpec(name="x"),
                            SubGroupSpec(name="x/0", min_member=1, parent="x"),
                            SubGroupSpec(name="x/1", min_member=2, parent="x"),
                        ]
                    ),
                ),
                (
                    "o4",
                    "PyTorchJob",
                    API_OF["PyTorchJob"],
                    Gang(minimum=2),
                    Gang(minimum=3, sub_groups=ROLES),
                    Gang(minimum=2, sub_groups=ROLES, later=("master",)),
                ),
                (
                    "g0",
                    "PodGroup",
                    "scheduling.k8s.io/v1alpha2",
                    Gang(minimum=2),
                    Gang(is_each=True),
                    Gang(unsupported="no"),
                    Gang(minimum=2, node_label="zone"),
                ),
            ]
        )
    )
    meta = ObjectMeta(
        name=name, namespace="ns", uid=f"uid-{name}", creation_timestamp="2026-01-01T00:00:00Z"
    )
    gang = draw(st.sampled_from(gangs))
    return PartialObject(metadata=meta, api_version=api_version, kind=kind, gang=gang)


def objects():
    """Any object; pods more often than others."""
    return st.one_of(pods(), pods(), pods(), groups(), queues(), nodes(), others(), workloads())


def histories():
    """A list of (object, whether it comes or goes), in which a good deal happens."""
    event = st.tuples(objects(), st.sampled_from([True, True, True, False]))
    return st.lists(event, max_size=3) | st.lists(event, min_size=25, max_size=50)
