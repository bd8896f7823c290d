"""What the metrics of the adapter say about what really happened."""

import math
import time

import pytest
from structlog.testing import capture_logs

from kaisched.clock import SystemClock
from kaisched_apiserver.connection import Fault
from tests.on_kubernetes import rig
from tests.on_kubernetes.rig import elected
from tests.on_kubernetes.test_daemon import cluster
from tests.waiting import until

pytestmark = pytest.mark.slow
__all__ = ["cluster"]


def state_of(running):
    daemon = running.daemon
    return daemon.state_of(daemon.leaders[0])


def watch(running, kind="pods"):
    return next(it for it in state_of(running).watches if it.kind == kind)


def test_writes_and_requests_are_counted_by_what_became_of_them(cluster):
    running = cluster.start().wait_leading()
    for number in range(16):
        cluster.pod(f"a{number}", "a")
    cluster.wait_placed(*(f"a{number}" for number in range(16)))
    cluster.gang("b", "b", 4)
    cluster.wait_placed("b-0", "b-1", "b-2", "b-3")
    state = until(lambda: (it := state_of(running)).waiting["reports"][0] == 0 and it)
    assert state.writes["bind", "done"][0] == 20
    assert state.writes["evict", "done"][0] == 4
    assert state.writes["report", "done"][0] > 0
    assert state.waiting["decisions"] == (0, 0.0)
    number, seconds = state.requests["POST", "done"]
    assert number >= 24
    assert 0 < seconds < 60


def test_a_leader_and_one_that_stands_by(cluster):
    leader = cluster.start(**elected()).wait_leading()
    other = cluster.start(**elected())
    until(lambda: other.daemon.leaders)
    time.sleep(0.5)
    assert state_of(leader).is_leading
    assert 0 <= state_of(leader).lease_age_s < 60
    assert not state_of(other).is_leading
    assert math.isinf(state_of(other).lease_age_s)


def test_one_that_stands_by_takes_in_what_it_hears(cluster):
    cluster.start(**elected()).wait_leading()
    other = cluster.start(**elected())
    until(lambda: other.daemon.leaders)
    for number in range(8):
        cluster.pod(f"p{number}", "a")
    cluster.wait_placed(*(f"p{number}" for number in range(8)))
    store = other.daemon.leaders[0].cluster.store
    until(
        lambda: state_of(other).news == 0 and store.rows.row_of_task(f"{cluster.namespace}/p7") >= 0
    )


def test_watches_that_break_are_counted_with_the_lists_they_cost(cluster, server):
    running = cluster.start().wait_leading()
    before = watch(running)
    assert before.lists["start"] == 1
    assert before.is_served
    assert not watch(running, "jobsets.jobset.x-k8s.io").is_served
    server.expire_watches("pods")
    until(lambda: watch(running).lists.get("expired") == 1)
    assert watch(running).errors == before.errors + 1
    assert watch(running).mismatches == 0
    assert watch(running).age_s < 60


def test_an_api_server_in_trouble_is_seen(rig, server):
    server.faults.add(Fault("status", verb="list", plural="pods", code=503, times=2))
    running = rig.start().wait_leading()
    assert state_of(running).requests["GET", "fault"][0] == 2
    assert watch(running).errors == 2
    assert watch(running).lists["start"] == 1


def test_a_write_that_waits_is_seen_with_its_age(cluster, server):
    running = cluster.start().wait_leading()
    fault = server.faults.add(
        Fault("status", verb="create", plural="pods", subresource="binding", code=500, times=None)
    )
    cluster.pod("p", "a")
    until(lambda: state_of(running).waiting["decisions"][1] > 0.1 and fault.met >= 3)
    server.faults.remove(fault)
    cluster.wait_placed("p")
    assert state_of(running).writes["bind", "retried"][0] == fault.met
    until(lambda: state_of(running).waiting["decisions"] == (0, 0.0))


@pytest.mark.fault("I140")
def test_a_leader_whose_clock_is_off_goes_by_the_servers(cluster, monkeypatch):
    class HourAhead(SystemClock):
        def now_s(self):
            return super().now_s() + 3600.0

    monkeypatch.setattr(rig, "SystemClock", HourAhead)
    with capture_logs() as logs:
        running = cluster.start().wait_leading()
    assert state_of(running).skew_s == pytest.approx(-3600.0, abs=2.0)
    assert running.daemon.leaders[0].loop._clock.now_s() == pytest.approx(time.time(), abs=2.0)
    assert [it["server_ahead_s"] < -3590 for it in logs if it["event"] == "clock_off"] == [True]
