"""What a pod asks of others and of its node is honored: rules of Kubernetes, in small clusters."""

import json

import pytest

from kaisched.engine.planning import plan, read_plan_input
from tests.reference import making as m

OTHERS = {"schedulerName": "default-scheduler"}


def decided(tmp_path, *objects, rounds=1):
    """Return what is bound where, promised where, evicted, and why others wait."""
    file = tmp_path / "cluster.yaml"
    file.write_text("\n---\n".join(map(json.dumps, objects)), encoding="utf-8")
    cycles = plan(read_plan_input([str(file)]), rounds).cycles
    return (
        {it.pod: it.node for cycle in cycles for it in cycle.binds},
        {it.pod: it.node for cycle in cycles for it in cycle.nominations},
        {it.pod for cycle in cycles for it in cycle.evictions},
        {it.pod_group: it.reason for it in cycles[-1].records},
    )


# -- resize in place -------------------------------------------------------------------------------


def cpus(name, asked, *, has=None, reason="", **more):
    main = {"resources": {"requests": {"cpu": asked}}}
    made = m.pod(name, gpus=0, main=main, **more)
    if has is not None:
        amounts = {"allocatedResources": {"cpu": has}, "resources": {"requests": {"cpu": has}}}
        made["status"]["containerStatuses"] = [{"name": "main", **amounts}]
    if reason:
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        made["status"]["conditions"] = [pending]
    return made


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize(
    ("asked", "has", "reason", "fits"),
    [
        ("61", "63", "", False),  # made smaller, and has not given back yet
        ("63", "61", "Deferred", False),  # made larger, and waits for its room: as kube-scheduler
        ("63", "61", "Infeasible", True),
        ("100", "61", "Infeasible", True),
        ("61", "61", "", True),
    ],
)
def test_a_node_has_room_beside_what_a_resized_pod_may_hold(
    tmp_path, asked, has, reason, fits, whose
):
    # 64 CPUs; 2 are asked for.
    resized = cpus("r", asked, has=has, reason=reason, at="node-1", **whose)
    found = decided(tmp_path, m.node(), m.queue(), resized, cpus("b", "2"))
    assert found[0] == ({"team/b": "node-1"} if fits else {})
    assert not found[2]


@pytest.mark.parametrize(("asked", "has", "binds"), [("1", "3", 0), ("3", "1", 0), ("1", "2", 1)])
def test_a_queue_is_charged_what_a_resized_pod_may_hold(tmp_path, asked, has, binds):
    # The limit is 4 CPUs; 2 are asked for.
    queue = m.queue()
    queue["spec"]["resources"] = {"cpu": {"limit": 4000}}
    resized = cpus("r", asked, has=has, at="node-1")
    found = decided(tmp_path, m.node(), queue, resized, cpus("b", "2"))
    assert (len(found[0]), found[2]) == (binds, set())


# -- preemptionPolicy: Never -----------------------------------------------------------------------

NEVER = {"preemptionPolicy": "Never"}
PREEMPTS = {
    "preemptionPolicy": "PreemptLowerPriority"
}  # API servers write it where nothing is said


def of_class(name):
    return {"labels": {"priorityClassName": name}}


CLASSES = (m.priority_class("low", 10), m.priority_class("high", 60, **NEVER))


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("asks", "evicts"),
    [
        ({"priorityClassName": "high"}, False),
        ({"priorityClassName": "high", "priority": 60, **NEVER}, False),  # as a server has it
        (NEVER, False),
        ({"labels": {"priorityClassName": "high"}, **PREEMPTS}, False),  # the class of the job
        ({"priorityClassName": "inference"}, True),
        (PREEMPTS, True),
        ({}, True),
    ],
)
@pytest.mark.parametrize("queue", ["vision", "speech"], ids=["preempt", "reclaim"])
def test_nothing_is_evicted_for_a_pod_that_never_preempts(tmp_path, asks, evicts, queue):
    bound, promised, evicted, reasons = decided(
        tmp_path,
        *CLASSES,
        m.node(),
        m.queue(quota=8),
        m.queue("speech", quota=0),
        m.pod("other", gpus=8, queue=queue, at="node-1", priorityClassName="low"),
        m.pod(gpus=8, **asks),
        rounds=2,
    )
    if evicts:
        assert evicted == {"team/other"}
    else:
        assert (bound, promised, evicted) == ({}, {}, set())
        assert set(reasons.values()) <= {"NoRoom", "NotTried"}


@pytest.mark.proportion
@pytest.mark.parametrize("asks", [{}, NEVER], ids=["moves", "never"])
def test_nothing_is_moved_for_a_pod_that_never_preempts(tmp_path, asks):
    # 5 of 8 GPUs are used on each of two nodes, and the 3 on the second fit on the first.
    found = decided(
        tmp_path,
        m.node(),
        m.node("node-2"),
        m.queue(quota=16),
        m.pod("a", gpus=5, at="node-1"),
        m.pod("b", gpus=3, at="node-2"),
        m.pod(gpus=6, **asks),
    )
    assert found[2] == (set() if asks else {"team/b"})


@pytest.mark.proportion
@pytest.mark.parametrize("at", [0, 1])
def test_one_pod_of_a_gang_that_never_preempts_is_enough(tmp_path, at):
    pods = [
        m.in_group(f"g{number}", gpus=4, **(NEVER if number == at else {})) for number in (0, 1)
    ]
    others = m.queue("speech", quota=0), m.pod("other", gpus=8, queue="speech", at="node-1")
    found = decided(tmp_path, m.node(), m.queue(quota=8), *others, m.group(minMember=2), *pods)
    assert found[2] == set()


@pytest.mark.proportion
def test_the_class_may_come_after_its_pods_and_a_default_class_counts_for_who_names_none(tmp_path):
    others = m.queue("speech", quota=0), m.pod("other", gpus=8, queue="speech", at="node-1")
    cluster = (m.node(), m.queue(quota=8), *others, m.pod(gpus=8))
    default = m.priority_class("calm", 50, globalDefault=True, **NEVER)
    assert decided(tmp_path, *cluster, default)[2] == set()


def test_who_never_preempts_still_goes_before_those_of_lower_priority(tmp_path):
    found = decided(
        tmp_path,
        *CLASSES,
        m.node(),
        m.queue(),
        m.pod("a", gpus=8, priorityClassName="low"),
        m.pod("b", gpus=8, priorityClassName="high"),
    )
    assert found[0] == {"team/b": "node-1"}


# -- anti-affinity with pods that are leaving ------------------------------------------------------

LEAVES = {"meta": {"deletionTimestamp": "2099-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}}


@pytest.mark.parametrize("whose", [{}, OTHERS], ids=["ours", "others"])
@pytest.mark.parametrize("key", ["kubernetes.io/hostname", "zone"])
@pytest.mark.parametrize("who", ["comes", "leaves"])
def test_a_pod_keeps_away_from_one_that_is_leaving(tmp_path, whose, key, who):
    # Three nodes in two zones: the leaving pod is on the first, of the zone of the second.
    nodes = [
        m.node(f"node-{at}", labels={"kubernetes.io/hostname": f"node-{at}", "zone": zone})
        for at, zone in ((1, "a"), (2, "a"), (3, "b"))
    ]
    asks = {"affinity": m.apart_from("x", key)}
    asked = {
        one: (asks if one == who else {}) | {"labels": {"app": "x"}} for one in ("comes", "leaves")
    }
    gone = m.pod("gone", at="node-1", **asked["leaves"], **LEAVES, **whose)
    full = m.pod("full", gpus=8, at="node-3")
    bound, promised, evicted, _ = decided(
        tmp_path, *nodes, m.queue(), gone, full, m.pod("p", **asked["comes"])
    )
    if key == "zone":  # both nodes with room are in its domain
        assert (bound, set(promised), evicted) == ({}, {"team/p"}, set())
    else:
        assert bound == {"team/p": "node-2"}
