"""Whose queue counts where admission asks who may use it: nobody gets another's by a detour.

Admission checks the labels of pods, owners and groups when they are written, and the templates of
built-in kinds. An operator may use every queue, so that its pods may have any label.
"""

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.members import OWNER_WAIT_S
from kaisched.cluster.store import update
from kaisched.core.refusals import Refusal
from kaisched.engine.planning import open_cluster
from kaisched.engine.policy import build_policy
from kaisched.objects.gangs import WORKLOADS, gang_api_row
from kaisched.objects.shard import SchedulingShard
from tests.contract.clusters import group, make, node, pod, queue
from tests.unit.cluster.test_grouping_table import VOLCANO, owned, owner
from tests.unit.cluster.test_groups import job, jobs, store_of
from tests.unit.cluster.test_unsettled import WAITS, states

QUEUE = "kai.scheduler/queue"
INDEX = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
A, B = {QUEUE: "a"}, {QUEUE: "b"}
BUILT_IN = ("Job", "CronJob", "ReplicaSet", "Deployment", "StatefulSet")
ROWS = [
    row
    for row in (*WORKLOADS, gang_api_row({"v1beta1"}))
    if row.kind not in ("PodGroup", "PodGang")
]
KINDS = [VOLCANO if row.api_group == "batch.volcano.sh" else row.kind for row in ROWS]
OPERATORS = [kind for kind in KINDS if kind not in BUILT_IN]
NO_QUEUE = {QUEUE: ""}


def checking(*objects):
    return store_of(*objects, checks_queues=True)


def alone(store, name="p"):
    """The job of a pod that is at odds with its owner or group: its own queue, and refused."""
    found = job(store, f"ns/pg-{name}-uid-{name}")
    assert found["refusal"] == Refusal.INVALID_GROUP
    return found["queue"], store.members.fault_of(f"ns/pg-{name}-uid-{name}")


def is_fine(store, name="p"):
    (found,) = [job(store, key) for key, pods in jobs(store).items() if name in pods]
    return found["queue"] if found["refusal"] == Refusal.NONE else ""


@pytest.mark.fault("H113")
@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_of_another_queue_does_not_lend_its_queue(kind):
    """The pod is the attacker's: it refers to an owner with another team's label."""
    store = checking(owner(kind, "w", labels=A), owned("p", (kind, "w"), labels=B))
    own, fault = alone(store)
    assert own == "b"
    short = kind.partition(" ")[0]
    assert fault.startswith(f"{short} w names queue 'a', and the pod 'b'; put one queue into")


@pytest.mark.fault("H113")
@pytest.mark.parametrize("kind", OPERATORS)
def test_the_template_of_an_operator_s_kind_names_no_queue(kind):
    """Its pods come from the operator, who may use every queue: the object itself has to say it."""
    store = checking(owner(kind, "w"), owned("p", (kind, "w"), labels={**INDEX, **B}))
    short = kind.partition(" ")[0]
    assert alone(store)[1].startswith(f"{short} w has no label kai.scheduler/queue; ")
    update(store, owner(kind, "w", labels=B))
    assert is_fine(store) == "b"


@pytest.mark.parametrize("kind", BUILT_IN)
def test_the_template_of_a_built_in_kind_may(kind):
    store = checking(owner(kind, "w"), owned("p", (kind, "w"), labels=B))
    assert is_fine(store) == "b"


@pytest.mark.parametrize("kind", KINDS)
def test_the_label_of_the_owner_alone_is_enough(kind):
    labels = {**INDEX, **NO_QUEUE}
    store = checking(owner(kind, "w", labels=B), owned("p", (kind, "w"), labels=labels))
    assert is_fine(store) == "b"


def test_what_is_made_in_between_names_the_same_queue():
    """A JobSet of queue a, whose Job is made from a template with queue b."""
    chain = [owner("JobSet", "s", labels=A), owner("Job", "j", by=("JobSet", "s"), labels=B)]
    store = checking(*chain, owned("p", ("Job", "j"), labels=NO_QUEUE))
    assert "JobSet s names queue 'a', and Job j 'b'" in alone(store)[1]
    unlabelled = [owner("JobSet", "s"), owner("Job", "j", by=("JobSet", "s"), labels=B)]
    store = checking(*unlabelled, owned("p", ("Job", "j"), labels=NO_QUEUE))
    assert "JobSet s has no label" in alone(store)[1]


def test_a_pod_group_is_joined_by_pods_of_its_queue_only():
    """Also by way of a template: who writes that into another queue needs the right to it."""
    note = {"pod-group-name": "g"}
    store = checking(
        group("g", "a"),
        owned("p", labels=B, annotations=note),
        owned("q", labels=NO_QUEUE, annotations=note),
        owned("r", labels=A, annotations=note),
    )
    assert alone(store) == ("b", alone(store)[1])
    assert "its group names queue 'a', and the pod 'b'" in alone(store)[1]
    assert (
        "the pod has no label kai.scheduler/queue, and its group has queue 'a'"
        in alone(store, "q")[1]
    )
    assert is_fine(store, "r") == "a"
    assert jobs(store)["ns/g"] == ["r"]
    update(store, group("g", "b"))
    assert is_fine(store) == "b"
    assert alone(store, "r")[0] == "a"


def test_the_operator_s_pods_join_no_group_that_their_owner_does_not_name():
    """PyTorchJob without a label, template with the label and the group of the other team."""
    note = {"pod-group-name": "g"}
    parts = [group("g", "a"), owned("p", ("PyTorchJob", "t"), labels=A, annotations=note)]
    store = checking(*parts, owner("PyTorchJob", "t"))
    assert "PyTorchJob t has no label" in alone(store)[1]
    store = checking(*parts)  # it is not read yet
    store.let_go(100.0)
    assert states(store) == {"p": WAITS}
    update(store, owner("PyTorchJob", "t", labels=A))
    assert is_fine(store) == "a"


@pytest.mark.parametrize("policy", [{"gang": {"minCount": 1}}, {"basic": {}}])
def test_a_group_of_kubernetes_is_joined_by_pods_of_its_queue_only(policy):
    def asks(name, labels):
        return owned(name, labels=labels, spec={"schedulingGroup": {"podGroupName": "g"}})

    store = checking(
        owner("PodGroup", "g", labels=A, spec={"schedulingPolicy": policy}),
        asks("p", B),
        asks("q", NO_QUEUE),
        asks("r", A),
    )
    assert "its group names queue 'a', and the pod 'b'" in alone(store)[1]
    assert "the pod has no label" in alone(store, "q")[1]
    assert is_fine(store, "r") == "a"


def test_a_pod_gang_is_joined_by_pods_of_its_queue_only():
    spec = {"podgroups": [{"name": "x", "minReplicas": 1}]}
    gang = {"grove.io/podgang": "g", "grove.io/podclique": "x"}
    store = checking(
        owner("PodGang", "g", labels=A, spec=spec),
        owned("p", labels={**gang, **B}),
        owned("r", labels={**gang, **A}),
    )
    assert "its group names queue 'a', and the pod 'b'" in alone(store)[1]
    assert is_fine(store, "r") == "a"


def test_pods_of_one_owner_and_two_queues_are_two_jobs():
    """Nobody's pod speaks for those of others, and is counted in their queue."""
    store = checking(
        owner("Job", "j"),
        owned("p", ("Job", "j"), labels=A),
        owned("q", ("Job", "j"), labels=B),
        owned("r", ("Job", "j"), labels=B),
    )
    assert jobs(store) == {"ns/pg-j-uid-j-a": ["p"], "ns/pg-j-uid-j-b": ["q", "r"]}
    spark = {"spark-app-selector": "s", "spark-role": "driver"}
    store = checking(owned("p", labels={**spark, **A}), owned("q", labels={**spark, **B}))
    assert jobs(store) == {"ns/pg-spark-app-s-a": ["p"], "ns/pg-spark-app-s-b": ["q"]}


def test_the_older_label_names_no_queue():
    """Admission does not look at it: it is a word that others use too."""
    old = {"project": "a"}
    store = checking(owned("p", labels={**old, QUEUE: "b"}))
    assert is_fine(store) == "b"
    bare = pod("q", uid="uid-q", labels=old)
    del bare.metadata.labels[QUEUE]
    store = checking(bare)
    assert "queue 'a' is named by an older label only" in alone(store, "q")[1]


def test_a_pod_waits_for_its_owner_without_end():
    """The owner says which queue counts; without it any would do."""
    store = checking(owned("p", ("PyTorchJob", "t"), labels=B))
    for at_s in (100.0, 100.0 + OWNER_WAIT_S, 1e9):
        store.let_go(at_s)
        assert states(store) == {"p": WAITS}


def test_it_is_off_unless_the_shard_says_so():
    """Then a queue is whoever's label comes first, the outermost owner's, as in KAI-Scheduler."""
    parts = [owner("PyTorchJob", "t", labels=A), owned("p", ("PyTorchJob", "t"), labels=B)]
    assert is_fine(store_of(*parts)) == "a"
    for spec, wanted in (({}, "a"), ({"queueUsePolicy": True}, "b")):
        shard = make(SchedulingShard, "s", spec=spec)
        store = open_cluster(shard, build_policy(shard)[0], ManualClock()).store
        for it in (node("n0"), queue("a"), queue("b"), *parts):
            update(store, it)
        assert [job(store, name)["queue"] for name in jobs(store)] == [wanted]
