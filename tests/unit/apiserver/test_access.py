"""Tokens and rules: 401, 403, and what a client may learn about its rights."""

import pytest

from kaisched_apiserver import Rule
from tests.contract.apiserver.client import Client, binding, pod

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.fixture
def scheduler(server):
    """A client that may list pods in one namespace, and bind one of them."""
    server.api.access.tokens = {"secret": "scheduler", "master": "admin"}
    server.api.access.rules = {
        "scheduler": [
            Rule(("list", "watch"), ("",), ("pods",), namespaces=("default",)),
            Rule(("create",), ("",), ("pods/binding",), names=("p",)),
            Rule(("*",), ("coordination.k8s.io",), ("*",)),
        ]
    }
    return Client(server.url, token="secret")


@pytest.fixture
def admin(server, scheduler):
    return Client(server.url, token="master")


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api", "/api/v1/no-such"])
def test_an_unknown_token_is_refused(server, scheduler, path):
    for client in (Client(server.url), Client(server.url, token="wrong")):
        assert (client.get(path).code, client.get(path).reason) == (401, "Unauthorized")


def test_health_needs_no_token(server, scheduler):
    assert Client(server.url).get("/readyz").code == 200


def test_what_a_rule_allows_is_allowed(scheduler, admin, pods):
    admin.post(pods, pod("p"))
    assert scheduler.get(pods).code == 200
    assert scheduler.watch(pods)[0] == 200
    assert scheduler.post(f"{pods}/p/binding", binding("p", "n")).code == 201
    assert scheduler.get("/apis/coordination.k8s.io/v1/leases").code == 200


def test_all_else_is_forbidden(scheduler, admin, pods):
    admin.post(pods, pod("q"))
    for answer in (
        scheduler.get("/api/v1/pods"),
        scheduler.get(f"{pods}/q"),
        scheduler.post(f"{pods}/q/binding", binding("q", "n")),
        scheduler.post(pods, pod("x")),
        scheduler.get("/api/v1/namespaces/kube-system/pods"),
    ):
        assert (answer.code, answer.reason) == (403, "Forbidden")


def test_a_refusal_says_what_was_wanted(scheduler):
    assert scheduler.get("/api/v1/nodes").message == (
        'nodes is forbidden: User "scheduler" cannot list resource "nodes" in API group ""'
        " at the cluster scope"
    )


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"verb": "list", "resource": "pods", "namespace": "default"}, True),
        ({"verb": "list", "resource": "pods"}, False),
        ({"verb": "create", "resource": "pods", "subresource": "binding", "name": "p"}, True),
        ({"verb": "get", "group": "coordination.k8s.io", "resource": "leases"}, True),
        ({"verb": "get", "resource": "secrets"}, False),
    ],
)
def test_a_client_can_ask_before(scheduler, attributes, allowed):
    review = {"spec": {"resourceAttributes": attributes}}
    assert scheduler.post(REVIEWS, review).body["status"]["allowed"] is allowed


def test_a_client_can_list_its_rules(scheduler, admin):
    path = REVIEWS.replace("access", "rules")
    mine = scheduler.post(path, {"spec": {"namespace": "default"}}).body["status"]["resourceRules"]
    assert {"verbs": ["create"], "resourceNames": ["p"]}.items() <= mine[1].items()
    everything = admin.post(path, {"spec": {}}).body["status"]["resourceRules"]
    assert everything == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_a_client_can_ask_who_it_is(scheduler):
    answer = scheduler.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer.body["status"]["userInfo"]["username"] == "scheduler"
