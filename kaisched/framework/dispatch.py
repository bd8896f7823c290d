"""Asking the plugins: each question's implementations as a flat tuple, and how answers combine.

Compiled once per shard (and per probe). Every call is guarded: a plugin that raises or answers
nonsense is named in the session's failures, and what happens then is the rule of its question.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.framework.answers import (
    Answer,
    CycleAbandonedError,
    batch_fault,
    fits,
    head_start_fault,
    keys_fault,
    size_fault,
    wrong,
)
from kaisched.framework.hookspecs import Plugin
from kaisched.framework.node_questions import NodeQuestions
from kaisched.framework.probe import NULL
from kaisched.framework.report_questions import ReportQuestions

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.framework.claims import Claim, Units
    from kaisched.framework.policy import PluginSetting
    from kaisched.framework.probe import Probe
    from kaisched.framework.session import Fold, Session

    Keys = tuple[IntVec | FloatVec, ...]

_FAILED = int(Refusal.PLUGIN_FAILED)
_BARRED = np.int16(Refusal.ACTION_FAILED)
_EVERYTHING = (np.empty(0, np.int64), np.empty(0, np.int64))


class Questions(NodeQuestions, ReportQuestions):
    """Every question of the hook specification, ready to be asked."""

    def __init__(self, plugins: tuple[PluginSetting, ...], probe: Probe = NULL) -> None:
        """Compile the answers of ``plugins``, in their order."""
        self._plugins = plugins
        self._answers: dict[str, tuple[Answer, ...]] = {
            question: tuple(
                Answer(setting, question, probe)
                for setting in plugins
                if hasattr(getattr(setting.plugin, question), "kaisched_impl")
            )
            for question in vars(Plugin)
            if hasattr(vars(Plugin)[question], "kaisched_spec")
        }
        self._gates = self._answers["queue_gate"]
        self.is_job_bound = all(
            answer.owner.is_job_bound
            for question in ("job_order", "job_gate", "batch_size")
            for answer in self._answers[question]
        )
        """True when answers about a job change with its own row only."""
        self.is_class_bound = all(
            answer.owner.is_class_bound
            for question in ("job_gate", "claim_gate")
            for answer in self._answers[question]
        )
        """True when jobs of one queue, ask and preemptibility are told the same about claims."""
        NodeQuestions.__init__(self, self._answers)
        ReportQuestions.__init__(self, self._answers)

    def probed(self, probe: Probe) -> Questions:
        """Return the same questions, watched by ``probe``."""
        return self if probe is NULL else Questions(self._plugins, probe)

    def answers(self, question: str) -> tuple[str, ...]:
        """Return the names of the plugins that answer a question, in order."""
        return tuple(answer.plugin for answer in self._answers[question])

    # -- once a cycle ------------------------------------------------------------------------

    def open(self, session: Session) -> None:
        """Fill ``session.state``."""
        for answer in self._answers["session_open"]:
            try:
                session.state[answer.plugin] = answer.call(session=session)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
                answer.fail(session, error)

    def close(self, session: Session) -> dict[str, Any]:
        """Return the facts of all plugins that have some."""
        facts: dict[str, Any] = {}
        for answer in self._answers["session_close"]:
            try:
                fact = answer.call(session=session)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                continue
            if fact is not None:
                facts[answer.plugin] = fact
        return facts

    def fair_share(self, session: Session) -> Amounts | None:
        """Return the first answer ``(R, Q)``; abandons the cycle when it fails."""
        shape = (len(session.axis), len(session.queues))
        for answer in self._answers["fair_share"]:
            try:
                share = answer.call(session=session)
            except CycleAbandonedError:
                raise
            except Exception as error:
                answer.fail(session, error)
                raise CycleAbandonedError(f"fair share: plugin {answer.plugin} failed") from error
            if share is None:
                continue
            if not fits(share, shape, "i"):
                answer.fail(session, wrong(share, shape, "i"))
                raise CycleAbandonedError(f"fair share: plugin {answer.plugin} answered nonsense")
            return share  # type: ignore[no-any-return]
        return None

    def fold(self, session: Session) -> Fold | None:
        """Return the weight fold as one function, or None when nobody answers."""
        answers = self._loud(session, "over_quota_weights")
        return partial(self._fold, session, answers) if answers else None

    def _loud(self, session: Session, question: str) -> tuple[Answer, ...]:
        """Return the answers of the plugins that have not promised to be silent."""
        answers = self._answers[question]
        return tuple(each for each in answers if not self._is_silent(session, each, question))

    @staticmethod
    def _is_silent(session: Session, answer: Answer, question: str) -> bool:
        try:
            return bool(answer.owner.is_silent(session, question))
        except Exception as error:
            answer.fail(session, error)
            raise CycleAbandonedError(f"{question}: plugin {answer.plugin} failed") from error

    def _fold(
        self,
        session: Session,
        answers: tuple[Answer, ...],
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        active: BoolVec,
        weights: FloatVec,
    ) -> FloatVec:
        for answer in answers:
            try:
                folded = answer.call(
                    session=session,
                    resource=resource,
                    queue=queue,
                    group=group,
                    active=active,
                    weights=weights,
                )
            except Exception as error:
                answer.fail(session, error)
                raise CycleAbandonedError(f"weights: plugin {answer.plugin} failed") from error
            if folded is None:
                continue
            if not fits(folded, weights.shape, "f") or not np.isfinite(folded).all():
                answer.fail(session, wrong(folded, weights.shape, "f"))
                raise CycleAbandonedError(f"weights: plugin {answer.plugin} answered nonsense")
            weights = folded
        return weights

    def head_start(self, session: Session) -> Callable[..., IntVec | None] | None:
        """Return the head starts as one function, or None when nobody answers."""
        answers = self._loud(session, "head_start")
        return partial(self._head_start, session, answers) if answers else None

    def _head_start(
        self,
        session: Session,
        answers: tuple[Answer, ...],
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        weights: FloatVec,
        has: IntVec,
        wants: IntVec,
        surplus: IntVec,
    ) -> IntVec | None:
        for answer in answers:
            try:
                ahead: IntVec | None = answer.call(
                    session=session,
                    resource=resource,
                    queue=queue,
                    group=group,
                    weights=weights,
                    has=has,
                    wants=wants,
                    surplus=surplus,
                )
            except Exception as error:
                answer.fail(session, error)
                raise CycleAbandonedError(f"head start: plugin {answer.plugin} failed") from error
            if ahead is None:
                continue
            fault = head_start_fault(ahead, group, wants, surplus)
            if fault:
                answer.fail(session, fault)
                raise CycleAbandonedError(f"head start: plugin {answer.plugin} answered nonsense")
            return ahead
        return None

    # -- order ---------------------------------------------------------------------------------

    def _keys(self, session: Session, question: str, rows: int, **arguments: object) -> list[Any]:
        columns: list[Any] = []
        for answer in self._answers[question]:
            try:
                keys = answer.call(session=session, **arguments)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                continue
            if keys is None:
                continue
            if fault := keys_fault(keys, rows):
                answer.fail(session, fault)
                continue
            columns.extend(keys)
        return columns

    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> list[IntVec | FloatVec]:
        """Return the key columns of queues, low first."""
        return self._keys(session, "queue_order", len(queue), queue=queue, held=held, ask=ask)

    def job_order(self, session: Session, job: RowVec) -> list[IntVec | FloatVec]:
        """Return the key columns of jobs, low first."""
        return self._keys(session, "job_order", len(job), job=job)

    def task_order(self, session: Session, task: RowVec) -> list[IntVec | FloatVec]:
        """Return the key columns of tasks, low first."""
        return self._keys(session, "task_order", len(task), task=task)

    def subgroup_order(
        self, session: Session, active: IntVec, minimum: IntVec
    ) -> list[IntVec | FloatVec]:
        """Return the key columns of subgroups, low first."""
        return self._keys(session, "subgroup_order", len(active), active=active, minimum=minimum)

    # -- gates and batches -------------------------------------------------------------------------

    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection."""
        answers = self._answers["job_gate"]
        codes = self._codes(session, answers, len(job), action=action, job=job)
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
        """Return codes ``(K,)``, or None for no objection."""
        gates = self.gates(session, action)
        if not gates:
            return None
        return self._codes(
            session,
            gates,
            len(job),
            action=action,
            queue=queue,
            job=job,
            ask=ask,
            held=held,
            held_non_preemptible=held_non_preemptible,
        )

    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection."""
        answers = self._answers["claim_gate"]
        return self._codes(session, answers, len(job), action=action, job=job, ask=ask)

    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection."""
        answers = self._answers["victim_filter"]
        return self._codes(session, answers, len(job), claim=claim, job=job)

    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, refused: CodeVec | None = None
    ) -> CodeVec:
        """Return codes ``(V,)``; what one plugin refuses, the next is not asked about.

        ``refused`` ``(V,)`` are codes of those that no plugin is asked about at all.
        """
        codes = np.zeros(len(units), np.int16) if refused is None else refused
        for answer in self._answers["scenario_gate"]:
            taken = codes == 0
            said = self._codes(
                session, (answer,), len(units), claim=claim, units=units, taken=taken
            )
            if said is not None:
                codes = np.where(taken, said, codes)
        return codes

    def gates(self, session: Session, action: str) -> tuple[Answer, ...]:
        """Return the queue gates that may close for an action in this cycle."""
        gates: tuple[Answer, ...] | None = session.gates.get(action)
        if gates is None:
            gates = session.gates[action] = tuple(
                answer for answer in self._gates if self._may_close(session, action, answer)
            )
        return gates

    @staticmethod
    def _may_close(session: Session, action: str, answer: Answer) -> bool:
        try:
            return bool(answer.owner.has_gates(session, action))
        except Exception as error:  # noqa: BLE001 - any failure of a plugin is contained
            answer.fail(session, error)
            return True

    def gate_owner(self, session: Session, question: str, arguments: dict[str, Any]) -> str:
        """Return the plugin whose refusal stands, asking one by one (for records only)."""
        for answer in self._answers[question]:
            said = self._codes(session, (answer,), 1, **arguments)
            if said is not None and said[0]:
                return answer.plugin
        return ""

    def _first(
        self, session: Session, question: str, fault_of: Callable[[Any], str], job: object
    ) -> Any:
        """Return the first answer that is one; nonsense is named and the next plugin is asked."""
        for answer in self._answers[question]:
            try:
                said = answer.call(session=session, job=job)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                continue
            if said is None:
                continue
            if fault := fault_of(said):
                answer.fail(session, fault)
                continue
            return said
        return None

    def batch_size(self, session: Session, job: RowVec) -> IntVec:
        """Return how many pods ``(K,)`` come next; one each where nobody answers."""
        size = self._first(session, "batch_size", partial(size_fault, session, job), job)
        return np.minimum(session.pending_of(job), 1) if size is None else size

    def next_batch(self, session: Session, job: int) -> RowVec | None:
        """Return the next task rows of a structured job, or None where nobody answers."""
        batch: RowVec | None = self._first(
            session, "next_batch", partial(batch_fault, session, job), job
        )
        return batch
