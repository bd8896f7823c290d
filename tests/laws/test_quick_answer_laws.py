"""Room that is kept from question to question is the room of now."""

import numpy as np

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.capacity import Capacity, room_of
from tests.laws.clusters import NOW_S
from tests.laws.crowded import carried_out, make_crowded

SEEDS = range(40)
POLICY = default_policy()


def crowd(seed):
    """A cluster of several nodes, most of which are in pieces."""
    sizes = {"nodes": 3 + seed % 5, "queues": 3 + seed % 4, "running": 4 + seed % 9}
    return make_crowded(seed, pending=2 + seed % 5, **sizes)


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
        cluster, memory = crowd(seed), Memory()
        for _ in range(2):
            result, memory = run_cycle(cluster.store().snapshot(), None, POLICY, NOW_S, memory)
            cluster = carried_out(cluster, result)
    assert any(asked)
