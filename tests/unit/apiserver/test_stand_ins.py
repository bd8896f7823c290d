"""The stand-ins for kubelets and controllers: what happens by itself in a playground."""

from ipaddress import IPv4Network

import pytest

from kaisched.objects.labels import RUN_SECONDS
from kaisched_apiserver import ApiServer
from kaisched_apiserver.kubelets import Addresses
from kaisched_apiserver.playground import Size, playground
from tests.contract.apiserver.client import binding, eviction, pod
from tests.waiting import until

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def server():
    with playground(Size(nodes=2, gpus_per_node=8, start_delay_s=0.05)) as server:
        assert isinstance(server, ApiServer)
        yield server


@pytest.fixture
def start(client, pods):
    """Create pods that are bound at once."""

    def make(name, node="gpu-node-1", *, annotations=None, **spec):
        made = pod(name, nodeName=node, **spec)
        made["metadata"]["annotations"] = annotations or {}
        assert client.post(pods, made).code == 201

    return make


def phase(client, path):
    return client.get(path).body.get("status", {}).get("phase")


def names(client, path):
    return [it["metadata"]["name"] for it in client.get(path).body["items"]]


def template(**annotations):
    container = {"name": "c", "image": "x"}
    spec = {"nodeName": "gpu-node-1", "containers": [container]}
    return {"metadata": {"labels": {"app": "a"}, "annotations": annotations}, "spec": spec}


# -- kubelets ------------------------------------------------------------------------------------


def test_nodes_are_ready_and_have_gpus(client):
    def ready():
        nodes = client.get("/api/v1/nodes").body["items"]
        return nodes if all("conditions" in it["status"] for it in nodes) else None

    nodes = until(ready)
    assert [it["metadata"]["name"] for it in nodes] == ["gpu-node-1", "gpu-node-2"]
    assert all(it["status"]["allocatable"]["nvidia.com/gpu"] == "8" for it in nodes)
    assert not any(it["spec"].get("taints") for it in nodes)


def test_a_bound_pod_runs(client, pods):
    client.post(pods, pod("p"))
    client.post(f"{pods}/p/binding", binding("p", "gpu-node-2"))
    until(lambda: phase(client, f"{pods}/p") == "Running")
    status = client.get(f"{pods}/p").body["status"]
    ready = {it["type"]: it["status"] for it in status["conditions"]}
    assert ready["Ready"] == ready["PodScheduled"] == "True"
    assert status["containerStatuses"][0]["ready"]


def test_each_pod_has_an_address_of_its_own(client, pods, start):
    start("a")
    start("b", node="gpu-node-2")
    start("c", hostNetwork=True)

    def status(name):
        return client.get(f"{pods}/{name}").body["status"]

    until(lambda: all(phase(client, f"{pods}/{name}") == "Running" for name in "abc"))
    a, b, c = (status(name) for name in "abc")
    assert len({a["podIP"], b["podIP"], a["hostIP"], b["hostIP"]}) == 4
    assert c["podIP"] == c["hostIP"] == a["hostIP"]
    assert a["podIPs"] == [{"ip": a["podIP"]}]
    (address,) = client.get("/api/v1/nodes/gpu-node-1").body["status"]["addresses"]
    assert address == {"type": "InternalIP", "address": a["hostIP"]}


def test_an_address_is_given_again_only_when_it_was_given_back():
    addresses = Addresses(IPv4Network("10.0.0.0/29"))
    first = [addresses.of(str(pod)) for pod in range(5)]
    assert first == [addresses.of(str(pod)) for pod in range(5)]
    assert len({*first}) == 5
    addresses.release("1")
    assert {addresses.of("x"), addresses.of("y")} == {"10.0.0.6", first[1]}


def test_an_unbound_pod_waits(client, pods, start):
    client.post(pods, pod("p"))
    start("q")
    until(lambda: phase(client, f"{pods}/q") == "Running")
    assert phase(client, f"{pods}/p") == "Pending"


def test_a_pod_ends_when_it_said(client, pods, start):
    start("p", annotations={RUN_SECONDS: "0.1"})
    until(lambda: phase(client, f"{pods}/p") == "Succeeded")


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_run_time_that_is_none_is_told(client, pods, start, text):
    start("p", annotations={RUN_SECONDS: text})
    path = "/api/v1/namespaces/default/events"
    events = until(lambda: client.get(path, fieldSelector="reason=NoRunSeconds").body["items"])
    assert text in events[0]["message"]
    assert phase(client, f"{pods}/p") == "Running"


def test_a_deleted_pod_leaves_by_itself(client, pods, start):
    start("p")
    until(lambda: phase(client, f"{pods}/p") == "Running")
    assert "deletionTimestamp" in client.delete(f"{pods}/p").body["metadata"]
    until(lambda: client.get(f"{pods}/p").code == 404)


def test_a_pod_waits_for_a_node_that_is_not_there_yet(client, pods, start):
    start("p", "late-node")
    start("q")
    until(lambda: phase(client, f"{pods}/q") == "Running")
    assert phase(client, f"{pods}/p") == "Pending"
    client.post("/api/v1/nodes", {"metadata": {"name": "late-node"}})
    until(lambda: phase(client, f"{pods}/p") == "Running")


def test_pods_go_with_their_node(client, pods, start):
    start("p")
    client.delete("/api/v1/nodes/gpu-node-1")
    until(lambda: client.get(f"{pods}/p").code == 404)


# -- controllers ---------------------------------------------------------------------------------


def test_a_budget_counts_its_pods(client, pods, start):
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}
    client.post(BUDGETS, {"metadata": {"name": "b"}, **budget})
    for name in ("p", "q"):
        start(name, labels={"app": "a"})

    def allowed(count):
        status = client.get(f"{BUDGETS}/b").body.get("status", {})
        return status.get("expectedPods") and status["disruptionsAllowed"] == count

    until(lambda: allowed(1))
    assert client.post(f"{pods}/p/eviction", eviction("p")).code == 201
    assert client.post(f"{pods}/q/eviction", eviction("q")).code == 429
    until(lambda: client.get(f"{pods}/p").code == 404)
    until(lambda: allowed(0))


def test_a_job_runs_to_its_end(client, pods):
    spec = {"parallelism": 2, "completions": 3, "template": template(**{RUN_SECONDS: "0.1"})}
    client.post(JOBS, {"metadata": {"name": "j"}, "spec": spec})

    def ended():
        status = client.get(f"{JOBS}/j").body.get("status", {})
        return status if "completionTime" in status else None

    status = until(ended)
    assert (status["succeeded"], status["active"]) == (3, 0)
    made = client.get(pods, labelSelector="batch.kubernetes.io/job-name=j").body["items"]
    assert len(made) == 3
    owner = made[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("Job", True)


def test_what_is_owned_goes_with_its_owner(client, pods):
    spec = {"parallelism": 2, "completions": 2, "template": template()}
    client.post(JOBS, {"metadata": {"name": "j"}, "spec": spec})
    until(lambda: len(names(client, pods)) == 2)
    client.delete(f"{JOBS}/j")
    until(lambda: names(client, pods) == [])


def test_a_replica_set_keeps_its_number(client, pods):
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": template()}
    client.post(SETS, {"metadata": {"name": "s"}, "spec": spec})
    first = until(lambda: len(it := names(client, pods)) == 3 and it)
    client.delete(f"{pods}/{first[0]}", gracePeriodSeconds=0)
    until(lambda: len(it := names(client, pods)) == 3 and it != first)
    client.patch(f"{SETS}/s", {"spec": {"replicas": 1}})
    until(lambda: len(names(client, pods)) == 1)
    until(lambda: client.get(f"{SETS}/s").body["status"]["replicas"] == 1)


def test_a_deployment_has_a_replica_set(client, pods):
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template()}
    client.post(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})
    ready = {"replicas": 2, "readyReplicas": 2}
    until(lambda: client.get(f"{DEPLOYMENTS}/d").body.get("status") == ready)
    client.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 1}})
    until(lambda: len(names(client, pods)) == 1)
    client.delete(f"{DEPLOYMENTS}/d")
    until(lambda: names(client, pods) == names(client, SETS) == [])


def test_a_namespace_empties_and_goes(client):
    client.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    path = "/api/v1/namespaces/team"
    client.post(f"{path}/pods", pod("p", nodeName="gpu-node-1"))
    client.post(f"{path}/configmaps", {"metadata": {"name": "m"}})
    assert client.delete(path).body["status"]["phase"] == "Terminating"
    assert client.post(f"{path}/configmaps", {"metadata": {"name": "n"}}).code == 403
    until(lambda: client.get(path).code == 404)
    assert client.get(f"{path}/pods").body["items"] == []


def test_a_namespace_waits_for_what_is_in_it(client, pods):
    path = "/api/v1/namespaces/team"
    client.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    held = {"metadata": {"name": "m", "finalizers": ["example.com/wait"]}}
    client.post(f"{path}/configmaps", held)
    client.delete(path)
    client.patch(path, {"metadata": {"labels": {"a": "b"}}})
    until(lambda: "deletionTimestamp" in client.get(f"{path}/configmaps/m").body["metadata"])
    assert client.get(path).code == 200
    client.patch(f"{path}/configmaps/m", {"metadata": {"finalizers": None}})
    until(lambda: client.get(path).code == 404)


def test_a_pod_with_a_finalizer_stays_until_it_is_off(client, pods, start):
    client.post(pods, {**pod("p", nodeName="gpu-node-1")})
    client.patch(f"{pods}/p", {"metadata": {"finalizers": ["example.com/wait"]}})
    client.delete(f"{pods}/p")

    def has_stopped():
        meta = client.get(f"{pods}/p").body["metadata"]
        return meta.get("deletionGracePeriodSeconds") == 0

    until(has_stopped)
    client.patch(f"{pods}/p", {"metadata": {"finalizers": None}})
    assert client.get(f"{pods}/p").code == 404


def test_the_kinds_of_kai_are_served(client):
    queue = {"metadata": {"name": "lab"}, "spec": {"resources": {"gpu": {"quota": 4}}}}
    assert client.post("/apis/scheduling.run.ai/v2/queues", queue).code == 201
    for path in (
        "/apis/scheduling.run.ai/v2alpha2/podgroups",
        "/apis/kai.scheduler/v1/schedulingshards",
        "/apis/kai.scheduler/v1alpha1/topologies",
    ):
        assert client.get(path).code == 200
