"""Why a job is pending: the dominant reason, its numbers, and the nodes' reasons counted.

A record is computed on demand from the final state of the cycle. The cycle itself keeps only one
code for each job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.core.refusals import FIRST_OF_PLUGINS, TEXTS, Refusal, code_named, text_of
from kaisched.framework.report.codes import are_kept_out, has_room, opened_code, runs_allocate
from kaisched.framework.report.eviction_refusals import eviction_refusals_of, in_words
from kaisched.framework.report.held_room import held_sentence
from kaisched.framework.report.queue_reasons import queue_sentence
from kaisched.framework.report.records import DecisionRecord, NodeRefusal
from kaisched.framework.report.room_reasons import lack_of
from kaisched.framework.session.batches import batch_of, least_asked_of, possible_asks

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
    from kaisched.framework.session.session import Session

_ROOM: Final = (Refusal.NO_ROOM, Refusal.GANG_NO_ROOM)
_HELPLESS: Final = frozenset(
    TEXTS[code].name
    for code in (
        Refusal.WAITING_FOR_RELEASE,
        Refusal.ROOM_HELD,
        Refusal.VOLUME_CLAIM,
        Refusal.VOLUME_UNBOUND,
        Refusal.VOLUME_IN_USE,
        Refusal.OWNER_NOT_READ,
    )
)
"""Reasons that evicting other jobs cannot cure, beside those that last."""
_ALLOCATE: Final = "allocate"
_NO_ACTION: Final = "no action of this cycle tried it"


def record_of(session: Session, job: int, abandoned: str = "") -> DecisionRecord:
    """Return the decision record of one pending job."""
    record = _waiting_record(session, job, abandoned)
    if abandoned or not session.outcome.claims or record.reason in _HELPLESS:
        return record
    if text_of(code_named(record.reason, record.plugin)).is_lasting:
        return record
    refusals = eviction_refusals_of(session, job)
    if not refusals:
        return record
    return replace(
        record, message=f"{record.message}. {in_words(refusals)}", eviction_refusals=refusals
    )


def _waiting_record(session: Session, job: int, abandoned: str) -> DecisionRecord:
    """Return why a job was not placed, apart from evictions."""
    code = int(session.jobs.refusal[job]) or int(session.outcome.refusal[job])
    if code == Refusal.NONE and runs_allocate(session):
        code = _untold(session, job)
    code = dominant(session, job, code)
    queue = int(session.jobs.queue_of_job[job])
    name = session.queues.name[queue] if queue >= 0 else session.jobs.queue_name[job]
    if abandoned:
        return _record(session, job, name, Refusal.PLUGIN_FAILED, f"cycle abandoned: {abandoned}")
    if code in _ROOM:
        lack = lack_of(session, job, code)
        return _record(session, job, name, *lack)
    if code == Refusal.GANG_INCOMPLETE:
        return _incomplete_record(session, job, name)
    if code == Refusal.NONE:
        return _record(session, job, name, Refusal.NOT_TRIED, _NO_ACTION)
    reason = session.ask.refusal_reason(session, _ALLOCATE, job, code)
    if reason is not None:
        return _record(session, job, name, code, reason.sentence, dict(reason.numbers))
    sentence = held_sentence(session, job, code) or queue_sentence(session, job, code)
    sentence = sentence or text_of(code).sentence
    if fault := session.jobs.faults.get(job):
        sentence = f"{sentence}: {fault}"
    return _record(session, job, name, code, sentence)


def _untold(session: Session, job: int) -> int:
    """Return why allocate did not try a job: a gate refuses it, or its pods fit nowhere.

    In a full cluster this is true of nearly all jobs, so the cycle does not note it for each job.
    """
    codes = session.ask.job_gate(session, _ALLOCATE, np.array([job]))
    if codes is not None and codes[0]:
        return int(codes[0])
    return Refusal.NO_ROOM if batch_of(session, job)[1] > 0 else Refusal.NONE


def dominant(session: Session, job: int, code: int) -> int:
    """Return the dominant reason: the refusal of a queue comes before a lack of room.

    An action notes the refusal that it meets first; more room would not help a job whose queue is
    full. A plugin's refusal is asked again, since later decisions may have lifted it.
    """
    was_shut = code >= FIRST_OF_PLUGINS and not session.jobs.refusal[job]
    if was_shut:
        code = _untold(session, job) or code
    if code not in _ROOM:
        return code
    for ask in possible_asks(session, job):
        if shut := _shut(session, job, ask[:, None]):
            return shut
    if was_shut:
        return opened_code(session) if has_room(session, job) else code
    return int(Refusal.ROOM_HELD) if are_kept_out(session, np.array([job]))[0] else code


def _shut(session: Session, job: int, ask: Amounts) -> int:
    """Return the refusal of the lowest queue on a job's path that refuses ``ask`` ``(R, 1)``."""
    row, source = np.array([job]), session.ledger if session.has_moved else session
    for queue in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        codes = session.ask.queue_gate(
            session,
            _ALLOCATE,
            np.array([queue]),
            row,
            ask,
            source.held[:, [queue]],
            source.held_non_preemptible[:, [queue]],
        )
        if codes is not None and codes[0]:
            return int(codes[0])
    return 0


def _record(
    session: Session,
    job: int,
    queue: str,
    code: int,
    message: str,
    numbers: dict[str, Any] | None = None,
    refused: tuple[NodeRefusal, ...] = (),
) -> DecisionRecord:
    text = text_of(code)
    plugin = text.plugin
    if code == Refusal.PLUGIN or (
        code == Refusal.PLUGIN_FAILED and not message.startswith("cycle")
    ):
        plugin = _owner(session, job)
        message = f"{text.sentence}: {plugin}" if plugin else message
    return DecisionRecord(
        session.jobs.name[job], queue, text.name, message, numbers or {}, refused, plugin
    )


def _owner(session: Session, job: int) -> str:
    """Return the plugin whose gate refuses the job, asking the gates again."""
    row = np.array([job])
    asked: dict[str, Any] = {"action": "allocate", "job": row}
    if owner := session.ask.gate_owner(session, "job_gate", asked):
        return owner
    ask = least_asked_of(session, job)[:, None]
    source = session.ledger if session.has_moved else session
    for queue in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        asked |= {"queue": np.array([queue]), "ask": ask, "held": source.held[:, [queue]]}
        asked["held_non_preemptible"] = source.held_non_preemptible[:, [queue]]
        if owner := session.ask.gate_owner(session, "queue_gate", asked):
            return owner
    failed = [failure.plugin for failure in session.failures]
    return failed[0] if failed else ""


def _incomplete_record(session: Session, job: int, queue: str) -> DecisionRecord:
    first = int(session.jobs.first_podset[job])
    count = int(session.jobs.podset_count[job])
    podsets = session.podsets
    for row in range(first, first + count):
        alive, need = int(podsets.active[row] + podsets.pending[row]), int(podsets.minimum[row])
        if alive < need:
            where = f"subgroup {podsets.name[row]}: " if count > 1 else ""
            done = int(session.jobs.succeeded[job])
            needs = "still needs" if done else "needs"
            message = f"{where}{alive} of the {need} pods it {needs} exist and are not gated"
            message += f"; {done} {'has' if done == 1 else 'have'} succeeded" if done else ""
            numbers = {"pods": alive, "minimum": need}
            return _record(session, job, queue, Refusal.GANG_INCOMPLETE, message, numbers)
    sentence = TEXTS[Refusal.GANG_INCOMPLETE].sentence
    return _record(session, job, queue, Refusal.GANG_INCOMPLETE, sentence)
