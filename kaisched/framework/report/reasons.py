"""Why jobs wait: the dominant reason of many jobs with arrays, and the record of one in words.

A reason is found out once, as a code. A record says it in a sentence with its numbers, which costs
a hundred times as much; for counting, and for finding changed reasons, the code is enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.constraints import demands_of, in_words
from kaisched.core.refusals import (
    FIRST_OF_PLUGINS,
    TEXTS,
    Refusal,
    code_named,
    text_of,
)
from kaisched.core.tables import DRAINED, WORKLOADS
from kaisched.framework.report.node_reasons import never_fits, node_refusals_of
from kaisched.framework.report.records import DecisionRecord, NodeRefusal
from kaisched.framework.session.batches import (
    asked_of,
    asks_of,
    batch_of,
    least_asked_of,
    measure,
    pods_of_batch,
)
from kaisched.framework.session.capacity import room_of
from kaisched.framework.session.node_sets import node_sets, shapes_of, subgroup_sets
from kaisched.objects.faults import did_you_mean
from kaisched.objects.labels import DEFAULT_QUEUE, QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.node_sets import NodeSet, NodeSets
    from kaisched.framework.session.session import Session

    Shapes = list[tuple[int, int]]
    """(shape, pods) of a batch."""

_ALLOCATE: Final = "allocate"
_ROOM: Final = (int(Refusal.NO_ROOM), int(Refusal.GANG_NO_ROOM))
_OF_ROOM: Final = (*_ROOM, int(Refusal.EXCEEDS_ANY_NODE), int(Refusal.NO_NODE_ALLOWED))
"""Reasons that say what the nodes lack."""
MOST_SHAPES: Final = 64
"""At most so many shapes of one job are examined: thousands in every cycle would make all cycles
longer."""
MOST_SETS: Final = 3
"""So many sets of nodes are named."""
NODE_SETS: Final = "node_sets"
"""In the numbers of a record: the names of the sets of nodes on which plugins allow the job."""
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
_NO_ACTION: Final = "no action of this cycle tried it"
_BY_QUEUE: Final = TEXTS[Refusal.QUEUE_NODE_AFFINITY].name
_SHOWN: Final = 5

# -- the code ------------------------------------------------------------------------------------


def codes_of(session: Session, job: RowVec, abandoned: str = "") -> CodeVec:
    """``(K,)`` the code of the dominant reason why each of these jobs is pending."""
    if abandoned or not job.size:
        return np.full(len(job), int(Refusal.PLUGIN_FAILED), np.int16)
    refused = session.jobs.refusal[job]
    noted: CodeVec = np.where(refused != 0, refused, session.outcome.refusal[job])
    return dominant(session, job, noted)


def dominant(session: Session, job: RowVec, noted: CodeVec) -> CodeVec:
    """``(K,)`` the dominant reasons of jobs, of which actions noted these; 0 for none.

    An action notes the refusal that it meets first; more room would not help a job whose queue is
    full. A plugin's refusal is asked again, since later decisions may have lifted it.
    """
    refused, code = session.jobs.refusal[job], noted.copy()
    if runs_allocate(session):
        at = np.flatnonzero(code == 0)
        if at.size:
            code[at] = _untold(session, job[at])
    own = np.flatnonzero((code >= FIRST_OF_PLUGINS) & (refused == 0))
    if own.size:
        # Later decisions may have opened a queue: then the jobs wait for room.
        now = _untold(session, job[own])
        code[own] = np.where(now != 0, now, code[own])
    at = np.flatnonzero(np.isin(code, _ROOM))
    if at.size:
        code[at] = _room_codes(session, job[at], code[at])
    own = own[np.isin(code[own], _ROOM)]
    outcome = session.outcome
    if outcome.held:
        at = np.setdiff1d(np.flatnonzero(np.isin(code, _ROOM)), own)
        code[at[_are_kept_out(session, job[at])]] = int(Refusal.ROOM_HELD)
    if own.size:
        # The queue was full of what was evicted since, or counted room that was held; or both.
        by_held = bool(outcome.held) and not outcome.evictions
        opened = Refusal.ROOM_HELD if by_held else Refusal.OPENED_SINCE
        code[own[_have_room(session, job[own])]] = int(opened)
    at = np.flatnonzero(code == 0)
    code[at] = [_of_rest(session, each) for each in job[at].tolist()]
    return code


def _of_rest(session: Session, job: int) -> int:
    """Return why nothing was tried for a job: what waits is of subgroups that lack pods, if any."""
    first = int(session.jobs.first_podset[job])
    rows = np.arange(first, first + int(session.jobs.podset_count[job]))
    pending, minimum = session.podset_pending_now, session.podsets.minimum
    rows = rows[pending[rows] > 0]
    is_short = session.podset_active_now[rows] + pending[rows] < minimum[rows]
    code = Refusal.GANG_INCOMPLETE if rows.size and is_short.all() else Refusal.NOT_TRIED
    return int(code)


def _are_kept_out(session: Session, job: RowVec) -> BoolVec:
    """``(K,)`` whether jobs of equal pods have room that was held for others in this cycle.

    False where more than free room may keep the pods of a job apart.
    """
    held = session.outcome.held
    found = np.isin(job, held, invert=True) if held else np.zeros(len(job), np.bool_)
    if not found.any():
        return found
    has_parts = session.ask.has_subgroup_sets(session)
    shape, size, _ = measure(session, job)
    for at in found.nonzero()[0].tolist():
        row, limits = int(job[at]), session.shapes.constraints[shape[at]]
        is_bound = size[at] > 1 and bool(limits.has_pod_terms or limits.claims or limits.devices)
        found[at] = not is_bound and not (has_parts and row in session.jobs.structure)
    found[found] = _have_room(session, job[found])
    return found


def _have_room(session: Session, job: RowVec) -> BoolVec:
    """``(K,)`` whether the next batches of jobs with equal pods fit on what is idle now."""
    shape, size, _ = measure(session, job)
    found = np.zeros(len(job), np.bool_)
    bound = _sets_of_jobs(session, job)
    for at, sets in bound.items():
        if shape[at] >= 0:
            found[at] = any(_has_room_within(session, it, shape[at], size[at]) for it in sets)
    free = np.isin(np.arange(len(job)), list(bound), invert=True)
    for each in np.unique(shape[free & (shape >= 0)]).tolist():
        of_shape = free & (shape == each)
        is_free = session.shapes.constraints[each].wait is None
        total = session.placement.free_capacity(each).total
        found[of_shape] = is_free & (size[of_shape] > 0) & (size[of_shape] <= total)
    return found


def _has_room_within(session: Session, nodes: NodeSet, shape: int, size: int) -> bool:
    is_free = session.shapes.constraints[shape].wait is None
    with session.placement.within(nodes):
        return is_free and 0 < size <= session.placement.free_capacity(shape).total


def _sets_of_jobs(session: Session, job: RowVec) -> dict[int, NodeSets]:
    """Return the sets of nodes of the jobs that have any, by their places in ``job``."""
    if not session.ask.has_node_sets(session):
        return {}
    found = {
        at: node_sets(session, _ALLOCATE, row, asked_of(session, row), batch_of(session, row)[0])
        for at, row in enumerate(job.tolist())
    }
    return {at: sets for at, sets in found.items() if sets is not None}


def counted(codes: CodeVec) -> dict[str, int]:
    """Return how often each reason occurs among codes, by the name that users see."""
    found: Counter[str] = Counter()
    distinct, counts = np.unique(codes, return_counts=True)
    for code, count in zip(distinct.tolist(), counts.tolist(), strict=True):
        found[text_of(code).name] += count
    return dict(sorted(found.items()))


def runs_allocate(session: Session) -> bool:
    """Tell whether allocate is an action of this cycle and did not fail."""
    tried = {action.name for action in session.policy.actions} - session.left_out
    return _ALLOCATE in tried


def _untold(session: Session, job: RowVec) -> CodeVec:
    """Return why allocate did not try jobs: a gate refuses them, or their pods fit nowhere."""
    code = np.zeros(len(job), np.int16)
    gated = session.ask.job_gate(session, _ALLOCATE, job)
    if gated is not None:
        code[:] = gated
    at = np.flatnonzero(code == 0)
    if at.size:
        _, size, _ = measure(session, job[at])
        code[at[size > 0]] = int(Refusal.NO_ROOM)
    return code


def _room_codes(session: Session, job: RowVec, code: CodeVec) -> CodeVec:
    """Return why jobs found no room: because of a queue, claims, or the nodes."""
    shape, size, batches = measure(session, job)
    shut = _queue_codes(session, job, shape, size, batches)
    open_ = np.flatnonzero(shut == 0)
    found = code.copy()
    bound = _sets_of_jobs(session, job[open_])

    def pods(at: int) -> Shapes:
        tasks = batches.get(int(job[at]))
        alike = [(int(shape[at]), int(size[at]))]
        return alike if tasks is None else list(shapes_of(session, tasks))

    for here, sets in bound.items():
        at = int(open_[here])
        found[at] = _of_sets(session, sets, pods(at), int(code[at]))
    open_ = np.delete(open_, list(bound))
    uniform = open_[shape[open_] >= 0]
    for each in np.unique(shape[uniform]).tolist():
        rows = uniform[shape[uniform] == each]
        found[rows] = _of_shape(session, each, size[rows], code[rows])
    for at in open_[shape[open_] < 0].tolist():
        found[at] = _of_shapes(session, pods(at), int(code[at]))
    for at in open_[np.isin(job[open_], list(session.jobs.structure))].tolist():
        found[at] = _shut_part(session, int(job[at])) or found[at]
    single = (found == int(Refusal.NO_ROOM)) & (size > 1)
    found[single] = int(Refusal.GANG_NO_ROOM)
    found[shut != 0] = shut[shut != 0]
    return found


def _queue_codes(
    session: Session, job: RowVec, shape: RowVec, size: IntVec, batches: dict[int, RowVec]
) -> CodeVec:
    """Return the refusal of the lowest queue on each job's path that refuses its batch."""
    columns = job, shape, size, batches
    code = _gate_codes(session, job, asks_of(session, *columns, is_least=True))
    if session.shapes.by_card is None:
        return code
    # On the largest cards a queue would take them, on others not: so they found no room on those.
    most = _gate_codes(session, job, asks_of(session, *columns))
    return np.where(code != 0, code, most)


def _gate_codes(session: Session, job: RowVec, asks: Amounts) -> CodeVec:
    source = session.ledger if session.has_moved else session
    paths = session.queues.tree.path_of_leaf[session.jobs.queue_of_job[job]]
    code = np.zeros(len(job), np.int16)
    for level in range(paths.shape[1]):
        rows = np.flatnonzero((paths[:, level] >= 0) & (code == 0))
        if not rows.size:
            break
        queue = paths[rows, level].astype(np.int64)
        codes = session.ask.queue_gate(
            session,
            _ALLOCATE,
            queue,
            job[rows],
            asks[:, rows],
            source.held[:, queue],
            source.held_non_preemptible[:, queue],
        )
        if codes is not None:
            code[rows] = codes
    return code


def _of_shape(session: Session, shape: int, size: IntVec, code: CodeVec) -> CodeVec:
    if (wait := _wait_of(session, shape)) is not None:
        return np.full(len(code), wait[0], np.int16)
    lacks = session.placement.free_capacity(shape).total < size
    never = never_fits(session, shape) if lacks.any() else None
    return code if never is None else np.where(lacks, np.int16(never), code)


def _of_sets(session: Session, sets: NodeSets, counts: Shapes, code: int) -> int:
    """Return the code of a batch that may be placed on sets: the mildest of those named."""
    if not sets:
        return sets.code
    found = []
    for nodes in sets[:MOST_SETS]:
        with session.placement.within(nodes):
            found.append(_of_shapes(session, counts, code))
    return max(found)


def _of_shapes(session: Session, shapes: Shapes, code: int) -> int:
    """Return the code of a batch of several shapes: the first shape that lacks room decides."""
    if (wait := _first_wait(session, shapes)) is not None:
        return wait[0]
    for shape, count in shapes[:MOST_SHAPES]:
        if session.placement.free_capacity(shape).total < count:
            return int(never_fits(session, shape) or code)
    return code


def _first_wait(session: Session, shapes: Shapes) -> tuple[int, str] | None:
    found = (_wait_of(session, shape) for shape, _ in shapes)
    return next((wait for wait in found if wait is not None), None)


def _wait_of(session: Session, shape: int) -> tuple[int, str] | None:
    """Return what keeps pods of a shape from every node, whatever is free: code and sentence."""
    if (wait := session.shapes.constraints[shape].wait) is not None:
        return int(wait[0]), wait[1]
    if session.devices is not None and (fault := session.devices.fault(shape)):
        return int(Refusal.DEVICE_CLAIM), fault
    return None


def _shut_part(session: Session, job: int) -> int | None:
    """Return why plugins leave a subgroup in the next batch no set of nodes, whatever others do.

    It is asked on the set that is tried now. 0 if every subgroup has some; None if it makes no
    difference which nodes subgroups get.
    """
    root = session.jobs.structure.get(job)
    if root is None or not session.ask.has_subgroup_sets(session):
        return None
    batch = pods_of_batch(session, job)
    podset = session.tasks.podset_of_task[batch]
    found = None
    for group in islice(root.groups(), 1, None):
        some = batch[np.isin(podset, group.podsets)]
        if not some.size:
            continue
        sets = subgroup_sets(session, job, group, shapes_of(session, some))
        if sets is not None:
            if not sets:
                return sets.code
            found = 0
    return found


# -- the record ----------------------------------------------------------------------------------


def record_of(session: Session, job: int, code: int, abandoned: str = "") -> DecisionRecord:
    """Return the decision record of one pending job, whose code :func:`codes_of` found."""
    record = _waiting_record(session, job, code, abandoned)
    if abandoned or not session.outcome.claims or record.reason in _HELPLESS:
        return record
    if text_of(code_named(record.reason, record.plugin)).is_lasting:
        return record
    refusals = _eviction_refusals(session, job)
    if not refusals:
        return record
    actions: dict[str, list[str]] = {}
    for action, reason in refusals.items():
        actions.setdefault(reason, []).append(action)
    told = ". ".join(f"{', '.join(those)}: {reason}" for reason, those in actions.items())
    return replace(record, message=f"{record.message}. {told}", eviction_refusals=refusals)


def _waiting_record(session: Session, job: int, code: int, abandoned: str) -> DecisionRecord:
    """Return why a job was not placed, apart from evictions."""
    if abandoned:
        return _record(session, job, Refusal.PLUGIN_FAILED, f"cycle abandoned: {abandoned}")
    if code == Refusal.GANG_INCOMPLETE:
        return _incomplete_record(session, job)
    if code == Refusal.NOT_TRIED:
        return _record(session, job, code, _NO_ACTION)
    if code in _OF_ROOM or _keeps_out(session, job, code):
        return _record(session, job, code, *_lack_of(session, job))
    reason = session.ask.refusal_reason(session, _ALLOCATE, job, code)
    if reason is not None:
        return _record(session, job, code, reason.sentence, dict(reason.numbers))
    sentence = _held_sentence(session, job, code) or _queue_sentence(session, job, code)
    sentence = sentence or text_of(code).sentence
    if fault := session.jobs.faults.get(job):
        sentence = f"{sentence}: {fault}"
    return _record(session, job, code, sentence)


def _keeps_out(session: Session, job: int, code: int) -> bool:
    """Tell whether a job has this code because of something that its pods wait for."""
    if session.jobs.refusal[job]:
        return False
    wait = _first_wait(session, batch_of(session, job)[0])
    return wait is not None and wait[0] == code


def _record(
    session: Session,
    job: int,
    code: int,
    message: str,
    numbers: Mapping[str, Any] | None = None,
    refused: tuple[NodeRefusal, ...] = (),
) -> DecisionRecord:
    text, queue = text_of(code), int(session.jobs.queue_of_job[job])
    name = session.queues.name[queue] if queue >= 0 else session.jobs.queue_name[job]
    plugin = text.plugin
    if code == Refusal.PLUGIN or (
        code == Refusal.PLUGIN_FAILED and not message.startswith("cycle")
    ):
        plugin = _owner(session, job)
        message = f"{text.sentence}: {plugin}" if plugin else message
    return DecisionRecord(
        session.jobs.name[job],
        name,
        text.name,
        message,
        numbers or {},
        refused,
        plugin,
        top_owner=session.jobs.owner_of(job),
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


def _incomplete_record(session: Session, job: int) -> DecisionRecord:
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
            return _record(session, job, Refusal.GANG_INCOMPLETE, message, numbers)
    sentence = TEXTS[Refusal.GANG_INCOMPLETE].sentence
    return _record(session, job, Refusal.GANG_INCOMPLETE, sentence)


def _eviction_refusals(session: Session, job: int) -> dict[str, str]:
    """Return, by action, why the action evicted nothing for a job."""
    refusals: dict[str, str] = {}
    for action, codes in session.outcome.claims.items():
        code = int(codes[job])
        if code == Refusal.NONE:
            continue
        reason = session.ask.refusal_reason(session, action, job, code)
        refusals[action] = reason.sentence if reason is not None else text_of(code).sentence
    return refusals


def _held_for_others(session: Session, job: int) -> str:
    """Say for whom this cycle held room while it tried a job; empty if it held none."""
    held = session.outcome.held
    if not held or job in held:
        return ""
    first = f"held in this cycle for {session.jobs.title[held[0]]}"
    if len(held) == 1:
        return f"{first}, which lacks the rest of what it was promised"
    others = "another job" if len(held) == 2 else f"{len(held) - 1} other jobs"  # noqa: PLR2004
    return f"{first} and {others}, which lack the rest of what they were promised"


def _held_sentence(session: Session, job: int, code: int) -> str:
    """Return the sentence on capacity that is held for a job, or for others before it, or ""."""
    if code == Refusal.WAITING_FOR_RELEASE and job in session.outcome.awaits:
        queue = session.queues.name[session.outcome.awaits[job]]
        return f"its room is kept for it until pods that leave are gone: queue {queue} is full"
    held = _held_for_others(session, job)
    if held and code == Refusal.ROOM_HELD:
        return f"room that it could have is {held}"
    if held and code == Refusal.OPENED_SINCE:  # the queue may have counted what was held
        return f"its queue has room for it now, and room was {held}"
    return ""


def _queue_sentence(session: Session, job: int, code: int) -> str:
    """Return the queue's name and its problem; an empty text if no queue is the reason."""
    queues = session.queues
    name = session.jobs.queue_name[job] if len(session.jobs.queue_name) else ""
    if code == Refusal.QUEUE_ON_HOLD:
        return _on_hold(session, int(session.jobs.queue_of_job[job]))
    if code == Refusal.QUEUE_NOT_LEAF:
        below = [queues.name[row] for row in _children(session, name)]
        shown = ", ".join(below[:_SHOWN]) + (", ..." if len(below) > _SHOWN else "")
        return f"queue {name} has queues below it, which take the jobs: {shown}"
    if code not in (Refusal.QUEUE_MISSING, Refusal.QUEUE_ORPHAN):
        return ""
    if name in queues.why_not:
        return queues.why_not[name]
    if name == DEFAULT_QUEUE:
        return f"queue {name} does not exist: pods without the label {QUEUE} go there"
    leaves = [queues.name[row] for row in queues.tree.is_leaf.nonzero()[0].tolist()]
    fix = did_you_mean(name, leaves)
    return f"queue {name} does not exist" + (f"; {fix}" if fix else "")


def _children(session: Session, name: str) -> list[int]:
    row = session.queues.row_of_name.get(name, -1)
    parents = session.queues.tree.parent_of_queue.tolist()
    return [at for at, parent in enumerate(parents) if parent == row >= 0]


def _on_hold(session: Session, queue: int) -> str:
    """Name the queue on hold: the highest queue on the path with the strictest stop policy."""
    queues = session.queues
    stop = queues.stop_of_queue[queue]
    path = [row for row in queues.tree.path(queue).tolist() if queues.stop_of_queue[row] == stop]
    what = "is on hold and drained" if stop == DRAINED else "is on hold"
    return f"queue {queues.name[path[-1]]} {what}: stopPolicy"


# -- what the nodes lack --------------------------------------------------------------------------


class _Lack(NamedTuple):
    """What a record says of a job that has no room."""

    message: str
    numbers: Mapping[str, Any] = {}
    refused: tuple[NodeRefusal, ...] = ()


def _lack_of(session: Session, job: int) -> _Lack:
    """Return why a job has no room.

    Jobs with equal batches share the answer: thousands of them may wait. If plugins allow a job
    sets of nodes only, the message names each set and what is missing there.
    """
    shapes, size = batch_of(session, job)
    sets = node_sets(session, _ALLOCATE, job, asked_of(session, job), shapes)
    shut = _shut_part(session, job) if sets is None else None if sets else sets.code
    if shut:
        return _without_sets(session, job, shut)
    if sets is None:
        code, lack = _shared(session, shapes, size)
        return _with_affinity(session, job, shapes, code, _of_parts(session, job, code, lack))
    lacks = []
    for nodes in sets[:MOST_SETS]:
        with session.placement.within(nodes):
            code, lack = _lack(session, shapes, size)
            lacks.append((code, _of_parts(session, job, code, lack)))
    at = max(range(len(lacks)), key=lambda at: (lacks[at][0], -at))
    code, best = lacks[at]
    told = [f"{it.label}: {lack.message}" for it, (_, lack) in zip(sets, lacks, strict=False)]
    if len(sets) > MOST_SETS:
        told.append(f"{len(sets) - MOST_SETS} more sets of nodes")
    numbers = {**best.numbers, NODE_SETS: [each.label for each in sets]}
    lack = best._replace(message="; ".join(told), numbers=numbers)
    return _with_affinity(session, job, shapes, code, lack)


def _of_parts(session: Session, job: int, code: int, lack: _Lack) -> _Lack:
    """Return what subgroups lack on the set that is tried now, if each pod of the job has room.

    Unless room was held for others: it may be what was missing when the job was tried.
    """
    size = lack.numbers.get("pods", 0)
    if code not in _ROOM or lack.numbers.get("fit") != size:
        return lack
    if size and (held := _held_for_others(session, job)):
        each = "its pod" if size == 1 else f"each of its {size} pods"
        return lack._replace(message=f"{each} has room now, and room was {held}")
    part_code = _shut_part(session, job)
    if part_code is None:
        return lack
    told = session.ask.refusal_reason(session, _ALLOCATE, job, part_code) if part_code else None
    if told is not None:
        return lack._replace(message=told.sentence, numbers={**lack.numbers, **told.numbers})
    if size == 1:
        return lack
    together = "but its subgroups do not fit together, each on one set of nodes"
    return lack._replace(message=f"each of its {size} pods has room, {together}")


def _without_sets(session: Session, job: int, code: int) -> _Lack:
    """Return why plugins leave a job no set of nodes."""
    reason = session.ask.refusal_reason(session, _ALLOCATE, job, code)
    if reason is not None:
        return _Lack(reason.sentence, dict(reason.numbers))
    is_untold = code == Refusal.NO_NODE_ALLOWED
    return _Lack("no set of nodes is left to it" if is_untold else text_of(code).sentence)


def _shared(session: Session, shapes: Shapes, size: int) -> tuple[int, _Lack]:
    """Return why a batch has no room, found out once for all jobs with equal batches."""
    known: dict[object, tuple[int, _Lack]] = session.found.setdefault("lacks", {})
    asked = session.moves, tuple(shapes), size
    if asked not in known:
        known[asked] = _lack(session, shapes, size)
    code, lack = known[asked]
    return code, lack._replace(numbers=dict(lack.numbers))


def _lack(session: Session, shapes: Shapes, size: int) -> tuple[int, _Lack]:
    """Return why a batch has no room on the set of nodes that is tried now, with its code."""
    if (wait := _first_wait(session, shapes)) is not None:
        return wait[0], _Lack(wait[1])
    if len(shapes) > MOST_SHAPES:  # add all shapes at once: adding them one by one is quadratic
        session.placement.upper_bound(np.array([shape for shape, _ in shapes]))
    no_room = int(Refusal.GANG_NO_ROOM if size > 1 else Refusal.NO_ROOM)
    code = _of_shapes(session, shapes, no_room)
    refused: tuple[NodeRefusal, ...] = ()
    for shape, count in shapes[:MOST_SHAPES]:
        if session.placement.free_capacity(shape).total < count:
            refused = node_refusals_of(session, shape)
            break
    fits, left, idle = _together(session, shapes)
    if not refused and left >= 0 and len(shapes) > 1:
        refused = node_refusals_of(session, left, idle)
    bound = session.placement.nodes
    nodes = len(session.nodes) if bound is None else int(bound.nodes.sum())
    message = _message(code, fits, size, nodes)
    counted = ", ".join(f"{each.nodes} {each.detail or each.reason}" for each in refused)
    if not refused:  # no node refuses a pod, but some would once others of the batch are there
        spread = (shape for shape, _ in shapes if session.shapes.constraints[shape].spread)
        asked = (session.ask.node_reason(session, it, Refusal.TOPOLOGY_SPREAD) for it in spread)
        counted = next(filter(None, asked), "")
    if code == Refusal.NO_NODE_ALLOWED:
        counted = "; ".join(filter(None, (counted, *_labels_of_no_node(session, shapes))))
    numbers = {"pods": size, "fit": fits, "nodes": nodes}
    return code, _Lack(f"{message}: {counted}" if counted else message, numbers, refused)


def _labels_of_no_node(session: Session, shapes: Shapes) -> Iterator[str]:
    """Name the labels that pods select and no node has, and say where a flavor asks for them."""
    statics = session.nodes.statics
    for constraints in [session.shapes.constraints[shape] for shape, _ in shapes[:1]]:
        for key, value in constraints.node_selector:
            if value in statics.label_column(key)[1]:
                continue
            by_flavor = key in constraints.flavor_keys
            whose = ", which the flavor of its queue asks for" if by_flavor else ""
            yield f"no node has {key}={value}{whose}"


def _message(code: int, fits: int, size: int, nodes: int) -> str:
    if code == Refusal.EXCEEDS_ANY_NODE:
        return "a pod asks for more than any node has that may take it"
    if code == Refusal.NO_NODE_ALLOWED:
        return f"0/{nodes} nodes may take its pods"
    if fits == 0:
        return f"0/{nodes} nodes have room"
    if fits == size == 1:
        return "there is room for its pod, but not where it may go"
    if fits == size:
        return f"each of its {size} pods has room, but not all of them together"
    return f"{fits} of {size} pods fit now"


def _together(session: Session, shapes: Shapes) -> tuple[int, int, Amounts]:
    """Return how many pods fit next to each other, a shape of which some do not, and what is idle.

    The shape is -1 where all fit; what is idle is so after those that fit.
    """
    idle = session.capacity.idle.copy()
    fits, left = 0, -1
    for shape, count in shapes:
        request = session.shapes.request[:, shape]
        room = np.minimum(room_of(idle, request), session.placement.free_capacity(shape).room)
        before = np.cumsum(room) - room
        placed = np.clip(count - before, 0, room)
        idle -= request[:, None] * placed
        fits += (number := int(placed.sum()))
        left = shape if number < count and left < 0 else left
    return fits, left, idle


def _with_affinity(session: Session, job: int, shapes: Shapes, code: int, lack: _Lack) -> _Lack:
    """Add to what a job lacks where its queues let it run, if that is why nodes are out."""
    if session.queues.node_affinity is None:
        return lack
    own = session.shapes.constraints[shapes[0][0]] if shapes else None
    by_queue = any(each.reason == _BY_QUEUE for each in lack.refused)
    if own is None or not own.queue_terms or not (by_queue or own.node_types):
        return lack
    workload = int(session.jobs.workload_of(np.array([job]))[0])
    queue = int(session.jobs.queue_of_job[job])
    rules = [
        f"queue {name} allows {WORKLOADS[workload]} jobs nodes with {in_words(terms)}"
        for name, terms in demands_of(session.queues, workload, queue)
    ]
    numbers = {**lack.numbers, "queue_affinity": rules}
    told = "; ".join(rules)
    if code != Refusal.NO_NODE_ALLOWED:
        return lack._replace(message=f"{lack.message}; {told}", numbers=numbers)
    wish = ""
    if own.node_types:
        numbers["node_types"] = list(own.node_types)
        wish = f" of type {' or '.join(own.node_types)}"
    elif own.own_selector or own.node_terms is not None:
        wish = " as it selects"
    leaf = session.queues.name[queue]
    first = f"no node{wish} that queue {leaf} may use for {WORKLOADS[workload]} jobs"
    return lack._replace(message=f"{first}: {lack.message}; {told}", numbers=numbers)
