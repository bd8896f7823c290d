"""Computes how much of the running work quotas cover: rule R32 of docs/explanation/fairness.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kaisched import PODS, UNLIMITED, Amounts, Session, charges, ordered_jobs, units_of, worth
from kaisched_plugins.proportion.reclaim import Bounds
from kaisched_plugins.proportion.rules import Row

_COVERED = "proportion.covered"

Covered: TypeAlias = dict[int, Row]
"""What is covered, by queue."""


@dataclass(slots=True)
class _Piece:
    """Equal parts of a running job."""

    amounts: Row
    """What one part holds."""
    least: int
    """How many parts must be covered together, or none."""
    count: int


@dataclass(slots=True)
class _Running:
    """A running job: first the pods that it needs to run, then its elastic pods."""

    path: list[int]
    """The queues from the job's leaf queue up."""
    pieces: list[_Piece]


def in_quota(session: Session, bounds: Bounds, top: int) -> Covered:
    """Return what quotas cover of the running jobs below a queue, at each queue below it.

    A part of a job is covered at a queue if it is covered at all queues from there to ``top``: it
    fits into their quotas along with the parts covered already. First come the parts that fit at
    all queues of their path, then those that fit at all queues but the leaf, and so on. Between
    these, the most important come first. The answer is as of the beginning of the cycle, so that it
    is computed once.
    """
    known: dict[int, Covered] = session.found.setdefault(_COVERED, {})
    covered = known.get(top)
    if covered is None:
        fixed = session.held_not_evictable
        columns = (bounds.deserved, bounds.share, fixed, session.queues.priority)
        quota, _ = worth(session.fair_tree, session.axis.unit, columns, top)
        covered = known[top] = _covered(session, quota, top)
    return covered


def _covered(session: Session, quota: Amounts, top: int) -> Covered:
    below = range(top, int(session.fair_tree.end_of_queue[top]))
    room: Covered = {queue: quota[:, queue].tolist() for queue in below}
    for amounts in room.values():
        amounts[PODS] = UNLIMITED
    covered: Covered = {queue: [0] * len(room[queue]) for queue in below}
    jobs = _running(session, top)
    for skipped in range(max((len(job.path) for job in jobs), default=0)):
        for job in jobs:
            if skipped < len(job.path):
                _cover(job, job.path[skipped:], room, covered)
    return covered


def _cover(job: _Running, path: list[int], room: Covered, covered: Covered) -> None:
    """Cover what fits of a job at all queues of a path."""
    for piece in job.pieces:
        count = min([piece.count, *(_fitting(piece.amounts, room[queue]) for queue in path)])
        if count < piece.least:
            return  # the rest of the job is useless without this part
        if not count:
            continue
        piece.count -= count
        piece.least = 0
        for queue in path:
            for at, amount in enumerate(piece.amounts):
                covered[queue][at] += count * amount
                if room[queue][at] != UNLIMITED:
                    room[queue][at] -= count * amount


def _fitting(amounts: Row, room: Row) -> int:
    """Return how many parts fit; no limit for parts that hold nothing."""
    fits = [has // amount for has, amount in zip(room, amounts, strict=True) if amount]
    return min(fits, default=UNLIMITED)


def _running(session: Session, top: int) -> list[_Running]:
    """Return the jobs below a queue with running pods, the most important first."""
    jobs, tree = session.jobs, session.fair_tree
    is_below = (jobs.queue_of_job >= top) & (jobs.queue_of_job < int(tree.end_of_queue[top]))
    job = (is_below & (jobs.active > 0)).nonzero()[0]
    above = int(tree.depth_of_queue[top])
    found = []
    for row in ordered_jobs(session, job).tolist():
        path = tree.path(int(jobs.queue_of_job[row])).tolist()
        found.append(_Running(path[: len(path) - above], _pieces(session, row)))
    return found


def _pieces(session: Session, job: int) -> list[_Piece]:
    jobs, shapes = session.jobs, session.shapes
    shape, active = int(jobs.shape_of_job[job]), int(jobs.active[job])
    is_by_card = shapes.by_card is not None and shapes.by_card.memory_mib[shape] > 0
    if shape >= 0 and jobs.podset_count[job] == 1 and not is_by_card:
        minimum = int(session.podsets.minimum[jobs.first_podset[job]])
        return [_Piece(shapes.charge[:, shape].tolist(), min(minimum, active), active)]
    pieces = []
    for part in reversed(units_of(session, job, session.tasks.state)):
        amounts: Row = charges(session, list(part.tasks)).sum(axis=1).tolist()
        pieces.append(_Piece(amounts, int(part.is_core), 1))
    return pieces
