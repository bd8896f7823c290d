"""The law of reasons: counted in arrays they are what the records of the jobs would say."""

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from kaisched.core.refusals import text_of
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, clusters, policies
from tests.laws.crowded import crowded, make_crowded

ALLOCATE_ONLY = replace(default_policy(), actions=default_policy().actions[:1])


def agrees(snapshot, policy):
    """Check the reasons of a cycle, and return its result."""
    result, _ = run_cycle(snapshot, None, policy, NOW_S, Memory())
    records = result.records
    told = [records.record(row) for row in records.rows.tolist()]
    names = [text_of(code).name for code in records.codes.tolist()]
    assert names == [each.reason for each in told]
    assert records.counts() == dict(sorted(Counter(names).items()))
    assert sorted(told, key=lambda each: each.pod_group) == list(records)
    assert len(records) == len(told)
    return result


@pytest.mark.fault("I129")
@given(clusters, policies)
def test_codes_say_what_the_records_say(cluster, policy):
    agrees(cluster.store().snapshot(), policy)


@pytest.mark.fault("I129")
@given(crowded)
def test_codes_say_so_after_evictions_too(cluster):
    agrees(cluster.store().snapshot(), default_policy())


@example(make_crowded(10, nodes=3, queues=3, running=4, pending=5, most=3), 10)
@example(make_crowded(76, nodes=3, queues=3, running=4, pending=5, most=3), 76)
@example(make_crowded(129, nodes=3, queues=3, running=4, pending=5, most=3), 129)
@given(crowded, st.integers(0, 1 << 16))
def test_codes_say_so_while_room_is_held_for_broken_promises(cluster, seed):
    """Gangs were promised any nodes, and one of the nodes is closed."""
    dice = random.Random(seed)
    closed = dice.choice(cluster.nodes)
    nodes = tuple(replace(it, is_unschedulable=it is closed) for it in cluster.nodes)
    jobs = tuple(dice.choice([job, with_promises(job, nodes, dice)]) for job in cluster.jobs)
    snapshot = replace(cluster, nodes=nodes, jobs=jobs).store().snapshot()
    result = agrees(snapshot, ALLOCATE_ONLY)
    assert violations(snapshot, result, ALLOCATE_ONLY, with_records=True) == []
    event("RoomHeld" if "RoomHeld" in result.records.counts() else "other reasons")


def with_promises(job, nodes, dice):
    """Return a job with a promise for each pod; one that runs as it is."""
    if any(task.node for task in job.tasks):
        return job
    promised = [replace(task, nominated=dice.choice(nodes).name) for task in job.tasks]
    return replace(job, tasks=tuple(promised))
