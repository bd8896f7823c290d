"""Who leads, and what becomes of a leader in trouble: rows B of the catalogue of faults."""

import math
import threading
import time

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.leader_election import (
    Elector,
    Leadership,
    LeaseTimes,
    Term,
)
from kaisched.cluster.kubernetes.pods import EPOCH, LEADER, LEASE, later_leader
from kaisched.errors import ClusterUnavailable
from kaisched.objects.pod import Pod, PodSpec
from kaisched.objects.wire import ObjectMeta
from kaisched_apiserver import Fault
from tests.on_kubernetes.looking import assert_no_overcommit, binds
from tests.on_kubernetes.rig import elected
from tests.waiting import until

pytestmark = pytest.mark.slow

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.mark.fault("B27")
@pytest.mark.parametrize(
    "how",
    [{"delay_s": 30.0}, {"effect": "status", "code": 500}, {"effect": "drop_before"}],
    ids=["hang", "are refused", "are cut off"],
)
def test_b27_renewals_that_fail_end_the_leadership_in_time(cluster, server, how):
    """Leadership is never held for longer than the deadline after the last renewal sent."""
    daemon = cluster.start(**elected("4s", "2s")).wait_leading()
    (leader,) = daemon.daemon.leaders
    opened = [leader.leadership.term.until_s]
    server.faults.add(Fault(plural="leases", times=None, **how))
    start_s = time.monotonic()
    until(lambda: opened.append(leader.leadership.term.until_s) or daemon.has_ended)
    assert not leader.leadership.is_held()
    assert max(opened) <= start_s + 2.0
    assert isinstance(daemon.error, ClusterUnavailable)


@pytest.mark.fault("B28")
def test_b28_two_that_both_believe_to_lead_bind_no_pod_twice(cluster, server):
    for _ in range(2):
        cluster.start()
    for daemon in cluster.daemons:
        daemon.wait_leading()
    for number in range(16):
        cluster.pod(f"p{number}", "a")
    cluster.wait_placed(*(f"p{number}" for number in range(16)))
    time.sleep(0.5)
    assert set(binds(server).values()) == {1}
    assert [daemon.error for daemon in cluster.daemons] == [None, None]


@pytest.mark.fault("B28")
def test_b28_a_leader_ends_when_a_later_one_turns_out_to_bind(cluster):
    """A pod that fits nowhere for us is bound all the same, by somebody of a later term."""
    daemon = cluster.start(**elected()).wait_leading()
    cluster.pod("p", "a", 9)
    until(lambda: cluster.condition("p"))
    term = daemon.daemon.leaders[0].leadership.term
    said = {"kaisched.io/leader": "another", "kaisched.io/leader-epoch": str(term.epoch + 1)}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": said},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n0"},
    }
    cluster.must("POST", f"{cluster.pods_path}/p/binding", body)
    until(lambda: daemon.has_ended)
    assert isinstance(daemon.error, ClusterUnavailable)
    assert "another leads now" in str(daemon.error)


def test_a_standby_sees_the_leader_bind_and_stays(cluster):
    cluster.start(**elected()).wait_leading()
    cluster.stop()  # so that the lease has changed hands, and its number is not 0
    leading = cluster.start(**elected()).wait_leading()
    standby = cluster.start(**elected())
    cluster.pod("too-large", "a", 9)
    (leader,) = until(lambda: standby.daemon.leaders)
    store, namespace = leader.cluster.store, cluster.namespace
    until(lambda: store.pods.is_waiting(f"{namespace}/too-large"))
    cluster.pod("p", "a")
    until(
        lambda: (
            store.pods.version_of(f"{namespace}/p")[0]
            and not store.pods.is_waiting(f"{namespace}/p")
        )
    )
    cluster.delete_pod("too-large")
    until(lambda: standby.has_ended or not store.pods.is_waiting(f"{namespace}/too-large"))
    assert [leading.has_ended, standby.has_ended] == [False, False]


def test_a_leadership_that_was_never_held_is_nobodys():
    ours = Leadership()
    assert ours.term == Term()
    ours.renew(7.0, "us", 0, "kaisched-a")
    assert ours.term == Term(7.0, "us", 0, "kaisched-a")
    ours.end()
    assert ours.term == Term(-math.inf, "us", 0, "kaisched-a")


@pytest.mark.parametrize(
    ("holder", "epoch"), [("another", "-1"), ("another", "4"), ("us", "9"), ("another", "9" * 99)]
)
def test_an_earlier_term_or_nonsense_ends_nobodys(holder, epoch):
    said = {LEADER: holder, EPOCH: epoch}
    pod = Pod(metadata=ObjectMeta(name="p", annotations=said), spec=PodSpec())
    assert later_leader(pod, Term(0.0, "us", 4)) == ""
    assert later_leader(pod, Term()) == ""


def test_a_later_term_of_another_shards_lease_ends_nobodys():
    said = {LEASE: "kaisched-b", LEADER: "another", EPOCH: "9"}
    pod = Pod(metadata=ObjectMeta(name="p", annotations=said), spec=PodSpec())
    assert later_leader(pod, Term(0.0, "us", 4, "kaisched-a")) == ""
    assert later_leader(pod, Term(0.0, "us", 4, "kaisched-b")) == "another"


def test_a_lease_keeps_what_others_have_written_on_it(cluster):
    """What is left out of an update is gone, and the fence finds leases by their labels."""
    meta = {"name": "kaisched-default", "labels": {"app.kubernetes.io/name": "kaisched"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
    cluster.ask("DELETE", f"{LEASES}/kaisched-default")  # of another test
    cluster.must("POST", LEASES, lease)
    daemon = cluster.start(**elected()).wait_leading()
    now = cluster.must("GET", f"{LEASES}/kaisched-default")
    assert now["spec"]["holderIdentity"] == daemon.daemon.leaders[0].leadership.term.holder
    assert now["metadata"]["labels"] == meta["labels"]


@pytest.mark.fault("B29")
def test_b29_the_standby_takes_over_what_the_leader_left(cluster, server):
    first = cluster.start(**elected()).wait_leading()
    second = cluster.start(**elected())
    until(lambda: second.daemon.leaders)
    cluster.gang("g", "a", 8)
    cluster.wait_placed(*(f"g-{number}" for number in range(8)))
    assert not second.daemon.leaders[0].is_leading
    first.stop()
    second.wait_leading()
    pods = next(it for it in second.daemon.reflectors if it.watched.plural == "pods")
    assert pods.tally.relists["take-over"] == 1
    cluster.gang("h", "a", 8)
    cluster.wait_placed(*(f"h-{number}" for number in range(8)))
    assert second.daemon.leaders[0].leadership.term.epoch > 0
    assert_no_overcommit(cluster)


@pytest.mark.fault("B30")
def test_b30_a_lease_that_is_deleted_is_made_anew(cluster):
    daemon = cluster.start(**elected()).wait_leading()
    cluster.must("DELETE", f"{LEASES}/kaisched-default")
    until(lambda: cluster.ask("GET", f"{LEASES}/kaisched-default").is_done)
    time.sleep(0.5)
    assert daemon.error is None
    assert daemon.daemon.leaders[0].leadership.is_held()


@pytest.mark.fault("B30")
def test_b30_a_lease_full_of_nonsense_counts_as_held_for_a_while(cluster):
    spec = {"holderIdentity": "x" * 5000, "leaseDurationSeconds": 1}
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kaisched-default", "namespace": "default"},
        "spec": spec,
    }
    cluster.ask("DELETE", f"{LEASES}/kaisched-default")  # of a test before, on a real server
    cluster.must("POST", LEASES, body)
    start_s = time.monotonic()
    cluster.start(**elected()).wait_leading()
    assert time.monotonic() - start_s >= 1.0


@pytest.mark.fault("B34")
def test_b34_busy_threads_do_not_keep_the_lease_from_being_renewed(cluster):
    """Two threads of pure Python that never wait, for longer than a lease lasts."""
    daemon = cluster.start(**elected("4s", "3s")).wait_leading()
    end_s = time.monotonic() + 5.0

    def busy():
        while time.monotonic() < end_s:
            sum(range(1000))

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert daemon.error is None
    assert daemon.daemon.leaders[0].leadership.is_held()
    cluster.pod("p", "a")
    cluster.wait_placed("p")


@pytest.mark.fault("B31")
def test_b31_setting_the_clock_does_not_move_a_leadership(cluster):
    clock, leadership = ManualClock(1_000_000.0), Leadership()
    lost = []
    elector = Elector(
        Client(cluster.access),
        leadership,
        clock,
        namespace="default",
        name="clock",
        identity="us",
        times=LeaseTimes(90.0, 60.0, 0.1),
        on_lost=lost.append,
    )
    elector.start()
    until(leadership.is_held)
    for jump_s in (3600.0, 7200.0):
        clock.advance_to(1_000_000.0 + jump_s)
        renewed_s = leadership.term.until_s
        until(lambda before_s=renewed_s: leadership.term.until_s > before_s)
        assert leadership.is_held()
        assert leadership.term.until_s - time.monotonic() <= 60.0
    elector.stop()
    assert lost == []
    assert not leadership.is_held()
