"""GPU fragmentation: pods go where what stays free is of most use to the others."""

import pytest

from kaisched.testing import ClusterBuilder, check_plugin
from kaisched_plugins.gpu_fragmentation import GpuFragmentation

SHARD = {"plugins": {"gpu-fragmentation": {"enabled": True}, "binpack": {"enabled": False}}}


def team(*nodes):
    """Return a cluster of nodes of (GPUs, CPU), and a queue."""
    made = ClusterBuilder().queue("a")
    for at, (gpu, cpu) in enumerate(nodes):
        made.node(f"n{at}", gpu=gpu, cpu=cpu)
    return made


def test_what_is_left_of_a_gpu_goes_to_a_pod_that_it_is_just_enough_for():
    made = team((1, 9), (1, 9)).job("x", queue="a", gpu=0.5, running={"n0": 1})
    made.job("y", queue="a", gpu=0.8, running={"n1": 1})
    ran = made.job("z", queue="a", gpu=0.2).run(shard=SHARD)
    assert ran.placed == {"z-0": "n1"}  # on n0 0.3 would be left, for which there is no other use


@pytest.mark.parametrize(("waiting", "node"), [(8, "n1"), (0, "n0")])
def test_a_whole_node_is_kept_for_those_who_ask_for_one(waiting, node):
    made = team((8, 99), (2, 99)).job("x", queue="a", gpu=8, tasks=8, min_tasks=1, priority=40)
    if not waiting:
        made = team((8, 99), (2, 99))
    assert made.job("z", queue="a", gpu=1).run(shard=SHARD).placed["z-0"] == node


def test_cpu_is_kept_beside_free_gpus():
    # A GPU of n0 has 3 cores beside it, one of n1 has 30: the pod of 20 cores leaves most there.
    made = team((8, 24), (2, 60)).job("x", queue="a", gpu=1, cpu=3, tasks=2, min_tasks=1)
    ran = made.job("z", queue="a", gpu=1, cpu=20, priority=60).run(shard=SHARD)
    assert ran.placed["z-0"] == "n1"


def test_pods_without_gpus_take_the_cpu_that_no_gpu_needs():
    made = team((4, 20), (4, 40)).job("x", queue="a", gpu=1, cpu=5, tasks=8, min_tasks=8)
    ran = made.job("z", queue="a", gpu=0, cpu=15, priority=60).run(shard=SHARD)
    assert ran.placed["z-0"] == "n1"


def test_while_no_pod_asks_for_a_gpu_it_says_nothing():
    without = {"plugins": {"binpack": {"enabled": False}}}
    made = [team((4, 20), (0, 30)).job("z", queue="a", gpu=0) for _ in range(2)]
    assert made[0].run(shard=SHARD).placed == made[1].run(shard=without).placed == {"z-0": "n1"}


def test_it_keeps_the_contract_of_plugins():
    check_plugin(GpuFragmentation)
