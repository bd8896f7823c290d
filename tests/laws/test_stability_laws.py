"""A cluster left alone comes to rest: what one cycle decides, no later one takes back for ever.

Time stands still and there is no history of usage, so nothing that happens comes from outside.
"""

import pytest
from hypothesis import event, given, note

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import NOW_S, Cluster, told
from tests.laws.crowded import carried_out, crowded, make_crowded, moves_of

POLICY = default_policy()
CYCLES = 12
AFTER = 5


def history_of(cluster, count, policy=POLICY):
    """Return what each cycle decides, every one carried out before the next."""
    memory, told_of = Memory(), []
    for _ in range(count):
        result, memory = run_cycle(cluster.store().snapshot(), None, policy, NOW_S, memory)
        told_of.append(moves_of(result))
        cluster = carried_out(cluster, result)
    return told_of


@pytest.mark.proportion
@pytest.mark.fault("F94")
@pytest.mark.fault("F100")
@given(crowded)
def test_a_cluster_left_alone_comes_to_rest(cluster):
    note(told(cluster))
    history = history_of(cluster, CYCLES + AFTER)
    for at, moves in enumerate(history):
        note(f"cycle {at}: " + ("; ".join(moves) or "nothing"))
    at_rest = next((at for at in range(len(history)) if not any(history[at:])), CYCLES)
    event(f"at rest after {at_rest} cycles")
    assert not any(history[CYCLES:])


@pytest.mark.proportion
def test_a_job_of_higher_priority_does_not_undo_a_reclaim_for_ever():
    """One of about 10,000 random clusters.

    A queue reclaims CPU for one job; were the CPU then given to a more important job of it, along
    with idle GPUs that are due to another queue, these would be taken back, and so on for ever.
    """
    cluster = make_crowded(291, nodes=1, queues=3, running=2, pending=5, most=1)
    assert not any(history_of(cluster, CYCLES + AFTER)[CYCLES:])


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("seed", "nodes", "queues", "running", "pending", "most"),
    [
        pytest.param(
            57361636, 4, 4, 4, 5, 5, id="beyond its share of CPU, below its quota of GPUs"
        ),
        pytest.param(2870119547, 2, 6, 4, 2, 3, id="its two small jobs make way for its large one"),
        pytest.param(3593148643, 4, 6, 6, 5, 5, id="what is left over is on a node without CPU"),
        pytest.param(3467422009, 2, 3, 4, 5, 3, id="quotas of more GPUs than there are"),
        pytest.param(3924668369, 1, 6, 6, 3, 3, id="only the quota below the comparison covers it"),
        pytest.param(602695512, 4, 6, 2, 5, 3, id="a job of unlike pods is larger than its quota"),
    ],
)
def test_two_queues_do_not_take_turns_over_what_a_quota_covers(
    seed, nodes, queues, running, pending, most
):
    """Found by random search, before R32."""
    cluster = make_crowded(seed, nodes, queues, running, pending, most)
    assert not any(history_of(cluster, CYCLES + AFTER)[CYCLES:])


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("seed", "nodes", "queues", "running", "pending", "most"),
    [
        (1567440948, 1, 4, 12, 1, 1),
        (529398641, 2, 2, 8, 2, 5),
        (3206841980, 1, 6, 6, 3, 1),
    ],
)
def test_a_ring_of_rules_is_gone_round_only_once(seed, nodes, queues, running, pending, most):
    """Two of 87,436 random clusters before R33, and one before that.

    A gang larger than its quota takes by its priority the place of what the quota covers, loses it
    to another queue by the fair share, which loses it to the quota.
    """
    cluster = make_crowded(seed, nodes, queues, running, pending, most)
    assert not any(history_of(cluster, CYCLES + AFTER)[CYCLES:])


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("seed", "nodes", "queues", "running"), [(4214653044, 3, 2, 12), (2123183224, 3, 4, 8)]
)
def test_who_has_too_many_gpus_that_cannot_be_taken_does_not_lose_cpu_and_take_it_back(
    seed, nodes, queues, running
):
    """Two of 72,771 random clusters, before R20 asked what a unit holds.

    In the second a job takes from its own queue by priority what another queue takes back, four
    times: each time the other has one pod more, so that it ends.
    """
    cluster = make_crowded(seed, nodes, queues, running, pending=2, most=5)
    assert not any(history_of(cluster, 2 * CYCLES + AFTER)[2 * CYCLES :])


def test_no_pod_is_moved_for_another_of_its_own_job():
    """It would come back to its place, since the job needs it more than the other."""

    def pod(name, podset, cpu, gpu, node=""):
        state = TaskState.RUNNING if node else TaskState.PENDING
        request = {"cpu": 1000 * cpu, "gpu": 1000 * gpu}
        return Task(name, request, podset=podset, state=state, node=node)

    cluster = Cluster(
        nodes=(
            NodeRow("n0", {"cpu": 5000, "gpu": 3000, "pods": 110}),
            NodeRow("n1", {"cpu": 9000, "gpu": 1000, "pods": 110}),
        ),
        queues=(QueueRow("a", quota={"gpu": 4000}),),
        jobs=(
            Job(
                "other",
                "a",
                (Task("other-0", pod("", "", 1, 1).request, state=TaskState.RUNNING, node="n1"),),
                started_s=0.0,
            ),
            Job(
                "j",
                "a",
                (
                    pod("j-0", "x", 1, 1, "n0"),
                    pod("j-1", "y", 1, 1, "n0"),
                    pod("j-2", "x", 3, 0, "n0"),
                    pod("j-3", "y", 1, 1),
                ),
                root=Group("root", None, (Group("x", 1), Group("y", 1))),
                started_s=0.0,
            ),
        ),
    )
    assert not any(history_of(cluster, 3))
