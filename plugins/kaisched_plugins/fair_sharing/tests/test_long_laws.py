"""Laws of fair-sharing over many cycles, and of what queues lose to each other in one."""

import random
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched_plugins.fair_sharing.quotas import Holdings
from kaisched_plugins.fair_sharing.tables import table_in
from kaisched_plugins.fair_sharing.tests.busy import split, used
from kaisched_plugins.fair_sharing.tests.rings import POLICY, some_contended
from kaisched_plugins.fair_sharing.work import ANY, LOWER, NEVER, meeting

seeds = st.integers(0, 2**32)
SHORT = 20
"""Cycles."""


@given(st.integers(0, 10_000))
@settings(max_examples=1, deadline=None)
def test_about_as_much_is_used_as_by_first_come_first_served(seed):
    """Three points less at most over 1,000 cycles, at which the module ``busy`` looks."""
    plain = used(seed, SHORT, is_one_queue=True)
    assert used(seed, SHORT, is_one_queue=False) >= plain - 0.1


@given(st.integers(0, 10_000), st.sampled_from([2, 4, 8]))
@settings(max_examples=1, deadline=None)
def test_splitting_its_work_gives_a_queue_no_more_than_by_one_workload(seed, size):
    """Over 100 cycles in the module ``busy``."""
    assert abs(split(seed, size, SHORT) - split(seed, 1, SHORT)) <= size


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_a_queue_within_its_quota_loses_nothing_to_another(seed):
    """Nor does a queue above it, below the meeting point."""
    snapshot = some_contended(seed).store().snapshot()
    result, _ = run_cycle(snapshot, None, POLICY, 1e6, Memory())
    table = table_in(snapshot)
    jobs, tasks = snapshot.jobs, snapshot.tasks
    holdings = Holdings(table.quotas, snapshot.allocated[table.rows])

    def asks(some):
        rows = tasks.job_of_task[some]
        amounts = snapshot.shapes.request[:, tasks.shape_of_task[some]]
        queues = jobs.queue_of_job[rows].tolist()
        return [(queue, table.ask(amounts[:, at])) for at, queue in enumerate(queues)]

    placed = 0, 0
    for step in result.steps:
        for queue, ask in (
            *asks(result.bind_tasks[placed[0] : step.binds[0]]),
            *asks(result.nominate_tasks[placed[1] : step.nominations[0]]),
        ):
            holdings.add(queue, ask)
        placed = step.binds[0], step.nominations[0]
        claim = asks(result.nominate_tasks[slice(*step.nominations)])
        claim += asks(result.bind_tasks[slice(*step.binds)])
        victims = asks(result.evict_tasks[slice(*step.evictions)])
        taker = claim[0][0]
        for queue, ask in victims:
            if queue == taker:
                continue
            _, top = meeting(holdings, taker, queue)
            path = holdings.rows.path(queue)
            for node in path[: path.index(top) + 1]:
                assert holdings.is_over(node, [at for at, _ in ask])
        for queue, ask in victims:
            holdings.take(queue, ask)


def unequal(seed, raised):
    """Return a cluster in which all queues borrow what they hold, and no two shares are equal.

    The priorities of one queue are all raised by so much.
    """
    rng = random.Random(seed)
    count, whole = rng.randint(3, 6), rng.randint(4, 16)
    made = ClusterBuilder().node("n0", gpu=whole).queue("q0", deserved=whole)
    for row in range(1, count):
        sharing = Sharing(
            weight=Fraction(1000 + 7 * row, 1000),
            within=rng.choice((LOWER, NEVER)),
            across=rng.choice((ANY, ANY, NEVER)),
        )
        made.queue(f"q{row}", parent="q0", sharing=sharing)
    chosen, idle = rng.randrange(1, count), whole
    for at in range(rng.randint(2, 12)):
        queue, gpus, priority = rng.randrange(1, count), rng.randint(1, 4), rng.randint(40, 42)
        runs = gpus <= idle and rng.random() < 0.6
        idle -= gpus if runs else 0
        made.job(
            f"w{at}",
            queue=f"q{queue}",
            gpu=gpus,
            running={"n0": 1} if runs else None,
            priority=priority + (raised if queue == chosen else 0),
        )
    return made.store().snapshot()


def decided(snapshot):
    """Return the jobs that are evicted, and those that start now or once there is room."""
    result, _ = run_cycle(snapshot, None, POLICY, 1e6, Memory())
    jobs = snapshot.tasks.job_of_task
    starting = [*result.bind_tasks, *result.nominate_tasks]
    return sorted(jobs[result.evict_tasks].tolist()), sorted(jobs[starting].tolist())


@given(seeds, st.sampled_from([-30, 30]))
@settings(max_examples=20, deadline=None)
def test_priorities_decide_between_workloads_of_one_queue_only(seed, raised):
    """But for queues whose shares are equal, which is avoided here."""
    assert decided(unequal(seed, 0)) == decided(unequal(seed, raised))
