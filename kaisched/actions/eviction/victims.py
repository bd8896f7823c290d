"""The units that could make room for one class of claims, in the order in which they would go.

A class is an action's claims of one queue, shape, size and priority. The order is made once; units
that have gone since are dropped, and those that disruption budgets protect are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, GPU, PODS
from kaisched.core.devices import charges
from kaisched.core.refusals import Refusal
from kaisched.core.tables import UNPROTECTED
from kaisched.framework.session.capacity import Holding
from kaisched.framework.session.limits import disruptions_left, has_budgets
from kaisched.framework.session.order import last_first
from kaisched.framework.session.units import Unit, Units, going_along, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.session.limits import Protected
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim


# The victim order: the order of candidates, reversed.
#
# The queue that is furthest above its share comes first, and in it the job of the lowest priority,
# the youngest first. Tree and keys are those of candidates, with both comparisons reversed. A unit
# before another counts as gone, from its queue and from its job. So elastic pods of all jobs of a
# priority come before any core, if the shard orders its jobs so.
#
# All steps are array operations on columns of units: in nearly every cycle of a full cluster, some
# search reads every unit.


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
    keys: list[Any] = list(session.ask.job_order(session, job) or ())
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
    keys = [*(session.ask.job_order(session, cores) or ())]
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


# Victims that disruption budgets protect: units that may not go at all, or not together.
#
# A unit that a budget refuses counts as not taken when plugins judge the units behind it: a unit
# that stays costs its queue nothing. No budget refuses a unit while its queue has more of what the
# unit holds than budgets hold for, once the units before it in its set are gone.

PROTECTED: Final = int(Refusal.DISRUPTION_BUDGET)


class Charges:
    """How much each unit of a list would cost each disruption budget."""

    def __init__(self, session: Session, victims: Victims, protected: Protected | None) -> None:
        """Look up the pods that some budget selects.

        ``protected`` is up to what of each queue budgets hold; None for all of it.
        """
        self._session = session
        self._victims = victims
        self._bound: Amounts | None = None
        """``(R, V)`` up to what of its queue budgets hold for each unit; None for all of it."""
        if protected is not None:
            self._bound = protected.of(victims.queue, _have_parts(session, victims.job))
        budgets = len(session.snapshot.disruption_budgets)
        place, budget = _charged(session, victims)
        keys, self._count = np.unique(place * (budgets + 2) + budget + 2, return_counts=True)
        self._place, budget = np.divmod(keys, budgets + 2)
        self._budget = budget - 2

    def refused_alone(self) -> BoolVec:
        """``(V,)`` units that budgets refuse even alone, and those that take such a unit along."""
        victims = self._victims
        left = np.append(disruptions_left(self._session), (0, 0))  # SEVERAL is -2
        stays = np.zeros(len(victims), np.bool_)
        stays[self._place[self._count > left[self._budget]]] = True
        if self._bound is not None:
            has = self._session.held_now.take(victims.queue, axis=1)
            stays &= ~((has > self._bound) & (victims.amounts > 0)).any(axis=0)
        if victims.split_off and stays.any():
            for place, along in victims.along.items():
                stays[place] |= stays[along].any()
        return stays

    def over(self, places: RowVec, sets: RowVec | None, refused: BoolVec) -> BoolVec:
        """``(K,)`` units that exceed a budget once the units before them in their set are gone.

        Units ``refused`` for another reason stay and cost nothing.
        """
        beyond = np.zeros(len(places), np.bool_)
        left = [*disruptions_left(self._session).tolist(), 0, 0]  # SEVERAL is -2
        spent: dict[int, int] = {}
        lost: dict[int, Amounts] = {}
        of_set = -1
        counts = np.isin(places, self._place)
        if self._bound is not None:
            queue = self._victims.queue[places]
            counts = np.isin(queue, queue[counts])
        for at in (counts & ~refused).nonzero()[0].tolist():
            if sets is not None and sets[at] != of_set:
                of_set = int(sets[at])
                spent, lost = {}, {}
            costs = self._costs_of(places[at])
            is_within = all(spent.get(it, 0) + count <= left[it] for it, count in costs)
            if not is_within and not self._is_unprotected(int(places[at]), lost):
                beyond[at] = True
                continue
            for budget, count in costs:
                spent[budget] = spent.get(budget, 0) + count
            if self._bound is not None:
                leaf = int(self._victims.queue[places[at]])
                lost[leaf] = lost.get(leaf, 0) + self._victims.amounts[:, places[at]]
        return beyond

    def _is_unprotected(self, place: int, lost: Mapping[int, Amounts]) -> bool:
        """Tell whether a queue that has lost some amounts has more than budgets hold for."""
        if self._bound is None:
            return False
        queue = int(self._victims.queue[place])
        has = self._session.held_now[:, queue] - lost.get(queue, 0)
        is_beyond = (has > self._bound[:, place]) & (self._victims.amounts[:, place] > 0)
        return bool(is_beyond.any())

    def _costs_of(self, place: np.int64) -> list[tuple[int, int]]:
        """Return what a unit costs, by budget."""
        first, end = np.searchsorted(self._place, (place, place + 1)).tolist()
        budgets, counts = self._budget[first:end].tolist(), self._count[first:end].tolist()
        return list(zip(budgets, counts, strict=True))

    def judge(
        self, claim: Claim, units: Units, places: RowVec, sets: RowVec | None = None
    ) -> CodeVec:
        """Return the codes of budgets and plugins for units, ``(K,)``.

        A unit that plugins refuse costs no budget, so that another unit may use that part. In that
        case plugins are asked once more.
        """
        session = self._session
        beyond = self.over(places, sets, np.zeros(len(places), np.bool_))
        codes = session.ask.scenario_gate(session, claim, units, ~beyond)
        codes[beyond] = PROTECTED
        again = self.over(places, sets, (codes != 0) & (codes != PROTECTED))
        if np.array_equal(beyond, again):
            return codes
        codes = session.ask.scenario_gate(session, claim, units, ~again)
        codes[again] = PROTECTED
        codes[self.over(places, sets, codes != 0)] = PROTECTED
        return codes


def _have_parts(session: Session, job: RowVec) -> BoolVec:
    """``(K,)`` which jobs have pods with parts of GPUs."""
    is_part = session.parts_of_gpus
    if is_part is None:
        return np.zeros(len(job), np.bool_)
    return np.isin(job, session.tasks.job_of_task[is_part[session.tasks.shape_of_task]])


def _charged(session: Session, victims: Victims) -> tuple[IntVec, IntVec]:
    """Return the place of its unit and the budget of each protected pod that still runs."""
    of_task = session.snapshot.disruption_budgets.of_task
    tasks, state = session.tasks, session.ledger.state
    place_of_job = np.full(len(session.jobs.name) + 1, -1, np.int64)  # the last: of no job
    place_of_job[victims.job] = np.arange(len(victims))
    place_of_task = place_of_job[tasks.job_of_task]
    for place, unit in victims.split_off.items():
        place_of_task[list(unit.tasks)] = place
    rows = (of_task != UNPROTECTED) & (place_of_task >= 0) & ACTIVE_STATES[state]
    if session.stranded is not None:
        rows &= ~session.stranded
    return place_of_task[rows], of_task[rows]


class VictimList:
    """Victims in order, without the units that have gone or are protected."""

    def __init__(
        self,
        session: Session,
        job: RowVec,
        movable: RowVec | None = None,
        protected: Protected | None = None,
    ) -> None:
        """Put the units of running jobs in victim order: those of ``job`` may be evicted.

        Those of jobs ``movable`` that are not in ``job`` may only move. ``protected`` is up to what
        of each queue disruption budgets hold; None for all of it.
        """
        self._session = session
        both = job if movable is None else np.union1d(job, movable)
        self.victims = victims_in_order(session, both)
        self.moves = self.may_move = np.zeros(len(self.victims), np.bool_)
        """``(V,)`` the units that may move but not be evicted, and all that may move."""
        if movable is not None:
            self.moves = ~np.isin(self.victims.job, job)
            self.may_move = np.isin(self.victims.job, movable)
        self.places: RowVec = np.arange(len(self.victims))
        """Units that still run where they did and that may be evicted, in order."""
        charges = Charges(session, self.victims, protected) if has_budgets(session) else None
        self.charges = charges
        """What units cost disruption budgets; None where no budget counts."""
        self.protected: RowVec = self.places[:0]
        """Units that are left out because a budget refuses their eviction."""
        self._seen = len(session.outcome.evictions)
        if session.has_moved:
            self._forget_moved()
        self._forget_protected()
        self._most: dict[int, int] = {}
        self._pods: Pods | None = None
        self._lost: IntVec | None = None
        self._priority: IntVec | None = None
        self._turn: IntVec | None = None
        self._places: tuple[RowVec, RowVec] | None = None
        """The places by job, and those jobs."""

    def unit(self, place: int) -> Unit:
        """Return the unit at a place."""
        return self.victims.unit(place)

    @property
    def pods(self) -> Pods:
        """The running pods of the units, looked up on first use."""
        if self._pods is None:
            self._pods = Pods(self._session, self.victims)
        return self._pods

    @property
    def sizes(self) -> RowVec:
        """``(V,)`` how many pods each unit has."""
        sizes: RowVec = self.victims.amounts[PODS]
        return sizes

    @property
    def priority(self) -> IntVec:
        """``(V,)`` the priority of each unit's job."""
        if self._priority is None:
            self._priority = self._session.jobs.priority[self.victims.job]
        return self._priority

    @property
    def turn(self) -> IntVec:
        """``(V,)`` whose turn it is to give: 0 for units of the first unit's queue, and so on.

        A queue gives in its turn what it has above its fair share. Units that leave it with less
        come last, those of all queues alike.
        """
        if self._turn is None:
            victims = self.victims
            _, first, which = np.unique(victims.queue, return_index=True, return_inverse=True)
            turn = first.argsort().argsort()[which]
            turn[self._are_below_share()] = len(first)
            self._turn = turn
        return self._turn

    def _are_below_share(self) -> BoolVec:
        """``(V,)`` units whose queue has fewer GPUs than its fair share once they have gone too."""
        session, queue = self._session, self.victims.queue
        order = queue.argsort(kind="stable")
        gpus, queue = self.victims.amounts[GPU, order], queue[order]
        starts = _starts(queue)
        gone = gpus.cumsum()
        gone -= (gone[starts] - gpus[starts]).repeat(np.diff(starts, append=len(queue)))
        is_below = np.zeros(len(order), np.bool_)
        is_below[order] = session.held_now[GPU, queue] - gone < session.fair_share[GPU, queue]
        return is_below

    @property
    def lost(self) -> IntVec:
        """``(V,)`` the work that an eviction destroys: thousandths of GPUs by seconds since start.

        At least a second counts; of a job whose start is not known, from its creation.
        """
        if self._lost is None:
            jobs, job = self._session.jobs, self.victims.job
            since_s = jobs.last_start_s[job]
            since_s = np.where(np.isnan(since_s), jobs.created_s[job], since_s)
            age_s = np.maximum(np.nan_to_num(self._session.now_s - since_s), 0.0)
            self._lost = self.victims.amounts[GPU] * (1 + age_s.astype(np.int64))
        return self._lost

    def along(self, place: int) -> list[int]:
        """Return the places of the list that go when the unit at a place goes."""
        along = self.victims.along.get(place) if self.victims.split_off else None
        if not along or self.moves[place]:
            return []
        found: list[int] = self.places[np.isin(self.places, along)].tolist()
        return found

    def units(self, places: RowVec, alternative: RowVec | None = None) -> Units:
        """Return units as columns, as one set or as several."""
        victims = self.victims
        return Units(
            victims.job[places],
            victims.queue[places],
            victims.amounts.take(places, axis=1),
            victims.is_core[places],
            _Tasks(victims, places),
            alternative,
        )

    def beyond_budgets(self, places: RowVec, sets: RowVec | None = None) -> CodeVec:
        """Return PROTECTED ``(K,)`` for units that budgets refuse after those before them."""
        if self.charges is None:
            return np.zeros(len(places), np.int16)
        beyond = self.charges.over(places, sets, np.zeros(len(places), np.bool_))
        return np.asarray(beyond * np.int16(PROTECTED))

    def judged(self, claim: Claim, places: RowVec, sets: RowVec | None = None) -> CodeVec:
        """Return codes ``(K,)`` of units of the list in order, or of several sets of them."""
        units = self.units(places, sets)
        if self.charges is None:
            return self._session.ask.scenario_gate(self._session, claim, units)
        return self.charges.judge(claim, units, places, sets)

    def most(self, shape: int, allowed: BoolVec | None) -> int:
        """Return how many pods of a shape would fit if every unit of the list were gone.

        This is an upper bound for the whole action: room only shrinks, since claims take it.
        """
        known = self._most.get(shape)
        if known is None:
            known = self._most[shape] = self.room_without(self.places, shape, allowed)
        return known

    def room_without(self, places: RowVec, shape: int, allowed: BoolVec | None) -> int:
        """Return how many pods of a shape would fit if some units were gone."""
        capacity = self._session.capacity
        return int(capacity.room(shape, allowed, without=self.pods.holding(places)).sum())

    def forget_gone(self) -> None:
        """Drop the units that no longer run where they did.

        A job with moved pods keeps what they would be useless without.
        """
        evictions = self._session.outcome.evictions
        if self._seen == len(evictions):
            return
        victims, job_of_task = self.victims, self._session.tasks.job_of_task
        state = self._session.ledger.state
        gone: set[int] = set()
        moved: set[int] = set()
        for eviction in evictions[self._seen :]:
            has_moved = ACTIVE_STATES[state[eviction.task]]
            for place in self._places_of(int(job_of_task[eviction.task])):
                unit = victims.split_off.get(place)
                if unit is None or eviction.task in unit.tasks or (has_moved and unit.is_core):
                    gone.add(place)
                    moved |= {place} if has_moved else set()
        if victims.split_off and moved:
            gone.update(at for at, along in victims.along.items() if moved.intersection(along))
        self._seen = len(evictions)
        if len(gone) == 1 and len(self.places) and self.places[0] in gone:
            self.places = self.places[1:]  # it goes most often, and a slice costs nothing
        elif gone:
            left = np.array(sorted(gone), np.int64)
            at = self.places.searchsorted(left)
            at, left = at[at < len(self.places)], left[at < len(self.places)]
            self.places = np.delete(self.places, at[self.places[at] == left])
        self._forget_protected()

    def _places_of(self, job: int) -> list[int]:
        """Return the places of a job's units."""
        if self._places is None:
            order = self.victims.job.argsort(kind="stable")
            self._places = order, self.victims.job.take(order)
        order, jobs = self._places
        begin, end = jobs.searchsorted((job, job + 1)).tolist()
        places: list[int] = order[begin:end].tolist()
        return places

    def _forget_protected(self) -> None:
        """Drop units that budgets refuse for the whole cycle."""
        if self.charges is not None:
            stays = self.charges.refused_alone()[self.places]
            self.protected = np.concatenate((self.protected, self.places[stays]))
            self.places = self.places[~stays]

    def _forget_moved(self) -> None:
        """Drop units with pods that this cycle has placed or moved: they do not run there yet."""
        session = self._session
        state, before = session.ledger.state, session.tasks.state
        moved = (state != before) & ACTIVE_STATES[state]
        if not moved.any():
            return
        tasks = set(moved.nonzero()[0].tolist())
        jobs = session.tasks.job_of_task[moved]
        stays = np.ones(len(self.victims), np.bool_)
        of_moved = np.isin(self.victims.job, jobs)
        stays[of_moved & self.victims.is_core] = False
        for place in (of_moved & ~self.victims.is_core).nonzero()[0].tolist():
            stays[place] = tasks.isdisjoint(self.victims.unit(place).tasks)
        for place in [at for at in self.victims.along if of_moved[at]]:
            stays[place] &= stays[self.victims.along[place]].all()
        self.places = self.places[stays[self.places]]


class Pods:
    """The running pods of a list's units: their nodes, amounts and units."""

    def __init__(self, session: Session, victims: Victims) -> None:
        """Read the present nodes of the pods."""
        tasks, state = session.tasks, session.ledger.state
        place_of_job = np.full(len(session.jobs.name) + 1, -1, np.int64)  # the last: of no job
        place_of_job[victims.job] = np.arange(len(victims))
        runs = ACTIVE_STATES[state] & (place_of_job[tasks.job_of_task] >= 0)
        if session.stranded is not None:
            runs &= ~session.stranded
        rows = runs.nonzero()[0]
        self._place: IntVec = place_of_job[tasks.job_of_task[rows]]
        if victims.split_off:
            at_row = {row: at for at, row in enumerate(rows.tolist())}
            for place, unit in victims.split_off.items():
                for task in unit.tasks:
                    if task in at_row:  # else it has gone meanwhile
                        self._place[at_row[task]] = place
        self._all = session.ledger.holding(rows)
        self._victims = victims
        self._by_node: tuple[RowVec, RowVec, Amounts] | None = None

    def is_among(self, places: RowVec) -> BoolVec:
        """Tell for every unit, ``(V,)``, whether it is at one of these places."""
        is_one = np.zeros(len(self._victims), np.bool_)
        is_one[places] = True
        return is_one

    def holding(self, places: RowVec) -> Holding:
        """Return what units hold."""
        if len(places) == len(self._victims):
            return self._all
        return self._all.some(self.is_among(places)[self._place].nonzero()[0])

    def by_node(self, wanted: list[int]) -> tuple[RowVec, RowVec, Amounts]:
        """Return nodes, places ``(P,)`` and amounts ``(R', P)``, by node and then by place.

        There is an entry for every node on which a unit has pods. What goes along with a unit, such
        as the elastic pods of a core, also has an entry, of amount 0, on every node of the unit.
        """
        if self._by_node is None:
            count = len(self._victims)
            key = self._all.nodes * count + self._place
            rows: Amounts = self._all.amounts
            missing = self._keys_along(key, count)
            if missing.size:
                key = np.concatenate((key, missing))
                rows = np.pad(rows, ((0, 0), (0, len(missing))))
            order = np.argsort(key, kind="stable")
            key, rows = key[order], rows.take(order, axis=1)
            starts = np.flatnonzero(np.diff(key, prepend=-1))
            if len(starts) < len(key):
                key, rows = key[starts], np.add.reduceat(rows, starts, axis=1)
            node, place = np.divmod(key, count)
            self._by_node = node, place, rows
        node, place, rows = self._by_node
        return node, place, rows[wanted]

    def _keys_along(self, key: IntVec, count: int) -> IntVec:
        along = self._victims.along if self._victims.split_off else {}
        missing = [
            entry - entry % count + place
            for entry in (set(key.tolist()) if along else ())
            for place in along.get(entry % count, ())
        ]
        return np.array(missing, np.int64)


class _Tasks(Sequence[tuple[int, ...]]):
    """The task rows of units, computed on access."""

    __slots__ = ("_places", "_victims")

    def __init__(self, victims: Victims, places: RowVec) -> None:
        self._victims = victims
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, at: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[tuple[int, ...], ...]: ...

    def __getitem__(self, at: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        places = self._places[at]
        if isinstance(at, slice):
            return tuple(self._victims.unit(place).tasks for place in places.tolist())
        return self._victims.unit(int(places)).tasks


def as_units(session: Session, units: list[Unit]) -> Units:
    """Return units as columns."""
    job = np.array([unit.job for unit in units], np.int64)
    return Units(
        job,
        session.jobs.queue_of_job[job],
        amounts_of(session, units),
        np.array([unit.is_core for unit in units], np.bool_),
        tuple(unit.tasks for unit in units),
    )
