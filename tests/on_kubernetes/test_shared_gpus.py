"""Pods that share GPUs, end to end: reservation pods, what the pods see, and what goes wrong."""

import itertools
import signal

import pytest

from kaisched.cluster.kubernetes import gpu_reservations
from kaisched.cluster.kubernetes.client import MERGE
from kaisched.cluster.kubernetes.pods import SHARING_POINTS
from kaisched.objects.gpus import Card, reservation_name
from kaisched_apiserver import Fault
from kaisched_apiserver.kubelets import TOLD
from tests.on_kubernetes.test_crashes import kubeconfig, start
from tests.sharing.world import NAMESPACE, PODS, Shared
from tests.waiting import PATIENCE_S, until

__all__ = ["kubeconfig", "start"]

GROUP, GROUPS = "runai-gpu-group", "kaisched.io/gpu-groups"


pytestmark = pytest.mark.slow


@pytest.fixture
def shared(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_reservations, "_RENEW_S", 0.05)
    shared = Shared(rig, tmp_path)
    yield shared
    shared.close()


@pytest.fixture
def running(shared):
    """With a kubelet and a daemon."""
    shared.kubelet.start()
    shared.start()
    return shared


def test_two_shares_see_one_gpu_which_is_given_back_after_them(running):
    running.share("a", "0.5")
    running.share("b", "40000")
    (one, two) = running.sees("a", "b")
    assert one == two
    assert list(one) == running.gpus()
    pods = running.rig.pods()
    group = pods["a"]["metadata"]["labels"][GROUP]
    assert pods["b"]["metadata"]["labels"][GROUP] == group
    (reservation,) = running.reservations().values()
    assert reservation["metadata"]["name"] == reservation_name(Card("n0", group))
    assert reservation["metadata"]["labels"] == {"app": NAMESPACE, GROUP: group}
    assert running.notes("a")["kaisched.io/gpu-portion"] == "0.5"
    assert [running.notes(it)["kaisched.io/gpu-memory-mib"] for it in "ab"] == ["40000", "40000"]
    running.rig.delete_pod("a")
    running.rig.delete_pod("b")
    running.wait_unreserved()


def test_whole_gpus_and_shares_never_meet(running):
    """Two of three fit, whichever come first; then the third gets the GPU that is given back."""
    running.rig.pod("whole", "a", 1)
    running.share("a", "0.6")
    running.share("b", "0.6")
    first = until(lambda: len(placed := running.rig.placed()) == 2 and sorted(placed))
    assert len({*sum(running.sees(*first), ())}) == 2
    running.rig.delete_pod(first[0])
    then = [it for it in ("a", "b", "whole") if it != first[0]]
    assert len({*sum(running.sees(*then), ())}) == 2


def test_a_whole_gpu_is_free_again_once_its_shares_are_gone(running):
    running.share("a", "0.5")
    running.sees("a")
    running.rig.pod("whole", "a", 2)
    until(lambda: running.rig.condition("whole").get("reason") == "Unschedulable")
    running.rig.delete_pod("a")
    (whole,) = running.sees("whole")
    assert len(whole) == 2


def test_shares_of_two_cards_are_labelled_as_kai_reads_them(running):
    running.share("a", "0.5", 2)
    (seen,) = running.sees("a")
    assert len(set(seen)) == 2
    labels = running.rig.pods()["a"]["metadata"]["labels"]
    groups = running.notes("a")[GROUPS].split(",")
    assert labels[GROUP] == groups[0]
    assert [labels[f"{GROUP}/{it}"] for it in groups] == groups


def test_fifty_shares_at_once_fill_cards_and_no_card_is_overfull(running):
    running.node("n1", gpus=8)
    for number in range(20):
        running.share(f"p{number}", "0.5")
    seen = running.sees(*(f"p{number}" for number in range(20)))
    assert sorted(map(seen.count, set(seen))) == [2] * 10


def test_a_running_share_of_kai_scheduler_is_read_as_taken_and_its_card_is_used(shared):
    card = Card("n0", "kai-group")
    container = {"name": "r", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    reserving = {
        "metadata": {
            "name": "gpu-reservation-n0-abcde",
            "namespace": NAMESPACE,
            "labels": {"app": NAMESPACE, GROUP: card.group},
        },
        "spec": {"nodeName": "n0", "containers": [container]},
    }
    shared.rig.must("POST", PODS, reserving)
    meta = {"labels": {GROUP: card.group}, "annotations": {"gpu-fraction": "0.5"}}
    of_kai = {"schedulerName": "kai-scheduler", "nodeName": "n0"}
    shared.rig.pod("old", "a", 0, **meta, **of_kai)
    shared.kubelet.start()
    shared.start()
    shared.share("new", "0.5")
    shared.share("wide", "0.6")
    new, wide = shared.sees("new", "wide")
    assert shared.rig.pods()["new"]["metadata"]["labels"][GROUP] == card.group
    assert new != wide
    assert "gpu-reservation-n0-abcde" in shared.reservations()
    for name in ("old", "new", "wide"):
        shared.rig.delete_pod(name)
    shared.wait_unreserved()


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("write", ["create", "binding", "delete"])
def test_a_lost_answer_loses_nothing(running, server, effect, write):
    what = {
        "create": {"verb": "create", "subresource": ""},
        "binding": {"verb": "create", "subresource": "binding"},
        "delete": {"verb": "delete", "namespace": NAMESPACE},
    }[write]
    if write == "create":
        what["namespace"] = NAMESPACE
    server.faults.add(Fault(effect, plural="pods", **what))
    running.share("a")
    running.share("b")
    (one, two) = running.sees("a", "b")
    assert one == two
    assert len(running.gpus()) == 1
    running.rig.delete_pod("a")
    running.rig.delete_pod("b")
    running.wait_unreserved()


def test_a_reservation_that_the_kubelet_refuses_is_cleared_away_and_tried_elsewhere(running):
    """Another scheduler has taken the GPUs meanwhile."""
    limits = {"limits": {"nvidia.com/gpu": "2"}}
    thief = {"name": "main", "image": "none", "resources": limits}
    running.rig.pod("thief", "a", 0, containers=[thief], schedulerName="other", nodeName="n0")
    running.sees("thief")
    running.node("n1")
    running.share("a")
    running.sees("a")
    assert running.rig.placed()["a"] == "n1"
    running.rig.delete_pod("a")
    running.wait_unreserved()


def test_a_pod_that_is_deleted_while_its_gpu_is_reserved_leaves_nothing(running):
    running.kubelet.record = lambda pod, gpus: None
    running.share("a")
    until(running.reservations)
    running.rig.delete_pod("a")
    running.wait_unreserved()


def test_a_late_agent_is_waited_for_by_all_pods_of_the_card(running):
    told = []
    running.kubelet.record = lambda pod, gpus: gpus[0] if told else None
    running.share("a")
    until(running.reservations)
    running.share("b")
    until(lambda: running.rig.condition("b").get("status") != "False")
    assert running.rig.placed() == {}
    told.append(True)
    (one, two) = running.sees("a", "b")
    assert one == two


def test_what_a_user_writes_on_a_pod_keeps_nobody_from_its_gpu(running):
    running.share("a")
    (before,) = running.sees("a")
    notes = {"metadata": {"annotations": {"kaisched.io/gpu-uuids": "GPU-none"}}}
    running.rig.must("PATCH", f"{running.rig.pods_path}/a", notes, MERGE)
    running.share("b")
    assert running.sees("b") == [before]


@pytest.mark.parametrize("told", ["GPU-1,GPU-2", "none at all", ""])
def test_an_agent_that_tells_no_single_gpu_binds_nothing(running, told):
    running.kubelet.record = lambda pod, gpus: told
    running.share("a")
    until(
        lambda: any(TOLD in it["metadata"]["annotations"] for it in running.reservations().values())
    )
    assert running.rig.placed() == {}


def test_a_reservation_deleted_under_its_users_is_made_again_and_no_user_is_touched(running):
    """D7: the device plugin may give another GPU than the users have; then it is given back."""
    running.share("a", "0.5")
    (before,) = running.sees("a")
    turns = itertools.cycle([True, True, False, False])  # each time it orders two GPUs
    running.kubelet.plugin.order = lambda _, gpu: (gpu in before) is next(turns)
    uid = running.rig.pods()["a"]["metadata"]["uid"]
    for _ in range(2):
        (name,) = running.reservations()
        running.rig.must("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
        until(lambda: running.gpus() == list(before), what="the same GPU reserved")
    running.share("b", "0.5")
    assert running.sees("a", "b") == [before, before]
    assert running.rig.pods()["a"]["metadata"]["uid"] == uid


def test_no_whole_gpu_is_given_out_while_nothing_holds_a_gpu_in_use(shared):
    shared.kubelet.start()
    first = shared.start()
    shared.share("a", "0.5")
    shared.sees("a")
    first.stop()
    (name,) = shared.reservations()
    shared.rig.must("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    shared.kubelet.record = lambda pod, gpus: None
    shared.start()
    shared.rig.pod("whole", "a", 1)
    until(lambda: shared.rig.condition("whole").get("reason") == "Unschedulable")
    assert set(shared.rig.placed()) == {"a"}
    shared.kubelet.record = lambda pod, gpus: gpus[0]
    shared.sees("whole")


def test_a_scheduler_that_starts_anew_goes_on_with_what_the_last_has_begun(shared):
    shared.kubelet.record = lambda pod, gpus: None
    shared.kubelet.start()
    first = shared.start()
    shared.share("a")
    (name,) = until(shared.reservations)
    first.stop()
    shared.kubelet.record = lambda pod, gpus: gpus[0]
    shared.start()
    shared.sees("a")
    assert set(shared.reservations()) == {name}


@pytest.mark.parametrize("point", [*SHARING_POINTS, "bind.before_post", "bind.after_post:2"])
def test_a_scheduler_killed_at_any_point_leaves_nothing_undone(shared, start, point):
    shared.kubelet.start()
    process = start(KAISCHED_FAILPOINT=point, KAISCHED_SHARDS=shared.shard_file())
    shared.share("a")
    shared.share("b")
    if point.startswith("release"):
        shared.sees("a", "b")
        for name in "ab":
            shared.rig.delete_pod(name)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    shared.start()
    if not point.startswith("release"):
        (one, two) = shared.sees("a", "b")
        assert (one, len(shared.gpus())) == (two, 1)
        for name in "ab":
            shared.rig.delete_pod(name)
    shared.wait_unreserved()


def leave_reservation(shared):
    """Make a reservation as another scheduler has left it."""
    labels = {"app": NAMESPACE, GROUP: "left"}
    container = {"name": "r", "image": "none"}
    left = {
        "metadata": {"name": "left", "labels": labels},
        "spec": {"nodeName": "n0", "containers": [container]},
    }
    shared.rig.must("POST", PODS, left)


def test_a_reservation_without_pods_that_another_left_is_cleared_away(shared):
    leave_reservation(shared)
    shared.kubelet.start()
    shared.start()
    shared.wait_unreserved()


def test_nothing_is_done_where_the_shard_does_not_share_gpus(shared):
    leave_reservation(shared)
    shared.rig.start().wait_leading()
    shared.share("a")
    until(lambda: shared.rig.condition("a").get("reason") == "Unschedulable")
    assert set(shared.reservations()) == {"left"}
    path = f"{PODS}/left"
    assert shared.rig.ask("PATCH", path, {"metadata": {}}, MERGE).is_done
