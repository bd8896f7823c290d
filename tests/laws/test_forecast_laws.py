"""Laws of forecasts: the state that goes on in virtual time is one that a store could show."""

from itertools import pairwise

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from kaisched.engine.policy import default_policy
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.sim.forecast.course import Course, NewJob, World, with_jobs
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import crowded, make_crowded
from tests.laws.shared_cards import make_shared

POLICY = default_policy()
STEPS = 8


def course(snapshot, seen):
    """Return a course in which short and long runs alternate and a gang comes twice."""
    leaf = int(snapshot.queues.tree.is_leaf.argmax())
    new = [
        NewJob(NOW_S + at_s, leaf, 0, pods=2, minimum=2, priority=50, is_preemptible=True)
        for at_s in (40.0, 90.0)
    ]
    longer, rows = with_jobs(snapshot, new if len(snapshot.shapes.constraints) else [])

    def watch(now, result):
        found = violations(now, result, POLICY)
        assert found == [], found
        seen.append((now, result))

    return Course(
        World(longer, None, POLICY, Memory(), NOW_S),
        lambda tasks, ages_s: ages_s + 30.0 + 70.0 * (tasks % 3),
        [(job.at_s, row) for job, row in zip(new, rows, strict=False)],
        watch,
    )


def test_the_clusters_bind_evict_and_end():
    """Else the law below would hold of nothing."""
    moves = np.zeros(3, np.int64)
    for seed in range(6):
        seen = []
        course(make_crowded(seed).store().snapshot(), seen).run((), STEPS, 1e6)
        moves += [
            sum(len(result.bind_tasks) for _, result in seen),
            sum(len(result.evict_tasks) for _, result in seen),
            sum(
                now.jobs.active.sum() < before.jobs.active.sum()
                for (before, _), (now, _) in pairwise(seen)
            ),
        ]
    assert (moves > 1).all()


@settings(max_examples=8)
@given(crowded)
def test_every_state_keeps_its_sums_and_every_cycle_its_invariants(cluster):
    note(told(cluster))
    course(cluster.store().snapshot(), []).run((), STEPS, 1e6)


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_cards_that_pods_share_are_the_sum_of_their_pods(seed):
    course(make_shared(seed).snapshot(), []).run((), STEPS, 1e6)
