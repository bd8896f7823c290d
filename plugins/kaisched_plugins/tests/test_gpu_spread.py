"""GPU spread: a share gets a GPU of its own as long as its node has one."""

import pytest

from kaisched.testing import ClusterBuilder, check_plugin
from kaisched_plugins.gpu_spread import GpuSpread

CARDS = {"plugins": {"gpu-spread": {"enabled": True}}}
NODES = {"plugins": {"binpack": {"arguments": {"gpu": "spread"}}}}
BOTH = {"placementStrategy": {"gpu": "spread"}}
MIXES = [({}, "n0", 0), (CARDS, "n0", 1), (NODES, "n1", 0), (BOTH, "n1", 0)]


def team(*gpus):
    """Return a cluster of nodes of so many GPUs, and a queue."""
    made = ClusterBuilder().queue("a")
    for at, count in enumerate(gpus):
        made.node(f"n{at}", gpu=count)
    return made


def cards_of(ran, job):
    """Return the GPUs that the pods of a job were given, in the order of the pods."""
    names = ran.snapshot.tasks.name
    given = {names[it].rpartition("/")[2]: at for it, at in ran.result.bind_cards.items()}
    return [given[pod] for pod in sorted(given) if pod.startswith(f"{job}-")]


@pytest.mark.parametrize(("shard", "node", "card"), MIXES)
def test_nodes_and_gpus_are_packed_or_spread_independently(shard, node, card):
    made = team(2, 2).job("x", queue="a", gpu=0.4, running={"n0": 1})
    ran = made.job("y", queue="a", gpu=0.4).run(shard=shard)
    assert ran.placed == {"y-0": node}
    assert cards_of(ran, "y") == [(card,)]


def test_where_nodes_are_spread_and_gpus_packed_a_node_fills_one_gpu_first():
    made = team(2, 8).job("x", queue="a", gpu=0.5, running={"n0": 1})
    ran = made.job("y", queue="a", gpu=0.5, tasks=3).run(shard=NODES)
    assert ran.placed == dict.fromkeys(("y-0", "y-1", "y-2"), "n1")
    assert sorted(cards_of(ran, "y")) == [(0,), (0,), (1,)]


def test_gpus_are_opened_while_there_are_any_and_then_filled_the_emptiest_first():
    made = team(3).job("x", queue="a", gpu=0.5, running={"n0": 1})
    ran = made.job("y", queue="a", gpu=0.2, tasks=5).run(shard=CARDS)
    assert cards_of(ran, "y") == [(1,), (2,), (1,), (2,), (1,)]


def test_a_gpu_that_a_pod_has_whole_is_not_opened():
    made = team(3).job("w", queue="a", gpu=2, running={"n0": 1})
    ran = made.job("y", queue="a", gpu=0.3, tasks=3).run(shard=CARDS)
    assert cards_of(ran, "y") == [(0,), (0,), (0,)]


def test_several_shares_of_a_pod_are_on_the_emptiest_gpus():
    made = team(3).job("x", queue="a", gpu=0.5, running={"n0": 1})
    ran = made.job("y", queue="a", gpu=0.2, cards=2).run(shard=CARDS)
    assert cards_of(ran, "y") == [(1, 2)]


def test_a_gpu_is_opened_although_a_shared_one_is_being_vacated():
    made = team(2).job("v", queue="a", gpu=0.6, leaving={"n0": 1})
    made.job("x", queue="a", gpu=0.3, running={"n0": 1}).job("y", queue="a", gpu=0.5)
    assert made.run("allocate").placed == {}
    assert cards_of(made.run("allocate", shard=CARDS), "y") == [(1,)]


def test_what_is_promised_is_a_gpu_that_nobody_else_gets():
    made = team(2).job("v", queue="a", gpu=1, leaving={"n0": 1})
    made.job("x", queue="a", gpu=0.7, running={"n0": 1})
    made.job("y", queue="a", gpu=0.5, tasks=2)
    promised = made.run("allocate", shard=CARDS).result.nominate_cards
    assert [it.opened for it in promised.values()] == [(), ()]
    assert [it.later for it in promised.values()] == [(0,), (0,)]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(GpuSpread)
