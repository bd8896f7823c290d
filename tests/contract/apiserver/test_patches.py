"""Patches of the four kinds."""

import pytest

from tests.contract.apiserver.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, pod


@pytest.fixture
def labelled(client, pods):
    client.post(pods, pod("p", labels={"a": "1", "b": "2"}))
    return f"{pods}/p"


def labels(answer):
    return answer.body["metadata"]["labels"]


@pytest.mark.parametrize("type_", [MERGE, STRATEGIC])
def test_merging_sets_and_removes(client, labelled, type_):
    patch = {"metadata": {"labels": {"a": None, "b": "3", "c": "4"}}}
    assert labels(client.patch(labelled, patch, type_=type_)) == {"b": "3", "c": "4"}


def test_json_steps_are_taken_in_order(client, labelled):
    steps = [
        {"op": "test", "path": "/metadata/labels/a", "value": "1"},
        {"op": "replace", "path": "/metadata/labels/a", "value": "9"},
        {"op": "remove", "path": "/metadata/labels/b"},
        {"op": "add", "path": "/metadata/labels/x~1y", "value": "z"},
        {"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/d"},
        {"op": "move", "from": "/metadata/labels/d", "path": "/metadata/labels/e"},
    ]
    answer = client.patch(labelled, steps, type_=JSON_PATCH)
    assert labels(answer) == {"a": "9", "x/y": "z", "e": "9"}


@pytest.mark.parametrize(
    "step",
    [
        {"op": "test", "path": "/metadata/labels/a", "value": "no"},
        {"op": "remove", "path": "/metadata/labels/no"},
        {"op": "replace", "path": "/metadata/no/no", "value": "x"},
    ],
)
def test_a_json_step_that_fails_undoes_all(client, labelled, step):
    first = {"op": "add", "path": "/metadata/labels/z", "value": "z"}
    answer = client.patch(labelled, [first, step], type_=JSON_PATCH)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert labels(client.get(labelled)) == {"a": "1", "b": "2"}


def test_conditions_are_merged_by_type(client, labelled):
    for type_, status in (("A", "True"), ("B", "True"), ("A", "False")):
        patch = {"status": {"conditions": [{"type": type_, "status": status}]}}
        answer = client.patch(f"{labelled}/status", patch, type_=STRATEGIC)
    found = {it["type"]: it["status"] for it in answer.body["status"]["conditions"]}
    assert found == {"A": "False", "B": "True"}


def test_a_merge_replaces_lists(client, labelled):
    for type_ in "AB":
        patch = {"status": {"conditions": [{"type": type_, "status": "True"}]}}
        answer = client.patch(f"{labelled}/status", patch)
    assert [it["type"] for it in answer.body["status"]["conditions"]] == ["B"]


def test_conditions_can_be_deleted_by_type(client, labelled):
    conditions = [{"type": it, "status": "True"} for it in "AB"]
    client.patch(f"{labelled}/status", {"status": {"conditions": conditions}})
    patch = {"status": {"conditions": [{"type": "A", "$patch": "delete"}]}}
    answer = client.patch(f"{labelled}/status", patch, type_=STRATEGIC)
    assert [it["type"] for it in answer.body["status"]["conditions"]] == ["B"]


def test_apply_creates_and_merges(client, pods):
    made = client.patch(f"{pods}/p", pod("p", labels={"a": "1"}), type_=APPLY, fieldManager="t")
    assert made.code == 201
    # All of it again: on a real server what a manager leaves out is taken away.
    wanted = pod("p", labels={"a": "2"})
    changed = client.patch(f"{pods}/p", wanted, type_=APPLY, fieldManager="t")
    assert (changed.code, labels(changed)) == (200, {"a": "2"})


def test_apply_needs_a_manager(client, labelled):
    answer = client.patch(labelled, "{apiVersion: v1, kind: Pod}", type_=APPLY)
    assert answer.code in {400, 422}


def test_other_patches_are_refused(client, labelled):
    answer = client.patch(labelled, {}, type_="application/json")
    assert (answer.code, answer.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("body", ["{", "[1]"])
def test_a_patch_must_be_a_patch(client, labelled, body):
    assert client.patch(labelled, body).code == 400


def test_what_is_not_there_cannot_be_patched(client, pods):
    assert client.patch(f"{pods}/no", {"metadata": {}}).code == 404
