"""KAI-Scheduler's topology annotations of workloads and templates, from YAML to the nodes."""

import msgspec
import pytest
from msgspec.structs import replace

from kaisched import TopologyConstraint
from kaisched.cluster.store import update
from kaisched.core.refusals import Refusal
from kaisched.objects.gangs import KNOWN
from kaisched.objects.load import load_text, workloads_among
from kaisched.objects.pod import Pod
from kaisched.objects.wire import OwnerReference
from kaisched.objects.workloads import PartialObject
from tests.contract.clusters import group, node
from tests.oracles.accounts import content
from tests.unit.cluster.test_gang_api_topology import cycle
from tests.unit.cluster.test_grouping_table import (
    LWS,
    SET,
    group_labels,
    leader_worker_set,
    owned,
    owner,
)
from tests.unit.cluster.test_groups import job, store_of
from tests.unit.cluster.test_topologies import topology

KAI = "kai.scheduler/"
RACK = "example.com/rack"
DC = topology(("example.com/zone", "zone"), (RACK, "rack"), ("kubernetes.io/hostname", "host"))
IN_A_RACK = TopologyConstraint("dc", "rack")
TRAINING = "training.kubeflow.org/"


def read(text):
    (found,) = workloads_among(load_text(text.encode(), "f").others, KNOWN).objects
    return found


def racks(**free):
    """A node for each rack, with so many idle GPUs; all in one zone, after a topology of it."""
    found = [DC]
    for name, gpus in free.items():
        labels = {"example.com/zone": "z", RACK: name, "kubernetes.io/hostname": name}
        found.append(node(name, gpus, labels=labels))
    return found


def constraints(store, at=None):
    """The constraint of each subgroup that has one, by name."""
    (root,) = store.snapshot().jobs.structure.values() if at is None else (at,)
    found = {} if root.topology is None else {root.name: root.topology}
    for child in root.children:
        found |= constraints(store, child)
    return found


def by_node(binds, prefix=""):
    """How many pods got each node."""
    counts: dict[str, int] = {}
    for name, at in binds.items():
        if name.startswith(prefix):
            counts[at] = counts.get(at, 0) + 1
    return counts


# -- PyTorchJob ---------------------------------------------------------------------------------


PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: t
  namespace: ns
  uid: uid-t
spec:
  ELASTIC
  pytorchReplicaSpecs:
    Master: {replicas: 1}
    Worker:
      replicas: 10
      template:
        metadata:
          annotations:
            kai.scheduler/topology: dc
            kai.scheduler/segment-size: "4"
            kai.scheduler/segment-topology-required-placement: rack
"""
NOTES = {
    f"{KAI}topology": "dc",
    f"{KAI}segment-size": "4",
    f"{KAI}segment-topology-required-placement": "rack",
}


def replica(role, index, name="", **rest):
    labels = {f"{TRAINING}replica-type": role, f"{TRAINING}replica-index": str(index)}
    notes = NOTES if role == "worker" else {}
    return owned(f"{role[0]}{index}", ("PyTorchJob", "t"), labels=labels, annotations=notes, **rest)


def pytorch(elastic=""):
    pods = [replica("master", 0), *(replica("worker", at) for at in range(10))]
    return [read(PYTORCH.replace("ELASTIC", elastic)), *pods]


def test_workers_of_a_pytorch_job_are_in_segments_by_their_index():
    """X25 and the master: two of three segments are needed, of the last one no pod."""
    store = store_of(*pytorch("elasticPolicy: {minReplicas: 8}"))
    found = job(store)
    assert found["podsets"] == [
        ("master", 1, 1),
        ("worker/0", 4, 4),
        ("worker/1", 4, 4),
        ("worker/2", 0, 2),
    ]
    assert constraints(store) == dict.fromkeys(["worker/0", "worker/1", "worker/2"], IN_A_RACK)
    assert (found["refusal"], store.problems()) == (Refusal.NONE, [])


def test_segments_go_into_racks_of_their_own():
    store = store_of(*racks(a=4, b=5, c=2), *pytorch())
    update(store, node("n0"), is_gone=True)
    binds, _, _ = cycle(store)
    assert len(binds) == 11
    for first, last in ((0, 4), (4, 8), (8, 10)):
        assert len({binds[f"w{at}"] for at in range(first, last)}) == 1


def test_racks_hold_whole_segments_only():
    """X26: racks with 7, 6 and 5 places hold a segment of four each, so four segments wait."""
    text = PYTORCH.replace("ELASTIC", "").replace("replicas: 10", "replicas: 16")
    text = text.replace("    Master: {replicas: 1}\n", "")
    pods = [replica("worker", at) for at in range(16)]
    store = store_of(*racks(a=7, b=6, c=5), read(text), *pods)
    update(store, node("n0"), is_gone=True)
    assert cycle(store)[0] == {}
    update(store, racks(d=4)[1])
    binds = cycle(store)[0]
    assert by_node(binds) == {"a": 4, "b": 4, "c": 4, "d": 4}


def test_a_job_in_one_zone_and_its_segments_in_one_rack_each():
    text = PYTORCH.replace("ELASTIC", "").replace(
        "  uid: uid-t\n",
        "  uid: uid-t\n  annotations: {kai.scheduler/topology: dc,"
        " kai.scheduler/topology-required-placement: zone}\n",
    )
    store = store_of(*racks(a=4), read(text), *pytorch()[1:])
    assert constraints(store)[""] == TopologyConstraint("dc", "zone")
    assert constraints(store)["worker/1"] == IN_A_RACK


@pytest.mark.parametrize("index", [None, "x", "-1"])
def test_a_worker_without_an_index_is_refused(index):
    labels = {f"{TRAINING}replica-type": "worker"}
    if index is not None:
        labels[f"{TRAINING}replica-index"] = index
    store = store_of(pytorch()[0], owned("w", ("PyTorchJob", "t"), labels=labels))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert "names no subgroup (training.kubeflow.org/replica-type," in store.problems()[0].text


def test_a_minimum_by_annotation_and_segments_contradict_each_other():
    pod = replica("worker", 0)
    pod.metadata.annotations[f"{KAI}batch-min-member"] = "3"
    store = store_of(pytorch()[0], pod)
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert "batch-min-member']: beside segments" in store.problems()[0].text


def test_a_wrong_size_refuses_the_job_with_the_annotation_and_the_fix():
    bad = read(PYTORCH.replace("ELASTIC", "").replace('"4"', '"four"'))
    store = store_of(bad, replica("worker", 0))
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    assert store.problems()[0].text == (
        "template of its workers: metadata.annotations['kai.scheduler/segment-size']:"
        " 'four': no size of a segment; write how many pods are a segment, at least 1"
    )


def test_segments_follow_their_workload():
    store = store_of(*pytorch())
    text = PYTORCH.replace("ELASTIC", "")
    update(store, read(text.replace('"4"', '"5"')))
    assert [it[1:] for it in job(store)["podsets"]] == [(1, 1), (5, 5), (5, 5)]
    plain = text.replace("segment-topology-required-placement: rack", "x: y")
    update(store, read(plain))
    assert job(store)["podsets"] == [("master", 1, 1), ("worker", 10, 10)]


# -- LeaderWorkerSet ----------------------------------------------------------------------------


def serving(size, *, policy=None, **rest):
    """All that the controllers make of one group of a LeaderWorkerSet in segments of two."""
    said = {**NOTES, f"{KAI}segment-size": "2"}
    template = {
        "size": size,
        "workerTemplate": {"metadata": {"annotations": said}},
        "subGroupPolicy": {} if policy is None else {"subGroupPolicyType": policy},
    }
    return leader_worker_set(size, 1, leaderWorkerTemplate=template, **rest)


@pytest.mark.parametrize(
    ("size", "policy", "podsets"),
    [
        (5, None, [("workers/0", 3, 3), ("workers/1", 2, 2)]),
        (4, "LeaderWorker", [("workers/0", 2, 2), ("workers/1", 2, 2)]),
        (5, "LeaderExcluded", [("leader", 1, 1), ("workers/0", 2, 2), ("workers/1", 2, 2)]),
    ],
)
def test_a_group_of_a_leader_worker_set_is_in_segments(size, policy, podsets):
    store = store_of(*serving(size, policy=policy))
    assert job(store)["podsets"] == podsets
    parts = [name for name, _, _ in podsets if name != "leader"]
    assert constraints(store) == dict.fromkeys(parts, IN_A_RACK)


def test_a_group_keeps_its_segments_while_its_set_is_changed():
    """The pods of the old size say it: the set is larger already."""
    old = serving(5)
    store = store_of(serving(9)[0], *old[1:])
    assert job(store)["podsets"] == [("workers/0", 3, 3), ("workers/1", 2, 2)]


def test_a_pod_that_says_an_absurd_size_is_refused_at_once():
    notes = {f"{LWS}size": str(2**31 - 1)}
    pods = [
        replace(it, metadata=replace(it.metadata, annotations=notes)) if isinstance(it, Pod) else it
        for it in serving(5)
    ]
    store = store_of(*pods)
    told = "2147483647 pods are 1073741823 segments of 2; write a larger size: 10000 are the most"
    assert store.problems()[0].text == told


def test_a_pod_that_says_no_size_hears_which_of_its_keys_place_it():
    *rest, last = serving(5)
    notes = {f"{LWS}size": "five"}
    store = store_of(*rest, replace(last, metadata=replace(last.metadata, annotations=notes)))
    [told] = [it.text for it in store.problems()]
    assert f"names no subgroup ({LWS}worker-index, {LWS}size), but its job has: workers/0" in told


def test_a_leader_that_starts_alone_draws_its_segment_into_its_rack():
    objects = serving(3, startupPolicy="LeaderReady")
    store = store_of(*racks(a=1, b=4), *objects[:3])
    assert job(store)["podsets"] == [("default", 1, 1)]
    running = owned(
        "serve-0",
        ("StatefulSet", "serve", "uid-set"),
        labels=group_labels(0, 0),
        annotations={f"{LWS}size": "3"},
        where="b",
        phase="Running",
    )
    for obj in (running, *objects[3:]):
        update(store, obj)
    update(store, node("n0"), is_gone=True)
    assert job(store)["podsets"] == [("workers/0", 3, 2)]
    assert by_node(cycle(store)[0]) == {"b": 2}


# -- JobSet -------------------------------------------------------------------------------------


JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: s, namespace: ns, uid: uid-s, annotations: {OWN}}
spec:
  replicatedJobs:
    - name: lead
      template: {spec: {parallelism: 1}}
    - name: work
      replicas: 2
      template:
        metadata:
          annotations: {kai.scheduler/topology: dc, kai.scheduler/topology-required-placement: rack}
        spec: {parallelism: 3}
"""
OWN = "kai.scheduler/topology: dc, kai.scheduler/topology-required-placement: zone"


def job_set(own=""):
    """A JobSet of a leader and two jobs of three pods, each of these jobs in one rack."""
    found = [read(JOBSET.replace("OWN", own))]
    notes = {f"{KAI}topology": "dc", f"{KAI}topology-required-placement": "rack"}
    for part, index, pods in (("lead", 0, 1), ("work", 0, 3), ("work", 1, 3)):
        made = f"s-{part}-{index}"
        found.append(owner("Job", made, by=("JobSet", "s"), annotations=notes))
        labels = {f"{SET}replicatedjob-name": part, f"{SET}job-index": str(index)}
        found += [owned(f"{made}-{at}", ("Job", made), labels=labels) for at in range(pods)]
    return found


def test_each_job_of_a_replicated_job_is_in_a_rack_and_not_the_whole_set():
    store = store_of(*racks(a=3, b=3, c=1), *job_set())
    assert constraints(store) == dict.fromkeys(["work/0", "work/1"], IN_A_RACK)
    update(store, node("n0"), is_gone=True)
    binds, _, _ = cycle(store)
    assert by_node(binds, "s-work-0") in ({"a": 3}, {"b": 3})
    assert len(binds) == 7


def test_what_the_set_asks_for_itself_is_about_all_of_it():
    store = store_of(*job_set(OWN))
    assert constraints(store) == {
        "": TopologyConstraint("dc", "zone"),
        "work/0": IN_A_RACK,
        "work/1": IN_A_RACK,
    }


def test_a_set_of_one_job_is_in_a_rack_of_the_zone_that_it_asks_for():
    text = JOBSET.replace("OWN", OWN).replace("replicas: 2", "replicas: 1")
    text = text.replace("    - name: lead\n      template: {spec: {parallelism: 1}}\n", "")
    labels = {f"{SET}replicatedjob-name": "work", f"{SET}job-index": "0"}
    pods = [owned(f"p{at}", ("Job", "j"), labels=labels) for at in range(3)]
    store = store_of(*racks(a=2, b=3), read(text), owner("Job", "j", by=("JobSet", "s")), *pods)
    (root,) = store.snapshot().jobs.structure.values()
    assert root.topology == TopologyConstraint("dc", "zone")
    assert [it.topology for it in root.children] == [IN_A_RACK]
    assert by_node(cycle(store)[0]) == {"b": 3}


# -- RayCluster ---------------------------------------------------------------------------------


RAY = """
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: r, namespace: ns, uid: uid-r}
spec:
  headGroupSpec:
    template: {metadata: {annotations: {kai.scheduler/topology: dc}}}
  workerGroupSpecs:
    - groupName: small
      minReplicas: 1
    - groupName: large
      minReplicas: 2
      numOfHosts: 2
      template:
        metadata:
          annotations: {kai.scheduler/topology: dc, kai.scheduler/topology-required-placement: rack}
    - groupName: paused
      minReplicas: 3
      suspend: true
"""


def ray():
    pods = {"headgroup": 1, "small": 1, "large": 4}
    return [read(RAY)] + [
        owned(f"{name}-{at}", ("RayCluster", "r"), labels={"ray.io/group": name})
        for name, count in pods.items()
        for at in range(count)
    ]


def test_a_group_of_a_ray_cluster_is_in_one_rack():
    store = store_of(*racks(a=3, b=4), *ray())
    assert job(store)["podsets"] == [
        ("headgroup", 1, 1),
        ("small", 1, 1),
        ("large", 4, 4),
        ("paused", 0, 0),
    ]
    assert constraints(store) == {"large": IN_A_RACK}
    update(store, node("n0"), is_gone=True)
    binds, _, _ = cycle(store)
    assert by_node(binds, "large") == {"b": 4}
    assert len(binds) == 6


# -- Who else asks for segments -----------------------------------------------------------------


def test_pods_of_a_pod_group_go_where_the_group_says():
    """Its subgroups are the segments already: so KAI-Scheduler's pod grouper writes them."""
    pod = owned("p", annotations={"pod-group-name": "g", **NOTES})
    store = store_of(group("g", minMember=1), pod)
    assert job(store)["refusal"] == Refusal.NONE
    assert store.problems() == []


def test_a_worker_of_another_kind_that_requires_a_level_for_segments_is_refused():
    master = owned("m0", ("TFJob", "t"))
    worker = owned("w0", ("TFJob", "t"), annotations=NOTES)
    store = store_of(owner("TFJob", "t", spec={}), master, worker)
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    (problem,) = store.problems()
    assert "segments are formed only of workers of PyTorchJobs" in problem.text


# -- Grove --------------------------------------------------------------------------------------


PODGANG = """
apiVersion: scheduler.grove.io/v1alpha1
kind: PodGang
metadata:
  name: serve-0
  namespace: ns
  uid: uid-serve-0
  labels: {kai.scheduler/queue: b}
  annotations: {grove.io/topology-name: dc}
spec:
  priorityClassName: train
  topologyConstraint: {packConstraint: {required: zone}}
  topologyConstraintGroupConfigs:
    - name: serve-0-model
      podGroupNames: [serve-0-prefill, serve-0-decode]
      topologyConstraint: {packConstraint: {required: rack}}
  podgroups:
    - name: serve-0-router
      minReplicas: 1
    - name: serve-0-prefill
      minReplicas: 2
      topologyConstraint: {packConstraint: {required: host}}
    - name: serve-0-decode
      minReplicas: 2
"""


def of_grove():
    """The pods of a gang; they are owned by PodCliques, which nobody reads."""
    reference = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "name": "c",
        "uid": "uid-c",
        "controller": True,
    }
    for name, count in (("router", 1), ("prefill", 2), ("decode", 2)):
        labels = {"grove.io/podgang": "serve-0", "grove.io/podclique": f"serve-0-{name}"}
        for at in range(count):
            pod = owned(f"{name}-{at}", labels=labels)
            yield replace(
                pod,
                metadata=replace(
                    pod.metadata, owner_references=[msgspec.convert(reference, OwnerReference)]
                ),
            )


def test_the_pods_of_a_pod_gang_are_one_job_with_levels_at_three_heights():
    store = store_of(*racks(a=3, b=4, c=1), read(PODGANG), *of_grove())
    found = job(store)
    assert (found["queue"], found["priority"], found["refusal"]) == ("b", 50, Refusal.NONE)
    assert sorted(found["podsets"]) == [
        ("serve-0-decode", 2, 2),
        ("serve-0-prefill", 2, 2),
        ("serve-0-router", 1, 1),
    ]
    assert constraints(store) == {
        "": TopologyConstraint("dc", "zone"),
        "serve-0-model": IN_A_RACK,
        "serve-0-prefill": TopologyConstraint("dc", "host"),
    }
    update(store, node("n0"), is_gone=True)
    binds, _, _ = cycle(store)
    assert len(binds) == 5
    assert by_node(binds, "prefill") == by_node(binds, "decode") == {"b": 2}


def test_pods_of_a_gang_wait_until_it_is_there():
    store = store_of(*of_grove())
    (name,) = {it.name for it in store.problems()}
    assert name == "ns/pg-serve-0-scheduler.grove.io"
    assert store.problems()[0].text == (
        "metadata.labels['grove.io/podgang']: PodGang ns/serve-0 of scheduler.grove.io does not"
        " exist, or is not read; make it, or see kaisched doctor"
    )
    update(store, read(PODGANG))
    assert len(job(store, "ns/pg-serve-0-uid-serve-0")["podsets"]) == 3
    assert store.problems() == []
    update(store, read(PODGANG), is_gone=True)
    assert len(store.problems()) == 1


def test_a_pod_of_no_group_of_its_gang_is_refused():
    (first, *_) = of_grove()
    first.metadata.labels["grove.io/podclique"] = "other"
    store = store_of(read(PODGANG), first)
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert "names subgroup 'other' (grove.io/podclique)" in store.problems()[0].text


def test_a_pod_group_that_a_pod_names_comes_before_its_gang():
    (first, *_) = of_grove()
    first.metadata.annotations["pod-group-name"] = "g"
    store = store_of(read(PODGANG), group("g", minMember=1), first)
    assert job(store)["refusal"] == Refusal.NONE
    assert job(store)["queue"] == "a"


@pytest.mark.parametrize(
    "made",
    [pytorch, lambda: serving(5), job_set, ray, lambda: [read(PODGANG), *of_grove()]],
    ids=["PyTorchJob", "LeaderWorkerSet", "JobSet", "RayCluster", "PodGang"],
)
def test_whatever_is_seen_first_the_job_is_the_same(made):
    store = store_of(*made())
    backwards = store_of(*reversed(made()))
    assert backwards.problems() == store.problems() == []
    before = content(store.snapshot())
    assert content(backwards.snapshot()) == before
    owners = [obj for obj in made() if isinstance(obj, PartialObject)]
    for obj in owners:
        update(store, obj, is_gone=True)
    for obj in owners:
        update(store, obj)
    assert content(store.snapshot()) == before
