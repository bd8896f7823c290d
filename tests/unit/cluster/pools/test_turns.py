"""Turns through node pools: which jobs may be passed on, and which could start here after all."""

import pytest

from kaisched.cluster.pools.handover import is_hopeless
from kaisched.core.refusals import FIRST_OF_PLUGINS, Refusal
from tests.contract.clusters import pod
from tests.unit.cluster.pools.test_lists import two
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in

NO_ROOM, BY_POLICY = int(Refusal.NO_ROOM), FIRST_OF_PLUGINS


def blocked(second=1):
    """A world in which the first pool is full."""
    world = two(first=1, second=second)
    world.load(pod("block", "a", 1, labels={POOL: "h100"}, uid="block"))
    world.cycle()
    return world


def hopeless(gpus, code, quota, *, is_preemptible=False, total=8):
    world = World("h100")
    labels = {
        "kai.scheduler/preemptibility": "preemptible" if is_preemptible else "non-preemptible"
    }
    world.load(node_in("h100", "h0", total), queue_in("h100", "above", -1))
    world.load(queue_in("h100", "a", quota, parent="above"))
    world.load(pod("x", "a", gpus, labels={POOL: "h100", **labels}, uid="x"))
    snapshot = world.cluster.snapshot_of(world.ports["h100"].store)
    return is_hopeless(snapshot, 0, code)


@pytest.mark.parametrize(
    ("gpus", "code", "quota", "is_preemptible", "answer"),
    [
        (5, BY_POLICY, 4, False, True),
        (4, BY_POLICY, 4, False, False),
        (5, BY_POLICY, -1, False, False),
        (5, BY_POLICY, 4, True, False),
        (5, NO_ROOM, 4, False, False),
        (9, NO_ROOM, -1, True, True),
        (8, NO_ROOM, -1, True, False),
    ],
)
def test_what_no_end_of_other_work_could_cure_is_hopeless(
    gpus, code, quota, is_preemptible, answer
):
    assert hopeless(gpus, code, quota, is_preemptible=is_preemptible) is answer


def test_a_job_that_comes_again_under_its_name_has_a_first_stay_again():
    world = blocked()
    world.load(pod("there", "a-there", 1, labels={POOL: "a100"}, uid="there"))
    world.cycle()
    world.load(listed("x", "h100,a100"))
    world.run_to(25)
    assert [at for at, _, _ in world.moves] == [10, 20]
    world.delete(world.cluster.pod("ns/x"))
    world.cycle()
    world.load(listed("x", "h100,a100", uid="again"))
    world.run_to(36)
    assert [at for at, _, _ in world.moves] == [10, 20, 35]
