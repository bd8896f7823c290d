"""Strict priority: a queue of higher priority gets all it asks for before the next one anything.

Equal priorities are served first come, first served. Quotas and weights mean nothing here.
"""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kaisched import (
    PODS,
    Amounts,
    Claim,
    CodeVec,
    IntVec,
    Kind,
    Moves,
    Plugin,
    PluginRefusal,
    Proposal,
    Reason,
    RowVec,
    Session,
    Unit,
    hookimpl,
    larger_bounds,
    roll_up,
)

ABOVE_LIMIT = PluginRefusal(
    "AboveLimit",
    "a queue above it may hold no more",
    cure="Raise the limit of the queue that is named.",
    tried=("limit",),
)
NOT_LOWER = PluginRefusal(
    "NotLower",
    "what runs has no lower priority",
    cure="Wait, or raise the priority of the queue.",
    is_freeable=True,
)


class StrictPriority(Plugin):
    """Serves queues by priority, and lets them take from lower ones whenever they need to."""

    name = "strict-priority"
    refusals = (ABOVE_LIMIT, NOT_LOWER)

    @hookimpl
    def fair_share(self, session: Session) -> Amounts:
        """Give each leaf queue what it asks for while there is something left."""
        queues, left = session.queues, session.total.copy()
        share = np.zeros_like(session.requested)
        for queue in np.argsort(-queues.priority, kind="stable").tolist():
            if queues.tree.is_leaf[queue]:
                wanted = np.minimum(session.requested[:, queue], queues.limit[:, queue])
                share[:, queue] = np.minimum(wanted, left)
                left -= share[:, queue]
        return roll_up(share, queues.tree)

    @hookimpl
    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec]:
        """Put the highest priority first."""
        return (-session.queues.priority[queue],)

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
        over = (ask > 0) & (held + ask > session.queues.limit[:, queue])
        return over.any(axis=0) * np.int16(ABOVE_LIMIT)

    @hookimpl
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Spare the jobs of queues whose priority is not lower."""
        if claim.action != "reclaim":
            return None
        priority = session.queues.priority
        spared = priority[session.jobs.queue_of_job[job]] >= priority[claim.queue]
        return spared * np.int16(NOT_LOWER)

    @hookimpl
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Name the queue whose limit is in the way, or the priority that is too low."""
        queues, own = session.queues, int(session.jobs.queue_of_job[job])
        if code == NOT_LOWER:
            lowest = f"queue {queues.name[own]} has priority {queues.priority[own]}"
            return Reason(f"{lowest}, and no work of a lower one would make room")
        for row in queues.tree.path(own).tolist():
            full = session.held_now[:, row] >= queues.limit[:, row]
            full[PODS] = False
            if full.any():
                return Reason(f"queue {queues.name[row]} holds all that its limit allows")
        return None

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose a limit that leaves room for the job."""
        if code == ABOVE_LIMIT:
            yield from larger_bounds(session, job, Kind.LIMIT, session.queues.limit)

    @hookimpl
    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], str] | None:
        """Say whose priority was higher."""
        queues, of_job = session.queues, session.jobs.queue_of_job
        taker = f"queue {queues.name[claim.queue]} has priority {queues.priority[claim.queue]}"
        givers = sorted({int(of_job[unit.job]) for unit in units})
        lower = ", ".join(f"{queues.name[row]} {queues.priority[row]}" for row in givers)
        return lambda _: f"{taker}, above {lower}"

    @hookimpl
    def broken_rules(self, moves: Moves) -> Iterator[str]:
        """Check that nobody gave way to a queue whose priority is not higher."""
        jobs, priority = moves.snapshot.jobs, moves.snapshot.queues.priority
        row_of = {name: row for row, name in enumerate(jobs.name)}
        for each in moves.result.evictions:
            if each.action == "reclaim":
                giver = jobs.queue_of_job[moves.snapshot.tasks.job_of_task[each.task]]
                taker = jobs.queue_of_job[row_of[each.beneficiary]]
                if giver != taker and priority[giver] >= priority[taker]:
                    yield f"SP1 pod {each.pod} gives way to a queue of no higher priority"
