"""What jobs say about evictions, and what the store itself knows of them."""

import numpy as np
import pytest
from msgspec import structs

from kaisched.cluster.embedded import EmbeddedCluster
from kaisched.cluster.store import update
from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal
from kaisched.framework.intents import Evict
from kaisched.objects.labels import LAST_EVICTION, STALE_SINCE
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import Job, PriorityClass
from tests.contract.clusters import group, make, node, pod, queue, store_of
from tests.unit.framework.fakes import job as job_of
from tests.unit.framework.fakes import store as rows

IN_G = {"pod-group-name": "g"}
DELAY = "kai.scheduler/preemption-delay"
GRACE = "kai.scheduler/staleness-grace-period"
NAMES = ("preemption_delay_s", "last_evicted_s", "staleness_grace_s", "stale_since_s", "succeeded")
NAN = float("nan")


def timing(store):
    """Return the rare columns of the only living job."""
    jobs = store.snapshot().jobs
    (at,) = store.rows.jobs.row_of_name.values()
    return tuple(float(getattr(jobs, name)[at]) for name in NAMES)


def same(got, *wanted):
    return np.array_equal(got, wanted, equal_nan=True)


def ended(name, phase="Succeeded", **rest):
    return pod(name, where="n0", phase=phase, annotations=IN_G, **rest)


def test_a_job_that_says_nothing():
    assert same(timing(store_of(group("g"))), 0, NAN, NAN, NAN, 0)


def test_a_pod_group_s_spec_and_annotations():
    spec = {"preemptionDelay": "1m", "stalenessGracePeriod": "-1s"}
    notes = {LAST_EVICTION: "1970-01-01T00:01:40Z", STALE_SINCE: "1970-01-01T00:03:20Z"}
    store = store_of(group("g", **spec))
    assert same(timing(store), 60, NAN, -1, NAN, 0)
    noted = group("g", **spec)
    noted.metadata.annotations.update(notes)
    update(store, noted)
    assert same(timing(store), 60, 100, -1, 200, 0)
    update(store, group("g"))
    assert same(timing(store), 0, 100, NAN, NAN, 0), "an eviction is not undone by saying nothing"


def test_a_pod_group_s_spec_counts_before_its_annotations():
    noted = group("g", preemptionDelay="0s")
    noted.metadata.annotations.update({DELAY: "5s", GRACE: "7s"})
    assert same(timing(store_of(noted)), 0, NAN, 7, NAN, 0)


def test_the_owner_speaks_before_the_pod():
    owner = make(Job, "o", uid="uid-o", annotations={DELAY: "5s"})
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "o", "uid": "uid-o"}
    mine = pod(
        "p",
        annotations={DELAY: "9s", GRACE: "2m"},
        metadata={"ownerReferences": [reference | {"controller": True}]},
    )
    assert same(timing(store_of(owner, mine)), 5, NAN, 120, NAN, 0)


@pytest.mark.parametrize("key", [DELAY, GRACE, LAST_EVICTION, STALE_SINCE])
def test_an_annotation_that_makes_no_sense_refuses_the_job(key):
    store = store_of(pod("p", annotations={key: "soon"}))
    assert store.snapshot().jobs.refusal.tolist() == [int(Refusal.INVALID_GROUP)]
    assert key in store.problems()[0].text


def test_an_eviction_of_ours_is_remembered():
    store = store_of(group("g"), pod("p", where="n0", phase="Running", annotations=IN_G))
    before = store.snapshot()
    store.assume_evicted("ns/p", 30.0)
    assert same(timing(store), 0, 30, NAN, NAN, 0)
    assert np.isnan(before.jobs.last_evicted_s).all()


def test_rows_that_are_evicted():
    store = rows(job_of("a", pods=2), job_of("b"))
    store.settle()
    store.place(np.array([0, 1]), np.array([0, 0]))
    store.evict(0, 12.0)
    store.evict(1)
    s = store.snapshot()
    assert s.tasks.state.tolist() == [TaskState.RELEASING, TaskState.RELEASING, TaskState.PENDING]
    assert same(s.jobs.last_evicted_s, 12, NAN)


def test_a_pod_deleted_by_others_is_no_eviction():
    cluster = EmbeddedCluster()
    running = pod("p", where="n0", phase="Running", annotations=IN_G)
    cluster.load([node("n0"), queue("a"), group("g"), running])
    cluster.advance_to(9)
    cluster.delete(cluster.pod("ns/p"))
    assert np.isnan(cluster.snapshot().jobs.last_evicted_s).all()


def test_the_embedded_cluster_tells_of_evictions():
    cluster = EmbeddedCluster()
    running = pod("p", where="n0", phase="Running", annotations=IN_G)
    cluster.load([node("n0"), queue("a"), group("g"), running])
    cluster.advance_to(9)
    uid = cluster.pod("ns/p").metadata.uid
    cluster.apply([], [Evict("ns/p", uid, "n0", "", "reclaim", "b", "over share", 0, 0)], [])
    assert cluster.snapshot().jobs.last_evicted_s.tolist() == [9]


@pytest.mark.parametrize("is_first", [True, False])
def test_pods_that_succeeded_are_counted_while_they_are_there(is_first):
    """Whatever comes first; a pod that failed or was deleted did not succeed."""
    parts = [group("g"), ended("p"), ended("q", "Failed"), ended("r")]
    store = store_of(*(parts if is_first else parts[::-1]))
    assert timing(store)[-1] == 2
    update(store, ended("p"), is_gone=True)
    update(store, pod("r", annotations=IN_G, uid="another"))
    assert timing(store)[-1] == 0


def test_a_running_pod_that_succeeds_leaves_its_mark():
    store = store_of(group("g"), pod("p", where="n0", phase="Running", annotations=IN_G))
    update(store, ended("p"))
    update(store, ended("p"))
    assert timing(store)[-1] == 1
    store.remove_pod("ns/p", "of-another")
    assert timing(store)[-1] == 1
    store.remove_pod("ns/p")
    assert timing(store)[-1] == 0


def test_a_compaction_keeps_what_jobs_say():
    store = rows(job_of("a"), job_of("b", preemption_delay_s=7.0))
    store.remove_job(0)
    store.add_job("x", "q", priority=0, is_preemptible=True, created_s=0, tasks=())
    for number in range(3000):
        store.remove_job(
            store.add_job(f"y{number}", "q", priority=0, is_preemptible=True, created_s=0, tasks=())
        )
    s = store.snapshot()
    assert store.compactions == 1
    assert dict(zip(s.jobs.name, s.jobs.preemption_delay_s.tolist(), strict=True)) == {
        "default/b": 7,
        "x": 0,
    }


def never_preempts(store):
    (at,) = store.rows.jobs.row_of_name.values()
    return bool(store.snapshot().jobs.is_never_preempting[at])


def test_a_job_preempts_never_as_long_as_one_of_its_pods_does():
    store = store_of(group("g"), pod("a", annotations=IN_G), pod("b", annotations=IN_G))
    assert not never_preempts(store)
    said = pod("c", annotations=IN_G, spec={"preemptionPolicy": "Never"})
    update(store, said)
    assert never_preempts(store)
    update(store, said, is_gone=True)
    assert not never_preempts(store)


def test_a_class_that_comes_changes_or_goes_says_whether_its_jobs_preempt():
    store = store_of(group("g", priorityClassName="c"), pod("a", annotations=IN_G))
    calm = PriorityClass(metadata=ObjectMeta(name="c"), value=60, preemption_policy="Never")
    update(store, calm)
    assert never_preempts(store)
    update(store, structs.replace(calm, preemption_policy="PreemptLowerPriority"))
    assert not never_preempts(store)
    update(store, calm)
    update(store, calm, is_gone=True)
    assert not never_preempts(store)
