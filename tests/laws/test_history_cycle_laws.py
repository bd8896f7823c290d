"""Cycles that look at a usage history, in crowded clusters of all sorts."""

import random
from dataclasses import replace

from hypothesis import example, given, note
from hypothesis import strategies as st

from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import policy_of, usage_of
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import carried_out, crowded, make_crowded, moves_of

HISTORY = {"clientType": "memory", "usageParams": {"halfLifePeriod": "1d", "windowSize": "1w"}}


def policy_with(**arguments):
    plugins = {"time-based-fairshare": {"arguments": arguments}}
    return policy_of({"kValue": 1, "usageDBConfig": HISTORY, "plugins": plugins})


POLICIES = {
    "weights": policy_with(),
    "as KAI": policy_with(normalization="cluster", countInQuota="true"),
    "spells": policy_with(handOver="spells"),
}


def used_by(cluster, seed):
    """Return what the leaf queues have used lately, as parts of the cluster; some nothing."""
    dice = random.Random(seed)
    above = {queue.parent for queue in cluster.queues}
    leaves = [queue.name for queue in cluster.queues if queue.name not in above]
    return {name: dice.choice([0.0, 0.1, 0.3, 0.6]) * dice.random() for name in leaves}


# The head starts of several lumps of one queue, or of one above its limit, were more than it wants.
@example(
    make_crowded(3297972347, nodes=6, queues=2, running=4, pending=2, most=5), 833651729, "spells"
)
@example(
    make_crowded(2549289568, nodes=4, queues=6, running=4, pending=5, most=1), 548882109, "spells"
)
@example(
    make_crowded(3055554167, nodes=2, queues=6, running=8, pending=10, most=1), 813915443, "spells"
)
@given(crowded, st.integers(0, 1 << 30), st.sampled_from(sorted(POLICIES)))
def test_a_history_abandons_no_cycle_and_hints_change_nothing(cluster, seed, kind):
    note(told(cluster))
    memory, used = Memory(), used_by(cluster, seed)
    for _ in range(3):
        snapshot = cluster.store().snapshot()
        given = snapshot, usage_of(snapshot, used), POLICIES[kind], NOW_S
        result, after = run_cycle(*given, memory)
        note("\n".join(moves_of(result)) or "nothing")
        assert not result.failures
        assert run_cycle(*given, memory.without_hints())[0].encode() == result.encode()
        cluster, memory = carried_out(cluster, result), after


def test_what_a_lump_was_given_is_not_taken_bit_by_bit_by_others_of_its_queue():
    """They took what was due to a job of four GPUs, one by one, until it could not have it.

    Then others took it back, and so on in every cycle. Time and history stand still here.
    """
    cluster = make_crowded(3923076575, nodes=4, queues=8, running=16, pending=2, most=5)
    memory, used, told_of = Memory(), used_by(cluster, 299984827), []
    for _ in range(24):
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(
            snapshot, usage_of(snapshot, used), POLICIES["spells"], NOW_S, memory
        )
        told_of.append(moves_of(result))
        bound = {bind.pod_group.removeprefix("default/") for bind in result.binds}
        cluster = carried_out(cluster, result)
        jobs = (replace(job, started_s=NOW_S) if job.name in bound else job for job in cluster.jobs)
        cluster = replace(cluster, jobs=tuple(jobs))
    assert any(told_of[0])
    assert not any(told_of[12:])
