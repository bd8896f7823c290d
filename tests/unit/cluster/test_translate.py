"""What becomes of each object: units, defaults, states, and one form for equal demands."""

from fractions import Fraction

import pytest
from msgspec import convert

from kaisched.cluster.nodes import node_row
from kaisched.cluster.pods import Ours, constraints_of, pod_row, state_of, unsupported_demand
from kaisched.cluster.queues import queue_row
from kaisched.cluster.store import StateStore
from kaisched.core.axis import TaskState
from kaisched.core.constraints import NO_PREFERENCES, Requirement, Taint, Toleration
from kaisched.core.tables import Sharing
from kaisched.objects.queue import Queue
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.units import MEBIBYTE, MEGABYTE, UNLIMITED
from tests.contract.clusters import make, node, pod

OURS = Ours(frozenset({"kaisched"}), "", GPU_RESOURCES)


def row_of_queue(**resources):
    return queue_row(make(Queue, "q", spec={"resources": resources}))


def test_gpus_left_out_are_owed_nothing_and_cpu_and_memory_left_out_are_not_managed():
    row = row_of_queue()
    assert (row.quota, row.limit, row.weight) == ({"gpu": 0}, {"gpu": UNLIMITED}, {"gpu": 1.0})


def test_a_resource_that_is_named_is_managed():
    row = row_of_queue(cpu={"limit": 1500}, gpu={"quota": 1.5, "overQuotaWeight": 2})
    assert (row.quota["cpu"], row.limit["cpu"], row.weight["cpu"]) == (0, 1500, 1.0)
    assert (row.quota["gpu"], row.limit["gpu"], row.weight["gpu"]) == (1500, UNLIMITED, 2.0)


@pytest.mark.parametrize(
    ("megabytes", "units"),
    [
        (1048.576, 1000 * MEBIBYTE),
        (1, MEGABYTE),
        (1000, 1000 * MEGABYTE),
        (0.0001, 1),
        (-1, UNLIMITED),
    ],
)
def test_memory_of_queues_is_in_megabytes_and_exact_to_64_bytes(megabytes, units):
    assert row_of_queue(memory={"quota": megabytes}).quota["memory"] == units


def test_pod_slots_and_other_resources():
    row = row_of_queue(pods={"limit": 5}, **{"x.io/y": {"quota": 3}})
    assert "pods" not in row.limit
    assert (row.quota["x.io/y"], row.limit["x.io/y"]) == (3, UNLIMITED)


def test_runtimes_and_parent():
    spec = {"parentQueue": "top", "preemptMinRuntime": "90s", "priority": 7}
    row = queue_row(make(Queue, "q", spec=spec))
    assert (row.parent, row.priority, row.created_s) == ("top", 7, 1767225600.0)
    assert (row.preempt_min_runtime_s, row.reclaim_min_runtime_s) == (90.0, -1.0)


def test_a_node_in_base_units():
    row = node_row(node("n", 8), GPU_RESOURCES)
    assert row.allocatable["gpu"] == 8000
    assert row.allocatable["cpu"] == 64_000
    assert row.allocatable["memory"] == 512 * 1024 * MEBIBYTE
    assert row.is_ready


@pytest.mark.parametrize(
    ("conditions", "is_ready", "has_pressure"),
    [
        ({}, True, False),
        ({"Ready": "True"}, True, False),
        ({"Ready": "Unknown"}, False, False),
        ({"Ready": "True", "DiskPressure": "True"}, True, True),
        ({"MemoryPressure": "False"}, True, False),
    ],
)
def test_conditions_of_a_node(conditions, is_ready, has_pressure):
    listed = [{"type": kind, "status": status} for kind, status in conditions.items()]
    row = node_row(node("n", status={"conditions": listed}), GPU_RESOURCES)
    assert (row.is_ready, row.has_pressure) == (is_ready, has_pressure)


def test_taints_and_cordon():
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    row = node_row(node("n", spec={"unschedulable": True, "taints": [taint]}), GPU_RESOURCES)
    assert row.is_unschedulable
    assert row.taints == (Taint("k", "v", "NoSchedule"),)


DELETED = {"deletionTimestamp": "2026-01-02T00:00:00Z"}
GATED = {"schedulingGates": [{"name": "g"}]}


@pytest.mark.parametrize(
    ("what", "state"),
    [
        ({}, TaskState.PENDING),
        ({"spec": GATED}, TaskState.GATED),
        ({"where": "n"}, TaskState.BOUND),
        ({"where": "n", "phase": "Running"}, TaskState.RUNNING),
        ({"where": "n", "phase": "Running", "metadata": DELETED}, TaskState.RELEASING),
        ({"metadata": DELETED}, TaskState.GONE),
        ({"where": "n", "phase": "Succeeded"}, TaskState.GONE),
        ({"where": "n", "phase": "Failed", "metadata": DELETED}, TaskState.GONE),
    ],
)
def test_where_a_pod_is_in_its_life(what, state):
    assert state_of(pod("p", **what)) == state


def test_a_pod_that_makes_no_sense_asks_for_nothing_and_says_why():
    row = pod_row(pod("p", gpus="1.5"), OURS)
    assert row.request == {}
    assert "whole" in row.fault


@pytest.mark.fault("D63")
@pytest.mark.parametrize("annotation", ["gpu-fraction", "gpu-memory"])
def test_shared_gpus_are_not_offered(annotation):
    assert annotation in pod_row(pod("p", annotations={annotation: "1"}), OURS).fault


def test_a_pod_was_placed_when_it_was_scheduled_or_else_started():
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    ]
    status = {"startTime": "1970-01-01T00:02:00Z"}
    both = pod("p", where="n", status=status | {"conditions": conditions})
    assert pod_row(both, OURS).started_s == 60
    assert pod_row(pod("p", where="n", status=status), OURS).started_s == 120


def term(*expressions):
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in expressions]}


def affinity(*terms):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_equal_demands_written_differently_are_equal():
    one = {
        "nodeSelector": {"a": "1", "b": "2"},
        "tolerations": [{"key": "x", "operator": "Exists"}, {"key": "y", "value": "v"}],
        **affinity(term(("k", "In", ["p", "q"])), term(("l", "Exists", []))),
    }
    two = {
        "nodeSelector": {"b": "2", "a": "1"},
        "tolerations": [{"key": "y", "operator": "Equal", "value": "v"}]
        + [{"key": "x", "operator": "Exists"}] * 2,
        **affinity(term(("l", "Exists", [])), term(("k", "In", ["q", "p", "q"]))),
    }
    assert constraints_of(pod("p", spec=one), OURS) == constraints_of(pod("q", spec=two), OURS)
    assert Toleration("y", "Equal", "v", "") in constraints_of(pod("p", spec=two), OURS).tolerations


def test_an_empty_node_term_matches_nothing():
    assert constraints_of(pod("p"), OURS).node_terms is None
    assert constraints_of(pod("p", spec=affinity({})), OURS).node_terms == ()
    one = constraints_of(pod("p", spec=affinity({}, term(("k", "Exists", [])))), OURS)
    assert one.node_terms == (((Requirement("k", "Exists"),), ()),)


def test_host_ports():
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82, "protocol": "UDP"}]
    spec = {"containers": [{"ports": ports}]}
    assert constraints_of(pod("p", spec=spec), OURS).host_ports == (("UDP", "0.0.0.0", 82),)
    own = constraints_of(pod("p", spec=spec | {"hostNetwork": True}), OURS).host_ports
    assert own == (("TCP", "0.0.0.0", 80), ("UDP", "0.0.0.0", 82))


def near(**changes):
    one = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}} | changes
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [one]}
    return pod("p", spec={"affinity": {"podAntiAffinity": required}})


def test_pod_terms():
    (one,) = constraints_of(near(), OURS).pod_anti_affinity
    assert (one.topology_key, one.namespaces, one.all_namespaces) == ("zone", ("ns",), False)
    assert one.selector == (Requirement("app", "In", ("x",)),)
    (one,) = constraints_of(near(namespaces=["b", "a"]), OURS).pod_anti_affinity
    assert one.namespaces == ("a", "b")
    (one,) = constraints_of(near(namespaceSelector={}), OURS).pod_anti_affinity
    assert one.all_namespaces
    (one,) = constraints_of(near(labelSelector=None), OURS).pod_anti_affinity
    assert one.match_none
    assert not unsupported_demand(near())
    assert unsupported_demand(near(namespaceSelector={"matchLabels": {"team": "x"}}))


def spread(labels=None, **changes):
    one = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    } | changes
    spec = {"topologySpreadConstraints": [one]}
    return pod("p", labels=labels or {}, spec=spec)


def test_spread_constraints():
    (one,) = constraints_of(spread(), OURS).spread
    assert (one.pods.topology_key, one.pods.namespaces) == ("zone", ("ns",))
    assert one.pods.selector == (Requirement("app", "In", ("x",)),)
    assert one[1:] == (2, 1, True, False)
    asks = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    (one,) = constraints_of(spread(**asks), OURS).spread
    assert one[1:] == (2, 3, False, True)
    (one,) = constraints_of(spread({"rev": "1"}, matchLabelKeys=["rev", "none"]), OURS).spread
    assert one.pods.selector == (
        Requirement("app", "In", ("x",)),
        Requirement("rev", "In", ("1",)),
    )
    # kube-scheduler counts no pod by an empty selector, whatever its reference says.
    for asks in ({"labelSelector": None}, {"labelSelector": {}}, {"matchLabelKeys": ["none"]}):
        (one,) = constraints_of(spread(**{"labelSelector": {}} | asks), OURS).spread
        assert one.pods.match_none
    keyed = spread({"rev": "1"}, labelSelector={}, matchLabelKeys=["rev"])
    (one,) = constraints_of(keyed, OURS).spread
    assert one.pods.selector == (Requirement("rev", "In", ("1",)),)
    assert not one.pods.match_none
    assert constraints_of(spread(whenUnsatisfiable="ScheduleAnyway"), OURS).spread == ()
    many = pod("p", spec={"topologySpreadConstraints": [{"topologyKey": "zone"}] * 101})
    assert unsupported_demand(many)
    assert not unsupported_demand(spread())


def prefers(labels=None, name="p", near=(), away=(), nodes=()):
    """A pod that prefers pods with the label app=x near, or away; by zones, with these weights."""
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
    soft = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity = {
        kind: {soft: [{"weight": it, "podAffinityTerm": term} for it in weights]}
        for kind, weights in (("podAffinity", near), ("podAntiAffinity", away))
    }
    affinity["nodeAffinity"] = {soft: [*nodes]}
    return pod(name, labels=labels or {}, spec={"affinity": affinity})


def test_what_a_pod_prefers():
    plain = constraints_of(pod("p"), OURS)
    assert constraints_of(prefers(), OURS) == plain
    assert plain.preferences is NO_PREFERENCES
    ((weight, one),) = constraints_of(prefers(near=[3]), OURS).preferences.pods
    assert (weight, one.topology_key, one.namespaces) == (3, "zone", ("ns",))
    # Equal terms are one, with the sum of their weights, which may be none.
    assert constraints_of(prefers(near=[3, 4]), OURS).preferences.pods == ((7, one),)
    assert constraints_of(prefers(near=[3], away=[5]), OURS).preferences.pods == ((-2, one),)
    assert constraints_of(prefers(near=[5], away=[5]), OURS).preferences.pods == ()
    at = {"key": "zone", "operator": "Exists"}
    nodes = [
        {"weight": 9, "preference": {"matchExpressions": [at]}},
        {"weight": 9, "preference": {}},
    ]
    ((weight, term),) = constraints_of(prefers(nodes=nodes), OURS).preferences.nodes
    assert (weight, term) == (9, ((Requirement("zone", "Exists"),), ()))
    anyway = spread(whenUnsatisfiable="ScheduleAnyway")
    assert constraints_of(anyway, OURS).preferences.spread == constraints_of(spread(), OURS).spread


def test_pods_that_prefer_the_same_are_of_one_class_whatever_their_labels():
    store = StateStore()
    for name in "abc":
        store.upsert_pod(prefers({"job": name}, name, near=[1]))
    shapes = store.snapshot().tasks.shape_of_task.tolist()
    assert len(shapes) == 3
    assert len(set(shapes)) == 1


def test_the_builders_of_these_tests_are_strict():
    with pytest.raises(Exception, match="unknown field"):
        convert({"metadata": {"name": "q"}, "spec": {"quota": 1}}, Queue)


@pytest.mark.fault("I123")
def test_more_labels_than_anybody_has_are_not_kept_and_keep_the_pod_waiting():
    plain = pod("p", labels={f"k{at}": "v" for at in range(999)})
    assert (len(plain.metadata.labels), unsupported_demand(plain)) == (1000, "")
    bomb = pod("p", labels={f"k{at:04}": "v" for at in range(9000)})
    assert len(bomb.metadata.labels) == 1001
    fault = pod_row(bomb, OURS).fault
    assert fault == "metadata.labels: there are more than 1,000; remove some"


@pytest.mark.fault("I123")
@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (
            affinity(*[term(("k", "In", [f"v{at}"])) for at in range(1001)]),
            "1,001 requirements on nodes are more than 1,000",
        ),
        (
            affinity(term(("k", "In", [f"v{at}" for at in range(20_001)]))),
            "20,001 values in requirements on nodes are more than 20,000",
        ),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": f"k{at}"} for at in range(1001)
                        ]
                    }
                }
            },
            "1,001 terms on pods are more than 1,000",
        ),
    ],
)
def test_demands_that_are_too_many_are_not_judged_and_keep_the_pod_waiting(asked, fault):
    one = pod("p", spec=asked)
    assert constraints_of(one, OURS) == constraints_of(pod("p"), OURS)
    assert pod_row(one, OURS).fault == f"spec.affinity: {fault}; ask for less"


def test_a_queue_says_what_it_lends_and_from_whom_it_takes():
    gpu = {"quota": 2, "borrowingLimit": 1.5, "lendingLimit": 0}
    row = queue_row(
        make(
            Queue,
            "q",
            spec={
                "resources": {"gpu": gpu, "cpu": {"quota": 1000}},
                "fairSharing": {"weight": "0.3", "enabled": False},
                "preemption": {
                    "withinClusterQueue": "Never",
                    "reclaimWithinCohort": "LowerPriority",
                    "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 7},
                },
                "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
            },
        )
    )
    assert row.borrowing_limit == {"gpu": 1500, "cpu": UNLIMITED}
    assert row.lending_limit == {"gpu": 0, "cpu": UNLIMITED}
    assert row.sharing == Sharing(
        Fraction(3, 10),
        False,
        "Never",
        "LowerPriority",
        borrowing="LowerPriority",
        borrowing_up_to=7,
        is_by_usage=True,
    )
    plain = queue_row(make(Queue, "q", spec={"resources": {}}))
    assert plain.sharing == Sharing(Fraction(1), True, "LowerPriority", "Any")
