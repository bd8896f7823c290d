"""Documents of jobs: a filtered list in parts, and one job with everything about it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import TaskState
from kaisched.core.refusals import text_of
from kaisched.core.titles import workload_document
from kaisched.errors import ConfigError
from kaisched.framework.advice.advice import Kind
from kaisched.objects.faults import did_you_mean
from kaisched.objects.gangs import kind_of
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import ObjectMeta
from kaisched.view.documents import envelope, gpus, pending_job, stamp
from kaisched.view.paths import Part
from kaisched.view.queues import queue_entries, rows_below

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.core.tables import JobTable
    from kaisched.framework.intents import Evict
    from kaisched.framework.report.records import Because
    from kaisched.view.history import Decisions
    from kaisched.view.live import LiveView
    from kaisched.view.paths import Part
    from kaisched.view.publisher import Told
    from kaisched.view.reading import Reading, Sight

_HOUR_S: Final = 3_600
_MOST_NAMES: Final = 5
_MOST_NODES: Final = 4
_HIDDEN: Final = {"podGroup": None, "workload": None}
"""In the place of a job that the reader does not see."""
WHY: Final = "kaisched.io/why/v1"
STATES: Final = ("pending", "partly", "running", "ending")
"""The states of a job: it waits; it runs, and more of its pods wait; all its pods run; they end."""
WAITING: Final = "waiting"
"""Stands for the first two, where jobs are asked for."""
SORTS: Final = ("order", "name", "created", "since", "priority", "gpus")
_OF_TASK: Final = {
    TaskState.PENDING: "pending",
    TaskState.GATED: "gated",
    TaskState.ALLOCATED: "to be bound now",
    TaskState.PIPELINED: "promised room",
    TaskState.BINDING: "binding",
    TaskState.BOUND: "bound",
    TaskState.RUNNING: "running",
    TaskState.RELEASING: "ending",
    TaskState.STUCK: "ending for too long",
    TaskState.GONE: "ended",
}


class Wanted(NamedTuple):
    """Which jobs are asked for, and in which order."""

    queue: int = -1
    """The row of a queue, those below it included; -1 for any."""
    reason: str = ""
    state: str = ""
    namespace: str = ""
    name: str = ""
    """A part of the name."""
    user: str = ""
    """Who submitted them."""
    sort: str = "order"
    """One of :data:`SORTS`, with ``-`` before it from the other end."""
    part: Part = Part()


def jobs_document(
    reading: Reading,
    wanted: Wanted,
    sight: Sight,
    told: Mapping[str, Told],
) -> dict[str, Any]:
    """Return the jobs that are asked for, with what is told of some of them."""
    rows, seen = _found(reading, wanted, sight)
    names = reading.snapshot.jobs.name
    return {
        **envelope(reading.view),
        **wanted.part.document(len(seen)),
        "time": stamp(reading.view.time_s),
        "hidden": len(rows) - len(seen),
        "reasons": reading.reasons_of(rows),
        "jobs": [
            job_entry(reading, row, told.get(names[row]), sight) for row in wanted.part.of(seen)
        ],
    }


def waiting_names(reading: Reading, wanted: Wanted, sight: Sight) -> list[str]:
    """Return the names of those jobs of an answer that wait, to ask for their sentences."""
    _, seen = _found(reading, wanted, sight)
    names = reading.snapshot.jobs.name
    return [names[row] for row in wanted.part.of(seen) if reading.code[row]]


def _found(reading: Reading, wanted: Wanted, sight: Sight) -> tuple[RowVec, list[int]]:
    """Return the jobs that match, and those of them that the reader sees, in order.

    A job that the reader does not see matches no name and no user: else a number would tell which
    there are.
    """
    rows = _matching(reading, wanted)
    shown = rows[sight.of_jobs(reading, rows)]
    if wanted.namespace or wanted.name or wanted.user:
        jobs = reading.snapshot.jobs
        rows = shown = shown[[_is_named(jobs, row, wanted) for row in shown.tolist()]]
    seen: list[int] = _sorted(reading, shown, wanted.sort).tolist()
    return rows, seen


def job_document(
    reading: Reading, row: int, sight: Sight, told: Mapping[str, Told]
) -> dict[str, Any]:
    """Return everything about one job; with what ``kaisched why -o json`` prints."""
    name = reading.snapshot.jobs.name[row]
    is_waiting = bool(reading.code[row])
    said = told.get(name) if is_waiting else None
    entry = job_entry(reading, row, said, sight)
    queue = int(reading.snapshot.jobs.queue_of_job[row])
    path = reading.snapshot.queues.tree.path(queue).tolist() if queue >= 0 else []
    record = None if said is None else said.record
    return {
        **envelope(reading.view),
        "schemaVersion": WHY,
        "podGroup": name,
        "workload": workload_document(reading.snapshot.jobs.owner_of(row)),
        "pending": _pending(entry, said) if is_waiting else None,
        "complete": not is_waiting or said is not None,
        "because": None if record is None else record.message,
        "cure": _text(reading, row)[1],
        "nodeMisses": [
            {"reason": miss.reason, "nodes": miss.nodes, "detail": miss.detail}
            for miss in (() if record is None else record.node_misses)
        ],
        "evictionRefusals": {} if record is None else dict(record.eviction_refusals),
        "pods": _pods(reading, row),
        "queues": queue_entries(reading, path),
        "job": entry,
        "ahead": [_ahead(reading, row, of, why) for of, why in reading.ahead_of(row, MOST_AHEAD)],
        "evictions": evictions_of(reading.view, name, sight),
        "when": None,
        "timeline": timeline(reading.view, name, sight),
    }


MOST_AHEAD: Final = 50
"""Jobs ahead of another that are listed."""


def _ahead(reading: Reading, job: int, other: int, why: Because) -> dict[str, Any]:
    """Return a job of the same queue that comes before a job, and why it does."""
    jobs, at = reading.snapshot.jobs, reading.place(other)
    return {
        "position": 0 if at is None else at[0],
        "podGroup": jobs.name[other],
        "workload": workload_document(jobs.owner_of(other)),
        "user": _user(jobs, other),
        "gpus": gpus(int(reading.gpu_pending[other])),
        "since": stamp(float(reading.since_s[other])),
        "reason": _text(reading, other)[0],
        "because": why.text(jobs.title[job]),
    }


def row_of_job(reading: Reading, name: str) -> int:
    """Return the row of a job, by what it is called, or by the name of one of its pods.

    Raises:
        ConfigError: there is none, or there are several.

    """
    row = reading.row_of_job.get(name)
    return job_meant(name, _named(reading)) if row is None else row


class Named(NamedTuple):
    """An object by which a job can be named."""

    kind: str
    """Empty where it is not known."""
    name: str
    """``namespace/name``"""
    row: int
    title: str = ""
    """What the job is called, with its own name."""


def _named(reading: Reading) -> list[list[Named]]:
    """Return what names jobs, the closest first: pod groups, pods, workloads."""
    tasks, jobs = reading.snapshot.tasks, reading.snapshot.jobs
    ours = np.flatnonzero(tasks.job_of_task >= 0)
    ours = ours[reading.is_there[tasks.job_of_task[ours]]]
    pods = zip(ours.tolist(), tasks.job_of_task[ours].tolist(), strict=True)
    rows = reading.row_of_job.items()
    return [
        [Named(PodGroup.KIND, name, row, jobs.title[row]) for name, row in rows],
        [Named("Pod", tasks.name[task], row, jobs.title[row]) for task, row in pods],
        [it for _, row in rows for it in _workloads_of(jobs, row)],
    ]


def _workloads_of(jobs: JobTable, row: int) -> Iterator[Named]:
    """Yield what a job is of: its topmost owner, the object that it is, and that one's owner."""
    owner, meta, title = jobs.owner_of(row), jobs.metadata[row], jobs.title[row]
    if owner is not None:
        yield Named(owner.kind, f"{owner.namespace}/{owner.name}", row, title)
    if isinstance(meta, ObjectMeta):
        yield Named("", f"{meta.namespace}/{meta.name}", row, title)
        for above in meta.owner_references:
            if above.controller:
                yield Named(above.kind, f"{meta.namespace}/{above.name}", row, title)


def job_meant(text: str, known: Sequence[Sequence[Named]]) -> int:
    """Return the row of the job that a text means.

    It is ``NAME`` or ``NAMESPACE/NAME``, with a kind before it where there are several, as kubectl
    writes it or as we do: ``job/NAME``, ``Job NAMESPACE/NAME``.

    Raises:
        ConfigError: there is none, or there are several.

    """
    readings = list(_readings(text))
    for kind, name in readings:
        for these in known:
            found = {it.row: it for it in these if _is_meant(it, kind, name)}
            if len(found) == 1:
                return next(iter(found))
            for it in found.values():
                if it.title == text:
                    return it.row
            if found:
                raise _several(text, list(found.values()))
    name = readings[-1][1]
    every = [it.name for these in known for it in these]
    near = did_you_mean(name, [it if "/" in name else it.partition("/")[2] for it in every])
    fix = near if near.endswith("?") else "only pods of our scheduler names are read"
    raise ConfigError(f"there is no job or pod {text}", fix=fix)


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind, if any, and the name that a text may mean."""
    kind, space, name = text.partition(" ")
    if space:  # a title: what job of several it is may follow in brackets
        yield kind_of(kind) or kind.lower(), name.partition(" (")[0]
        return
    yield "", text
    kind, _, name = text.partition("/")
    if name and (kind := kind_of(kind)):
        yield kind, name


def _several(text: str, found: list[Named]) -> ConfigError:
    titles = sorted(it.title for it in found)
    named = ", ".join(titles[:_MOST_NAMES])
    more = f" and {len(titles) - _MOST_NAMES} more" if len(titles) > _MOST_NAMES else ""
    is_spread = len({it.name for it in found}) == len(found)
    fix = "write the namespace too" if is_spread else "name one of them"
    return ConfigError(f"several are called {text}: {named}{more}", fix=fix)


def _is_meant(it: Named, kind: str, name: str) -> bool:
    """Tell whether an object is meant; one of an unknown kind may be of any."""
    if it.name != name and ("/" in name or it.name.partition("/")[2] != name):
        return False
    return not kind or it.kind.lower() in {"", kind}


def job_entry(reading: Reading, row: int, told: Told | None, sight: Sight) -> dict[str, Any]:
    """Return an entry of the list: for a job that waits, a pending pod group of a plan and more."""
    jobs = reading.snapshot.jobs
    return {
        **_why(reading, row, told, sight),
        "user": _user(jobs, row),
        "state": state_of(reading, row),
        "place": None if (at := reading.place(row)) is None else {"position": at[0], "of": at[1]},
        "priority": int(jobs.priority[row]),
        "preemptible": bool(jobs.is_preemptible[row]),
        "created": stamp(float(jobs.created_s[row])),
        "started": stamp(float(jobs.last_start_s[row])) if reading.running[row] else None,
        "since": stamp(float(reading.since_s[row])),
        **_nodes(reading, row),
        "pods": {"running": int(reading.running[row]), "pending": int(reading.pending[row])},
        "gpus": {
            "held": gpus(int(reading.gpu_held[row])),
            "pending": gpus(int(reading.gpu_pending[row])),
        },
    }


def _user(jobs: JobTable, row: int) -> str | None:
    """Return who submitted a job, where its objects say so."""
    owner = jobs.owner_of(row)
    return (owner.user or None) if owner is not None else None


def _nodes(reading: Reading, row: int) -> dict[str, Any]:
    """Return where the running pods of a job are: a few of the nodes, and how many there are."""
    names = reading.snapshot.nodes.name
    found = reading.node_of_task[[it for it in reading.tasks_of(row) if reading.is_running[it]]]
    rows = np.unique(found[found >= 0])
    return {"nodes": [names[it] for it in rows[:_MOST_NODES].tolist()], "nodeCount": len(rows)}


def state_of(reading: Reading, row: int) -> str:
    """Return the state of a job in one of the words of :data:`STATES`."""
    if reading.code[row]:
        return "partly" if reading.running[row] else "pending"
    return "running" if reading.running[row] else "ending"


def _why(reading: Reading, row: int, told: Told | None, sight: Sight) -> dict[str, Any]:
    if told is None:
        return {
            "podGroup": reading.snapshot.jobs.name[row],
            "workload": workload_document(reading.snapshot.jobs.owner_of(row)),
            "queue": reading.queue_name(row),
            "reason": _text(reading, row)[0],
            "message": None,
            "advice": [],
            "turn": None,
        }
    advice = told.advice
    if not sight.sees_all and any(it.kind is Kind.END for it in advice):
        advice = ()  # it names a job of others
    record = replace(told.record, advice=advice)
    return pending_job(record, None if told.turn is None else _seen(told.turn, sight))


def _text(reading: Reading, row: int) -> tuple[str | None, str | None]:
    """Return the reason of a job that waits, and what helps against it in general."""
    code = int(reading.code[row])
    return (text_of(code).name, text_of(code).cure) if code else (None, None)


def _seen(turn: dict[str, Any], sight: Sight) -> dict[str, Any]:
    """Return a place in the order without the names of jobs that the reader does not see."""

    def ahead(of: dict[str, Any] | None) -> dict[str, Any] | None:
        return of if of is None or sight.sees(of["queue"]) else {**of, **_HIDDEN}

    levels = [
        {
            **level,
            "head": level["head"] if sight.sees(level["queue"]) else None,
            "ahead": ahead(level["ahead"]),
        }
        for level in turn["levels"]
    ]
    return {**turn, "ahead": ahead(turn["ahead"]), "levels": levels}


def _pending(entry: dict[str, Any], told: Told | None) -> dict[str, Any]:
    """Return the entry of a plan, with what would help in the sentence."""
    keys = ("podGroup", "workload", "queue", "reason", "message", "advice", "turn")
    found = {key: entry[key] for key in keys}
    if told is not None and told.advice_text and found["advice"]:
        found["message"] = f"{found['message']}; {told.advice_text}"
    return found


def _pods(reading: Reading, row: int) -> list[dict[str, Any]]:
    tasks, nodes = reading.snapshot.tasks, reading.snapshot.nodes.name
    evicted = frozenset(reading.view.moves.evict_tasks.tolist())
    found = []
    for task in reading.tasks_of(row):
        at = reading.promised.get(task, int(reading.node_of_task[task]))
        state = TaskState(int(reading.state[task]))
        if state is TaskState.RELEASING and task in evicted:
            word = "promised room" if task in reading.promised else "to be evicted now"
        else:
            word = _OF_TASK.get(state, state.name.lower())
        found.append(
            {
                "pod": tasks.name[task],
                "state": word,
                "node": nodes[at] if at >= 0 else None,
                "gpus": gpus(int(reading.gpu_of_task[task])),
            }
        )
    return found


def _matching(reading: Reading, wanted: Wanted) -> RowVec:
    """Return the jobs that are there and that the filters let through, whatever their names are."""
    jobs = reading.snapshot.jobs
    found: BoolVec = reading.is_there.copy()
    if wanted.queue >= 0:
        end = int(reading.snapshot.queues.tree.end_of_queue[wanted.queue])
        found &= (jobs.queue_of_job >= wanted.queue) & (jobs.queue_of_job < end)
    if wanted.reason:
        codes = [it for it in np.unique(reading.code).tolist() if it]
        found &= np.isin(reading.code, [it for it in codes if text_of(it).name == wanted.reason])
    if wanted.state:
        waits, runs = reading.code != 0, reading.running > 0
        found &= {
            "pending": waits & ~runs,
            "partly": waits & runs,
            "running": ~waits & runs,
            "ending": ~waits & ~runs,
            WAITING: waits,
        }[wanted.state]
    return np.flatnonzero(found)


def _is_named(jobs: JobTable, row: int, wanted: Wanted) -> bool:
    full, title = jobs.name[row], jobs.title[row]
    namespace = full.partition("/")[0]
    if wanted.namespace not in {"", namespace} or wanted.user not in {"", _user(jobs, row)}:
        return False
    if not {"/", " "} & set(wanted.name):
        full, title = full.partition("/")[2], title.partition("/")[2]
    return wanted.name in full or wanted.name in title


def _sorted(reading: Reading, rows: RowVec, sort: str) -> RowVec:
    jobs, key = reading.snapshot.jobs, sort.removeprefix("-")
    if key == "name":
        rows = np.array(sorted(rows.tolist(), key=lambda row: jobs.name[row]), np.int64)
    elif key == "order":
        rows = rows[np.lexsort([rows, reading.rank[rows], jobs.queue_of_job[rows]])]
    else:
        column: Any = jobs.created_s if key == "created" else jobs.priority
        if key == "since":
            column = reading.since_s
        elif key == "gpus":
            column = reading.gpu_held + reading.gpu_pending
        sign = -1 if sort.startswith("-") else 1
        return rows[np.lexsort([rows, sign * column[rows]])]
    return rows[::-1] if sort.startswith("-") else rows


MOST_OF_A_JOB: Final = 100
"""Entries of a timeline: the latest of a job."""
_MOST_REASONS: Final = 5
_ANOTHER: Final = "another job"
"""Stands in sentences for a job that the reader does not see."""


def evictions_document(reading: Reading, queue: str, part: Part, sight: Sight) -> dict[str, Any]:
    """Return the evictions of the last cycles, the latest first.

    With a queue, those of jobs in and below it, and those for such jobs. A reader sees an eviction
    who sees the jobs of the queue that lost a pod.

    Raises:
        ConfigError: there is no such queue.

    """
    names = reading.snapshot.queues.name
    wanted = {names[row] for row in rows_below(reading, queue)} if queue else set()
    found = [
        (decided, evict)
        for decided, evict in reading.view.history.evictions()
        if not queue or evict.queue in wanted or evict.beneficiary_queue in wanted
    ]
    seen = [(decided, evict) for decided, evict in found if sight.sees(evict.queue)]
    return {
        **envelope(reading.view),
        **part.document(len(seen)),
        "hidden": len(found) - len(seen),
        "evictions": [_eviction(decided, evict, sight) for decided, evict in part.of(seen)],
    }


def _eviction(decided: Decisions, evict: Evict, sight: Sight) -> dict[str, Any]:
    return {
        "cycle": decided.cycle,
        "time": stamp(decided.time_s),
        "pod": evict.pod,
        "podGroup": evict.pod_group,
        "workload": workload_document(evict.top_owner),
        "queue": evict.queue,
        "node": evict.node,
        "action": evict.action,
        "rule": evict.kind or evict.action,
        **_beneficiary(evict, sight),
        "beneficiaryQueue": evict.beneficiary_queue or None,
        "reason": _sentence(evict, sight),
    }


def decisions_document(reading: Reading, queue: str, part: Part, sight: Sight) -> dict[str, Any]:
    """Return the evictions of the last cycles by decision, the latest first.

    What one action evicts for one job in one cycle is a decision; where there is no such job, what
    goes of one job is. Queues and readers are as in :func:`evictions_document`.

    Raises:
        ConfigError: there is no such queue.

    """
    found: dict[tuple[object, ...], list[tuple[Decisions, Evict, float]]] = {}
    names = reading.snapshot.queues.name
    wanted = {names[row] for row in rows_below(reading, queue)} if queue else set()
    hidden = 0
    for decided in reversed(reading.view.history.decisions):
        for evict, lost_s in zip(decided.evictions, decided.lost_s, strict=True):
            if queue and not {evict.queue, evict.beneficiary_queue} & wanted:
                continue
            if not sight.sees(evict.queue):
                hidden += 1
                continue
            key = decided.cycle, *evict.decision
            found.setdefault(key, []).append((decided, evict, lost_s))
    listed = list(found.values())
    return {
        **envelope(reading.view),
        **part.document(len(listed)),
        "hidden": hidden,
        "decisions": [_decision(victims, sight) for victims in part.of(listed)],
    }


MOST_VICTIMS: Final = 50
"""Pods of one decision that are listed."""


def _decision(victims: Sequence[tuple[Decisions, Evict, float]], sight: Sight) -> dict[str, Any]:
    decided, first, _ = victims[0]
    return {
        "cycle": decided.cycle,
        "time": stamp(decided.time_s),
        "action": first.action,
        "rule": first.kind or first.action,
        **_beneficiary(first, sight),
        "beneficiaryQueue": first.beneficiary_queue or None,
        "reason": _sentence(first, sight),
        "pods": len(victims),
        "jobs": len({it.pod_group for _, it, _ in victims}),
        "queues": sorted({it.queue for _, it, _ in victims}),
        "lostGpuHours": round(sum(lost_s for _, _, lost_s in victims) / _HOUR_S, 3),
        "victims": [
            {
                "pod": it.pod,
                "podGroup": it.pod_group,
                "workload": workload_document(it.top_owner),
                "queue": it.queue,
                "node": it.node,
            }
            for _, it, _ in victims[:MOST_VICTIMS]
        ],
    }


def evictions_of(view: LiveView, job: str, sight: Sight) -> list[dict[str, Any]]:
    """Return why pods of a job were evicted lately, each reason once, the latest first."""
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    for _, evict in view.history.evictions():
        if evict.pod_group == job:
            whom, reason = _beneficiary(evict, sight), _sentence(evict, sight)
            told = {"action": evict.action, **whom, "reason": reason}
            found.setdefault((evict.action, whom["beneficiary"], reason), told)
    return list(found.values())[:_MOST_REASONS]


def _beneficiary(evict: Evict, sight: Sight) -> dict[str, Any]:
    """Return for whom a pod was evicted; nobody where the reader does not see that job."""
    is_seen = bool(evict.beneficiary) and sight.sees(evict.beneficiary_queue)
    return {
        "beneficiary": evict.beneficiary if is_seen else None,
        "beneficiaryWorkload": workload_document(evict.beneficiary_owner if is_seen else None),
    }


def _sentence(evict: Evict, sight: Sight) -> str:
    """Return why a pod was evicted, without the name of a job that the reader does not see."""
    if not evict.beneficiary or sight.sees(evict.beneficiary_queue):
        return evict.reason
    name = rf"(?<![\w.-]){re.escape(evict.beneficiary_title)}(?![\w-]|\.\w)"
    return re.sub(name, _ANOTHER, evict.reason)


def timeline(view: LiveView, job: str, sight: Sight) -> list[dict[str, Any]]:
    """Return the last decisions on a job, the latest first."""
    found: list[dict[str, Any]] = []
    for decided in reversed(view.history.decisions):
        at = {"cycle": decided.cycle, "time": stamp(decided.time_s)}
        found.extend({**at, **entry} for entry in _of_job(decided, job, sight))
        if len(found) >= MOST_OF_A_JOB:
            break
    return found[:MOST_OF_A_JOB]


def _of_job(decided: Decisions, job: str, sight: Sight) -> Iterator[dict[str, Any]]:
    if job in decided.waits:
        text = text_of(decided.waits[job])
        yield _entry("waits", None, None, text.name)
    for word, moves in (("bound", decided.binds), ("promised", decided.nominations)):
        for move in moves:
            if move.pod_group == job:
                yield _entry(word, move.pod, move.node, None)
    for evict in decided.evictions:
        if evict.pod_group == job:
            yield _entry("evicted", evict.pod, evict.node, _sentence(evict, sight))


def _entry(what: str, pod: str | None, node: str | None, reason: str | None) -> dict[str, Any]:
    return {"what": what, "pod": pod, "node": node, "reason": reason}
