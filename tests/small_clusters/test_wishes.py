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
        {it.pod_group.split("-")[1]: it.reason for it in cycles[-1].records},
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
