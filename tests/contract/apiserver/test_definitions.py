"""Custom kinds: served from their definition on, with its schema."""

import pytest

from tests.contract.apiserver.client import APPLY, STRATEGIC
from tests.waiting import until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
                "share": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "parts": {
                    "type": "array",
                    "maxItems": 2,
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "at": {"type": "number"}},
                    },
                },
                "amounts": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        },
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
    },
}


def definition(group, plural="things", kind="Thing", scope="Namespaced"):
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "shortNames": ["th"]},
            "versions": [version],
        },
    }


def thing(name="t", **spec):
    return {"metadata": {"name": name}, "spec": {"size": 1, **spec}}


@pytest.fixture
def group(ns):
    return f"{ns}.example.com"


@pytest.fixture
def things(client, group, ns):
    """The path of a custom kind that is served."""
    assert client.post(CRDS, definition(group)).code == 201
    path = f"/apis/{group}/v1/namespaces/{ns}/things"
    until(lambda: client.get(path).code == 200)

    def post(obj, **query):
        typed = {"apiVersion": f"{group}/v1", "kind": "Thing", **obj}
        return client.post(path, typed, **query)

    post.path = path
    yield post
    client.delete(f"{CRDS}/things.{group}")


def causes(answer):
    return {it["field"] for it in answer.body["details"]["causes"]}


def test_a_kind_is_not_served_before_its_definition(client, group, ns):
    assert client.get(f"/apis/{group}/v1/namespaces/{ns}/things").code == 404


def test_a_definition_is_established(client, things, group):
    status = client.get(f"{CRDS}/things.{group}").body["status"]
    found = {it["type"]: it["status"] for it in status["conditions"]}
    assert found == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]


def test_discovery_shows_a_custom_kind(client, things, group):
    rows = {it["name"]: it for it in client.get(f"/apis/{group}/v1").body["resources"]}
    assert rows["things"]["shortNames"] == ["th"]
    assert rows["things"]["kind"] == "Thing"
    assert "things/status" in rows


def test_defaults_come_and_unknown_fields_go(things):
    made = things(thing(odd=1, parts=[{"name": "x", "odd": 2}], free={"any": {"thing": 1}}))
    assert made.code == 201
    assert made.body["spec"] == {
        "size": 1,
        "mode": "fast",
        "parts": [{"name": "x"}],
        "free": {"any": {"thing": 1}},
    }


def test_unknown_fields_are_warned_of(things):
    made = things(thing(odd=1), fieldValidation="Warn")
    assert 'unknown field \\"spec.odd\\"' in made.headers["Warning"]


def test_a_warning_stays_within_its_header(client, things):
    made = things(thing(**{"a\r\nX-Made-Up: 1": 1}))
    assert made.code == 201
    assert "X-Made-Up" not in made.headers


def test_unknown_fields_can_be_errors(things):
    answer = things(thing(odd=1), fieldValidation="Strict")
    assert answer.code == 400
    assert 'unknown field "spec.odd"' in answer.message


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": 0}, "spec.size"),
        ({"size": 10}, "spec.size"),
        ({"size": "1"}, "spec.size"),
        ({"mode": "odd"}, "spec.mode"),
        ({"parts": [{}, {}, {}]}, "spec.parts"),
        ({"parts": [{"at": "x"}]}, "spec.parts[0].at"),
        ({"amounts": {"a": 1}}, "spec.amounts.a"),
    ],
)
def test_values_must_fit_the_schema(things, spec, field):
    answer = things(thing(**spec))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert field in causes(answer)


def test_required_fields_are_required(things):
    answer = things({"metadata": {"name": "t"}, "spec": {}})
    assert (answer.code, causes(answer)) == (422, {"spec.size"})


@pytest.mark.parametrize("share", [1, "50%"])
def test_a_number_or_a_text_may_be_allowed(things, share):
    assert things(thing(share=share)).body["spec"]["share"] == share


def test_status_is_written_apart(client, things):
    assert "status" not in things({**thing(), "status": {"seen": 1}}).body
    patch = {"spec": {"size": 5}, "status": {"seen": 2}}
    answer = client.patch(f"{things.path}/t/status", patch)
    assert (answer.body["spec"]["size"], answer.body["status"]) == (1, {"seen": 2})
    again = client.patch(f"{things.path}/t", patch)
    assert (again.body["spec"]["size"], again.body["status"]) == (5, {"seen": 2})


def test_generations_count_changes_of_the_spec(client, things):
    assert things(thing()).body["metadata"]["generation"] == 1
    client.patch(f"{things.path}/t/status", {"status": {"seen": 2}})
    client.patch(f"{things.path}/t", {"metadata": {"labels": {"a": "b"}}})
    assert client.get(f"{things.path}/t").body["metadata"]["generation"] == 1
    answer = client.patch(f"{things.path}/t", {"spec": {"size": 2}})
    assert answer.body["metadata"]["generation"] == 2


def test_strategic_patches_need_a_built_in_kind(client, things):
    things(thing())
    assert client.patch(f"{things.path}/t", {}, type_=STRATEGIC).code == 415


def test_apply_works_on_custom_kinds(client, things, group):
    body = {"apiVersion": f"{group}/v1", "kind": "Thing", **thing("new")}
    answer = client.patch(f"{things.path}/new", body, type_=APPLY, fieldManager="t")
    assert (answer.code, answer.body["spec"]["mode"]) == (201, "fast")


def test_custom_objects_are_watched(client, things):
    things(thing())
    events = client.watch(things.path)[1]
    assert [(it["type"], it["object"]["kind"]) for it in events] == [("ADDED", "Thing")]


def test_columns_come_from_the_definition(client, things):
    things(thing(size=7))
    table = client.get(things.path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [it["name"] for it in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["t", 7]


def test_objects_go_with_their_definition(client, things, group):
    things(thing())
    assert client.delete(f"{CRDS}/things.{group}").code == 200
    until(lambda: client.get(things.path).code == 404)
    assert client.get(things.path).code == 404


def test_a_definition_must_be_whole(client, group):
    wrong = definition(group)
    wrong["metadata"]["name"] = "other.example.com"
    assert client.post(CRDS, wrong).code == 422
    wrong = definition(group)
    del wrong["spec"]["versions"][0]["schema"]
    assert client.post(CRDS, wrong).code == 422
