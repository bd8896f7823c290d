"""What goes or moves so that one domain holds a job (E1 to E4)."""

from typing import Any

import pytest

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder, draw


def ran(text: str, *actions: str) -> Any:
    """Run a cycle on a drawing."""
    return draw(text).after("allocate", *actions).ran


def test_the_rack_is_cleared_in_which_least_is_lost():
    """Rack A loses two jobs, rack B one that reaches into rack C: as many GPUs, fewer jobs."""
    done = ran(
        """
        queue a  deserved=4
        queue v
        node A1 rack=A | v1
        node A2 rack=A | v1
        node A3 rack=A | v2
        node A4 rack=A | .
        node B1 rack=B | .
        node B2 rack=B | .
        node B3 rack=B | v3
        node B4 rack=B | v3
        node C1 rack=C | v3
        job v1 tasks=2 on=A1,A2
        job v2 on=A3
        job v3 tasks=3 on=B3,B4,C1
        job a1 tasks=4 required=rack
    """,
        "reclaim",
    )
    assert set(done.evicted) == {"v3-0", "v3-1", "v3-2"}
    assert set(done.promised.values()) == {"B1", "B2", "B3", "B4"}


def test_what_idles_elsewhere_does_not_stand_for_a_rack():
    """Four GPUs idle, in pieces: two more have to go in one rack."""
    done = ran(
        """
        queue a  deserved=4
        queue v
        node A1 rack=A | v1 v2 . .
        node B1 rack=B | v3 v4 . .
        job v1 on=A1
        job v2 on=A1
        job v3 on=B1
        job v4 on=B1
        job a1 tasks=4 required=rack
    """,
        "reclaim",
    )
    assert set(done.evicted) == {"v3-0", "v4-0"}
    assert set(done.promised.values()) == {"B1"}


def test_nothing_is_evicted_for_a_wish():
    done = ran(
        """
        queue a  deserved=3
        queue v
        node A1 rack=A | v1 .
        node B1 rack=B | v2 .
        job v1
        job v2
        job a1 tasks=2 preferred=rack
    """,
        "reclaim",
    )
    assert done.evicted == {}
    assert set(done.placed.values()) == {"A1", "B1"}


def test_preempt_clears_one_rack():
    done = ran(
        """
        queue a
        node A1 rack=A | a1 a2
        node B1 rack=B | a3 .
        job a1
        job a2
        job a3
        job a4 tasks=2 priority=60 required=rack
    """,
        "preempt",
    )
    assert done.evicted == {"a3-0": "B1"}
    assert set(done.promised.values()) == {"B1"}


def test_preempt_takes_the_rack_of_lower_priorities_though_more_is_lost_there():
    done = ran(
        """
        queue a  deserved=5
        node A1 rack=A | a1 a1
        node B1 rack=B | a2 a3 a3
        job a1 tasks=2 priority=50
        job a2 priority=20
        job a3 tasks=2 priority=20
        job a9 tasks=2 priority=90 required=rack
    """,
        "preempt",
    )
    assert set(done.evicted) == {"a3-0", "a3-1"}


def test_consolidate_clears_one_rack_and_moves_the_newest():
    done = ran(
        """
        queue a
        node n0 rack=A | a1 .
        node n1 rack=B | a2 .
        job a1
        job a2
        job a3 tasks=2 required=rack
    """,
        "consolidate",
    )
    assert done.evicted == {"a2-0": "n1"}
    assert set(done.promised.items()) == {("a2-0", "n0"), ("a3-0", "n1"), ("a3-1", "n1")}


def test_a_gang_that_moves_stays_in_one_rack():
    """The gang in rack A could only make way in pieces: it stays, and the other job waits."""
    done = ran(
        """
        queue a
        node A1 rack=A | a1 a1 .
        node B1 rack=B | a2 . a2
        node C1 rack=C | a3 a3 .
        job a1 tasks=2 required=rack
        job a2 tasks=2 required=rack
        job a3 tasks=2 required=rack
        job a4 tasks=3 required=rack
    """,
        "consolidate",
    )
    assert done.evicted == {}


def test_the_reason_tells_what_would_not_give_way():
    done = ran(
        """
        queue a  deserved=4
        queue v
        node A1 rack=A | v1 .
        node B1 rack=B | v2 .
        node C1 rack=C | v3 v3 v4 v4
        job v3 tasks=2
        job v1 preemptible=no
        job v2 preemptible=no
        job v4 tasks=2 preemptible=no
        job a1 tasks=4 required=rack
    """,
        "reclaim",
    )
    (record,) = done.result.records
    assert record.message.startswith(
        "no rack has room for its 4 pods together: best is rack A, short by 3 pods"
    )
    assert record.message.endswith(
        "reclaim: no rack can be freed for its 4 pods together: best is rack C, short by 2 pods"
    )


def test_the_reason_names_the_rack_to_which_pods_that_run_are_bound():
    done = ran(
        """
        queue a  deserved=3
        queue v
        node A1 rack=A | v1 a1
        node B1 rack=B | v2 .
        job v1 preemptible=no
        job v2
        job a1 tasks=2 min=1 preemptible=no required=rack
    """,
        "reclaim",
    )
    (record,) = done.result.records
    assert record.message.endswith(
        "reclaim: pods of it run in rack A, which cannot be freed for its pod: short by 1 pod"
    )


def test_an_elastic_pod_goes_along_with_the_core_of_its_job():
    """The core moves to rack B: its third pod must not stay behind in rack A."""
    done = ran(
        """
        queue a
        queue b  deserved=3
        node A1 rack=A | a1 a1
        node A2 rack=A | a1
        node B1 rack=B | . . .
        job a1 tasks=3 min=2 required=rack
        job b1 gpu=2 on=A1
    """,
        "reclaim",
    )
    assert set(done.evicted) == {"a1-0", "a1-1", "a1-2"}
    assert {pod: node for pod, node in done.promised.items() if pod.startswith("a1")} == {
        "a1-0": "B1",
        "a1-1": "B1",
        "a1-2": "B1",
    }


@pytest.mark.parametrize("action", ["reclaim", "preempt"])
def test_of_two_racks_that_cost_the_same_the_one_is_cleared_in_which_fewer_pods_restart(action):
    """Each loses a GPU: rack B, of newer jobs, by a second pod that would move to rack A."""
    queue = "a" if action == "preempt" else "v"
    done = ran(
        f"""
        queue a  deserved=2
        queue v
        node A1 rack=A | v1 .
        node B1 rack=B | v2 v3
        job v1 queue={queue}
        job v2 queue={queue}
        job v3 queue={queue}
        job a1 tasks=2 required=rack priority=60
    """,
        action,
    )
    assert done.evicted == {"v1-0": "A1"}


def test_a_pod_that_came_to_one_of_two_racks_may_stay_when_the_one_that_was_there_goes():
    """P3: its pods are in two racks, as nodes were labelled anew; the claim takes the last one."""
    builder = ClusterBuilder().topology("t", "rack").queue("a").queue("b")
    for name, gpus in (("A1", 2), ("B1", 2), ("C1", 1)):
        builder.node(name, gpu=gpus, labels={"rack": name[0]})
    wish = TopologyConstraint("t", "rack")
    builder.job("a1", queue="a", tasks=4, min_tasks=2, running={"A1": 2, "B1": 1}, topology=wish)
    builder.job("v1", queue="a", running={"C1": 1})
    builder.job("b1", queue="b", tasks=2)
    done = builder.run("allocate", "reclaim")  # which looks at every rule
    assert done.placed == {"a1-3": "B1"}
    assert done.evicted == {"a1-2": "B1", "v1-0": "C1"}
