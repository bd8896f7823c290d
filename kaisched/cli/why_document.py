"""Why a job waits, by a cycle of this process, as ``kaisched.io/why/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.cli.when_text import when_document
from kaisched.cli.why_text import GATED
from kaisched.core.axis import TaskState
from kaisched.core.refusals import code_named, text_of
from kaisched.framework.advice.adviser import Adviser
from kaisched.framework.report.turns import Turns
from kaisched.view.jobs import WHY, job_meant, workloads_of
from kaisched.view.past import eviction_of
from kaisched.view.plan_document import pending_job, queue_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.framework.report.records import CycleResult, DecisionRecord, QueueShare
    from kaisched.sim.forecast.forecast import Forecast

_STATES: Final = {
    TaskState.PENDING: "pending",
    TaskState.GATED: GATED,
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
            yield task, "promised room", nodes[promised[task]]
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
