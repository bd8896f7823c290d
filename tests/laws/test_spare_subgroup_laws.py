"""Laws of jobs that need some of their subgroups: what goes leaves nothing useless behind.

Small full clusters of such jobs, and gangs that claim room.
"""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count as counting

import numpy as np
from hypothesis import event, example, given, note
from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.sums import is_job_met
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.session.units import Going, going_along, units_of
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import NOW_S, Cluster, told
from tests.laws.crowded import carried_out, kinds_of, moves_of
from tests.unit.framework.fakes import session

UNIT = 1000


def make_tree(dice: random.Random) -> Group:
    """Return a tree of one or two levels in which most groups need one of their children."""
    numbers = counting(1)

    def grown(depth: int) -> Group:
        name = f"{dice.choice('abcd')}{next(numbers)}"
        if not depth or (depth == 1 and dice.random() < 0.4):
            return Group(name, dice.choice([0, 1, 1, 2, 3]))
        children = tuple(grown(depth - 1) for _ in range(dice.randint(2, 3)))
        return Group(name, dice.choice([None, 1, 1, 1]), children)

    return grown(2)


def make_spare(seed: int) -> Cluster:
    """Make a cluster in which such jobs run, mostly of a queue that deserves little."""
    dice = random.Random(seed)
    gpus = [dice.choice([2, 3, 4, 4, 6, 8]) for _ in range(dice.choice([1, 2, 2, 3, 4]))]
    free = {f"n{at}": UNIT * number for at, number in enumerate(gpus)}
    nodes = tuple(
        NodeRow(name, {"cpu": 64 * UNIT, "gpu": free[name], "pods": 110}) for name in free
    )
    queues = tuple(
        QueueRow(name, quota={"gpu": UNIT * dice.choice(some)}, weight={"gpu": 1.0})
        for name, some in (("v", [0, 0, 1]), ("a", [0, 1, 2, 4]), ("b", [1, 2, 4, 8]))
    )
    sizes = dice.choice([[1], [1], [1, 1, 2], [1, 2, 4]])

    def task(name: str, podset: str = "default", *, runs: bool = False) -> Task:
        size = UNIT * dice.choice(sizes)
        made = Task(name, {"cpu": UNIT, "gpu": size}, podset=podset)
        open_nodes = [node for node, left in free.items() if left >= size]
        if not runs or not open_nodes or dice.random() > 0.93:
            return made
        node = dice.choice(open_nodes)
        free[node] -= size
        return replace(made, state=TaskState.RUNNING, node=node)

    def job(name: str, queue: str, root: Group, tasks: list[Task], priority: int) -> Job:
        made = Job(name, queue, tuple(tasks), root=root, priority=priority)
        return replace(made, created_s=float(dice.randrange(4)), started_s=0.0)

    jobs = []
    for number in range(dice.randint(1, 4)):
        root = make_tree(dice)
        names = [leaf.name for leaf in root.leaves()]
        pods = range(dice.randint(2, 9))
        tasks = [task(f"j{number}-{at}", dice.choice(names), runs=True) for at in pods]
        jobs.append(job(f"j{number}", dice.choice("vvva"), root, tasks, dice.choice([50, 50, 75])))
    for number in range(dice.randint(1, 3)):
        pods = range(dice.randint(1, 5))
        root = Group("default", dice.choice([1, len(pods), len(pods)]))
        tasks = [task(f"c{number}-{at}") for at in pods]
        jobs.append(job(f"c{number}", dice.choice("aabbv"), root, tasks, dice.choice([50, 75, 80])))
    return Cluster(nodes, queues, tuple(jobs))


POLICY = default_policy()
seeds = st.integers(0, 1 << 32)


# A pod beyond the minimum of a spare subgroup stayed.
@example(29)
# A spare subgroup went for another that the cycle had just completed.
@example(898)
@given(seeds)
def test_the_invariants_hold(seed):
    cluster, memory = make_spare(seed), Memory()
    note(told(cluster))
    for _ in range(3):
        snapshot = cluster.store().snapshot()
        result, memory = run_cycle(snapshot, None, POLICY, NOW_S, memory)
        note("\n".join(moves_of(result)) or "nothing")
        for action in kinds_of(result):
            event(action)
        assert not result.failures
        assert violations(snapshot, result, POLICY, with_records=True) == []
        cluster = carried_out(cluster, result)


@given(seeds)
def test_whatever_units_go_with_all_that_goes_along_a_job_keeps_what_it_needs_or_nothing(seed):
    """Also pod set by pod set: one that had its minimum keeps it, or loses all its pods."""
    opened = session(make_spare(seed).store().snapshot())
    podsets, podset_of_task = opened.podsets, opened.tasks.podset_of_task
    dice = random.Random(seed)
    for job in np.flatnonzero(opened.jobs.active > 0).tolist():
        units = units_of(opened, job)
        chosen = [unit for unit in units if dice.random() < 0.3]
        going = Going(chosen)
        gone = [task for it in units if it in chosen or going.takes(it) for task in it.tasks]
        lost = np.bincount(podset_of_task[gone], minlength=len(podsets.name))
        kept = podsets.active - lost
        was_whole = podsets.active >= podsets.minimum
        assert ((lost == 0) | (kept == 0) | (kept >= podsets.minimum) | ~was_whole).all()
        stays = len(gone) < sum(len(unit.tasks) for unit in units)
        if stays and is_job_met(opened.snapshot, job, podsets.active):
            assert is_job_met(opened.snapshot, job, kept)


@given(seeds)
def test_what_goes_along_is_the_same_by_unit_and_by_place(seed):
    opened = session(make_spare(seed).store().snapshot())
    for job in np.flatnonzero(opened.jobs.active > 0).tolist():
        units = units_of(opened, job)
        along = going_along(dict(enumerate(units)))
        for place, unit in enumerate(units):
            going = Going([unit])
            taken = [at for at, other in enumerate(units) if at != place and going.takes(other)]
            assert along.get(place, []) == taken
