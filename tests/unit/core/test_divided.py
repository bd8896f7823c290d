"""What is divided: what queues hold, and what their pods could be given (rule R0)."""

from dataclasses import replace

import pytest

from kaisched.core.axis import CPU, GPU
from kaisched.core.constraints import Constraints, Taint, Toleration
from kaisched.testing.builder import ClusterBuilder
from tests.oracles.accounts import assert_adds_up

MAINTENANCE = Taint("maintenance", "", "NoSchedule")
TOLERANT = Constraints(tolerations=(Toleration("maintenance", "Exists", "", ""),))
OF_CORDONS = Constraints(
    tolerations=(Toleration("node.kubernetes.io/unschedulable", "Exists", "", ""),)
)


def cluster(**second):
    """Two nodes of 8 GPUs, of which the second is special, and two equal queues."""
    made = ClusterBuilder().node("n0", gpu=8).node("n1", gpu=8, **second)
    return made.queue("a").queue("b")


def gpus(made, change=None):
    store = made.store()
    if change is not None:
        store.put_node(replace(store.nodes._node["n1"], **change))
    snapshot = store.snapshot()
    assert_adds_up(snapshot)
    return snapshot.total[GPU] / 1000


SHUT = [
    pytest.param({"is_unschedulable": True}, id="cordoned"),
    pytest.param({"has_pressure": True}, id="pressure"),
    pytest.param({"is_ready": False}, id="not-ready"),
    pytest.param({"taints": (MAINTENANCE,)}, id="tainted"),
    pytest.param({"taints": (replace(MAINTENANCE, effect="NoExecute"),)}, id="no-execute"),
]


@pytest.mark.parametrize("change", SHUT)
def test_a_node_that_takes_no_new_pods_counts_with_what_queues_hold_there(change):
    waiting = cluster().job("w", queue="b", tasks=8, min_tasks=1)
    assert gpus(waiting, change) == 8
    assert gpus(waiting.job("r", queue="a", tasks=3, running={"n1": 3}), change) == 11
    # What leaves cannot be given to others there, and what starts elsewhere is divided already.
    assert gpus(waiting.job("l", queue="a", tasks=2, leaving={"n1": 2}), change) == 11
    assert gpus(waiting.job("m", queue="a", tasks=2, running={"n0": 2}), change) == 11


def test_a_taint_that_is_a_wish_changes_nothing():
    wish = cluster(taints=(replace(MAINTENANCE, effect="PreferNoSchedule"),))
    assert gpus(wish.job("w", queue="b")) == 16


def test_a_node_whose_taints_a_job_tolerates_is_divided():
    tainted = cluster(taints=(MAINTENANCE,)).job("w", queue="b")
    assert gpus(tainted) == 8
    assert gpus(tainted.job("t", queue="a", constraints=TOLERANT)) == 16
    both = cluster(taints=(MAINTENANCE, Taint("other", "", "NoSchedule")))
    assert gpus(both.job("t", queue="a", constraints=TOLERANT)) == 8


def test_who_tolerates_a_taint_without_asking_for_gpus_does_not_open_them():
    made = cluster(taints=(MAINTENANCE,)).job("w", queue="b")
    store = made.job("t", queue="a", gpu=0, constraints=TOLERANT).store()
    snapshot = store.snapshot()
    assert snapshot.total[GPU] == 8000
    assert snapshot.total[CPU] == 2_000_000
    assert_adds_up(snapshot)


def test_a_cordon_is_a_taint_that_may_be_tolerated():
    made = cluster(is_unschedulable=True)
    assert gpus(made) == 8
    assert gpus(made.job("t", queue="a", constraints=OF_CORDONS)) == 16


def test_a_tainted_node_is_there_while_no_pod_asks_for_what_it_has():
    # History would else call a cluster that nobody uses at night a smaller one.
    assert gpus(cluster(taints=(MAINTENANCE,))) == 16


def test_what_pods_of_a_missing_queue_hold_is_not_divided():
    lost = cluster().job("x", queue="deleted", tasks=5, running={"n0": 4}, leaving={"n1": 1})
    assert gpus(lost) == 11
    assert gpus(lost, {"is_unschedulable": True}) == 4
    store = lost.store()
    store.remove_queue("a")
    assert_adds_up(store.snapshot())


def test_pods_on_a_node_that_is_gone_count_like_those_on_one_that_is_not_ready():
    store = cluster().job("r", queue="a", tasks=3, running={"n1": 3}).store()
    store.remove_node("n1")
    snapshot = store.snapshot()
    assert snapshot.total[GPU] == 11_000
    assert_adds_up(snapshot)


def test_equal_queues_end_with_equal_amounts_though_one_runs_on_a_cordoned_node():
    """Of 12 GPUs in use or free, each is due 6; the cordoned node's other 4 are nobody's."""
    made = cluster(is_unschedulable=True)
    made.job("old", queue="a", tasks=4, min_tasks=1, running={"n1": 4})
    made.job("new", queue="a", tasks=8, min_tasks=1, running={"n0": 8})
    for number in range(12):
        made.job(f"b{number}", queue="b")
    ran = made.run("reclaim")
    assert len(ran.evicted) == len(ran.promised) == 6
    assert set(ran.evicted.values()) == {"n0"}
