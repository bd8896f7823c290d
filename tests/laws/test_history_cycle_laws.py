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
from tests.laws.test_stability_laws import AFTER, CYCLES

HISTORY = {"clientType": "memory", "usageParams": {"halfLifePeriod": "1d", "windowSize": "1w"}}


def policy_with(**arguments):
    plugins = {"time-based-fairshare": {"arguments": arguments}}
    return policy_of({"kValue": 1, "usageDBConfig": HISTORY, "plugins": plugins})


POLICIES = {
    "weights": policy_with(),
    "as KAI": policy_with(normalization="cluster", countInQuota="true"),
    "timeSlices": policy_with(handOver="timeSlices"),
}


def used_by(cluster, seed):
    """Return what the leaf queues have used lately, as parts of the cluster; some nothing."""
    dice = random.Random(seed)
    above = {queue.parent for queue in cluster.queues}
    leaves = [queue.name for queue in cluster.queues if queue.name not in above]
    return {name: dice.choice([0.0, 0.1, 0.3, 0.6]) * dice.random() for name in leaves}


# The head starts of several indivisible jobs of one queue, or of one above its limit, were more
# than it wants.
@example(
    make_crowded(3297972347, nodes=6, queues=2, running=4, pending=2, most=5),
    833651729,
    "timeSlices",
)
@example(
    make_crowded(2549289568, nodes=4, queues=6, running=4, pending=5, most=1),
    548882109,
    "timeSlices",
)
@example(
    make_crowded(3055554167, nodes=2, queues=6, running=8, pending=10, most=1),
    813915443,
    "timeSlices",
)
# A job that lost its core to one claim went on to claim for its elastic pods.
@example(
    make_crowded(2118811898, nodes=2, queues=8, running=16, pending=2, most=8),
    1029521222,
    "timeSlices",
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


# Of indivisible jobs that started together, which went on was settled by who came first.
@example(make_crowded(52705378, nodes=1, queues=4, running=8, pending=2, most=1), 0, "timeSlices")
@given(crowded, st.integers(0, 1 << 30), st.sampled_from(sorted(POLICIES)))
def test_with_a_history_the_order_of_loading_does_not_matter(cluster, seed, kind):
    note(told(cluster))
    memory, used, dice = Memory(), used_by(cluster, seed), random.Random(seed)
    for _ in range(3):
        result, after = decided(cluster.store(), used, kind, memory)
        note("\n".join(moves_of(result)) or "nothing")
        shuffled, _ = decided(cluster.store(dice), used, kind, memory.without_hints())
        assert shuffled.encode() == result.encode()
        cluster, memory = carried_out(cluster, result), after


def decided(store, used, kind, memory):
    """Run one cycle over what a store holds."""
    snapshot = store.snapshot()
    return run_cycle(snapshot, usage_of(snapshot, used), POLICIES[kind], NOW_S, memory)


def history_of(cluster, seed, count):
    """Return what each cycle decides with time slices; the clock and the usage stand still."""
    memory, used, told_of = Memory(), used_by(cluster, seed), []
    for _ in range(count):
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(
            snapshot, usage_of(snapshot, used), POLICIES["timeSlices"], NOW_S, memory
        )
        told_of.append(moves_of(result))
        bound = {bind.pod_group.removeprefix("default/") for bind in result.binds}
        cluster = carried_out(cluster, result)
        jobs = (replace(job, started_s=NOW_S) if job.name in bound else job for job in cluster.jobs)
        cluster = replace(cluster, jobs=tuple(jobs))
    return told_of


# Others of a queue took what was due to a job of four GPUs, one by one, and had to give it back.
@example(make_crowded(3923076575, nodes=4, queues=8, running=16, pending=2, most=5), 299984827)
# A job was an indivisible job for what its queue held besides, and none any more when it ran.
@example(make_crowded(3201176303, nodes=2, queues=6, running=8, pending=2, most=3), 560257584)
@given(crowded, st.integers(0, 1 << 30))
def test_time_slices_come_to_rest_while_nothing_is_used(cluster, seed):
    note(told(cluster))
    history = history_of(cluster, seed, CYCLES + AFTER)
    for at, moves in enumerate(history):
        note(f"cycle {at}: " + ("; ".join(moves) or "nothing"))
    assert not any(history[CYCLES:])
