"""The topology constraint of Kubernetes' own gang API, from the objects to the nodes."""

import pytest

from kaisched import TopologyConstraint
from kaisched.cluster.store import update
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.contract.clusters import node, pod
from tests.unit.cluster.test_grouping_table import owner
from tests.unit.cluster.test_groups import job, store_of
from tests.unit.cluster.test_topologies import topology

RACK, ZONE = "example.com/rack", "example.com/zone"
BY_RACK = TopologyConstraint("", RACK, is_label=True)
KAI = "kai.scheduler/topology"


def group(key=RACK, minimum=2, **meta):
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    constraints = {"topology": [{"key": key}]}
    spec = {"schedulingPolicy": policy, "schedulingConstraints": constraints}
    return owner("PodGroup", "pair", spec=spec, **meta)


def members(count=2, **rest):
    spec = {"schedulingGroup": {"podGroupName": "pair"}}
    return [pod(f"p{at}", uid=f"uid-p{at}", spec=spec, **rest) for at in range(count)]


def labelled(name, gpus, **labels):
    keys = {"zone": ZONE, "rack": RACK}
    return node(name, gpus, labels={keys[key]: value for key, value in labels.items()})


def cycle(store, memory=None):
    """Run a cycle; return (node of each pod that is bound, message of each job that waits)."""
    result, after = run_cycle(store.snapshot(), None, default_policy(), 1e9, memory or Memory())
    binds = {it.pod.removeprefix("ns/"): it.node for it in result.binds}
    return binds, [it.message for it in result.records], after


def tree_of(store):
    (tree,) = store.snapshot().jobs.structure.values()
    return tree


@pytest.mark.parametrize("minimum", [2, 0])
def test_the_constraint_is_that_of_the_whole_job(minimum):
    """With the policy ``basic`` each pod may start by itself, but not each where it likes."""
    store = store_of(group(minimum=minimum), *members())
    assert tree_of(store).topology == BY_RACK
    assert job(store)["minimum"] == (minimum or 1)


def test_equal_values_in_two_zones_are_one_domain_if_no_topology_has_the_label():
    """One free GPU in rack r1 of each zone: for Kubernetes r1 is one rack of two."""
    nodes = [labelled("a", 1, zone="z1", rack="r1"), labelled("b", 1, zone="z2", rack="r1")]
    store = store_of(*nodes, group(), *members())
    assert cycle(store)[0] == {"p0": "a", "p1": "b"}


def test_racks_of_a_topology_in_two_zones_are_two():
    nodes = [labelled("a", 1, zone="z1", rack="r1"), labelled("b", 1, zone="z2", rack="r1")]
    store = store_of(*nodes, topology((ZONE, ""), (RACK, "rack")), group(), *members())
    binds, told, _ = cycle(store)
    assert binds == {}
    least = "no rack could hold its 2 pods together even if nothing else ran"
    assert told == [f"{least}: best is rack z1/r1, short by 1 pod"]


def test_nodes_without_the_label_are_outside():
    store = store_of(labelled("a", 2, rack="r1"), group(), *members())
    assert cycle(store)[0] == {"p0": "a", "p1": "a"}  # n0 has eight GPUs and no label
    store = store_of(group(), *members())
    binds, told, _ = cycle(store)
    assert (binds, told) == ({}, [f"no node has the label {RACK}"])


def test_the_first_topology_by_name_that_has_the_label_counts_and_no_alias_does():
    """In ``b`` both nodes are in one rack; ``a`` only calls another level by the label's name."""
    nodes = [labelled("a", 1, zone="z1", rack="r1"), labelled("b", 1, zone="z2", rack="r1")]
    other = topology(("kubernetes.io/hostname", RACK), name="a")
    store = store_of(*nodes, other, topology((RACK, ""), name="b"), group(), *members())
    assert cycle(store)[0] == {"p0": "a", "p1": "b"}
    update(store, topology((ZONE, ""), (RACK, ""), name="aa"))
    assert cycle(store)[0] == {}


def test_a_topology_that_comes_later_counts_from_then_on():
    nodes = [labelled("a", 1, zone="z1", rack="r1"), labelled("b", 1, zone="z2", rack="r1")]
    store = store_of(*nodes, topology((ZONE, ""), (RACK, "")), group(), *members())
    binds, _, memory = cycle(store)
    assert binds == {}
    update(store, topology((ZONE, ""), (RACK, "")), is_gone=True)
    binds, _, memory = cycle(store, memory)
    assert binds == {"p0": "a", "p1": "b"}
    update(store, topology((ZONE, ""), (RACK, "")))
    assert cycle(store, memory)[0] == {}


def test_a_label_that_changes_counts_from_then_on():
    store = store_of(labelled("a", 1, rack="r1"), labelled("b", 1), group(), *members())
    binds, told, memory = cycle(store)
    word = f"{RACK} r1"
    assert binds == {}
    least = f"no {RACK} could hold its 2 pods together even if nothing else ran"
    assert told == [f"{least}: best is {word}, short by 1 pod"]
    update(store, labelled("b", 1, rack="r1"))
    binds, _, memory = cycle(store, memory)
    assert binds == {"p0": "a", "p1": "b"}
    update(store, labelled("b", 1, rack="r2"))
    assert cycle(store, memory)[0] == {}


@pytest.mark.parametrize("minimum", [2, 0])
def test_pods_that_run_bind_the_others(minimum):
    running = pod(
        "p0",
        uid="uid-p0",
        where="a",
        phase="Running",
        spec={"schedulingGroup": {"podGroupName": "pair"}},
    )
    nodes = [labelled("a", 1, rack="r1"), labelled("b", 4, rack="r2")]
    store = store_of(*nodes, group(minimum=minimum), running, members()[1])
    binds, told, _ = cycle(store)
    assert binds == {}
    told_first = f"pods of it run in {RACK} r1, which has no room for its pod: short by 1 pod"
    assert told[0].startswith(told_first)


def test_annotations_count_inside_of_the_constraint():
    """One zone by the group's constraint, one rack of it by the annotations of its object."""
    notes = {KAI: "dc", f"{KAI}-required-placement": RACK}
    nodes = [
        labelled("a", 1, zone="z1", rack="r1"),
        labelled("b", 1, zone="z1", rack="r2"),
        labelled("c", 2, zone="z2", rack="r3"),
    ]
    dc = topology((ZONE, ""), (RACK, ""))
    store = store_of(*nodes, dc, group(ZONE, annotations=notes), *members())
    root = tree_of(store)
    assert root.topology == TopologyConstraint("", ZONE, is_label=True)
    assert [it.topology for it in root.children] == [TopologyConstraint("dc", RACK)]
    assert cycle(store)[0] == {"p0": "c", "p1": "c"}


def test_a_group_that_asks_for_what_is_not_offered_is_refused_with_the_reason():
    spec = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": {"topology": [{}]}}
    store = store_of(owner("PodGroup", "pair", spec=spec), *members(1))
    assert "topology[0].key: no label of nodes" in str(store.problems())


def test_a_topology_of_an_annotation_beside_the_key_is_told_if_it_does_not_exist():
    """It is about all pods: no subgroup is named, which the group does not have."""
    asked = {KAI: "dc", "kai.scheduler/topology-required-placement": "zone"}
    store = store_of(labelled("a", 2, rack="r1"), group(annotations=asked), *members())
    assert cycle(store)[:2] == ({}, ["there is no topology dc"])
