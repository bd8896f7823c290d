"""Pods that KAI-Scheduler's webhook has changed look up their GPU in ConfigMaps, end to end."""

import signal

import pytest

from kaisched.cluster.kubernetes import gpu_reservations
from kaisched.cluster.kubernetes.client import MERGE
from kaisched.cluster.kubernetes.pods import LOOKUP_POINTS
from kaisched_apiserver import Fault
from tests.on_kubernetes.test_crashes import kubeconfig, start
from tests.sharing.world import CONFIG_MAP, Shared
from tests.waiting import PATIENCE_S, until

__all__ = ["kubeconfig", "start"]

VISIBLE, LIMIT = "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_MEMORY_LIMIT"
pytestmark = pytest.mark.slow


@pytest.fixture
def shared(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_reservations, "_RENEW_S", 0.05)
    shared = Shared(rig, tmp_path)
    shared.sharing = {"configMaps": True}
    yield shared
    shared.close()


@pytest.fixture
def running(shared):
    """With a kubelet and a daemon."""
    shared.kubelet.start()
    shared.start()
    return shared


def uid(shared, name):
    return shared.rig.pods()[name]["metadata"]["uid"]


def owned(shared, name, pod):
    """Make a ConfigMap that a pod owns, as an earlier try has left it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid(shared, pod)}
    meta = {"name": name, "ownerReferences": [owner]}
    return shared.rig.must("POST", shared.config_maps, {"metadata": meta, "data": {"old": "1"}})


def test_the_container_sees_the_gpu_of_its_pod(running):
    name = running.webhooked("a", "0.25")
    (seen,) = running.sees("a")
    assert list(seen) == running.gpus()
    keys, environment = running.config_map(name), running.config_map(f"{name}-evar")
    assert keys["data"] == {
        VISIBLE: seen[0],
        "GPU_PORTION": "0.25",
        "RUNAI_NUM_OF_GPUS": "0.25",
        LIMIT: "20000m",
    }
    assert environment["data"] == {VISIBLE: seen[0]}
    for it in (keys, environment):
        (owner,) = it["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "a", uid(running, "a"))


def test_memory_is_told_as_a_part_that_is_not_more_than_the_memory(running):
    name = running.webhooked("a", "26667")
    running.sees("a")
    data = running.config_map(name)["data"]
    assert (data["GPU_PORTION"], data[LIMIT]) == ("0.333337", "26667m")


def test_several_gpus_are_joined_by_commas_in_the_order_of_their_groups(running):
    name = running.webhooked("a", "0.5", 2)
    (seen,) = running.sees("a")
    told = running.config_map(name)["data"][VISIBLE]
    assert told == running.notes("a")["kaisched.io/gpu-uuids"] == ",".join(seen)
    assert len(set(seen)) == 2


def test_names_of_cdi_where_the_shard_says_so(shared):
    shared.sharing["cdiNames"] = True
    shared.kubelet.start()
    shared.start()
    name = shared.webhooked("a")
    shared.sees("a")
    told = [shared.config_map(it)["data"][VISIBLE] for it in (name, f"{name}-evar")]
    assert told == [f"k8s.device-plugin.nvidia.com/gpu={shared.gpus()[0]}"] * 2
    assert shared.notes("a")["kaisched.io/gpu-uuids"] == shared.gpus()[0]


@pytest.mark.parametrize("init", [True, False])
def test_the_container_that_the_pod_names_has_the_share(running, init):
    name = running.webhooked("a", container="side", init=init)
    assert name.endswith("-i0" if init else "-1")
    (seen,) = running.sees("a")
    assert list(seen) == running.gpus()


def test_pods_with_and_without_the_webhook_share_a_gpu(running):
    running.webhooked("a")
    running.share("b")
    (one, two) = running.sees("a", "b")
    assert one == two
    maps = running.rig.must("GET", running.config_maps)["items"]
    assert {it["metadata"]["name"] for it in maps if "gpu" in it["metadata"]["name"]} == {
        "a-abc1234-shared-gpu-0",
        "a-abc1234-shared-gpu-0-evar",
    }


def test_such_a_pod_waits_where_the_shard_does_not_write_config_maps(shared):
    shared.sharing = {}
    shared.start()
    shared.webhooked("a")
    until(lambda: shared.rig.condition("a").get("reason") == "Unschedulable")
    assert "set spec.gpuSharing.configMaps" in shared.rig.condition("a")["message"]


# -- what is there already ------------------------------------------------------------------------


def test_what_an_earlier_try_has_left_is_brought_up_to_date(shared):
    shared.kubelet.start()
    name = shared.webhooked("a")
    before = owned(shared, name, "a")
    shared.start()
    (seen,) = shared.sees("a")
    after = shared.config_map(name)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["data"][VISIBLE] == seen[0]
    assert "old" not in after["data"]


@pytest.mark.parametrize("second", ["", "-evar"])
@pytest.mark.parametrize("has_owner", [True, False])
def test_a_config_map_of_another_is_never_touched(running, second, has_owner):
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u-1"}
    meta = {"name": f"a-abc1234-shared-gpu-0{second}"}
    meta |= {"ownerReferences": [owner]} if has_owner else {}
    before = running.rig.must("POST", running.config_maps, {"metadata": meta, "data": {"x": "1"}})
    running.webhooked("a")
    failed = until(lambda: [it for it in running.rig.logs if it["event"] == "bind_failed"])
    wanted = "belongs to Deployment web (UID u-1)" if has_owner else "has no owner"
    assert wanted in failed[0]["why"]
    assert running.config_map(meta["name"]) == before
    assert running.rig.placed() == {}
    running.rig.must("DELETE", f"{running.config_maps}/{meta['name']}")
    running.sees("a")


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("verb", ["create", "get", "update"])
def test_a_lost_answer_loses_nothing(shared, server, effect, verb):
    shared.kubelet.start()
    name = shared.webhooked("a")
    if verb != "create":
        owned(shared, name, "a")
    named = "" if verb == "create" else name
    fault = server.faults.add(Fault(effect, verb, "configmaps", named))
    shared.start()
    (seen,) = shared.sees("a")
    assert shared.config_map(name)["data"][VISIBLE] == seen[0]
    assert fault.met == 1


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", [*LOOKUP_POINTS, "bind.before_post"])
def test_a_scheduler_killed_at_any_point_leaves_nothing_wrong(shared, start, point, times):
    if point == "bind.before_post" and times == 2:
        pytest.skip("one pod is bound once")
    shared.kubelet.start()
    process = start(KAISCHED_FAILPOINT=f"{point}:{times}", KAISCHED_SHARDS=shared.shard_file())
    name = shared.webhooked("a")
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    shared.start()
    (seen,) = shared.sees("a")
    assert list(seen) == shared.gpus()
    for it in (name, f"{name}-evar"):
        assert shared.config_map(it)["data"][VISIBLE] == seen[0]


def test_a_bind_that_fails_leaves_them_to_the_next_which_may_be_to_another_gpu(running, server):
    server.faults.add(Fault("status", "create", "pods", subresource="binding", code=404))
    name = running.webhooked("a")
    until(lambda: [it for it in running.rig.logs if it["event"] == "bind_failed"])
    (seen,) = running.sees("a")
    assert running.config_map(name)["data"][VISIBLE] == seen[0] == running.gpus()[0]


def test_an_annotation_that_makes_no_name_is_refused_with_its_path(running):
    notes = {"gpu-fraction": "0.5", CONFIG_MAP: "../../kube-system/configmaps/x"}
    running.rig.pod("a", "a", 0, annotations=notes)
    until(lambda: running.rig.condition("a").get("reason") == "Unschedulable")
    assert CONFIG_MAP in running.rig.condition("a")["message"]
    running.rig.must(
        "PATCH", f"{running.rig.pods_path}/a", {"metadata": {"annotations": None}}, MERGE
    )
