"""Where pods that nobody may evict stand beside those that may go, they move to make way."""

import pytest

from kaisched.testing import draw


def drawn(kind):
    jobs = "\n".join(f"job a{at}" for at in range(12))
    ours = "\n".join(f"job b{at} {kind}" for at in range(4))
    return draw(f"""
        queue a
        queue b
        node  n0  | a0 a1 a2 b0
        node  n1  | a3 a4 a5 b1
        node  n2  | a6 a7 a8 b2
        node  n3  | a9 a10 a11 b3
        {jobs}
        {ours}
        job   b9  gpu=4 priority=60
    """)


def nodes_of(world):
    return [
        " ".join(line.split()[3:]) for line in str(world).splitlines() if line.startswith("node")
    ]


def test_four_that_may_go_and_one_that_moves_make_a_node_free():
    assert nodes_of(drawn("priority=60").after("reclaim")) == [
        "a0>b9 a1>b9 a2>b9 b0>b9",
        "a3 a4 a5 b1",
        "a6 a7 a8 b2",
        "a9 a10 a11>b0 b3",
    ]


@pytest.mark.parametrize("kind", ["priority=75", "preemptible=no"])
def test_nobody_moves_for_a_lower_priority_or_who_must_not_be_stopped(kind):
    before = drawn(kind)
    assert nodes_of(before.after("reclaim")) == nodes_of(before)


def test_a_gang_in_the_way_moves_with_all_its_pods():
    before = draw("""
        queue a
        queue b
        node  n0  | a0 a1 a2 b0
        node  n1  | a3 a4 a5 b0
        node  n2  | a6 a7 a8 a9
        job   a0
        job   a1
        job   a2
        job   a3
        job   a4
        job   a5
        job   a6  preemptible=no
        job   a7  preemptible=no
        job   a8  preemptible=no
        job   a9  preemptible=no
        job   b0  tasks=2
        job   b9  gpu=4
    """)
    assert nodes_of(before.after("reclaim")) == [
        "a0>b9 a1>b9 a2>b9 b0>b9",
        "a3 a4 a5>b0 b0>b0",
        "a6 a7 a8 a9",
    ]
