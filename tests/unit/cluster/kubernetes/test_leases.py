"""Leases: how long a renewal permits writes, and what an end forbids for good."""

import threading

import msgspec
import pytest

from kaisched.clock import SystemClock, monotonic_s
from kaisched.cluster.kubernetes.leader_election import Elector, Leadership, LeaseTimes
from tests.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
TIMES = LeaseTimes(90.0, 60.0, 0.05)


class Watched:
    """A client that lets a test look at each write of the lease before its answer is given."""

    def __init__(self, client):
        self.client, self.begun_s = client, 0.0
        self.answered = lambda: None
        self.renewed = []
        """(Until when it permits writes, when its write was begun) of each renewal."""

    def call(self, method, path, **how):
        begun_s = monotonic_s()
        answer = self.client.call(method, path, **how)
        if method in {"POST", "PUT"}:
            self.begun_s = begun_s
            self.answered()
        return answer


@pytest.fixture
def watched(client):
    return Watched(client)


@pytest.fixture
def elected(watched):
    """Start an elector; return it with its leadership."""
    electors = []

    def elected(identity="us", times=TIMES, **more):
        leadership = Leadership()
        renew = leadership.renew

        def renewed(until_s, *how):
            watched.renewed.append((until_s, watched.begun_s))
            renew(until_s, *how)

        leadership.renew = renewed
        elector = Elector(
            watched,
            leadership,
            SystemClock(),
            namespace="default",
            name="lease",
            identity=identity,
            times=times,
            **more,
        )
        electors.append(elector)
        elector.start()
        return elector, leadership

    yield elected
    for elector in electors:
        elector.stop()


def lease(client):
    return msgspec.json.decode(client.call("GET", f"{LEASES}/lease").data)


@pytest.mark.fault("B27")
def test_a_renewal_permits_writes_from_when_it_was_sent_not_from_its_answer(watched, elected):
    """A standby counts from when it sees the renewal, which may be before we see the answer."""
    slow = threading.Event()
    watched.answered = lambda: slow.wait(0.1)
    elected()
    until(lambda: len(watched.renewed) > 2)
    for until_s, begun_s in watched.renewed:
        assert until_s - TIMES.renew_s <= begun_s  # before the server can have heard of it


@pytest.mark.fault("B35")
def test_a_renewal_whose_answer_comes_after_the_end_leads_no_more(watched, elected):
    elector, leadership = elected()
    until(leadership.is_held)
    there, go = threading.Event(), threading.Event()

    def answered():
        there.set()
        go.wait(30.0)

    watched.answered = answered
    assert there.wait(30.0)
    ending = threading.Thread(target=elector.stop)
    ending.start()
    until(elector._end.is_set)
    assert not leadership.is_held()
    before = len(watched.renewed)
    watched.answered = lambda: None
    go.set()
    ending.join()
    assert len(watched.renewed) == before
    assert not leadership.is_held()


def test_a_lease_is_let_go_at_the_end_and_its_number_grows_with_each_holder(client, elected):
    first, leadership = elected("us")
    until(leadership.is_held)
    assert (lease(client)["spec"]["holderIdentity"], leadership.term.epoch) == ("us", 0)
    first.stop()
    assert not lease(client)["spec"].get("holderIdentity")
    _, other = elected("them")
    until(other.is_held)
    assert (lease(client)["spec"]["holderIdentity"], other.term.epoch) == ("them", 1)


def test_a_write_has_to_end_while_the_leadership_is_held(monkeypatch):
    leadership = Leadership()
    assert not leadership.is_held()
    monkeypatch.setattr("kaisched.cluster.kubernetes.leader_election.monotonic_s", lambda: 100.0)
    leadership.renew(110.0, "us")
    assert leadership.is_held()
    assert leadership.is_held(9.9)
    assert not leadership.is_held(10.0)
    assert not leadership.is_held(10.1)
