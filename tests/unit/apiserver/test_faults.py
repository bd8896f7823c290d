"""Faults happen to the requests they are meant for, and to no others."""

import threading
import time
from contextlib import suppress

import pytest
from urllib3.exceptions import HTTPError, ReadTimeoutError

from kaisched_apiserver import ApiServer, Fault
from tests.contract.apiserver.client import Client, binding, pod
from tests.waiting import until


def codes(client, path, times):
    return [client.get(path).code for _ in range(times)]


@pytest.mark.parametrize("code", [401, 403, 409, 429, 500, 502, 503, 504])
def test_the_nth_request_is_answered_with_a_status(server, client, pods, code):
    fault = Fault("status", verb="list", plural="pods", code=code, skip=1, retry_after_s=3)
    server.faults.add(fault)
    assert codes(client, pods, 3) == [200, code, 200]
    assert fault.met == 1


def test_the_client_is_told_when_to_come_back(server, client, pods):
    server.faults.add(Fault("status", code=429, retry_after_s=7))
    answer = client.get(pods)
    assert (answer.reason, answer.headers["Retry-After"]) == ("TooManyRequests", "7")
    assert answer.body["details"]["retryAfterSeconds"] == 7


def test_others_are_not_met(server, client, pods):
    server.faults.add(Fault("status", plural="pods", subresource="binding", times=None))
    server.faults.add(Fault("status", plural="pods", name="other", times=None))
    server.faults.add(Fault("status", namespace="other", times=None))
    client.post(pods, pod("p"))
    assert client.get(f"{pods}/p").code == 200
    assert client.post(f"{pods}/p/binding", binding("p", "n")).code == 500


def test_only_who_asks_with_its_token_is_met(server, client, pods):
    server.faults.add(Fault("status", token="a", times=None))
    assert client.get(pods).code == 200
    assert Client(server.url, token="b").get(pods).code == 200
    assert Client(server.url, token="a").get(pods).code == 500


def test_faults_are_taken_off(server, client, pods):
    fault = server.faults.add(Fault("status", times=None))
    assert codes(client, pods, 2) == [500, 500]
    server.faults.remove(fault)
    assert codes(client, pods, 1) == [200]
    server.faults.add(fault)
    server.faults.clear()
    assert codes(client, pods, 1) == [200]


def test_a_share_of_the_requests_is_met_always_the_same(server, client, pods):
    seen = []
    for _ in range(2):
        fault = server.faults.add(Fault("status", times=None, share=0.3, seed=7))
        seen.append(codes(client, pods, 100))
        server.faults.remove(fault)
    assert seen[0] == seen[1]
    assert 20 <= seen[0].count(500) <= 40


def test_a_dropped_request_did_nothing(server, client, pods):
    server.faults.add(Fault("drop_before", verb="create"))
    with pytest.raises(HTTPError):
        client.post(pods, pod("p"))
    assert client.get(f"{pods}/p").code == 404
    assert server.log[0] == ("create", "pods", "", "default", "", 0)


def test_a_dropped_answer_had_an_effect(server, client, pods):
    client.post(pods, pod("p"))
    server.faults.add(Fault("drop_after", subresource="binding"))
    with pytest.raises(HTTPError):
        client.post(f"{pods}/p/binding", binding("p", "n1"))
    assert client.get(f"{pods}/p").body["spec"]["nodeName"] == "n1"


def test_a_delay_delays_one_connection_only(server, client, pods):
    fault = server.faults.add(Fault(verb="list", delay_s=3600.0))

    def ask():
        with suppress(HTTPError):
            Client(server.url).get(pods)

    slow = threading.Thread(target=ask)
    slow.start()
    until(lambda: fault.met)
    assert client.get("/readyz").code == 200
    assert slow.is_alive()
    server.drop_connections()
    slow.join()
    server.faults.add(Fault(verb="list", delay_s=0.2))
    began = time.monotonic()
    assert client.get(pods).code == 200
    assert time.monotonic() - began >= 0.2


def test_a_watch_can_be_told_that_it_is_too_old(server, client, pods):
    server.faults.add(Fault("expire", verb="watch"))
    code, events = client.watch(pods)
    assert code == 200
    assert [(it["type"], it["object"]["code"]) for it in events] == [("ERROR", 410)]


def test_a_watch_can_be_half_open(server, client, pods):
    server.faults.add(Fault("mute", verb="watch"))
    client.post(pods, pod("p"))
    with pytest.raises(ReadTimeoutError):
        client._pool.request("GET", f"{server.url}{pods}?watch=true", timeout=0.5)


def watching(client, pods, found, **query):
    def watch():
        try:
            found.extend(client.watch(pods, timeout_s=60, **query)[1])
        except HTTPError as error:
            found.append(error)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_open_watches_can_be_expired(server, client, pods):
    found = []
    thread = watching(client, pods, found)
    until(lambda: server.call(lambda: len(server.api.watches.all("pods"))))
    server.expire_watches("nodes")
    server.expire_watches("pods")
    thread.join()
    assert [(it["type"], it["object"]["reason"]) for it in found] == [("ERROR", "Expired")]


def test_open_watches_can_be_ended_or_cut(server, client, pods):
    for end in (server.end_watches, server.drop_connections):
        found = []
        thread = watching(client, pods, found)
        until(lambda: server.call(lambda: len(server.api.watches.all("pods"))))
        end()
        thread.join()
        assert [isinstance(it, HTTPError) for it in found] == [True] * (
            end == server.drop_connections
        )
        assert server.call(server.api.watches.all) == []


def test_open_watches_can_fall_silent(server, client, pods):
    found = []
    thread = watching(client, pods, found)
    until(lambda: server.call(lambda: len(server.api.watches.all("pods"))))
    server.mute_watches("pods")
    client.post(pods, pod("p"))
    server.end_watches()
    thread.join()
    assert found == []


def test_a_restart_keeps_objects_and_loses_history(server, client, pods):
    client.post(pods, pod("p"))
    old = client.get(pods).version
    port = server.port
    server.restart()
    assert server.port == port
    again = Client(server.url)
    assert again.get(f"{pods}/p").code == 200
    _, events = again.watch(pods, resourceVersion=old)
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["message"].startswith("too old resource version: ")
    assert again.get(pods, resourceVersion=old, resourceVersionMatch="Exact").code == 410


def test_a_restart_may_keep_history(server, client, pods):
    old = client.get(pods).version
    client.post(pods, pod("p"))
    server.restart(is_history_lost=False)
    _, events = Client(server.url).watch(pods, resourceVersion=old)
    assert [it["type"] for it in events] == ["ADDED"]


def test_a_server_that_is_down_refuses(server, client, pods):
    server.take_down()
    with pytest.raises(HTTPError):
        client.get(pods)
    server.bring_up()
    assert client.get(pods).code == 200


def test_bookmarks_come_by_themselves(pods):
    with ApiServer(bookmark_period_s=0.2) as server:
        client = Client(server.url)
        client.post(pods, pod("p"))
        version = client.get(pods).version
        _, events = client.watch(pods, resourceVersion=version, allowWatchBookmarks="true")
        marks = [it["object"]["metadata"]["resourceVersion"] for it in events]
        assert {it["type"] for it in events} == {"BOOKMARK"}
        assert set(marks) == {version}
        assert client.watch(pods, resourceVersion=version)[1] == []
