"""What becomes of pods: defaults, checks, binding, deletion, eviction."""

import pytest

from tests.contract.apiserver.client import JSON_PATCH, binding, eviction, pod


def bind(client, pods, name, node="n1", **metadata):
    return client.post(f"{pods}/{name}/binding", binding(name, node, **metadata))


def conditions(answer):
    return [it["type"] for it in answer.body["status"].get("conditions", [])]


# -- creation ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "code"), [("-1", 422), ("NaN", 400), ("inf", 400), ("1_0", 400), ("1Ki5", 400)]
)
def test_amounts_must_be_amounts(client, pods, cpu, code):
    wrong = pod("p")
    wrong["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    assert client.post(pods, wrong).code == code


@pytest.mark.parametrize("memory", ["1e30", "1e400", "64Gi"])
def test_huge_amounts_are_taken(client, pods, memory):
    huge = pod("p")
    huge["spec"]["containers"][0]["resources"] = {"requests": {"memory": memory}}
    assert client.post(pods, huge).code == 201


def test_a_status_cannot_be_created(client, pods):
    made = client.post(pods, {**pod("p"), "status": {"phase": "Running"}})
    assert made.body["status"]["phase"] == "Pending"


@pytest.mark.parametrize(
    ("requests", "limits", "class_"),
    [
        ({}, {}, "BestEffort"),
        ({"cpu": "1"}, {}, "Burstable"),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, "Guaranteed"),
    ],
)
def test_a_pod_has_a_class_of_service(client, pods, requests, limits, class_):
    made = pod("p")
    made["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    assert client.post(pods, made).body["status"]["qosClass"] == class_


# -- binding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_pod_is_bound_once(client, pods, node):
    client.post(pods, pod("p"))
    bind(client, pods, "p", "n1")
    again = bind(client, pods, "p", node)
    assert (again.code, again.reason) == (409, "Conflict")
    assert 'is already assigned to node "n1"' in again.message


def test_a_binding_may_name_the_version_it_means(client, pods):
    old = client.post(pods, pod("p")).version
    client.patch(f"{pods}/p", {"metadata": {"labels": {"a": "b"}}})
    wrong = bind(client, pods, "p", resourceVersion=old)
    assert wrong.code == 409
    assert "Precondition failed: ResourceVersion" in wrong.message


def test_a_gated_pod_is_bound_after_its_last_gate(client, pods):
    client.post(pods, pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    assert conditions(client.get(f"{pods}/p")) == ["PodScheduled"]
    assert bind(client, pods, "p").code == 409
    steps = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    assert client.patch(f"{pods}/p", steps, type_=JSON_PATCH).code == 200
    assert bind(client, pods, "p").code == 201


def test_a_binding_clears_the_nomination(client, pods):
    client.post(pods, pod("p"))
    client.patch(f"{pods}/p/status", {"status": {"nominatedNodeName": "n9"}})
    assert client.get(f"{pods}/p").body["status"]["nominatedNodeName"] == "n9"
    bind(client, pods, "p")
    assert "nominatedNodeName" not in client.get(f"{pods}/p").body["status"]


def test_a_binding_needs_a_node(client, pods):
    client.post(pods, pod("p"))
    answer = client.post(f"{pods}/p/binding", {**binding("p", ""), "target": {}})
    assert (answer.code, answer.message) == (500, "target.name: Required value")


# -- what may be changed -------------------------------------------------------------------------


def test_tolerations_may_be_added(client, pods):
    made = client.post(pods, pod("p")).body["spec"]["tolerations"]
    more = [*made, {"key": "k", "operator": "Exists", "effect": "NoSchedule"}]
    assert client.patch(f"{pods}/p", {"spec": {"tolerations": more}}).code == 200
    assert client.patch(f"{pods}/p", {"spec": {"tolerations": made[1:]}}).code == 422


# -- deletion ------------------------------------------------------------------------------------


def test_grace_only_gets_shorter(client, pods):
    client.post(pods, pod("p"))
    bind(client, pods, "p")
    graces = [
        client.delete(f"{pods}/p", {"gracePeriodSeconds": wanted}).body["metadata"][
            "deletionGracePeriodSeconds"
        ]
        for wanted in (20, 5, 60)
    ]
    assert graces == [20, 5, 5]
    assert client.delete(f"{pods}/p", {"gracePeriodSeconds": 0}).code == 200
    assert client.get(f"{pods}/p").code == 404


def test_deleting_may_name_the_pod_it_means(client, pods):
    made = client.post(pods, pod("p")).body["metadata"]
    other = {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}
    assert client.delete(f"{pods}/p", other).code == 409
    old = {"preconditions": {"resourceVersion": "1"}}
    assert client.delete(f"{pods}/p", old).code == 409
    assert client.delete(f"{pods}/p", {"preconditions": {"uid": made["uid"]}}).code == 200


# -- eviction ------------------------------------------------------------------------------------


def test_an_evicted_pod_says_why_it_leaves(client, pods):
    client.post(pods, pod("p"))
    bind(client, pods, "p")
    assert client.post(f"{pods}/p/eviction", eviction("p")).code == 201
    left = client.get(f"{pods}/p")
    assert conditions(left) == ["PodScheduled", "DisruptionTarget"]
    assert left.body["metadata"]["deletionGracePeriodSeconds"] == 30


def test_an_eviction_may_name_pod_and_grace(client, pods):
    made = client.post(pods, pod("p")).body["metadata"]
    bind(client, pods, "p")
    wrong = eviction("p", preconditions={"uid": "11111111-1111-1111-1111-111111111111"})
    assert client.post(f"{pods}/p/eviction", wrong).code == 409
    right = eviction("p", preconditions={"uid": made["uid"]}, gracePeriodSeconds=3)
    assert client.post(f"{pods}/p/eviction", right).code == 201
    left = client.get(f"{pods}/p").body["metadata"]
    assert left["deletionGracePeriodSeconds"] == 3


@pytest.fixture
def guarded(client, pods, ns):
    """A ready pod on a node, under a budget whose status nobody has worked out."""
    path = f"/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
    }
    assert client.post(path, budget).code == 201
    client.post(pods, pod("p", labels={"app": "p"}))
    bind(client, pods, "p")
    ready = {"type": "Ready", "status": "True"}
    client.patch(f"{pods}/p/status", {"status": {"phase": "Running", "conditions": [ready]}})
    return f"{path}/b"


def test_a_budget_that_is_not_worked_out_forbids(client, pods, guarded):
    answer = client.post(f"{pods}/p/eviction", eviction("p"))
    assert (answer.code, answer.reason) == (429, "TooManyRequests")
    assert answer.body["details"]["causes"][0]["reason"] == "DisruptionBudget"
    assert answer.headers["Retry-After"] == "10"


def test_a_budget_that_is_used_up_forbids(client, pods, guarded):
    status = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1}
    status |= {"desiredHealthy": 1, "expectedPods": 1}
    assert client.patch(f"{guarded}/status", {"status": status}).code == 200
    answer = client.post(f"{pods}/p/eviction", eviction("p"))
    assert answer.code == 429
    assert "needs 1 healthy pods and has 1 currently" in str(answer.body)


def test_an_eviction_uses_the_budget(client, pods, guarded):
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2}
    status |= {"desiredHealthy": 1, "expectedPods": 2}
    client.patch(f"{guarded}/status", {"status": status})
    assert client.post(f"{pods}/p/eviction", eviction("p")).code == 201
    left = client.get(guarded).body["status"]
    assert left["disruptionsAllowed"] == 0
    assert list(left["disruptedPods"]) == ["p"]


def test_deleting_asks_no_budget(client, pods, guarded):
    assert client.delete(f"{pods}/p").code == 200


def test_a_pending_pod_is_evicted_under_any_budget(client, pods, guarded):
    client.post(pods, pod("q", labels={"app": "p"}))
    assert client.post(f"{pods}/q/eviction", eviction("q")).code == 201
