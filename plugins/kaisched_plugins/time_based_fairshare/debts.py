"""Computes what queues owe each other, and which evictions that justifies: R35 of fairness.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kaisched import (
    PODS,
    UNLIMITED,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    Entitlements,
    FloatVec,
    RowVec,
    Session,
    Units,
    fairshare,
    least_charges,
)
from kaisched_plugins.time_based_fairshare import refusals

WeightTransform = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]
_NOT_WORTH_IT = np.int16(refusals.NOT_WORTH_IT)


@dataclass(slots=True, eq=False)
class Debts:
    """What queues owe each other: their shares without history, and their usage."""

    plain: Amounts
    """``(R, Q)`` fair shares as if nothing had been used, fractions of a unit included."""
    exact: Amounts
    """``(R, Q)`` fair shares with fractions of a unit: what rounding gives a queue is not in it."""
    most: Amounts
    """``(R, Q)`` a unit more than the fair share of a queue that had used nothing."""
    lacks: FloatVec
    """``(R, Q)`` what queues lack of their shares (R36), in units times seconds."""
    used: FloatVec
    """``(R, Q)`` usage that counts, in units times seconds."""
    cost_s: float
    """The time for which an evicted pod is assumed to have run."""
    most_s: float
    """The longest such time: what only rounding justifies must be worth as much."""
    turn_s: float
    """Such a time for what ends a turn."""
    known: tuple[Claim, int, FloatVec] | None = None
    """The claim that was judged last, the number of moves then, and the answer."""

    def spared(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return NOT_WORTH_IT ``(K,)`` for jobs whose every unit is worth more than is owed."""
        return self._codes(session, claim, session.jobs.queue_of_job[job], _least(session, job))

    def refused(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Return NOT_WORTH_IT ``(V,)`` for units that are worth more than is owed."""
        return self._codes(session, claim, units.queue, units.amounts * taken)

    def _codes(
        self, session: Session, claim: Claim, queue: RowVec, amounts: Amounts
    ) -> CodeVec | None:
        worth = self._worth(session, claim).take(queue, axis=1)
        over: BoolVec = np.logical_or.reduce(amounts > worth, axis=0)
        return over * _NOT_WORTH_IT if over.any() else None

    def _worth(self, session: Session, claim: Claim) -> FloatVec:
        """Return ``(R, Q)`` how large units of a leaf may be taken; infinite for no limit."""
        known = self.known
        if known is None or known[0] is not claim or known[1] != session.moves:
            known = self.known = (claim, session.moves, self._worths(session, claim))
        return known[2]

    def _worths(self, session: Session, claim: Claim) -> FloatVec:
        tree = session.queues.tree
        worth = np.full(self.used.shape, np.inf)
        above, begin, end = -1, 0, len(tree)
        for level, mine in zip(tree.levels, tree.path(claim.queue)[::-1].tolist(), strict=False):
            if above >= 0 and session.queues.sharing[above].is_by_usage:
                worth[:, begin:end] = np.inf  # one quota, in which priorities entitle, no history
                break
            low, high = level.searchsorted((above + 1, end)).tolist()
            siblings = level[low:high]
            says = self._worth_of(session, claim, mine, siblings)
            # In preorder the subtrees of siblings fill all that is below their parent.
            sizes = tree.end_of_queue.take(siblings) - siblings
            worth[:, begin:end] = np.repeat(says, sizes, axis=1)
            above, begin, end = mine, mine + 1, int(tree.end_of_queue[mine])
        worth[:, claim.queue] = np.inf
        return worth

    def _worth_of(self, session: Session, claim: Claim, mine: int, siblings: RowVec) -> FloatVec:
        """Return ``(R, K)`` how large units of siblings ``mine`` may take; infinite for no limit.

        A unit whose end makes room for the claim is a turn, if it or the claim is larger than all
        that history may grant its queue: one of the two could not take it back. To end it early
        costs the most, and after a short history it is never ended early.
        """
        queues = session.queues
        held = session.held_now
        asked = claim.ask > 0
        asked[PODS] = False
        after = held[:, mine] + claim.ask
        if not (asked & (after > queues.deserved[:, mine])).any():
            return np.full((len(asked), len(siblings)), np.inf)
        theirs, plain = held.take(siblings, axis=1), self.plain.take(siblings, axis=1)
        is_over = asked[:, None] & (theirs > session.fair_share.take(siblings, axis=1))
        is_over &= ~np.logical_or.reduce(is_over & (theirs > plain), axis=0)
        is_beyond = after > self.plain[:, mine]
        is_by_history = is_over | (asked & is_beyond)[:, None]
        owed = self._owed(session, mine, siblings)
        justifies = np.maximum(owed, 0.0)
        lacks = np.maximum(self.lacks[is_beyond, mine, None], 0.0)
        justifies[is_beyond] = np.minimum(justifies[is_beyond], lacks)
        justifies[after > self.exact[:, mine]] *= self.cost_s / self.most_s
        is_turn = is_beyond[:, None] & (plain > 0)
        is_kept = asked[:, None] & (owed < 0) & (theirs < self.most.take(siblings, axis=1))
        is_equal = queues.priority.take(siblings) == queues.priority[mine]
        worth, worth_of_turn = justifies / self.cost_s, justifies / self.turn_s
        granted = self.most - session.axis.unit[:, None]
        could_be_back = (claim.ask <= granted[:, mine])[:, None] * granted.take(siblings, axis=1)
        turn = np.maximum(could_be_back, claim.ask[:, None] - 1)
        worth[is_turn] = np.maximum(np.minimum(worth, turn), worth_of_turn)[is_turn]
        return np.where((is_by_history | is_kept) & is_equal, worth, np.inf)

    def _owed(self, session: Session, mine: int, siblings: RowVec) -> FloatVec:
        """Return ``(R, K)`` what siblings owe to ``mine``, below 0 for what ``mine`` owes them."""
        at = int(siblings.searchsorted(mine))
        weight = weights_of(session, siblings)
        used = self.used.take(siblings, axis=1)
        both = weight + weight[:, at, None]
        owed = weight[:, at, None] * used - weight * used[:, at, None]
        np.divide(owed, both, out=owed, where=both > 0)
        return owed


def exact_shares(session: Session, transform: WeightTransform | None) -> Amounts:
    """Return the fair shares ``(R, Q)`` with fractions of units, maybe without history."""
    queues = session.queues
    entitlements = Entitlements(
        deserved=queues.deserved,
        limit=queues.limit,
        request=session.requested,
        weights=queues.weight,
        priority=queues.priority,
        rank=np.arange(len(queues)),
    )
    return fairshare.fair_share(
        queues.tree,
        session.total,
        entitlements,
        np.ones_like(session.axis.unit),  # a unit that goes to the largest remainder is nobody's
        transform,
        weight_mode="quota" if session.over_quota_weights == "quota" else "equal",
    )


def most_granted(session: Session, plain: Amounts, k: float) -> Amounts:
    """Return ``(R, Q)`` a unit more than the fair share of a queue that had used nothing."""
    surplus = plain - np.minimum(plain, session.queues.deserved)
    most: Amounts = plain + np.ceil(surplus * k).astype(np.int64) + session.axis.unit[:, None]
    return most


def weights_of(session: Session, siblings: RowVec) -> FloatVec:
    """Return the weights ``(R, K)`` by which siblings share a surplus (R5, R12)."""
    queues = session.queues
    weight = np.maximum(queues.weight.take(siblings, axis=1), 0.0)
    if session.over_quota_weights != "quota":
        return weight
    quota = queues.deserved.take(siblings, axis=1)
    quota = np.where(quota == UNLIMITED, session.total[:, None], quota)
    has_quota: BoolVec = np.logical_or.reduce(quota > 0, axis=1)
    return np.where(has_quota[:, None], quota, weight)


def _least(session: Session, job: RowVec) -> Amounts:
    """Return ``(R, K)`` what the smallest unit of running jobs holds at least."""
    jobs, podsets = session.jobs, session.podsets
    shape, first = jobs.shape_of_job.take(job), jobs.first_podset.take(job)
    active = session.podset_active_now
    runs = active.take(first)
    pods = np.where(runs > podsets.minimum.take(first), 1, runs)
    is_plain = (jobs.podset_count.take(job) == 1) & (shape >= 0)
    each = least_charges(session.shapes).take(shape, axis=1)
    least: Amounts = each * np.where(is_plain, pods, 0)
    return least
