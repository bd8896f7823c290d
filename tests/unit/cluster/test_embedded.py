"""The kubelet stand-in: what happens to a pod and when, on a clock moved by hand."""

import pytest

from kaisched.clock import ManualClock, SystemClock
from kaisched.cluster.embedded import HISTORY_LENGTH, EmbeddedCluster
from kaisched.engine.planning import fill
from kaisched.errors import ObjectError
from kaisched.framework.intents import Bind, Evict
from kaisched.objects.load import load_text
from kaisched.objects.workloads import Job
from tests.contract.clusters import make, node, pod, queue


def cluster_of(*objects, **options):
    cluster = EmbeddedCluster(**options)
    cluster.load([node("n0", 2), queue("a"), *objects])
    return cluster


def bind(cluster, name, to="n0"):
    cluster.apply(
        [Bind(f"ns/{name}", cluster.pod(f"ns/{name}").metadata.uid, to, "", 0, 0)], [], []
    )


def evict(cluster, name):
    uid = cluster.pod(f"ns/{name}").metadata.uid
    cluster.apply([], [Evict(f"ns/{name}", uid, "n0", "", "reclaim", "b", "over share", 0, 0)], [])


def timeline(cluster):
    return [(it.at_s, it.what) for it in cluster.history]


def test_a_pod_starts_runs_and_ends():
    cluster = cluster_of(pod("p", annotations={"kaisched.io/run-seconds": "10"}), start_delay_s=2)
    assert cluster.next_event_s() is None
    bind(cluster, "p")
    assert cluster.next_event_s() == 2
    cluster.advance_to(5)
    assert cluster.pod("ns/p").status.phase == "Running"
    assert cluster.next_event_s() == 12
    cluster.advance_to(100)
    assert timeline(cluster) == [(0, "created"), (0, "bound"), (2, "started"), (12, "ended")]
    assert cluster.snapshot().nodes.idle[2, 0] == 2000
    assert cluster.clock.now_s() == 100


def test_a_pod_without_a_run_time_runs_for_ever():
    cluster = cluster_of(pod("p"))
    bind(cluster, "p")
    cluster.advance_to(1)
    assert cluster.next_event_s() is None


def test_an_evicted_pod_comes_back_as_another():
    cluster = cluster_of(pod("p"), grace_s=3)
    bind(cluster, "p")
    cluster.advance_to(10)
    before = cluster.pod("ns/p").metadata.uid
    evict(cluster, "p")
    cluster.advance_to(20)
    assert timeline(cluster)[3:] == [(10, "evicted"), (13, "released"), (13, "created")]
    after = cluster.pod("ns/p")
    assert (after.metadata.uid != before, after.spec.node_name) == (True, "")
    assert cluster.history[3].detail == "over share"


def test_an_evicted_pod_may_stay_away():
    cluster = cluster_of(pod("p"), is_recreating=False)
    bind(cluster, "p")
    evict(cluster, "p")
    cluster.advance_to(20)
    assert cluster.pod("ns/p") is None


def test_a_pod_evicted_before_its_start_never_starts():
    cluster = cluster_of(pod("p"), start_delay_s=5, grace_s=1, is_recreating=False)
    bind(cluster, "p")
    evict(cluster, "p")
    cluster.advance_to(20)
    assert [what for _, what in timeline(cluster)] == ["created", "bound", "evicted", "released"]


def test_a_deleted_pod_does_not_come_back():
    cluster = cluster_of(pod("p"), pod("q"))
    bind(cluster, "p")
    cluster.delete(pod("p"))
    cluster.delete(pod("q"))
    cluster.advance_to(20)
    assert cluster.pods() == []


def test_the_pods_of_a_lost_node_wait_again():
    cluster = cluster_of(pod("p"))
    bind(cluster, "p")
    cluster.advance_to(3)
    cluster.delete(node("n0"))
    assert timeline(cluster)[-2:] == [(3, "lost"), (3, "created")]
    assert cluster.pod("ns/p").spec.node_name == ""


def test_loading_again_keeps_a_pod_where_it_is():
    cluster = cluster_of(pod("p"))
    bind(cluster, "p")
    cluster.advance_to(3)
    cluster.load([pod("p")])
    assert cluster.pod("ns/p").spec.node_name == "n0"
    assert cluster.pod("ns/p").status.phase == "Running"


def test_a_pod_that_is_bound_already_is_started_too():
    cluster = cluster_of(pod("p", where="n0"))
    cluster.advance_to(3)
    assert cluster.pod("ns/p").status.phase == "Running"


def test_a_gated_or_too_large_pod_cannot_be_bound():
    gated = pod("gated", spec={"schedulingGates": [{"name": "g"}]})
    cluster = cluster_of(gated, pod("large", gpus=3))
    bind(cluster, "gated")
    bind(cluster, "large")
    assert [it.detail for it in cluster.history if it.what == "bind_failed"] == [
        "it has scheduling gates",
        "out of gpu",
    ]


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_run_time_is_a_number(text):
    with pytest.raises(ObjectError, match=r"run-seconds.*no number of seconds"):
        cluster_of(pod("p", annotations={"kaisched.io/run-seconds": text}))


def test_manifests_of_all_kinds_are_taken():
    loaded = load_text(
        """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ns}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns, labels: {kai.scheduler/queue: a}}
spec: {schedulerName: kaisched, containers: [{name: c}]}
"""
    )
    cluster = EmbeddedCluster()
    cluster.load(loaded.objects)
    assert cluster.snapshot().tasks.name == ["ns/p"]
    assert cluster.problems() == []
    cluster.delete(make(Job, "train"))


def test_on_a_real_clock_things_happen_by_themselves():
    cluster = cluster_of(pod("p"), clock=SystemClock(), start_delay_s=0)
    bind(cluster, "p")
    cluster.snapshot()
    assert cluster.pod("ns/p").status.phase == "Running"


def test_advancing_a_real_clock_waits_for_it():
    clock = SystemClock()
    cluster = cluster_of(pod("p"), clock=clock, start_delay_s=0.005)
    bind(cluster, "p")
    until_s = clock.now_s() + 0.01
    cluster.advance_to(until_s)
    assert clock.now_s() >= until_s
    assert cluster.pod("ns/p").status.phase == "Running"


def test_a_manual_clock_goes_forward_only():
    clock = ManualClock(5.0)
    clock.sleep(2)
    clock.sleep(-1)
    assert clock.now_s() == 7.0
    clock.advance_to(7.5)
    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance_to(7.0)


class RunningClock(ManualClock):
    """A clock that nobody asks twice at the same time, as a real one."""

    def now_s(self):
        self.sleep(0.001)
        return super().now_s()


@pytest.mark.parametrize("clock", [ManualClock(), RunningClock()], ids=["virtual", "real"])
def test_what_is_loaded_together_was_made_at_one_instant(clock):
    cluster = EmbeddedCluster(clock)
    loaded = load_text(
        """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: z}
spec: {}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {}
---
apiVersion: v1
kind: Pod
metadata: {name: z, namespace: ns, labels: {kai.scheduler/queue: a}}
spec: {schedulerName: kaisched, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: ns, annotations: {kaisched.io/run-seconds: soon}}
spec: {schedulerName: kaisched, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: ns, labels: {kai.scheduler/queue: a}}
spec: {schedulerName: kaisched, containers: [{name: c}]}
"""
    )
    problems = fill(cluster, loaded)
    assert [problem.name for problem in problems] == ["ns/bad"]
    snapshot = cluster.snapshot()
    assert snapshot.queues.name == ("a", "z")
    assert len(set(snapshot.jobs.created_s.tolist())) == 1
    assert len(cluster.pods()) == 2


def test_only_the_last_happenings_are_kept():
    cluster = cluster_of()
    for number in range(HISTORY_LENGTH + 2):
        cluster.apply([Bind(f"ns/{number}", "", "n0", "", 0, 0)], [], [])
    assert len(cluster.history) == HISTORY_LENGTH == 10_000
    assert (cluster.history[0].pod, cluster.history[-1].pod) == ("ns/2", "ns/10001")


def test_a_pod_that_does_not_end_is_stuck_in_the_cluster_s_own_time():
    """One that was read in as it is: nobody ends it. One that is evicted has its grace."""
    gone = {"deletionTimestamp": "1970-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
    cluster = cluster_of(
        pod("p", where="n0", phase="Running", metadata=gone),
        pod("q"),
        clock=ManualClock(20.0),
        grace_s=200,
    )
    bind(cluster, "q")
    evict(cluster, "q")

    def states(at_s):
        cluster.advance_to(at_s)
        cluster.snapshot()
        return [cluster.store.rows.state_of(f"ns/{name}").name for name in "pq"]

    assert states(129.0) == ["RELEASING", "RELEASING"]
    assert states(130.0) == ["STUCK", "RELEASING"]
    assert states(219.0) == ["STUCK", "RELEASING"]
    assert cluster.pod("ns/q").metadata.deletion_grace_period_seconds == 200
    assert states(221.0) == ["STUCK", "PENDING"]
    assert cluster.pod("ns/q").metadata.deletion_grace_period_seconds is None
