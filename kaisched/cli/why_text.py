"""Why a job waits, as text and as ``kaisched.io/why/v1``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.cli.plan_document import pending_job, queue_document
from kaisched.cli.when_text import when_document, when_lines
from kaisched.core.refusals import code_named, text_of
from kaisched.core.states import TaskState
from kaisched.errors import ConfigError
from kaisched.framework.advice.advice import sentence_of
from kaisched.framework.advice.adviser import Adviser
from kaisched.framework.report.turns import Turns
from kaisched.objects.faults import did_you_mean
from kaisched.objects.wire import ObjectMeta
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.metadata import Metadata
    from kaisched.framework.report.records import CycleResult, DecisionRecord, QueueShare
    from kaisched.framework.report.turns import Turn
    from kaisched.sim.forecast.forecast import Forecast

SCHEMA: Final = "kaisched.io/why/v1"
_MOST_PODS: Final = 5
_MOST_NAMES: Final = 5
_STATES: Final = {
    TaskState.PENDING: "pending",
    TaskState.GATED: "gated",
    TaskState.BINDING: "binding",
    TaskState.BOUND: "bound",
    TaskState.RUNNING: "running",
    TaskState.RELEASING: "ending",
    TaskState.STUCK: "ending for too long",
    TaskState.GONE: "ended",
}


class Found(NamedTuple):
    """The row of a job."""

    job: int
    name: str


def find(result: CycleResult, name: str) -> Found:
    """Return the job that a name means: of a pod group, of one of its pods, or of its workload.

    Raises:
        ConfigError: there is none, or there are several.

    """
    session = result.records.session
    jobs, tasks = session.jobs, session.tasks
    groups = [row for row, it in enumerate(jobs.name) if _is_meant(it, name)]
    pods = [
        int(tasks.job_of_task[row])
        for row, it in enumerate(tasks.name)
        if _is_meant(it, name) and tasks.job_of_task[row] >= 0
    ]
    workload_of = [(row, it) for row, meta in enumerate(jobs.metadata) for it in _workloads(meta)]
    workloads = [row for row, it in workload_of if _is_meant(it, name)]
    found = dict.fromkeys(groups or pods or workloads)
    if len(found) == 1:
        (job,) = found
        return Found(job, jobs.name[job])
    if found:
        raise _several(name, sorted(jobs.name[row] for row in found))
    of_ours = (it for row, it in enumerate(tasks.name) if tasks.job_of_task[row] >= 0)
    every = (*jobs.name, *of_ours, *(it for _, it in workload_of))
    known = [it if "/" in name else it.partition("/")[2] for it in every]
    near = did_you_mean(name, known)
    fix = near if near.endswith("?") else "only pods of our scheduler names are read"
    raise ConfigError(f"there is no job or pod {name}", fix=fix)


def _workloads(meta: Metadata) -> Iterator[str]:
    """Yield the names of the workload that a job is of, and of the one that controls it."""
    if isinstance(meta, ObjectMeta):
        yield f"{meta.namespace}/{meta.name}"
        for owner in meta.owner_references:
            if owner.controller:
                yield f"{meta.namespace}/{owner.name}"


def _several(name: str, jobs: list[str]) -> ConfigError:
    named = ", ".join(jobs[:_MOST_NAMES])
    more = f" and {len(jobs) - _MOST_NAMES} more" if len(jobs) > _MOST_NAMES else ""
    is_spread = len({job.partition("/")[0] for job in jobs}) == len(jobs)
    fix = "write the namespace too" if is_spread else "name one of them"
    return ConfigError(f"several are called {name}: {named}{more}", fix=fix)


def _is_meant(full: str, name: str) -> bool:
    return full == name or ("/" not in name and full.partition("/")[2] == name)


def document(result: CycleResult, found: Found, foreseen: Forecast | None = None) -> dict[str, Any]:
    """Return everything about a job."""
    session, record = result.records.session, _record(result, found)
    turn = Turns(result).document(found.job)
    return {
        "schemaVersion": SCHEMA,
        "podGroup": found.name,
        "pending": pending_job(record, turn) if record is not None else None,
        "cure": None if record is None else _cure(record),
        "nodeMisses": [
            {"reason": miss.reason, "nodes": miss.nodes, "detail": miss.detail}
            for miss in (record.node_misses if record is not None else ())
        ],
        "evictionRefusals": dict(record.eviction_refusals) if record is not None else {},
        "pods": [
            {"pod": session.tasks.name[task], "state": state, "node": node or None}
            for task, state, node in _pods(result, found)
        ],
        "queues": [queue_document(share) for share in _path(result, found)],
        "when": when_document(foreseen) if foreseen is not None else None,
    }


def print_text(result: CycleResult, found: Found, foreseen: Forecast | None = None) -> None:
    """Print everything about a job, the answer first."""
    lines = [*_lines(result, found), *(when_lines(foreseen) if foreseen is not None else ())]
    print("\n".join(lines))  # noqa: T201


def _record(result: CycleResult, found: Found) -> DecisionRecord | None:
    """Return the record of a job that stays pending, with the changes tried for it."""
    if found.job not in result.records.rows:
        return None
    return Adviser(result).record(found.job)


def _lines(result: CycleResult, found: Found) -> Iterator[str]:
    record = _record(result, found)
    if record is None:
        yield f"job {found.name} does not wait"
    else:
        # What would help is the next step, below.
        bare = result.records.record(found.job).message
        yield f"job {found.name} is pending: {record.reason}"
        yield f"  {bare}"
    yield from _pod_lines(result, found)
    yield from _eviction_lines(result, found)
    turns = Turns(result)
    turn = turns.turn(found.job) if record is not None else None
    if turn is not None:
        yield from _turn_lines(result, turns, found.job, turn)
    yield from (f"  {_queue_line(share)}" for share in _path(result, found))
    if record is not None:
        yield from _next_lines(record)


def _next_lines(record: DecisionRecord) -> Iterator[str]:
    """Yield the next step: a change that was tried and helps, else what helps in general."""
    helpful = [str(each) for each in record.advice if each.helps]
    if helpful:
        yield f"  next: {'; or '.join(helpful)}"
        yield "    tried on a copy: the job starts, or is promised room"
        return
    yield f"  next: {_cure(record)}"
    if record.advice:
        yield f"    tried on a copy: {sentence_of(record.advice)}"


def _cure(record: DecisionRecord) -> str:
    """Return what a user can do about the reason, in general."""
    return text_of(code_named(record.reason, record.plugin)).cure


def _turn_lines(result: CycleResult, turns: Turns, job: int, turn: Turn) -> Iterator[str]:
    session = result.records.session
    queue = session.queues.name[turn.levels[0].queue]
    yield f"  position {turn.position} of {turn.of} in queue {queue}"
    if turn.ahead is None:
        yield "  no job is ahead of it"
    else:
        ahead = session.jobs.name[turn.ahead.job]
        yield f"  directly ahead: {ahead}, because {turns.because(job, turn.ahead)}"


def _pods(result: CycleResult, found: Found) -> Iterator[tuple[int, str, str]]:
    """Yield the row, the state after the cycle and the node of each pod."""
    session = result.records.session
    tasks, nodes = session.tasks, session.nodes.name
    bound = dict(zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True))
    promised = dict(
        zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True)
    )
    evicted = set(result.evict_tasks.tolist())
    for task in np.flatnonzero(tasks.job_of_task == found.job).tolist():
        at = int(tasks.node_of_task[task])
        if task in bound:
            yield task, "to be bound now", nodes[bound[task]]
        elif task in promised:
            yield task, "promised room that is being released", nodes[promised[task]]
        elif task in evicted:
            yield task, "to be evicted now", nodes[at] if at >= 0 else ""
        else:
            state = TaskState(int(tasks.state[task]))
            yield task, _STATES.get(state, state.name.lower()), nodes[at] if at >= 0 else ""


def _pod_lines(result: CycleResult, found: Found) -> Iterator[str]:
    pods = list(_pods(result, found))
    names = result.records.session.tasks.name
    if len(pods) <= _MOST_PODS:
        for task, state, node in pods:
            yield f"  pod {names[task]}: {state}{f' on {node}' if node else ''}"
        return
    counts = Counter(state for _, state, _ in pods)
    yield f"  {len(pods)} pods: " + ", ".join(f"{it} {state}" for state, it in counts.items())


def _eviction_lines(result: CycleResult, found: Found) -> Iterator[str]:
    """Yield why pods of the job are evicted, each reason once."""
    lines = (
        f"  evicted by {it.action}{f' for {it.beneficiary}' if it.beneficiary else ''}: {it.reason}"
        for it in result.evictions
        if it.pod_group == found.name
    )
    yield from dict.fromkeys(lines)


def _path(result: CycleResult, found: Found) -> Iterator[QueueShare]:
    """Yield the queue of a job and those above it."""
    queue = int(result.records.session.jobs.queue_of_job[found.job])
    by_name = {share.name: share for share in result.shares}
    share = by_name.get(result.records.session.queues.name[queue]) if queue >= 0 else None
    while share is not None:
        yield share
        share = by_name.get(share.parent) if share.parent else None


def _queue_line(share: QueueShare) -> str:
    def amount(of: str) -> str:
        base = getattr(share, of).get("gpu", 0)
        return "unlimited" if base < 0 else format_amount("gpu", base)

    return (
        f"queue {share.name}: {amount('allocated')} GPUs allocated, fair share"
        f" {amount('fair_share')}, quota {amount('deserved')}, requested {amount('requested')}"
    )
