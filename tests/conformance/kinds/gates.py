"""Unit cases of limits and quotas: by the plain rule, and through the plugins' queue gate."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kaisched.actions.order.candidates import gather
from kaisched.core.axis import CPU, FIXED, GPU, MEMORY
from kaisched.core.refusals import text_of
from kaisched.testing.builder import Group, Job, Task
from tests.conformance.amounts import ROWS, Scale
from tests.conformance.asking import queue_row, session_of, store_of
from tests.conformance.outcome import NotBuiltError
from tests.oracles.shares import first_over

ORDER = (CPU, MEMORY, GPU)
NAMES = {row: name for name, row in ROWS.items()}


def over_limit(case: dict[str, Any]) -> str:
    """Tell whether a request takes a queue over its limit, and in which resource first."""
    return _over(case, "allocated", "max_allowed")


def non_preemptible_over_quota(case: dict[str, Any]) -> str:
    """Tell whether a request takes the non-preemptible part of a queue over its quota."""
    return _over(case, "allocated_non_preemptible", "deserved")


def _over(case: dict[str, Any], held: str, bound: str) -> str:
    asked = case["input"]
    scale = Scale.of(asked)
    queue = [asked["queue"]]
    ask = scale.column(asked["requested"])[:, None]
    failed = first_over(scale.shares(queue, held), ask, scale.shares(queue, bound), ORDER)
    got = NAMES.get(int(failed[0]))
    want = case["expected"]["resource"]
    if (got is not None) != case["expected"]["over"] or (want is not None and got != want):
        return f"expected {case['expected']}, got {got}"
    return ""


def results_over_limit(case: dict[str, Any]) -> str:
    """Ask the limits alone, from the leaf to the root."""
    return _gate(case, quota="")


def results_non_preemptible_over_quota(case: dict[str, Any]) -> str:
    """Ask the quotas of non-preemptible jobs alone."""
    return _gate(case, limit="")


def job_over_capacity(case: dict[str, Any]) -> str:
    """Ask limits and quotas, with what the job would place next."""
    return _gate(case)


def non_preemptible_job_over_quota(case: dict[str, Any]) -> str:
    """Ask the quotas alone, with what the job would place next."""
    return _gate(case, limit="")


def task_on_node_over_capacity(case: dict[str, Any]) -> str:
    """Ask limits and quotas for one task; without GPU memory the node makes no difference."""
    return _gate(case)


def _gate(case: dict[str, Any], *, quota: str = "deserved", limit: str = "max_allowed") -> str:
    asked = case["input"]
    scale = Scale.of(asked)
    given = {queue["id"]: queue for queue in asked["queues"]}
    rows = [queue_row(scale, queue, quota=quota, limit=limit) for queue in given.values()]
    store = store_of(rows, [job_of(scale, asked["job"])])
    session = session_of(store)
    ask = _ask(scale, asked, session)
    path = session.queues.tree.path(session.queues.row_of_name[asked["job"]["queue"]])
    queues = [given[session.queues.name[row]] for row in path.tolist()]
    codes = session.ask.queue_gate(
        session,
        "allocate",
        path.astype(np.int64),
        np.zeros(len(path), np.int64),
        np.repeat(ask[:, None], len(path), axis=1),
        scale.shares(queues, "allocated"),
        scale.shares(queues, "allocated_non_preemptible"),
    )
    refused = [] if codes is None else [text_of(code).name for code in codes.tolist() if code]
    if bool(refused) == case["expected"]["schedulable"]:
        return f"expected schedulable {case['expected']['schedulable']}, refusals {refused}"
    return ""


def _ask(scale: Scale, asked: Mapping[str, Any], session: Any) -> np.ndarray:
    """Return ``(R,)`` of the request given, of the tasks given, or of the job's next batch."""
    if "requested" in asked:
        return scale.column(asked["requested"])
    tasks = asked["tasks_to_allocate"] if asked.get("tasks_to_allocate") else []
    if "task" in asked:
        tasks = [asked["task"]]
    if tasks:
        asks = [list(request_of(scale, task).items()) for task in tasks]
        column = np.zeros(len(FIXED), np.int64)
        for name, amount in (pair for ask in asks for pair in ask):
            column[FIXED.index(name)] += amount
        return column
    job = np.zeros(1, np.int64)
    return np.asarray(gather(session, "allocate", job).asks(session, job)[:, 0])


def request_of(scale: Scale, task: Mapping[str, Any], device_memory_mib: int = 0) -> dict[str, int]:
    """Return what a task asks for in base units, by our resource names.

    A request for GPU memory counts as shares of the smallest device, rounded up to a hundredth.
    """
    request = dict(task.get("request") or {})
    if request.get("gpu_memory_mib"):
        if not device_memory_mib:
            raise NotBuiltError("GPU memory requests")
        hundredths = -(-100 * request["gpu_memory_mib"] // device_memory_mib)
        request["gpu"] = hundredths / 100 * request["gpu_devices"]
    if request.get("mig"):
        raise NotBuiltError("MIG")
    if request.get("dra_gpus"):
        raise NotBuiltError("DRA")
    amounts = {FIXED[row]: scale.amount(name, request.get(name) or 0) for name, row in ROWS.items()}
    return {name: amount for name, amount in amounts.items() if amount}


def job_of(
    scale: Scale,
    job: Mapping[str, Any],
    *,
    name: str = "",
    queue: str = "",
    created_s: float = 0.0,
    device_memory_mib: int = 0,
) -> Job:
    """Return a job of a unit case with its pending tasks."""
    podsets: Sequence[Mapping[str, Any]] = job["pod_sets"]
    name = name or job["name"] or "job"
    tasks = [
        Task(
            f"{name}-{at}-{task['id']}",
            request_of(scale, task, device_memory_mib),
            podset=podset["name"],
        )
        for at, podset in enumerate(podsets)
        for task in podset["tasks"]
    ]
    leaves = [Group(podset["name"], podset["min_available"]) for podset in podsets]
    root = leaves[0] if len(leaves) == 1 else Group(name, None, tuple(leaves))
    return Job(
        name,
        queue or job["queue"] or "",
        tasks,
        priority=job["priority"],
        is_preemptible=job["preemptible"],
        created_s=created_s,
        root=root if leaves else Group("default", 1),
    )
