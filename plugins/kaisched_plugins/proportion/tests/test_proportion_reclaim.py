"""Proportion: who may reclaim, from whom, and what may be taken together."""

import numpy as np
import pytest

from kaisched import GPU, UNLIMITED
from kaisched_plugins.proportion.tests.reclaim_world import (
    BUILD,
    NOT_OVER,
    ORDER,
    OVER_QUOTA,
    OVER_SHARE,
    TRAIN,
    UNDER,
    World,
    two,
)

# -- who may claim -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "gpus", "code"), [(0, 4, 0), (3, 1, 0), (3, 2, OVER_SHARE), (5, 1, OVER_SHARE)]
)
def test_a_queue_may_reclaim_up_to_its_fair_share(held, gpus, code):
    assert two(held=held).gate("a", gpus) == code


def test_a_resource_not_asked_for_stops_no_reclaim():
    world = two(cpu_share=1000, cpu_held=9000)
    assert world.gate("a", 1) == 0
    assert world.gate("a", 1, cpu=1) == OVER_SHARE


def test_nothing_moves_for_a_queue_beyond_its_fair_share():
    assert two(held=9).gate("a", 1, action="consolidate") == OVER_SHARE


def test_preempt_asks_for_no_fair_share():
    assert two(held=9).gate("a", 1, action="preempt") == 0


@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidate"])
def test_non_preemptible_jobs_keep_to_the_quotas_of_their_whole_path(action):
    parent = {"deserved": 3, "share": 9, "strict": 2}
    world = World({"d": parent, "a": {"parent": "d", "deserved": 5, "share": 5, "strict": 1}})
    assert world.gate("a", 1, kind=BUILD, action=action) == 0
    assert world.gate("a", 2, kind=BUILD, action=action) == OVER_QUOTA
    assert world.gate("a", 2, kind=TRAIN, action=action) == 0


def test_the_fair_share_is_that_of_the_leaf_alone():
    world = World({"d": {"share": 0, "held": 5}, "a": {"parent": "d", "share": 2}})
    assert world.gate("a", 2) == 0


# -- from whom -----------------------------------------------------------------------------------


def test_a_queue_over_its_share_gives_way():
    assert two().victims(two().claim("a", 3)) == {"b"}


def test_a_queue_within_its_share_is_spared_by_who_exceeds_its_quota():
    world = two()
    world.session.held[GPU, world.row["b"]] = 4000
    assert world.victims(world.claim("a", 3)) == set()
    assert world.victims(world.claim("a", 2)) == {"b"}


@pytest.mark.parametrize(
    ("held", "names"),
    [
        pytest.param(
            {"held": 2, "cpu_held": 50}, {"b"}, id="exactly at its quota: left to the next rule"
        ),
        pytest.param({"held": 1, "cpu_held": 50}, set(), id="below in one, over in none"),
        pytest.param({"held": 1, "cpu_held": 60}, {"b"}, id="over in one"),
    ],
)
def test_within_quota_only_resources_asked_for_count(held, names):
    b = {"deserved": 2, "share": 9, "cpu_deserved": 50, "cpu_share": 99}
    world = World({"a": {"deserved": 2, "share": 2}, "b": b | held})
    assert world.victims(world.claim("a", 1, cpu=10)) == names
    # Without the GPUs, b is within its quota of all that is asked for, or over it.
    assert world.victims(world.claim("a", 0, cpu=10)) == {"b"}


def test_queues_are_compared_where_their_paths_part():
    x = {"x": {"share": 4, "held": 4}, "x1": {"parent": "x", "share": 2}}
    x["x2"] = {"parent": "x", "share": 2, "held": 4}
    y = {"y": {"share": 4, "held": 5}, "y1": {"parent": "y", "share": 9, "held": 5}}
    z = {"z": {"share": 4, "held": 4}, "z1": {"parent": "z", "share": 1, "held": 4}}
    world = World(x | y | z)
    assert world.victims(world.claim("x1", 1)) == {"x2", "y1"}


def test_other_actions_are_none_of_its_business():
    world, claim = two(), two().claim("a", 3, action="preempt")
    assert world.plugin.victim_filter(world.session, claim, np.array([0])) is None
    assert world.take(claim, ("a", 9), ("b", 9)) == [0, 0]


# -- what may be taken ---------------------------------------------------------------------------


def test_a_queue_loses_only_while_it_has_more_than_its_share():
    world = two()
    assert world.take(world.claim("a", 4), *[("b", 1)] * 4) == [0, 0, NOT_OVER, NOT_OVER]


def test_within_its_quota_a_claim_takes_down_to_the_others_quota():
    world = two()
    assert world.take(world.claim("a", 2), *[("b", 1)] * 5) == [0, 0, 0, 0, NOT_OVER]


def test_a_queue_exactly_at_its_quota_passes_the_filter_and_loses_nothing():
    world = two()
    world.session.held[GPU, world.row["b"]] = 2000
    claim = world.claim("a", 2)
    assert world.victims(claim) == {"b"}
    assert world.take(claim, ("b", 1)) == [NOT_OVER]


def test_who_is_over_quota_owes_only_what_it_is_over_in():
    """It is within its share, and would take back what it loses."""
    b = {"deserved": 2, "share": 4, "held": 4, "cpu_held": 40}
    world = World({"a": {"deserved": 4, "share": 4, "held": 2}, "b": b})
    assert world.take(world.claim("a", 0, cpu=20), ("b", 2, 20)) == [NOT_OVER]
    assert world.take(world.claim("a", 2, cpu=20), ("b", 2, 20)) == [0]
    many = [("b", 0, 1)] * 40
    assert world.take(world.claim("a", 0, cpu=20), *many) == [NOT_OVER] * 40


@pytest.mark.parametrize(("held", "code"), [(2, NOT_OVER), (3, 0)])
def test_who_has_not_got_its_quota_of_gpus_owes_none_for_its_cpu(held, code):
    b = {"deserved": 3, "share": 3, "held": held, "cpu_deserved": 10, "cpu_held": 90}
    world = World({"a": {"deserved": 1, "share": 1}, "b": b})
    claim = world.claim("a", 1, cpu=10, last=True)
    assert world.take(claim, ("b", 2, 20)) == [code]
    many = world.take(claim, *[("b", 0, 1)] * 40)
    assert set(many) == {code}


@pytest.mark.fault("F99")
def test_a_unit_that_leaves_its_queue_less_than_it_deserves_is_the_last_resort():
    world = two()
    assert world.take(world.claim("a", 4), ("b", 5)) == [UNDER]
    assert world.take(world.claim("a", 4, last=True), ("b", 5)) == [0]
    assert world.take(world.claim("a", 4), ("b", 4)) == [0]


def test_a_whole_gang_may_go_when_its_queue_is_over_its_share():
    """Example L of the facts about KAI: judged before it is taken away."""
    world = World({"a": {"share": 4}, "b": {"deserved": 4, "share": 4, "held": 5}})
    assert world.take(world.claim("a", 4, last=True), ("b", 5)) == [0]


def test_a_resource_that_was_below_its_quota_already_may_fall_further():
    """Else a queue that never used its CPU quota could lose no GPU."""
    b = {"deserved": 2, "share": 4, "held": 6, "cpu_deserved": 5000, "cpu_held": 100}
    world = World({"a": {"share": 4}, "b": b | {"cpu_share": 5000}})
    assert world.take(world.claim("a", 4), ("b", 1, 100)) == [0]


# -- what the quota of others covers (R32) -------------------------------------------------------


def in_contest(runs, held, ask=2, mine=0, quota=3):
    """``a`` claims; ``b`` is over its quota and share, ``runs`` as for World."""
    b = {"deserved": quota, "share": quota, "held": held, "runs": runs}
    world = World({"a": {"deserved": mine, "share": 4}, "b": b})
    return world, world.claim("a", ask, last=True)


@pytest.mark.parametrize("mine", [0, 2])
def test_a_queue_keeps_the_jobs_that_its_quota_covers(mine):
    """Of jobs of 2, 1 and 1 GPUs, a quota of 3 covers the first two: one GPU may go, not two."""
    world, claim = in_contest([(2, 1, 1), (1, 1, 1), (1, 1, 1)], held=4, mine=mine)
    assert world.take(claim, ("b", 2)) == [UNDER]
    assert world.take(claim, ("b", 1)) == [0]


def test_a_gang_that_is_larger_than_its_quota_is_not_covered():
    world, claim = in_contest([(1, 4, 4)], held=4)
    assert world.take(claim, ("b", 4)) == [0]


def test_of_an_elastic_job_the_quota_covers_as_many_pods_as_it_has_room_for():
    world, claim = in_contest([(1, 5, 1)], held=5, ask=3)
    assert world.take(claim, ("b", 3)) == [UNDER]
    assert world.take(claim, ("b", 2)) == [0]


def test_a_gang_that_its_quota_covers_stays_whatever_else_its_queue_holds():
    world, claim = in_contest([(3, 1, 1), (1, 1, 1), (1, 1, 1)], held=5)
    assert world.take(claim, ("b", 3)) == [UNDER]
    assert world.take(claim, ("b", 1), ("b", 1)) == [0, 0]


def test_units_taken_before_count():
    world, claim = in_contest([(2, 2, 2), (1, 1, 1), (1, 1, 1)], held=6, quota=4, ask=4)
    assert world.take(claim, ("b", 1), ("b", 4)) == [0, UNDER]


def test_the_last_of_many_units_is_judged_by_it_too():
    b = {"deserved": 20, "share": 20, "held": 50, "runs": [(1, 1, 1)] * 50}
    world = World({"a": {"share": 40}, "b": b})
    units = [("b", 1)] * 29
    claim = world.claim("a", 40, last=True)
    assert world.take(claim, *units, ("b", 5)) == [0] * 29 + [UNDER]
    assert world.take(claim, *units, ("b", 1)) == [0] * 30


@pytest.mark.parametrize(
    ("mine", "unit", "codes"),
    [
        pytest.param(
            4, ("b", 0, 10), [0], id="who is over nothing takes from who is over anything"
        ),
        pytest.param(
            5, ("b", 0, 10), [NOT_OVER], id="both are over in GPUs, which nobody asks for"
        ),
        pytest.param(
            5, ("b", 1, 10), [ORDER], id="the unit holds some, and the taker is no better"
        ),
    ],
)
def test_what_neither_asks_for_counts_only_for_who_is_over_nothing(mine, unit, codes):
    """Else two queues over in GPUs would take CPU from each other in turns for ever."""
    world = World({"a": {"share": 4, "held": mine}, "b": {"share": 4, "held": 5, "cpu_held": 99}})
    assert world.take(world.claim("a", 0, cpu=10), unit) == codes


def test_who_has_too_much_of_what_is_asked_for_loses_only_units_that_hold_some():
    """Else it would lose CPU for GPUs that cannot be taken, and take it back."""
    world = World({"a": {"share": 4}, "b": {"share": 4, "held": 5, "cpu_held": 99}})
    claim = world.claim("a", 1, cpu=10)
    assert world.take(claim, ("b", 0, 10), ("b", 1, 10)) == [NOT_OVER, 0]
    many = [("b", 0, 1)] * 40
    assert world.take(claim, *many, ("b", 1, 10)) == [NOT_OVER] * 40 + [0]


def test_what_is_refused_or_not_asked_about_is_not_taken():
    world = two()
    claim = world.claim("a", 4)
    assert world.take(claim, ("b", 5), ("b", 1), ("b", 1)) == [UNDER, 0, 0]
    taken = [True, False, True, True]
    assert world.take(claim, *[("b", 1)] * 4, taken=taken) == [0, 0, 0, NOT_OVER]


def test_a_queue_does_not_reclaim_from_itself():
    world = two(held=9)
    assert world.take(world.claim("a", 1), ("a", 1)) == [NOT_OVER]
    assert "a" not in world.victims(world.claim("a", 1))


def test_every_queue_between_the_leaf_and_the_branch_keeps_what_it_deserves():
    y1 = {"parent": "y", "deserved": 3, "share": 3, "held": 4}
    y2 = {"parent": "y", "deserved": 1, "share": 1, "held": 4}
    world = World({"x": {"share": 4}, "y": {"share": 4, "held": 8}, "y1": y1, "y2": y2})
    claim = world.claim("x", 4)
    assert world.take(claim, ("y1", 2), ("y2", 3), ("y1", 1)) == [UNDER, 0, 0]
    # What y2 lost, y has lost: nothing is left above its share.
    assert world.take(claim, ("y2", 3), ("y1", 1), ("y2", 1)) == [0, 0, NOT_OVER]


@pytest.mark.parametrize(
    ("held", "multiplier", "codes"),
    [
        pytest.param(6, 1.0, [ORDER], id="J: 5/4 against 5/4"),
        pytest.param(7, 1.0, [0], id="J: 5/4 against 6/4"),
        pytest.param(7, 1.3, [ORDER], id="J: 1.3 times 5/4 against 6/4"),
    ],
)
def test_the_order_of_saturation_is_kept(held, multiplier, codes):
    """The branch of the claim is over its share, though its leaf is not."""
    x = {"x": {"share": 4, "held": 4}, "x1": {"parent": "x", "share": 1}}
    world = World(x | {"y": {"share": 4, "held": held}}, multiplier)
    assert world.take(world.claim("x1", 1), ("y", 1)) == codes


def test_branches_that_are_entitled_to_nothing_leave_each_other_alone():
    """A third has a claim to all by its priority; who asks is within its own quota."""
    world = World(
        {
            "x": {"share": 0},
            "x1": {"parent": "x", "deserved": 2, "share": 2},
            "y": {"share": 0, "held": 2},
            "y1": {"parent": "y", "share": 0, "held": 2},
            "z": {"share": 3, "held": 2},
        }
    )
    assert world.take(world.claim("x1", 1), ("y1", 2)) == [ORDER]
    assert world.take(world.claim("z", 1), ("y1", 2)) == [0]


def test_saturation_counts_only_in_resources_asked_for_or_taken():
    """Example of the facts about KAI: CPU is over the share, but nobody touches it."""
    x = {"share": 4, "cpu_share": 1000, "cpu_held": 3000}
    y = {"share": 3, "held": 7, "cpu_share": 1000, "cpu_held": 1000}
    world = World({"x": x, "y": y})
    assert world.take(world.claim("x", 1), ("y", 1)) == [0]
    assert world.take(world.claim("x", 1), ("y", 1, 10)) == [ORDER]


@pytest.mark.parametrize(("multiplier", "codes"), [(1.0, [0, 0]), (1.4, [0, NOT_OVER])])
def test_with_a_multiplier_a_queue_loses_only_what_exceeds_its_share_by_it(multiplier, codes):
    world = two(multiplier)
    assert world.take(world.claim("a", 4), ("b", 1), ("b", 1)) == codes
    world.session.held[GPU, world.row["b"]] = 5000
    assert bool(world.victims(world.claim("a", 4))) is (multiplier == 1.0)


def test_nothing_unlimited_is_ever_exceeded():
    world = World({"a": {"share": 4}, "b": {"deserved": UNLIMITED, "share": 4, "held": 9}}, 1.7)
    assert world.take(world.claim("a", 4), ("b", 1)) == [NOT_OVER]
    assert world.victims(world.claim("a", 4)) == set()
