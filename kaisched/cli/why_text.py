"""Why a job waits, as text and as ``kaisched.io/why/v1``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.cli.when_text import when_document, when_lines
from kaisched.core.refusals import Refusal, RefusalText, code_named, text_of
from kaisched.core.states import TaskState
from kaisched.framework.advice.advice import DOES_NOT
from kaisched.framework.advice.adviser import Adviser
from kaisched.framework.report.turns import Because, Turns
from kaisched.units import format_amount
from kaisched.view.jobs import WHY, job_meant, workloads_of
from kaisched.view.past import eviction_of
from kaisched.view.plan_document import pending_job, queue_document, share_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.framework.report.records import CycleResult, DecisionRecord, QueueShare
    from kaisched.sim.forecast.forecast import Forecast

_MOST_PODS: Final = 5
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
    of_task = zip(tasks.name, tasks.job_of_task.tolist(), strict=True)
    job = job_meant(
        name,
        {it: row for row, it in enumerate(jobs.name)},
        {pod: row for pod, row in of_task if row >= 0},
        [(it, row) for row, meta in enumerate(jobs.metadata) for it in workloads_of(meta)],
    )
    return Found(job, jobs.name[job])


def document(result: CycleResult, found: Found, foreseen: Forecast | None = None) -> dict[str, Any]:
    """Return everything about a job."""
    session, record = result.records.session, _record(result, found)
    turn = Turns(result).document(found.job)
    return {
        "schemaVersion": WHY,
        "podGroup": found.name,
        "pending": pending_job(record, turn) if record is not None else None,
        "because": None if record is None else result.records.record(found.job).message,
        "cure": None if record is None else text_of(code_named(record.reason, record.plugin)).cure,
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
        "evictions": _evictions(result, found),
        "when": when_document(foreseen) if foreseen is not None else None,
    }


def when_lines_of(foreseen: Forecast | None) -> list[str]:
    """Return the lines of a forecast; none without one."""
    return [] if foreseen is None else list(when_lines(foreseen))


def print_text(document: Mapping[str, Any], more: Sequence[str] = ()) -> None:
    """Print everything about a job, the answer first, and then more lines."""
    print("\n".join([*_lines(document), *more]))  # noqa: T201


def _record(result: CycleResult, found: Found) -> DecisionRecord | None:
    """Return the record of a job that stays pending, with the changes tried for it."""
    if found.job not in result.records.rows:
        return None
    return Adviser(result).record(found.job)


def _evictions(result: CycleResult, found: Found) -> list[dict[str, Any]]:
    """Return why pods of the job are evicted, each reason once."""
    reasons = dict.fromkeys(
        (it.action, it.beneficiary or None, it.reason)
        for it in result.evictions
        if it.pod_group == found.name
    )
    return [eviction_of(*it) for it in reasons]


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


def _path(result: CycleResult, found: Found) -> Iterator[QueueShare]:
    """Yield the queue of a job and those above it."""
    queue = int(result.records.session.jobs.queue_of_job[found.job])
    by_name = {share.name: share for share in result.shares}
    share = by_name.get(result.records.session.queues.name[queue]) if queue >= 0 else None
    while share is not None:
        yield share
        share = by_name.get(share.parent) if share.parent else None


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    name, pending = document["podGroup"], document["pending"]
    gate = _gate(document)
    if gate is not None:
        yield f"job {name} is pending: {gate.name}"
        yield f"  {gate.sentence}"
    elif pending is None:
        yield f"job {name} does not wait"
    else:
        # What would help is the next step, below.
        yield f"job {name} is pending: {pending['reason']}"
        if document["because"]:
            yield f"  {document['because']}"
    yield from _pod_lines(document["pods"])
    for it in document["evictions"]:
        whom = f" for {it['beneficiary']}" if it["beneficiary"] else ""
        yield f"  evicted by {it['action']}{whom}: {it['reason']}"
    if pending is not None:
        yield from _turn_lines(pending)
    yield from (f"  {_queue_line(share_of(entry))}" for entry in document["queues"])
    if pending is not None:
        yield from _next_lines(pending["advice"], document["cure"])
    elif gate is not None:
        yield f"  next: {gate.cure}"


def _gate(document: Mapping[str, Any]) -> RefusalText | None:
    """Return why a job waits of which all pods are gated: no action knows of it, as of no pod."""
    states = {it["state"] for it in document["pods"]}
    is_gated = document["pending"] is None and states == {_STATES[TaskState.GATED]}
    return text_of(Refusal.SCHEDULING_GATED) if is_gated else None


def _next_lines(advice: Sequence[Mapping[str, Any]], cure: str) -> Iterator[str]:
    """Yield the next step: a change that was tried and helps, else what helps in general."""
    helpful = [each["text"] for each in advice if each["helps"]]
    if helpful:
        yield f"  next: {'; or '.join(helpful)}"
        yield "    tried on a copy: the job starts, or is promised room"
        return
    yield f"  next: {cure}"
    if advice:
        useless = "; ".join(each["text"] for each in advice)
        yield f"    tried on a copy: {DOES_NOT}: {useless}"


def _turn_lines(pending: Mapping[str, Any]) -> Iterator[str]:
    turn = pending["turn"]
    if turn is None:
        return
    yield f"  position {turn['position']} of {turn['of']} in queue {pending['queue']}"
    ahead = turn["ahead"]
    if ahead is None:
        yield "  no job is ahead of it"
        return
    because = Because(ahead["plugin"] or "", ahead["key"], ahead["own"], ahead["other"])
    whose = ahead["podGroup"] or f"a job of queue {ahead['queue']}"
    behind = pending["podGroup"]
    if ahead["queue"] != pending["queue"]:  # the first of its queue: the queues are compared
        behind = next(f"queue {it['queue']}" for it in turn["levels"] if it["ahead"] == ahead)
    yield f"  directly ahead: {whose}, because {because.text(behind)}"


def _pod_lines(pods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(pods) <= _MOST_PODS:
        for it in pods:
            yield f"  pod {it['pod']}: {it['state']}{f' on {at}' if (at := it['node']) else ''}"
        return
    counts = Counter(it["state"] for it in pods)
    yield f"  {len(pods)} pods: " + ", ".join(f"{it} {state}" for state, it in counts.items())


def _queue_line(share: QueueShare) -> str:
    def amount(of: str) -> str:
        base = getattr(share, of).get("gpu", 0)
        return "unlimited" if base < 0 else format_amount("gpu", base)

    return (
        f"queue {share.name}: {amount('allocated')} GPUs allocated, fair share"
        f" {amount('fair_share')}, quota {amount('deserved')}, requested {amount('requested')}"
    )


def rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the pods of a job, each with why the job waits."""
    yield ("podGroup", "queue", "reason", "because", "position", "pod", "state", "node")
    pending = document["pending"] or {}
    turn = pending.get("turn") or {}
    queue = document["queues"][0]["name"] if document["queues"] else pending.get("queue")
    for it in document["pods"]:
        yield (
            document["podGroup"], queue, pending.get("reason"), document["because"],
            turn.get("position"), it["pod"], it["state"], it["node"],
        )  # fmt: skip


def names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pods of a job as kubectl reads them."""
    for it in document["pods"]:
        yield f"pod/{it['pod'].partition('/')[2]}"
