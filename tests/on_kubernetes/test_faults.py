"""What goes wrong between the daemon and its API server.

A test is named by its row of the fault catalogue: A is the server and the network, B leadership and
the process.
"""

import threading
import time

import msgspec
import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.embedded.apiserver import Fault
from kaisched.cluster.kubernetes import reflector
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.gate import Gate
from kaisched.cluster.kubernetes.lease import Elector, LeaseTimes
from kaisched.errors import ClusterUnavailable
from tests.on_kubernetes.rig import until

pytestmark = pytest.mark.slow

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ALONE = {"leaderElection": {"enabled": False}}


@pytest.fixture
def cluster(rig, server):
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("a", 16)
    rig.start_kubelet()
    return rig


def events(cluster, name):
    return [line for line in cluster.logs if line["event"] == name]


def binds(server):
    """Pod to how often a bind of it succeeded."""
    counted = {}
    for seen in list(server.log):
        if seen.subresource == "binding" and 200 <= seen.status < 300:
            counted[seen.name] = counted.get(seen.name, 0) + 1
    return counted


def assert_no_overcommit(cluster, gpus=8):
    used = {}
    for pod in cluster.pods().values():
        node = pod["spec"].get("nodeName")
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        if node:
            used[node] = used.get(node, 0) + int(limits.get("nvidia.com/gpu", 0))
    assert all(held <= gpus for held in used.values()), used


def test_a01_connection_refused_at_the_start(cluster, server):
    server.take_down()
    daemon = cluster.start()
    time.sleep(0.5)
    assert all(check.is_ok for check in daemon.daemon.live())
    assert not all(check.is_ok for check in daemon.daemon.ready())
    assert daemon.error is None
    server.bring_up()
    daemon.wait_leading()


def test_a02_the_server_is_gone_for_longer_than_what_is_known_may_be_old(cluster, server):
    daemon = cluster.start(kubernetes={"maxCacheAge": "500ms"}, **ALONE).wait_leading()
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


def test_a03_half_open_watches_are_noticed(cluster, server):
    cluster.start(kubernetes={"watchIdle": "500ms"}).wait_leading()
    server.mute_watches()
    cluster.pod("p", "a")
    cluster.wait_placed("p")


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


@pytest.mark.parametrize("how", ["in the stream", "as an answer"])
def test_a05_expired_versions_lead_to_a_new_list(cluster, server, how):
    daemon = cluster.start().wait_leading()
    if how == "in the stream":
        server.expire_watches("pods")
    else:
        server.faults.add(Fault("status", verb="watch", plural="pods", code=410))
        server.end_watches("pods")
    pods = next(it for it in daemon.daemon.reflectors if it.watched.plural == "pods")
    until(lambda: pods.tally.relists.get("expired"))
    cluster.pod("p", "a")
    cluster.wait_placed("p")


def test_a06_pages_that_expire_are_read_anew(cluster, server, monkeypatch):
    monkeypatch.setattr(reflector, "PAGE", 2)
    for number in range(5):
        cluster.pod(f"p{number}", "a")
    server.faults.add(Fault("status", verb="list", plural="pods", code=410, skip=1, times=2))
    cluster.start().wait_leading()
    cluster.wait_placed(*(f"p{number}" for number in range(5)))


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


def test_a08_three_of_ten_requests_fail(cluster, server):
    server.faults.add(Fault("status", verb="create", subresource="binding", code=500, share=0.3,
                            times=None))  # fmt: skip
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


def test_a09_a_bind_whose_answer_is_lost_is_not_made_again(cluster, server):
    cluster.start().wait_leading()
    server.faults.add(Fault("drop_after", plural="pods", subresource="binding", times=4))
    cluster.gang("g", "a", 4)
    names = [f"g-{number}" for number in range(4)]
    cluster.wait_placed(*names)
    time.sleep(0.5)
    # The lost ones are not in the count: their answer had no status.
    assert binds(server) == {}
    posts = [seen for seen in server.log if seen.subresource == "binding"]
    assert len(posts) == 4
    assert_no_overcommit(cluster)


def test_a10_a_bind_that_never_arrived_is_made(cluster, server):
    cluster.start().wait_leading()
    server.faults.add(Fault("drop_before", plural="pods", subresource="binding", times=3))
    cluster.gang("g", "a", 4)
    cluster.wait_placed(*(f"g-{number}" for number in range(4)))
    assert set(binds(server).values()) == {1}


def test_a13_a_gang_of_which_half_is_bound_is_completed(cluster, server):
    cluster.start(kubernetes={"writers": 1}).wait_leading()
    server.faults.add(
        Fault("status", plural="pods", subresource="binding", code=500, skip=2, times=6)
    )
    cluster.gang("g", "a", 6)
    cluster.wait_placed(*(f"g-{number}" for number in range(6)))
    assert events(cluster, "gang_incomplete") == []


def test_a14_what_a_watch_lost_is_found_by_comparing(cluster, server):
    daemon = cluster.start().wait_leading()
    pods = next(it for it in daemon.daemon.reflectors if it.watched.plural == "pods")
    cluster.pod("p", "a", 9)
    until(lambda: f"{cluster.namespace}/p" in pods._known)
    store = daemon.daemon.tenures[0].cluster.store
    until(lambda: store.row_of_task(f"{cluster.namespace}/p") >= 0)
    # As if the event had never come.
    daemon.daemon.tenures[0].cluster.post(lambda store: store.remove_pod(f"{cluster.namespace}/p"))
    until(lambda: store.row_of_task(f"{cluster.namespace}/p") < 0)
    time.sleep(0.3)
    del pods._known[f"{cluster.namespace}/p"]
    pods.list_again("compare")
    until(lambda: store.row_of_task(f"{cluster.namespace}/p") >= 0)


def test_a15_a_resource_version_that_went_back_is_told(cluster):
    daemon = cluster.start().wait_leading()
    pods = next(it for it in daemon.daemon.reflectors if it.watched.plural == "pods")
    pods._seen_version = str(1 << 60)
    pods.list_again("test")
    until(lambda: events(cluster, "resource_version_went_back"))


def test_a16_a_slow_server_does_not_stop_the_cycles(cluster, server):
    daemon = cluster.start().wait_leading()
    # Less than a write may take while leases last three seconds.
    server.faults.add(Fault(plural="pods", subresource="binding", delay_s=0.4, times=None))
    threads = threading.active_count()
    for number in range(16):
        cluster.pod(f"p{number}", "a")
    cycles = daemon.daemon.tenures[0].loop.cycles
    time.sleep(1.0)
    assert daemon.daemon.tenures[0].loop.cycles >= cycles + 3
    assert threading.active_count() <= threads + 2
    cluster.wait_placed(*(f"p{number}" for number in range(16)))
    assert set(binds(server).values()) == {1}


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
    cluster.must("PATCH", "/apis/scheduling.run.ai/v2/queues/poison",
                 {"spec": {"priority": 1, "resources": {"gpu": {"quota": 1}}}},
                 "application/merge-patch+json")  # fmt: skip
    cluster.pod("q", "poison")
    cluster.wait_placed("q")
    assert queues.tally.relists == relists


def test_a18_an_account_that_is_not_known_any_more_ends_the_process(cluster, server):
    daemon = cluster.start().wait_leading()
    server.faults.add(Fault("status", code=401, times=None))
    server.drop_connections()
    until(lambda: daemon.has_ended, 30)
    assert isinstance(daemon.error, ClusterUnavailable)
    server.faults.clear()


def test_a19_a_kind_we_may_not_read_is_named(cluster, server):
    server.faults.add(Fault("status", plural="podgroups", code=403, times=None))
    cluster.start().wait_leading()
    cluster.pod("p", "a")
    cluster.wait_placed("p")
    told = [line["needs"] for line in events(cluster, "kind_unreadable")]
    assert "get, list and watch on podgroups.scheduling.run.ai" in told


def test_a20_definitions_that_are_missing_are_waited_for(cluster, server):
    fault = server.faults.add(Fault("status", plural="queues", code=404, times=None))
    daemon = cluster.start()
    until(lambda: fault.met >= 2)
    waiting = [check.text for check in daemon.daemon.ready() if check.name == "cluster"]
    assert waiting == ["waits for queues.scheduling.run.ai"] or not daemon.daemon.tenures
    assert not any(tenure.is_leading for tenure in daemon.daemon.tenures)
    server.faults.remove(fault)
    daemon.wait_leading()


def test_b27_renewals_that_hang_end_the_leadership_in_time(cluster, server):
    daemon = cluster.start().wait_leading()
    server.faults.add(Fault(plural="leases", delay_s=30.0, times=None))
    start_s = time.monotonic()
    until(lambda: daemon.has_ended)
    assert time.monotonic() - start_s < 3.0 + 1.0  # the lease, and a busy machine
    assert isinstance(daemon.error, ClusterUnavailable)


def test_b28_two_that_both_believe_to_lead_bind_no_pod_twice(cluster, server):
    for _ in range(2):
        cluster.start(**ALONE)
    for daemon in cluster.daemons:
        daemon.wait_leading()
    for number in range(16):
        cluster.pod(f"p{number}", "a")
    cluster.wait_placed(*(f"p{number}" for number in range(16)))
    time.sleep(0.5)
    assert set(binds(server).values()) == {1}
    assert [daemon.error for daemon in cluster.daemons] == [None, None]


def test_b29_the_standby_takes_over_what_the_leader_left(cluster, server):
    first = cluster.start().wait_leading()
    second = cluster.start()
    until(lambda: second.daemon.tenures)
    cluster.gang("g", "a", 8)
    cluster.wait_placed(*(f"g-{number}" for number in range(8)))
    assert not second.daemon.tenures[0].is_leading
    first.stop()
    second.wait_leading()
    pods = next(it for it in second.daemon.reflectors if it.watched.plural == "pods")
    assert pods.tally.relists["take-over"] == 1
    cluster.gang("h", "a", 8)
    cluster.wait_placed(*(f"h-{number}" for number in range(8)))
    assert second.daemon.tenures[0].gate.term.epoch > 0
    assert_no_overcommit(cluster)


def test_b30_a_lease_that_is_deleted_is_made_anew(cluster):
    daemon = cluster.start().wait_leading()
    cluster.must("DELETE", f"{LEASES}/kaisched-default")
    until(lambda: cluster.ask("GET", f"{LEASES}/kaisched-default").is_done)
    time.sleep(0.5)
    assert daemon.error is None
    assert daemon.daemon.tenures[0].gate.is_open()


def test_b30_a_lease_full_of_nonsense_counts_as_held_for_a_while(cluster):
    spec = {"holderIdentity": "x" * 5000, "leaseDurationSeconds": 1}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kaisched-default", "namespace": "default"},
        "spec": spec,
    }
    cluster.must("POST", LEASES, body)
    start_s = time.monotonic()
    cluster.start().wait_leading()
    assert time.monotonic() - start_s >= 1.0


def test_b31_setting_the_clock_does_not_move_a_leadership(cluster):
    clock, gate = ManualClock(1_000_000.0), Gate()
    lost = []
    elector = Elector(
        Client(cluster.access), gate, clock, namespace="default", name="clock", identity="us",
        times=LeaseTimes(3.0, 2.0, 0.1), on_lost=lost.append,
    )  # fmt: skip
    elector.start()
    until(gate.is_open)
    for jump_s in (3600.0, 7200.0):
        clock.advance_to(1_000_000.0 + jump_s)
        time.sleep(0.3)
        assert gate.is_open()
        assert gate.term.until_s - time.monotonic() <= 2.0
    elector.stop()
    assert lost == []
    assert not gate.is_open()


def test_b35_at_the_end_the_lease_is_let_go(cluster):
    daemon = cluster.start().wait_leading()
    cluster.gang("g", "a", 8)
    daemon.stop()
    lease = msgspec.json.decode(cluster.ask("GET", f"{LEASES}/kaisched-default").data)
    assert not lease["spec"].get("holderIdentity")
    assert len(cluster.placed()) in {0, 8}
