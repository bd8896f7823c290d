"""The comparison rules of the case format: what is stated must hold, nothing else is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.conformance.cluster import NOW_S, STARTED
from tests.conformance.evictions import gpus_of

if TYPE_CHECKING:
    from tests.conformance.scheduling import Ended

NODE = "node"
"""The detail where every status agrees and only a node differs."""
TOLERANCE = 1e-6


def differences(case: Mapping[str, Any], ended: Ended, *, limits_only: bool = False) -> str:
    """Return "", :data:`NODE`, or the first thing that differs."""
    expected = case["expected"]
    for name, most in (expected["limits"] or {}).items():
        if most is not None and ended.counts.get(name, 0) > most:
            return f"{name}: at most {most} expected, got {ended.counts[name]}"
    if limits_only:
        return ""
    nodes = []
    for found in _all(case, ended):
        if not found.startswith(NODE):
            return found
        nodes.append(found)
    return NODE + nodes[0].removeprefix(NODE) if nodes else ""


def _all(case: Mapping[str, Any], ended: Ended) -> Iterator[str]:
    expected, jobs = case["expected"], {job["name"]: job for job in case["cluster"]["jobs"]}
    card_mib = case["cluster"]["min_node_gpu_memory_mib"]
    for name, want in (expected["jobs"] or {}).items():
        if name in jobs:
            yield from _entry(name, want, jobs[name], jobs[name]["tasks"], ended, card_mib)
    of_task = {task["id"]: (job, task) for job in jobs.values() for task in job["tasks"]}
    for name, want in (expected["tasks"] or {}).items():
        if name in of_task:
            job, task = of_task[name]
            yield from _entry(name, want, job, [task], ended, card_mib)
    for name, want in (expected["nodes"] or {}).items():
        got = {
            "idle_gpus": ended.idle_gpus[name],
            "releasing_gpus": ended.releasing_gpus[name],
        }
        for field, value in want.items():
            if value is not None and abs(got[field] - value) > TOLERANCE:
                yield f"{name}: {field} expected {value}, got {got[field]}"


def _entry(
    name: str,
    want: Mapping[str, Any],
    job: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    ended: Ended,
    card_mib: float,
) -> Iterator[str]:
    states = {task["id"]: ended.tasks[task["id"]] for task in tasks}
    wrong = [t for t, got in states.items() if want["status"] not in (None, got.state)]
    if wrong:
        yield f"{wrong[0]}: expected {want['status']}, got {states[wrong[0]].state}"
    for task, got in states.items():
        if want.get("node") and not wrong and got.node != want["node"]:
            yield f"{NODE}: {task} expected on {want['node']}, got {got.node}"
    granted = sum(gpus_of(task["request"], card_mib) for task in tasks if states[task["id"]].node)
    yield from _sums(name, want, tasks, granted)
    yield from _last_start(name, want, ended.last_start_s[job["name"]])
    if want.get("fit_error_recorded") and job["name"] not in ended.explained:
        yield f"{name}: no decision record says why it did not fit"


def _sums(
    name: str,
    want: Mapping[str, Any],
    tasks: Sequence[Mapping[str, Any]],
    granted: float,
) -> Iterator[str]:
    requests = [task["request"] for task in tasks]
    sums = {
        "gpus_requested": sum(r["gpus"] + (r["gpu_fraction"] or 0) for r in requests),
        "gpus_accepted": granted,
        "cpu_millis": sum(r["cpu_millis"] for r in requests),
        "memory_bytes": sum(r["memory_bytes"] for r in requests),
    }
    for field, got in sums.items():
        value = want.get(field)
        if value is not None and abs(value - got) > TOLERANCE:
            yield f"{name}: {field} expected {value}, got {got}"


def _last_start(name: str, want: Mapping[str, Any], start_s: float) -> Iterator[str]:
    if want["status"] in STARTED and math.isnan(start_s):
        yield f"{name}: no last start time"
    age = want.get("last_start_older_than_s")
    if age is not None and not NOW_S - start_s >= age:
        yield f"{name}: last start should be {age} s old, is {NOW_S - start_s}"
