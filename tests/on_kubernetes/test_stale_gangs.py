"""Gangs that lose pods around a change of leaders: made whole, or ended in time."""

import datetime as dt
import time

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from kaisched.units import parse_duration
from kaisched_apiserver import Fault
from tests.on_kubernetes.looking import assert_no_overcommit, events
from tests.on_kubernetes.rig import elected
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,  # a grace is whole seconds, and has to pass
    pytest.mark.fault("I125"),
]
FOUR = [f"g-{number}" for number in range(4)]
GRACE_S = 4.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/kaisched-default"
STALE = "kaisched.io/GangStale"


def stale_since(cluster):
    """What the pods of the gang say."""
    names = [name for name in cluster.pods() if name.startswith("g-")]
    said = [cluster.condition(name, STALE) for name in names]
    return [it["lastTransitionTime"] for it in said if it.get("status") == "True"]


def evicted(cluster):
    return {line["pod"].partition("/")[2] for line in events(cluster, "pod_evicted")}


def bound(cluster):
    return {name for name in cluster.placed() if name.startswith("g-")}


def started(cluster, grace_s):
    """Start a gang, and return its first leader."""
    first = cluster.start().wait_leading()
    cluster.gang("g", "a", 4, stalenessGracePeriod=f"{grace_s:.0f}s")
    cluster.wait_placed(*FOUR)
    return first


def test_the_grace_goes_on_under_the_next_leader(cluster):
    """Its evictions say since when the gang is stale: before the next leader began."""
    first = started(cluster, GRACE_S)
    cluster.delete_pod("g-0")
    until(lambda: stale_since(cluster))
    time.sleep(GRACE_S / 2)
    first.stop()
    next_s = time.time()
    cluster.start().wait_leading()
    until(lambda: evicted(cluster) == {"g-1", "g-2", "g-3"})
    reason = events(cluster, "pod_evicted")[0]["reason"]
    assert reason.startswith("only 3 of the 4 pods needed run, for ")
    age_s = parse_duration(reason.rpartition(" for ")[2].partition(";")[0])
    assert time.time() - age_s < next_s


def test_a_gang_that_is_whole_again_says_nothing(cluster):
    """Should it lose a pod once more, its time begins anew."""
    first = started(cluster, 300.0)
    cluster.delete_pod("g-0")
    until(lambda: stale_since(cluster))
    cluster.pod("g-0", "a", group="g")
    cluster.wait_placed(*FOUR)
    until(lambda: not stale_since(cluster))
    first.stop()
    time.sleep(1.1)  # times are written in whole seconds
    whole_s = time.time() - 1.0
    cluster.start().wait_leading()
    cluster.delete_pod("g-1")
    until(lambda: stale_since(cluster))
    assert all(dt.datetime.fromisoformat(it).timestamp() > whole_s for it in stale_since(cluster))
    assert evicted(cluster) == set()


def test_a_gang_that_may_not_end_holds_up_no_other(cluster, server):
    server.faults.add(Fault("status", subresource="eviction", name="g-1", code=403, times=None))
    cluster.start().wait_leading()
    for name in ("f", "g", "h"):
        cluster.gang(name, "a", 3, stalenessGracePeriod="1s")
    cluster.wait_placed(*(f"{name}-{number}" for name in "fgh" for number in range(3)))
    for name in ("f", "g", "h"):
        cluster.delete_pod(f"{name}-0")
    until(lambda: {"f-1", "f-2", "h-1", "h-2"} <= evicted(cluster))
    assert not {"g-1", "g-2"} & evicted(cluster)


@pytest.mark.parametrize("is_room_taken", [True, False])
def test_half_of_a_gang_is_bound_when_the_leader_loses_its_lease(cluster, server, is_room_taken):
    """Others may have taken the room of the rest meanwhile; or the gang is completed."""
    cluster.start(**elected()).wait_leading()
    for name in FOUR[2:]:
        server.faults.add(Fault("status", subresource="binding", name=name, code=503, times=None))
    cluster.gang("g", "a", 4, gpus=4, stalenessGracePeriod="1s")
    until(lambda: bound(cluster) == set(FOUR[:2]))
    theirs = {"holderIdentity": "another", "leaseDurationSeconds": 1}
    cluster.must("PATCH", LEASE, {"spec": theirs}, MERGE)
    until(lambda: cluster.daemons[0].has_ended)
    cluster.daemons.clear()
    if is_room_taken:
        for number in range(8):
            free = {"n0": 8, "n1": 8}
            for pod in cluster.pods().values():
                asked = pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
                if pod["spec"].get("nodeName"):
                    free[pod["spec"]["nodeName"]] -= int(asked)
            node = max(free, key=free.get)
            cluster.pod(f"other-{number}", "a", nodeName=node)
    server.faults.clear()
    cluster.start().wait_leading()
    if is_room_taken:
        until(lambda: evicted(cluster) == set(FOUR[:2]), 1.0 + 30.0)  # the grace, a busy machine
    else:
        cluster.wait_placed(*FOUR)
        assert evicted(cluster) == set()
    assert_no_overcommit(cluster)
