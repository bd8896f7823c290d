"""Pods that ask for no domain fill the same domains first (U1)."""

from typing import Any

import pytest

from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import NOW_S, Ran, policy_of

PACKED = {"plugins": {"topology": {"arguments": {"packUnconstrained": True}}}}


def scattered(*used: str, racks: str = "BABA", level: str = "rack") -> ClusterBuilder:
    """Build nodes whose names do not follow their racks: n0 and n2 are in rack B."""
    builder = ClusterBuilder().topology("t", level).queue("a")
    for name, rack, row in zip(("n0", "n1", "n2", "n3"), racks, "1221", strict=True):
        builder.node(name, gpu=2, labels={"rack": rack, "row": row})
    for name in used:
        builder.job(f"v{name}", queue="a", running={name: 1})
    return builder


def ran(builder: ClusterBuilder, shard: Any = None, **job: Any) -> Ran:
    return builder.job("a1", queue="a", **job).run("allocate", shard=shard)


@pytest.mark.parametrize(
    ("shard", "nodes"), [(None, {"n0", "n1"}), (PACKED, {"n1", "n3"})], ids=["as ever", "packed"]
)
def test_empty_nodes_are_opened_rack_by_rack(shard, nodes):
    assert set(ran(scattered(), shard, tasks=2, gpu=2).placed.values()) == nodes


@pytest.mark.parametrize(
    ("changed", "nodes"),
    [({}, {1, 3}), ({"racks": "AABB"}, {0, 1}), ({"level": "row"}, {0, 3})],
    ids=["nothing", "labels of nodes", "the topology"],
)
def test_what_changes_between_two_cycles_counts_in_the_second(changed, nodes):
    store = scattered().job("a1", queue="a", tasks=2, gpu=2).store()
    policy, after = policy_of(PACKED, (), ("allocate",)), scattered(**changed)
    first, memory = run_cycle(store.snapshot(), None, policy, NOW_S, Memory())
    assert set(first.bind_nodes.tolist()) == {1, 3}
    store.nodes.put_topology("t", after._topologies["t"])
    store.touch()
    if "racks" in changed:
        for node in after._nodes:
            store.put_node(node)
    second, _ = run_cycle(store.snapshot(), None, policy, NOW_S, memory)
    assert set(second.bind_nodes.tolist()) == nodes


@pytest.mark.parametrize(
    ("name", "level", "nodes"),
    [("s", "row", {"n0", "n3"}), ("u", "row", {"n1", "n3"}), ("s", "hall", {"n1", "n3"})],
)
def test_the_first_topology_by_name_counts_in_which_any_node_takes_part(name, level, nodes):
    two = scattered().topology(name, level)
    assert set(ran(two, PACKED, tasks=2, gpu=2).placed.values()) == nodes


def test_it_is_below_the_packing_of_nodes():
    """Node n2 is used in part already: it is filled, though rack A comes before rack B."""
    assert set(ran(scattered("n2"), PACKED).placed.values()) == {"n2"}


def test_nodes_without_a_rack_come_first():
    builder = scattered().node("n4", gpu=2)
    assert set(ran(builder, PACKED, gpu=2).placed.values()) == {"n4"}


def test_without_a_topology_the_first_node_by_name_is_taken():
    builder = ClusterBuilder().queue("a").node("n0", gpu=1).node("n1", gpu=1)
    assert ran(builder, PACKED).placed == {"a1-0": "n0"}


@pytest.mark.parametrize(("shard", "is_asked"), [(None, False), (PACKED, True)])
def test_nothing_is_asked_where_it_is_off(shard, is_asked):
    policy = policy_of(shard, (), ())
    scores = policy.questions.answers("node_score")
    assert ("topology" in scores) == is_asked
