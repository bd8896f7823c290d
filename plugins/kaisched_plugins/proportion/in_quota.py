"""How much of a queue's running work its quota covers: rule R32 of docs/explanation/fairness.md."""

from __future__ import annotations

import numpy as np

from kaisched import ACTIVE_STATES, PODS, UNLIMITED, RowVec, Session
from kaisched_plugins.proportion.rules import Row

_COVERED = "proportion.covered"


def in_quota(session: Session, queue: int, deserved: Row) -> Row:
    """Return what a queue's quota covers: what its running jobs hold, as far as it fits.

    The most important come first. Of a job with one kind of pod as many pods count as the quota has
    room for, if that is its minimum; any other counts as a whole. What does not fit is left out,
    and smaller jobs after it may. As of the beginning of the cycle, so that it is found out once,
    whatever is taken. ``deserved`` and the answer are ``(R,)``.
    """
    known: dict[int, Row] = session.found.setdefault(_COVERED, {})
    covered = known.get(queue)
    if covered is None:
        covered = known[queue] = _covered(session, queue, deserved)
    return covered


def _covered(session: Session, queue: int, deserved: Row) -> Row:
    jobs = session.jobs
    end = int(session.queues.tree.end_of_queue[queue])
    is_below = (jobs.queue_of_job >= queue) & (jobs.queue_of_job < end)
    left = list(deserved)
    left[PODS] = UNLIMITED
    covered = [0] * len(left)
    for job in _most_important_first(session, (is_below & (jobs.active > 0)).nonzero()[0]):
        unit, least, most = _divided(session, job)
        asked = [at for at, amount in enumerate(unit) if amount and left[at] != UNLIMITED]
        count = min([most, *(left[at] // unit[at] for at in asked)])
        if count >= least:
            for at in asked:
                left[at] -= count * unit[at]
            covered = [has + count * amount for has, amount in zip(covered, unit, strict=True)]
    return covered


def _most_important_first(session: Session, job: RowVec) -> list[int]:
    keys = session.ask.job_order(session, job)
    order = np.lexsort((session.jobs.created_s[job], *reversed(keys)))
    rows: list[int] = job[order].tolist()
    return rows


def _divided(session: Session, job: int) -> tuple[Row, int, int]:
    """Return what a part of a running job holds, how many parts it needs, and how many it has."""
    jobs, request = session.jobs, session.shapes.request
    shape, active = int(jobs.shape_of_job[job]), int(jobs.active[job])
    if shape >= 0 and jobs.podset_count[job] == 1:
        minimum = int(session.podsets.minimum[jobs.first_podset[job]])
        return request[:, shape].tolist(), min(minimum, active), active
    tasks = np.array(jobs.tasks[job], np.int64)
    shapes = session.tasks.shape_of_task[tasks[ACTIVE_STATES[session.tasks.state[tasks]]]]
    return request[:, shapes].sum(axis=1).tolist(), 1, 1
