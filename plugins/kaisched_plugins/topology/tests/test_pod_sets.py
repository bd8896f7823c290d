"""Pod sets with Kueue's annotations: how many pods each node gets (K1 to K7)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group
from kaisched_plugins.topology.tests.gangs import asking

TOO_LARGE = (
    "no rack could hold its 4 pods together even if nothing else ran: best is rack b/r2, short by"
    " 1 pod"
)
LEVELS = ("block", "rack", "host")


def pod_set(required: str = "", preferred: str = "", *slices: tuple[str, int]) -> Any:
    return TopologyConstraint("", required, preferred, slices, is_pod_set=True)


def cluster(free: Mapping[str, Sequence[int]]) -> ClusterBuilder:
    """Build idle hosts: rack "b1/r1" with GPUs for each of its hosts."""
    builder = ClusterBuilder().topology("t", *LEVELS).queue("a")
    for rack, hosts in free.items():
        for number, gpus in enumerate(hosts, 1):
            name = f"{rack.replace('/', '-')}-{number}"
            place = {"block": rack.split("/")[0], "rack": rack, "host": name}
            builder.node(name, gpu=gpus, labels=place)
    return builder


def placed(builder: ClusterBuilder, *actions: str) -> Counter[str]:
    ran = builder.run(*(actions or ("allocate",)))
    return Counter(ran.placed.values())


def test_pods_go_into_the_tightest_rack_and_into_few_hosts():
    """Rack r2 holds 5 and r3 too much; r1 too little. In it the last pod goes where it fits."""
    builder = cluster({"b/r1": [4], "b/r2": [3, 2, 1], "b/r3": [4, 4]})
    builder.job("a1", queue="a", tasks=6, topology=pod_set("rack"))
    assert placed(builder) == {"b-r2-1": 3, "b-r2-2": 2, "b-r2-3": 1}


@pytest.mark.parametrize(
    ("pods", "found"),
    [(7, [3, 3, 0, 1]), (6, [3, 3, 0, 0]), (2, [0, 0, 2, 0])],
    ids=["the last by best fit", "no need for it", "one host"],
)
def test_hosts_by_best_fit(pods, found):
    builder = cluster({"b/r": [3, 3, 2, 1]})
    builder.job("a1", queue="a", tasks=pods, topology=pod_set("block"))
    assert placed(builder) == {f"b-r-{at}": count for at, count in enumerate(found, 1) if count}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [({}, [3, 1, 2, 1]), ({"leastFree": False}, [3, 3, 0, 1])],
    ids=["least free first", "best fit"],
)
def test_a_free_choice_takes_the_fullest_hosts(arguments, found):
    builder = cluster({"b/r": [3, 3, 2, 1]})
    builder.job("a1", queue="a", tasks=7, topology=pod_set())
    shard = {"plugins": {"topology": {"arguments": arguments}}}
    ran = builder.run("allocate", shard=shard)
    counts = Counter(ran.placed.values())
    assert counts == {f"b-r-{at}": count for at, count in enumerate(found, 1) if count}


@pytest.mark.parametrize(
    ("pods", "wish", "found"),
    [
        (12, pod_set("block", "", ("host", 2)), [6, 0, 4, 0, 2]),
        (10, pod_set("", "", ("host", 2)), [0, 2, 4, 2, 2]),
    ],
    ids=["best fit", "least free"],
)
def test_slices_are_whole_on_each_host(pods, wish, found):
    builder = cluster({"b/r": [6, 5, 4, 3, 2]})
    builder.job("a1", queue="a", tasks=pods, topology=wish)
    assert placed(builder) == {f"b-r-{at}": count for at, count in enumerate(found, 1) if count}


def test_slices_count_not_pods():
    """Racks with room for 7, 6 and 5 pods hold three slices of four, although 18 pods fit."""
    builder = cluster({"b/r1": [7], "b/r2": [6], "b/r3": [5]})
    builder.job("a1", queue="a", tasks=16, topology=pod_set("block", "", ("rack", 4)))
    ran = builder.run("allocate")
    (record,) = ran.result.records
    assert record.reason == "NoDomainHasRoom"
    assert record.message == (
        "no block has room for its 4 slices of 4 pods together: best is block b, short by 1 slice"
    )


def test_layers_of_slices():
    """A block of two racks of four hosts: 32 in the block, 16 in each rack."""
    free = {f"b{block}/r{rack}": [8] * 4 for block in (1, 2) for rack in (1, 2)}
    builder = cluster(free)
    wish = pod_set("block", "", ("block", 32), ("rack", 16))
    builder.job("a1", queue="a", tasks=64, topology=wish)
    assert placed(builder) == {f"b1-r{rack}-{at}": 8 for rack in (1, 2) for at in (1, 2, 3, 4)}


def with_leader(builder: ClusterBuilder, workers: int, wish: Any) -> Any:
    """Add a leader of two GPUs and workers, placed together."""
    leaves = (Group("leader", 1), Group("workers", workers))
    podsets = ["leader", *["workers"] * workers]
    groups = Group("", None, (Group("pair", None, leaves, wish),))
    builder.job("a1", queue="a", tasks=1 + workers, groups=groups, podsets=podsets)
    return asking(builder, {"gpu": 2000}).run("allocate")


def test_a_leader_is_in_the_rack_of_its_workers():
    """Rack r1 holds four workers, or two beside the leader: only r2 holds all."""
    ran = with_leader(cluster({"b/r1": [4], "b/r2": [3, 3]}), 4, pod_set("rack"))
    assert {node.rpartition("-")[0] for node in ran.placed.values()} == {"b-r2"}


def test_a_leader_without_room_beside_its_workers_waits_with_them():
    ran = with_leader(cluster({"b/r1": [4], "b/r2": [3, 2]}), 4, pod_set("rack"))
    assert ran.placed == {}


def test_a_lost_pod_completes_its_slice():
    """Two slices of two hosts' pods ran in two racks; one pod of rack r1 is gone."""
    builder = cluster({"b/r1": [2, 2], "b/r2": [2, 2], "b/r3": [8]})
    wish = pod_set("block", "", ("rack", 2))
    builder.job("a1", queue="a", tasks=4, topology=wish, running={"b-r1-1": 1, "b-r2-1": 2})
    assert placed(builder) == {"b-r1-1": 1}


def test_a_lost_pod_waits_for_room_beside_its_slice():
    builder = cluster({"b/r1": [1], "b/r2": [2], "b/r3": [8]})
    wish = pod_set("block", "", ("rack", 2))
    builder.job("a1", queue="a", tasks=4, topology=wish, running={"b-r1-1": 1, "b-r2-1": 2})
    ran = builder.run("allocate")
    assert ran.placed == {}
    (record,) = ran.result.records
    assert "pods of it run in rack b/r1, which has no room for its pod" in record.message


def test_a_wish_waits_for_nothing():
    builder = cluster({"b/r1": [1]}).node("unlabelled", gpu=4)
    builder.job("a1", queue="a", tasks=4, topology=pod_set("", "rack"))
    assert sum(placed(builder).values()) == 4


@pytest.mark.parametrize(
    ("wish", "reason", "message"),
    [
        (
            pod_set("racks"),
            "NoSuchTopologyLevel",
            "no Topology has a level racks; did you mean rack?",
        ),
        (
            pod_set("rack", "", ("block", 2)),
            "UnusableSlices",
            "slices at level block cannot be inside of level rack",
        ),
        (pod_set("rack"), "NoDomainIsLargeEnough", TOO_LARGE),
        (
            pod_set("", "", ("host", 2)),
            "NoDomainHasRoom",
            "there is no room for its 2 slices of 2 pods: short by 1 slice",
        ),
    ],
)
def test_the_reason_says_what_is_missing(wish, reason, message):
    builder = cluster({"b/r1": [1], "b/r2": [3]})
    builder.job("a1", queue="a", tasks=4, topology=wish)
    ran = builder.run("allocate")
    (record,) = ran.result.records
    assert (record.reason, record.message) == (reason, message)


def test_work_gives_way_in_one_rack_for_whole_slices():
    """Four pods make way in rack r1: idle rack r2 has four GPUs, but not two slices of two."""
    builder = cluster({"b/r1": [4], "b/r2": [3, 1]}).queue("b", deserved=4)
    for at in range(4):
        builder.job(f"v{at}", queue="a", running={"b-r1-1": 1})
    builder.job("b1", queue="b", tasks=4, topology=pod_set("rack", "", ("host", 2)))
    ran = builder.run("allocate", "reclaim")
    assert len(ran.evicted) == 4
    mine = {node for pod, node in ran.promised.items() if pod.startswith("b1")}
    assert mine == {"b-r1-1"}


def test_promised_nodes_are_kept():
    """Rack r2 is tighter, but the pods were promised rack r1, which has room by now."""
    builder = cluster({"b/r1": [4, 4], "b/r2": [2]})
    promised = {"b-r1-1": 1, "b-r1-2": 1}
    builder.job("a1", queue="a", tasks=2, topology=pod_set("rack"), promised=promised)
    assert placed(builder) == promised


@pytest.mark.parametrize(
    ("free", "pods", "found"),
    [
        ([10, 10], 12, [6, 6]),
        ([15, 13, 10], 23, [12, 11, 0]),
        ([4, 3, 1], 7, [4, 3, 0]),
    ],
    ids=["halves", "the two roomiest", "one host has no room for a share"],
)
def test_even_shares(free, pods, found):
    builder = cluster({"b/r": free})
    builder.job("a1", queue="a", tasks=pods, topology=pod_set("", "rack"))
    shard = {"plugins": {"topology": {"arguments": {"evenShares": True}}}}
    counts = Counter(builder.run("allocate", shard=shard).placed.values())
    assert counts == {f"b-r-{at}": count for at, count in enumerate(found, 1) if count}
