"""What a claim costs: the pods that are evicted or moved, and of as many pods their GPUs."""

from kaisched.testing import draw


def nodes_of(world):
    return [
        " ".join(line.split()[3:]) for line in str(world).splitlines() if line.startswith("node")
    ]


def test_one_pod_alone_goes_rather_than_two_that_are_younger():
    before = draw("""
        queue a   deserved=0 weight=0
        queue b   deserved=12
        node  n0  | a0 . . .
        node  n1  | a1 a1 a1 a2
        node  n2  | a3 a3 a3 a4
        job   a0
        job   a1  gpu=3
        job   a2
        job   a3  gpu=3
        job   a4
        job   b0  gpu=4
    """)
    assert nodes_of(before.after("reclaim")) == [
        "a0>b0 >b0 >b0 >b0",
        "a1 a1 a1 a2",
        "a3 a3 a3 a4",
    ]


def test_of_as_many_pods_those_with_the_fewest_gpus_go():
    before = draw("""
        queue a   deserved=0 weight=0
        queue b   deserved=8
        node  n0  | a0 a0 . .
        node  n1  | a1 a1 a1 a1
        job   a0  gpu=2
        job   a1  gpu=4
        job   b0  gpu=4
    """)
    assert nodes_of(before.after("reclaim")) == ["a0>b0 a0>b0 >b0 >b0", "a1 a1 a1 a1"]


def test_what_costs_the_same_goes_in_order():
    before = draw("""
        queue a   deserved=0 weight=0
        queue b   deserved=8
        node  n0  | a0 a0
        node  n1  | a1 a1
        job   a0  gpu=2
        job   a1  gpu=2 priority=75
        job   b0  gpu=2
    """)
    assert nodes_of(before.after("reclaim")) == ["a0>b0 a0>b0", "a1 a1"]
