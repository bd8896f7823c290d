"""Watches: what is replayed, what follows, what selectors make of it, and how they end."""

import threading
import time

import pytest

from tests.contract.apiserver.client import binding, pod

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"


def told(events):
    return [(it["type"], it["object"]["metadata"].get("name", "")) for it in events]


def test_a_watch_replays_what_happened_since(client, pods):
    version = client.get(pods).version
    client.post(pods, pod("a"))
    client.patch(f"{pods}/a", {"metadata": {"labels": {"k": "v"}}})
    client.delete(f"{pods}/a")
    code, events = client.watch(pods, resourceVersion=version)
    assert code == 200
    # A pod is marked as leaving even where it goes at once.
    types = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert told(events) == [(type_, "a") for type_ in types]
    versions = [int(it["object"]["metadata"]["resourceVersion"]) for it in events]
    assert versions == sorted(set(versions))
    assert versions[0] > int(version)


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_a_watch_without_a_version_begins_with_what_there_is(client, pods, query):
    client.post(pods, pod("a"))
    client.post(pods, pod("b"))
    assert told(client.watch(pods, **query)[1]) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_goes_on(client, pods):
    version = client.get(pods).version
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(client.watch_for(pods, 2, resourceVersion=version))
    )
    thread.start()
    time.sleep(0.3)
    client.post(pods, pod("a"))
    client.post(f"{pods}/a/binding", binding("a", "n1"))
    thread.join()
    assert told(found) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert found[1]["object"]["spec"]["nodeName"] == "n1"


def test_an_object_that_changes_sides_is_added_and_deleted(client, pods):
    version = client.get(pods).version
    client.post(pods, pod("a"))
    client.post(f"{pods}/a/binding", binding("a", "n1"))
    unbound = client.watch(pods, resourceVersion=version, fieldSelector="spec.nodeName=")[1]
    assert told(unbound) == [("ADDED", "a"), ("DELETED", "a")]
    bound = client.watch(pods, resourceVersion=version, fieldSelector="spec.nodeName=n1")[1]
    assert told(bound) == [("ADDED", "a")]


def test_labels_select_events(client, pods):
    version = client.get(pods).version
    client.post(pods, pod("a", labels={"team": "x"}))
    client.post(pods, pod("b", labels={"team": "y"}))
    events = client.watch(pods, resourceVersion=version, labelSelector="team=y")[1]
    assert told(events) == [("ADDED", "b")]


def test_one_object_can_be_watched(client, pods):
    client.post(pods, pod("a"))
    client.post(pods, pod("b"))
    events = client.watch(pods, fieldSelector="metadata.name=b")[1]
    assert told(events) == [("ADDED", "b")]


def test_other_namespaces_are_none_of_a_watchs_business(client, pods):
    version = client.get(pods).version
    client.post("/api/v1/namespaces/default/pods", pod("contract-elsewhere"))
    assert client.watch(pods, resourceVersion=version)[1] == []
    client.delete("/api/v1/namespaces/default/pods/contract-elsewhere")


def test_a_watch_ends_at_its_timeout(client, pods):
    version = client.get(pods).version
    began = time.monotonic()
    assert client.watch(pods, timeout_s=1, resourceVersion=version) == (200, [])
    assert 0.5 < time.monotonic() - began < 60


def test_the_objects_at_the_start_end_with_a_bookmark(client, pods):
    client.post(pods, pod("a"))
    code, events = client.watch(
        pods,
        sendInitialEvents="true",
        allowWatchBookmarks="true",
        resourceVersionMatch="NotOlderThan",
    )
    if code == 422 or events[0]["type"] == "ERROR":
        pytest.skip("this server or its etcd cannot stream lists")
    assert told(events)[:2] == [("ADDED", "a"), ("BOOKMARK", "")]
    meta = events[1]["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_events_can_be_of_metadata_only(client, pods):
    client.post(pods, pod("a"))
    event = client.watch(pods, accept=METADATA)[1][0]
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert event["object"]["metadata"]["name"] == "a"
    assert "spec" not in event["object"]


def test_an_eviction_is_two_changes(client, pods):
    client.post(pods, pod("a"))
    client.post(f"{pods}/a/binding", binding("a", "n1"))
    version = client.get(pods).version
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    client.post(f"{pods}/a/eviction", body)
    client.delete(f"{pods}/a", {"gracePeriodSeconds": 0})
    events = client.watch(pods, resourceVersion=version)[1]
    types = ["MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]
    assert told(events) == [(type_, "a") for type_ in types]
    metas = [it["object"]["metadata"] for it in events]
    assert ["deletionTimestamp" in meta for meta in metas[:2]] == [False, True]
