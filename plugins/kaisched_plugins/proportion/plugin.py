"""Proportion: answers questions about fair shares, the order of queues, and their limits."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from kaisched import (
    UNLIMITED,
    Amounts,
    Arguments,
    BoolVec,
    Claim,
    CodeVec,
    FloatVec,
    IntVec,
    Moves,
    Plugin,
    Problem,
    Proposal,
    Reason,
    RowVec,
    Session,
    Unit,
    Units,
    hookimpl,
    shard_setting,
)
from kaisched_plugins.proportion import reasons, refusals
from kaisched_plugins.proportion.division import divided
from kaisched_plugins.proportion.invariants import broken
from kaisched_plugins.proportion.reasons import cures
from kaisched_plugins.proportion.reclaim import (
    Bounds,
    is_within_quota,
    non_preemptible_codes,
    scenario_codes,
    share_codes,
    victim_codes,
)
from kaisched_plugins.proportion.standing import (
    ENTITLED_NAMES,
    ENTITLED_WORDS,
    RATIO_NAMES,
    RATIO_WORDS,
    Standing,
    codes_beyond,
    firm_quotas,
    growth_codes,
)


class ProportionArguments(Arguments):
    """How the fairness engine behaves; the weights themselves are the shard's and the queues'."""

    reclaimer_utilization_multiplier: float = Field(
        default=1.0,
        ge=1.0,
        le=1000.0,
        allow_inf_nan=False,
        description="Damps reclaim: a reclaimer counts as this much more saturated than it is, and "
        "a queue loses only what exceeds its share by this factor. Counted in thousandths.",
    )
    quota_scope: Literal["project", "pool"] = Field(
        default="project",
        description="What non-preemptible work must be within: the quota in its pool and the sum "
        "of its project's quotas over all pools, or the quota in its pool alone.",
        json_schema_extra=shard_setting("quotaScope"),
    )
    k_value: float = Field(
        default=1.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How strongly past usage counts against a queue; read by time-based fairness.",
        json_schema_extra=shard_setting("kValue"),
    )


_RECLAIM = "reclaim"
_PREEMPT = "preempt"


@dataclass(slots=True)
class _Cycle:
    """Values that are computed on first use: most cycles need none of them."""

    standing: Standing | None = None
    bounds: Bounds | None = None
    has_limits: bool | None = None
    has_non_preemptible: bool | None = None


class Proportion(Plugin):
    """Divides the cluster fairly, puts starved queues first, and keeps queues within bounds."""

    name = "proportion"
    bounds_non_preemptible = True
    refusals = refusals.ALL

    Arguments = ProportionArguments

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return an empty state."""
        return _Cycle()

    @hookimpl
    def fair_share(self, session: Session) -> Amounts:
        """Divide deserved parts first, then the surplus by priority and weight, down the tree."""
        return divided(session)

    def key_names(self, question: str) -> tuple[str, ...]:
        """Name the keys of queues."""
        return ENTITLED_NAMES if question == "queue_order" else RATIO_NAMES

    def key_words(self, question: str) -> tuple[str, ...]:
        """Say what each key of queues puts behind."""
        return ENTITLED_WORDS if question == "queue_order" else RATIO_WORDS

    @hookimpl
    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...]:
        """Put over-utilised queues last, starved queues first, then higher priorities."""
        cycle: _Cycle = session.state[self.name]
        return _standing(session, cycle).entitled(queue, held, ask)

    @hookimpl
    def head_order(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...]:
        """Put queues with the lower dominant share first: with the job, then without it."""
        cycle: _Cycle = session.state[self.name]
        return _standing(session, cycle).ratios(queue, held, ask)

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
    ) -> CodeVec | None:
        """Keep every queue within its limit, and its non-preemptible part within its quota (R17).

        No preemption raises a queue above its fair share at the cost of other queues' shares.
        """
        cycle: _Cycle = session.state[self.name]
        if cycle.has_limits is None:
            cycle.has_limits = bool((session.queues.limit < UNLIMITED).any())
            cycle.has_non_preemptible = not session.jobs.is_preemptible.all()
        codes: CodeVec | None = None
        if cycle.has_limits:
            limit = session.queues.limit.take(queue, axis=1)
            codes = codes_beyond(limit, held, ask, refusals.OVER_LIMIT)
        if cycle.has_non_preemptible:
            is_preemptible = session.jobs.is_preemptible.take(job)
            if not is_preemptible.all():
                deserved = self._firm(session).take(queue, axis=1)
                over = codes_beyond(deserved, held_non_preemptible, ask, refusals.OVER_QUOTA)
                codes = _first(codes, None if over is None else over * ~is_preemptible)
        if action == _PREEMPT:
            codes = _first(codes, growth_codes(session, queue, held, ask))
        return codes

    def rests_on_sums(self, session: Session) -> bool:
        """Promise it while queues are compared level by level, which sums of children predict."""
        return session.fair_tree is session.queues.tree

    @hookimpl
    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Let queues take from others up to their fair share, non-preemptible jobs up to quotas.

        To reclaim (R18), and to have the work of others moved (R38); jobs preempt in their queue.
        """
        codes = non_preemptible_codes(session, self._firm(session), job, ask)
        if action == _PREEMPT:
            return codes
        return _first(codes, share_codes(session, job, ask))

    @hookimpl
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Refuse the jobs of queues that hold no more than their share (R19)."""
        if claim.action != _RECLAIM:
            return None
        return victim_codes(session, self._bounds(session), claim, job)

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Allow units of a queue while it has more than its share, and keep the order (R20-R22)."""
        if claim.action != _RECLAIM:
            return None
        return scenario_codes(session, self._bounds(session), claim, units, taken)

    @hookimpl
    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec:
        """Guarantee requests within the queue's quotas of all requested resources (R33)."""
        return is_within_quota(session, job, ask)

    @hookimpl
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Name the queue and the resource, and the amounts held, requested and allowed."""
        return reasons.refused(session, job, code, self._firm(session))

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose a larger quota or limit, or the end of jobs that use it."""
        return cures(session, job, code)

    @hookimpl
    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], str] | None:
        """Name, for reclaim, what both queues hold before and after, and their shares."""
        return reasons.reclaimed(session, claim, units) if claim.action == _RECLAIM else None

    @hookimpl
    def queue_problems(self, session: Session) -> dict[int, Problem]:
        """Report queues that can never start a job: their fair share is 0."""
        return reasons.without_share(session)

    @hookimpl
    def broken_rules(self, moves: Moves) -> Iterator[str]:
        """Check limits and quotas, and which queues lost to reclaim, how much, in which order."""
        return broken(moves, self.arguments.quota_scope)

    def _firm(self, session: Session) -> Amounts:
        return firm_quotas(session.queues.deserved, session.overdrawn, self.arguments.quota_scope)

    def _bounds(self, session: Session) -> Bounds:
        cycle: _Cycle = session.state[self.name]
        if cycle.bounds is None:
            multiplier = self.arguments.reclaimer_utilization_multiplier
            cycle.bounds = Bounds(session, _standing(session, cycle), multiplier)
        return cycle.bounds


def _standing(session: Session, cycle: _Cycle) -> Standing:
    """Return the columns of this cycle."""
    if cycle.standing is None:
        cycle.standing = Standing.of(session)
    return cycle.standing


def _first(codes: CodeVec | None, others: CodeVec | None) -> CodeVec | None:
    """Return the refusals ``(K,)`` of two questions; the first question's come first."""
    if codes is None or others is None:
        return others if codes is None else codes
    return np.where(codes != 0, codes, others)
