"""Pods that ask for no domain fill the same domains first (U1)."""

from typing import Any

import pytest

from kaisched.engine.policy import build_policy, default_shard
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Ran, policy_of

PACKED = {"plugins": {"topology": {"arguments": {"packUnconstrained": True}}}}


def scattered(*used: str) -> ClusterBuilder:
    """Build nodes whose names do not follow their racks: n0 and n2 are in rack B."""
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    for name, rack in (("n0", "B"), ("n1", "A"), ("n2", "B"), ("n3", "A")):
        builder.node(name, gpu=2, labels={"rack": rack})
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
    scores = policy.questions._answers["node_score"]
    assert ("topology" in [each.plugin for each in scores]) == is_asked
    assert policy.questions.fills_first == build_policy(default_shard())[0].questions.fills_first
