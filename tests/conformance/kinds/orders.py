"""Unit cases of order: queues through the plugins' keys, jobs through the walk of the actions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kaisched.actions.eviction.victims import victim_order
from kaisched.actions.order.candidates import gather, pending_jobs
from kaisched.actions.order.job_order import keep_best
from kaisched.actions.order.predicted import PredictedOrder
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU_UNIT, TaskState
from kaisched.framework.session.session import Session
from kaisched.testing.builder import Group, Job, Task
from tests.conformance.amounts import ROWS, Scale
from tests.conformance.asking import ELSEWHERE, queue_row, session_of, store_of
from tests.conformance.kinds.gates import job_of, request_of

SIDES = ("left", "right")


def queue_order(case: dict[str, Any]) -> str:
    """Tell which of two queues goes first, given what each holds and would start next."""
    asked = case["input"]
    scale = Scale.of(asked)
    queues = [asked[side] for side in SIDES]
    jobs = [
        job_of(
            scale,
            asked[f"{side}_job"],
            name=side,
            queue=asked[side]["id"],
            device_memory_mib=asked["min_node_gpu_memory_mib"],
        )
        for side in SIDES
    ]
    shares = scale.shares(queues, "fair_share")
    store = store_of(
        [queue_row(scale, queue) for queue in queues],
        [job for job in jobs if job.tasks],
        scale.column(asked["total"], round_up=False),
    )
    session = session_of(store, {q["id"]: shares[:, at] for at, q in enumerate(queues)})
    rows = [session.queues.row_of_name[queue["id"]] for queue in queues]
    ask = np.zeros((len(session.axis), len(SIDES)), np.int64)
    candidates = gather(session, "allocate", pending_jobs(session))
    asks = candidates.asks(session, np.arange(len(candidates)))
    for at, job in enumerate(candidates.job.tolist()):
        ask[:, SIDES.index(session.jobs.name[job].partition("/")[2])] = asks[:, at]
    held = scale.shares(queues, "allocated")
    heads = np.full(len(rows), -1)  # what is compared does not depend on the job itself
    keys = session.ask.contest(session, np.array(rows, np.int64), heads, held, ask)
    # The last rule of all: queues stand oldest first.
    left, right = zip(*(column.tolist() for column in keys), rows, strict=False) if keys else rows
    got = "left" if left < right else "right"
    return "" if got == case["expected"]["first"] else f"expected {case['expected']}, got {got}"


def job_order(case: dict[str, Any]) -> str:
    """Return the order in which jobs come out when none is placed, or in which they are victims."""
    asked = case["input"]
    scale = Scale.of(asked)
    jobs = (asked.get("initial_jobs") or []) + (asked.get("pushed_jobs") or [])
    names = {(job.get("key") or job["name"]): job["name"] for job in jobs}
    made = [job_of(scale, job, name=job.get("key") or job["name"]) for job in jobs]
    is_of_victims = asked["options"]["victims"]
    if is_of_victims:
        made = [_running(scale, job, given) for job, given in zip(made, jobs, strict=True)]
    session = session_of(store_of([_queue(queue) for queue in asked["queues"]], made))
    rows = _victims(session) if is_of_victims else _popped(session, asked["options"])
    order = [names[session.jobs.name[row].partition("/")[2]] for row in rows]
    expected = case["expected"]
    if expected["order"] is not None and order != expected["order"]:
        return f"expected {expected['order']}, got {order}"
    if len(order) != expected["count"]:
        return f"expected {expected['count']} jobs, got {order}"
    return ""


def _popped(session: Session, options: Mapping[str, Any]) -> list[int]:
    """Return the rows of candidates in the order of their turns."""
    candidates = gather(session, "allocate", pending_jobs(session))
    if options["drop_non_preemptible"]:
        candidates = candidates.keep(session.jobs.is_preemptible[candidates.job])
    if options.get("drop_within_preemption_delay"):
        candidates = candidates.keep(session.jobs.preemption_delay_s[candidates.job] <= 0)
    if options["depth"] >= 0:
        candidates = keep_best(session, candidates, options["depth"])
    walk = PredictedOrder(session, "allocate", candidates)
    rows = []
    # To push a popped job back unplaced is to look at it and leave it there, so that
    # `requeue_first_popped` changes nothing.
    while (item := walk.peek()) is not None:
        rows.append(int(candidates.job[item.at]))
        walk.refused(item)
    return rows


def _running(scale: Scale, job: Job, given: Mapping[str, Any]) -> Job:
    """Return the job with the tasks that hold something; the case gives no pod sets for them."""
    tasks = [
        Task(
            f"{job.name}-{task['id']}",
            request_of(scale, {"request": task["accepted"]}),
            state=TaskState[task["status"].upper()],
            node=ELSEWHERE,
        )
        for task in given["tasks_by_status"]
    ]
    return replace(job, tasks=tasks, root=Group("default", 1))


def _victims(session: Session) -> list[int]:
    """Return the rows of all jobs in the order in which something of them would be offered."""
    units = victim_order(session, np.arange(len(session.jobs.name)))
    return list(dict.fromkeys(unit.job for unit in units))


def _queue(queue: Mapping[str, Any]) -> QueueRow:
    units = {"gpu": GPU_UNIT, "cpu": 1, "memory": 1}
    theirs = dict(zip(units, ("gpu", "cpu_millis", "memory_bytes"), strict=True))

    def bounds(field: str) -> dict[str, int]:
        amounts = {ours: queue["quota"][name][field] for ours, name in theirs.items()}
        return {ours: int(amounts[ours] * units[ours]) for ours in amounts if amounts[ours] != -1}

    assert set(theirs.values()) == set(ROWS)
    return QueueRow(
        queue["id"],
        queue["parent"] or "",
        created_s=float(queue["created_order"] or 0),
        priority=queue["priority"],
        quota=bounds("quota"),
        limit=bounds("limit"),
        weight={ours: float(queue["quota"][n]["over_quota_weight"]) for ours, n in theirs.items()},
    )
