"""A cluster left alone comes to rest: what one cycle decides, no later one takes back for ever.

Time stands still and there is no history of usage, so nothing that happens comes from outside.
"""

import pytest
from hypothesis import event, given, note

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, told
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


@pytest.mark.xfail(strict=True, reason="preempt gives a queue room that reclaim takes back")
def test_a_job_of_higher_priority_does_not_undo_a_reclaim_for_ever():
    """One of about 10,000 random clusters.

    A queue reclaims CPU for one job; preempt gives the CPU to another of its jobs, which also takes
    idle GPUs that belong to a queue of higher priority; they are taken back, and it begins again.
    """
    cluster = make_crowded(291, nodes=1, queues=3, running=2, pending=5, most=1)
    assert not any(history_of(cluster, CYCLES + AFTER)[CYCLES:])
