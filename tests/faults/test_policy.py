"""What becomes of claims, searches and usage when others do not play along: rows F and H."""

import time
from dataclasses import replace

import pytest

from kaisched.actions.eviction import search
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.usage import PARTS
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import MemoryStore, Window
from tests.laws.clusters import Cluster
from tests.laws.crowded import carried_out
from tests.unit.actions.test_search import decide, evicted, job, node, promised, queue

CLAIMED = Cluster(
    (node("n0", 2), node("n1", 2)),
    (queue("q", 0), queue("r", 3)),
    (job("g", "q", (2, 1, "n0")), job("h", "q", (2, 1, "n1")), job("w", "r", (2, 1))),
)


def binds(result):
    return {each.pod.partition("/")[2]: each.node for each in result.binds}


def claimed():
    """Return the cluster in which one of two jobs was evicted for w."""
    result, broken = decide(CLAIMED)
    (victim,) = evicted(result)
    assert broken == []
    return victim, result


@pytest.mark.fault("F96")
def test_nobody_else_is_evicted_for_who_is_gone():
    """The room that was freed goes to whoever waits; the victim's job is the only one."""
    victim, result = claimed()
    after = carried_out(CLAIMED, result)
    without = replace(after, jobs=tuple(one for one in after.jobs if one.name != "w"))
    result, broken = decide(without)
    assert (evicted(result), broken) == ([], [])
    assert set(binds(result)) == {victim}


@pytest.mark.fault("F97")
@pytest.mark.parametrize("state", [TaskState.RELEASING, TaskState.STUCK])
def test_a_victim_that_does_not_leave_is_a_reason_to_evict_another_only_when_it_is_stuck(state):
    victim, result = claimed()
    (node_of_victim,) = promised(result).values()

    changes = {
        victim.removesuffix("-0"): {"state": state},
        "w": {"nominated": node_of_victim},
    }

    def changed(one):
        pods = [replace(task, **changes.get(one.name, {})) for task in one.tasks]
        return replace(one, tasks=tuple(pods))

    leaving = replace(CLAIMED, jobs=tuple(map(changed, CLAIMED.jobs)))
    result, broken = decide(leaving)
    assert (binds(result), broken) == ({}, [])
    if state == TaskState.RELEASING:
        assert (evicted(result), promised(result)) == ([], {"w-0": node_of_victim})
    else:
        assert evicted(result) == sorted({"g-0", "h-0"} - {victim})
        assert promised(result)["w-0"] != node_of_victim


@pytest.mark.fault("F101")
@pytest.mark.parametrize("steps", [0, search.STEPS])
def test_a_search_ends_with_its_budget_and_the_next_job_is_tried(steps, monkeypatch):
    """Its two pods fit each on n0 once that is free, but not both: it must be tried to be seen."""
    monkeypatch.setattr(search, "STEPS", steps)
    cluster = Cluster(
        (node("n0", 5), node("n1", 5), node("n2", 1)),
        (queue("q", 0), queue("r", 11)),
        (
            job("g", "q", (5, 1, "n0"), created_s=1.0),
            job("h", "q", (5, 1, "n1")),
            job("i", "q", (1, 1, "n2")),
            job("wide", "r", (4, 1), (3, 2), minimum=2, priority=60),
            job("small", "r", (1, 1)),
        ),
    )
    result, broken = decide(cluster)
    assert broken == []
    assert ("wide-0" in promised(result)) == (steps > 0)
    assert "small-0" in promised(result)


@pytest.mark.fault("F101")
def test_a_hopeless_gang_among_many_victims_does_not_take_for_ever():
    """400 victims on 100 nodes, each of which has a pod that may not be moved."""
    nodes = tuple(node(f"n{at:02d}", 5) for at in range(100))
    victims = [
        job(f"v{at}-{number}", "q", (1, 1, f"n{at:02d}"), created_s=float(number))
        for at in range(100)
        for number in range(4)
    ]
    fixed = [job(f"f{at}", "q", (1, 1, f"n{at:02d}"), is_preemptible=False) for at in range(100)]
    wide = job("wide", "r", *[(4, 1), (3, 2)] * 60, minimum=120, priority=60)
    small = job("small", "r", (2, 1))
    cluster = Cluster(nodes, (queue("q", 100), queue("r", 400)), (*victims, *fixed, wide, small))
    begin_s = time.process_time()
    result, broken = decide(cluster)
    assert time.process_time() - begin_s < 20.0
    assert broken == []
    assert len(evicted(result)) == 2
    assert list(promised(result)) == ["small-0"]


@pytest.mark.fault("H115")
def test_a_thousand_gangs_that_ask_for_everything_stop_nobody():
    gangs = [
        job(f"g{at:03d}", "greedy", *[(8, 1)] * 50, minimum=50, created_s=-1.0)
        for at in range(1000)
    ]
    small = [job("s", "modest", (1, 1)), job("t", "greedy", (1, 1))]
    cluster = Cluster(
        (node("n0", 8), node("n1", 8)), (queue("greedy", 8), queue("modest", 8)), (*gangs, *small)
    )
    result, broken = decide(cluster)
    assert broken == []
    assert set(binds(result)) == {"s-0", "t-0"}


@pytest.mark.fault("H117")
def test_a_queue_that_is_made_anew_leaves_its_usage_with_its_parent():
    store = RowStore()
    store.put_node(NodeRow("n0", {"cpu": 8000, "memory": 1024, "gpu": 2000, "pods": 9}))
    for name, parent in (("department", ""), ("team-1", "department"), ("other", "")):
        store.put_queue(QueueRow(name, parent))
    shape = store.intern_shape({"cpu": 1000, "gpu": 1000})
    row = {"priority": 50, "is_preemptible": True, "created_s": 0.0}
    store.add_job("ns/j", "team-1", tasks=[("ns/j-0", shape)], **row)
    store.snapshot()
    store.set_state(0, TaskState.RUNNING, 0)
    feed = UsageFeed(MemoryStore(Window()), fetch_s=60)
    for at in range(3):
        feed.usage(store.snapshot(), 60.0 * at)
    store.set_state(0, TaskState.GONE)
    store.remove_queue("team-1")
    store.put_queue(QueueRow("team-2", "department"))
    usage = feed.usage(store.snapshot(), 120.0)
    gpus = dict(zip(store.snapshot().queues.name, usage.parts[2].tolist(), strict=True))
    assert gpus == {"department": PARTS // 2, "other": 0, "team-2": 0}
