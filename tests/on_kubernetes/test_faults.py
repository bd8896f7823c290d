"""What goes wrong between the daemon and its API server: rows A of the catalogue of faults."""

import threading
import time

import pytest

from kaisched.cluster.kubernetes import cluster as kubernetes_cluster
from kaisched.cluster.kubernetes import reflector
from kaisched.cluster.kubernetes.client import MERGE
from kaisched.errors import ClusterUnavailable
from kaisched_apiserver import Fault
from tests.on_kubernetes.looking import assert_no_overcommit, binds, events
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.mark.fault("A1")
def test_a01_connection_refused_at_the_start(cluster, server):
    server.take_down()
    daemon = cluster.start()
    time.sleep(0.5)
    assert all(check.is_ok for check in daemon.daemon.live())
    assert not all(check.is_ok for check in daemon.daemon.ready())
    assert daemon.error is None
    server.bring_up()
    daemon.wait_leading()


@pytest.mark.fault("A2")
def test_a02_the_server_is_gone_for_longer_than_what_is_known_may_be_old(cluster, server):
    daemon = cluster.start(kubernetes={"maxCacheAge": "500ms"}).wait_leading()
    cluster.pod("before", "a")
    cluster.wait_placed("before")
    server.take_down()
    until(lambda: "nothing heard" in daemon.daemon.why_stale())
    until(lambda: not all(check.is_ok for check in daemon.daemon.ready()))
    assert all(check.is_ok for check in daemon.daemon.live())
    # One clock stands for both: news may be older than the limit as soon as the server is idle.
    object.__setattr__(daemon.daemon._settings.kubernetes, "max_cache_age", 60.0)
    server.bring_up()
    cluster.pod("after", "a")
    cluster.wait_placed("before", "after", seconds=30)
    assert events(cluster, "pod_evicted") == []


@pytest.mark.fault("A3")
def test_a03_half_open_watches_are_noticed(cluster, server):
    cluster.start(kubernetes={"watchIdle": "500ms"}).wait_leading()
    server.mute_watches()
    cluster.pod("p", "a")
    cluster.wait_placed("p")


@pytest.mark.fault("A4")
def test_a04_watches_that_end_at_once_for_ever_are_not_a_storm(cluster, server):
    daemon = cluster.start().wait_leading()
    server.log.clear()
    end = threading.Event()

    def ending():
        while not end.wait(0.02):
            server.end_watches("nodes")

    thread = threading.Thread(target=ending)
    thread.start()
    time.sleep(3.0)
    end.set()
    thread.join()
    # Pauses grow from a tenth of a second: three seconds have room for no more than thirty.
    watches = [seen for seen in server.log if (seen.verb, seen.plural) == ("watch", "nodes")]
    assert 1 <= len(watches) <= 30
    assert daemon.error is None


@pytest.mark.fault("A5")
@pytest.mark.parametrize("how", ["in the stream", "as an answer"])
def test_a05_expired_versions_lead_to_a_new_list(cluster, server, how, monkeypatch):
    """Of which only the differences are told."""
    daemon = cluster.start().wait_leading()
    cluster.pod("before", "a")
    until(lambda: cluster.pods()["before"]["status"]["phase"] == "Running")
    pods = next(it for it in daemon.daemon.reflectors if it.watched.plural == "pods")
    version = cluster.pods()["before"]["metadata"]["resourceVersion"]
    until(lambda: pods._known[f"{cluster.namespace}/before"][1] == version)
    told, handler = [], pods._handler
    monkeypatch.setattr(pods, "_handler", lambda it: (told.append(it.obj.name), handler(it)))
    if how == "in the stream":
        server.expire_watches("pods")
    else:
        server.faults.add(Fault("status", verb="watch", plural="pods", code=410))
        server.end_watches("pods")
    until(lambda: pods.tally.relists.get("expired"))
    cluster.pod("p", "a")
    cluster.wait_placed("p")
    assert set(told) == {"p"}


@pytest.mark.fault("A6")
def test_a06_pages_that_expire_are_read_anew(cluster, server, monkeypatch):
    monkeypatch.setattr(reflector, "PAGE", 2)
    for number in range(5):
        cluster.pod(f"p{number}", "a")
    server.faults.add(Fault("status", verb="list", plural="pods", code=410, skip=1, times=2))
    cluster.start().wait_leading()
    cluster.wait_placed(*(f"p{number}" for number in range(5)))


@pytest.mark.fault("A23")
@pytest.mark.fault("A7")
def test_a07_a_busy_server_is_obeyed(cluster, server):
    cluster.start().wait_leading()
    fault = server.faults.add(
        Fault("status", plural="pods", subresource="binding", code=429, retry_after_s=1, times=2)
    )
    start_s = time.monotonic()
    cluster.pod("p", "a")
    cluster.wait_placed("p")
    assert time.monotonic() - start_s >= 2.0
    assert fault.met == 2
    asked = [seen for seen in server.log if seen.subresource == "binding"]
    assert [seen.status for seen in asked] == [429, 429, 201]


@pytest.mark.fault("A7")
def test_a07_reads_wait_as_long_as_they_are_told(cluster, server):
    fault = server.faults.add(
        Fault("status", verb="list", plural="nodes", code=429, retry_after_s=1, times=2)
    )
    start_s = time.monotonic()
    cluster.start().wait_leading()
    assert time.monotonic() - start_s >= 2.0
    assert fault.met == 2


@pytest.mark.fault("A8")
def test_a08_three_of_ten_requests_fail(cluster, server):
    server.faults.add(
        Fault("status", verb="create", subresource="binding", code=500, share=0.3, times=None)
    )
    server.faults.add(Fault("status", verb="watch", code=503, share=0.3, times=None, seed=3))
    server.faults.add(Fault("status", verb="list", code=502, share=0.3, times=None, seed=5))
    cluster.start().wait_leading(30)
    for number in range(4):
        cluster.pod(f"p{number}", "a")
    for name in ("g", "h"):
        cluster.group(name, "a", 5)
        for number in range(5):
            cluster.pod(f"{name}-{number}", "a", group=name)
    names = [f"p{number}" for number in range(4)]
    names += [f"{name}-{number}" for name in ("g", "h") for number in range(5)]
    cluster.wait_placed(*names, seconds=40)
    assert set(binds(server).values()) == {1}
    assert_no_overcommit(cluster)


@pytest.mark.fault("A8")
def test_a08_no_more_victims_leave_than_needed_though_requests_fail(cluster, server):
    """Evictions and binds fail, or take effect and their answers are lost."""
    cluster.queue("taker", 8)
    cluster.queue("giver", 8)
    daemon = cluster.start().wait_leading()
    for number in range(16):
        cluster.pod(f"v{number}", "giver")
    cluster.wait_placed(*(f"v{number}" for number in range(16)))
    for subresource, seed in (("eviction", 1), ("binding", 2)):
        for effect in ("status", "drop_before", "drop_after"):
            server.faults.add(
                Fault(effect, subresource=subresource, code=500, share=0.2, seed=seed, times=None)
            )
    cluster.gang("g", "taker", 8)
    placed = cluster.wait_placed(*(f"g-{number}" for number in range(8)), seconds=60)
    assert sum(name.startswith("v") for name in placed) == 8
    cycles = daemon.daemon.leaders[0].loop.cycles
    until(lambda: daemon.daemon.leaders[0].loop.cycles >= cycles + 5)
    assert cluster.placed() == placed
    assert_no_overcommit(cluster)


@pytest.mark.fault("A13")
def test_a13_a_gang_of_which_half_is_bound_is_completed(cluster, server):
    cluster.start(kubernetes={"writers": 1}).wait_leading()
    server.faults.add(
        Fault("status", plural="pods", subresource="binding", code=500, skip=2, times=6)
    )
    cluster.gang("g", "a", 6)
    cluster.wait_placed(*(f"g-{number}" for number in range(6)))
    assert events(cluster, "gang_incomplete") == []


@pytest.mark.fault("A13")
def test_a13_a_gang_that_cannot_be_completed_is_told_and_ends_whole(cluster, server):
    cluster.start(kubernetes={"writers": 1}).wait_leading()
    server.faults.add(Fault("status", subresource="binding", name="g-2", code=404, times=None))
    cluster.gang("g", "a", 4, stalenessGracePeriod="1s")
    until(lambda: events(cluster, "gang_incomplete"))
    until(lambda: events(cluster, "pod_evicted"))
    until(lambda: not cluster.placed())
    assert {line["action"] for line in events(cluster, "pod_evicted")} == {"stalegang"}


@pytest.mark.fault("A14")
def test_a14_what_a_watch_lost_is_found_by_comparing(cluster, server):
    # Alone, so that no lease moves the versions on: a difference is then what the watch has lost.
    daemon = cluster.start().wait_leading()
    pods = next(it for it in daemon.daemon.reflectors if it.watched.plural == "pods")
    key = f"{cluster.namespace}/p"
    cluster.pod("p", "a", 9)
    store = daemon.daemon.leaders[0].cluster.store
    until(lambda: store.rows.row_of_task(key) >= 0)
    # No more is written of a pod whose condition is written; and that has been heard of, too.
    until(lambda: cluster.condition("p"))
    version = cluster.pods()["p"]["metadata"]["resourceVersion"]
    until(lambda: store.pods.version_of(key)[1] == version)
    # As if the event had never come.
    daemon.daemon.leaders[0].cluster.post(lambda store: store.remove_pod(key))
    until(lambda: store.rows.row_of_task(key) < 0)

    def is_found():
        pods._known.pop(key, None)
        pods.list_again("compare")
        until(lambda: key in pods._known)
        return pods.tally.mismatches

    until(is_found)
    until(lambda: store.rows.row_of_task(key) >= 0)
    assert events(cluster, "cache_mismatch_repaired")


@pytest.mark.fault("A15")
def test_a15_a_store_that_was_put_back_is_listed_whole_before_anything_is_decided(cluster, server):
    daemon = cluster.start().wait_leading()
    found = {it.watched.plural: it for it in daemon.daemon.reflectors}
    away = server.faults.add(Fault("status", verb="list", plural="nodes", code=503, times=None))
    before = dict(found["queues"].tally.relists)
    found["pods"]._seen_version = str(1 << 60)
    found["pods"].list_again("test")
    until(lambda: events(cluster, "resource_version_went_back"))
    until(lambda: "restored" in daemon.daemon.why_stale())
    cluster.pod("p", "a")
    until(lambda: any("restored" in line["err"] for line in events(cluster, "cycle_failed")))
    assert cluster.placed() == {}
    server.faults.remove(away)
    cluster.wait_placed("p")
    assert daemon.daemon.why_stale() == ""
    assert found["nodes"].tally.relists["restored"] == 1
    assert found["queues"].tally.relists == {**before, "restored": 1}


@pytest.mark.fault("A16")
def test_a16_a_slow_server_does_not_stop_the_cycles(cluster, server):
    daemon = cluster.start().wait_leading()
    # Less than a write may take, which is a third of the deadline for renewals.
    server.faults.add(Fault(plural="pods", subresource="binding", delay_s=0.8, times=None))
    threads = threading.active_count()
    for number in range(16):
        cluster.pod(f"p{number}", "a")
    cycles = daemon.daemon.leaders[0].loop.cycles
    until(lambda: daemon.daemon.leaders[0].loop.cycles >= cycles + 3)
    assert threading.active_count() <= threads + 2
    cluster.wait_placed(*(f"p{number}" for number in range(16)))
    assert set(binds(server).values()) == {1}


@pytest.mark.fault("A17")
@pytest.mark.usefixtures("server")  # definitions of ours would refuse it
def test_a17_an_object_that_makes_no_sense_harms_itself_only(cluster):
    daemon = cluster.start().wait_leading()
    queues = next(it for it in daemon.daemon.reflectors if it.watched.plural == "queues")
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "poison"},
        "spec": {"priority": "very", "resources": {"gpu": {"quota": []}}},
    }
    cluster.must("POST", "/apis/scheduling.run.ai/v2/queues", body)
    cluster.queues.append("poison")
    until(lambda: queues.tally.bad_objects)
    assert any("poison" in line["err"] for line in events(cluster, "object_left_out"))
    cluster.queue("good", 1)
    cluster.pod("p", "good")
    cluster.wait_placed("p")
    relists = dict(queues.tally.relists)
    cluster.must(
        "PATCH",
        "/apis/scheduling.run.ai/v2/queues/poison",
        {"spec": {"priority": 1, "resources": {"gpu": {"quota": 1}}}},
        "application/merge-patch+json",
    )
    cluster.pod("q", "poison")
    cluster.wait_placed("q")
    assert queues.tally.relists == relists


@pytest.mark.fault("A18")
def test_a18_an_account_that_is_not_known_any_more_ends_the_process(cluster, server):
    daemon = cluster.start().wait_leading()
    server.faults.add(Fault("status", code=401, times=None))
    server.drop_connections()
    until(lambda: daemon.has_ended, 30)
    assert isinstance(daemon.error, ClusterUnavailable)
    server.faults.clear()


@pytest.mark.fault("A19")
def test_a19_a_kind_we_may_not_read_is_named(cluster, server):
    server.faults.add(Fault("status", plural="podgroups", code=403, times=None))
    cluster.start().wait_leading()
    cluster.pod("p", "a")
    cluster.wait_placed("p")
    told = [line["needs"] for line in events(cluster, "kind_unreadable")]
    assert "get, list and watch on podgroups.scheduling.run.ai" in told


def waits_for(daemon):
    return [check.text for check in daemon.daemon.ready() if check.name == "cluster"]


@pytest.mark.fault("A20")
def test_a20_definitions_that_are_missing_are_waited_for(cluster, server):
    fault = server.faults.add(Fault("status", plural="queues", code=404, times=None))
    daemon = cluster.start()
    until(lambda: fault.met >= 2)
    until(lambda: waits_for(daemon) == ["waits for queues.scheduling.run.ai"])
    assert not any(leader.is_leading for leader in daemon.daemon.leaders)
    server.faults.remove(fault)
    daemon.wait_leading()


@pytest.mark.fault("A21")
def test_a21_a_kind_that_is_not_served_is_done_without(cluster, server, monkeypatch):
    """Most workloads are not defined here; pod groups come later."""
    fault = server.faults.add(Fault("status", plural="podgroups", code=404, times=None))
    daemon = cluster.start().wait_leading()
    cluster.pod("p", "a")
    cluster.wait_placed("p")
    needed = [line["needs"] for line in events(cluster, "kind_unreadable")]
    assert {"jobset.x-k8s.io/v1alpha2", "scheduling.run.ai/v2alpha2"} <= set(needed)
    assert all(check.is_ok for check in daemon.daemon.ready())
    server.faults.remove(fault)
    groups = next(it for it in daemon.daemon.reflectors if it.watched.plural == "podgroups")
    groups.list_again("test")  # not to wait a minute
    cluster.gang("g", "a", 4)
    cluster.wait_placed(*(f"g-{number}" for number in range(4)))


@pytest.mark.fault("A24")
def test_a24_what_was_bound_holds_its_room_though_no_event_says_so(cluster, server, monkeypatch):
    monkeypatch.setattr(kubernetes_cluster, "CONFIRM_S", 3.0)
    daemon = cluster.start().wait_leading()
    for number in range(3):
        cluster.pod(f"p{number}", "a", 8, schedulingGates=[{"name": "x.io/wait"}])
    store = daemon.daemon.leaders[0].cluster.store
    keys = [f"{cluster.namespace}/p{number}" for number in range(3)]
    until(lambda: all(store.rows.row_of_task(key) >= 0 for key in keys))
    # Long enough for the watch to fall silent between the decision and the bind.
    server.faults.add(Fault(subresource="binding", delay_s=1.0, times=None))
    for number in range(3):
        cluster.must(
            "PATCH", f"{cluster.pods_path}/p{number}", {"spec": {"schedulingGates": None}}, MERGE
        )
    until(lambda: sum(key in store.facts.sent for key in keys) == 2)
    server.mute_watches("pods")
    until(lambda: len(cluster.placed()) == 2)
    bound = set(cluster.placed())
    assert all(f"{cluster.namespace}/{name}" in store.facts.sent for name in bound)
    cycles = daemon.daemon.leaders[0].loop.cycles
    until(lambda: daemon.daemon.leaders[0].loop.cycles >= cycles + 3)
    assert set(cluster.placed()) == bound
    # After a while the pods are read, aside of the silent watch.
    until(lambda: not any(key in store.facts.sent for key in keys))
    assert {line["pod"] for line in events(cluster, "assumption_checked")} == {
        f"{cluster.namespace}/{name}" for name in bound
    }
    assert set(binds(server).values()) == {1}
    assert_no_overcommit(cluster)
