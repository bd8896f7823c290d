"""A server that has just started refuses all who are no administrators: nobody is to believe it."""

import time

import pytest
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import (
    ECHO_S,
    JSON,
    MOST_DOUBT_S,
    Client,
    Doubt,
    Pace,
    RefusedError,
)
from kaisched.cluster.kubernetes.reflector import Phase, Reflector
from kaisched.cluster.kubernetes.resources import NODES
from kaisched.errors import ClusterUnavailable
from kaisched_apiserver import ApiServer
from kaisched_apiserver.access import Rule

NODES_PATH = "/api/v1/nodes"


@pytest.fixture
def server():
    with ApiServer() as server:
        server.api.access.tokens["ours"] = "ann"
        server.api.access.rules["ann"] = [Rule(("get", "list", "watch"), ("",), ("nodes",))]
        yield server


@pytest.fixture
def client(server):
    return Client(Access(server.url, {}, lambda: "Bearer ours"), timeout_s=5.0)


@pytest.mark.fault("I133")
def test_a_refusal_of_a_server_that_is_ready_is_believed(client):
    assert client.call("GET", "/api/v1/pods").code == 403
    with pytest.raises(RefusedError):
        client.stream("/api/v1/pods", {"watch": "1"}, JSON, 5.0)


@pytest.mark.fault("I133")
def test_while_it_has_not_read_its_roles_a_refusal_is_trouble(server, client):
    server.api.access.is_reading = True
    with pytest.raises(ClusterUnavailable, match="not ready: 403 Forbidden"):
        client.call("GET", NODES_PATH)
    with pytest.raises(ClusterUnavailable, match="not ready"):
        client.stream(NODES_PATH, {"watch": "1"}, JSON, 5.0)
    server.api.access.is_reading = False
    assert client.call("GET", NODES_PATH).is_done


@pytest.mark.fault("I133")
def test_a_kind_is_not_done_without_since_the_server_has_just_started(server, client):
    server.take_down()
    server.bring_up(reading_s=0.3)
    pace = Pace(least_pause_s=0.01, most_pause_s=0.05)
    with capture_logs() as logs:
        reflector = Reflector(client, NODES, lambda _: None, pace=pace)
        reflector.start()
        end_s = time.monotonic() + 30.0
        while reflector.phase is Phase.STARTING and time.monotonic() < end_s:
            time.sleep(0.005)
        reflector.stop()
        reflector.join(5.0)
    assert reflector.phase is Phase.SYNCED
    assert "kind_unreadable" not in {it["event"] for it in logs}
    assert any("not ready" in it.get("err", "") for it in logs)


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.mark.fault("I133")
def test_a_server_that_is_never_ready_is_believed_in_the_end_each_time_it_starts():
    clock = Clock()
    doubt = Doubt(lambda: False, clock)
    for start_s in (0.0, 1000.0):
        for seconds in (0.0, 10.0, 20.0, MOST_DOUBT_S):
            clock.now_s = start_s + seconds
            assert doubt.is_due()
        for seconds in (1.0, 11.0, 41.0):
            clock.now_s = start_s + MOST_DOUBT_S + seconds
            assert not doubt.is_due()


@pytest.mark.fault("I133")
def test_refusals_of_just_before_it_was_ready_are_doubted_in_all_threads():
    clock, ready = Clock(), iter((False, True, True, True))
    doubt = Doubt(lambda: next(ready), clock)
    found = []
    for clock.now_s in (10.0, 10.1, 10.0 + ECHO_S, 10.1 + ECHO_S):
        found.append(doubt.is_due())
    assert found == [True, True, True, False]


@pytest.mark.fault("I133")
def test_a_refusal_of_a_server_that_was_never_seen_to_start_is_believed():
    assert not Doubt(lambda: True, Clock()).is_due()
