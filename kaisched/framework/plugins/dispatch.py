"""Asks the plugins: every question is a function, made from the question's declaration.

The functions are compiled once per shard (and per probe). A plugin that raises or answers nonsense
is named in the session's failures; :mod:`~.questions` declares what happens then.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.framework.plugins.named_keys import NamedKey
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.plugins.probe import NULL
from kaisched.framework.plugins.registry import Registry
from kaisched.framework.plugins.specification import PROJECT, QUESTIONS
from kaisched.framework.plugins.unserved import requires_level, without_topology
from kaisched.framework.report.records import EvictionReason
from kaisched.framework.session.session import Session
from kaisched.objects.gangs import KNOWN, WORKLOADS
from kaisched.objects.workloads import table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Concatenate, ParamSpec

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.advice.advice import Proposal
    from kaisched.framework.invariants.sums import Moves
    from kaisched.framework.plugins.answers import Answers
    from kaisched.framework.plugins.probe import Probe
    from kaisched.framework.plugins.registry import PluginSetting
    from kaisched.framework.report.records import Problem, Reason
    from kaisched.framework.session.node_sets import NodeSets
    from kaisched.framework.session.session import Fold
    from kaisched.framework.session.units import Claim, Unit, Units
    from kaisched.objects.workloads import Table

    _P = ParamSpec("_P")
    Columns = list[IntVec | FloatVec]
    Stale = tuple[RowVec, RowVec]

_BARRED = np.int16(Refusal.ACTION_FAILED)


def workloads_of(plugins: Iterable[PluginSetting]) -> Table:
    """Ask every plugin for the kinds of workload that it groups, in order.

    Raises:
        PluginContractError: an answer is no sequence of rows, or a row makes no sense.

    """
    answers = Registry(plugins).answers("workloads", NULL)
    rows = QUESTIONS["workloads"].over(answers)()
    return table_of((*rows, *WORKLOADS)) if rows else KNOWN


class Questions:
    """Every question of the specification, ready to be asked."""

    def __init__(self, registry: Registry, probe: Probe = NULL) -> None:
        """Compile the answers of a shard's plugins."""
        self._watched = lru_cache(maxsize=1)(partial(Questions, registry))  # a loop has one probe
        self._answers = {question: registry.answers(question, probe) for question in QUESTIONS}
        self._may_speak = {
            question: combine.promise.over(self._answers[question])
            for question, combine in QUESTIONS.items()
            if combine.promise is not None
        }
        self._open = self._asker(Plugin.session_open)
        self._close = self._asker(Plugin.session_close)
        self.fair_share: Callable[[Session], Amounts | None] = self._asker(Plugin.fair_share)
        """Return the fair shares ``(R, Q)``, or None without an answer."""
        self.others_divide = any(
            not answer.source.startswith(f"{PROJECT} ")
            for question, combine in QUESTIONS.items()
            if combine.abandons
            for answer in self._answers[question]
        )
        """True when the cycle is abandoned if a plugin that did not come with the host fails."""
        self._compile_orders()
        self._compile_gates()
        self._compile_nodes()
        self._compile_words()

    def _compile_orders(self) -> None:
        """Compile the questions about order, whose answers are key columns, low first."""
        self.queue_order: Callable[[Session, RowVec, Amounts, Amounts], Columns] = self._asker(
            Plugin.queue_order
        )
        self._head_order = self._asker(Plugin.head_order)
        self._has_heads = bool(self._answers["head_order"])
        self.job_order: Callable[[Session, RowVec], Columns] = self._asker(Plugin.job_order)
        self.task_order: Callable[[Session, RowVec], Columns] = self._asker(Plugin.task_order)
        self.subgroup_order: Callable[[Session, IntVec, IntVec], Columns] = self._asker(
            Plugin.subgroup_order
        )

    def _compile_gates(self) -> None:
        """Compile the gates, whose answers are codes, or None for no objection, and the batches."""
        self._job_gate = self._asker(Plugin.job_gate)
        self.claim_gate: Callable[[Session, str, RowVec, Amounts], CodeVec | None] = self._asker(
            Plugin.claim_gate
        )
        self.victim_filter: Callable[[Session, Claim, RowVec], CodeVec | None] = self._asker(
            Plugin.victim_filter
        )
        self._scenario_gate = self._over("scenario_gate", self._answers["scenario_gate"])
        self.victim_order: Callable[[Session, Claim, Units], tuple[RowVec, int] | None] = (
            self._asker(Plugin.victim_order)
        )
        """Return the units in the order in which they go, or None for the host's order."""
        self.orders_victims = bool(self._answers["victim_order"])
        self.plan_gate: Callable[[Session, Claim, Units], CodeVec | None] = self._asker(
            Plugin.plan_gate
        )
        orders = self._answers["victim_order"]
        self.takes_from_own_queue = any(it.owner.takes_from_own_queue for it in orders)
        """True when reclaim takes from the claim's own queue, too."""
        gates = self._answers["queue_gate"]
        self._queue_gate = self._asker(Plugin.queue_gate)
        self.has_queue_gates = bool(gates)
        self.bounds_non_preemptible = any(it.owner.bounds_non_preemptible for it in gates)
        """True when non-preemptible jobs stay within the quotas on their path."""
        self.batch_size: Callable[[Session, RowVec], IntVec] = self._asker(Plugin.batch_size)
        self.next_batch: Callable[[Session, int], RowVec | None] = self._asker(Plugin.next_batch)

    def _compile_nodes(self) -> None:
        """Compile the questions about nodes."""
        self.node_filter: Callable[[Session, int, RowVec], CodeVec | None] = self._asker(
            Plugin.node_filter
        )
        self.node_room: Callable[[Session, int, RowVec], IntVec | None] = self._asker(
            Plugin.node_room
        )
        self.node_score: Callable[[Session, int, RowVec, IntVec], FloatVec] = self._asker(
            Plugin.node_score
        )
        self.spreads_shares = self._asker(Plugin.spreads_shares)
        self._honors_topology = any(it.owner.honors_topology for it in self._answers["node_sets"])
        self.has_rooms = bool(self._answers["node_room"])
        self.highest_score = sum(answer.weight for answer in self._answers["node_score"])

    def _compile_words(self) -> None:
        """Compile the questions whose answers people read."""
        self._is_guaranteed = self._asker(Plugin.is_guaranteed)
        self.refusal_reason: Callable[[Session, str, int, int], Reason | None] = self._asker(
            Plugin.refusal_reason
        )
        self._proposals = self._asker(Plugin.proposals)
        self._eviction_reason = self._asker(Plugin.eviction_reason)
        self._eviction_kinds = frozenset(
            kind
            for answer in self._answers["eviction_reason"]
            for kind in answer.owner.eviction_kinds
        )
        self.queue_figures: Callable[[Session], dict[str, FloatVec] | None] = self._asker(
            Plugin.queue_figures
        )
        self.queue_problems: Callable[[Session], dict[int, Problem]] = self._asker(
            Plugin.queue_problems
        )
        self.broken_rules: Callable[[Moves], Iterator[str]] = self._asker(Plugin.broken_rules)

    def _asker(self, question: Callable[Concatenate[Plugin, _P], object]) -> Callable[_P, Any]:
        """Return the function that asks a question, as its declaration says."""
        return self._over(question.__name__, self._answers[question.__name__])

    @staticmethod
    def _over(question: str, answers: Answers) -> Callable[..., Any]:
        return QUESTIONS[question].over(answers)

    def probed(self, probe: Probe) -> Questions:
        """Return the same questions, watched by ``probe``."""
        return self if probe is NULL else self._watched(probe)

    def answers(self, question: str) -> tuple[str, ...]:
        """Return the names of the plugins that answer a question, in order."""
        return tuple(answer.plugin for answer in self._answers[question])

    # -- once a cycle ------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        """Fill ``session.state``; a plugin may read the state of the plugins before it."""
        for plugin, state in self._open(session):
            session.state[plugin] = state

    def close(self, session: Session) -> dict[str, Any]:
        """Return the facts of all plugins that have some."""
        return {plugin: fact for plugin, fact in self._close(session) if fact is not None}

    def fold(self, session: Session) -> Fold | None:
        """Return the weight fold as one function, or None when no plugin answers."""
        return self._division(session, "over_quota_weights")

    def head_start(self, session: Session) -> Callable[..., IntVec | None] | None:
        """Return the head starts as one function, or None when no plugin answers."""
        return self._division(session, "head_start")

    def _division(self, session: Session, question: str) -> Callable[..., Any] | None:
        answers = self._may_speak[question](session, question)
        return partial(self._over(question, answers), session) if answers else None

    def quotas(self, session: Session) -> Amounts | None:
        """Return what queues have by quota; None where it is as written."""
        for answer in self._answers["fair_share"][:1]:
            with suppress(Exception):  # any failure of a plugin is contained
                told = answer.owner.quotas(session)
                return None if told is None else np.broadcast_to(told, session.held.shape)
        return None

    # -- order -----------------------------------------------------------------------------------

    def named_keys(self, question: str, session: Session, *asked: object) -> list[NamedKey]:
        """Return the key columns of a question about order with their names (for reports only)."""
        keys = []
        for answer in self._answers[question]:
            try:
                names = list(answer.owner.key_names(question))
            except Exception:  # noqa: BLE001 - any failure of a plugin is contained
                names = []
            columns = self._over(question, (answer,))(session, *asked)
            for at, column in enumerate(columns):
                name = names[at] if at < len(names) else f"key {at + 1}"
                keys.append(NamedKey(answer.plugin, name.lstrip("-"), column, name.startswith("-")))
        return keys

    def contest(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> Columns:
        """Return the keys that order sibling queues, each with its best job, low first."""
        columns = self.queue_order(session, queue, held, ask)
        if self._has_heads:
            columns = [*columns, *self._head_order(session, queue, job, held, ask)]
        return columns

    def rests_on_sums(self, session: Session) -> bool:
        """Tell whether an inner queue's positions may be predicted from its children's sums."""
        asked = ("queue_order", "head_order", "queue_gate")
        return all(it.owner.rests_on_sums(session) for name in asked for it in self._answers[name])

    # -- gates -----------------------------------------------------------------------------------

    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection."""
        codes: CodeVec | None = self._job_gate(session, action, job)
        if session.barred:
            is_barred = np.isin(job, list(session.barred))
            codes = np.where(is_barred, _BARRED, 0 if codes is None else codes)
        return codes

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
        """Return codes ``(K,)``, or None for no objection; what does not end counts as held."""
        if (stuck := session.held_stuck) is not None:
            held, held_non_preemptible = (
                more + column[:, queue]
                for more, column in zip((held, held_non_preemptible), stuck, strict=True)
            )
        codes: CodeVec | None = self._queue_gate(
            session, action, queue, job, ask, held, held_non_preemptible
        )
        return codes

    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, refused: CodeVec | None = None
    ) -> CodeVec:
        """Return codes ``(V,)``; a plugin is not asked about units that an earlier one refuses.

        ``refused`` ``(V,)`` has the codes of units that no plugin is asked about.
        """
        codes = np.zeros(len(units), np.int16) if refused is None else refused
        judged: CodeVec = self._scenario_gate(session, claim, units, codes)
        return judged

    def node_sets(self, session: Session) -> Callable[..., NodeSets | None] | None:
        """Return the question about sets of nodes; None if no plugin answers in this cycle.

        If no plugin honors topology constraints, the jobs that require a level have no set.
        """
        asker = self._spoken(session, "node_sets")
        if self._honors_topology or not requires_level(session):
            return asker
        return without_topology(asker)

    def subgroup_sets(self, session: Session) -> Callable[..., NodeSets | None] | None:
        """Return the question about sets of subgroups; None if no plugin answers in this cycle."""
        return self._spoken(session, "subgroup_sets")

    def on_moves(self, session: Session) -> Callable[..., list[Stale]] | None:
        """Return what tells plugins of moves; None if none is to hear of them in this cycle."""
        return self._spoken(session, "on_moves")

    def _spoken(self, session: Session, question: str) -> Callable[..., Any] | None:
        """Return the function that asks a question; None if nobody answers it in this cycle."""
        if not self._answers[question]:
            return None
        if question not in session.found:
            answers = self._may_speak[question](session, question)
            session.found[question] = self._over(question, answers) if answers else None
        found: Callable[..., Any] | None = session.found[question]
        return found

    # -- words -----------------------------------------------------------------------------------

    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec:
        """Tell, ``(K,)``, which jobs are entitled to what they ask for at any time."""
        said: BoolVec | None = self._is_guaranteed(session, job, ask)
        return np.zeros(len(job), np.bool_) if said is None else said

    def proposals(self, session: Session, job: int, code: int) -> list[Proposal]:
        """Return the changes that the plugin which owns a refusal proposes to try."""
        return self._proposals(session, job, code) or []

    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[..., EvictionReason] | None:
        """Return a function that makes the reason of a claim's evictions, or None."""
        made = self._eviction_reason(session, claim, units)
        return None if made is None else partial(_evicted_because, made, self._eviction_kinds)

    def gate_owner(self, session: Session, question: str, arguments: dict[str, Any]) -> str:
        """Return the plugin that refuses first, asking one by one (for records only)."""
        asked = [arguments[name] for name in QUESTIONS[question].parameters[1:]]
        for answer in self._answers[question]:
            said = self._over(question, (answer,))(session, *asked)
            if said is not None and said[0]:
                return answer.plugin
        return ""


def _evicted_because(
    made: Callable[..., str | EvictionReason], kinds: frozenset[str], session: Session
) -> EvictionReason:
    """Return a plugin's reason, or a substitute if it fails: the cycle may be long over.

    Kinds that no plugin declares are left out: they become labels of a metric.
    """
    try:
        said = made(session)
        if not isinstance(said, EvictionReason):
            return EvictionReason(str(said))
        known = {int(row): kind for row, kind in said.kinds.items() if kind in kinds}
        return EvictionReason(str(said.sentence), known)
    except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
        failure = f"{type(error).__name__}: {error}"
        return EvictionReason(f"evicted (the policy failed to say why: {failure})")
