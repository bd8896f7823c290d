"""Intents that a cycle passes on."""

import pytest

from kaisched.clock import ManualClock
from kaisched.engine.policy import default_policy
from kaisched.framework import cycle
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.combine import CycleAbandonedError
from tests.contract.clusters import pod
from tests.faults.deciding import store_of


class Sink:
    def __init__(self):
        self.applied = []

    def apply(self, *intents):
        self.applied.append([len(it) for it in intents])


def cycle_of(store):
    sink = Sink()
    cycle = next_cycle(store, sink, default_policy(), None, ManualClock(1e9), Memory())
    return cycle, sink.applied


@pytest.mark.fault("I124")
def test_a_cycle_that_decides_nothing_is_handed_over_too():
    """The keeper of promises learns from the empty result that there are none."""
    done, applied = cycle_of(store_of())
    assert not done.has_intents
    assert applied == [[0, 0, 0]]
    assert cycle_of(store_of(pod("p")))[1] == [[1, 0, 0]]


def test_a_cycle_that_was_abandoned_is_not(monkeypatch):
    def abandoned(*_):
        raise CycleAbandonedError("a test")

    monkeypatch.setattr(cycle, "run_contained", abandoned)
    done, applied = cycle_of(store_of(pod("p")))
    assert done.result.stats.abandoned
    assert applied == []
