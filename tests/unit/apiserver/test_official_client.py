"""The official Python client works on the server: models, watches, errors, leases."""

import pytest
from kubernetes import client as k8s
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

from kaisched_apiserver.playground import kubeconfig_of


@pytest.fixture
def api(server, tmp_path):
    from kubernetes import config

    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfig_of(server.url, "secret"))
    with config.new_client_from_config(str(path)) as api:
        yield api


@pytest.fixture
def core(api):
    return k8s.CoreV1Api(api)


def pod(name):
    container = k8s.V1Container(
        name="c",
        image="x",
        resources=k8s.V1ResourceRequirements(limits={"nvidia.com/gpu": "1"}),
    )
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name=name),
        spec=k8s.V1PodSpec(scheduler_name="kaisched", containers=[container]),
    )


def test_a_pod_is_created_listed_and_deleted(core):
    made = core.create_namespaced_pod("default", pod("p"))
    assert made.status.phase == "Pending"
    assert made.spec.containers[0].resources.requests == {"nvidia.com/gpu": "1"}
    found = core.list_pod_for_all_namespaces(field_selector="spec.schedulerName=kaisched")
    assert [it.metadata.name for it in found.items] == ["p"]
    core.delete_namespaced_pod("p", "default")
    assert core.list_namespaced_pod("default").items == []


def test_an_error_is_an_exception_with_a_status(core):
    with pytest.raises(ApiException) as caught:
        core.read_namespaced_pod("no", "default")
    assert caught.value.status == 404


def test_a_pod_is_bound_and_evicted(core):
    core.create_namespaced_pod("default", pod("p"))
    body = k8s.V1Binding(
        metadata=k8s.V1ObjectMeta(name="p"), target=k8s.V1ObjectReference(kind="Node", name="n1")
    )
    # The client cannot decode the Status that any API server answers with.
    core.create_namespaced_pod_binding("p", "default", body, _preload_content=False)
    assert core.read_namespaced_pod("p", "default").spec.node_name == "n1"
    core.create_namespaced_pod_eviction(
        "p",
        "default",
        k8s.V1Eviction(metadata=k8s.V1ObjectMeta(name="p")),
        _preload_content=False,
    )
    assert core.read_namespaced_pod("p", "default").metadata.deletion_timestamp is not None


def test_a_watch_yields_models(core):
    core.create_namespaced_pod("default", pod("p"))
    stream = watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=1)
    assert [(it["type"], it["object"].metadata.name) for it in stream] == [("ADDED", "p")]


def test_status_is_patched(core):
    core.create_namespaced_pod("default", pod("p"))
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    patched = core.patch_namespaced_pod_status(
        "p", "default", {"status": {"conditions": conditions}}
    )
    assert patched.status.conditions[0].reason == "Unschedulable"


def test_a_lease_is_held_by_one(api):
    leases = k8s.CoordinationV1Api(api)
    made = leases.create_namespaced_lease(
        "default",
        k8s.V1Lease(metadata=k8s.V1ObjectMeta(name="k"), spec=k8s.V1LeaseSpec(holder_identity="x")),
    )
    leases.replace_namespaced_lease("k", "default", made)
    made.spec.holder_identity = "y"
    leases.replace_namespaced_lease("k", "default", made)
    with pytest.raises(ApiException) as caught:
        leases.replace_namespaced_lease("k", "default", made)
    assert caught.value.status == 409


def test_custom_objects_are_plain(api, server):
    from kaisched_apiserver.playground import add_kai_kinds

    add_kai_kinds(server)
    custom = k8s.CustomObjectsApi(api)
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "lab"},
        "spec": {"resources": {"gpu": {"quota": 4}}},
    }
    custom.create_cluster_custom_object("scheduling.run.ai", "v2", "queues", queue)
    found = custom.list_cluster_custom_object("scheduling.run.ai", "v2", "queues")
    assert found["items"][0]["spec"] == queue["spec"]
