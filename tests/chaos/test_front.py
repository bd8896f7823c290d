"""The front passes everything on, and plays what a real server cannot."""

import msgspec
import pytest

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import JSON, Client
from kaisched.errors import ClusterUnavailable
from kaisched_apiserver import ApiServer, Fault
from tests.chaos.front import Front

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server():
    with ApiServer() as server:
        yield server


@pytest.fixture
def front(server):
    front = Front(server.url, {})
    yield front
    front.drop()


@pytest.fixture
def client(front):
    return Client(Access(front.url), timeout_s=10.0)


def make(client, name):
    containers = [{"name": "main", "image": "none"}]
    body = {"metadata": {"name": name}, "spec": {"containers": containers}}
    return client.call("POST", PODS, body=body)


def test_without_a_fault_everything_passes(server, client):
    assert make(client, "a").code == 201
    assert make(client, "a").code == 409
    assert (
        client.call("GET", f"{PODS}/a").data
        == Client(Access(server.url)).call("GET", f"{PODS}/a").data
    )
    assert client.call("GET", "/readyz").data == b"ok"


def test_a_watch_tells_each_change_at_once(client):
    stream = client.stream("/api/v1/pods", {"watch": "true", "timeoutSeconds": "30"}, JSON, 30.0)
    assert make(client, "watched").is_done
    for chunk in stream.chunks():
        if b'"watched"' in chunk:
            break
    else:
        pytest.fail("nothing was told")
    stream.interrupt()


def test_it_answers_in_the_place_of_the_server(front, client):
    front.faults.add(Fault(effect="status", code=429, retry_after_s=3, verb="create"))
    answer = make(client, "busy")
    assert (answer.code, answer.retry_after_s) == (429, 3.0)
    assert client.call("GET", f"{PODS}/busy").code == 404
    assert make(client, "busy").is_done


def test_what_is_done_may_remain_unsaid(front, client):
    front.faults.add(Fault(effect="drop_after", verb="create"))
    with pytest.raises(ClusterUnavailable):
        make(client, "unsaid")
    assert client.call("GET", f"{PODS}/unsaid").is_done


def test_what_is_dropped_before_is_not_done(front, client):
    front.faults.add(Fault(effect="drop_before", verb="create"))
    with pytest.raises(ClusterUnavailable):
        make(client, "lost")
    assert client.call("GET", f"{PODS}/lost").code == 404


def test_a_watch_is_told_that_its_version_is_too_old(front, client):
    front.faults.add(Fault(effect="expire", verb="watch"))
    stream = client.stream("/api/v1/pods", {"watch": "true"}, JSON, 30.0)
    told = msgspec.json.decode(b"".join(stream.chunks()))
    assert told["type"] == "ERROR"
    assert told["object"]["code"] == 410


@pytest.mark.parametrize("who", ["server", "front"])
def test_what_is_cut_here_or_there_is_cut(server, front, client, who):
    query = {"watch": "true", "timeoutSeconds": "30"}
    streams = [client.stream("/api/v1/pods", query, JSON, 30.0) for _ in range(2)]
    server.drop_connections() if who == "server" else front.drop()
    for stream in streams:
        with pytest.raises(ClusterUnavailable):
            list(stream.chunks())
