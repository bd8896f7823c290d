"""Reader of jobs from one CSV file in our own format, for data that no other reader knows.

Columns are ``submit_s``, ``duration_s``, ``gpus`` (of each pod; below 1 a part of one) and
``queue``. Optional are
``pods`` (1 if empty), ``cpu`` (milli-CPU of each pod), ``memory`` (MiB of each pod),
``priority`` (50) and ``preemptible`` (true).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from kaisched.objects.faults import INT32_MAX
from kaisched.sim.reading import MOST_GPUS, MOST_SECONDS, Column, read_columns
from kaisched.sim.traces.rows import JobRow, JobRows
from kaisched.sim.workload import PRIORITY, JobKind, pod_of
from kaisched.units import MAX_AMOUNT, MEBIBYTE

COLUMNS: Final = ("submit_s", "duration_s", "gpus", "queue")
OPTIONAL: Final = ("pods", "cpu", "memory", "priority", "preemptible")
_MOST_PODS: Final = 10_000
_MOST_AMOUNT: Final = 1e12
_MOST_MEBIBYTES: Final = MAX_AMOUNT // MEBIBYTE
_SWITCH: Final = {"true": True, "false": False, "": True}


def read_table(path: Path) -> JobRows:
    """Read a file, which may be compressed."""
    columns = read_columns(path, COLUMNS, OPTIONAL)
    seconds = f"write seconds as a number from 0 to {MOST_SECONDS:.0f}"
    submit = columns["submit_s"].numbers(0, MOST_SECONDS, seconds)
    duration = columns["duration_s"].numbers(0, MOST_SECONDS, seconds)
    gpus = _gpus(columns["gpus"])
    ranges = {
        "pods": (1, _MOST_PODS),
        "cpu": (0, _MOST_AMOUNT),
        "memory": (0, _MOST_MEBIBYTES),
        "priority": (-INT32_MAX, INT32_MAX),
    }
    optional = {
        name: columns[name].filled_numbers(*ranges[name], f"write {name} as a whole number")
        if name in columns
        else [None] * len(submit)
        for name in ranges
    }
    rows = []
    for at, queue in enumerate(columns["queue"].values):
        if not queue or not queue.isprintable():
            raise columns["queue"].fail(at, "is no name", "name the queue of the job")
        pods = int(_or(optional["pods"][at], 1))
        pod = pod_of(gpus[at])
        pod = replace(
            pod,
            cpu=int(_or(optional["cpu"][at], pod.cpu)),
            memory=MEBIBYTE * int(_or(optional["memory"][at], pod.memory // MEBIBYTE)),
        )
        is_preemptible = True
        if "preemptible" in columns:
            word = columns["preemptible"].values[at].lower()
            if word not in _SWITCH:
                fault = "is neither true nor false"
                raise columns["preemptible"].fail(at, fault, "write true or false")
            is_preemptible = _SWITCH[word]
        priority = int(_or(optional["priority"][at], PRIORITY))
        kind = JobKind((pod,) * pods, priority, is_preemptible)
        rows.append(JobRow(float(submit[at]), float(duration[at]), queue, kind.gpus, kind))
    return JobRows(rows)


def _gpus(column: Column) -> list[float]:
    fix = f"write a whole number of GPUs from 0 to {MOST_GPUS:.0f}, or a part of one"
    gpus: list[float] = column.numbers(0, MOST_GPUS, fix).tolist()
    for at, number in enumerate(gpus):
        if number > 1 and number % 1:
            raise column.fail(at, "is not whole", fix)
    return gpus


def _or(value: float | None, default: float) -> float:
    return default if value is None else value
