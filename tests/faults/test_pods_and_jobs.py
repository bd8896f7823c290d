"""Pods, pod groups and owners that are odd, huge or many: rows D of the catalogue of faults."""

import time

import numpy as np
import pytest

from kaisched.cluster import rowstore
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.store import update
from kaisched.core.axis import CPU, GPU
from kaisched.objects.labels import time_of
from kaisched.objects.workloads import Job, PriorityClass
from kaisched.units import MAX_AMOUNT
from tests.contract.clusters import group, make, node, pod, queue
from tests.faults.deciding import NOW_S, decide, placed, reasons, store_of, told
from tests.oracles.accounts import assert_adds_up

IN_G = {"pod-group-name": "g"}


@pytest.mark.fault("D60")
@pytest.mark.parametrize("amount", ["1e400", 2**63, "16Ei"])
def test_a_gang_beyond_all_integers_passes_no_limit(amount):
    """Each of 500 pods asks for as much as there is of numbers."""
    limited = make(
        type(queue("x")), "c", spec={"resources": {"gpu": {"quota": 4}, "cpu": {"limit": 4000}}}
    )
    members = [pod(f"g-{at}", "c", 0, extra={"cpu": amount}, annotations=IN_G) for at in range(500)]
    store = store_of(limited, group("g", "c", minMember=500), *members, pod("small"))
    snapshot = store.snapshot()
    row = snapshot.queues.row_of_name["c"]
    assert snapshot.pending[CPU, row] == 500 * MAX_AMOUNT
    result = decide(store)
    assert placed(result) == {"small": "n0"}
    (record,) = result.records
    assert record.reason == "OverLimit"


@pytest.mark.fault("D61")
def test_pods_that_ask_for_nothing_take_a_slot_each():
    """100,000 of them."""
    store = RowStore()
    for at in range(20):
        store.put_node(NodeRow(f"n{at}", {"cpu": 64_000, "gpu": 8000, "pods": 110}))
    store.put_queue(QueueRow("a"))
    free = store.intern_shape({})
    row = {"priority": 50, "is_preemptible": True, "created_s": 0.0}
    for at in range(1000):
        tasks = [(f"ns/p{at}-{number}", free) for number in range(100)]
        store.add_job(f"ns/p{at}", "a", tasks=tasks, **row)
    begin_s = time.process_time()
    result = decide(store)
    assert time.process_time() - begin_s < 20.0
    assert len(placed(result)) == 20 * 110
    assert {record.reason for record in result.records} == {"NoRoom"}


@pytest.mark.fault("D62")
@pytest.mark.parametrize(
    "fraction", ["0", "-1", "NaN", "1.5", "0.0000001", "\u00bd", "0.5 ", "0.5"]
)
def test_a_fraction_of_a_gpu_is_refused_whatever_it_is(fraction):
    """Sharing GPUs is not offered, so there is none that could be right."""
    store = store_of(pod("p", gpus=0, annotations={"gpu-fraction": fraction}), pod("q"))
    result = decide(store)
    assert placed(result) == {"q": "n0"}
    assert reasons(result) == {"p": "Unsupported"}
    assert "gpu-fraction" in store.problems()[0].text


@pytest.mark.fault("D65")
def test_the_pod_group_decides_for_all_of_its_pods():
    """Its pods name two queues, two priorities and two schedulers."""
    store = store_of(
        group("g", "b", minMember=2, priorityClassName="train"),
        pod("p", "a", annotations=IN_G, spec={"priority": 1000}),
        pod("q", "b", annotations=IN_G, spec={"priority": 3}),
        pod("theirs", "b", annotations=IN_G, scheduler="default-scheduler"),
    )
    s = store.snapshot()
    (row,) = range(len(s.jobs.name))
    assert s.queues.name[s.jobs.queue_of_job[row]] == "b"
    assert (int(s.jobs.priority[row]), int(s.jobs.pending[row])) == (50, 2)
    assert placed(decide(store)) == {"p": "n0", "q": "n0"}


def running(name, **more):
    return pod(name, where="n0", phase="Running", annotations=IN_G, **more)


@pytest.mark.fault("D66")
def test_what_runs_outlives_its_pod_group():
    store = store_of(group("g", minMember=2), running("p"), running("q"))
    update(store, pod("late", annotations=IN_G))
    store.remove_pod_group("ns/g")
    for later_s in (0.0, 10_000.0):
        result = decide(store, now_s=NOW_S + later_s)
        assert (placed(result), len(result.evictions)) == ({}, 0)
        assert reasons(result) == {"g": "InvalidPodGroup"}
    assert "ns/g does not exist" in store.problems()[0].text
    assert store.snapshot().nodes.idle[GPU].tolist() == [6000]
    update(store, group("g", minMember=2))
    assert placed(decide(store)) == {"late": "n0"}


@pytest.mark.fault("D66")
def test_a_minimum_that_is_raised_is_waited_for():
    store = store_of(group("g", minMember=1), running("p"), pod("q", annotations=IN_G))
    update(store, group("g", minMember=3))
    result = decide(store)
    assert (placed(result), len(result.evictions)) == ({}, 0)
    assert reasons(result) == {"g": "GangIncomplete"}
    update(store, pod("r", annotations=IN_G))
    assert placed(decide(store)) == {"q": "n0", "r": "n0"}


def pod_of(owner, **changes):
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}"}
    return pod("p", metadata={"ownerReferences": [{**reference, "controller": True, **changes}]})


@pytest.mark.fault("D68")
def test_the_group_that_a_pod_names_counts_before_its_owner():
    both = pod_of("train")
    both.metadata.annotations.update(IN_G)
    store = store_of(make(Job, "train", uid="uid-train"), group("g"), both)
    assert store.pods.get("ns/p")[1].job == "ns/g"
    again = store_of(both, group("g"), make(Job, "train", uid="uid-train"))
    assert again.pods.get("ns/p")[1].job == "ns/g"


@pytest.mark.fault("D68")
def test_two_pods_of_one_uid_are_two_pods():
    store = store_of(*(pod(name, uid="1", where="n0", phase="Running") for name in "pq"))
    assert store.snapshot().nodes.idle[GPU].tolist() == [6000]
    update(store, pod("p", uid="1"), is_gone=True)
    assert store.snapshot().nodes.idle[GPU].tolist() == [7000]
    assert_adds_up(store.snapshot())


@pytest.mark.fault("D72")
def test_extreme_priorities_are_an_order_like_any_other():
    low = make(PriorityClass, "low", value=-(2**31))
    high = make(PriorityClass, "high", value=2**31 - 1)
    store = store_of(
        low,
        high,
        queue("c", gpu=8),
        *(
            pod(name, "c", 8, spec={"priorityClassName": cls})
            for name, cls in (("p", "low"), ("q", "high"))
        ),
    )
    assert placed(decide(store)) == {"q": "n0"}
    assert sorted(store.snapshot().jobs.priority.tolist()) == [-(2**31), 2**31 - 1]


@pytest.mark.fault("D72")
def test_the_value_in_the_pod_outlives_its_class():
    own = make(PriorityClass, "own", value=30)
    store = store_of(own, pod("p", spec={"priorityClassName": "own", "priority": 30}))
    update(store, own, is_gone=True)
    assert store.snapshot().jobs.priority.tolist() == [30]


@pytest.mark.fault("D77")
def test_a_storm_of_jobs_leaves_nothing_behind(monkeypatch):
    """Each with labels, a shape, an owner and a group of its own."""
    monkeypatch.setattr(rowstore, "_SLACK", 50)
    store = store_of()
    for turn in range(8):
        storm = []
        for at in range(100):
            name = f"{turn}-{at}"
            storm += [
                make(Job, name, uid=f"uid-{name}"),
                group(name),
                pod(
                    name,
                    labels={"who": name},
                    extra={"cpu": f"{turn * 100 + at + 1}m"},
                    annotations={"pod-group-name": name},
                    uid=f"uid-p-{name}",
                ),
            ]
        told(store, *storm)
        store.snapshot()
        for obj in reversed(storm):
            update(store, obj, is_gone=True)
        store.snapshot()
    for table in (
        store.rows.tasks.name.data,
        store.rows.jobs.name.data,
        store.rows.shapes,
        store.rows.labels.labels.data,
    ):
        assert len(table) < 300
    kept = (
        store.pods,
        store.members.dependents._of_owner,
        store.members._done,
        store.members._group,
        store.members.grouper._owner,
    )
    assert [len(them) for them in kept] == [0] * len(kept)
    assert_adds_up(store.snapshot())


@pytest.mark.fault("D78")
def test_what_others_overfill_gets_nothing_more_and_loses_nothing():
    theirs = [
        pod(f"t{at}", gpus=4, scheduler="default-scheduler", where="n0", phase="Running")
        for at in range(3)
    ]
    ours = pod("ours", where="n0", phase="Running")
    store = store_of(node("n1", 1), ours, *theirs, pod("waits", "b"), pod("late", "b"))
    snapshot = store.snapshot()
    assert snapshot.nodes.idle[GPU].tolist() == [-5000, 1000]
    assert np.array_equal(snapshot.total[GPU : GPU + 1], [0])
    result = decide(store)
    assert set(placed(result).values()) == {"n1"}
    assert len(result.evictions) == 0


@pytest.mark.fault("D70")
def test_a_pod_that_leaves_for_hours_gives_its_room_when_it_is_gone():
    """Its room is promised for two minutes, and then to nobody until it is free."""
    leaving = pod(
        "leaving",
        "b",
        8,
        where="n0",
        phase="Running",
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
    )
    store = store_of(leaving, pod("waits", gpus=8))
    asked_s = time_of("2026-01-01T00:00:00Z")
    for later_s, is_promised in ((0.0, True), (119.0, True), (120.0, False), (100_000.0, False)):
        store.find_stuck(later_s, asked_s + later_s)
        result = decide(store, now_s=asked_s + later_s)
        assert (placed(result), len(result.evictions)) == ({}, 0)
        assert [one.pod for one in result.nominations] == ["ns/waits"] * is_promised
    update(store, leaving, is_gone=True)
    assert placed(decide(store)) == {"waits": "n0"}


@pytest.mark.fault("D71")
def test_finished_pods_hold_no_room_and_no_row():
    """10,000 that nobody deletes, between two that run."""
    store = store_of(pod("first", where="n0", phase="Running"))
    for at in range(10_000):
        phase = "Succeeded" if at % 2 else "Failed"
        update(store, pod(f"done-{at}", gpus=8, where="n0", phase=phase))
    update(store, pod("last", where="n0", phase="Running"))
    snapshot = store.snapshot()
    assert len(snapshot.tasks.state) < 100
    assert set(store.pods) == {"ns/first", "ns/last"}
    assert snapshot.nodes.idle[GPU].tolist() == [6000]
    assert_adds_up(snapshot)


def picky(name, terms):
    """A pod that goes to nodes with one of many labels."""
    wanted = [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": [f"r{at}"]}]}
        for at in range(terms)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
    return pod(name, spec={"affinity": {"nodeAffinity": required}})


@pytest.mark.fault("D73")
def test_an_affinity_of_a_thousand_terms_is_looked_at_once_for_all_that_are_equal():
    nodes = [node(f"m{at}", labels={"rack": f"r{at}"}) for at in (7, 999, 1000)]
    pods = [picky(f"p{at}", 1000) for at in range(16)]
    store = store_of(*nodes, *pods, pod("plain"))
    snapshot = store.snapshot()
    assert len(set(snapshot.tasks.shape_of_task.tolist())) == 2
    where = placed(decide(store))
    assert {where[f"p{at}"] for at in range(16)} == {"m7", "m999"}


@pytest.mark.fault("D75")
def test_a_pod_that_grew_beyond_its_node_counts_as_it_is_and_loses_nothing():
    store = store_of(pod("r", gpus=8, where="n0", phase="Running"), pod("waits"))
    update(store, pod("r", gpus=8, extra={"cpu": "100"}, where="n0", phase="Running"))
    result = decide(store)
    assert (placed(result), len(result.evictions)) == ({}, 0)
    assert store.snapshot().nodes.idle[CPU].tolist() == [-36_000]
    update(store, pod("r", gpus=7, where="n0", phase="Running"))
    assert placed(decide(store)) == {"waits": "n0"}
    assert_adds_up(store.snapshot())
