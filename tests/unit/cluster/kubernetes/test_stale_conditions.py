"""Since when a gang is stale, written on one of its pods and read from there."""

import math

import pytest

from kaisched.cluster.kubernetes import pods
from kaisched.cluster.kubernetes.pods import AGAIN_S, StaleConditions
from kaisched.cluster.store import update
from kaisched.objects.labels import GANG_STALE
from tests.contract.clusters import group, pod
from tests.faults.deciding import store_of

pytestmark = pytest.mark.fault("I125")
NOON_S = 1_782_907_200.0
NOON = "2026-07-01T12:00:00Z"


def member(name, since="", status="True", **more):
    said = {"type": GANG_STALE, "status": status, "lastTransitionTime": since}
    more.setdefault("where", "n0")
    return pod(
        name,
        uid=f"{name}-1",
        phase="Running",
        annotations={"pod-group-name": "g"},
        status={"conditions": [said] if since else []},
        **more,
    )


@pytest.fixture
def store():
    return store_of(group("g", minMember=3), member("p1"), member("p0"))


@pytest.fixture
def reports():
    return []


@pytest.fixture
def conditions(writers, reports):
    return StaleConditions(writers, reports.append)


def said(reports):
    """(pod, status, time) of what was written, which is forgotten."""
    written = []
    for report in reports:
        (condition,) = report.status["conditions"]
        name = report.pod.partition("/")[2]
        written.append((name, condition["status"], condition["lastTransitionTime"]))
    reports.clear()
    return written


def stale_since(store):
    snapshot = store.snapshot()
    return float(snapshot.jobs.stale_since_s[store.rows.row_of_job("ns/g")])


def test_one_pod_says_it(store, conditions, reports):
    conditions.after(store, {"ns/g": NOON_S}, NOON_S + 9)
    assert said(reports) == [("p0", "True", NOON)]
    update(store, member("p0", NOON))
    conditions.after(store, {"ns/g": NOON_S + 0.9}, NOON_S + 9)
    assert said(reports) == []


def test_it_is_not_cleared_on_a_pod_whose_eviction_has_not_begun(store, conditions, reports):
    """Its leader may die before: then the time goes on under the next one."""
    update(store, member("p0", NOON))
    store.facts.sent.evict(store.pods.pod("ns/p0"))
    conditions.after(store, {}, NOON_S + 30)
    assert said(reports) == []
    store.facts.sent.take_back_eviction("ns/p0")
    conditions.after(store, {}, NOON_S + 30)
    assert said(reports) == [("p0", "False", "2026-07-01T12:00:30Z")]


def test_what_does_not_show_is_written_again_but_not_at_once(
    store, conditions, reports, monkeypatch
):
    now_s = [0.0]
    monkeypatch.setattr(pods, "monotonic_s", lambda: now_s[0])
    for later_s in (0.0, AGAIN_S / 2, AGAIN_S):
        now_s[0] = later_s
        conditions.after(store, {"ns/g": NOON_S}, NOON_S)
    assert len(said(reports)) == 2


def test_another_says_it_when_that_pod_is_gone(store, conditions, reports):
    update(store, member("p0", NOON))
    assert stale_since(store) == NOON_S
    update(store, member("p0"), is_gone=True)
    assert math.isnan(stale_since(store))
    conditions.after(store, {"ns/g": NOON_S}, NOON_S)
    assert said(reports) == [("p1", "True", NOON)]


def test_a_gang_that_is_whole_takes_it_back(store, conditions, reports):
    update(store, member("p1", NOON))
    conditions.after(store, {}, NOON_S)
    assert said(reports) == [("p1", "False", NOON)]
    update(store, member("p1", NOON, status="False"))
    assert math.isnan(stale_since(store))
    conditions.after(store, {}, NOON_S)
    assert said(reports) == []


@pytest.mark.parametrize("nonsense", ["yesterday", "2026-13-01T00:00:00Z"])
def test_a_time_that_makes_no_sense_says_nothing(store, nonsense):
    update(store, member("p0", nonsense))
    assert math.isnan(stale_since(store))


def test_the_latest_counts_and_a_change_of_the_group_does_not_hide_it(store):
    update(store, member("p0", "2026-07-01T11:00:00Z"))
    update(store, member("p1", NOON))
    assert stale_since(store) == NOON_S
    update(store, group("g", minMember=4))
    update(store, member("p"))
    assert stale_since(store) == NOON_S
