"""Plans of ten victims, and what happens to those they were made for in the middle of one."""

import itertools
import time

import pytest

from kaisched.cluster.kubernetes.client import MERGE
from kaisched_apiserver import Fault
from tests.on_kubernetes.looking import assert_no_overcommit, events
from tests.waiting import until

pytestmark = [
    pytest.mark.slow,  # requests are held up for tenths of a second, ten victims in two rounds
    pytest.mark.fault("I124"),
]
TEN = [f"g-{number}" for number in range(10)]


@pytest.fixture
def cluster(rig, server):
    """Two nodes of eight GPUs that queue a holds with single pods; b deserves ten of them."""
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("root", -1)
    rig.queue("a", 6, "root")
    rig.queue("b", 10, "root")
    for number in range(16):
        rig.pod(f"v{number}", "a", nodeName=f"n{number % 2}")
    rig.start_kubelet()
    until(lambda: all(pod["status"]["phase"] == "Running" for pod in rig.pods().values()))
    return rig


DELAY_S = 0.4


def slow(server, seconds=DELAY_S):
    return server.faults.add(Fault(subresource="eviction", delay_s=seconds, times=None))


def evicted(cluster):
    return {line["pod"].partition("/")[2] for line in events(cluster, "pod_evicted")}


def living(cluster):
    return {name for name in cluster.placed() if name.startswith("v")}


def bind(cluster, name, node):
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    cluster.must("POST", f"{cluster.pods_path}/{name}/binding", body)


def delete(cluster):
    cluster.delete_pod("g-7")


def place(cluster):
    """Somebody else has bound the whole gang."""
    for name in TEN:
        bind(cluster, name, "elsewhere")


def relabel(cluster):
    labels = {"metadata": {"labels": {"team": "another"}}}
    cluster.must("PATCH", f"{cluster.pods_path}/g-7", labels, MERGE)


def demote(cluster):
    """The gang is of another queue now, which deserves nothing."""
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{cluster.namespace}/podgroups/g"
    cluster.queue("c", 0, "root")
    cluster.must("PATCH", path, {"spec": {"queue": "c"}}, MERGE)


def test_all_of_a_plan_goes_where_it_is_wanted(cluster, server):
    """Sent a few at a time: in turn, each would come after the delay of the one before."""
    met_s = []

    class Noting(Fault):
        def meets(self, request):
            is_met = Fault.meets(self, request)
            met_s.extend([time.monotonic()] * is_met)
            return is_met

    server.faults.add(Noting(subresource="eviction", delay_s=DELAY_S, times=None))
    cluster.start().wait_leading()
    cluster.gang("g", "b", 10)
    cluster.wait_placed(*TEN)
    assert len(met_s) == 20
    assert sum(later - at < DELAY_S for at, later in itertools.pairwise(met_s)) >= 10
    assert len(evicted(cluster)) == 10
    assert_no_overcommit(cluster)


@pytest.mark.parametrize("change", [delete, demote])
def test_nobody_goes_for_who_does_not_wait_any_more(cluster, server, change):
    """Half of the dry runs are done: a plan for what is now is made, if at all."""
    fault = slow(server)
    cluster.start().wait_leading()
    cluster.gang("g", "b", 10)
    until(lambda: fault.met >= 5)
    change(cluster)
    until(lambda: events(cluster, "eviction_dropped"))
    server.faults.clear()
    time.sleep(1.5 * DELAY_S)
    assert evicted(cluster) == set()
    assert len(living(cluster)) == 16


def test_the_rest_lives_when_nobody_waits_any_more(cluster, server):
    """Of those whose eviction is not under way; nothing can be undone."""
    fault = slow(server)
    cluster.start().wait_leading()
    cluster.gang("g", "b", 10)
    until(lambda: fault.met >= 11)
    place(cluster)
    until(lambda: events(cluster, "eviction_dropped"))
    server.faults.clear()
    until(lambda: evicted(cluster))
    time.sleep(1.5 * DELAY_S)
    gone = evicted(cluster)
    assert len(gone) <= 8
    until(lambda: len(living(cluster)) == 16 - len(gone))


def test_a_pod_that_is_another_now_gets_a_plan_of_its_own(cluster, server):
    fault = slow(server)
    cluster.start().wait_leading()
    cluster.gang("g", "b", 10)
    until(lambda: fault.met >= 5)
    relabel(cluster)
    until(lambda: events(cluster, "eviction_dropped"))
    cluster.wait_placed(*TEN)
    assert len(evicted(cluster)) == 10


def test_the_server_is_away_in_the_middle(cluster, server):
    fault = slow(server, 0.1)
    cluster.start().wait_leading()
    cluster.gang("g", "b", 10)
    until(lambda: fault.met >= 13)
    server.take_down()
    time.sleep(1.0)
    server.bring_up()
    cluster.wait_placed(*TEN)
    assert len(living(cluster)) == 6
    assert_no_overcommit(cluster)
