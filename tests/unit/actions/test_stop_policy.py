"""Queues on hold start nothing new; drained ones are emptied; both end when the policy does."""

import pytest

from kaisched.engine.policy import without_evictions
from kaisched.objects.shard import ActionEntry
from tests.cycling import Cycling

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "%d", pods: "99"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", stopPolicy: "%s", resources: {gpu: {quota: %d}}}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team}
spec: {queue: %s, minMember: %d, preemptibility: %s}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  labels: {kai.scheduler/queue: %s}
  annotations: {pod-group-name: %s}
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
---"""


class World(Cycling):
    """A root queue with two below, eight GPUs, and the daemon's turns on it."""

    def __init__(self, evicts=True, **spec):
        super().__init__(1000.0, **spec)
        self.cluster._is_recreating = False
        if not evicts:
            self.policy = without_evictions(self.policy)
        self.load(NODE % ("n0", 8))
        self.stop()

    def stop(self, root="None", a="None", b="None", quota=4):
        self.load(QUEUE % ("root", "", root, 8))
        self.load(QUEUE % ("a", "root", a, quota), QUEUE % ("b", "root", b, quota))

    def job(self, name, queue, pods=1, minimum=None, preemptibility="preemptible"):
        self.load(GROUP % (name, queue, minimum or pods, preemptibility))
        self.load(*(POD % (f"{name}-{at}", queue, name) for at in range(pods)))

    def cycle(self, seconds=2.0):
        """Run a cycle and let what was decided happen."""
        result = super().cycle(seconds).result
        result.encode()
        return result

    def running(self):
        return sorted(
            pod.name
            for pod in self.cluster.pods()
            if pod.spec.node_name and not pod.metadata.deletion_timestamp
        )


def reasons(result):
    return {it.pod_group.removeprefix("team/"): (it.reason, it.message) for it in result.records}


# -- hold ----------------------------------------------------------------------------------------


def test_a_queue_on_hold_starts_nothing_and_says_so():
    world = World()
    world.stop(a="Hold")
    world.job("x", "a")
    world.job("y", "b")
    result = world.cycle()
    assert world.running() == ["y-0"]
    assert reasons(result) == {"x": ("QueueOnHold", "queue a is on hold: stopPolicy")}


def test_what_runs_there_goes_on():
    world = World()
    world.job("x", "a", 2)
    world.cycle()
    world.stop(a="Hold")
    for _ in range(3):
        result = world.cycle()
        assert len(result.evictions) == 0
        assert reasons(result) == {}, "what runs is not told as waiting"
    assert world.running() == ["x-0", "x-1"]


def test_a_queue_above_holds_all_below_and_is_named():
    world = World()
    world.stop(root="Hold")
    world.job("x", "a")
    assert reasons(world.cycle())["x"] == ("QueueOnHold", "queue root is on hold: stopPolicy")


def test_a_hold_ends_when_the_policy_does():
    world = World()
    world.stop(a="Hold")
    world.job("x", "a")
    world.cycle()
    world.stop()
    world.cycle()
    assert world.running() == ["x-0"]


def test_what_waits_on_hold_takes_no_share_from_others():
    world = World()
    world.stop(a="Hold", quota=0)
    world.job("x", "a", 8)
    world.job("y", "b", 8)
    shares = {it.name: it for it in world.cycle().shares}
    assert shares["a"].fair_share["gpu"] == 0
    assert shares["a"].requested["gpu"] == 0
    assert shares["b"].fair_share["gpu"] == 8000


def test_a_running_gang_that_lost_a_pod_may_have_another():
    world = World()
    world.job("x", "a", 2)
    world.cycle()
    world.stop(a="Hold")
    world.cluster.delete(world.cluster.pod("team/x-1"))
    world.cluster.advance_to(world.cluster.clock.now_s() + 10)
    world.load(POD % ("x-2", "a", "x"))
    world.cycle()
    assert world.running() == ["x-0", "x-2"]


def test_an_elastic_job_does_not_grow_on_hold():
    world = World()
    world.job("x", "a", 1, minimum=1)
    world.cycle()
    world.stop(a="Hold")
    world.load(POD % ("x-9", "a", "x"))
    assert reasons(world.cycle())["x"][0] == "QueueOnHold"
    assert world.running() == ["x-0"]


def test_a_hold_is_no_ground_to_take_from_others():
    """The job that waits has a right to room, but may not use it."""
    world = World()
    world.job("y", "b", 8, minimum=1)
    world.cycle()
    world.stop(a="Hold")
    world.job("x", "a", 4)
    assert len(world.cycle().evictions) == 0


# -- drain ---------------------------------------------------------------------------------------


def test_a_drained_queue_is_emptied_whatever_runs_there():
    world = World()
    world.job("x", "a", 2)
    world.job("z", "a", 1, preemptibility="non-preemptible")
    world.job("y", "b", 1)
    world.cycle()
    world.stop(a="HoldAndDrain")
    result = world.cycle()
    assert sorted(it.pod for it in result.evictions) == ["team/x-0", "team/x-1", "team/z-0"]
    assert {(it.action, it.reason) for it in result.evictions} == {
        ("drain", "queue a is drained: stopPolicy HoldAndDrain")
    }
    assert world.running() == ["y-0"]
    assert len(world.cycle(10.0).evictions) == 0


def test_what_waits_in_a_drained_queue_says_so():
    world = World()
    world.stop(a="HoldAndDrain")
    world.job("x", "a")
    assert reasons(world.cycle())["x"] == (
        "QueueOnHold",
        "queue a is on hold and drained: stopPolicy",
    )


def test_the_strictest_policy_on_the_path_counts():
    world = World()
    world.job("x", "a")
    world.cycle()
    world.stop(root="HoldAndDrain", a="Hold")
    assert [it.action for it in world.cycle().evictions] == ["drain"]


def test_a_shard_may_leave_draining_out():
    world = World(actions={"drain": ActionEntry(enabled=False)})
    world.job("x", "a")
    world.cycle()
    world.stop(a="HoldAndDrain")
    assert len(world.cycle().evictions) == 0


# -- the eviction budget and the kill switch -----------------------------------------------------


def full(world):
    """Queue b holds all eight GPUs in jobs of one pod; then a wants its four."""
    for number in range(8):
        world.job(f"y{number}", "b")
    world.cycle()
    assert len(world.running()) == 8


def test_no_more_than_the_budget_is_evicted_in_an_hour():
    world = World(evictions_per_hour=3)
    full(world)
    for number in range(4):
        world.job(f"x{number}", "a")
    first = world.cycle(10.0)
    assert len(first.evictions) == 3
    second = world.cycle(10.0)
    assert len(second.evictions) == 0
    (waiting,) = [it for it in second.records if it.pod_group.startswith("team/x")]
    assert "the shard may not evict so many pods within the hour" in waiting.message
    world.cluster.advance_to(1000.0 + 3600.0 + 5.0)
    assert len(world.cycle(10.0).evictions) == 1


def test_a_gang_is_not_made_room_for_by_halves():
    world = World(evictions_per_hour=3)
    full(world)
    world.job("x", "a", 4)
    assert len(world.cycle().evictions) == 0
    world.job("small", "a", 2)
    assert len(world.cycle().evictions) == 2


@pytest.mark.parametrize("switch", [{"evictions_per_hour": 0}, {"evicts": False}])
def test_the_kill_switch_evicts_nothing_and_goes_on_allocating(switch):
    world = World(**switch)
    world.job("y", "b", 7, minimum=1)
    world.cycle()
    world.job("x", "a", 4)
    world.job("small", "a")
    result = world.cycle()
    assert len(result.evictions) == 0
    assert "small-0" in world.running()
    refused = "reclaim, preempt, consolidate: the shard may not evict so many pods"
    assert refused in reasons(result)["x"][1]
    world.stop(b="HoldAndDrain")
    assert len(world.cycle().evictions) == 0


def test_drains_count_and_are_bounded():
    world = World(evictions_per_hour=2)
    for number in range(3):
        world.job(f"x{number}", "a")
    world.cycle()
    world.stop(a="HoldAndDrain")
    assert len(world.cycle().evictions) == 2
    assert len(world.cycle().evictions) == 0
    assert len(world.running()) == 1


# -- the most that a cycle evicts ------------------------------------------------------------------


def test_a_cycle_evicts_no_more_than_it_may_and_the_next_one_goes_on():
    world = World(max_evictions_per_cycle=2)
    full(world)
    for number in range(4):
        world.job(f"x{number}", "a")
    first = world.cycle(10.0)
    assert len(first.evictions) == 2
    assert first.is_cut_short
    waiting = reasons(first)["x3"][1]
    assert "reclaim, preempt, consolidate: the cycle has evicted as many pods as one may" in waiting
    second = world.cycle(10.0)
    assert len(second.evictions) == 2
    world.cycle(10.0)
    assert not world.cycle(10.0).is_cut_short
    assert {f"x{number}-0" for number in range(4)} <= set(world.running())


def test_who_comes_before_the_limit_is_served_whole():
    world = World(max_evictions_per_cycle=1)
    full(world)
    world.job("x", "a", 4)
    result = world.cycle(10.0)
    assert len(result.evictions) == 4
    assert result.is_cut_short


def test_drains_end_at_the_limit_and_go_on_in_the_next_cycle():
    world = World(max_evictions_per_cycle=2)
    for number in range(3):
        world.job(f"x{number}", "a")
    world.cycle()
    world.stop(a="HoldAndDrain")
    assert [len(world.cycle().evictions) for _ in range(3)] == [2, 1, 0]
