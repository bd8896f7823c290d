"""Creating, replacing and deleting objects of any kind."""

import pytest

from tests.contract.apiserver.client import pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def lease(name, holder="x", **metadata):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": holder},
    }


def config(name, data=None, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


@pytest.fixture
def maps(ns):
    return f"/api/v1/namespaces/{ns}/configmaps"


def test_a_new_object_has_an_identity(client, maps, ns):
    meta = client.post(maps, config("m")).body["metadata"]
    assert meta["name"] == "m"
    assert meta["namespace"] == ns
    assert len(meta["uid"]) == 36
    assert int(meta["resourceVersion"]) > 0
    assert meta["creationTimestamp"].endswith("Z")


def test_an_object_is_read_as_it_was_written(client, maps):
    made = client.post(maps, config("m", {"a": "b"})).body
    assert client.get(f"{maps}/m").body == made
    assert made["data"] == {"a": "b"}


def test_names_are_generated(client, maps):
    first, second = (
        client.post(maps, {**config(""), "metadata": {"generateName": "m-"}}).body["metadata"]
        for _ in range(2)
    )
    assert first["name"].startswith("m-")
    assert len(first["name"]) == 7
    assert first["name"] != second["name"]


@pytest.mark.parametrize("prefix", ["a.", "Upper-", "a_", ".a-"])
def test_what_names_are_to_be_generated_from_is_checked_too(client, maps, prefix):
    answer = client.post(maps, {**config(""), "metadata": {"generateName": prefix}})
    assert answer.code == 422
    assert "metadata.generateName" in {it["field"] for it in answer.body["details"]["causes"]}


@pytest.mark.parametrize("name", ["", "Upper", "a_b", "-a", "a" * 254])
def test_bad_names_are_refused(client, maps, name):
    answer = client.post(maps, config(name))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.body["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize("value", ['a"b', "a b", "a\nb", "\u00e9", "a" * 64, "-a"])
def test_bad_label_values_are_refused(client, maps, value):
    answer = client.post(maps, config("m", labels={"k": value}))
    assert (answer.code, answer.reason) == (422, "Invalid")


def test_a_namespace_must_exist(client):
    answer = client.post("/api/v1/namespaces/no-such/configmaps", config("m"))
    assert (answer.code, answer.message) == (404, 'namespaces "no-such" not found')


def test_the_namespace_of_the_path_counts(client, maps):
    answer = client.post(maps, config("m", namespace="elsewhere"))
    assert (answer.code, answer.reason) == (400, "BadRequest")


@pytest.mark.parametrize("body", ["{", "[]", '"text"', "{} {}"])
def test_a_body_must_be_an_object(client, maps, body):
    answer = client.post(maps, body)
    assert (answer.code, answer.body["kind"]) == (400, "Status")


def test_another_kind_is_refused(client, maps):
    assert client.post(maps, {**config("m"), "kind": "Secret"}).code == 400


def test_replacing_with_the_same_changes_no_version(client, ns):
    path = LEASES.format(ns)
    first = client.post(path, lease("k")).body
    assert client.put(f"{path}/k", first).version == first["metadata"]["resourceVersion"]


def test_identity_survives_replacing(client, maps):
    first = client.post(maps, config("m")).body["metadata"]
    second = client.put(f"{maps}/m", config("m", {"a": "b"})).body["metadata"]
    assert second["uid"] == first["uid"]
    assert second["creationTimestamp"] == first["creationTimestamp"]


def test_the_name_of_the_path_counts(client, maps):
    client.post(maps, config("m"))
    assert client.put(f"{maps}/m", config("n")).code == 400


def test_a_dry_run_keeps_nothing(client, maps):
    assert client.post(maps, config("m"), dryRun="All").code == 201
    assert client.get(f"{maps}/m").code == 404
    client.post(maps, config("m"))
    assert client.delete(f"{maps}/m", dryRun="All").code == 200
    assert client.patch(f"{maps}/m", {"data": {"a": "b"}}, dryRun="All").body["data"] == {"a": "b"}
    assert client.get(f"{maps}/m").body.get("data", {}) == {}


def test_deleting_answers_with_a_status(client, maps):
    uid = client.post(maps, config("m")).body["metadata"]["uid"]
    answer = client.delete(f"{maps}/m")
    assert (answer.code, answer.body["status"]) == (200, "Success")
    assert answer.body["details"]["uid"] == uid
    assert client.delete(f"{maps}/m").code == 404


def test_a_finalizer_delays_the_end(client, maps):
    client.post(maps, config("m", finalizers=["example.com/wait"]))
    assert client.delete(f"{maps}/m").code == 200
    assert client.get(f"{maps}/m").body["metadata"]["deletionTimestamp"]
    client.patch(f"{maps}/m", {"metadata": {"finalizers": None}})
    assert client.get(f"{maps}/m").code == 404


def test_all_selected_objects_are_deleted(client, maps):
    for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
        client.post(maps, config(name, labels={"team": team}))
    answer = client.delete(maps, labelSelector="team=x")
    assert answer.body["kind"] in {"ConfigMapList", "Status"}
    names = {it["metadata"]["name"] for it in client.get(maps, labelSelector="team").body["items"]}
    assert names == {"b"}


def test_events_of_both_versions_are_the_same_objects(client, ns):
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": ns},
        "note": "it fits",
        "reason": "Scheduled",
        "action": "Binding",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kaisched",
        "reportingInstance": "kaisched-0",
    }
    assert client.post(f"/apis/events.k8s.io/v1/namespaces/{ns}/events", event).code == 201
    seen = client.get(f"/api/v1/namespaces/{ns}/events", fieldSelector="involvedObject.name=p").body
    assert seen["items"][0]["message"] == "it fits"
    assert seen["items"][0]["reportingComponent"] == "kaisched"


def test_priority_comes_from_the_class(client, pods, ns):
    name = f"{ns}-high"
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    client.post(path, {**kind, "metadata": {"name": name}, "value": 50})
    spec = client.post(pods, pod("p", priorityClassName=name)).body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (50, "PreemptLowerPriority")
    client.delete(f"{path}/{name}")


def test_unknown_paths_and_methods_are_told_apart(client, pods):
    assert client.get("/apis/no.such/v1/things").code == 404
    assert client.get("/api/v1/things").code == 404
    assert client.ask("PUT", pods, {}).code == 405
    client.post(pods, pod("p"))
    assert client.get(f"{pods}/p/no-such-part").code == 404


def test_the_server_says_who_it_is(client):
    assert client.get("/readyz").code == 200
    version = client.get("/version").body
    assert version["major"] == "1"
    assert version["gitVersion"].startswith("v")  # one built from a clone has no number
    groups = {it["name"] for it in client.get("/apis").body["groups"]}
    assert {"apps", "batch", "coordination.k8s.io", "policy"} <= groups
    rows = client.get("/api/v1").body["resources"]
    found = {it["name"]: it for it in rows}
    assert found["pods"]["shortNames"] == ["po"]
    assert "create" in found["pods/binding"]["verbs"]
    assert found["pods/eviction"]["group"] == "policy"
