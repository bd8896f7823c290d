"""Which pods are one job, whose queue and priority count, and what makes a job refused."""

import numpy as np
import pytest
from msgspec.structs import replace

from kaisched.cluster.store import StateStore, update
from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.objects.wire import WORKLOAD_TYPES, ObjectMeta, OwnerReference, TopologyConstraint
from kaisched.objects.workloads import (
    Deployment,
    Job,
    PartialObject,
    PriorityClass,
    ReplicaSet,
)
from tests.contract.clusters import group, make, node, pod, queue


def store_of(*objects, **options):
    store = StateStore(**options)
    for obj in (node("n0"), queue("a"), queue("b"), *objects):
        update(store, obj)
    return store


def jobs(store):
    s = store.snapshot()
    found = {}
    for job, name in enumerate(s.jobs.name):
        tasks = [s.tasks.name[task] for task in s.jobs.tasks[job] if s.tasks.state[task] != 8]
        if tasks:
            found[name] = sorted(name.removeprefix("ns/") for name in tasks)
    return found


def job(store, name=None):
    """One job's row as a dict; the only one unless named."""
    s = store.snapshot()
    at = s.jobs.name[:].index(name) if name else 0
    assert name or len(s.jobs.name) == 1
    first, count = int(s.jobs.first_podset[at]), int(s.jobs.podset_count[at])
    return {
        "queue": s.queues.name[s.jobs.queue_of_job[at]] if s.jobs.queue_of_job[at] >= 0 else "",
        "priority": int(s.jobs.priority[at]),
        "preemptible": bool(s.jobs.is_preemptible[at]),
        "minimum": int(s.podsets.minimum[first]),
        "refusal": Refusal(int(s.jobs.refusal[at])),
        "podsets": [
            (s.podsets.name[row], int(s.podsets.minimum[row]), int(s.podsets.pending[row]))
            for row in range(first, first + count)
        ],
        "tree": s.jobs.structure.get(at),
    }


def owned(name, kind, owner, uid="", api="batch/v1", **rest):
    reference = {"apiVersion": api, "kind": kind, "name": owner, "uid": uid or f"uid-{owner}"}
    return pod(name, metadata={"ownerReferences": [reference | {"controller": True}]}, **rest)


def test_the_pods_of_a_deployment_are_a_job_each_for_inference():
    owner = OwnerReference(
        api_version="apps/v1", kind="Deployment", name="d", uid="uid-d", controller=True
    )
    replicas = ReplicaSet(
        metadata=ObjectMeta(name="r", namespace="ns", uid="uid-r", owner_references=[owner])
    )
    store = store_of(
        make(Deployment, "d", uid="uid-d", labels={"kai.scheduler/queue": "b"}),
        replicas,
        owned("p", "ReplicaSet", "r", api="apps/v1", uid="uid-r"),
        owned("q", "ReplicaSet", "r", api="apps/v1", uid="uid-r"),
    )
    assert sorted(jobs(store).values()) == [["p"], ["q"]]
    found = job(store, "ns/pg-p-pod")
    assert (found["queue"], found["priority"], found["preemptible"]) == ("b", 125, False)


def test_a_run_of_a_cron_job_is_a_job_in_the_queue_of_the_cron_job():
    owner = OwnerReference(
        api_version="batch/v1", kind="CronJob", name="c", uid="uid-c", controller=True
    )
    run = Job(
        metadata=ObjectMeta(name="run", namespace="ns", uid="uid-run", owner_references=[owner])
    )
    meta = ObjectMeta(name="c", namespace="ns", uid="uid-c", labels={"kai.scheduler/queue": "b"})
    cron = PartialObject(metadata=meta, api_version="batch/v1", kind="CronJob")
    store = store_of(run, cron, owned("p", "Job", "run"))
    assert jobs(store) == {"ns/pg-run-uid-run": ["p"]}
    assert job(store)["queue"] == "b"


@pytest.mark.fault("D67")
@pytest.mark.fault("H116")
def test_nobody_joins_a_job_by_its_name_alone():
    """A stale or invented UID, another namespace, another kind: the pod stands alone."""
    store = store_of(
        make(Job, "train", uid="uid-train"),
        owned("p", "Job", "train"),
        owned("stale", "Job", "train", uid="uid-old"),
        owned("other-name", "Job", "trains", uid="uid-train"),
        owned("other-kind", "StatefulSet", "train", api="apps/v1"),
    )
    assert jobs(store)["ns/pg-train-uid-train"] == ["p"]
    assert sorted(map(len, jobs(store).values())) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("owner", "own", "queue_name"),
    [
        ({"kai.scheduler/queue": "b"}, {"kai.scheduler/queue": "a"}, "b"),
        ({}, {"kai.scheduler/queue": "b"}, "b"),
        ({"project": "a"}, {"kai.scheduler/queue": "b"}, "b"),
        ({"project": "b"}, {"project": "a"}, "b"),
        ({}, {}, "default-queue"),
    ],
)
def test_which_queue(owner, own, queue_name):
    plain = owned("p", "Job", "train")
    plain = replace(plain, metadata=replace(plain.metadata, labels=own))
    store = store_of(
        queue("default-queue"), make(Job, "train", uid="uid-train", labels=owner), plain
    )
    assert job(store)["queue"] == queue_name


TYPED = {of: {"kaisched.io/workload-type": of} for of in WORKLOAD_TYPES}


@pytest.mark.parametrize(
    ("labels", "spec", "priority", "is_preemptible"),
    [
        ({}, {}, 50, True),
        ({}, {"priority": 0}, 50, True),
        ({}, {"priority": 110}, 110, False),
        ({}, {"priorityClassName": "build"}, 100, False),
        ({}, {"priorityClassName": "unheard-of", "priority": 7}, 7, True),
        ({"priorityClassName": "own"}, {"priorityClassName": "build"}, 30, True),
        ({"kai.scheduler/preemptibility": "non-preemptible"}, {}, 100, False),
        (TYPED["interactive"], {}, 100, False),
        (TYPED["interactive"] | {"kai.scheduler/preemptibility": "preemptible"}, {}, 75, True),
        (TYPED["training"] | {"kai.scheduler/preemptibility": "non-preemptible"}, {}, 50, False),
        (TYPED["inference"], {"priority": 0}, 125, False),
        (TYPED["interactive"], {"priorityClassName": "own"}, 30, True),
        (
            {"priorityClassName": "inference", "kai.scheduler/preemptibility": "preemptible"},
            {},
            125,
            True,
        ),
    ],
)
def test_which_priority(labels, spec, priority, is_preemptible):
    store = store_of(make(PriorityClass, "own", value=30), pod("p", labels=labels, spec=spec))
    found = job(store)
    assert (found["priority"], found["preemptible"]) == (priority, is_preemptible)


def test_the_type_of_the_outermost_owner_counts_also_beside_a_global_default():
    """An API server writes the default class into every pod that names none: that is no choice."""
    common = make(PriorityClass, "common", value=10, globalDefault=True)
    plain = owned("p", "Job", "train")
    spec = replace(plain.spec, priority_class_name="common", priority=10)
    plain = replace(plain, metadata=replace(plain.metadata, labels=TYPED["training"]), spec=spec)
    kept = make(Job, "train", uid="uid-train", labels=TYPED["interactive"])
    assert job(store_of(common, kept, plain))["priority"] == 100
    spec = {"priorityClassName": "common", "priority": 10}
    assert job(store_of(common, pod("q", spec=spec)))["priority"] == 10


@pytest.mark.fault("D72")
def test_a_priority_class_may_come_late_and_change():
    store = store_of(
        group("g0", priorityClassName="own"), pod("p", annotations={"pod-group-name": "g0"})
    )
    assert job(store)["priority"] == 50
    update(store, make(PriorityClass, "own", value=300))
    assert (job(store)["priority"], job(store)["preemptible"]) == (300, False)
    update(store, make(PriorityClass, "own", value=300), is_gone=True)
    update(store, make(PriorityClass, "usual", value=60, globalDefault=True))
    assert job(store)["priority"] == 60


def test_a_pod_group_says_what_its_job_is():
    named = {"pod-group-name": "g0"}
    store = store_of(
        group("g0", "b", minMember=3, priorityClassName="build"), pod("p", annotations=named)
    )
    assert job(store) | {"podsets": 0, "tree": 0} == {
        "queue": "b",
        "priority": 100,
        "preemptible": False,
        "minimum": 3,
        "refusal": Refusal.NONE,
        "podsets": 0,
        "tree": 0,
    }


@pytest.mark.fault("D65")
@pytest.mark.fault("H116")
def test_a_pod_group_of_another_namespace_is_another():
    there = make(type(group("g0")), "g0", namespace="else", spec={"queue": "a"})
    store = store_of(there, pod("p", annotations={"pod-group-name": "g0"}))
    assert jobs(store) == {"ns/g0": ["p"]}
    assert job(store, "ns/g0")["refusal"] == Refusal.INVALID_GROUP


def test_pods_wait_for_their_pod_group():
    store = store_of(pod("p", annotations={"pod-group-name": "g0"}))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert "ns/g0 does not exist" in store.problems()[0].text
    update(store, group("g0"))
    assert job(store)["refusal"] == Refusal.NONE
    assert store.problems() == []
    store.remove_pod_group("ns/g0")
    assert job(store)["refusal"] == Refusal.INVALID_GROUP


PARTS = {
    "minSubGroup": 1,
    "subGroups": [
        {"name": "in"},
        {"name": "x", "minMember": 1, "parent": "in"},
        {"name": "y", "minMember": 2, "parent": "in"},
        {"name": "z", "minMember": 0},
    ],
}


def member(name, subgroup="", of="g0"):
    labels = {"kai.scheduler/subgroup-name": subgroup} if subgroup else {}
    return pod(name, labels=labels, annotations={"pod-group-name": of})


def test_subgroups_become_pod_sets_and_a_tree():
    store = store_of(group("g0", **PARTS), member("p", "y"), member("q", "z"))
    found = job(store)
    assert found["podsets"] == [("x", 1, 0), ("y", 2, 1), ("z", 0, 1)]
    tree = found["tree"]
    assert (tree.min_subgroup, [child.name for child in tree.children]) == (1, ["in", "z"])
    assert tree.children[0].min_subgroup == 2
    assert [child.podset for child in (*tree.children[0].children, tree.children[1])] == [0, 1, 2]


def test_a_job_may_be_divided_anew():
    store = store_of(group("g0", minMember=2), member("p"))
    assert job(store)["podsets"] == [("default", 2, 1)]
    update(store, group("g0", **PARTS))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    update(store, member("p", "y"))
    assert job(store)["refusal"] == Refusal.NONE
    assert job(store)["podsets"] == [("x", 1, 0), ("y", 2, 1), ("z", 0, 0)]
    update(store, group("g0", minMember=4))
    update(store, member("p"))
    assert (job(store)["podsets"], job(store)["tree"]) == ([("default", 4, 1)], None)


@pytest.mark.parametrize("subgroup", ["", "w"])
def test_a_pod_must_be_in_one_of_the_subgroups(subgroup):
    store = store_of(group("g0", **PARTS), member("p", "x"), member("q", subgroup))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert [problem.name for problem in store.problems()] == ["ns/q"]
    assert "x, y, z" in store.problems()[0].text
    store.remove_pod("ns/q")
    assert job(store)["refusal"] == Refusal.NONE


@pytest.mark.fault("D64")
def test_an_invalid_pod_group_refuses_its_pods():
    bad = {"subGroups": [{"name": "x", "minMember": 1, "parent": "lost"}]}
    store = store_of(group("g0", **bad), member("p", "x"))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert [(problem.kind, problem.name) for problem in store.problems()] == [("PodGroup", "ns/g0")]


def test_an_unsupported_pod_refuses_its_job():
    store = store_of(
        group("g0"),
        member("p"),
        pod("q", annotations={"pod-group-name": "g0", "gpu-fraction": "1"}),
    )
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    assert [problem.name for problem in store.problems()] == ["ns/q"]
    store.remove_pod("ns/q")
    assert job(store)["refusal"] == Refusal.NONE


def test_a_pod_left_out_of_grouping_needs_a_pod_group():
    store = store_of(pod("p", labels={"kai.scheduler/skip-podgrouper": "true"}))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP


def test_other_schedulers_pods_take_room_and_are_nobodys():
    store = store_of(
        pod("theirs", gpus=3, scheduler="default-scheduler", where="n0", phase="Running"),
        pod("waiting", gpus=3, scheduler="default-scheduler"),
    )
    s = store.snapshot()
    assert s.jobs.name == []
    assert s.tasks.name == ["ns/theirs"]
    assert (s.nodes.idle[2, 0], s.total[2]) == (5000, 5000)


def test_kais_pods_are_ours_when_configured():
    theirs = pod("p", scheduler="kai-scheduler")
    assert jobs(store_of(theirs)) == {}
    assert len(jobs(store_of(theirs, schedulers={"kaisched", "kai-scheduler"}))) == 1


def test_a_node_pool_is_a_world_of_its_own():
    labels = {"kai.scheduler/node-pool": "other"}
    objects = [
        node("m", labels=labels),
        queue("c", labels=labels),
        pod("p", "c", labels=labels, uid="1"),
        pod("q", "c", labels=labels, uid="2", where="n0"),
    ]
    here, there = store_of(*objects).snapshot(), store_of(*objects, node_pool="other").snapshot()
    assert (here.nodes.name, here.queues.name) == (("n0",), ("a", "b"))
    assert (there.nodes.name, there.queues.name) == (("m",), ("c",))
    assert there.jobs.name == ["ns/pg-p-1", "ns/pg-q-2"]
    assert here.jobs.name == []
    assert here.tasks.job_of_task.tolist() == [-1]


def test_problems_name_queues_and_nodes():
    store = store_of(queue("c", "nowhere"), queue("d", gpu=-7), node("n1", gpus="many"))
    assert [(it.kind, it.name) for it in store.problems()] == [
        ("Node", "n1"),
        ("Queue", "c"),
        ("Queue", "d"),
    ]
    assert store.snapshot().nodes.name == ("n0",)
    update(store, node("n1"))
    store.remove_queue("c")
    store.remove_queue("d")
    assert store.problems() == []


def test_what_was_sent_holds_until_it_is_seen_or_refuted():
    store = store_of(pod("p"))
    store.assume_bound("ns/p", "n0")
    update(store, pod("p"))  # an event from before the bind
    assert store.snapshot().tasks.state.tolist() == [TaskState.BINDING]
    update(store, pod("p", where="n0", phase="Running"))
    assert store.snapshot().tasks.state.tolist() == [TaskState.RUNNING]
    store.assume_evicted("ns/p")
    update(store, pod("p", where="n0", phase="Running"))
    assert store.snapshot().tasks.state.tolist() == [TaskState.RELEASING]
    store.refute("ns/p")
    assert store.snapshot().tasks.state.tolist() == [TaskState.RUNNING]
    update(store, pod("p"))
    assert store.snapshot().tasks.state.tolist() == [TaskState.PENDING]


def test_a_refuted_bind_gives_the_room_back():
    store = store_of(pod("p"))
    before = store.snapshot()
    store.assume_bound("ns/p", "n0")
    assert store.snapshot().nodes.idle[2, 0] == 7000
    store.refute("ns/p")
    assert np.array_equal(store.snapshot().nodes.idle, before.nodes.idle)


@pytest.mark.fault("A12")
def test_an_old_deletion_does_not_hit_a_new_pod():
    store = store_of(pod("p", uid="2"))
    store.remove_pod("ns/p", "1")
    assert len(jobs(store)) == 1
    store.remove_pod("ns/p", "2")
    assert jobs(store) == {}


def test_the_last_start_of_a_job():
    def running(name, at):
        return pod(name, where="n0", phase="Running", status={"startTime": at}, annotations=named)

    named = {"pod-group-name": "g0"}
    parts = [running("p", "1970-01-01T00:01:00Z"), running("q", "1970-01-01T00:03:00Z")]
    for order in (parts, parts[::-1]):
        s = store_of(group("g0"), *order).snapshot()
        assert s.jobs.last_start_s.tolist() == [60.0]


def wish_of(store):
    """Return the constraint at the root of the only job."""
    (root,) = store.snapshot().jobs.structure.values()
    return root.topology


def test_a_group_has_the_topology_constraint_that_it_names():
    constraint = {"topology": "racks", "required_topology_level": "rack"}
    wanted = group("g")
    spec = replace(wanted.spec, topology_constraint=TopologyConstraint(**constraint))
    store = store_of(replace(wanted, spec=spec), pod("p", annotations={"pod-group-name": "g"}))
    assert job(store)["refusal"] == Refusal.NONE
    assert wish_of(store)[:3] == ("racks", "rack", "")
    preferred = TopologyConstraint(topology="racks", preferred_topology_level="rack")
    update(store, replace(wanted, spec=replace(wanted.spec, topology_constraint=preferred)))
    assert wish_of(store)[:3] == ("racks", "", "rack")
    update(store, wanted)
    assert not store.snapshot().jobs.structure
    assert not store.problems()


def test_the_constraint_of_the_only_subgroup_holds_inside_that_of_the_job():
    part = {"name": "x", "minMember": 1, "topologyConstraint": level("rack")}
    store = store_of(group("g", subGroups=[part], topologyConstraint=level("zone")))
    update(store, member("p", "x"))
    (root,) = store.snapshot().jobs.structure.values()
    (inner,) = root.children
    assert (root.topology[:2], inner.topology[:2]) == (("t", "zone"), ("t", "rack"))
    assert (root.podset, inner.podset) == (-1, 0)


PATIENCE = "kaisched.io/topology-patience"
PREFERS = {
    "kai.scheduler/topology": "t",
    "kai.scheduler/topology-required-placement": "zone",
    "kai.scheduler/topology-preferred-placement": "rack",
}


def test_the_patience_of_a_job_is_that_of_its_group():
    wish = {"topology": "t", "preferredTopologyLevel": "rack"}
    patient = group("g", topologyConstraint=wish)
    patient.metadata.annotations[PATIENCE] = "5m"
    store = store_of(patient, pod("p", annotations={"pod-group-name": "g", PATIENCE: "9m"}))
    assert wish_of(store).patience_s == 300.0
    update(store, group("g", topologyConstraint=wish))
    assert wish_of(store).patience_s == 0.0


def test_without_a_group_the_outermost_owner_says_it_and_then_the_pod():
    owner = make(Job, "o", uid="uid-o", annotations={PATIENCE: "1m"})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "uid-o"}
    of_owner = {"ownerReferences": [reference | {"controller": True}]}
    mine = pod("p", annotations={**PREFERS, PATIENCE: "9m"}, metadata=of_owner)
    assert wish_of(store_of(owner, mine)).patience_s == 60.0
    assert wish_of(store_of(pod("p", annotations={**PREFERS, PATIENCE: "9m"}))).patience_s == 540.0
    kueue = {"kueue.x-k8s.io/podset-preferred-topology": "rack", PATIENCE: "2m"}
    assert wish_of(store_of(pod("p", annotations=kueue))).patience_s == 120.0


def test_patience_for_no_wish_has_no_effect():
    assert not store_of(pod("p", annotations={PATIENCE: "9m"})).snapshot().jobs.structure
    only = {**PREFERS}
    del only["kai.scheduler/topology-preferred-placement"]
    assert wish_of(store_of(pod("p", annotations={**only, PATIENCE: "9m"}))).patience_s == 0.0


@pytest.mark.parametrize("has_group", [False, True])
def test_a_patience_that_is_no_duration_is_a_fault_of_the_job(has_group):
    noted = {**PREFERS, PATIENCE: "soon"}
    if has_group:
        bad = group("g")
        bad.metadata.annotations.update(noted)
        store = store_of(bad, pod("p", annotations={"pod-group-name": "g"}))
    else:
        store = store_of(pod("p", annotations=noted))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    (problem,) = store.problems()
    assert f"metadata.annotations['{PATIENCE}']" in problem.text
    assert "'soon' is no duration" in problem.text
    assert "write" in problem.text


def level(name):
    return {"topology": "t", "requiredTopologyLevel": name}


REQUIRED = "kai.scheduler/topology-required-placement"
SEGMENT = "kai.scheduler/segment-topology-required-placement"
NOT_OFFERED = (
    "segments are formed only of workers of PyTorchJobs and of LeaderWorkerSets (value 'rack'); "
    "leave it out, or list subgroups in a PodGroup"
)


def test_a_subgroup_has_the_topology_constraint_that_it_names():
    parts = [
        {"name": "x", "minMember": 1},
        {
            "name": "y",
            "minMember": 0,
            "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"},
        },
    ]
    store = store_of(group("g0", subGroups=parts), member("p", "x"))
    assert wish_of(store) is None
    (root,) = store.snapshot().jobs.structure.values()
    first, second = (part.topology for part in root.children)
    assert (first, second[:3]) == (None, ("t", "rack", ""))
    update(store, group("g0", subGroups=parts[1:]))
    assert wish_of(store)[:3] == ("t", "rack", "")  # the only subgroup is the job


def test_the_annotations_of_a_workload_are_the_constraint_of_its_job():
    wish = {"kai.scheduler/topology": "t", REQUIRED: "rack"}
    store = store_of(pod("p", annotations=wish))
    assert wish_of(store)[:3] == ("t", "rack", "")
    owner = make(Job, "train", uid="uid-train", annotations=wish)
    inner = {"kai.scheduler/topology": "t", REQUIRED: "host"}
    store = store_of(owner, owned("p", "Job", "train", annotations=inner))
    assert wish_of(store)[:3] == ("t", "rack", "")
    update(store, make(Job, "train", uid="uid-train"))
    assert wish_of(store)[:3] == ("t", "host", "")


def test_an_annotation_that_requires_a_level_for_segments_refuses_the_job():
    key = SEGMENT
    where = f"metadata.annotations['{key}']"
    store = store_of(pod("p", annotations={key: "rack"}))
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    assert [str(it.text) for it in store.problems()] == [f"{where}: {NOT_OFFERED}"]
    owner = make(Job, "train", uid="uid-train", annotations={key: "rack"})
    store = store_of(owner, owned("p", "Job", "train"), owned("q", "Job", "train"))
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    assert [(it.name, it.text) for it in store.problems()] == [
        ("ns/pg-train-uid-train", f"{where}: {NOT_OFFERED}")
    ]
    update(store, make(Job, "train", uid="uid-train"))
    assert job(store)["refusal"] == Refusal.NONE
    assert store.problems() == []


def test_an_empty_topology_annotation_asks_for_nothing():
    assert job(store_of(pod("p", annotations={REQUIRED: ""})))["refusal"] == Refusal.NONE


# -- what is wrong, as a snapshot has it ----------------------------------------------------------


def faults(store):
    snapshot = store.snapshot()
    return {snapshot.jobs.name[job]: text for job, text in snapshot.jobs.faults.items()}


def shared(name, part):
    return pod(name, metadata={"annotations": {"gpu-fraction": part}})


def test_a_snapshot_has_what_is_wrong_with_a_job_and_later_changes_do_not_reach_it():
    store = store_of(shared("p", "1.5"), pod("q"))
    before = store.snapshot()
    (text,) = faults(store).values()
    assert "does not go with nvidia.com/gpu" in text
    update(store, shared("r", "2.5"))
    assert sorted(faults(store).values()) == [text, text.replace("1.5", "2.5")]
    update(store, shared("p", "1.5"), is_gone=True)
    assert list(faults(store).values()) == [text.replace("1.5", "2.5")]
    assert list(before.jobs.faults.values()) == [text]


def test_what_is_wrong_stays_with_its_job_when_rows_are_renumbered():
    store = store_of(*(pod(f"p{number}") for number in range(200)), shared("odd", "1.5"))
    (name,) = faults(store)
    for number in range(200):
        update(store, pod(f"p{number}"), is_gone=True)
    before = store.snapshot().generation
    update(store, pod("more"))
    assert list(faults(store)) == [name]
    assert store.snapshot().generation >= before


def test_of_several_faults_a_snapshot_has_the_one_of_the_first_pod_whatever_the_order_of_events():
    notes = {"a": {"gpu-fraction": "1.5"}, "b": {"gpu-memory": "much"}}
    pods = [
        pod(name, metadata={"annotations": {**said, "pod-group-name": "g"}})
        for name, said in notes.items()
    ]
    found = [list(faults(store_of(group("g"), *order)).values()) for order in (pods, pods[::-1])]
    assert found[0] == found[1]
    assert "gpu-fraction" in found[0][0]
