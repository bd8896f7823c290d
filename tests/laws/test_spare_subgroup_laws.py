"""Laws of jobs that need some of their subgroups: what goes leaves nothing useless behind."""

import random

import numpy as np
from hypothesis import event, example, given, note
from hypothesis import strategies as st

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.sums import is_job_met
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.session.units import Going, going_along, units_of
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import carried_out, kinds_of, moves_of
from tests.laws.spare_subgroups import make_spare
from tests.unit.framework.fakes import session

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
