"""The victim order: the order of candidates, reversed.

The queue that is furthest above its share comes first, and in it the job of the lowest priority,
the youngest first. Tree and keys are those of candidates, with both comparisons reversed. A unit
before another counts as gone, from its queue and from its job. So elastic pods of all jobs of a
priority come before any core, if the shard orders its jobs so.

All steps are array operations on columns of units: in nearly every cycle of a full cluster, some
search reads every unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.devices import charges
from kaisched.framework.session.claims import Unit
from kaisched.framework.session.job_order import last_first
from kaisched.framework.session.units import going_along, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.framework.session.session import Session


@dataclass(slots=True, eq=False)
class Victims:
    """Units in the order in which they would go. Columns ``(V,)``."""

    session: Session
    job: RowVec
    queue: RowVec
    is_core: BoolVec
    amounts: Amounts
    """``(R, V)`` what each holds."""
    split_off: dict[int, Unit]
    """Place to unit, for jobs with elastic pods; at any other place the unit is the whole job."""
    _along: dict[int, list[int]] | None = field(default=None, init=False)

    def __len__(self) -> int:
        """Return V."""
        return len(self.job)

    def unit(self, place: int) -> Unit:
        """Return the unit at a place."""
        unit = self.split_off.get(place)
        return units_of(self.session, int(self.job[place]))[-1] if unit is None else unit

    @property
    def along(self) -> dict[int, list[int]]:
        """Place of a core or a spare subgroup to the places of units that go when it goes."""
        if self._along is None:
            self._along = going_along(self.split_off)
        return self._along


def victim_order(session: Session, job: RowVec) -> Iterator[Unit]:
    """Return the units of running jobs of ``job`` one by one, the first to be evicted first."""
    victims = victims_in_order(session, job)
    return (victims.unit(place) for place in range(len(victims)))


def victims_in_order(session: Session, job: RowVec) -> Victims:
    """Return the units of running jobs of ``job``, the first to be evicted first.

    Jobs of unknown queues are left out. Where the policy orders victims, units are only sorted by
    leaf queue. Counts and shares are of the moment of the call: if the caller evicts a unit later,
    it is not counted twice.
    """
    jobs = session.jobs
    job = job[(jobs.queue_of_job[job] >= 0) & (session.standing_of(job) > 0)]
    victims = _by_leaf(session, job, _surplus(session, job))
    order = None if session.ask.orders_victims else _merged(session, victims)
    if order is None:
        return victims
    places = {old: new for new, old in enumerate(order.tolist())} if victims.split_off else {}
    return Victims(
        session,
        victims.job[order],
        victims.queue[order],
        victims.is_core[order],
        victims.amounts.take(order, axis=1),
        {places[old]: unit for old, unit in victims.split_off.items()},
    )


# -- in each leaf queue ----------------------------------------------------------------------------


def _surplus(session: Session, job: RowVec) -> dict[int, list[Unit]]:
    """Return, by job row, the units of jobs with elastic pods, the core last."""
    jobs, podsets = session.jobs, session.podsets
    active = session.ledger.podset_active if session.has_moved else podsets.active
    first = jobs.first_podset[job]
    elastic = (jobs.podset_count[job] > 1) | (active[first] > podsets.minimum[first])
    surplus: dict[int, list[Unit]] = {}
    for row in job[elastic].tolist():
        units_of_job = units_of(session, row)
        if units_of_job and not units_of_job[0].is_core:
            surplus[row] = units_of_job
    return surplus


def _by_leaf(session: Session, job: RowVec, surplus: dict[int, list[Unit]]) -> Victims:
    """Return the units of each leaf queue together, last in job order first.

    A job with elastic units is sorted in twice: with all running pods, and with its core alone.
    """
    jobs = session.jobs
    with_core = [row for row, units_of_job in surplus.items() if units_of_job[-1].is_core]
    rows = np.concatenate((job, np.array(with_core, np.int64)))
    keys: list[Any] = list(session.ask.job_order(session, job))
    if with_core:
        later = _keys_without(session, surplus, rows[len(job) :])
        keys = [np.concatenate(pair) for pair in zip(keys, later, strict=True)]
    queue = jobs.queue_of_job[rows]
    order = last_first(session, rows, [queue, *keys, jobs.created_s[rows]])
    if not surplus:
        rows = rows[order]
        amounts = _whole_amounts(session, rows)
        return Victims(
            session, rows, jobs.queue_of_job[rows], np.ones(len(rows), np.bool_), amounts, {}
        )
    units: list[int] = []
    split_off: dict[int, Unit] = {}
    for at in order.tolist():
        row = int(rows[at])
        if row not in surplus:
            units.append(row)
            continue
        for unit in surplus[row]:
            if unit.is_core == (at >= len(job)):
                split_off[len(units)] = unit
                units.append(row)
    rows = np.array(units, np.int64)
    amounts = np.empty((len(session.axis), len(rows)), np.int64)
    at_parts = np.array(list(split_off), np.int64)
    is_whole = np.ones(len(rows), np.bool_)
    is_whole[at_parts] = False
    amounts[:, is_whole] = _whole_amounts(session, rows[is_whole])
    amounts[:, at_parts] = amounts_of(session, list(split_off.values()))
    is_core = np.ones(len(rows), np.bool_)
    is_core[at_parts] = [unit.is_core for unit in split_off.values()]
    return Victims(session, rows, jobs.queue_of_job[rows], is_core, amounts, split_off)


def _keys_without(
    session: Session, surplus: dict[int, list[Unit]], cores: RowVec
) -> list[IntVec | FloatVec]:
    """Return the job order of elastic jobs as it would be with only their cores running."""
    statement = session.statement()
    stranded = session.stranded
    for row, units_of_job in surplus.items():
        for unit in units_of_job:
            if not unit.is_core:
                for task in unit.tasks:
                    statement.evict(task)
        if stranded is not None:  # else the job would still count as having elastic pods
            for task in session.jobs.tasks[row]:
                if stranded[task]:
                    statement.evict(task)
    keys = session.ask.job_order(session, cores)
    statement.rollback()
    return keys


def _whole_amounts(session: Session, job: RowVec) -> Amounts:
    """``(R, K)`` what the running pods of whole jobs hold."""
    jobs, charge = session.jobs, session.shapes.charge
    shape = jobs.shape_of_job[job]
    amounts: Amounts = charge.take(shape, axis=1) * session.standing_of(job)
    is_mixed = shape < 0
    if (by_card := session.shapes.by_card) is not None:
        is_mixed |= by_card.memory_mib.take(shape) > 0  # pods of one shape may count differently
    mixed = is_mixed.nonzero()[0]
    if mixed.size:
        units_of_job = [units_of(session, row)[-1] for row in job[mixed].tolist()]
        amounts[:, mixed] = amounts_of(session, units_of_job)
    return amounts


def amounts_of(session: Session, units_of_job: Sequence[Unit]) -> Amounts:
    """``(R, V)`` what units hold."""
    sizes = [len(unit.tasks) for unit in units_of_job]
    flat = [task for unit in units_of_job for task in unit.tasks]
    each = charges(session, flat)
    if len(flat) == len(sizes):
        return each
    return np.add.reduceat(each, np.cumsum([0, *sizes[:-1]]), axis=1)


# -- among queues ----------------------------------------------------------------------------------


def _merged(session: Session, victims: Victims) -> RowVec | None:
    """Merge the leaf queues' units up the tree, in reversed fair order at each level.

    The units come sorted by leaf queue. Return their new order; None without units.
    """
    if not len(victims):
        return None
    tree = session.fair_tree
    order = np.arange(len(victims))
    stream = victims.queue  # the queue, at the level reached, that a unit comes from
    depth = tree.depth_of_queue.take(stream)
    for level in range(int(depth.max()), -1, -1):
        here = (tree.depth_of_queue.take(stream[order]) == level).nonzero()[0]
        units = order if len(here) == len(order) else order[here]
        merged = _merge(session, victims, units, stream[units])
        if len(here) == len(order):
            order = merged
        else:
            order = np.concatenate((np.delete(order, here), merged))
        if level:
            stream = stream.copy()
            stream[merged] = tree.parent_of_queue.take(stream[merged])
    return order


def _merge(session: Session, victims: Victims, units: RowVec, stream: RowVec) -> RowVec:
    """Merge each queue's stream of units with the streams of its siblings.

    The sibling that is last in fair order, with its next unit still held, gives that unit. A unit
    with a lower rank than the unit ahead of it in its stream follows that unit at once. So sorting
    by the highest rank so far is the merge.
    """
    starts = _starts(stream)
    if len(starts) == 1:
        return units  # a single queue has no sibling to compare with
    held = session.ledger.held if session.has_moved else session.held
    amounts = victims.amounts.take(units, axis=1)
    before = amounts.cumsum(axis=1)
    lengths = np.diff(starts, append=len(units))
    # What the queue holds before each of its units goes: sums run on from stream to stream.
    shift = before.take(starts, axis=1) - amounts.take(starts, axis=1)
    shift += held.take(stream[starts], axis=1)
    before = shift.repeat(lengths, axis=1) - before + amounts
    nothing = np.zeros_like(before)
    keys = session.ask.contest(session, stream, victims.job[units], before, nothing)
    # Reversed: the queue that is last in fair order gives first, and of equals the youngest.
    rank = _ranks([-key.astype(np.float64) for key in keys], len(units))
    if len(starts) < len(units):
        at = np.arange(len(starts)).repeat(lengths) * len(units)
        rank = np.maximum.accumulate(rank + at) - at
    columns: list[Any] = [-stream, rank]
    parents = session.fair_tree.parent_of_queue.take(stream)
    if parents[0] >= 0:
        columns.append(parents)
    merged: RowVec = units[np.lexsort(columns)]
    return merged


def _ranks(keys: list[FloatVec], count: int) -> IntVec:
    """Return dense ranks ``(K,)`` by key columns; equal keys have equal ranks."""
    if not keys:
        return np.zeros(count, np.int64)
    order = np.lexsort(keys[::-1])
    differs = np.zeros(count, np.bool_)
    for key in keys:
        ranked = key[order]
        differs[1:] |= ranked[1:] != ranked[:-1]
    ranks = np.empty(count, np.int64)
    ranks[order] = differs.cumsum()
    return ranks


def _starts(stream: RowVec) -> RowVec:
    """Return the starts of runs of equal entries."""
    differs = np.ones(len(stream), np.bool_)
    np.not_equal(stream[1:], stream[:-1], out=differs[1:])
    starts: RowVec = differs.nonzero()[0]
    return starts
