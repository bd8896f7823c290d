"""The try limit: how many classes of waiting jobs of a queue one cycle tries.

Jobs of one queue, shape, size and priority are one class; a job of several shapes or pod sets is a
class of its own. Trying a second job of a class costs next to nothing. Trying thousands of classes
is expensive: one user who creates many kinds of pods could make every cycle long. So a cycle tries
at most so many classes of a queue in vain. Classes that are placed do not count. Half of the limit
goes to the first classes in job order. The other half goes to the classes in turn, so that each is
tried at some time.

A class whose claims take long to find devices for counts as several: by the evaluations of its
selectors and by whether devices have to be searched. What is counted is the most that it can take,
not the time that it takes, so the same cycle is always the same.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kaisched.core.axis import BoolVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

TRIES: Final = 64
"""The most classes of a queue that are tried in vain in one cycle."""
CLAIM_TRIES: Final = 16
"""The most of these for which pods may be evicted: that costs several times as much."""
FACT: Final = "tries"
_FOUND: Final = "tries"
_WAITING: Final = "waiting"
_NO_JOBS: Final = np.empty(0, np.int64)


class PodClass(NamedTuple):
    """Waiting jobs that plugins and nodes answer alike."""

    order: tuple[int, float, str]
    """The place in its queue: (-priority, creation, name) of the first job."""
    jobs: RowVec
    tries: int = 1
    """As how many tries it counts."""

    @property
    def age(self) -> tuple[float, str]:
        """(creation, name) of the first job."""
        return self.order[1:]


class _Round:
    """Round robin over the classes of a queue, continued from cycle to cycle.

    Classes take turns by creation. A class created after a round began waits for the next round. So
    no stream of arrivals, however urgent, keeps others from their turn.
    """

    def __init__(self, classes: list[PodClass], turn: Mapping[str, Any]) -> None:
        """Take the classes, and where the cycle before stopped in the round."""
        ordered = sorted(classes, key=lambda it: it.age)
        ages = [it.age for it in ordered]
        self._after: tuple[Any, ...] = tuple(turn.get("after", ()))
        self._until: tuple[Any, ...] = tuple(turn.get("until", ages[-1]))
        self._youngest = ages[-1]
        start, end = bisect_right(ages, self._after), bisect_right(ages, self._until)
        start = min(start, end)
        self._line = iter([*ordered[start:end], *ordered[:start], *ordered[end:]])

    def __iter__(self) -> Iterator[PodClass]:
        """Yield each class once, and note that it has had its turn."""
        for each in self._line:
            if not self._after < each.age <= self._until:  # a new round
                self._until = self._youngest
            self._after = each.age
            yield each

    @property
    def turn(self) -> dict[str, list[Any]]:
        """Where the round stopped, to be remembered."""
        return {"after": list(self._after), "until": list(self._until)}


class _Line:
    """The classes of a queue beyond the limit, and which of them this cycle tries."""

    def __init__(self, classes: list[PodClass], most: int, turn: Mapping[str, Any]) -> None:
        """Try at most so many in vain."""
        self._most = most
        self._in_order = sorted(classes, key=lambda it: it.order)
        self.round = _Round(classes, turn)
        self._tried: dict[tuple[int, float, str], PodClass] = {}

    def choose(self, pending: IntVec) -> list[PodClass]:
        """Return more classes to try: of those before, only the ones that still wait count."""
        waiting = (it for it in self._tried.values() if pending[it.jobs].any())
        left = self._most - sum(it.tries for it in waiting)
        return [*self._some(self._in_order, left - left // 2), *self._some(self.round, left // 2)]

    def _some(self, classes: Iterable[PodClass], most: int) -> list[PodClass]:
        """Return the next classes that fit in so many tries; the last may count as more."""
        chosen: list[PodClass] = []
        if most <= 0:
            return chosen
        for it in classes:
            if it.order not in self._tried:
                chosen.append(it)
                self._tried[it.order] = it
                most -= it.tries
                if most <= 0:
                    break
        return chosen


class TryLimit:
    """Which waiting jobs are put off, of queues with more classes than are tried in a cycle."""

    def __init__(self, session: Session, classes: Mapping[int, list[PodClass]]) -> None:
        """Choose the classes that the cycle tries first."""
        past: Mapping[str, Any] = session.memory.facts.get(FACT, {})
        self._lines: dict[str, dict[str, _Line]] = {}
        for queue, some in sorted(classes.items()):
            name = session.queues.name[queue]
            known = past.get(name, {})
            self._lines[name] = {
                "claims": _Line(some, CLAIM_TRIES, known.get("claims", {})),
                "tries": _Line(some, TRIES, known.get("tries", {})),
            }
        self.off: BoolVec = np.zeros(len(session.jobs.name), np.bool_)
        """``(J,)`` jobs that are put off."""
        self.off[_jobs_of(each for some in classes.values() for each in some)] = True
        self.claims_off: BoolVec = self.off.copy()
        """``(J,)`` jobs for which nothing is evicted in this cycle."""
        pending = session.jobs.pending
        job = _jobs_of(it for line in self._lines.values() for it in line["claims"].choose(pending))
        self.off[job] = self.claims_off[job] = False  # what may claim may also be placed
        self.off[self._chosen(pending)] = False
        self._remember(session)
        session.outcome.put_off(self.off)

    def more(self, session: Session) -> RowVec:
        """Choose more classes where some were placed; return their jobs, to be tried."""
        if not session.has_moved:
            return _NO_JOBS
        job = self._chosen(session.ledger.job_pending)
        job = job[self.off[job]]
        self.off[job] = False
        session.outcome.refusal[job] = 0
        self._remember(session)
        return np.sort(job)

    def _chosen(self, pending: IntVec) -> RowVec:
        return _jobs_of(it for line in self._lines.values() for it in line["tries"].choose(pending))

    def _remember(self, session: Session) -> None:
        session.facts[FACT] = {
            queue: {name: line.round.turn for name, line in lines.items()}
            for queue, lines in self._lines.items()
        }


def _jobs_of(classes: Iterable[PodClass]) -> RowVec:
    return np.concatenate([_NO_JOBS, *(it.jobs for it in classes)])


def waiting_jobs(session: Session) -> RowVec:
    """Return the rows of jobs with pending tasks, as of now, that the snapshot does not refuse."""
    known: tuple[int, RowVec] | None = session.found.get(_WAITING)
    if known is None or known[0] != session.moves:
        rows = session.ledger.job_pending.nonzero()[0] if session.has_moved else session.waiting
        refusal = session.jobs.refusal.take(rows)
        if np.count_nonzero(refusal):
            rows = rows[refusal == 0]
        rows.setflags(write=False)
        known = session.found[_WAITING] = session.moves, rows
    return known[1]


def try_limit(session: Session) -> TryLimit | None:
    """Return the try limit of this cycle; None when all jobs are tried, the usual case."""
    if _FOUND not in session.found:
        classes = _too_many(session, waiting_jobs(session))
        session.found[_FOUND] = TryLimit(session, classes) if classes else None
    limit: TryLimit | None = session.found[_FOUND]
    return limit


def _too_many(session: Session, job: RowVec) -> dict[int, list[PodClass]]:
    """Return the classes of each queue that has more than are tried."""
    jobs, tries = session.jobs, _tries_of(session, job)
    queues = jobs.queue_of_job[job]
    is_over = np.bincount(queues, tries)[queues] > TRIES
    job, tries = job[is_over], tries[is_over]
    if not job.size:
        return {}
    is_simple = (jobs.podset_count[job] == 1) & (jobs.shape_of_job[job] >= 0)
    columns = (
        np.where(is_simple, jobs.shape_of_job[job], -1 - job),
        jobs.pending[job],
        jobs.priority[job],
    )
    code = jobs.queue_of_job[job].astype(np.int64)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        code = code * len(values) + number
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    queue = jobs.queue_of_job[job[first]]
    is_over = np.bincount(queue, tries[first])[queue] > TRIES
    found: dict[int, list[PodClass]] = {}
    if is_over.any():
        order = np.lexsort((jobs.created_s[job], which))
        members = np.split(job[order], np.flatnonzero(np.diff(which[order])) + 1)
        for at in np.flatnonzero(is_over).tolist():
            made = _pod_class(session, members[at], int(tries[first[at]]))
            found.setdefault(int(queue[at]), []).append(made)
    return found


def _tries_of(session: Session, job: RowVec) -> IntVec:
    """``(J,)`` as how many tries each job counts."""
    tries: IntVec = np.ones(len(job), np.int64)
    if (devices := session.devices) is not None:
        jobs, shape_of_task = session.jobs, session.tasks.shape_of_task
        of_shape: dict[int, int] = {}
        for at, row in enumerate(job.tolist()):
            shape = int(jobs.shape_of_job[row])
            tasks = () if shape >= 0 else jobs.tasks[row]
            shapes = {int(shape_of_task[it]) for it in tasks} or {shape}
            for each in shapes:
                if each not in of_shape:
                    of_shape[each] = devices.tries_of(each)
                tries[at] += of_shape[each]
    return tries


def _pod_class(session: Session, job: RowVec, tries: int) -> PodClass:
    """Return the class of some jobs, which are sorted by creation."""
    jobs = session.jobs
    created = jobs.created_s[job]
    tied = job[: int(np.searchsorted(created, created[0], side="right"))]
    name = min(jobs.name[row] for row in tied.tolist())
    return PodClass((-int(jobs.priority[job[0]]), float(created[0]), name), job, tries)
