"""Proportion: parts of GPUs give way to whole GPUs within quota (R37)."""

import pytest

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched_plugins.proportion.reclaim import floors_of, undershoots


@pytest.mark.fault("I136")
@pytest.mark.parametrize("quota", [{"gpu": 0, "cpu": 8}, {"gpu": 0, "cpu": 8, "memory": 8}])
def test_a_queue_with_cpu_quota_left_over_keeps_no_part_of_a_gpu_beyond_its_quota_of_gpus(quota):
    """Of 8 GPUs ``thin`` has a tenth of each, and 1 of its quota of 8 CPUs; ``v`` wants one."""
    result = decide(quota)
    assert [move.pod for move in result.evictions] == ["default/thin-0"]


def test_one_within_its_quota_of_gpus_keeps_it():
    """A tenth of each of 8 GPUs counts 0.8."""
    assert decide({"gpu": 0.8, "cpu": 8}).evictions == ()


def decide(quota):
    """Return the result of a cycle in which a queue of this quota has the part of all GPUs."""
    cards = tuple(f"card-{at}" for at in range(8))
    builder = ClusterBuilder().node("n0", gpu=8, card_mib=80_000)
    builder.queue("mine", deserved=quota).queue("team", deserved={"gpu": 7, "cpu": 64})
    builder.job("thin", queue="mine", gpu=0.1, cards=8, running={"n0": 1}, on_cards=[cards])
    snapshot = builder.job("v", queue="team", gpu=1).store().snapshot()
    return run_cycle(snapshot, None, default_policy(), 1000.0, Memory())[0]


@pytest.mark.parametrize(
    ("has", "loses", "is_below"),
    [
        (9, 1, False),
        (9, 2, True),
        (8, 0, False),
        (8, 1, True),  # it is exactly at its quota, and must keep it
        (7, 1, False),  # it is below already, and may lose more
    ],
)
def test_a_queue_that_reaches_its_quota_may_not_lose_so_much_that_it_is_below(has, loses, is_below):
    """R21, on plain numbers: a quota of 8."""
    floors = floors_of([has], [(0, 8)])
    assert undershoots([has], floors, [loses]) == is_below
