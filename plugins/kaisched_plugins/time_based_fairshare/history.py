"""Past usage as the division counts it, and the order of queues by it: R23, R24 and R36.

Usage, quotas and what follows from them are whole parts per billion of the cluster in float64, so
that their sums are exact in any order. Columns are in preorder, siblings side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kaisched import (
    PARTS,
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    FloatVec,
    IntVec,
    RowVec,
    Session,
)


@dataclass(frozen=True, slots=True, eq=False)
class Entitlement:
    """The parts of queues by quota and weight alone. ``(R, Q)`` parts per billion."""

    quota: FloatVec
    """The quota; an unlimited one is the whole part of the parent."""
    surplus: FloatVec
    """The rest of the parent's part after quotas: the same number for all siblings."""
    whole: FloatVec
    """The parent's part: the same number for all siblings."""
    own: FloatVec
    """The queue's part: its quota, and its weight's part of the surplus."""
    family: tuple[tuple[RowVec, RowVec, RowVec], ...]
    """By depth: its queues, the start of each group of siblings among them, and the groups."""


def entitlement(tree: Any, deserved: Amounts, weight: FloatVec, total: Amounts) -> Entitlement:
    """Divide the cluster by quotas and weights, as if every queue wanted all of it.

    Args:
        tree: ``Q`` queues.
        deserved: ``(R, Q)`` quotas, UNLIMITED for the whole part of the parent.
        weight: ``(R, Q)`` over-quota weights; 0 or less takes no surplus.
        total: ``(R,)`` what the cluster has.

    """
    size = np.maximum(total, 1)[:, None]
    is_unlimited = deserved == UNLIMITED
    quota = np.floor(np.where(is_unlimited, 0, deserved) / size * PARTS)
    surplus, whole, own = (np.empty(quota.shape) for _ in range(3))
    takes = np.maximum(weight, 0.0)
    family = []
    for rows in tree.levels:
        parent = tree.parent_of_queue[rows]
        start = np.flatnonzero(np.diff(parent, prepend=-2))
        group = np.repeat(np.arange(len(start)), np.diff(start, append=len(rows)))
        above = own[:, parent] if parent[0] >= 0 else np.full((len(own), len(rows)), float(PARTS))
        mine = np.where(is_unlimited[:, rows], above, quota[:, rows])
        left = np.maximum(above - np.add.reduceat(mine, start, axis=1)[:, group], 0.0)
        weights = takes[:, rows]
        sums = np.array([np.bincount(group, row, len(start)) for row in weights])[:, group]
        part = np.divide(weights, sums, out=np.zeros_like(weights), where=sums > 0)
        quota[:, rows], surplus[:, rows], whole[:, rows] = mine, left, above
        own[:, rows] = mine + np.floor(left * part)
        family.append((rows, start, group))
    return Entitlement(quota, surplus, whole, own, tuple(family))


def measured(
    parts: Amounts, has: Entitlement, *, is_of_siblings: bool, counts_quota: bool
) -> FloatVec:
    """Return the usage ``(R, Q)`` that counts against each queue, 0 to 1 for sound data.

    Args:
        parts: ``(R, Q)`` decayed usage at every level, parts per billion of the cluster.
        has: of the same queues.
        is_of_siblings: measure against the siblings' part (R24); else against the cluster.
        counts_quota: count what the quota covers too (R23).

    """
    counted = parts.astype(np.float64)
    if not counts_quota:
        counted -= has.quota
        np.maximum(counted, 0.0, out=counted)
    if not is_of_siblings:
        counted /= PARTS
        return counted
    reach = has.whole if counts_quota else has.surplus
    together = np.empty_like(counted)
    for rows, start, group in has.family:
        used = np.add.reduceat(counted.take(rows, axis=1), start, axis=1)
        together[:, rows] = used.take(group, axis=1)
    np.maximum(together, reach, out=together)
    # Where nothing may be used and nothing was, 0 / 1 is 0.
    np.maximum(together, 1.0, out=together)
    counted /= together
    return counted


def transformed(k: float, usage: FloatVec, group: RowVec, weights: FloatVec) -> FloatVec:
    """Return ``max(0, W + k (W - U))`` ``(K,)``; groups without any usage keep their weights.

    Args:
        k: how strongly usage counts.
        usage: ``(K,)``.
        group: ``(K,)`` rows with the same number share one surplus.
        weights: ``(K,)`` normalised to 1 over each group.

    """
    has_usage: BoolVec = np.bincount(group, usage) > 0
    answer: FloatVec = np.maximum(weights + k * (weights - usage), 0.0)
    return np.where(has_usage.take(group), answer, weights)


# The order of queues by what they used: rule R36 of docs/explanation/fairness.md.


KEY_NAMES = (
    "beyond its share with the job (0 no, 1 yes)",
    "-lacks of its share, in seconds of the cluster",
)
"""What the keys of :meth:`UsageOrder.keys` are, for programs."""
KEY_WORDS = (
    "{whose} would be beyond its share with the job, and the other queue would not",
    "{whose} lacks less of its share: {own} s of the whole cluster against {other} s",
)
"""What puts a queue behind by each of these keys, for people."""

Facts = dict[str, list[float]]
_GAIN = 4.0
"""How much more counts what queues were behind when the window passed on (:func:`behind_before`).

With 1, a queue whose turn comes once in more than a window gets each turn too early.
"""
_PART_OF_TURNS = 4
"""That counts up to what is asked for, times the time of turns divided by this: it is about whose
turn it is, and not to pay back what queues could not use."""
_BEHIND, _SINCE = "behind/", "behind since"


@dataclass(frozen=True, slots=True, eq=False)
class UsageOrder:
    """What queues may hold whatever they used, and what they lack of their shares."""

    due: Amounts
    """``(R, Q)`` the share with history before rounding; or, if that is less, the smaller of the
    share with history and that without it: room that a claim would take back without any debt."""
    plain: Amounts
    """``(R, Q)`` the shares without history: a larger job is a turn, and never within its share."""
    lacks_s: FloatVec
    """``(R, Q)`` of what the history has, in seconds of the whole cluster."""
    carried_s: FloatVec
    """``(R, Q)`` likewise, of what was there before, too; see :func:`behind_before`."""
    total: Amounts
    turns_s: float
    """Over how long turns are evened out."""

    def keys(self, queue: RowVec, held: Amounts, ask: Amounts) -> tuple[IntVec | FloatVec, ...]:
        """Return the key columns ``(K,)`` of queues, low first (R36)."""
        is_beyond = held + ask > self.due.take(queue, axis=1)
        is_beyond |= ask > self.plain.take(queue, axis=1)
        is_beyond &= ask > 0
        is_beyond[PODS] = False
        last = self._ahead(queue, ask, is_beyond)
        is_any = last > -np.inf
        return is_any.astype(np.int64), np.where(is_any, last, 0.0)

    def last_keys(self, queue: RowVec, ask: Amounts) -> tuple[FloatVec, ...]:
        """Return the key columns ``(K,)`` of queues that are equal otherwise, low first."""
        asked = ask > 0
        asked[PODS] = False
        return (self._ahead(queue, ask, asked),)

    def _ahead(self, queue: RowVec, ask: Amounts, counts: BoolVec) -> FloatVec:
        """Return ``(K,)`` what queues have more than their shares, most over the resources."""
        most = ask / np.maximum(self.total, 1)[:, None] * (self.turns_s / _PART_OF_TURNS)
        carried = np.clip(_GAIN * self.carried_s.take(queue, axis=1), -most, most)
        ahead = -(self.lacks_s.take(queue, axis=1) + carried)
        most_of_all: FloatVec = np.where(counts, ahead, -np.inf).max(axis=0)
        return most_of_all


def order_of(
    session: Session,
    used: Amounts,
    plain: Amounts,
    exact: Amounts,
    history_s: float,
    turns: float,
    behind_s: FloatVec,
) -> UsageOrder:
    """Return the order of a cycle.

    Args:
        session: of the cycle.
        used: ``(R, Q)`` usage, parts per billion of the cluster.
        plain: ``(R, Q)`` the fair shares as if nothing had been used.
        exact: ``(R, Q)`` the fair shares before rounding.
        history_s: the length of the history that the usage is an average of.
        turns: over how many histories turns are evened out.
        behind_s: ``(R, Q)`` of :func:`behind_before`.

    """
    lately = used.astype(np.float64) * (history_s / PARTS)
    lacks = _shortfall(session, lately, plain)
    lacks[session.queues.weight <= 0] = -np.inf
    due = np.maximum(exact, np.minimum(session.fair_share, plain))
    return UsageOrder(due, plain, lacks, behind_s, session.total, history_s * turns)


def behind_before(session: Session, facts: Facts, most_s: float) -> FloatVec:
    """Return ``(R, Q)`` how far queues are behind their weights as a cycle opens.

    In seconds of the whole cluster: what siblings held together, each by its share without history,
    less what the queue held of it. Usage forgets what leaves its window, and with it the part of a
    turn that a queue is still owed; this does not.

    Args:
        session: of the cycle.
        facts: what the cycle before remembered, see :func:`behind_after`.
        most_s: no queue is further behind or ahead, so that one that waits in vain piles up little.

    """
    queues, count = session.queues, len(session.axis)
    passed_s = session.now_s - facts[_SINCE][0] if _SINCE in facts else 0.0
    passed_s = min(max(passed_s, 0.0), most_s)
    told = np.zeros((2 * count, len(queues)))
    for row, name in enumerate(queues.name):
        column = facts.get(_BEHIND + name)
        if column is not None and len(column) == len(told):
            told[:, row] = column
    return np.clip(told[:count] + told[count:] * passed_s, -most_s, most_s)


def behind_after(session: Session, behind_s: FloatVec, plain: Amounts) -> Facts:
    """Return how far queues are behind, and how fast that grows, for the next cycle to go on from.

    Args:
        session: at the end of the cycle.
        behind_s: ``(R, Q)`` of :func:`behind_before`.
        plain: ``(R, Q)`` the fair shares as if nothing had been used.

    """
    queues = session.queues
    held = session.held_now / np.maximum(session.total, 1)[:, None]
    columns = np.concatenate((behind_s, _shortfall(session, held, plain)))
    facts = {_SINCE: [session.now_s]}
    for at in np.flatnonzero(columns.any(axis=0)).tolist():
        facts[_BEHIND + queues.name[at]] = columns[:, at].tolist()
    return facts


def _shortfall(session: Session, amounts: FloatVec, plain: Amounts) -> FloatVec:
    """Return ``(R, Q)`` what siblings have together, each by its share, less its own.

    The shares are those without history. Queues without one lack nothing.
    """
    group = session.queues.tree.parent_of_queue + 1
    shortfall = np.zeros(amounts.shape)
    for row, part in enumerate(np.minimum(plain, session.total[:, None])):
        own = np.where(part > 0, amounts[row], 0.0)
        together = np.bincount(group, part)
        each = np.bincount(group, own) / np.maximum(together, 1.0)
        shortfall[row] = part * each[group] - own
    return shortfall
