"""Shared GPUs as the store knows them: who uses a card, what holds it, and what is to be done."""

from types import SimpleNamespace

import numpy as np
import pytest
from msgspec.structs import replace

from kaisched.cluster.kubernetes import gpu_reservations
from kaisched.cluster.kubernetes.gpu_reservations import RenewWork, ReservationBackend
from kaisched.cluster.pods import Sharing
from kaisched.cluster.shared_gpus import CardState
from kaisched.cluster.store import StateStore
from kaisched.core.axis import GPU, PODS, TaskState
from kaisched.framework.session.capacity import Holding, capacity_of
from kaisched.objects.decode import decode_object
from kaisched.objects.gpus import UUID, Card, reservation_name
from kaisched.objects.labels import GPU_CONFIG_MAP
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod, PodResourceClaim
from kaisched.objects.queue import Queue
from kaisched.objects.shard import GpuSharing

NAMESPACE = "kai-resource-reservation"
CARD = Card("n0", "x")
HALF = {"gpu-fraction": "0.5"}


@pytest.fixture
def store():
    store = StateStore(offers_shares=True, sharing=Sharing(has_reservations=True))
    queue = {"metadata": {"name": "q"}, "spec": {"resources": {"gpu": {"quota": 4}}}}
    store.upsert_queue(decode_object(queue, Queue)[0])
    status = {"allocatable": {"cpu": "64", "nvidia.com/gpu": "2", "pods": "110"}}
    node = {"metadata": {"name": "n0", "labels": {"nvidia.com/gpu.memory": "80000"}}}
    store.upsert_node(decode_object(node | {"status": status}, Node)[0])
    return store


def pod(name, namespace, *, node="n0", phase="Running", notes=None, deleted="", **labels):
    labels = {key.replace("_", "-"): value for key, value in labels.items()}
    meta = {"name": name, "namespace": namespace, "uid": f"u-{name}", "labels": labels}
    meta |= {"annotations": notes or {}, "deletionTimestamp": deleted}
    ours = "kaisched" if namespace == "team" else "default-scheduler"
    spec = {"schedulerName": ours, "nodeName": node, "containers": [{"name": "c"}]}
    made = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    return decode_object(made, Pod)[0]


def user(store, name, group="x", gpu="GPU-1", **how):
    meta = {"kai.scheduler/queue": "q", "runai_gpu_group": group}
    notes = {"gpu-fraction": "0.5"} | ({"kaisched.io/gpu-groups": group} if gpu else {})
    notes |= {"kaisched.io/gpu-uuids": gpu} if gpu else {}
    if not how.get("node", "n0"):
        notes = {"gpu-fraction": "0.5"}
        meta.pop("runai_gpu_group")
    store.upsert_pod(pod(name, "team", notes=notes, **how, **meta))


def reservation(store, name="r", group="x", gpu="GPU-1", *, renewed=False, **how):
    notes = ({UUID: gpu} if gpu else {}) | ({"kaisched.io/renewed": "true"} if renewed else {})
    app = {"app": NAMESPACE, "runai_gpu_group": group}
    store.upsert_pod(pod(name, NAMESPACE, notes=notes, **how, **app))


def state(store, card=CARD):
    return store.facts.sharing.state_of(card)


def released(store, card=CARD):
    return [it.key.partition("/")[2] for it in store.facts.sharing.to_release(card)]


def test_a_card_is_held_while_anything_uses_it(store):
    user(store, "a")
    reservation(store)
    assert (state(store), released(store)) == (CardState.OPEN, [])
    store.remove_pod("team/a")
    assert released(store) == ["r"]


def test_a_bind_that_was_sent_uses_its_card_until_it_is_taken_back(store):
    user(store, "a", node="")
    reservation(store)
    store.assume_bound("team/a", "n0", ("x",))
    assert released(store) == []
    assert store.snapshot().nodes.cards.group_of_slot == {(0, 0): "x"}
    store.refute_bind("team/a")
    assert released(store) == ["r"]


def test_the_slot_of_a_reservation_pod_is_awaited_from_the_bind_until_the_pod_is_there(store):
    user(store, "a", node="")
    store.assume_bound("team/a", "n0", ("x",))
    table = store.snapshot().nodes.cards
    assert (table.awaited.tolist(), table.is_reserved.tolist()) == ([1], [[True, False]])
    reservation(store, gpu="")
    table = store.snapshot().nodes.cards
    assert (table.awaited.tolist(), table.is_reserved.tolist()) == ([0], [[True, False]])
    store.refute_bind("team/a")
    store.remove_pod(f"{NAMESPACE}/r")
    user(store, "b")
    table = store.snapshot().nodes.cards  # nothing was sent: nobody makes one
    assert (table.awaited.tolist(), table.is_reserved.tolist()) == ([0], [[False, False]])


def test_slots_of_reservation_pods_that_are_awaited_are_not_free(store):
    user(store, "a", node="")
    store.assume_bound("team/a", "n0", ("x",))
    snapshot = store.snapshot()
    capacity = capacity_of(snapshot)
    assert (snapshot.nodes.idle[PODS].tolist(), capacity.idle[PODS].tolist()) == ([109], [108])
    task = store.rows.row_of_task("team/a")
    shape, state = int(snapshot.tasks.shape_of_task[task]), int(snapshot.tasks.state[task])
    holding = Holding(np.array([0]), snapshot.shapes.request[:, [shape]])
    capacity.release(np.array([task]), np.array([shape]), holding, 1)
    assert capacity.free()[PODS].tolist() == [110]  # nothing uses the card then
    capacity.release(np.array([task]), np.array([shape]), holding, -1)
    assert (capacity.free()[PODS].tolist(), state) == ([108], TaskState.BINDING)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_uses_nothing_and_one_that_leaves_does(store, phase):
    user(store, "a", deleted="2026-01-01T00:00:00Z")
    reservation(store)
    assert released(store) == []
    user(store, "a", phase=phase)
    assert released(store) == ["r"]


def test_a_pod_that_asks_for_more_than_is_judged_here_uses_its_card_all_the_same(store):
    odd = pod("odd", "team", notes=HALF, runai_gpu_group="x")
    claims = [PodResourceClaim(name="nic")]
    store.upsert_pod(replace(odd, spec=replace(odd.spec, resource_claims=claims)))
    reservation(store)
    assert released(store) == []
    assert not [it for it in store.problems() if "runai-gpu-group" in it.text]


# -- names that anybody may write ------------------------------------------------------------------


@pytest.mark.fault("I137")
@pytest.mark.parametrize(
    ("namespace", "notes", "why"),
    [
        ("others", {}, "no GPU was given to a pod of scheduler default-scheduler"),
        ("others", HALF, "no GPU was given to a pod of scheduler default-scheduler"),
        ("team", {}, "no GPU was given to a pod without a valid request for a share"),
        ("team", {"gpu-fraction": "7"}, "no GPU was given to a pod without a valid request"),
        ("team", HALF | {"gpu-fraction-num-devices": "1001"}, "without a valid request"),
    ],
)
def test_a_label_on_a_pod_without_a_share_closes_no_gpu(store, namespace, notes, why):
    store.upsert_pod(pod("odd", namespace, notes=notes, runai_gpu_group="x"))
    table = store.snapshot().nodes.cards
    assert table is None or not (table.is_blind.any() or table.tasks.any())
    assert (store.facts.sharing.users_of(CARD), renewed(store)) == ([], [])
    (problem,) = (it for it in store.problems() if "runai-gpu-group" in it.text)
    assert (problem.kind, problem.name) == ("Pod", f"{namespace}/odd")
    assert why in problem.text
    reservation(store)
    assert released(store) == ["r"]
    store.remove_pod(f"{namespace}/odd")
    assert store.problems() == []


@pytest.mark.fault("I137")
def test_of_three_thousand_groups_of_a_pod_count_as_many_as_it_asks_for(store):
    groups = [f"g{at:04}" for at in range(3000)]
    hoard(store, groups, {"gpu-fraction-num-devices": "2"})
    assert renewed(store) == groups[:2]
    (problem,) = store.problems()
    assert problem.name == "team/hoard"
    assert "the pod asks for 2 GPUs, more groups do not count" in problem.text
    assert "3,000 groups" in problem.text


@pytest.mark.fault("I137")
def test_a_node_has_no_more_reservation_pods_than_gpus(store, clock):
    """It has two. Cards take turns: none waits for ever, however many names are made up."""
    groups = [f"g{at:04}" for at in range(1000)]
    hoard(store, groups, {"gpu-fraction-num-devices": "1000"})
    user(store, "a", group="y", gpu="GPU-9")
    backend, told = ReservationBackend(GpuSharing(image="agent"), ["nvidia.com/gpu"]), []
    assert renewed(store, backend, told) == ["g0000", "g0001"]
    full = [it for it in told if it[0] == "gpu_not_renewed"]
    assert [(it["node"], it["pods"]) for _, it in full] == [("n0", ["team/a", "team/hoard"])]
    told.clear()
    assert renewed(store, backend, told) == []  # they are under way
    clock.now_s += 1
    assert renewed(store, backend, told) == ["g0002", "g0003"]
    assert told == []  # once is enough
    reservation(store, "r1", group="g0000", renewed=True)
    reservation(store, "r2", group="g0001", renewed=True)
    clock.now_s += 100
    assert renewed(store, backend) == []  # they hold both GPUs
    reservation(store, "r1", group="g0000", renewed=True, phase="Failed")
    assert renewed(store, backend) == ["g0004"]


@pytest.mark.fault("I137")
def test_what_is_amiss_with_groups_is_told_once_a_cycle_with_names_of_pods(store):
    for at in range(20):
        store.upsert_pod(pod(f"odd-{at:02}", "others", runai_gpu_group="x"))
    backend, told = ReservationBackend(GpuSharing(image="agent"), ["nvidia.com/gpu"]), []
    renewed(store, backend, told)
    ((event, fields),) = told
    assert (event, fields["number"], fields["pods"][0]) == (
        "gpu_groups_ignored",
        20,
        "others/odd-00",
    )
    assert "runai-gpu-group" in fields["err"]
    store.upsert_pod(pod("odd-00", "others", runai_gpu_group="x"))
    renewed(store, backend, told)
    assert len(told) == 1


def test_groups_that_no_label_may_have_do_not_count(store):
    hoard(store, ["a b", "x"], {"gpu-fraction-num-devices": "2"})
    assert renewed(store) == ["x"]
    assert "no label values" in store.problems()[0].text


def hoard(store, groups, notes):
    uuids = ",".join(f"GPU-{it}" for it in range(len(groups)))
    told = {"kaisched.io/gpu-groups": ",".join(groups), "kaisched.io/gpu-uuids": uuids}
    store.upsert_pod(pod("hoard", "team", notes=HALF | told | notes))


def renewed(store, backend=None, told=None):
    """Return the groups for which a cycle's upkeep makes reservation pods."""
    told = [] if told is None else told
    log = SimpleNamespace(warning=lambda event, **fields: told.append((event, fields)))
    backend = backend or ReservationBackend(GpuSharing(image="agent"), ["nvidia.com/gpu"])
    works = backend.upkeep((), SimpleNamespace(log=log), store)
    return [it.card.group for it in works if isinstance(it, RenewWork)]


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now_s=1000.0)
    monkeypatch.setattr(gpu_reservations, "monotonic_s", lambda: clock.now_s)
    return clock


def test_a_reservation_that_is_about_to_go_takes_no_more_shares(store):
    reservation(store)
    assert (state(store), released(store)) == (CardState.OPEN, ["r"])
    store.assume_evicted(f"{NAMESPACE}/r")
    assert (state(store), released(store)) == (CardState.CLOSED, [])
    assert store.snapshot().nodes.cards.is_closed.tolist() == [[True, False]]
    store.refute_eviction(f"{NAMESPACE}/r")
    assert (state(store), released(store)) == (CardState.OPEN, ["r"])


def test_users_without_a_reservation_close_their_card_and_the_whole_gpus_of_their_node(store):
    user(store, "a")
    assert state(store) is CardState.LOST
    table = store.snapshot().nodes.cards
    assert (table.is_closed.tolist(), table.is_blind.tolist()) == ([[True, False]], [True])
    assert store.facts.sharing.is_to_renew(CARD)
    reservation(store, deleted="2026-01-01T00:00:00Z")
    assert state(store) is CardState.LOST
    assert not store.facts.sharing.is_to_renew(CARD)  # once that one is gone


def test_a_card_of_which_no_pod_says_the_gpu_is_not_reserved_again(store):
    user(store, "a", gpu="")
    assert state(store) is CardState.LOST
    assert not store.facts.sharing.is_to_renew(CARD)


def test_a_reservation_made_anew_holds_the_card_only_with_the_gpu_of_its_users(store):
    user(store, "a")
    reservation(store, gpu="", renewed=True)
    assert (state(store), released(store)) == (CardState.LOST, [])
    reservation(store, gpu="GPU-2", renewed=True)
    assert (state(store), released(store)) == (CardState.LOST, ["r"])
    reservation(store, gpu="GPU-1", renewed=True)
    assert (state(store), released(store)) == (CardState.OPEN, [])


def test_what_a_pod_says_of_its_gpu_frees_no_reservation_that_was_there_first(store):
    reservation(store, gpu="GPU-1")
    user(store, "a", gpu="GPU-9")  # anybody who may change pods may write that
    assert (state(store), released(store)) == (CardState.OPEN, [])


def test_a_reservation_that_has_ended_holds_nothing_and_is_cleared_away(store):
    user(store, "a")
    reservation(store, phase="Failed")
    assert (state(store), released(store)) == (CardState.LOST, ["r"])


def test_the_same_group_on_another_node_is_another_card(store):
    user(store, "a")
    reservation(store, "r1")
    reservation(store, "r2", node="n9")
    assert released(store) == []
    assert released(store, Card("n9", "x")) == ["r2"]


def test_a_card_that_only_its_reservation_holds_will_be_a_whole_gpu(store):
    user(store, "a")
    reservation(store)
    reservation(store, "r2", group="y", gpu="GPU-2")
    snapshot = store.snapshot()
    assert snapshot.nodes.idle[GPU].tolist() == [1500]
    assert snapshot.nodes.cards.tasks.tolist() == [[2, 1]]


def test_changed_cards_are_told_once(store):
    sharing = store.facts.sharing
    user(store, "a")
    reservation(store, group="y")
    assert sharing.changed() == {CARD, Card("n0", "y")}
    assert sharing.changed() == set()
    store.remove_pod("team/a")
    assert sharing.changed() == {CARD}


def test_the_name_of_a_reservation_pod_is_the_one_that_kai_gives_it():
    # The first eight bytes of the SHA-256 of "n0/x".
    assert reservation_name(CARD) == "gpu-reservation-8449dbfd5c00f9a6"


def test_a_waiting_pod_that_looks_up_its_gpu_in_a_config_map_is_not_started(store):
    notes = {"gpu-fraction": "0.5", GPU_CONFIG_MAP: "a-x-shared-gpu"}
    store.upsert_pod(pod("a", "team", node="", phase="Pending", notes=notes))
    store.upsert_pod(pod("b", "team", notes=notes, runai_gpu_group="x"))
    assert store.pods.pod("team/a").fault.startswith(f"annotation {GPU_CONFIG_MAP}")
    assert "set spec.gpuSharing.configMaps" in store.pods.pod("team/a").fault
    assert store.pods.pod("team/b").fault == ""


def test_such_a_pod_is_started_where_config_maps_are_written():
    store = StateStore(offers_shares=True, sharing=Sharing(True, True))
    notes = {"gpu-fraction": "0.5", GPU_CONFIG_MAP: "a-x-shared-gpu"}
    for name, wrong in (("a", ""), ("b", "/../")):
        marked = notes | {GPU_CONFIG_MAP: f"{wrong}{name}"}
        store.upsert_pod(pod(name, "team", node="", phase="Pending", notes=marked))
    store.upsert_pod(pod("c", "team", notes=notes | {GPU_CONFIG_MAP: "/"}))
    found = {name: store.pods.pod(f"team/{name}") for name in "abc"}
    assert (found["a"].fault, found["a"].lookup) == ("", "a-0")
    assert GPU_CONFIG_MAP in found["b"].fault
    assert (found["c"].fault, found["c"].lookup) == ("", "")


def test_cards_of_nodes_that_are_gone_for_good_are_looked_at_no_more(store, monkeypatch):
    backend = ReservationBackend(GpuSharing(image="agent"), ["nvidia.com/gpu"])
    writers = SimpleNamespace(log=SimpleNamespace(warning=lambda *_, **__: None))

    def look():
        asked = []
        monkeypatch.setattr(
            store.rows.nodes, "is_known", lambda name: bool(asked.append(name)), raising=True
        )
        assert list(backend.upkeep((), writers, store)) == []
        return asked

    user(store, "a")
    reservation(store)
    assert look() == ["n0"]
    assert look() == ["n0"]  # its pods may still be there
    store.remove_pod("team/a")
    store.remove_pod(f"{NAMESPACE}/r")
    assert look() == ["n0"]
    assert look() == []
