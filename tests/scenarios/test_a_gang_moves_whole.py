"""If one pod of what a job needs goes, the others are useless: a gang moves whole or not at all."""

from kaisched.testing import draw


def nodes_of(world):
    """The drawn nodes: a pod that moves stands there twice, which no cluster to begin with has."""
    return [
        " ".join(line.split()[3:]) for line in str(world).splitlines() if line.startswith("node")
    ]


def test_a_single_pod_moves_rather_than_one_of_a_gang():
    before = draw("""
        queue a
        node  n1  | a1 a1 . .
        node  n2  | a1 a1 . .
        node  n3  | a2 a2 . .
        job   a1  tasks=2 gpu=2
        job   a2  gpu=2
        job   a3  gpu=4
    """)
    assert nodes_of(before.after("consolidate")) == [
        "a1 a1 >a2 >a2",
        "a1 a1 . .",
        "a2>a3 a2>a3 >a3 >a3",
    ]


def test_a_gang_moves_with_all_its_pods_and_one_may_come_back_to_its_node():
    before = draw("""
        queue a
        node  n1  | a1 a1 . .
        node  n2  | a1 a1 . .
        node  n3  | a2 a2 . .
        job   a1  tasks=2 gpu=2
        job   a2  gpu=2 priority=100
        job   a3  gpu=4
    """)
    assert nodes_of(before.after("consolidate")) == [
        "a1>a3 a1>a3 >a3 >a3",
        "a1>a1 a1>a1 . .",
        "a2 a2 >a1 >a1",
    ]


def test_what_a_gang_needs_moves_whole_and_its_elastic_pod_stays():
    """The pod on n1 is in nobody's way; it goes along, and may come back there."""
    before = draw("""
        queue a   deserved=8
        node  n1  | a1 a2 a2 a2
        node  n2  | a1 . . .
        node  n3  | a2 a2 a2 a1
        node  n4  | a2 a2 a2 .
        job   a1  tasks=3 min=2
        job   a2  tasks=9 priority=100
        job   a3  gpu=4
    """)
    assert nodes_of(before.after("consolidate")) == [
        "a1>a1 a2 a2 a2",
        "a1>a3 >a3 >a3 >a3",
        "a2 a2 a2 a1",
        "a2 a2 a2 >a1",
    ]


def test_a_gang_that_has_no_place_as_a_whole_stays():
    before = draw("""
        queue a
        node  n1  | a1 a1 . .
        node  n2  | a1 a1 a2 a2
        node  n3  | a2 a2 a2 .
        job   a1  tasks=2 gpu=2
        job   a2  tasks=5 priority=100
        job   a3  gpu=3
    """)
    assert nodes_of(before.after("consolidate")) == nodes_of(before)
