"""The queues of a session as a tree of quotas, and what they hold as of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from kaisched import (
    ACTIVE_STATES,
    GPU,
    HOLDING_STATES,
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    FloatVec,
    IntVec,
    RowVec,
    Session,
    TaskState,
    Units,
    charges,
)
from kaisched_plugins.fair_sharing import refusals
from kaisched_plugins.fair_sharing.flavors import Flavors, NodeMap, flavors_in, pair_columns
from kaisched_plugins.fair_sharing.quotas import Ask, Holdings, Quotas
from kaisched_plugins.fair_sharing.work import Work, entry_at

# The quotas of a shard's queues, and what they hold at one moment of a cycle.


_TABLE: Final = "fair-sharing.table"
_CLASSICAL: Final = "fair-sharing.table.classical"
_NODES: Final = "fair-sharing.nodes"
_FINEST = 1 << 20
"""Weights from history are no finer than one part in so many: products with amounts stay small."""


@dataclass(frozen=True, eq=False)
class Table:
    """What stays the same for as long as no queue changes."""

    queues: object
    axis: object
    rows: RowVec
    """``(F,)`` the resource of each row: those that somebody bounds, then those of each flavor;
    others are not shared out."""
    quotas: Quotas
    is_leaf: BoolVec
    """``(Q,)`` a pool is a leaf, and nothing below it is."""
    root: RowVec
    """``(Q,)`` the top-level queue of each."""
    is_on: BoolVec
    """``(Q,)`` False in trees without fair sharing."""
    has_levels: bool
    """Whether any such tree has several queues: their order rests on all levels at once (F20)."""
    home: RowVec
    """``(Q,)`` the queue as which each counts: of queues in a pool the pool, else itself."""
    is_member: BoolVec
    """``(Q,)`` True below a pool, whose queues have its quota in the order of their usage."""
    has_pools: bool
    weight: FloatVec
    """``(Q,)`` as the queues say, whatever their past usage."""
    resources: RowVec
    """The resources by the numbers that the quotas have for them."""
    flavors: Flavors | None = None

    def claim(self, claim: Claim) -> Claim:
        """Return a claim as one of the queue as which its own counts."""
        return replace(claim, queue=int(self.home[claim.queue])) if self.has_pools else claim

    def units(self, units: Units) -> Units:
        """Return units as those of the queues as which their own count."""
        return replace(units, queue=self.home[units.queue]) if self.has_pools else units

    def by_home(self, amounts: Amounts) -> Amounts:
        """Return amounts of leaf queues ``(F, Q)`` at the queues as which they count."""
        if not self.has_pools:
            return amounts
        at_home = np.zeros_like(amounts)
        np.add.at(at_home.T, self.home, amounts.T)
        return at_home

    def by_leaf(self, told: Mapping[int, str], leaves: RowVec) -> dict[int, str]:
        """Return for leaf queues what is said of the queues as which they count."""
        return {leaf: told[int(self.home[leaf])] for leaf in leaves.tolist()}

    def ask(self, amounts: Amounts) -> Ask:
        """Return what of ``(R,)`` amounts is shared out where there are no flavors."""
        return some_of(amounts[self.rows])

    def ask_of(self, queue: int, amounts: Amounts, flavors: Mapping[int, int]) -> Ask:
        """Return what of ``(R,)`` amounts is shared out, with the flavor of each resource."""
        if self.flavors is None:
            return self.ask(amounts)
        by_flavor = self.flavors.is_flavored[:, queue]
        asked = [
            (at, int(amounts[resource]))
            for at, resource in enumerate(self.plain.tolist())
            if amounts[resource] > 0 and not by_flavor[resource]
        ]
        pair = self.pair
        for resource, flavor in sorted(flavors.items()):
            if amounts[resource] > 0 and (flavor, resource) in pair:
                asked.append((pair[flavor, resource], int(amounts[resource])))
        return sorted(asked)

    @cached_property
    def pair(self) -> dict[tuple[int, int], int]:
        """The row of each flavor and resource."""
        return {} if self.flavors is None else self.flavors.row_of(len(self.plain))

    def name(self, at: int, source: Any) -> str:
        """Return what a row is of, as ``gpu`` or ``gpu in flavor a100``."""
        resource = str(source.axis.names[int(self.rows[at])])
        if self.flavors is None:
            return resource
        pair = at - (len(self.rows) - len(self.flavors.pairs))
        if pair < 0:
            return resource
        return f"{resource} in flavor {self.flavors.names[self.flavors.pairs[pair].flavor]}"

    @property
    def goes_by_paths(self) -> bool:
        """Whether what is held at a queue is more than the sum of the amounts below it."""
        return self.quotas.lends_in_part or self.flavors is not None

    @property
    def plain(self) -> RowVec:
        """The resources of the rows that are of no flavor, which come first."""
        return self.rows if self.flavors is None else self.rows[: -len(self.flavors.pairs)]

    def by_row(self, session: Session, units: Units) -> Units:
        """Return units whose amounts ``(F, V)`` are what they hold by row of the quotas."""
        if self.flavors is None:
            return replace(units, amounts=units.amounts[self.rows])
        sizes = [len(tasks) for tasks in units.tasks]
        tasks = np.array([task for each in units.tasks for task in each], np.int64)
        where = np.repeat(np.arange(len(sizes)), sizes)
        found = np.zeros((len(self.rows), len(sizes)), np.int64)
        self.count(session, found, where, tasks, session.node_of_task_now[tasks])
        return replace(units, amounts=found)

    def of_tasks(self, session: Session, tasks: RowVec) -> Ask:
        """Return what tasks of one queue hold together now, by row of the quotas."""
        return self.held_by(session, tasks, session.node_of_task_now[tasks])

    def held_by(self, session: Session, tasks: RowVec, node: RowVec) -> Ask:
        """Return what tasks of one queue hold together on nodes, by row of the quotas."""
        if self.flavors is None:
            return self.ask(charges(session, tasks, node).sum(axis=1))
        found = np.zeros((len(self.rows), 1), np.int64)
        self.count(session, found, np.zeros(len(tasks), np.int64), tasks, node)
        return some_of(found[:, 0])

    def count(
        self, session: Session, into: Amounts, where: RowVec, tasks: RowVec, node: RowVec
    ) -> None:
        """Add what tasks hold on nodes to the columns ``where`` of sums by row."""
        queue = self.home[session.jobs.queue_of_job[session.tasks.job_of_task[tasks]]]
        self.nodes(session).count(into, where, queue, node, charges(session, tasks, node))

    def nodes(self, session: Session) -> NodeMap:
        """Return the flavors of nodes, remembered while neither labels nor queues change."""
        assert self.flavors is not None  # else nobody asks
        known: tuple[Flavors, NodeMap] | None = session.hints.get(_NODES)
        statics = session.nodes.statics
        if known is None or known[0] is not self.flavors or known[1].statics is not statics:
            made = NodeMap(self.flavors, self.plain, len(session.axis), statics)
            known = session.hints[_NODES] = self.flavors, made
        return known[1]


def some_of(amounts: Amounts) -> Ask:
    """Return the rows of which something is asked for, of amounts ``(F,)`` by row."""
    return [(at, amount) for at, amount in enumerate(amounts.tolist()) if amount > 0]


def as_columns(asked: Sequence[Ask], count: int) -> Amounts:
    """``(count, K)`` amounts of what is asked for."""
    columns = np.zeros((count, len(asked)), np.int64)
    for at, ask in enumerate(asked):
        for row, amount in ask:
            columns[row, at] = amount
    return columns


def table_of(session: Session, *, is_classical: bool = False) -> Table:
    """Return the table of a session's queues, remembered while they are the same."""
    key = _CLASSICAL if is_classical else _TABLE  # a shard's arguments may change
    known: Table | None = session.hints.get(key)
    if known is None or known.queues is not session.queues or known.axis is not session.axis:
        known = session.hints[key] = table_in(session, is_classical=is_classical)
    return known


def table_in(source: Any, *, is_classical: bool = False) -> Table:
    """Make the table of a session's or a snapshot's queues; ``is_classical``: no tree is on."""
    queues, tree = source.queues, source.queues.tree
    parent = tree.parent_of_queue.astype(np.int64)
    home, is_member, is_leaf = _pools(parent, queues)
    root = np.arange(len(parent))
    for row, above in enumerate(parent.tolist()):  # parents stand before children
        if above >= 0:
            root[row] = root[above]
    names = source.axis.names
    flavors = flavors_in(queues, names, root, is_leaf)
    deserved = queues.deserved
    if flavors is not None:
        deserved = np.where(flavors.is_flavored, UNLIMITED, deserved)
    is_bounded: BoolVec = np.logical_or.reduce(deserved < UNLIMITED, axis=1)
    is_bounded[PODS] = False
    rows = np.flatnonzero(is_bounded)
    nominal, lending = deserved[rows].copy(), queues.lending_limit[rows].copy()
    borrowing = queues.borrowing_limit[rows].copy()
    is_free = nominal >= UNLIMITED
    lending[is_free & is_leaf] = 0  # what nobody bounds is neither borrowed nor lent
    nominal[is_free & ~is_leaf] = 0
    if flavors is not None:
        pairs = pair_columns(queues, flavors, names)
        nominal, borrowing, lending = (
            np.vstack(both) for both in zip((nominal, borrowing, lending), pairs, strict=True)
        )
        rows = np.append(rows, [pair.resource for pair in flavors.pairs])
    lending[:, is_member] = borrowing[:, is_member] = UNLIMITED
    resources, resource = _numbered(rows)
    is_on = np.array([each.is_on and not is_classical for each in queues.sharing], np.bool_)[root]
    is_single = (parent < 0) & is_leaf
    weights = [each.weight for each in queues.sharing]
    return Table(
        queues,
        source.axis,
        rows,
        Quotas(parent, nominal, borrowing, lending, weights, resource, is_member),
        is_leaf,
        root,
        is_on,
        bool((~is_on & ~is_single & ~is_member).any()),
        home,
        is_member,
        bool(is_member.any()),
        np.array([float(each) for each in weights]),
        resources,
        flavors,
    )


def _numbered(rows: RowVec) -> tuple[RowVec, RowVec]:
    """Return the resources in the order of their first rows, and the number of each row's."""
    number: dict[int, int] = {}
    numbers = [number.setdefault(resource, len(number)) for resource in rows.tolist()]
    return np.array(list(number), np.int64), np.array(numbers, np.int64)


def _pools(parent: RowVec, queues: Any) -> tuple[RowVec, BoolVec, BoolVec]:
    """Return as which queue each counts, whether it is below a pool, and which count as leaves."""
    home = _homes(parent, [each.is_by_usage for each in queues.sharing])
    is_member: BoolVec = home != np.arange(len(parent))
    is_leaf = queues.tree.is_leaf & ~is_member
    is_leaf[home[is_member]] = True
    return home, is_member, is_leaf


def _homes(parent: RowVec, is_by_usage: Sequence[bool]) -> RowVec:
    """Return ``(Q,)`` the topmost queue above each that orders those below it by usage."""
    home: RowVec = np.arange(len(parent))
    for row, above in enumerate(parent.tolist()):  # parents stand before children
        if above >= 0 and (is_by_usage[above] or home[above] != above):
            home[row] = home[above]
    return home


def by_history(session: Session, table: Table) -> Table:
    """Return the table with the weights that past usage leaves, where a plugin tells them.

    Siblings are compared with each other only, so that the scale of their weights is of no account.
    """
    transform, queues = session.weight_transform, np.flatnonzero(table.quotas.parent >= 0)
    if transform is None or not len(table.rows) or not queues.size:
        return table
    resource = GPU if GPU in table.rows else int(table.rows[0])
    parent = table.quotas.parent[queues]
    weights = np.array([float(table.quotas.weight[row]) for row in queues.tolist()])
    groups = np.bincount(parent, weights)[parent]
    weights = np.divide(weights, groups, out=np.zeros_like(weights), where=groups > 0)
    rows, every = np.full(len(queues), resource), np.ones(len(queues), np.bool_)
    told = transform(rows, queues, np.unique(parent, return_inverse=True)[1], every, weights)
    told = told * np.bincount(parent)[parent]  # on average 1, however many siblings there are
    made = list(table.quotas.weight)
    for row, weight in zip(queues.tolist(), told.tolist(), strict=True):
        fine = Fraction(max(weight, 0.0)).limit_denominator(_FINEST)
        made[row] = fine or Fraction(int(weight > 0), _FINEST)
    return replace(table, quotas=table.quotas.weighted(made))


class Now:
    """What queues hold as of now, kept up by what has changed at the leaves."""

    def __init__(self, table: Table, *, is_strict: bool = False) -> None:
        """Hold nothing yet; ``is_strict`` counts non-preemptible work alone."""
        self._table = table
        self._is_strict = is_strict
        self._leaves = np.zeros((len(table.rows), len(table.is_leaf)), np.int64)
        self._holdings = Holdings(table.quotas, self._leaves)
        self._counted: Amounts | None = None
        """What leaves hold by flavor, kept up move by move."""
        self._moves = -1
        self._columns: Amounts | None = None

    def holdings(self, session: Session) -> Holdings:
        """Return what is held; nobody may change it."""
        if session.moves != self._moves:
            self._moves = session.moves
            self._columns = None
            self._catch_up(self._of_leaves(session))
        return self._holdings

    def columns(self, session: Session) -> Amounts:
        """Return the same as columns, ``(F, Q)``; nobody may change them."""
        holdings = self.holdings(session)
        if self._columns is None:
            shape = len(self._table.is_leaf), len(self._table.rows)
            self._columns = np.array(holdings.used, np.int64).reshape(shape).T
        return self._columns

    def copy(self, session: Session) -> Holdings:
        """Return the same, to be changed by whoever asks."""
        return self.holdings(session).copy()

    def note(self, session: Session, tasks: RowVec, node: RowVec, sign: int) -> None:
        """Count tasks that were placed on nodes, or that have left them."""
        if self._counted is not None:
            self._count(session, self._counted, tasks, node, sign)

    def _of_leaves(self, session: Session) -> Amounts:
        if self._table.flavors is None:
            held = session.held_non_preemptible_now if self._is_strict else session.held_now
            leaves: Amounts = held[self._table.rows] * self._table.is_leaf
            return leaves
        if self._counted is None:
            self._counted = np.zeros_like(self._leaves)
            tasks = session.tasks
            runs = ACTIVE_STATES[session.state_now] & (session.node_of_task_now >= 0)
            rows = (runs & (tasks.job_of_task >= 0)).nonzero()[0]
            self._count(session, self._counted, rows, session.node_of_task_now[rows], 1)
        return self._counted.copy()

    def _count(
        self, session: Session, into: Amounts, tasks: RowVec, node: RowVec, sign: int
    ) -> None:
        job = session.tasks.job_of_task[tasks]
        counts = (job >= 0) & (session.jobs.queue_of_job[job] >= 0)
        if self._is_strict:
            counts &= ~session.jobs.is_preemptible[job]
        tasks, node = tasks[counts], node[counts]
        found = np.zeros_like(into)
        where = self._table.home[session.jobs.queue_of_job[job[counts]]]
        self._table.count(session, found, where, tasks, node)
        into += sign * found

    def _catch_up(self, leaves: Amounts) -> None:
        more = leaves - self._leaves
        for at, queue in np.argwhere(more != 0).tolist():
            amount = int(more[at, queue])
            if amount > 0:
                self._holdings.add(queue, ((at, amount),))
            else:
                self._holdings.take(queue, ((at, -amount),))
        self._leaves = leaves


# Answers about one queue at a time, by what is held along its path: where amounts do not add up.
#
# So it is where a queue lends a part of its quota only, and where quotas are by flavor.


def turn_keys(
    holdings: Holdings, queue: RowVec, leaf: RowVec, asks: Sequence[Ask]
) -> tuple[IntVec, IntVec, FloatVec, FloatVec]:
    """Return the key columns of F8 ``(K,)``, for queues on the paths of leaves that ask."""
    found = []
    for row, at, asked in zip(queue.tolist(), leaf.tolist(), asks, strict=True):
        entry = entry_at(holdings, row, Work(-1, at, asked))
        near, rest = entry.share.doubles()
        found.append((entry.borrows, entry.share.is_infinite, near, rest))
    columns = list(zip(*found, strict=True)) or [(), (), (), ()]
    return (
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        np.array(columns[2], np.float64),
        np.array(columns[3], np.float64),
    )


def borrow_for_good(holdings: Holdings, table: Table, queue: RowVec, some: Amounts) -> BoolVec:
    """Tell, asked about leaves, where strict work would borrow on its path (F2, F4).

    ``holdings`` are of strict work, and ``some`` is ``(F, K)``.
    """
    over = np.zeros(len(queue), np.bool_)
    for at in np.flatnonzero(table.is_leaf[queue]).tolist():
        over[at] = is_beyond_quota(holdings, int(queue[at]), some_of(some[:, at]))
    return over


def is_beyond_quota(holdings: Holdings, leaf: int, asked: Ask) -> bool:
    """Tell whether a queue on a path would hold more than its quota of what is asked for."""
    rows = [at for at, _ in asked]
    holdings.add(leaf, asked)
    over = any(holdings.is_over(node, rows) for node in holdings.rows.path(leaf))
    holdings.take(leaf, asked)
    return over


def are_full(holdings: Holdings, table: Table, queue: RowVec, some: Amounts) -> BoolVec:
    """Tell, asked about the leaf of a job, whether its path has no room now for ``(F, K)``."""
    full = np.zeros(len(queue), np.bool_)
    for at in np.flatnonzero(table.is_leaf[queue]).tolist():
        full[at] = not holdings.fits(int(queue[at]), some_of(some[:, at]))
    return full


# Whether binds have room beside all that still leaves, where amounts do not add up.
#
# All binds of the cycle count at once, in whatever order they were decided: where they have no room
# together, each waits until enough has left for all.


class Beside:
    """What pods on nodes hold, leaving or not, and what is to be bound in this cycle."""

    def __init__(self, session: Session, table: Table) -> None:
        """Count them all."""
        self._session, self._table = session, table
        here = HOLDING_STATES[session.tasks.state]
        self._is_new: BoolVec = session.state_now == TaskState.ALLOCATED
        firm = np.zeros_like(here)
        owned = session.tasks.job_of_task >= 0
        firm[owned] = ~session.jobs.is_preemptible[session.tasks.job_of_task[owned]]
        self._all = self._counted(here | self._is_new)
        self._firm = self._counted((here | self._is_new) & firm)

    def _counted(self, counts: BoolVec) -> Holdings:
        session, table = self._session, self._table
        leaves = np.zeros((len(table.rows), len(table.is_leaf)), np.int64)
        job = session.tasks.job_of_task
        counts &= job >= 0
        rows = counts.nonzero()[0]
        queue = session.jobs.queue_of_job[job[rows]]
        rows, queue = rows[queue >= 0], queue[queue >= 0]
        node = np.where(
            self._is_new[rows], session.node_of_task_now[rows], session.tasks.node_of_task[rows]
        )
        for leaf in np.unique(queue).tolist():
            at = queue == leaf
            for row, amount in table.held_by(session, rows[at], node[at]):
                leaves[row, table.home[leaf]] += amount
        return Holdings(table.quotas, leaves)

    def codes(self, queue: RowVec, job: RowVec) -> CodeVec:
        """Return, asked about leaves, the code of each job that has to wait, or 0."""
        codes = np.zeros(len(queue), np.int16)
        session = self._session
        for at in np.flatnonzero(self._table.is_leaf[queue]).tolist():
            leaf, ask = int(queue[at]), self._asked(int(job[at]))
            self._all.take(leaf, ask)
            codes[at] = 0 if self._all.fits(leaf, ask) else int(refusals.NO_ROOM)
            self._all.add(leaf, ask)
            if not codes[at] and not session.jobs.is_preemptible[job[at]]:
                self._firm.take(leaf, ask)
                codes[at] = int(refusals.STRICT) * is_beyond_quota(self._firm, leaf, ask)
                self._firm.add(leaf, ask)
        return codes

    def _asked(self, job: int) -> Ask:
        tasks = np.array(self._session.jobs.tasks[job], np.int64)
        tasks = tasks[self._is_new[tasks]]
        return self._table.held_by(self._session, tasks, self._session.node_of_task_now[tasks])
