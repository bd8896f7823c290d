"""Who reads why a pod went finds the queue that held too much, be it above the pod's own."""

import pytest

from kaisched.testing import ClusterBuilder

pytestmark = pytest.mark.proportion


def reason(cluster):
    """Return why the first of some equal evictions was decided."""
    return cluster.run("reclaim").result.evictions[0].reason


def promised(queue, deserved):
    """Make a department with a project that was promised more than the department has."""
    cluster = ClusterBuilder().node("n0", gpu=4).queue("d", deserved=deserved).queue("e", weight=2)
    cluster.queue("p", parent="d", deserved=4).queue("q", parent="d", deserved=4)
    cluster.queue("r", parent="e")
    for at in range(4):
        cluster.job(f"p{at}", queue="p", running={"n0": 1})
    return cluster.job("x0", queue=queue)


def test_a_department_that_holds_too_much_is_named():
    assert reason(promised("r", deserved=0)) == (
        "reclaimed for default/x0 (queue r: gpu 0 to 1, fair share 1, quota 0) from"
        " queue p: gpu 4 to 3, fair share 4, quota 4"
        " (in queue d: gpu 4 to 3, fair share 3, quota 0)"
    )


def test_a_department_that_was_promised_too_much_is_named():
    assert reason(promised("q", deserved=4)) == (
        "reclaimed for default/x0 (queue q: gpu 0 to 1, fair share 1, quota 4) from"
        " queue p: gpu 4 to 3, fair share 4, quota 4, which count as 3 and 3"
        " (in queue d: gpu 4 to 4, fair share 4, quota 4)"
    )


def test_a_queue_that_holds_too_much_itself_is_enough():
    cluster = ClusterBuilder().node("n0", gpu=2).queue("d").queue("a", parent="d", weight=0)
    cluster.queue("b", parent="d", deserved=1)
    for at in range(2):
        cluster.job(f"a{at}", queue="a", running={"n0": 1})
    assert reason(cluster.job("b0", queue="b")).endswith(
        " from queue a: gpu 2 to 1, fair share 0, quota 0"
    )
