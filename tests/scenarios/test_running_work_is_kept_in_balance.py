"""Shares of surplus hold for work that runs: they are worked out anew, and training gives way."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion

BY_QUOTA = {"overQuotaWeights": "quota"}
QUOTAS = """
        queue a   deserved=3
        queue b   deserved=1
"""


def nodes(*names):
    """Two nodes of eight GPUs that these pods hold."""
    cells = [*names, *["."] * (16 - len(names))]
    return "".join(
        f"        node n{at}  | {' '.join(cells[8 * at : 8 * at + 8])}\n" for at in (0, 1)
    )


def jobs(queue, number, more=""):
    return "".join(f"        job  {queue}{at:02} {more}\n" for at in range(number))


def holding(queue, number):
    return [f"{queue}{at:02}" for at in range(number)]


def run(text):
    return draw(text).builder().run(shard=BY_QUOTA)


def shares(text):
    return {it.name: it.fair_share["gpu"] // 1000 for it in run(text).result.shares}


def test_who_came_first_gives_back_down_to_its_share():
    """Quotas 3 and 1 of 16 GPUs: of the 12 that are left 9 and 3 go to each, though A has all."""
    ran = run(QUOTAS + nodes(*holding("a", 16)) + jobs("a", 16) + jobs("b", 16))
    assert len(ran.evicted) == 4
    assert {pod[0] for pod in ran.evicted} == {"a"}
    assert [pod[0] for pod in ran.promised] == ["b"] * 4


def test_who_came_last_gives_back_as_well():
    ran = run(QUOTAS + nodes(*holding("b", 16)) + jobs("b", 16) + jobs("a", 16))
    assert len(ran.evicted) == 12
    assert {pod[0] for pod in ran.evicted} == {"b"}
    assert [pod[0] for pod in ran.promised] == ["a"] * 12


def test_nobody_goes_from_a_cluster_in_balance():
    text = QUOTAS + nodes(*holding("a", 12), *holding("b", 4)) + jobs("a", 20) + jobs("b", 20)
    assert run(text).evicted == {}


def test_training_gives_way_and_interactive_work_stays():
    mixed = jobs("a", 3, "priority=100") + "".join(f"        job a{at:02}\n" for at in range(3, 16))
    ran = run(QUOTAS + nodes(*holding("a", 16)) + mixed + jobs("b", 16))
    assert len(ran.evicted) == 4
    assert not {"a00-0", "a01-0", "a02-0"} & set(ran.evicted)


def test_shares_are_worked_out_anew_when_a_job_comes_and_when_one_ends():
    alone = QUOTAS + nodes(*holding("a", 16)) + jobs("a", 16)
    assert shares(alone) == {"a": 16, "b": 0}
    assert shares(alone + jobs("b", 1)) == {"a": 15, "b": 1}
    assert shares(alone + jobs("b", 16)) == {"a": 12, "b": 4}
    ended = QUOTAS + nodes(*holding("a", 6)) + jobs("a", 6)
    assert shares(ended + jobs("b", 16)) == {"a": 6, "b": 10}


ROOM = """
        queue a   deserved=0
        queue b   deserved=1
        node  n0  | %s
        job   b1  priority=90
"""


def test_if_one_pod_of_a_gang_goes_all_go():
    """One GPU is asked for, and the gang of three loses all of its pods."""
    ran = draw(ROOM % "a1 a1 a1").after("reclaim").ran
    assert set(ran.evicted) == {"a1-0", "a1-1", "a1-2"}


def test_if_one_of_three_single_pods_goes_the_others_stay():
    ran = draw(ROOM % "a1 a2 a3").after("reclaim").ran
    assert len(ran.evicted) == 1


def test_more_urgent_work_of_the_same_queue_ends_a_gang_whole_too():
    text = """
        queue a
        node  n0  | a1 a1 a1
        job   a1  tasks=3
        job   a2  priority=90
    """
    assert set(draw(text).after("preempt").ran.evicted) == {"a1-0", "a1-1", "a1-2"}


def test_two_gangs_that_do_not_fit_together_do_not_hold_halves():
    """Each needs three of four GPUs: one has all it needs, the other holds nothing."""
    after = draw("""
        queue a
        queue b
        node  n0  | . . . .
        job   a1  tasks=3
        job   b1  tasks=3
    """).after("allocate")
    assert len(after.ran.placed) == 3
    assert after.reasons == {"b1": "GangNoRoom"}
