"""Plain shares: a queue takes its quota from who holds more than theirs, and so with its share.

A small policy for the tests of the host: who may take from whom is decided by the share alone, so
that what such a test says cannot rest on the finer rules of another policy.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    IntVec,
    Kind,
    Plugin,
    PluginRefusal,
    Problem,
    Proposal,
    Reason,
    RowVec,
    Session,
    Units,
    asked_of,
    fairshare,
    format_amount,
    hookimpl,
    larger_bounds,
    roll_up,
)

OVER_LIMIT = PluginRefusal(
    "OverLimit",
    "it would take a queue over its limit",
    cure="Raise the limit of the queue.",
    tried=("limit",),
)
OVER_SHARE = PluginRefusal(
    "OverShare",
    "its queue would take more than its share",
    cure="Raise the quota of the queue.",
    tried=("quota",),
)
WITHIN_SHARE = PluginRefusal(
    "WithinShare",
    "the queue that holds it has no more than it may keep",
    cure="Wait, or raise the quota of the job's queue.",
    is_freeable=True,
    is_weak=True,
    tried=("quota",),
)


class PlainShares(Plugin):
    """Lets queues take up to their quotas what others hold above theirs, and so with shares."""

    name = "plain-shares"
    refusals = (OVER_LIMIT, OVER_SHARE, WITHIN_SHARE)

    @hookimpl
    def fair_share(self, session: Session) -> Amounts:
        """Divide what there is by quota, priority and weight."""
        queues = session.queues
        entitlements = Entitlements(
            deserved=queues.deserved,
            limit=queues.limit,
            request=roll_up(session.requested_by_jobs, queues.tree),
            weights=queues.weight,
            priority=queues.priority,
            rank=np.arange(len(queues)),
        )
        return fairshare.fair_share(
            queues.tree,
            session.total,
            entitlements,
            session.axis.unit,
            session.weight_transform,
            start=session.head_start,
            weight_mode="quota" if session.over_quota_weights == "quota" else "equal",
        )

    @hookimpl
    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec, IntVec, FloatVec]:
        """Put who stays within its quota first, then by priority, then who has least of its own."""
        quota = session.queues.deserved.take(queue, axis=1)
        is_over = (held + ask > quota).any(axis=0).astype(np.int64)
        own = np.maximum(session.fair_share.take(queue, axis=1), quota)
        part = (held + ask) / np.clip(own, 1, np.maximum(session.total, 1)[:, None])
        part[PODS] = 0.0
        return is_over, -session.queues.priority[queue], part.max(axis=0)

    @hookimpl
    def queue_gate(
        self,
        session: Session,
        action: str,
        queue: RowVec,
        job: RowVec,
        ask: Amounts,
        held: Amounts,
        held_non_preemptible: Amounts,
    ) -> CodeVec:
        """Keep every queue within its limit."""
        over = (ask > 0) & (held + ask > session.queues.limit.take(queue, axis=1))
        return over.any(axis=0) * np.int16(OVER_LIMIT)

    @hookimpl
    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Let a queue take from others up to its share."""
        if action != "reclaim":
            return None
        queue = session.jobs.queue_of_job[job]
        over = (ask > 0) & (session.held_now[:, queue] + ask > session.fair_share[:, queue])
        over[PODS] = False
        return over.any(axis=0) * np.int16(OVER_SHARE)

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Take from a queue for as long as it holds more than it may keep."""
        if claim.action != "reclaim":
            return None
        codes = np.zeros(len(units), np.int16)
        sets = taken if units.alternative is None else units.alternative
        left: dict[tuple[int, int], Amounts] = {}
        for at in np.flatnonzero(taken).tolist():
            queue = int(units.queue[at])
            if queue == claim.queue:
                codes[at] = WITHIN_SHARE
                continue
            has = left.setdefault((int(sets[at]), queue), session.held_now[:, queue].copy())
            if _is_over(session, claim, has, queue):
                has -= units.amounts[:, at]
            else:
                codes[at] = WITHIN_SHARE
        return codes

    @hookimpl
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Name the queue whose limit is in the way, and what it would hold."""
        ask, queues, names = asked_of(session, job), session.queues, session.axis.names
        if code != OVER_LIMIT:
            return None
        for row in queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
            held, limit = session.held_now[:, row], queues.limit[:, row]
            for at in np.flatnonzero((ask > 0) & (held + ask > limit)).tolist():
                amounts = [int(each[at]) for each in (held, ask, limit)]
                has, asked, most = (format_amount(names[at], amount) for amount in amounts)
                said = f"queue {queues.name[row]}: {names[at]} {has} held + {asked} asked"
                numbers = dict(zip(("held", "asked", "limit"), amounts, strict=True))
                where = {"queue": queues.name[row], "resource": names[at]}
                return Reason(f"{said} is over its limit of {most}", {**where, **numbers})
        return None

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose a limit or a quota that leaves room for the job."""
        if code == OVER_LIMIT:
            yield from larger_bounds(session, job, Kind.LIMIT, session.queues.limit)
        else:
            yield from larger_bounds(session, job, Kind.QUOTA, session.queues.deserved)

    @hookimpl
    def queue_problems(self, session: Session) -> dict[int, Problem]:
        """Report leaf queues that ask for something of which they have no share."""
        lacks = (session.requested > 0) & (session.fair_share == 0) & session.queues.tree.is_leaf
        lacks[PODS] = False
        found: dict[int, Problem] = {}
        for at, queue in np.argwhere(lacks).tolist():
            what, asked = session.axis.names[at], int(session.requested[at, queue])
            said = f"its jobs ask for {what} {format_amount(what, asked)} and its fair share is 0"
            found.setdefault(queue, Problem("NoFairShare", said))
        return found


def _is_over(session: Session, claim: Claim, held: Amounts, queue: int) -> bool:
    """Tell whether a queue holds more than it may keep of something that a claim asks for."""
    deserved = session.queues.deserved
    is_due = (session.held_now[:, claim.queue] + claim.ask <= deserved[:, claim.queue]).all()
    keeps = (deserved if is_due else session.fair_share)[:, queue]
    asked = claim.ask > 0
    asked[PODS] = False
    return bool(((held > keeps) & (keeps < UNLIMITED))[asked].any())
