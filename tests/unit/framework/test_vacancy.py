"""Where pods fit at one moment: each vacancy is chosen from by its own room."""

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.framework.session.filling import Vacancy
from kaisched.testing.builder import Job, Task
from tests.unit.framework.fakes import job, plugin, session, store

SHAPE, RUNS = 0, 4


def by_row(session, shape, rows, extra):
    """The higher the row, the better."""
    return rows / 10 + 0.0 * extra


def opened():
    """The node that scores best is full; a pod runs there that can be let go."""
    task = Task("r-0", {"gpu": 2000}, state=TaskState.RUNNING, node="n2")
    made = store(job("a", pods=4, gpu=2), Job("r", "q", (task,)), nodes=(4, 4, 2))
    return session(made.snapshot(), plugin(node_score=by_row))


def test_a_vacancy_of_other_room_does_not_change_what_is_chosen_from_the_first():
    at = opened()
    placement = at.placement
    assert placement.choose(placement.vacancy(SHAPE), 2).tolist() == [1, 1]
    at.statement().evict(RUNS)
    assert placement.choose(placement.future_vacancy(SHAPE), 2).tolist() == [2, 1]
    assert placement.choose(placement.vacancy(SHAPE), 2).tolist() == [1, 1]


def test_room_that_somebody_has_cut_is_what_counts():
    at = opened()
    placement = at.placement
    now = placement.vacancy(SHAPE)
    assert placement.choose(now, 1).tolist() == [1]
    cut = Vacancy(now.plan, now.room * np.array([1, 0, 0]), 2, None)
    assert placement.choose(cut, 2).tolist() == [0, 0]
    assert placement.choose(placement.vacancy(SHAPE), 1).tolist() == [1]


def test_a_mask_that_is_kept_hears_of_moves_that_only_scores_have_taken_in():
    at = opened()
    placement = at.placement
    assert placement.choose(placement.vacancy(SHAPE), 3).tolist() == [1, 1, 0]
    statement = at.statement()
    statement.allocate(0, 1)
    assert placement.best_future(SHAPE) == (1, True)
    statement.allocate(1, 1)
    assert placement.choose(placement.vacancy(SHAPE), 2).tolist() == [0, 0]
    statement.rollback()
    assert placement.choose(placement.vacancy(SHAPE), 3).tolist() == [1, 1, 0]
