"""What a cycle has made is free as soon as its result is let go: no search for garbage is needed.

A session that is part of a ring keeps the columns of its snapshot, and the store's lists behind
them, until Python comes to search among old objects, which may take it an hour.
"""

import gc
from contextlib import contextmanager

import pytest

from kaisched.clock import ManualClock
from kaisched.engine.policy import default_policy
from kaisched.framework import cycle
from kaisched.framework.memory import Memory
from kaisched.telemetry.stopwatch import Stopwatch
from tests.laws.clusters import NOW_S, make_cluster
from tests.laws.crowded import make_crowded

POLICY = default_policy()
EVICTING = {"reclaim": 6, "preempt": 14, "consolidate": 39}
"""Seeds of crowded clusters in which the action evicts somebody."""


@contextmanager
def rings():
    """Collect, in a list, the names of our classes of which objects are kept alive by rings."""
    found = []
    gc.collect()
    gc.freeze()  # what is there already is not looked at
    gc.disable()
    flags = gc.get_debug()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = (it for it in gc.garbage if type(it).__module__.startswith("kaisched"))
        found += sorted({type(it).__qualname__ for it in ours})
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.enable()
        gc.unfreeze()


def turns(store):
    """Run three cycles, read all they say, and return the actions that evicted somebody."""
    watch, memory, evicted = Stopwatch(ManualClock(NOW_S).now_s), Memory(), set()
    for later_s in (0.0, 1.0, 100.0):
        store.revision += 1
        snapshot, now_s = store.snapshot(), NOW_S + later_s
        result, memory = cycle.run_cycle(snapshot, None, POLICY, now_s, memory, watch)
        evicted |= {it.action for it in result.evictions}
        assert len(list(result.records)) == len(result.records)
    return evicted


@pytest.mark.fault("I132")
@pytest.mark.parametrize("action", ["", *EVICTING])
def test_a_cycle_leaves_no_rings(action):
    store = (make_crowded(EVICTING[action]) if action else make_cluster(3)).store()
    with rings() as found:
        evicted = turns(store)
    assert not action or action in evicted
    assert not found
