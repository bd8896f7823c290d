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
    """On every node it costs the same; on the last one it is the youngest that go."""
    assert nodes_of(drawn("priority=60").after("reclaim")) == [
        "a0 a1 a2 b0",
        "a3 a4 a5 b1",
        "a6 a7 a8>b3 b2",
        "a9>b9 a10>b9 a11>b9 b3>b9",
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
        "a0 a1 a2>b0 b0>b0",
        "a3>b9 a4>b9 a5>b9 b0>b9",
        "a6 a7 a8 a9",
    ]


@pytest.mark.parametrize("claim", ["gpu=1", "gpu=0.8"])
def test_parts_of_gpus_move_to_another_card_so_that_one_is_free(claim):
    """On each card one pod at most may go: amounts would suffice, but no card is whole."""
    before = draw(f"""
        queue a  deserved=1
        queue b  deserved=1
        queue c  deserved=2
        node  n0 | a1/a2 a3/c1 b1/b2 b3/c2
        job   a1 gpu=0.5
        job   a2 gpu=0.5
        job   a3 gpu=0.5
        job   b1 gpu=0.5
        job   b2 gpu=0.5
        job   b3 gpu=0.5
        job   c1 gpu=0.5
        job   c2 gpu=0.5
        job   c3 {claim}
    """)
    assert nodes_of(before.after("reclaim")) in (
        ["a1/a2 a3>/c1>/>c3 b1/b2 b3>/c2/>c1"],
        ["a1/a2 a3>/c1/>c2 b1/b2 b3>/c2>/>c3"],
    )


def test_parts_of_gpus_make_way_for_a_pod_with_parts_of_two():
    before = draw("""
        queue a  deserved=1
        queue b  deserved=1
        queue c  deserved=3
        node  n0 | a1/a2 a3/c1 b1/b2 b3/c2 c4
        job   a1 gpu=0.5
        job   a2 gpu=0.5
        job   a3 gpu=0.5
        job   b1 gpu=0.5
        job   b2 gpu=0.5
        job   b3 gpu=0.5
        job   c1 gpu=0.5
        job   c2 gpu=0.5
        job   c3 gpu=0.7 cards=2
        job   c4 gpu=0.1
    """)
    after = before.after("reclaim")
    assert after.ran.promised["c3-0"] == "n0"
    # a and b give half a GPU each, and one more half moves beside another.
    lost = sorted(name[0] for name in set(after.ran.evicted) - set(after.ran.promised))
    assert (len(after.ran.evicted), lost) == (3, ["a", "b"])
