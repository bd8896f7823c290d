"""What queues say of their share: a few at a time, and to servers that keep it alone."""

import pytest

from kaisched.cluster.kubernetes.statuses import MOST_QUEUES, QueueShares, share_status
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.records import QueueShare
from kaisched.units import MEBIBYTE
from tests.laws.reported import GROUPS, QUEUES, Cluster


def status(cluster, name):
    return cluster.server.must("GET", f"{QUEUES}/{name}").get("status", {})


@pytest.mark.proportion
def test_a_queue_tells_its_fair_share_how_full_it_is_and_how_many_of_its_jobs_wait():
    cluster = Cluster(nodes=1)
    for name, queue, gpus in (("p", "a", 2), ("q", "b", 8), ("r", "b", 8)):
        cluster.pod(name, queue, gpus)
    cluster.pass_time(3.0)
    told = {name: status(cluster, name) for name in ("a", "b")}
    assert told["a"]["fairShare"]["nvidia.com/gpu"] == "2"
    assert (told["a"]["saturation"], told["a"]["pendingJobs"]) == ("100%", 0)
    assert told["b"]["fairShare"]["nvidia.com/gpu"] == "6"
    assert told["b"]["pendingJobs"] == 2


def test_only_a_few_queues_take_their_turn_in_each_round():
    store, turns = RowStore(), QueueShares()
    store.put_node(NodeRow("n0", {"cpu": 8000, "memory": 1 << 24, "gpu": 8000, "pods": 99}))
    for number in range(2 * MOST_QUEUES + 5):
        store.put_queue(QueueRow(f"q{number:02}"))
    snapshot = store.snapshot()
    result, _ = run_cycle(snapshot, None, default_policy(), 0.0, Memory())
    rounds = [[name for name, _ in turns.changed(snapshot, result)] for _ in range(4)]
    assert [len(names) for names in rounds] == [MOST_QUEUES, MOST_QUEUES, 5, 0]
    assert sorted(name for names in rounds for name in names) == sorted(snapshot.queues.name)


def test_a_share_without_an_end_is_said_to_have_none():
    nothing = {"gpu": 0, "memory": 0}
    share = QueueShare("a", None, {"gpu": -1, "memory": 2048 * MEBIBYTE}, nothing, nothing, nothing)
    assert share_status(share, 3) == {
        "fairShare": {"nvidia.com/gpu": "unlimited", "memory": "2048Mi"},
        "saturation": "0%",
        "pendingJobs": 3,
    }


@pytest.mark.fault("I139")
def test_a_server_that_does_not_keep_shares_is_told_none():
    """KAI-Scheduler's own definition of a queue has no such fields."""
    cluster = Cluster(nodes=1)
    told = pruned(cluster, "queues", {"fairShare", "saturation", "pendingJobs", "childrenQuota"})
    cluster.pod("p", "a", 2)
    cluster.pass_time(20.0)
    cluster.pod("q", "b", 2)
    cluster.pass_time(20.0)
    assert sum("fairShare" in it for it in told) == 1
    # Of what is kept, the last state arrives; nothing is written that changes nothing.
    assert status(cluster, "b")["allocated"]["nvidia.com/gpu"] == "2"
    count = len(told)
    cluster.pass_time(60.0)
    assert len(told) == count


@pytest.mark.fault("I139")
def test_a_server_that_drops_parts_of_conditions_is_not_told_them_for_ever():
    cluster = Cluster(nodes=1)
    told = pruned(cluster, "podgroups", {"reasons", "requested"})
    cluster.group("g", "a", 1)
    cluster.pod("p", "a", 9, group="g")
    cluster.pass_time(30.0)
    assert any("schedulingConditions" in it for it in told)
    count = len(told)
    cluster.pass_time(60.0)
    assert len(told) == count
    (said,) = cluster.server.must("GET", f"{GROUPS}/g")["status"]["schedulingConditions"]
    assert "reasons" not in said
    cluster.delete("p")
    cluster.pod("q", "a", 10, group="g")  # what changes is told
    cluster.pass_time(60.0)
    assert count < len(told) < count + 6


def pruned(cluster, plural, fields):
    """Let the server drop some fields of statuses; return the statuses that it is told."""
    ask, told = cluster.server.ask, []

    def kept(value):
        if isinstance(value, list):
            return [kept(it) for it in value]
        if not isinstance(value, dict):
            return value
        return {key: kept(it) for key, it in value.items() if key not in fields}

    def pruning(method, path, body=None, *how):
        if method == "PATCH" and f"/{plural}/" in path and "status" in body:
            told.append(body["status"])
            body = {**body, "status": kept(body["status"])}
        return ask(method, path, body, *how)

    cluster.server.ask = pruning
    return told
