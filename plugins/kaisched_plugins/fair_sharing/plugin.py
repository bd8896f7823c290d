"""Fair sharing of what queues lend each other, as answers to the framework's questions."""
# ruff: noqa: ARG002 - a question's arguments are the same for all who answer it

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from kaisched import (
    Amounts,
    Arguments,
    BoolVec,
    Claim,
    CodeVec,
    EvictionReason,
    FloatVec,
    IntVec,
    Moves,
    NodeSet,
    Plugin,
    Proposal,
    Reason,
    RowVec,
    Session,
    Unit,
    Units,
    hookimpl,
    parse_duration,
    shard_setting,
)
from kaisched_plugins.fair_sharing import reasons, refusals
from kaisched_plugins.fair_sharing.choices import Choices
from kaisched_plugins.fair_sharing.claims import claim_codes
from kaisched_plugins.fair_sharing.division import divided, figures, subtree_quotas
from kaisched_plugins.fair_sharing.invariants import broken
from kaisched_plugins.fair_sharing.order import HIGH_PRIORITY, KEYS, WORDS, Pools, head_keys
from kaisched_plugins.fair_sharing.plans import plan_codes, set_codes
from kaisched_plugins.fair_sharing.quotas import is_beyond
from kaisched_plugins.fair_sharing.tables import (
    Beside,
    Now,
    Table,
    are_full,
    borrow_for_good,
    by_history,
    table_in,
    table_of,
)
from kaisched_plugins.fair_sharing.victims import (
    PREEMPT,
    Lines,
    Rules,
    classical_order,
    fair_order,
)
from kaisched_plugins.fair_sharing.work import FINAL, INITIAL, NEVER

Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
_MOST_WEIGHT = 1e9
_WEEK_S = 7 * 24 * 3600.0
_ALLOWED = ((FINAL,), (INITIAL,), (FINAL, INITIAL))


class FairSharingArguments(Arguments):
    """How borrowed room is taken back; quotas, limits and weights are the queues'."""

    preemption_strategies: tuple[Strategy, ...] = Field(
        default=(FINAL, INITIAL),
        description="What entitles to work of another queue: the first, and in a second search the "
        "second. LessThanOrEqualToFinalShare, LessThanInitialShare, or both in this order.",
    )
    high_priority_from: int | None = Field(
        default=None,
        description="Jobs of this priority or a higher one overrule fair sharing: they come first, "
        "and take the least important work below it that borrows, whatever the shares are.",
    )
    is_classical: bool = Field(
        default=False,
        description="Share fairly in no tree, as if every top-level queue said "
        "`fairSharing.enabled: false`.",
    )
    is_compatible: bool = Field(
        default=False,
        description="Decide as Kueue does: evict also what would come first again, and of equal "
        "priorities the newest first, whatever its size.",
    )
    resource_weights: dict[str, float] = Field(
        default={},
        description="How much of the past usage of a queue each resource is, by name (`cpu`, "
        "`memory`, `gpu` or an extended resource); 1 for those left out. For queues with "
        "`admissionScope`.",
    )
    usage_sampling_interval: str = Field(
        default="5m",
        description="What starts in a queue below one with `admissionScope` counts at once as if "
        "it had run for so long.",
    )
    half_life_period: str = Field(
        default="0s",
        description="Half-life of the history, 0 for none; `usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.halfLifePeriod"),
    )
    window_size: str = Field(
        default="1w",
        description="Length of the history; `usageDBConfig` sets it.",
        json_schema_extra=shard_setting("usageDBConfig.usageParams.windowSize"),
    )

    @field_validator("preemption_strategies")
    @classmethod
    def _known(cls, strategies: tuple[Strategy, ...]) -> tuple[Strategy, ...]:
        if strategies not in _ALLOWED:
            raise ValueError(f"write one of them, or [{FINAL}, {INITIAL}]")
        return strategies

    @field_validator("resource_weights")
    @classmethod
    def _are_weights(cls, weights: dict[str, float]) -> dict[str, float]:
        for name, weight in weights.items():
            if not 0 <= weight <= _MOST_WEIGHT:
                raise ValueError(f"{name}: write a number from 0 to {_MOST_WEIGHT:g}")
        return weights

    @field_validator("usage_sampling_interval", "half_life_period", "window_size", mode="before")
    @classmethod
    def _is_duration(cls, value: object) -> str:
        try:
            parse_duration(value)
        except ValueError as error:
            fix = getattr(error, "fix", "")
            raise ValueError(f"{error}; {fix}" if fix else str(error)) from None
        return str(value)

    @cached_property
    def half_life_s(self) -> float:
        """Return the half-life of the history in seconds, 0 for none."""
        return parse_duration(self.half_life_period)

    @cached_property
    def window_s(self) -> float:
        """Return the length of the history in seconds."""
        return parse_duration(self.window_size) or _WEEK_S

    @cached_property
    def counted_s(self) -> float:
        """Return for how many seconds what just started is taken to have run."""
        return parse_duration(self.usage_sampling_interval)

    def weight_of(self, resource: str) -> float:
        """Return the weight of a resource in the usage of a queue."""
        return self.resource_weights.get(resource, 1.0)


Shapes = Sequence[tuple[int, int]]
_TAKING = frozenset({"reclaim", PREEMPT})
_BIND = "bind"
_OF_FLAVORS = frozenset({"node_sets", "on_moves"})
_ORDINARY = int(np.iinfo(np.int64).max)
"""Comes after any priority that overrules fair sharing."""


@dataclass(slots=True)
class Cycle:
    """What is found out when first needed."""

    table: Table | None = None
    now: Now | None = None
    strict: Now | None = None
    choices: Choices | None = None
    pools: Pools | None = None
    beside: Beside | None = None
    lines: Lines | None = None
    """The victims of the claim that was asked about last, by queue."""
    within: set[tuple[str, int]] = field(default_factory=set)
    """The action and job of claims whose present pass lets their queue borrow nothing (F24)."""


class FairSharing(Plugin):
    """Lends what queues do not use, serves who borrows least first, takes back from who borrows."""

    name = "fair-sharing"
    takes_from_own_queue = True
    lends = True
    eviction_kinds = reasons.KINDS
    refusals = refusals.ALL

    Arguments = FairSharingArguments

    @hookimpl
    def session_open(self, session: Session) -> object:
        """Return an empty state."""
        return Cycle()

    @hookimpl
    def session_close(self, session: Session) -> object:
        """Remember the jobs that waited for evictions in vain (F28)."""
        return self._choices(session).waiting(session)

    def rests_on_sums(self, session: Session) -> bool:
        """Promise it where amounts add up, and no order rests on several levels (F20)."""
        table = self._table_of(session)
        return not (table.goes_by_paths or table.has_levels)

    def quotas(self, session: Session) -> Amounts:
        """Return subtree quotas (F1), of several flavors added up."""
        return subtree_quotas(session, self._table_of(session))

    def is_silent(self, session: Session, question: str) -> bool:
        """Promise it about sets of nodes and moves while no queue has flavors."""
        return question in _OF_FLAVORS and self._table_of(session).flavors is None

    # -- flavors -------------------------------------------------------------------------------

    @hookimpl
    def node_sets(
        self, session: Session, action: str, job: int, ask: Amounts, shapes: Shapes
    ) -> Sequence[NodeSet] | None:
        """Return the nodes of each flavor that has room for the job, the first choice first."""
        return self._choices(session).sets(session, job, ask, after_evictions=action in _TAKING)

    @hookimpl
    def on_moves(
        self, session: Session, task: RowVec, node: RowVec, sign: int
    ) -> tuple[RowVec, RowVec] | None:
        """Count what queues hold of each flavor; no filter is stale."""
        cycle: Cycle = session.state[self.name]
        if cycle.table is not None and cycle.table.flavors is not None:
            for now in (cycle.now, cycle.strict):
                if now is not None:
                    now.note(session, task, node, sign)
        return None

    @hookimpl
    def fair_share(self, session: Session) -> Amounts:
        """Tell what each queue would hold if everybody had a share by weight."""
        return divided(session, self._table(session))

    # -- order ---------------------------------------------------------------------------------

    def key_names(self, question: str) -> tuple[str, ...]:
        """Name the keys of queues with their best jobs."""
        del question
        return KEYS if self.arguments.high_priority_from is None else ("-high priority", *KEYS)

    def key_words(self, question: str) -> tuple[str, ...]:
        """Say what each key of queues puts behind."""
        del question
        return WORDS if self.arguments.high_priority_from is None else (HIGH_PRIORITY, *WORDS)

    @hookimpl
    def head_order(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...]:
        """Put first who borrows nothing, the lowest share, the job's priority, its age (F8).

        Without fair sharing the level at which the job borrows stands for both (F20), and between
        queues of one pool their past usage (F31).
        """
        table, jobs = self._table(session), session.jobs
        choices = self._choices(session) if table.goes_by_paths else None
        keys = head_keys(session, table, self._now(session), choices, queue, job, held, ask)
        if table.has_pools:
            keys = self._pools(session, table).in_place_of(keys, queue, held)
        own = *keys, -jobs.priority[job], jobs.created_s[job]
        high = self.arguments.high_priority_from
        if high is None:
            return own
        priority = jobs.priority[job]
        return np.where(priority >= high, -priority, _ORDINARY), *own

    # -- gates ---------------------------------------------------------------------------------

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
        """Keep queues within their room (F3), their limits, and strict work within quota (F4)."""
        table = self._table(session)
        quotas, rows, some = table.quotas, table.rows, ask[table.rows]
        codes = is_beyond(session.queues.limit[:, queue], held, ask) * np.int16(refusals.OVER_LIMIT)
        if action == _BIND and table.goes_by_paths:
            cycle: Cycle = session.state[self.name]
            cycle.beside = cycle.beside or Beside(session, table)
            return np.where(codes == 0, cycle.beside.codes(queue, job), codes)
        if (by_flavor := self._choices(session) if table.flavors is not None else None) is not None:
            some = by_flavor.amounts(session, job, ask)
            codes = np.where(codes == 0, by_flavor.codes(session, queue, job, ask), codes)
            full = np.zeros(len(queue), np.bool_)
        elif quotas.lends_in_part:
            full = are_full(self._now(session).holdings(session), table, queue, some)
        else:
            full = is_beyond(quotas.cap[:, queue], held[rows], some)
        codes = np.where(codes == 0, full * np.int16(refusals.NO_ROOM), codes)
        within = session.state[self.name].within
        if within:
            is_in = [(action, it) in within for it in job.tolist()]
            bound = np.array(is_in, np.bool_) & table.is_leaf[queue]
            has = self._now(session).columns(session)[:, queue] if by_flavor else held[rows]
            over = bound & is_beyond(quotas.subtree[:, queue], has, some)
            codes = np.where(codes == 0, over * np.int16(refusals.BORROWS), codes)
        strict = ~session.jobs.is_preemptible[job]
        if strict.any() and by_flavor is None:
            if quotas.lends_in_part:
                firm = self._strict(session).copy(session)
                over = borrow_for_good(firm, table, queue, some)
            else:
                over = is_beyond(quotas.subtree[:, queue], held_non_preemptible[rows], some)
                over &= ~table.is_member[queue]
            codes = np.where((codes == 0) & strict, over * np.int16(refusals.STRICT), codes)
        return codes

    @hookimpl
    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Keep out who may take from nobody, and strict work that would borrow."""
        if action not in _TAKING:
            return None
        table = self._table(session)
        queue = table.home[session.jobs.queue_of_job[job]]
        now, choices = self._now(session), self._choices(session)
        codes = claim_codes(session, table, now, choices, self._rules, action, job, ask)
        strict = np.flatnonzero(~session.jobs.is_preemptible[job])
        over = choices.always_borrow(session, queue[strict], ask[:, strict])
        codes[strict[over]] = refusals.STRICT
        return codes

    # -- victims -------------------------------------------------------------------------------

    @hookimpl
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Spare other trees, and whom the policies of the claim's queue never let it take from."""
        if claim.action not in _TAKING:
            return None
        table = self._table(session)
        claim, queue = table.claim(claim), table.home[session.jobs.queue_of_job[job]]
        sharing = session.queues.sharing[claim.queue]
        is_own = queue == claim.queue
        spared = np.where(is_own, sharing.within == NEVER, sharing.across == NEVER)
        codes = spared * np.int16(refusals.POLICY)
        other = table.root[queue] != table.root[claim.queue]
        return np.where(other, np.int16(refusals.OTHER_TREE), codes)

    @hookimpl
    def victim_order(
        self, session: Session, claim: Claim, units: Units
    ) -> tuple[RowVec, int] | None:
        """Walk to the queue with the highest share, again and again (F10 to F14); or F21 to F24."""
        if claim.action not in _TAKING:
            return None
        table = self._table(session)
        rules, claim, units = self._rules_in(session, table), table.claim(claim), table.units(units)
        units = table.by_row(session, units)
        holdings = self._now(session).copy(session)
        is_high = rules.is_high(int(session.jobs.priority[claim.job]))
        if table.is_on[claim.queue] or is_high:
            rows, code, lines = fair_order(session, table, holdings, claim, units, rules)
            session.state[self.name].lines = lines
            return rows, code
        session.state[self.name].lines = None
        order = classical_order(session, table, holdings, claim, units, rules)
        within: set[tuple[str, int]] = session.state[self.name].within
        within.discard((claim.action, claim.job))
        if not order.is_borrowing:
            within.add((claim.action, claim.job))
        return order.rows, order.code

    @hookimpl
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Take what shares or quotas entitle to, and nothing that comes first again (F16, F25)."""
        if claim.action not in _TAKING or self.arguments.is_compatible:
            return None
        table = self._table(session)
        rules, claim, units = self._rules_in(session, table), table.claim(claim), table.units(units)
        holdings, lines = self._now(session).copy(session), session.state[self.name].lines
        return set_codes(session, table, rules, holdings, claim, units, lines)

    @hookimpl
    def plan_gate(self, session: Session, claim: Claim, units: Units) -> CodeVec | None:
        """Take nothing that a third job would get, or that comes back with what starts (F16)."""
        if claim.action not in _TAKING or self.arguments.is_compatible:
            return None
        table = self._table(session)
        rules, claim, units = self._rules_in(session, table), table.claim(claim), table.units(units)
        return plan_codes(session, table, rules, self._now(session).copy(session), claim, units)

    @hookimpl
    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec:
        """Guarantee what keeps a queue within its own quota of all that is asked for."""
        table = self._table(session)
        queue = table.home[session.jobs.queue_of_job[job]]
        return self._choices(session).stay_within(session, queue, ask)

    # -- words ---------------------------------------------------------------------------------

    @hookimpl
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Name the queue that is full, or compare the shares."""
        holdings = self._now(session).copy(session)
        table, choices = self._table(session), self._choices(session)
        if code == refusals.BORROWS:
            return reasons.borrows(session, table, holdings, choices, job)
        return reasons.refused(session, table, holdings, choices, job, code)

    @hookimpl
    def proposals(self, session: Session, job: int, code: int) -> Iterator[Proposal]:
        """Propose a quota or a limit that leaves room for the job."""
        return reasons.cures(session, self._table(session), job, code)

    @hookimpl
    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], EvictionReason] | None:
        """Say whose share was higher, and what it comes to."""
        if claim.action not in _TAKING:
            return None
        table, rules = self._table(session), self._rules
        claim = table.claim(claim)
        holdings = self._now(session).copy(session)
        is_high = rules.is_high(int(session.jobs.priority[claim.job]))
        if table.is_on[claim.queue] or is_high:
            return reasons.taken(session, table, holdings, claim, units, is_high=is_high)
        return reasons.taken_by_level(session, table, holdings, claim, units, rules)

    @hookimpl
    def queue_figures(self, session: Session) -> dict[str, FloatVec]:
        """Tell each queue's share, its weight, and the part it borrows of what can be lent."""
        table = self._table(session)
        usage = self._pools(session, table).usage if table.has_pools else None
        return figures(table.quotas, self._now(session).holdings(session), usage)

    @hookimpl
    def broken_rules(self, moves: Moves) -> Iterator[str]:
        """Check room, limits, and who takes from whom."""
        table = table_in(moves.snapshot, is_classical=self.arguments.is_classical)
        return broken(moves, table, self._rules.high_from)

    @property
    def _rules(self) -> Rules:
        arguments = self.arguments
        return Rules(
            arguments.preemption_strategies,
            arguments.is_compatible,
            arguments.high_priority_from,
        )

    def _rules_in(self, session: Session, table: Table) -> Rules:
        """Return the rules with what the queues of pools used lately."""
        rules = self._rules
        if not table.has_pools:
            return rules
        return replace(rules, usage=self._pools(session, table).usage)

    def _pools(self, session: Session, table: Table) -> Pools:
        cycle: Cycle = session.state[self.name]
        if cycle.pools is None:
            cycle.pools = Pools(session, table, self.arguments)
        return cycle.pools

    def _table(self, session: Session) -> Table:
        cycle: Cycle = session.state[self.name]
        if cycle.table is None:
            cycle.table = by_history(session, self._table_of(session))
        return cycle.table

    def _table_of(self, session: Session) -> Table:
        return table_of(session, is_classical=self.arguments.is_classical)

    def _now(self, session: Session) -> Now:
        cycle: Cycle = session.state[self.name]
        if cycle.now is None:
            cycle.now = Now(self._table(session))
        return cycle.now

    def _strict(self, session: Session) -> Now:
        """Return what non-preemptible work holds."""
        cycle: Cycle = session.state[self.name]
        if cycle.strict is None:
            cycle.strict = Now(self._table(session), is_strict=True)
        return cycle.strict

    def _choices(self, session: Session) -> Choices:
        cycle: Cycle = session.state[self.name]
        if cycle.choices is None:
            waited = session.facts_before.get(self.name) or ()
            counted = self._table(session), self._now(session), self._strict(session)
            is_pinned = self.arguments.is_compatible
            cycle.choices = Choices(*counted, waited, is_nominating=is_pinned)
        return cycle.choices
