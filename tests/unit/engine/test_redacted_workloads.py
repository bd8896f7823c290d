"""Redacted recordings of workloads: facts about gangs remain, names do not."""

import msgspec
import pytest
from msgspec.structs import replace

from kaisched.cluster.state import Kept
from kaisched.cluster.store import StateStore, update
from kaisched.core.refusals import Refusal
from kaisched.engine.policy import default_policy, default_shard
from kaisched.engine.recording import encoded, record, replay, sealed
from kaisched.engine.redaction import redacted
from kaisched.objects import labels as labels_of
from kaisched.objects.gangs import WORKLOADS, gang_api_row, gang_of, pod_gang
from kaisched.objects.load import load_text
from kaisched.objects.pod import Pod, PodSpec
from kaisched.objects.wire import ObjectMeta, OwnerReference
from kaisched.objects.workloads import PartialObject

NOW_S = 1_800_000_000.0
MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: acme-node}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: acme-vision}
spec: {resources: {gpu: {quota: 8}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: acme-class}
value: 70
"""


def owner(kind, name, by=None, spec=None):
    row = next(it for it in (*WORKLOADS, gang_api_row({"v1alpha2"})) if it.kind == kind)
    meta = ObjectMeta(
        name=name,
        namespace="acme-ns",
        uid=f"acme-uid-{name}",
        owner_references=[] if by is None else [reference(by)],
    )
    gang = gang_of(row.read, spec, {})
    return PartialObject(metadata=meta, api_version=row.api_version, kind=kind, gang=gang)


def reference(by):
    return OwnerReference(
        api_version=by.api_version,
        kind=by.kind,
        name=by.metadata.name,
        uid=by.metadata.uid,
        controller=True,
    )


def pod_of(name, by=None, gpus=1, labels=None, **spec):
    meta = ObjectMeta(
        name=name,
        namespace="acme-ns",
        uid=f"acme-uid-{name}",
        labels={"kai.scheduler/queue": "acme-vision", **(labels or {})},
        owner_references=[] if by is None else [reference(by)],
    )
    container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
    said = {"schedulerName": "kaisched", "containers": [container], **spec}
    return Pod(metadata=meta, spec=msgspec.convert(said, PodSpec))


def of_job_set():
    notes = {labels_of.POD_SET_PREFERRED: "acme-rack", labels_of.POD_SET_GROUP: "acme-pair"}
    template = {"spec": {"template": {"metadata": {"annotations": notes}}}}
    jobs = [
        {"name": "acme-lead", "template": template},
        {"name": "acme-work", "replicas": 2, "template": template},
    ]
    top = owner("JobSet", "acme-set", spec={"replicatedJobs": jobs})
    yield top
    for part, index in (("acme-lead", 0), ("acme-work", 0), ("acme-work", 1)):
        job = owner("Job", f"acme-set-{part}-{index}", top)
        labels = {labels_of.REPLICATED_JOB: part, labels_of.JOB_INDEX: str(index)}
        yield from (job, pod_of(f"{job.metadata.name}-0", job, labels=labels))


def of_leader_worker_set():
    top = owner("LeaderWorkerSet", "acme-serve", spec={"leaderWorkerTemplate": {"size": 9}})
    yield top
    pods = owner("StatefulSet", "acme-serve", top)
    pods = replace(pods, metadata=replace(pods.metadata, uid="acme-uid-set"))
    yield pods
    for index in "01":
        yield pod_of(f"acme-serve-{index}", pods, labels={labels_of.GROUP_INDEX: index})


def of_kubernetes_own_group():
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "acme-class"}
    yield owner("PodGroup", "acme-own", spec=spec)
    for at in range(2):
        yield pod_of(f"acme-own-{at}", schedulingGroup={"podGroupName": "acme-own"})


def of_spark():
    label = {labels_of.SPARK_APP: "acme-app"}
    yield from (pod_of(f"acme-spark-{at}", labels=label) for at in range(2))


SEGMENTS = {
    labels_of.TOPOLOGY: "acme-dc",
    labels_of.SEGMENT_SIZE: "2",
    labels_of.SEGMENT_REQUIRED: "acme-rack",
}


def of_segments():
    """A PyTorchJob in two segments, a group of a LeaderWorkerSet in two, and a RayCluster."""
    template = {"metadata": {"annotations": SEGMENTS}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template}}}
    top = owner("PyTorchJob", "acme-train", spec=spec)
    yield top
    for at in range(4):
        labels = {labels_of.REPLICA_TYPE: "worker", labels_of.REPLICA_INDEX: str(at)}
        yield pod_of(f"acme-train-{at}", top, labels=labels)
    spec = {"leaderWorkerTemplate": {"size": 4, "workerTemplate": template}}
    top = owner("LeaderWorkerSet", "acme-serve", spec=spec)
    yield top
    for at in range(4):
        labels = {labels_of.GROUP_INDEX: "0", labels_of.WORKER_INDEX: str(at)}
        yield pod_of(f"acme-serve-{at}", top, labels=labels)
    wish = {labels_of.TOPOLOGY: "acme-dc", labels_of.TOPOLOGY_REQUIRED: "acme-rack"}
    template = {"metadata": {"annotations": wish}}
    top = owner("RayCluster", "acme-ray", spec={"headGroupSpec": {"template": template}})
    yield from (top, pod_of("acme-ray-0", top, labels={labels_of.RAY_GROUP: "headgroup"}))
    packed = {"topologyConstraint": {"packConstraint": {"required": "acme-rack"}}}
    groups = [{"name": "acme-a", "minReplicas": 1, **packed}, {"name": "acme-b", "minReplicas": 1}]
    row = owner("PodGang", "acme-gang")
    notes = {labels_of.TOPOLOGY: "acme-dc"}
    gang = gang_of(pod_gang, {"podgroups": groups, **packed}, notes)
    yield replace(row, gang=gang)
    for group in ("acme-a", "acme-b"):
        labels = {labels_of.POD_GANG: "acme-gang", labels_of.POD_CLIQUE: group}
        yield pod_of(f"{group}-0", labels=labels)


@pytest.fixture
def workloads():
    """A recording with workloads of every kind whose pods are known by labels or spec."""
    return recorded(
        [*of_job_set(), *of_leader_worker_set(), *of_kubernetes_own_group(), *of_spark()]
    )


def recorded(objects):
    store, kept = StateStore(), Kept()
    loaded = load_text(MANIFESTS)
    for obj in (*loaded.objects, *objects):
        update(store, obj)
        kept.put(obj)
    store.snapshot()
    policy = default_policy()
    made = record(
        "cluster",
        kept.state_of(store),
        default_shard(),
        policy,
        schedulers=["kaisched"],
        now_s=NOW_S,
    )
    return sealed(made, replay(made).result)


def jobs_of(replayed):
    s = replayed.snapshot
    return sorted(
        (len(tasks), int(count), int(refusal))
        for tasks, count, refusal in zip(
            s.jobs.tasks, s.jobs.podset_count, s.jobs.refusal, strict=True
        )
    )


def test_workloads_are_grouped_alike_without_their_names(workloads):
    """Two groups without some pods, Spark's and Kubernetes', and a set of three subgroups."""
    before = replay(workloads)
    assert jobs_of(before) == [(1, 1, 0), (1, 1, 0), (2, 1, 0), (2, 1, 0), (3, 3, 0)]
    bare, warnings = redacted(workloads)
    assert warnings == []
    assert jobs_of(replay(bare)) == jobs_of(before)
    assert len(replay(bare).result.binds) == len(before.result.binds) == 7
    text = encoded(bare).decode()
    assert "acme" not in text
    assert '"minimum":9' in text


def test_a_label_that_a_group_names_is_kept_under_another_name(workloads):
    """No object asks for it, so the node would lose it, and the group its place."""
    owners = [
        replace(it, node_label="acme-rack") if it.kind == "PodGroup" else it
        for it in workloads.owners
    ]
    objects = [
        msgspec.Raw(
            bytes(it).replace(
                b'"name":"acme-node"', b'"name":"acme-node","labels":{"acme-rack":"acme-r1"}'
            )
        )
        for it in workloads.objects
    ]
    made = replace(workloads, owners=owners, objects=objects)
    bare, warnings = redacted(made)
    assert warnings == []
    assert "acme" not in encoded(bare).decode()
    assert len(replay(bare).result.binds) == len(replay(made).result.binds) == 7


def test_segments_and_groups_with_levels_keep_their_places_without_their_names():
    text = MANIFESTS.replace("{name: acme-node}", "{name: acme-node, labels: {acme-label: r1}}")
    text = text.replace('gpu: "8"', 'gpu: "11"')
    dc = """
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: acme-dc}
spec: {levels: [{nodeLabel: acme-label, alias: acme-rack}]}
"""
    objects = [*load_text(dc).objects, *load_text(text).objects[:1], *of_segments()]
    made = recorded(objects)
    before = replay(made)
    assert jobs_of(before) == [(1, 1, 0), (2, 2, 0), (4, 2, 0), (4, 2, 0)]
    assert len(before.result.binds) == 11
    bare, warnings = redacted(made)
    assert warnings == []
    assert "acme" not in encoded(bare).decode()
    assert jobs_of(replay(bare)) == jobs_of(before)
    assert len(replay(bare).result.binds) == 11


def test_what_a_workload_asks_in_vain_holds_no_name(workloads):
    spec = {"schedulingConstraints": {"topology": [{"key": "acme-rack"}, {"key": "acme-zone"}]}}
    bad = owner("PodGroup", "acme-own", spec={"schedulingPolicy": {"basic": {}}, **spec})
    owners = [
        replace(it, unsupported=bad.gang.unsupported) if it.kind == "PodGroup" else it
        for it in workloads.owners
    ]
    bare = redacted(replace(workloads, owners=owners)).recording
    assert "acme" not in encoded(bare).decode()
    assert (2, 1, int(Refusal.UNSUPPORTED)) in jobs_of(replay(bare))
