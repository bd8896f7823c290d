"""Binpack: where pods go, with the default policy and with spreading."""

from kaisched.testing import draw

SPREAD = {"placementStrategy": {"gpu": "spread", "cpu": "spread"}}


def test_a_pod_goes_where_least_is_free():
    before = draw("""
        queue a
        node  n0  | . . . .
        node  n1  | a0 a0 . .
        node  n2  | a9 . . .
        job   a1  tasks=1
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | . . . .
        node  n1  | a0 a0 +a1 .
        node  n2  | a9 . . .
        job   a1  tasks=1
    """)


def test_among_equal_nodes_the_first_by_name_is_taken():
    before = draw("""
        queue a
        node  n1  | . .
        node  n0  | . .
        job   a1  tasks=1
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n1  | . .
        node  n0  | +a1 .
        job   a1  tasks=1
    """)


def test_a_shard_may_spread_instead():
    before = draw("""
        queue a
        node  n0  | . . .
        node  n1  | . . .
        job   a1  tasks=4
    """)
    assert before.after("allocate", shard=SPREAD) == draw("""
        queue a
        node  n0  | +a1 +a1 .
        node  n1  | +a1 +a1 .
        job   a1  tasks=4
    """)


def test_pods_without_gpus_leave_gpu_nodes_alone():
    before = draw("""
        queue a
        node  n0         | . .
        node  n1  cpu=8  |
        job   a1  tasks=2 gpu=0 cpu=2
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0         | . .
        node  n1  cpu=8  | | +a1 +a1
        job   a1  tasks=2 gpu=0 cpu=2
    """)


def test_a_pod_goes_only_where_its_affinity_lets_it():
    before = draw("""
        queue a
        node  n0  | a0 . .
        node  n1  | . . .
        job   a1  tasks=1 on=n1
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | a0 . .
        node  n1  | +a1 . .
        job   a1  tasks=1 on=n1
    """)
