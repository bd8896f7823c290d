"""The process that renews leases: it goes on while the scheduler is busy, and only while it is."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.leader_election import LeaseTimes
from kaisched.cluster.kubernetes.lease_process import (
    Begin,
    Held,
    LeaseProcess,
    Try,
    _Renewer,
    line_of,
)
from kaisched_apiserver import Fault
from tests.on_kubernetes.bench_cluster import cluster_of
from tests.waiting import until

# Leases run out in seconds, and are waited for.
pytestmark = [pytest.mark.slow, pytest.mark.fault("I126")]

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/one"
TIMES = LeaseTimes(3.0, 2.0, 0.2)
LONG = LeaseTimes(90.0, 60.0, 0.2)
"""Time enough to start a process on a busy machine, or one that stands still for a while."""


def hold_the_lock(seconds):
    """Let no other thread of this process run: functions called so keep Python's lock."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


class Leader:
    """One lease as the process that leads sees it."""

    def __init__(self, access, identity="us", times=TIMES, silence_s=None, namespace="default"):
        self.won, self.lost, self.late = [], [], []
        self.client = Client(access)
        self.leases = LeaseProcess(
            self.client,
            namespace=namespace,
            identity=identity,
            times=times,
            silence_s=silence_s,
        )
        self.candidate = self.leases.candidate(
            "one",
            on_won=lambda: self.won.append(time.monotonic()),
            on_lost=self.lost.append,
            on_renewed=self.late.append,
        )
        self.leadership = self.candidate.leadership
        self.leases.start()
        self.candidate.start()


@pytest.fixture
def started():
    started = []

    yield started
    for leader in started:
        leader.candidate.stop()
        leader.leases.close()


@pytest.fixture
def lead(rig, server, started):
    def lead(*args, access=None, **how):
        started.append(Leader(access or rig.access, *args, **how))
        return started[-1]

    return lead


@pytest.fixture
def lead_apart(server_apart, started):
    """Lead on an API server that runs on while no thread of this process does."""

    def lead(**how):
        started.append(Leader(server_apart.client.access, namespace="kaisched", **how))
        return started[-1]

    return lead


@pytest.fixture(scope="module")
def server_apart():
    with cluster_of(0) as cluster:
        yield cluster


def holder(rig):
    return rig.must("GET", LEASE)["spec"].get("holderIdentity")


def test_a_lease_is_renewed_while_no_thread_of_ours_runs(lead_apart):
    leader = lead_apart(times=LONG)
    until(leader.leadership.is_held)

    def is_renewed_meanwhile():
        before_s, held_s = leader.leadership.term.until_s, time.monotonic()
        hold_the_lock(3.0)
        until(
            lambda: leader.leadership.term.until_s != before_s
        )  # what was reported meanwhile is read
        return leader.leadership.term.until_s > held_s + LONG.renew_s + 2.0

    until(is_renewed_meanwhile)
    until(lambda: leader.won)
    assert leader.lost == []
    until(lambda: leader.client.requests.read().get(("PUT", "done"), (0, 0))[0] > 10)


def test_a_lease_is_not_renewed_for_a_process_that_hangs(lead_apart):
    leader = lead_apart(silence_s=1.5)
    until(lambda: leader.won)
    hold_the_lock(1.5 + TIMES.renew_s + 1.5)
    assert not leader.leadership.is_held()
    until(lambda: leader.lost)
    assert leader.lost == ["lease kaisched/one was lost: it was not renewed"]


def test_the_term_goes_on_when_the_process_that_renews_is_killed(rig, lead):
    leader = lead(times=LONG)
    until(lambda: leader.won)
    term, first = leader.leadership.term, leader.leases.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: leader.leases.pid not in {0, first})
    until(
        lambda: (
            leader.leadership.term.until_s > term.until_s + 1.0 or not leader.leadership.is_held()
        )
    )
    assert leader.leadership.is_held()
    assert leader.leadership.term.epoch == term.epoch
    assert len(leader.won) == 1
    assert leader.lost == []
    assert any(line["event"] == "lease_process_ended" for line in rig.logs)


def test_a_lease_that_another_took_meanwhile_is_not_gone_on_with(rig, lead):
    leader = lead(times=LONG)
    until(lambda: leader.won)
    os.kill(leader.leases.pid, signal.SIGSTOP)
    lease = rig.must("GET", LEASE)
    lease["spec"]["holderIdentity"] = "another"
    rig.must("PUT", LEASE, lease)
    os.kill(leader.leases.pid, signal.SIGKILL)
    until(lambda: leader.lost)
    assert leader.lost == ["lease default/one was lost: another process holds it"]
    assert not leader.leadership.is_held()
    assert holder(rig) == "another"


def test_the_gate_shuts_by_itself_when_the_process_that_renews_is_stopped(rig, lead):
    leader = lead()
    until(lambda: leader.won)
    os.kill(leader.leases.pid, signal.SIGSTOP)
    stopped_s = time.monotonic()
    until(lambda: not leader.leadership.is_held())
    assert leader.leadership.term.until_s <= stopped_s + TIMES.renew_s
    os.kill(leader.leases.pid, signal.SIGCONT)
    until(lambda: leader.lost)
    assert not leader.leadership.is_held()
    assert holder(rig) == "us"
    leader.candidate.stop()
    assert not holder(rig)  # nobody has to wait for what we do not use


def test_signals_for_the_scheduler_do_not_end_the_process_that_renews(lead):
    leader = lead(times=LONG)
    until(lambda: leader.won)
    first = leader.leases.pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(first, number)
    known = len(leader.late)
    until(lambda: len(leader.late) > known + 2)
    assert leader.leases.pid == first


def test_a_lease_is_let_go_in_the_end(rig, lead):
    leader = lead(times=LONG)
    until(lambda: leader.won)
    leader.candidate.stop()
    assert not holder(rig)
    assert not leader.leadership.is_held()
    assert leader.lost == []
    other = lead("other", times=LONG)
    until(lambda: other.won, LONG.lease_s / 2)  # long before the lease would have run out


def test_leases_of_several_shards_are_held_apart(rig, server):
    leases = LeaseProcess(Client(rig.access), namespace="default", identity="us", times=LONG)
    leases.start()
    lost = []
    one, two = (
        leases.candidate(name, on_won=lambda: None, on_lost=lost.append) for name in ("one", "two")
    )
    try:
        for candidate in (one, two):
            candidate.start()
        until(lambda: one.leadership.is_held() and two.leadership.is_held())
        one.stop()
        assert not holder(rig)
        assert not one.leadership.is_held()
        before = two.leadership.term
        until(lambda: two.leadership.term.until_s > before.until_s)
        assert two.leadership.term.lease == "two"
        assert lost == []
    finally:
        two.stop()
        leases.close()


def test_a_lease_is_ordered_once_when_the_process_starts_at_that_moment(rig, server, monkeypatch):
    leases = LeaseProcess(Client(rig.access), namespace="default", identity="us", times=LONG)
    lost, orders, send = [], [], leases._send
    candidate = leases.candidate("one", on_won=lambda: None, on_lost=lost.append)
    starting = threading.Thread(target=candidate.start)

    def sending(order):
        if isinstance(order, Begin):
            starting.start()
            starting.join(0.2)  # it waits for the lock, which whoever sends now holds
        orders.append(order)
        send(order)

    monkeypatch.setattr(leases, "_send", sending)
    leases.start()
    try:
        until(candidate.leadership.is_held)
        starting.join()
        assert sum(isinstance(order, Try) for order in orders) == 1
        candidate.stop()
        assert not holder(rig)
        assert lost == []
    finally:
        leases.close()


class Sent:
    """Takes what the process would write to its pipe."""

    def __init__(self):
        self.messages = []

    def put(self, message):
        self.messages.append(message)


def test_a_term_that_is_over_can_be_told_through_the_pipe(rig):
    """Its end is no number in JSON: a reader of the pipe would end at it."""
    leases = LeaseProcess(Client(rig.access), namespace="default", identity="us", times=LONG)
    candidate = leases.candidate("one", on_won=lambda: None, on_lost=lambda _: None)
    candidate.is_won = True
    candidate.leadership.renew(5.0, "us", 7, "one")
    candidate.leadership.end()
    order = msgspec.json.decode(line_of(candidate.order()), type=Try)
    assert (order.lease, order.epoch, order.until_s) == ("one", 7, 0.0)

    sent, begin = Sent(), Begin("http://localhost", {}, "default", "us", 15.0, 10.0, 2.0, 5.0)
    elector = _Renewer(begin, os.getpid(), sent)._elector(Try("one"))
    elector._leadership.renew(5.0, "us", 8, "one")
    elector._on_renewed(0.1)
    elector._leadership.end()
    elector._on_renewed(0.1)
    assert [msgspec.json.decode(line_of(it), type=Held).until_s for it in sent.messages] == [5.0]


def test_it_ends_at_once_when_it_has_hardly_begun(rig):
    leases = LeaseProcess(Client(rig.access), namespace="default", identity="us", times=LONG)
    leases.start()
    leases.close()
    assert leases.pid == 0 or state_of(leases.pid) in {"", "Z"}


def test_a_new_token_is_handed_on(rig, server, lead):
    tokens = ["Bearer first"]
    seen, meets = set(), Fault.meets

    class Watching(Fault):
        def meets(self, request):
            if request.plural == "leases":
                seen.add(request.token)
            return meets(self, request)

    server.faults.add(Watching(plural="leases", name="nobody"))
    leader = lead(access=Access(rig.access.host, {}, lambda: tokens[-1]), times=LONG)
    until(lambda: leader.won)
    assert seen == {"first"}
    tokens.append("Bearer second")
    until(lambda: "second" in seen)
    assert leader.lost == []


def test_renewals_that_fail_are_tried_again_before_the_deadline(server, lead):
    """Of two that were cut off the second is a conflict with the first, and time is left."""
    leader = lead(times=LeaseTimes(90.0, 60.0, 1.0))
    until(lambda: leader.won)
    server.faults.add(Fault("drop_after", verb="update", plural="leases", times=2))
    until(lambda: leader.late or leader.lost)
    assert leader.lost == []
    assert 0.0 < leader.late[0] < 40.0


PARENT = """
import subprocess, sys
line = [sys.executable, "-m", "kaisched.cluster.kubernetes.lease_process"]
child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
for line in sys.stdin.buffer:
    child.stdin.write(line)
    child.stdin.flush()
"""


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return ""


def renewed(rig):
    return rig.must("GET", LEASE)["metadata"]["resourceVersion"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_nothing_is_renewed_for_a_process_that_is_killed_or_stopped(rig, server, number):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        child = int(parent.stdout.readline())
        begin = Begin(rig.access.host, {}, "default", "us", 90.0, 60.0, 0.2, 60.0)
        for order in (begin, Try("one")):
            parent.stdin.write(line_of(order))
        parent.stdin.flush()
        until(lambda: rig.ask("GET", LEASE).is_done)
        first = renewed(rig)
        until(lambda: renewed(rig) != first)
        parent.send_signal(number)

        def is_still():
            """What was under way may still arrive."""
            before = renewed(rig)
            time.sleep(1.0)
            return renewed(rig) == before

        until(is_still)
        last = renewed(rig)
        assert holder(rig) == "us"  # what the parent had under way may still arrive
        if number is signal.SIGKILL:
            until(lambda: state_of(child) in {"", "Z"})
        else:
            parent.send_signal(signal.SIGCONT)
            until(lambda: renewed(rig) != last)
    finally:
        parent.kill()
        parent.wait()
        for pipe in (parent.stdin, parent.stdout):
            pipe.close()


def test_the_process_is_small():
    """No numpy, no store, no plugins: it must start and run where there is hardly any room."""
    line = (
        "import sys, kaisched.cluster.kubernetes.lease_process, json;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", line], capture_output=True, check=True)
    loaded = set(msgspec.json.decode(found.stdout))
    assert not loaded & {"numpy", "kubernetes", "pydantic", "kaisched.cluster.store", "pluggy"}
