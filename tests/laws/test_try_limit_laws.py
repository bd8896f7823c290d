"""The try limit: what a queue asks of a cycle is bounded, and nobody is put off for good."""

import random

import pytest

from kaisched.actions.order import tries
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.constraints import Constraints
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory

pytestmark = pytest.mark.fault("I123")
POLICY = default_policy()
NEVER = 1 << 30
SEEDS = pytest.mark.parametrize("seed", range(4))
PUT_OFF = TEXTS[Refusal.PUT_OFF].name
NOWHERE = Constraints(node_selector=(("rack", "nowhere"),))


class World:
    """Two queues on a few nodes, and cycles whose decisions are carried out."""

    def __init__(self, nodes=3):
        self.store = RowStore()
        room = {"cpu": 16_000, "memory": 64, "gpu": 4000, "pods": 50}
        for row in range(nodes):
            self.store.put_node(NodeRow(f"n{row}", room, labels={"rack": f"r{row}"}))
        for name in "ab":
            self.store.put_queue(QueueRow(name, quota={"gpu": 2000 * nodes}))
        self.store.settle()
        self.memory = Memory()
        self.results = []

    def job(self, name, request, constraints=NOWHERE, *, queue="a", priority=50, created_s=0.0):
        shape = self.store.intern_shape(request, constraints)
        return self.store.add_job(
            name,
            queue,
            priority=priority,
            is_preemptible=True,
            created_s=created_s,
            tasks=[(f"{name}-0", shape)],
        )

    def cycle(self, *, forgets=False):
        memory = self.memory.without_hints() if forgets else self.memory
        snapshot = self.store.snapshot()
        now_s = 1e6 + len(self.results)
        result, self.memory = run_cycle(snapshot, None, POLICY, now_s, memory)
        assert not violations(snapshot, result, POLICY)
        assert not result.failures
        self.results.append(result.encode())
        self.store.place(result.bind_tasks, result.bind_nodes)
        return result

    def put_off(self, result):
        return {record.pod_group for record in result.records if record.reason == PUT_OFF}


def arrivals(world, rng, turn):
    """Let jobs of many classes come, for room there is and for none."""
    for number in range(rng.randint(0, 6)):
        constraints = rng.choice([Constraints(), NOWHERE])
        request = {"cpu": 100 * rng.randint(1, 30), "gpu": 1000 * rng.randint(0, 4)}
        priority = rng.choice([50, 50, 75])
        queue = rng.choice("aab")
        name = f"x/j{turn:02}-{number}"
        world.job(name, request, constraints, queue=queue, priority=priority, created_s=turn)


def history(seed, *, forgets=False):
    """Run fifteen cycles with a small limit; return what each decided and how many were put off."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tries, "TRIES", 4)
        patch.setattr(tries, "CLAIM_TRIES", 2)
        rng, world, held_up = random.Random(seed), World(), 0
        for turn in range(15):
            arrivals(world, rng, turn)
            held_up += sum(world.cycle(forgets=forgets).put_off.values())
    return world.results, held_up


@SEEDS
def test_dropped_hints_change_no_decision(seed):
    assert history(seed)[0] == history(seed, forgets=True)[0]


def test_jobs_are_put_off_in_these_histories():
    assert history(0)[1] > 20


@pytest.mark.parametrize("a_cycle", [1, 3, 12])
def test_nobody_starves_behind_a_stream_of_arrivals(a_cycle):
    """What waits when a round begins has its turn in it, however urgent those are who come."""
    world = World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tries, "TRIES", 6)
        patch.setattr(tries, "CLAIM_TRIES", 2)
        first = {f"x/first-{number}" for number in range(20)}
        for name in sorted(first):
            world.job(name, {"cpu": 100 + len(world.store.jobs.name.data)}, created_s=5.0)
        waits = set(first)
        for turn in range(8):
            for number in range(a_cycle):
                request = {"cpu": 1000 + turn * 20 + number}
                name = f"x/late-{turn}-{number}"
                world.job(name, request, priority=75, created_s=10.0 + turn)
            result = world.cycle()
            waits &= world.put_off(result)
        assert not waits


def test_what_fails_in_a_cycle_is_bounded_and_said():
    world = World()
    for number in range(500):
        world.job(f"x/j{number}", {"cpu": 100 + number}, created_s=number)
    result = world.cycle()
    tried = 500 - result.put_off["a"]
    assert tries.TRIES <= tried <= tries.TRIES + tries.CLAIM_TRIES
    assert len(world.put_off(result)) == result.put_off["a"]
    (record,) = [one for one in result.records if one.pod_group == "x/j400"]
    assert record.message == TEXTS[Refusal.PUT_OFF].sentence


def test_what_finds_a_place_costs_nothing():
    """A burst of different jobs that all fit starts in one cycle, as without a limit."""
    world = World(nodes=40)
    for number in range(300):
        world.job(f"x/j{number}", {"cpu": 100 + number}, Constraints(), created_s=number)
    assert world.cycle().bind_tasks.size == 300


def test_the_first_in_line_is_served_whatever_else_goes_round():
    world = World()
    for number in range(2000):
        world.job(f"x/j{number:04}", {"cpu": 100 + number}, created_s=0.0)
    world.cycle()
    world.job("x/urgent", {"cpu": 99}, Constraints(), priority=75, created_s=9.0)
    assert world.cycle().bind_tasks.size == 1


def test_other_queues_are_not_limited_along():
    world = World()
    for number in range(500):
        world.job(f"x/j{number}", {"cpu": 100 + number})
    for number in range(10):
        world.job(f"y/j{number}", {"cpu": 100 + number}, Constraints(), queue="b")
    result = world.cycle()
    assert result.bind_tasks.size == 10
    assert set(result.put_off) == {"a"}


def test_many_jobs_of_few_classes_are_all_tried():
    world = World()
    for number in range(2000):
        world.job(f"x/j{number}", {"cpu": 100 + number % 20})
    assert not world.cycle().put_off
