"""What conditions say of advice: nothing before it was tried, the same until it is false."""

import pytest

from tests.laws.reported import GROUPS, TEAM, Cluster

REASON = "a pod asks for more than any node has that may take it: 2 gpu short by at least 8"
HELPS = "would help (tried 2026-02-02 02:40 UTC): 1 more node like n000 but with gpu 16"


@pytest.fixture
def cluster():
    made = Cluster()
    made.group("g", "a", 1)
    made.pod("g-0", "a", 16, "g")
    made.pass_time(1.0)
    return made


def condition(cluster, name="g-0"):
    conditions = cluster.server.must("GET", f"{TEAM}/pods/{name}")["status"]["conditions"]
    return next(it["message"] for it in conditions if it["type"] == "PodScheduled")


def test_pods_and_their_group_are_told_what_would_help_once_it_was_tried(cluster):
    assert condition(cluster) == REASON
    cluster.advice.find(cluster.cycle.result)
    cluster.pass_time(2.0)
    assert condition(cluster) == f"{REASON}; {HELPS}"
    (told,) = cluster.server.must("GET", f"{GROUPS}/g")["status"]["schedulingConditions"]
    assert told["message"] == f"{REASON}; {HELPS}"


def test_another_process_leaves_what_was_found_and_writes_nothing(cluster):
    cluster.advice.find(cluster.cycle.result)
    cluster.pass_time(2.0)
    cluster.begin()
    cluster.pass_time(2.0)
    assert cluster.counts() == 0
    cluster.clock.advance_to(cluster.clock.now_s() + 3600)
    cluster.next_cycle()
    cluster.advice.find(cluster.cycle.result)  # it finds out the same again
    cluster.pass_time(2.0)
    assert cluster.counts() == 0
    assert condition(cluster) == f"{REASON}; {HELPS}"


def test_advice_that_does_not_fit_is_left_out_whole(cluster, monkeypatch):
    monkeypatch.setattr("kaisched.cluster.kubernetes.reports.MOST_MESSAGE", len(REASON) + 40)
    cluster.advice.find(cluster.cycle.result)
    cluster.pass_time(2.0)
    assert condition(cluster) == REASON
