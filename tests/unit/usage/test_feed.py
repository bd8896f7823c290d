"""Usage of a turn: when the store is asked, and which answers are not used."""

import numpy as np
import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.usage import PARTS, Usage, UsageState
from kaisched.usage.feed import UsageFeed, believed
from kaisched.usage.history import MemoryStore, Window


def cluster():
    """Two GPUs; queue inner has the leaf a, which holds one of them."""
    store = RowStore()
    store.put_node(NodeRow("n0", {"cpu": 8000, "memory": 1024, "gpu": 2000, "pods": 9}))
    store.put_queue(QueueRow("inner"))
    store.put_queue(QueueRow("a", parent="inner"))
    store.put_queue(QueueRow("b"))
    shape = store.intern_shape({"cpu": 1000, "gpu": 1000})
    store.add_job("j", "a", priority=50, is_preemptible=True, created_s=0.0, tasks=[("j-0", shape)])
    store.snapshot()
    store.set_state(0, TaskState.RUNNING, 0)
    return store


@pytest.mark.fault("H117")
def test_a_turn_is_a_sample_at_every_level_of_the_tree():
    snapshot = cluster().snapshot()
    feed = UsageFeed(MemoryStore(Window()), fetch_s=60)
    feed.usage(snapshot, 0.0)
    usage = feed.usage(snapshot, 60.0)
    gpus = dict(zip(snapshot.queues.name, usage.parts[2].tolist(), strict=True))
    assert gpus == {"a": PARTS // 2, "b": 0, "inner": PARTS // 2}
    assert (usage.state, usage.coverage) == (UsageState.FRESH, 1.0)


def test_the_answer_stays_until_it_is_time_for_another():
    snapshot = cluster().snapshot()
    feed = UsageFeed(MemoryStore(Window()), fetch_s=60)
    first = feed.usage(snapshot, 0.0)
    later = feed.usage(snapshot, 59.0)
    assert later.parts is first.parts
    assert (first.age_s, later.age_s) == (0.0, 59.0)
    assert feed.usage(snapshot, 60.0).parts is not first.parts


def test_new_queues_are_asked_about_at_once():
    store = cluster()
    feed = UsageFeed(MemoryStore(Window()), fetch_s=60)
    feed.usage(store.snapshot(), 0.0)
    store.put_queue(QueueRow("c"))
    snapshot = store.snapshot()
    assert feed.usage(snapshot, 1.0).parts.shape[1] == len(snapshot.queues) == 4


def test_a_clock_that_was_set_back_does_not_stop_the_asking():
    snapshot = cluster().snapshot()
    feed = UsageFeed(MemoryStore(Window()), fetch_s=60)
    first = feed.usage(snapshot, 1000.0)
    assert feed.usage(snapshot, 10.0).parts is not first.parts


@pytest.mark.parametrize(("coverage", "is_used"), [(0.5, True), (0.49, False)])
def test_history_of_which_less_than_half_was_seen_is_told_and_not_used(coverage, is_used):
    usage = believed(Usage(np.array([[7]]), 1.0, coverage))
    assert usage.parts.tolist() == [[7 if is_used else 0]]
    assert bool(usage.reasons) is not is_used
    assert usage.coverage == coverage
    if not is_used:
        assert usage.state == UsageState.PARTIAL
        assert usage.reasons == ("less than 50% of the window was seen: history is not used",)
