"""Why a job is pending: one dominant reason, the numbers behind it, and the nodes' reasons counted.

Worked out on demand from the state the cycle left behind: the cycle itself keeps one code a job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.core.refusals import TEXTS, Refusal
from kaisched.framework.batching import asked_of, batch_of
from kaisched.framework.queue_reasons import queue_sentence
from kaisched.framework.reasons import runs_allocate
from kaisched.framework.records import DecisionRecord, NodeMiss
from kaisched.framework.room_reasons import lack_of
from kaisched.framework.untaken import in_words, untaken
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from kaisched.core.axis import Amounts
    from kaisched.framework.session import Session

_ROOM: Final = (Refusal.NO_ROOM, Refusal.GANG_NO_ROOM)
_HELPLESS: Final = frozenset(
    TEXTS[code].name
    for code in (
        Refusal.EXCEEDS_ANY_NODE,
        Refusal.NO_NODE_ALLOWED,
        Refusal.WAITING_FOR_RELEASE,
        Refusal.VOLUME_CLAIM,
        Refusal.VOLUME_UNBOUND,
        Refusal.VOLUME_IN_USE,
        Refusal.OWNER_NOT_READ,
    )
)
"""Whoever waits for these is not helped by what others give up."""
_ALLOCATE: Final = "allocate"
_NO_ACTION: Final = "no action of this cycle tried it"


def record_of(session: Session, job: int, abandoned: str = "") -> DecisionRecord:
    """Return the decision record of one pending job."""
    record = _waiting_record(session, job, abandoned)
    if abandoned or not session.outcome.claims or record.reason in _HELPLESS:
        return record
    told = untaken(session, job)
    if not told:
        return record
    return replace(record, message=f"{record.message}. {in_words(told)}", untaken=told)


def _waiting_record(session: Session, job: int, abandoned: str) -> DecisionRecord:
    """Return why a job was not placed, whatever others hold."""
    code = Refusal(int(session.jobs.refusal[job]) or int(session.outcome.refusal[job]))
    if code is Refusal.NONE and runs_allocate(session):
        code = _untold(session, job)
    code = dominant(session, job, code)
    queue = int(session.jobs.queue_of_job[job])
    name = session.queues.name[queue] if queue >= 0 else session.jobs.queue_name[job]
    if abandoned:
        return _record(session, job, name, Refusal.PLUGIN_FAILED, f"cycle abandoned: {abandoned}")
    if code in _ROOM:
        lack = lack_of(session, job, code)
        return _record(session, job, name, *lack)
    if code in (Refusal.OVER_LIMIT, Refusal.NON_PREEMPTIBLE_OVER_QUOTA):
        return _queue_record(session, job, name, queue, code)
    if code is Refusal.GANG_INCOMPLETE:
        return _incomplete_record(session, job, name)
    if code is Refusal.NONE:
        return _record(session, job, name, Refusal.NOT_TRIED, _NO_ACTION)
    sentence = queue_sentence(session, job, code) or TEXTS[code].sentence
    return _record(session, job, name, code, sentence)


def _untold(session: Session, job: int) -> Refusal:
    """Return why allocate did not even try a job: it is refused as such, or its pods fit nowhere.

    In a full cluster that is nearly everyone, so it is not noted job by job.
    """
    codes = session.ask.job_gate(session, _ALLOCATE, np.array([job]))
    if codes is not None and codes[0]:
        return Refusal(int(codes[0]))
    return Refusal.NO_ROOM if batch_of(session, job)[1] > 0 else Refusal.NONE


def dominant(session: Session, job: int, code: Refusal) -> Refusal:
    """Return the reason that counts: a queue in the way comes before a lack of room.

    An action notes whichever it meets first; more room would not help a job whose queue is full.
    """
    if code not in _ROOM:
        return code
    row, ask = np.array([job]), asked_of(session, job)[:, None]
    source = session.ledger if session.has_moved else session
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
            return Refusal(int(codes[0]))
    return code


def _record(
    session: Session,
    job: int,
    queue: str,
    code: Refusal,
    message: str,
    numbers: dict[str, Any] | None = None,
    misses: tuple[NodeMiss, ...] = (),
) -> DecisionRecord:
    plugin = ""
    if code is Refusal.PLUGIN or (
        code is Refusal.PLUGIN_FAILED and not message.startswith("cycle")
    ):
        plugin = _owner(session, job)
        message = f"{TEXTS[code].sentence}: {plugin}" if plugin else message
    return DecisionRecord(
        session.jobs.name[job], queue, TEXTS[code].name, message, numbers or {}, misses, plugin
    )


def _owner(session: Session, job: int) -> str:
    """Return the plugin whose gate refuses the job, asking the gates again."""
    row = np.array([job])
    asked: dict[str, Any] = {"action": "allocate", "job": row}
    if owner := session.ask.gate_owner(session, "job_gate", asked):
        return owner
    ask = asked_of(session, job)[:, None]
    source = session.ledger if session.has_moved else session
    for queue in session.queues.tree.path(int(session.jobs.queue_of_job[job])).tolist():
        asked |= {"queue": np.array([queue]), "ask": ask, "held": source.held[:, [queue]]}
        asked["held_non_preemptible"] = source.held_non_preemptible[:, [queue]]
        if owner := session.ask.gate_owner(session, "queue_gate", asked):
            return owner
    failed = [failure.plugin for failure in session.failures]
    return failed[0] if failed else ""


def _queue_record(
    session: Session, job: int, name: str, queue: int, code: Refusal
) -> DecisionRecord:
    """Name the queue nearest to the leaf, and the resource, that stand in the way."""
    ask = asked_of(session, job)
    over_limit = code is Refusal.OVER_LIMIT
    bound = session.queues.limit if over_limit else session.queues.deserved
    found = _first_over(session, queue, ask, bound, non_preemptible=not over_limit)
    if found is None:
        return _record(session, job, name, code, TEXTS[code].sentence)
    row, resource, held = found
    what = session.axis.names[resource]
    ceiling = int(bound[resource, row])
    word = "limit" if over_limit else "quota"
    message = (
        f"queue {session.queues.name[row]}: {what} {format_amount(what, held)} held + "
        f"{format_amount(what, int(ask[resource]))} asked is over its {word} of "
        f"{format_amount(what, ceiling)}"
    )
    if not over_limit:
        message += " for non-preemptible work"
    numbers = {
        "queue": session.queues.name[row],
        "resource": what,
        "held": held,
        "asked": int(ask[resource]),
        word: ceiling,
    }
    return _record(session, job, name, code, message, numbers)


def _first_over(
    session: Session, queue: int, ask: Amounts, bound: Amounts, *, non_preemptible: bool
) -> tuple[int, int, int] | None:
    if session.has_moved:
        ledger = session.ledger
        held = ledger.held_non_preemptible if non_preemptible else ledger.held
    else:
        held = session.held_non_preemptible if non_preemptible else session.held
    for row in session.queues.tree.path(queue).tolist():
        for resource in range(len(session.axis)):
            asked, limit = int(ask[resource]), int(bound[resource, row])
            if asked and limit < UNLIMITED and int(held[resource, row]) + asked > limit:
                return row, resource, int(held[resource, row])
    return None


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
