"""Comparison with another scheduler: when, where and in which order jobs start."""

import pytest

from kaisched.clock import ManualClock
from kaisched.daemon.comparison import Comparison
from kaisched.engine.planning import open_cluster
from kaisched.engine.policy import default_policy, default_shard
from kaisched.framework.cycle import next_cycle
from kaisched.framework.intents import Bind
from kaisched.framework.memory import Memory
from tests.cycling import objects_of

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "4", pods: "20"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {resources: {gpu: {quota: 4, limit: %d}}}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team}
spec: {queue: %s, minMember: %d}
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
  schedulerName: kai-scheduler
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "%d"}}}]
---"""


class Nothing:
    """A sink that discards intents."""

    def apply(self, binds, evictions, nominations):
        pass


class Watched:
    """A cluster where another scheduler acts, and a comparison that gets our turns."""

    def __init__(self, limit=-1):
        self.cluster = open_cluster(default_shard(), default_policy(), ManualClock(1000.0))
        self.load(NODE % "n0", NODE % "n1", QUEUE % ("a", limit))
        self.comparison = Comparison()
        self.memory = Memory()

    def load(self, *texts):
        self.cluster.load(objects_of(*texts))

    def job(self, name, pods=1, gpus=1):
        self.load(GROUP % (name, "a", pods))
        self.load(*(POD % (f"{name}-{at}", "a", name, gpus) for at in range(pods)))

    def cycle(self, seconds=1.0):
        """Advance time and run a cycle; return what the other scheduler has started meanwhile."""
        self.cluster.advance_to(self.cluster.clock.now_s() + seconds)
        cycle = next_cycle(
            self.cluster, Nothing(), default_policy(), None, self.cluster.clock, self.memory
        )
        self.memory = cycle.memory
        return self.comparison.after(cycle)

    def theirs(self, pod, node):
        """Bind as the other scheduler would."""
        uid = self.cluster.pod(f"team/{pod}").metadata.uid
        self.cluster.apply([Bind(f"team/{pod}", uid, node, "", -1, -1)], [], [])


@pytest.fixture
def watched():
    return Watched()


def test_the_same_start_is_full_agreement(watched):
    watched.job("j", pods=2)
    watched.cycle()
    for at in range(2):
        watched.theirs(f"j-{at}", "n0")
    (started,) = watched.cycle()
    assert started == ("team/j", "a", "same_time", 1.0, 2, 2, 0, True)
    assert watched.comparison.document()["agreement"] == {"time": 1.0, "node": 1.0, "order": 1.0}


def test_pods_that_are_alike_may_change_places(watched):
    watched.job("j", pods=2, gpus=3)
    watched.cycle()
    watched.theirs("j-0", "n1")
    watched.theirs("j-1", "n0")
    (started,) = watched.cycle()
    assert (started.same_node, started.other_node) == (2, 0)


def test_other_nodes_are_told(watched):
    watched.job("j")
    watched.cycle()
    watched.theirs("j-0", "n1")
    (started,) = watched.cycle()
    assert (started.pods, started.same_node, started.other_node) == (1, 0, 1)
    assert watched.comparison.total.pods == {"same_node": 0, "other_node": 1, "not_placed": 0}


def test_a_job_that_we_would_have_started_earlier_has_its_lead(watched):
    watched.job("j")
    for _ in range(20):
        assert watched.cycle() == []
    watched.theirs("j-0", "n0")
    (started,) = watched.cycle()
    assert (started.time, started.lead_s) == ("earlier", 20.0)


def test_a_job_that_we_would_not_start_is_told(watched):
    watched = Watched(limit=0)
    watched.job("j")
    watched.cycle()
    watched.theirs("j-0", "n0")
    (started,) = watched.cycle()
    assert (started.time, started.lead_s, started.same_node, started.other_node) == (
        "not_yet",
        0.0,
        0,
        0,
    )
    assert watched.comparison.total.pods["not_placed"] == 1


def test_a_job_that_overtakes_one_we_would_have_started_first_is_out_of_order(watched):
    watched.job("first", gpus=4)
    watched.cycle()
    watched.cycle()
    watched.job("second", gpus=4)
    watched.cycle()
    watched.theirs("second-0", "n1")
    (second,) = watched.cycle()
    assert second.is_in_order is False
    watched.theirs("first-0", "n0")
    (first,) = watched.cycle()
    assert first.is_in_order is True
    assert watched.comparison.document()["order"] == {"same_order": 1, "other_order": 1}


def test_what_was_deleted_was_not_started(watched):
    watched.job("j")
    watched.cycle()
    watched.cluster.delete(watched.cluster.pod("team/j-0"))
    assert watched.cycle() == []
    assert watched.comparison._first_s == {}


def test_another_pod_of_the_same_name_waits_anew(watched):
    watched.job("j")
    watched.cycle()
    watched.cluster.delete(watched.cluster.pod("team/j-0"))
    watched.cycle()
    watched.job("j")
    watched.cycle()
    watched.theirs("j-0", "n0")
    (started,) = watched.cycle()
    assert started.lead_s == 1.0


def test_the_document_has_every_queue_and_no_job(watched):
    watched.job("j")
    watched.cycle()
    watched.theirs("j-0", "n0")
    watched.cycle()
    document = watched.comparison.document()
    assert document["schemaVersion"] == "kaisched.io/observed/v1"
    assert document["queues"]["a"]["jobs"] == {"same_time": 1, "earlier": 0, "not_yet": 0}
    assert "team/j" not in str(document)
    assert Comparison().document()["agreement"] == {"time": None, "node": None, "order": None}
