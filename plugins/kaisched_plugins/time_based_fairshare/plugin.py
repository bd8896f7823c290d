"""Time-based fairshare: weights ``max(0, W + k (W - U))``, and head starts for time slices."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kaisched import (
    PARTS,
    Amounts,
    BoolVec,
    Claim,
    CodeVec,
    FloatVec,
    IntVec,
    Kind,
    Plugin,
    Proposal,
    RowVec,
    Session,
    Units,
    hookimpl,
    larger_bounds,
)
from kaisched_plugins.time_based_fairshare import refusals
from kaisched_plugins.time_based_fairshare.config import TimeBasedFairshareArguments
from kaisched_plugins.time_based_fairshare.debts import Debts, exact_shares, most_granted
from kaisched_plugins.time_based_fairshare.handover import (
    Handover,
    handover_of,
    indivisible_jobs_of,
)
from kaisched_plugins.time_based_fairshare.history import (
    KEY_NAMES,
    KEY_WORDS,
    Entitlement,
    UsageOrder,
    behind_after,
    behind_before,
    entitlement,
    measured,
    order_of,
    transformed,
)


def _weighed_s(session: Session) -> float:
    return 0.0 if session.usage is None else session.usage.weighed_s


@dataclass(slots=True, eq=False)
class _Cycle:
    usage: FloatVec | None
    """``(R, Q)`` usage that counts against each queue; None if there is none."""
    handover: Handover | None = None
    """None until the first head start is asked for, and without indivisible jobs."""
    is_asked: bool = False
    order: UsageOrder | None = None
    """None until queues are compared, or a claim is judged."""
    plain: Amounts | None = None
    """``(R, Q)`` fair shares as if nothing had been used; None until they are needed."""
    exact: Amounts | None = None
    """``(R, Q)`` fair shares before rounding; None until they are needed."""
    debts: Debts | None = None
    """None until a claim is judged."""


class TimeBasedFairshare(Plugin):
    """Gives queues that have used much of the surplus lately less of it now."""

    name = "time-based-fairshare"
    refusals = (refusals.OTHERS_SLICE, refusals.NOT_WORTH_IT)

    Arguments = TimeBasedFairshareArguments

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Measure the usage of every queue."""
        usage = session.usage
        if usage is None or not self.arguments.k_value or not np.count_nonzero(usage.parts):
            return _Cycle(None)
        return _Cycle(
            measured(
                usage.parts,
                self._entitlement(session),
                is_of_siblings=self.arguments.normalization == "siblings",
                counts_quota=self.arguments.count_in_quota,
            )
        )

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise silence without usage, and without time slices."""
        if question == "head_start":
            return self._handover(session) is None
        cycle: _Cycle = session.state[self.name]
        return cycle.usage is None

    @hookimpl
    def session_close(self, session: Session) -> object:
        """Remember how far queues are behind, and who could have taken free surplus and did not."""
        cycle: _Cycle = session.state[self.name]
        facts = cycle.handover.facts(session) if cycle.handover is not None else {}
        if cycle.usage is not None:
            facts |= behind_after(session, self._behind(session), self._plain(session))
        return facts or None

    @hookimpl
    def over_quota_weights(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        active: BoolVec,
        weights: FloatVec,
    ) -> FloatVec | None:
        """Answer the share weights of the round (R5)."""
        cycle: _Cycle = session.state[self.name]
        if cycle.usage is None:
            return None
        used = cycle.usage[resource, queue]
        if not self.arguments.count_in_share:
            used = np.maximum(used, weights)
        return transformed(self.arguments.k_value, used, group, weights)

    @hookimpl
    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...] | None:
        """Put queues that used more for their weight later where a job is beyond their shares."""
        cycle: _Cycle = session.state[self.name]
        if cycle.usage is None:
            return None
        return self._order(session).keys(queue, held, ask)

    @hookimpl
    def head_order(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...] | None:
        """Put queues that used more for their share later where all else is equal."""
        cycle: _Cycle = session.state[self.name]
        return None if cycle.usage is None else self._order(session).last_keys(queue, ask)

    def key_names(self, question: str) -> tuple[str, ...]:
        """Name the keys of queues."""
        return KEY_NAMES if question == "queue_order" else KEY_NAMES[1:]

    def key_words(self, question: str) -> tuple[str, ...]:
        """Say what each key of queues puts behind."""
        return KEY_WORDS if question == "queue_order" else KEY_WORDS[1:]

    @hookimpl
    def head_start(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        weights: FloatVec,
        has: IntVec,
        wants: IntVec,
        surplus: IntVec,
    ) -> IntVec | None:
        """Answer the surplus that jobs with a time slice take."""
        handover = self._handover(session)
        if handover is None:
            return None
        return handover.head_start(session, resource, queue, weights, has, wants, surplus)

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
        """Let allocate leave room to the jobs with a time slice."""
        handover = self._handover(session)
        if action != "allocate" or handover is None or not handover.has_waiting:
            return None
        session.divide()  # which finds out whose time slice it is
        if not handover.keeps_room:
            return None
        return handover.gate(session, queue, job, ask, held)

    @hookimpl
    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Refuse claims on the surplus that was given to an indivisible job."""
        handover = self._handover(session)
        if action != "reclaim" or handover is None or not handover.has_waiting:
            return None
        session.divide()  # which finds out whose time slice it is
        return handover.claim(session, job, ask) if handover.keeps_room else None

    @hookimpl
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Refuse victims whose slice is young, and victims worth more than is owed."""
        debts = self._debts(session, claim)
        if debts is not None:
            return debts.spared(session, claim, job)
        handover = self._handover(session)
        if claim.action != "reclaim" or handover is None:
            return None
        session.divide()  # which finds out whose time slice goes on
        return handover.spare(session, claim, job)

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Refuse units that are worth more than is owed (R35)."""
        debts = self._debts(session, claim)
        return None if debts is None else debts.refused(session, claim, units, taken)

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose a quota: claims within a quota do not depend on history (R35)."""
        if code == refusals.NOT_WORTH_IT:
            yield from larger_bounds(session, job, Kind.QUOTA, session.queues.deserved)

    def _debts(self, session: Session, claim: Claim) -> Debts | None:
        """Return what queues owe each other; None where debts do not decide."""
        cycle: _Cycle = session.state[self.name]
        usage = session.usage
        if claim.action != "reclaim" or usage is None or cycle.usage is None:
            return None
        handover = self._handover(session)
        cost_s = self._cost_s(session)
        if not cost_s or (handover is not None and handover.has_waiting):
            return None
        if cycle.debts is None:
            plain, in_cluster = self._plain(session), session.total[:, None]
            cycle.debts = Debts(
                plain,
                self._exact(session),
                most_granted(session, plain, self.arguments.k_value),
                self._order(session).lacks_s * in_cluster,
                self._counted(session) * in_cluster * (self._history_s(session) / PARTS),
                cost_s,
                self.arguments.most_cost_s(session.now_s),
                self.arguments.turn_cost_s(session.now_s),
            )
        return cycle.debts

    def _cost_s(self, session: Session) -> float:
        cost_s: float = self.arguments.cost_s(session.now_s)
        return cost_s

    def _order(self, session: Session) -> UsageOrder:
        """Return how far queues are behind their weights."""
        cycle: _Cycle = session.state[self.name]
        usage = session.usage
        assert usage is not None
        if cycle.order is None:
            cycle.order = order_of(
                session,
                usage.parts,
                self._plain(session),
                self._exact(session),
                self._history_s(session),
                self.arguments.turns_s(session.now_s) / self.arguments.history_s(session.now_s),
                self._behind(session),
            )
        return cycle.order

    def _behind(self, session: Session) -> FloatVec:
        """Return how far queues are behind their weights ``(R, Q)``."""
        facts = session.facts_before.get(self.name) or {}
        return behind_before(session, facts, self.arguments.turns_s(session.now_s))

    def _counted(self, session: Session) -> FloatVec:
        """Return the usage ``(R, Q)`` that counts (R23), parts per billion of the cluster."""
        usage = session.usage
        assert usage is not None
        counted = usage.parts.astype(np.float64)
        if self.arguments.count_in_quota:
            return counted
        beyond: FloatVec = np.maximum(counted - self._entitlement(session).quota, 0.0)
        return beyond

    def _history_s(self, session: Session) -> float:
        """Return for how long the history reaches back, as far as it is known."""
        usage = session.usage
        assert usage is not None
        whole_s: float = self.arguments.history_s(session.now_s)
        return min(whole_s, usage.weighed_s)

    def _exact(self, session: Session) -> Amounts:
        """Return the fair shares ``(R, Q)`` before rounding."""
        cycle: _Cycle = session.state[self.name]
        if cycle.exact is None:
            cycle.exact = exact_shares(session, session.weight_transform)
        return cycle.exact

    def _plain(self, session: Session) -> Amounts:
        """Return the fair shares ``(R, Q)`` as if nothing had been used."""
        cycle: _Cycle = session.state[self.name]
        if cycle.plain is None:
            cycle.plain = exact_shares(session, None)
        return cycle.plain

    def _handover(self, session: Session) -> Handover | None:
        """Return the handover of this cycle, None without indivisible jobs."""
        if self.arguments.hand_over == "none" or not self.arguments.k_value:
            return None
        cycle: _Cycle = session.state[self.name]
        if not cycle.is_asked:
            cycle.is_asked = True
            cycle.handover = self._new_handover(session)
        return cycle.handover

    def _new_handover(self, session: Session) -> Handover | None:
        has = self._entitlement(session)
        indivisible_jobs = indivisible_jobs_of(session, has.own)
        if not indivisible_jobs:
            return None
        return handover_of(
            session,
            indivisible_jobs,
            has.quota,
            k=self.arguments.k_value,
            history_s=self.arguments.history_s(session.now_s),
            seen=self.arguments.seen(session.now_s, _weighed_s(session)),
            left=self.arguments.left(session.now_s),
            before=session.facts_before.get(self.name) or {},
        )

    def _entitlement(self, session: Session) -> Entitlement:
        """Return the parts of queues by quota and weight, worked out once in a cycle."""
        has: Entitlement | None = session.found.get(self.name)
        if has is None:
            queues = session.queues
            has = entitlement(queues.tree, queues.deserved, queues.weight, session.total)
            session.found[self.name] = has
        return has
