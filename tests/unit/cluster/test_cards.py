"""The cards of the state store: which slots of its node a task with a share holds."""

import numpy as np
import pytest

from kaisched.cluster import rowstore
from kaisched.cluster.store import StateStore
from kaisched.core.axis import GPU, TaskState
from kaisched.core.devices import CARD
from kaisched.objects.decode import decode_object
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue

FRACTION, MEMORY, CARDS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
RESERVATION = "kai-resource-reservation"


def store_of(*nodes, memory="80000"):
    store = StateStore(offers_shares=True)
    queue = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 4}}}}
    store.upsert_queue(decode_object(queue, Queue)[0])
    for name in nodes or ("n0",):
        put_node(store, name, {"nvidia.com/gpu.memory": memory})
    return store


def put_node(store, name, labels, gpus="2"):
    status = {"allocatable": {"cpu": "64", "nvidia.com/gpu": gpus, "pods": "110"}}
    made = {"metadata": {"name": name, "labels": labels}, "status": status}
    store.upsert_node(decode_object(made, Node)[0])


def put_pod(store, name, annotations=None, labels=None, node="n0", namespace="team", **limits):
    labels = {"kai.scheduler/queue": "q"} | (labels or {})
    metadata = {"name": name, "namespace": namespace, "uid": f"u-{name}", "labels": labels}
    limits = {key.replace("_", "/"): str(value) for key, value in limits.items()}
    spec = {
        "schedulerName": "kaisched" if namespace == "team" else "other",
        "nodeName": node,
        "containers": [{"name": "c", "resources": {"limits": limits}}],
    }
    status = {"phase": "Running" if node else "Pending"}
    made = {"metadata": metadata | {"annotations": annotations or {}}, "spec": spec}
    store.upsert_pod(decode_object(made | {"status": status}, Pod)[0])


def used(store):
    """Return the thousandths of each card that tasks hold, by node and slot; None for closed."""
    table = store.snapshot().nodes.cards
    parts = np.round(1000 * table.used / table.size[:, None]).astype(int).tolist()
    return [
        [part if tasks else None for part, tasks in zip(*row, strict=True)]
        for row in zip(parts, table.tasks.tolist(), strict=True)
    ]


def test_no_table_exists_while_no_pod_shares():
    store = store_of()
    put_pod(store, "whole", **{"nvidia.com_gpu": 1})
    snapshot = store.snapshot()
    assert snapshot.nodes.cards is None
    assert snapshot.shapes.charge is snapshot.shapes.request


def test_pods_of_one_group_share_a_card_and_a_pod_without_a_group_has_its_own():
    store = store_of()
    put_pod(store, "a", {FRACTION: "0.5"}, {"runai-gpu-group": "x"})
    put_pod(store, "b", {MEMORY: "20000"}, {"runai-gpu-group": "x"})
    put_pod(store, "c", {FRACTION: "0.25"})
    assert used(store) == [[750, 250]]
    snapshot = store.snapshot()
    assert snapshot.allocated[GPU].tolist() == [1000]
    assert snapshot.nodes.cards.group_of_slot == {(0, 0): "x", (0, 1): "u-c-0"}


def test_shares_on_several_cards_are_known_by_prefixed_labels_and_by_our_annotation():
    store = store_of()
    two = {FRACTION: "0.5", CARDS: "2"}
    put_pod(store, "a", two, {"runai-gpu-group/x": "x", "runai-gpu-group/y": "y"})
    put_pod(store, "b", {FRACTION: "0.2", "kaisched.io/gpu-groups": "y"})
    assert used(store) == [[500, 700]]
    assert store.snapshot().allocated[GPU].tolist() == [1200]


def test_a_card_is_closed_when_its_last_pod_is_gone_and_its_slot_is_used_again():
    store = store_of()
    put_pod(store, "a", {FRACTION: "0.5"}, {"runai-gpu-group": "x"})
    put_pod(store, "b", {FRACTION: "0.5"}, {"runai-gpu-group": "y"})
    assert used(store) == [[500, 500]]
    store.remove_pod("team/a")
    assert used(store) == [[None, 500]]
    put_pod(store, "c", {FRACTION: "0.3"}, {"runai-gpu-group": "z"})
    assert used(store) == [[300, 500]]


def test_a_reservation_pod_holds_its_card_open_and_no_gpu_besides():
    store = store_of()
    labels = {"app": RESERVATION, "runai-gpu-group": "x"}
    put_pod(store, "r", {}, labels, namespace=RESERVATION, **{"nvidia.com_gpu": 1})
    assert used(store) == [[0, None]]
    put_pod(store, "a", {FRACTION: "0.5"}, {"runai-gpu-group": "x"})
    assert used(store) == [[500, None]]
    snapshot = store.snapshot()
    assert snapshot.nodes.idle[GPU].tolist() == [1500]
    assert snapshot.total[GPU] == 2000


def test_memory_counts_by_the_smallest_card_in_queues_and_by_the_largest_on_nodes():
    store = store_of("n0", memory="40000")
    put_pod(store, "a", {MEMORY: "20000"})
    assert store.snapshot().allocated[GPU].tolist() == [500]
    put_node(store, "n1", {"nvidia.com/gpu.memory": str(80_000 << 20)})  # some report bytes
    snapshot = store.snapshot()
    assert snapshot.allocated[GPU].tolist() == [500]
    assert snapshot.nodes.idle[GPU].tolist() == [1750, 2000]
    assert used(store) == [[500, None], [None, None]]
    store.remove_node("n1")
    assert store.snapshot().nodes.idle[GPU].tolist() == [1500]


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.replicas": "4"},
        {"nvidia.com/gpu.count": "1"},
        {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "H100-MIG-1g.10gb"},
    ],
)
def test_a_node_whose_gpus_are_no_whole_cards_offers_no_shares(labels):
    store = store_of("n0")
    put_node(store, "n1", labels)
    put_pod(store, "a", {FRACTION: "0.5"}, node="")
    assert store.snapshot().nodes.cards.cards.tolist() == [2, 0]


@pytest.mark.parametrize("count", ["", "99999999999"])
@pytest.mark.parametrize("gpus", ["1001", "10Gi"])
def test_a_node_that_offers_more_gpus_than_any_machine_has_makes_no_table_of_them(gpus, count):
    store = store_of("n0")
    put_node(store, "n1", {"nvidia.com/gpu.count": count}, gpus=gpus)
    put_pod(store, "a", {FRACTION: "0.5"}, node="")
    assert store.snapshot().nodes.cards.cards.tolist() == [2, 0]


def test_slots_follow_tasks_and_nodes_to_other_rows(monkeypatch):
    monkeypatch.setattr(rowstore, "_SLACK", 0)
    store = store_of("n1")
    for number in range(4):
        put_pod(store, f"gone-{number}", {FRACTION: "0.1"}, {"runai-gpu-group": "x"}, node="n1")
    put_pod(store, "stays", {FRACTION: "0.5"}, {"runai-gpu-group": "y"}, node="n1")
    assert used(store) == [[400, 500]]
    for number in range(4):
        store.remove_pod(f"team/gone-{number}")
    put_node(store, "n0", {})
    assert used(store) == [[None, None], [None, 500]]
    assert store.rows.compactions == 1


def test_tasks_that_a_cycle_has_placed_hold_the_cards_that_it_chose():
    store = store_of()
    for name in "ab":
        put_pod(store, name, {FRACTION: "0.4"}, node="")
    rows = store.rows
    tasks = np.array([rows.row_of_task("team/a"), rows.row_of_task("team/b")])
    store.snapshot()
    rows.cards.choose({int(tasks[0]): (1,)})
    rows.place(tasks, np.zeros(2, np.int64), TaskState.RUNNING)
    table = store.snapshot().nodes.cards
    assert table.slots_of_task == {int(tasks[0]): (1,), int(tasks[1]): (1,)}  # packed
    assert table.used.tolist() == [[0, 800 * CARD // 1000 * 80_000]]


def test_a_pod_whose_card_is_told_later_moves_to_it():
    store = store_of()
    put_pod(store, "a", {FRACTION: "0.5"}, {"runai-gpu-group": "x"})
    put_pod(store, "b", {FRACTION: "0.25"})
    assert used(store) == [[500, 250]]
    put_pod(store, "b", {FRACTION: "0.25", "kaisched.io/gpu-groups": "x"})
    assert used(store) == [[750, None]]
