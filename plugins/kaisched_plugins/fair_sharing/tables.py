"""The quotas of a shard's queues, and what they hold at one moment of a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from kaisched import (
    GPU,
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    FloatVec,
    RowVec,
    Session,
    Units,
)
from kaisched_plugins.fair_sharing.holdings import Ask, Holdings
from kaisched_plugins.fair_sharing.quotas import Quotas

_TABLE = "fair-sharing.table"
_CLASSICAL = "fair-sharing.table.classical"
_FINEST = 1 << 20
"""Weights from history are no finer than one part in so many: products with amounts stay small."""


class Source(Protocol):
    """What has queues, and resources in an order."""

    @property
    def queues(self) -> Any:
        """A table of queues."""

    @property
    def axis(self) -> Any:
        """Resources."""


@dataclass(frozen=True, eq=False)
class Table:
    """What stays the same for as long as no queue changes."""

    queues: object
    axis: object
    rows: RowVec
    """``(F,)`` the resources that somebody bounds; others are not shared out."""
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
        """Return what of ``(R,)`` amounts is shared out."""
        some = amounts[self.rows].tolist()
        return [(at, amount) for at, amount in enumerate(some) if amount > 0]


def table_of(session: Session, *, is_classical: bool = False) -> Table:
    """Return the table of a session's queues, remembered while they are the same."""
    key = _CLASSICAL if is_classical else _TABLE  # a shard's arguments may change
    known: Table | None = session.hints.get(key)
    if known is None or known.queues is not session.queues or known.axis is not session.axis:
        known = session.hints[key] = table_in(session, is_classical=is_classical)
    return known


def table_in(source: Source, *, is_classical: bool = False) -> Table:
    """Make the table of a session's or a snapshot's queues; ``is_classical``: no tree is on."""
    queues, tree = source.queues, source.queues.tree
    parent = tree.parent_of_queue.astype(np.int64)
    is_bounded: BoolVec = np.logical_or.reduce(queues.deserved < UNLIMITED, axis=1)
    is_bounded[PODS] = False
    rows = np.flatnonzero(is_bounded)
    nominal, lending = queues.deserved[rows].copy(), queues.lending_limit[rows].copy()
    borrowing = queues.borrowing_limit[rows].copy()
    home = _homes(parent, [each.is_by_usage for each in queues.sharing])
    is_member: BoolVec = home != np.arange(len(parent))
    is_leaf = tree.is_leaf & ~is_member
    is_leaf[home[is_member]] = True
    lending[:, is_member] = borrowing[:, is_member] = UNLIMITED
    is_free = nominal >= UNLIMITED
    lending[is_free & is_leaf] = 0  # what nobody bounds is neither borrowed nor lent
    nominal[is_free & ~is_leaf] = 0
    root = np.arange(len(parent))
    for row, above in enumerate(parent.tolist()):  # parents stand before children
        if above >= 0:
            root[row] = root[above]
    is_on = np.array([each.is_on and not is_classical for each in queues.sharing], np.bool_)[root]
    is_single = (parent < 0) & is_leaf
    return Table(
        queues,
        source.axis,
        rows,
        Quotas(
            parent,
            nominal,
            borrowing,
            lending,
            [each.weight for each in queues.sharing],
            np.arange(len(rows)),
            is_member,
        ),
        is_leaf,
        root,
        is_on,
        bool((~is_on & ~is_single & ~is_member).any()),
        home,
        is_member,
        bool(is_member.any()),
        np.array([float(each.weight) for each in queues.sharing]),
    )


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
    fold, queues = session.fold, np.flatnonzero(table.quotas.parent >= 0)
    if fold is None or not len(table.rows) or not queues.size:
        return table
    resource = GPU if GPU in table.rows else int(table.rows[0])
    parent = table.quotas.parent[queues]
    weights = np.array([float(table.quotas.weight[row]) for row in queues.tolist()])
    groups = np.bincount(parent, weights)[parent]
    weights = np.divide(weights, groups, out=np.zeros_like(weights), where=groups > 0)
    rows, every = np.full(len(queues), resource), np.ones(len(queues), np.bool_)
    told = fold(rows, queues, np.unique(parent, return_inverse=True)[1], every, weights)
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
        self._moves = -1
        self._columns: Amounts | None = None

    def holdings(self, session: Session) -> Holdings:
        """Return what is held; nobody may change it."""
        if session.moves != self._moves:
            self._moves = session.moves
            self._columns = None
            held = session.held_non_preemptible_now if self._is_strict else session.held_now
            self._catch_up(held[self._table.rows] * self._table.is_leaf)
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

    def _catch_up(self, leaves: Amounts) -> None:
        more = leaves - self._leaves
        for at, queue in np.argwhere(more != 0).tolist():
            amount = int(more[at, queue])
            if amount > 0:
                self._holdings.add(queue, ((at, amount),))
            else:
                self._holdings.take(queue, ((at, -amount),))
        self._leaves = leaves
