"""Requests for memory of a GPU where cards differ: limits ask about the node that is tried (V2)."""

import numpy as np
import pytest

from kaisched.actions.room.placing import within_bounds
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.engine.policy import default_policy
from kaisched.framework.advice.search import Adviser
from kaisched.framework.session.node_sets import NodeSet
from kaisched.testing import ClusterBuilder
from tests.unit.framework.fakes import cycle, session

pytestmark = pytest.mark.proportion


def memory(mib, cards=1):
    return Constraints(devices=DeviceDemand(0, mib, cards))


class Cluster(ClusterBuilder):
    """GPUs of 40 and of 80 MiB; a pod of 40 is a whole one or half of one."""

    def asks(self, name, mib, **job):
        return self.job(name, **({"queue": "q", "gpu": 0} | job), constraints=memory(mib))


def cluster(*, small=1, large=1, limit=None, quota=4):
    made = Cluster().queue("q", deserved=quota, limit=limit)
    made.node("a40", gpu=small, card_mib=40)
    return made.node("b80", gpu=large, card_mib=80)


def full(made, node, gpu):
    """Let another queue hold GPUs of a node."""
    made.queue("other", deserved=gpu)
    return made.job("full", queue="other", gpu=gpu, running={node: 1})


def record(ran, job):
    (found,) = [it for it in ran.result.records if it.pod_group == f"default/{job}"]
    return found.reason, found.message


def test_a_limit_refuses_no_pod_that_a_large_card_could_take():
    ran = cluster(limit=0.5).asks("new", 40).run()
    assert ran.placed == {"new-0": "b80"}


def test_a_queue_holds_what_its_pods_are_of_the_cards_of_their_nodes():
    made = cluster(limit=1).asks("old", 40, running={"b80": 1}).asks("new", 40)
    assert made.store().snapshot().allocated[2].tolist() == [500]
    assert made.run().placed == {"new-0": "b80"}
    made = cluster(limit=1, large=0).asks("old", 40, running={"a40": 1}).asks("new", 40)
    assert record(made.run(), "new")[0] == "OverLimit"


def test_the_limit_is_asked_about_each_node_that_is_tried():
    made = full(cluster(limit=0.5), "b80", 1).asks("new", 40)
    ran = made.run("allocate", "reclaim")
    assert not ran.placed, "on the small card the pod would be a whole GPU"
    reason, message = record(ran, "new")
    assert reason == "OverLimit"
    assert message.startswith(
        "queue q: gpu 0 held + 1 asked is over its limit of 0.5, counted on the smallest cards; on"
        " cards large enough to stay within it there is too little room. reclaim: queue q: the pod"
        " asks for gpu 1, counted on the smallest cards, more than its fair share of 0.5"
    )
    assert full(cluster(limit=1), "b80", 1).asks("new", 40).run().placed == {"new-0": "a40"}


def test_pods_of_a_gang_are_asked_about_one_after_the_other():
    placed = cluster(limit=1.5, small=2, large=1).asks("new", 40, tasks=2, min_tasks=2).run()
    assert sorted(placed.placed.values()) == ["b80", "b80"]
    made = cluster(limit=2, small=2, large=1).asks("new", 40, tasks=3, min_tasks=3)
    assert sorted(made.run().placed.values()) == ["a40", "b80", "b80"]
    made = cluster(limit=1.9, small=2, large=1).asks("new", 40, tasks=3, min_tasks=3)
    assert not made.run().placed, "a gang above the limit waits whole"


def test_a_gang_fills_the_large_cards_where_the_limit_allows_few_pods_on_small_ones():
    """Four halves of the small card would be two GPUs; four quarters and a half are within it."""
    for limit, started in ((1.5, ["a40"] + ["b80"] * 4), (1.4, [])):
        ran = cluster(limit=limit).asks("new", 20, tasks=5, min_tasks=5).run()
        assert sorted(ran.placed.values()) == started


@pytest.mark.parametrize(
    ("pods", "one_by_one", "together"), [(2, [1, 2, 1, 1], [2]), (1, [1], [1])]
)
def test_pods_of_a_set_with_bounds_are_tried_together_only(pods, one_by_one, together):
    """A bound says how many pods of the whole batch each part of the set gets."""
    made = cluster(limit=pods - 0.5, small=2).asks("new", 40, tasks=pods, min_tasks=pods)
    for most, expected in ((None, one_by_one), ({0: {0: 1, 1: 1}}, together)):
        now, tried = session(made.store().snapshot(), rules=default_policy()), []
        now.action = "allocate"
        around = NodeSet("bounded", np.ones(2, np.bool_), order=np.arange(2), most=most)
        place = within_bounds(lambda _session, _statement, some: tried.append(len(some)))  # noqa: B023
        with now.placement.within(around):
            assert not place(now, now.statement(), np.arange(pods))
        assert tried == expected


def test_the_largest_card_is_not_enough_for_a_gang_above_the_limit():
    ran = cluster(limit=1.4, small=3, large=3).asks("new", 40, tasks=3, min_tasks=3).run()
    assert not ran.placed
    reason, message = record(ran, "new")
    assert reason == "OverLimit"
    assert message.startswith("queue q: gpu 0 held + 1.5 asked is over its limit of 1.4")


def test_the_least_limit_is_advised_that_is_enough_on_some_cards():
    # Half of a large card each: 1.5; or two on the one that is free, and a whole small one: 2.
    for limit, free, advised in ((1.4, 3, "1.5"), (1.5, 1, "2")):
        ran = cluster(limit=float(advised), small=3, large=free).asks(
            "new", 40, tasks=3, min_tasks=3
        )
        assert len(ran.run().placed) == 3
        made = cluster(limit=limit, small=3, large=free).asks("new", 40, tasks=3, min_tasks=3)
        session = cycle(made.store().snapshot(), default_policy())
        (found,) = [it for it in Adviser(session).records() if it.reason == "OverLimit"]
        assert f"; would help: a limit of gpu {advised} for queue q" in found.message


def test_quotas_of_non_preemptible_work_are_asked_in_the_same_way():
    made = cluster(quota=0.5).asks("new", 40, priority=100)
    assert made.run().placed == {"new-0": "b80"}
    made = full(cluster(quota=0.5), "b80", 1).asks("new", 40, priority=100)
    ran = made.run()
    assert not ran.placed
    assert record(ran, "new")[0] == "NonPreemptibleOverQuota"


def test_single_jobs_are_asked_about_one_after_the_other():
    made = cluster(limit=2, small=4, large=1)
    for number in range(4):
        made.asks(f"j{number}", 40)
    ran = made.run()
    assert sorted(ran.placed.values()) == ["a40", "b80", "b80"]
    assert record(ran, "j3")[0] == "OverLimit"


def test_a_pod_that_would_pass_the_limit_waits_for_room_on_a_large_card():
    made = cluster(limit=0.5).queue("other", deserved=1)
    made.job("old", queue="other", gpu=1, leaving={"b80": 1})
    assert made.asks("new", 40).run().promised == {"new-0": "b80"}


def test_a_promise_is_kept_by_the_card_of_its_node():
    made = cluster(limit=0.5).asks("new", 40, promised={"b80": 1})
    assert made.run().placed == {"new-0": "b80"}
    made = cluster(limit=0.5).asks("new", 40, promised={"a40": 1})
    assert made.run().placed == {"new-0": "b80"}, "on the small card it would pass the limit"


def test_reclaim_takes_for_non_preemptible_work_within_the_quota_on_large_cards():
    made = cluster(quota=0.5).queue("other", deserved=0)
    made.job("small", queue="other", gpu=1, running={"a40": 1})
    made.job("large", queue="other", gpu=1, running={"b80": 1})
    ran = made.asks("new", 40, priority=100).run()
    assert set(ran.evicted) == {"large-0"}
    assert ran.promised == {"new-0": "b80"}


def test_a_victim_does_not_move_to_a_card_on_which_it_would_pass_its_limit():
    for limit, moved in ((0.5, {}), (1, {"old-0": "a40"})):
        made = Cluster().queue("q", deserved=0, limit=limit).queue("other", deserved=1)
        made.node("a40", gpu=1, card_mib=40).node("b80", gpu=1, card_mib=80)
        made.asks("old", 40, running={"b80": 1})
        made.job("new", queue="other", gpu=1, on=["b80"])
        ran = made.run()
        assert set(ran.evicted) == {"old-0"}
        assert {pod: node for pod, node in ran.promised.items() if pod != "new-0"} == moved


def test_a_victim_does_not_stay_on_a_card_on_which_its_queue_would_pass_its_limit():
    """The new pod is half of a large card. The old one may stay a whole small one up to 1.5."""
    for limit, moved in ((1.5, {}), (1.4, {"old-0": "b80"})):
        made = cluster(limit=limit).asks("old", 40, running={"a40": 1}, priority=50)
        ran = made.asks("new", 40, priority=60).run()
        assert set(ran.evicted) == set(moved)
        assert {**ran.placed, **ran.promised} == {"new-0": "b80", **moved}


def test_where_cards_are_equal_nothing_differs():
    made = Cluster().queue("q", deserved=4, limit=0.5)
    made.node("a", gpu=1, card_mib=80).node("b", gpu=1, card_mib=80)
    snapshot = made.asks("new", 40).store().snapshot()
    assert snapshot.shapes.by_card is None
    assert made.run().placed == {"new-0": "a"}
