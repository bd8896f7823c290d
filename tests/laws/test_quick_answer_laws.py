"""Quick answers of consolidation and of evictions: they spare work and change no decision."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.actions import consolidate
from kaisched.actions.room.clearing import Prices
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.capacity import Capacity, room_of
from tests.laws.clusters import NOW_S
from tests.laws.crowded import carried_out, make_crowded, moves_of

SEEDS = range(40)
POLICY = default_policy()


def crowd(seed):
    """A cluster of several nodes, most of which are in pieces."""
    sizes = {"nodes": 3 + seed % 5, "queues": 3 + seed % 4, "running": 4 + seed % 9}
    return make_crowded(seed, pending=2 + seed % 5, **sizes)


def told(seed):
    """Return all that two cycles decide and say."""
    most = (16, 2, -1)[seed % 3]
    policy = replace(POLICY, max_consolidation_preemptees=most)
    cluster, memory, found = crowd(seed), Memory(), []
    for _ in range(2):
        result, memory = run_cycle(cluster.store().snapshot(), None, policy, NOW_S, memory)
        found += [*moves_of(result), *map(repr, result.evictions), *map(repr, result.records)]
        found += [repr(result.failures), repr(memory.facts)]
        cluster = carried_out(cluster, result)
    return found


@pytest.fixture(scope="module")
def quick():
    """What the cycles decide and say as they are, with every quick answer."""
    return [told(seed) for seed in SEEDS]


def test_jobs_without_a_place_are_told_apart_with_the_same_result(monkeypatch, quick):
    without_place, found = consolidate.without_place, []
    monkeypatch.setattr(
        consolidate, "without_place", lambda *args: found.extend(without_place(*args)) or []
    )
    assert [told(seed) for seed in SEEDS] == quick
    assert found


def test_clearings_are_drawn_once_with_the_same_result(monkeypatch, quick):
    drawn = []
    cheapest_first = Prices.cheapest_first

    def anew(self, *args):
        drawn.append(self._drawn is not None)
        self.forget()
        return cheapest_first(self, *args)

    monkeypatch.setattr(Prices, "cheapest_first", anew)
    assert [told(seed) for seed in SEEDS] == quick
    assert any(drawn)


def test_room_that_is_kept_is_the_room_of_now(monkeypatch):
    asked = []
    by_amounts = Capacity._by_amounts

    def checked(self, shape):
        room = by_amounts(self, shape)
        np.testing.assert_array_equal(room, room_of(self.free(), self._request[:, shape]))
        asked.append(len(self.touched))
        return room

    monkeypatch.setattr(Capacity, "_by_amounts", checked)
    for seed in SEEDS:
        told(seed)
    assert any(asked)
