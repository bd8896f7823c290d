"""Whom a claim takes from, with fair sharing and without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple, overload

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    Amounts,
    Claim,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    Units,
    charges,
)
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.flavors import flavors_of
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, by_resource
from kaisched_plugins.fair_sharing.tables import Table, some_of
from kaisched_plugins.fair_sharing.work import (
    NEVER,
    Borrowing,
    Key,
    Work,
    line_columns,
    may_take,
    targets,
)

# Which running work a claim may take at all, and what that work is ordered by.
#
# Rules F10 to F12 of docs/explanation/fair-sharing.md, in trees with fair sharing and without.
# Units have what they hold by row of the quotas, as :meth:`Table.by_row` returns them.


_MORE: Final = 2
"""In the first pass so many times as many units are named as quotas need, for nodes' sake ..."""
_SOME: Final = 16
"""... and so many more."""
_RANKS: Final = "fair-sharing.ranks"


@dataclass(frozen=True, slots=True)
class Rules:
    """The arguments of the policy, as the search needs them."""

    strategies: Sequence[str]
    is_compatible: bool
    high_from: int | None
    usage: FloatVec | None = None
    """``(Q,)`` what queues used lately, where there are pools (F31)."""

    @property
    def by_size(self) -> bool:
        """Whether the smaller of equal priorities goes first (F12)."""
        return not self.is_compatible

    def used_by(self, queue: int) -> float:
        """Return what a queue used lately; 0 without pools."""
        return 0.0 if self.usage is None else float(self.usage[queue])

    def is_high(self, priority: int) -> bool:
        """Tell whether a priority overrules fair sharing."""
        return self.high_from is not None and priority >= self.high_from


def claim_work(session: Session, table: Table, rules: Rules, claim: Claim) -> Work:
    """Return a claim as work that asks."""
    jobs, job = session.jobs, claim.job
    priority = int(jobs.priority[job])
    return Work(
        -1,
        claim.queue,
        table.ask_of(claim.queue, claim.ask, flavors_of(claim.within)),
        priority,
        float(jobs.created_s[job]),
        name=jobs.name[job],
        usage=rules.used_by(int(jobs.queue_of_job[job])),
        is_high=rules.is_high(priority),
    )


def contested(holdings: Holdings, incoming: Work) -> list[int]:
    """Return the rows that a claim lacks: by quota, or where that suffices all it asks for."""
    return lacked_by(holdings, incoming.queue, incoming.ask)


def lacked_by(holdings: Holdings, queue: int, ask: Ask) -> list[int]:
    """Return the rows that a queue lacks of what it asks for; all of them if it lacks none."""
    lacks = [at for at, amount in ask if amount > holdings.available(queue, at)]
    return lacks or [at for at, _ in ask]


def most_named(enough: int) -> int:
    """Return how many units are named first if so many are enough by quota."""
    return _MORE * enough + _SOME


def victim_columns(
    session: Session, table: Table, units: Units, rows: RowVec, rules: Rules
) -> list[Any]:
    """Return the key columns of F12 and F33 for ``numpy.lexsort``, the most important last."""
    job = units.job[rows]
    since, priority = _ranks(session)
    size = _sizes(table, units, rows) if rules.by_size else None
    usage = None if rules.usage is None else rules.usage[session.jobs.queue_of_job[job]]
    return line_columns(since[job], priority[job], size, usage)


def _ranks(session: Session) -> tuple[IntVec, IntVec]:
    """Return ranks of jobs from 1 on, by start, the last first, and by priority.

    numpy sorts numbers of one or two bytes in linear time.
    """
    known: tuple[IntVec, IntVec] | None = session.found.get(_RANKS)
    if known is None:
        jobs = session.jobs
        columns = -since_of(session, np.arange(len(jobs.name))), jobs.priority
        ranks = [np.unique(column, return_inverse=True)[1] + 1 for column in columns]
        since, priority = (each.astype(np.min_scalar_type(each.max(initial=0))) for each in ranks)
        known = session.found[_RANKS] = since, priority
    return known


def since_of(session: Session, job: RowVec) -> FloatVec:
    """Return since when jobs hold what they hold, ``(K,)``."""
    since = session.jobs.last_start_s[job]
    return np.where(np.isnan(since), -np.inf, since)


def allowed(
    session: Session,
    table: Table,
    holdings: Holdings,
    incoming: Work,
    units: Units,
    lacks: Sequence[int],
    rules: Rules,
) -> RowVec:
    """Return the rows of units that policies let a claim take, of what it lacks."""
    own = incoming.queue
    sharing = session.queues.sharing[own]
    is_own = units.queue == own
    priority, created_s = session.jobs.priority[units.job], session.jobs.created_s[units.job]
    is_open = (table.root == table.root[own]) & holdings.over(lacks)
    may = np.where(
        is_own,
        may_take(sharing.within, incoming, priority, created_s),
        is_open[units.queue] & may_take(sharing.across, incoming, priority, created_s),
    )
    if rules.high_from is not None:
        is_safe = priority >= rules.high_from
        may &= ~is_safe | (is_own & (priority < incoming.priority))
        if incoming.is_high and sharing.across != NEVER:
            is_less = ~is_safe & (priority < incoming.priority)
            may |= ~is_own & is_less & is_open[units.queue]
    if len(lacks):
        may &= (units.amounts[list(lacks)] > 0).any(axis=0)
    else:
        may[:] = False
    rows: RowVec = np.flatnonzero(may)
    return rows


def _sizes(table: Table, units: Units, rows: RowVec) -> FloatVec:
    """``(K,)`` the part of each of its dominant resource; a core is no smaller than its pods."""
    amounts = by_resource(table.quotas, units.amounts.take(rows, axis=1))
    whole = np.maximum(table.quotas.lendable, 1).take(units.queue[rows], axis=1)
    part: FloatVec = (amounts / whole).max(axis=0, initial=0.0)
    cores: dict[int, float] = {}
    if not units.is_core[rows].all():
        for at, (job, size) in enumerate(zip(units.job[rows].tolist(), part.tolist(), strict=True)):
            cores[job] = max(cores.get(job, 0.0), size)
            if units.is_core[rows[at]]:
                part[at] = cores[job]
    return part


# What a cycle has started so far, among the victims of its queues: it goes first, but cannot go.
#
# Rule F12 of docs/explanation/fair-sharing.md. Work that starts in a cycle counts in the share of
# its queue at once. If it were left out of the line of victims, the next in line would go for it.


def with_started(session: Session, table: Table, units: Units, queue: int, rules: Rules) -> Units:
    """Return units by row, and behind them, without tasks, what other queues have started."""
    if rules.is_compatible or not session.moves:
        return units
    tasks = _started(session, table, queue)
    if not tasks.size:
        return units
    job, where = np.unique(session.tasks.job_of_task[tasks], return_inverse=True)
    amounts = np.zeros((len(table.rows), len(job)), np.int64)
    if table.flavors is None:
        charge = charges(session, tasks, session.node_of_task_now[tasks])
        np.add.at(amounts.T, where, charge[table.rows].T)
    else:
        table.count(session, amounts, where, tasks, session.node_of_task_now[tasks])
    return replace(
        units,
        job=np.append(units.job, job),
        queue=np.append(units.queue, table.home[session.jobs.queue_of_job[job]]),
        amounts=np.concatenate([units.amounts, amounts], axis=1),
        is_core=np.append(units.is_core, np.ones(len(job), np.bool_)),
    )


def _started(session: Session, table: Table, queue: int) -> RowVec:
    """Return the pods that were placed or promised a place, of preemptible jobs of other queues."""
    jobs, job_of_task = session.jobs, session.tasks.job_of_task
    is_new = ACTIVE_STATES[session.state_now] & ~ACTIVE_STATES[session.tasks.state]
    rows = np.flatnonzero(is_new)
    rows = rows[job_of_task[rows] >= 0]
    job = job_of_task[rows]
    rows = rows[jobs.is_preemptible[job] & (jobs.queue_of_job[job] >= 0)]
    home = table.home[jobs.queue_of_job[job_of_task[rows]]]
    found: RowVec = rows[(table.root[home] == table.root[queue]) & (home != queue)]
    return found


# Whose work goes for a claim of a cycle: the units that may, and the order in which they would.


PREEMPT: Final = "preempt"


def standing(session: Session, job: int, gone: Sequence[int] = ()) -> int:
    """Tell how a job stands to its minimum as of now: 0 below it, 1 at it, 2 above it.

    The pods ``gone`` do not count.
    """
    first, count = int(session.jobs.first_podset[job]), int(session.jobs.podset_count[job])
    rows = slice(first, first + count)
    surplus = session.podset_active_now[rows] - session.podsets.minimum[rows]
    if len(gone):
        podset = session.tasks.podset_of_task[list(gone)]
        surplus -= np.bincount(
            podset[(podset >= first) & (podset < first + count)] - first, minlength=count
        )
    if (surplus < 0).any():
        return 0
    return 2 if surplus.any() else 1


def fair_order(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    rules: Rules,
) -> tuple[RowVec, int, Lines]:
    """Return the units of :meth:`victim_order`, why the others would not go, and their lines.

    ``holdings`` are used up.
    """
    incoming = claim_work(session, table, rules, claim)
    lacks = contested(holdings, incoming)
    running = len(units)
    units = with_started(session, table, units, incoming.queue, rules)
    rows, keys = _in_line(session, table, holdings, claim, incoming, units, lacks, rules, running)
    lines = Lines(session, rules, units, rows, running, keys)
    if not lines:
        return np.empty(0, np.int64), int(refusals.NOT_BORROWING), lines
    is_last = claim.pass_number > 0
    holdings.add(incoming.queue, incoming.ask)
    # Which sets may go is asked of whole sets; only Kueue's own way decides it by the walk alone.
    strategies = rules.strategies
    if rules.is_compatible and not is_last:
        strategies = strategies[:1]

    found = targets(holdings, incoming, lines, lacks, strategies, lines.key)
    order = _first_of(found, holdings, incoming, running, is_short=not is_last)
    is_left = np.arange(len(units)) < running
    is_left[order] = False
    rest = rows[is_left[rows]]
    if not rules.is_compatible:
        return np.concatenate((order, rest)), 0, lines
    code = 0
    if rest.size:
        code = int(refusals.HIGHER_SHARE if is_last else refusals.LATER)
        if not table.is_on[claim.queue]:  # its priority overruled that
            code = int(refusals.BY_QUOTA)
    return order, code, lines


def _first_of(
    found: Iterator[Work], holdings: Holdings, incoming: Work, running: int, *, is_short: bool
) -> RowVec:
    """Return the rows of a walk; of a short one a few more than quotas need, for nodes' sake."""
    order: list[int] = []
    enough = 0
    for work in (it for it in found if it.row < running):
        order.append(work.row)
        if not is_short:
            continue
        if not enough:
            holdings.take(incoming.queue, incoming.ask)
            if holdings.fits(incoming.queue, incoming.ask):
                enough = len(order)
            holdings.add(incoming.queue, incoming.ask)
        if enough and len(order) >= most_named(enough):
            break
    return np.array(order, np.int64)


def _in_line(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    incoming: Work,
    units: Units,
    lacks: Sequence[int],
    rules: Rules,
    running: int,
) -> tuple[RowVec, list[Any]]:
    """Return the rows of the units that may go for a claim: by queue, the first to go first.

    With them the columns of F12. Those beyond the first ``running`` have just been started: for the
    shortest time of all.
    """
    rows = allowed(session, table, holdings, incoming, units, lacks, rules)
    rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
    queue = units.queue[rows].astype(np.min_scalar_type(len(table.root)))
    columns = victim_columns(session, table, units, rows, rules)
    columns[0][rows >= running] = 0
    order = np.lexsort([*columns, queue])
    return rows[order], [column[order] for column in columns]


class Lines(Mapping[int, Sequence[Work]]):
    """The victims of a claim by queue, the first to go first, made into work when looked at."""

    def __init__(
        self,
        session: Session,
        rules: Rules,
        units: Units,
        rows: RowVec,
        running: int,
        keys: Sequence[Any],
    ) -> None:
        """Part ``rows``, which are by queue; those beyond ``running`` the cycle has started.

        ``keys`` are their columns of F12, the most important last.
        """
        self._session = session
        self._rules = rules
        self._units = units
        self._running = running
        self._rows = rows
        starts = np.flatnonzero(np.diff(units.queue[rows], prepend=-1))
        cuts = pairwise((*starts.tolist(), len(rows)))
        self._part = dict(zip(units.queue[rows[starts]].tolist(), cuts, strict=True))
        # What a queue used lately decides inside a pool only.
        self._keys = keys[: 3 if rules.by_size else 2][::-1]
        self._first: dict[int, Key] = dict(zip(self._part, self._keys_of(starts), strict=True))
        self._places: dict[int, dict[int, int]] = {}

    def key(self, queue: int, at: int) -> Key:
        """Return what a victim is compared by with those of other queues of equal shares."""
        if not at:
            return self._first[queue]
        return next(self._keys_of(np.array([self._part[queue][0] + at])))

    def _keys_of(self, places: RowVec) -> Iterator[Key]:
        names = self._session.jobs.name
        jobs = self._units.job[self._rows[places]].tolist()
        columns = (column[places].tolist() for column in self._keys)
        return zip(*columns, [names[job] for job in jobs], strict=True)

    def __len__(self) -> int:
        """Return how many queues have victims."""
        return len(self._part)

    def __iter__(self) -> Iterator[int]:
        """Yield these queues."""
        return iter(self._part)

    def __contains__(self, queue: object) -> bool:
        """Tell whether a queue has victims."""
        return queue in self._part

    def __getitem__(self, queue: int) -> _Line:
        """Return the victims of a queue."""
        return _Line(self, self._rows[slice(*self._part[queue])])

    def work(self, row: int) -> Work:
        """Return a unit as work that holds."""
        work = work_of(self._session, self._rules, self._units, row)
        return work if row < self._running else work._replace(since_s=np.inf)

    def started_of(self, queue: int) -> Ask:
        """Return what the cycle has started of a queue, whether it may go or not."""
        rows = np.arange(self._running, len(self._units))
        rows = rows[self._units.queue[rows] == queue]
        return some_of(self._units.amounts[:, rows].sum(axis=1)) if rows.size else ()

    def ahead(self, queue: int, first: int, chosen: AbstractSet[int]) -> Ask:
        """Return what the units of a queue hold that go before one, but for those chosen.

        Units are named by their first tasks.
        """
        if queue not in self:
            return ()
        rows, tasks = self[queue].rows, self._units.tasks
        places = self._places.get(queue)
        if places is None:
            numbered = enumerate(rows.tolist())
            places = {tasks[row][0]: at for at, row in numbered if row < self._running}
            self._places[queue] = places
        ahead = [
            rows[at]
            for task, at in places.items()
            if at < places.get(first, 0) and task not in chosen
        ]
        return some_of(self._units.amounts[:, ahead].sum(axis=1))


class _Line(Sequence[Work]):
    """Units of one queue as work, made for those that are looked at."""

    __slots__ = ("_lines", "rows")

    def __init__(self, lines: Lines, rows: RowVec) -> None:
        self._lines = lines
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Work: ...
    @overload
    def __getitem__(self, at: slice) -> list[Work]: ...
    def __getitem__(self, at: int | slice) -> Work | list[Work]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        return self._lines.work(int(self.rows[at]))


def work_of(session: Session, rules: Rules, units: Units, row: int) -> Work:
    """Return a unit as work that holds."""
    jobs, job = session.jobs, int(units.job[row])
    since, priority = float(jobs.last_start_s[job]), int(jobs.priority[job])
    return Work(
        row,
        int(units.queue[row]),
        some_of(units.amounts[:, row]),
        priority,
        float(jobs.created_s[job]),
        since if since == since else -np.inf,  # noqa: PLR0124 - NaN is not itself
        jobs.name[job],
        rules.used_by(int(jobs.queue_of_job[job])),
        is_high=rules.is_high(priority),
    )


# Which queues give way to a claim, and what entitles it to their work: F21 and F22.


def borrowing_of(session: Session, queue: int) -> Borrowing:
    """Return whose work the claims of a queue may take while it borrows."""
    sharing = session.queues.sharing[queue]
    return Borrowing(sharing.borrowing, sharing.borrowing_up_to)


class Way(IntEnum):
    """What entitles a claim to a victim."""

    CLOSER = 0
    """The claim fits within the quota of a queue on its path that the victim is not below."""
    BORROWING = 1
    """``borrowWithinCohort`` lets the victim go even if the claim borrows."""
    QUOTA = 2
    """The claim's queue stays within its quota."""
    OWN = 3


class Reach:
    """What a claim is entitled to at one moment: before it starts, and before its victims go."""

    def __init__(self, holdings: Holdings, incoming: Work, borrowing: Borrowing) -> None:
        """Find the queues on the path within whose quota the claim fits."""
        rows, used = holdings.rows, holdings.used
        self._parent = rows.parent
        self._incoming = incoming
        self._borrowing = borrowing
        self._is_closer: dict[int, bool] = {}
        """By queue on the path: whether the claim fits within the quota of one below it."""
        fits, ask = False, list(incoming.ask)
        for node in rows.path(incoming.queue):
            self._is_closer[node] = fits
            has, local = used[node], rows.local[node]
            fits = fits or holdings.stays_within(node, ask)
            ask = [(at, max(0, amount - max(0, local[at] - has[at]))) for at, amount in ask]
        self._below: dict[int, tuple[int, ...]] = {}

    @property
    def may_borrow(self) -> bool:
        """Whether ``borrowWithinCohort`` lets any work go while the claim's queue borrows."""
        return self._borrowing.is_allowed

    def is_closer(self, node: int) -> bool:
        """Tell whether the claim is closer than work whose path meets its own at a queue."""
        return self._is_closer[node]

    def below(self, queue: int) -> tuple[int, ...]:
        """Return a queue and those above it, up to where its path meets that of the claim."""
        known = self._below.get(queue)
        if known is None:
            found = []
            node = queue
            while node >= 0 and node not in self._is_closer:
                found.append(node)
                node = self._parent[node]
            known = self._below[queue] = tuple(found)
        return known

    def ways(self, queue: RowVec, priority: IntVec) -> IntVec:
        """Return what entitles to work of queues of the same tree, ``(K,)``: a :class:`Way`."""
        own = self._incoming.queue
        found = np.where(
            self._borrowing.may_take(self._incoming.priority, priority), Way.BORROWING, Way.QUOTA
        )
        for each in np.unique(queue).tolist():
            if each == own:
                found[queue == each] = Way.OWN
            elif self._is_closer[self._parent[self.below(each)[-1]]]:
                found[queue == each] = Way.CLOSER
        return found


# Whom a claim takes from in a tree without fair sharing: rules F21 to F24.
#
# A claim is tried in up to two ways: one in which its queue may borrow, and one in which it may not
# and more work gives way.


class Order(NamedTuple):
    """Units in the order in which they would go."""

    rows: RowVec
    code: int
    """Why the others would not go."""
    is_borrowing: bool = True
    """False where the claim's queue must not borrow."""


def classical_order(
    session: Session,
    table: Table,
    holdings: Holdings,
    claim: Claim,
    units: Units,
    rules: Rules,
) -> Order:
    """Return the units of a pass: of the first way that makes room by quota, then of the next.

    ``holdings`` stay as they are.
    """
    incoming = claim_work(session, table, rules, claim)
    reach = Reach(holdings, incoming, borrowing_of(session, claim.queue))
    search = _Search(holdings, incoming, reach, is_compatible=rules.is_compatible)
    candidates = search.candidates(session, table, claim, units, rules)
    orders = search.orders(candidates)
    found = next(islice(orders, claim.pass_number, None), None)
    if found is None:
        code = int(refusals.BY_QUOTA if len(candidates.rows) else refusals.NOT_BORROWING)
        return Order(np.empty(0, np.int64), code)
    rows, is_borrowing, is_cut = found
    code = int(refusals.BY_QUOTA) if len(rows) < len(units) else 0
    if is_cut or next(orders, None) is not None:
        code = int(refusals.NEXT_WAY)
    return Order(np.array(rows, np.int64), code, is_borrowing)


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Units that may go, the first to go first. Columns ``(K,)``."""

    rows: RowVec
    queue: RowVec
    ways: IntVec
    """A :class:`Way` each."""
    amounts: Amounts
    """``(F, K)``."""


class _Search:
    """The search for one claim, with what is held before anything goes."""

    def __init__(
        self, holdings: Holdings, incoming: Work, reach: Reach, *, is_compatible: bool
    ) -> None:
        self._is_compatible = is_compatible
        self._holdings = holdings
        self._incoming = incoming
        self._reach = reach
        self._lacks = contested(holdings, incoming)

    def candidates(
        self, session: Session, table: Table, claim: Claim, units: Units, rules: Rules
    ) -> _Candidates:
        """Return the units that may go (F21) in their order (F23)."""
        rows = allowed(session, table, self._holdings, self._incoming, units, self._lacks, rules)
        rows = rows[units.job[rows] != claim.job]  # its own pods are not in its way
        queue = units.queue[rows]
        closed = [it for it in np.unique(queue).tolist() if not self._borrows(self._holdings, it)]
        rows = rows[~np.isin(queue, closed)]
        queue = units.queue[rows]
        ways = self._reach.ways(queue, session.jobs.priority[units.job[rows]])
        group = np.where(ways == Way.QUOTA, Way.BORROWING, ways)
        by_queue = replace(rules, usage=None)
        columns = victim_columns(session, table, units, rows, by_queue)
        order = np.lexsort([queue, *columns, group])
        if rules.usage is not None:
            used = rules.usage[session.jobs.queue_of_job[units.job[rows]]]
            _put_usage_first(order, group * len(rules.usage) + queue, used)
        rows = rows[order]
        amounts = units.amounts[:, rows]
        return _Candidates(rows, queue[order], ways[order], amounts)

    def orders(self, candidates: _Candidates) -> Iterator[tuple[list[int], bool, bool]]:
        """Yield what would go in each way, whether the queue may borrow, and whether more could go.

        Nodes may need more victims than quotas do, so that a second order has all.
        """
        for is_borrowing in self._ways(candidates):
            rows, is_cut = self._taken(candidates, is_borrowing=is_borrowing, is_short=True)
            if rows:
                yield rows, is_borrowing, is_cut
            if is_cut:
                rows, _ = self._taken(candidates, is_borrowing=is_borrowing, is_short=False)
                yield rows, is_borrowing, False

    def _ways(self, candidates: _Candidates) -> tuple[bool, ...]:
        """Return whether the claim's queue may borrow, for each attempt in turn (F24)."""
        queue = self._incoming.queue
        used, quota = self._holdings.used[queue], self._holdings.rows.subtree[queue]
        is_below = all(used[at] < quota[at] for at in self._lacks)
        may_borrow = self._reach.may_borrow
        if (candidates.ways == Way.OWN).all() or not (may_borrow or is_below):
            return (True,)
        has_closer = bool((candidates.ways == Way.CLOSER).any())
        return (True, False) if may_borrow or has_closer else (False, True)

    def _taken(
        self, candidates: _Candidates, *, is_borrowing: bool, is_short: bool
    ) -> tuple[list[int], bool]:
        """Return who would go, none if quotas leave no room; and whether the list was cut short."""
        now, incoming = self._holdings.copy(), self._incoming
        taken: list[int] = []
        spared: list[int] = []
        enough = 0
        some = np.arange(len(candidates.rows))
        if is_borrowing:
            some = some[candidates.ways != Way.QUOTA]
        for at in some.tolist():
            if is_short and enough and len(taken) >= most_named(enough):
                return taken, True
            queue = int(candidates.queue[at])
            if queue != incoming.queue and not self._borrows(now, queue):
                spared.append(int(candidates.rows[at]))
                continue
            ask = candidates.amounts[:, at].tolist()
            now.take(queue, [(row, amount) for row, amount in enumerate(ask) if amount > 0])
            taken.append(int(candidates.rows[at]))
            is_within = is_borrowing or now.stays_within(incoming.queue, incoming.ask)
            if not enough and is_within and now.fits(incoming.queue, incoming.ask):
                enough = len(taken)
        if not self._is_compatible:  # which sets may go is asked of whole sets
            taken += spared
        return (taken if enough else []), False

    def _borrows(self, holdings: Holdings, queue: int) -> bool:
        """Tell whether a queue and those above it hold more than their quota of what is lacked."""
        return all(holdings.is_over(node, self._lacks) for node in self._reach.below(queue))


def _put_usage_first(order: RowVec, block: RowVec, used: FloatVec) -> None:
    """Reorder the victims of each block among their places, the highest past usage first (F33).

    A block is the victims of one queue in one group. Those of other queues keep their places.
    """
    for each in np.unique(block).tolist():
        places = np.flatnonzero(block[order] == each)
        rows = order[places]
        order[places] = rows[np.argsort(-used[rows], kind="stable")]
