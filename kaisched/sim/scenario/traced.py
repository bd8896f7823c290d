"""Traces of a scenario: their readers, the parts used, and the queues of their jobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU_UNIT
from kaisched.errors import ConfigError
from kaisched.sim.grid import run_ticks
from kaisched.sim.making import Job
from kaisched.sim.reading import place_of, read_trace
from kaisched.sim.scenario.document import TraceLine
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.scenario.jobs import Frame
from kaisched.sim.traces.openb import read_openb
from kaisched.sim.traces.rows import JobRow, JobRows
from kaisched.sim.traces.swf import read_swf
from kaisched.sim.traces.table import read_table
from kaisched.sim.workload import JobKind, kind_of, scaled

MOST_PROCESSORS = 100_000


@dataclass(frozen=True, slots=True)
class Traced:
    """One trace after reading."""

    line: TraceLine
    name: str
    rows: JobRows


def read_traces(lines: Sequence[TraceLine], found: Findings, folder: Path) -> list[Traced]:
    """Read every trace; record a fault for each that fails."""
    traced = []
    for at, line in enumerate(lines):
        found.number(
            line.processors_per_gpu, "traces", at, "processorsPerGpu", least=1, most=MOST_PROCESSORS
        )
        try:
            place = place_of(line.path, folder)
            traced.append(Traced(line, place.name, _read(line, place)))
        except ConfigError as error:
            inside = bool(error.file)
            found.add_error(error, "", *(() if inside else ("traces", at, "path")))
    for trace in traced:
        found.warnings += trace.rows.warnings
    return traced


def queues_of_traces(traced: Sequence[Traced], gpus: int) -> list[QueueRow]:
    """Return the queues of the traces, for a scenario that names none."""
    rows: dict[str, QueueRow] = {}
    for trace in traced:
        if trace.line.queue:
            rows.setdefault(trace.line.queue, QueueRow(trace.line.queue, quota={"gpu": 0}))
            continue
        nodes = trace.rows.nodes_of_queue
        quotas = scaled(list(nodes.values()), gpus) if trace.line.quota == "published" else []
        quota_of = dict(zip(nodes, quotas, strict=False))
        for name in trace.rows.queues:
            row = QueueRow(
                name,
                created_s=float(len(rows)),
                quota={"gpu": quota_of.get(name, 0) * GPU_UNIT},
                weight={"gpu": nodes.get(name, 0.0) or 1.0},
            )
            rows.setdefault(name, row)
    return list(rows.values())


def jobs_of_traces(traced: Sequence[Traced], frame: Frame, most_gpus: int) -> list[Job]:
    """Return the jobs of all traces, with pods for nodes of at most ``most_gpus``."""
    jobs: list[Job] = []
    kinds: dict[int, JobKind] = {}
    for at, trace in enumerate(traced):
        begin_s, end_s = _stretch(trace.line, frame.found, at)
        unknown = {row.queue for row in trace.rows.rows} - frame.queues.keys()
        if trace.line.queue:
            unknown = {trace.line.queue} - frame.queues.keys()
        for name in sorted(unknown)[:1]:
            frame.found.known(name, list(frame.queues), "queue for jobs", "traces", at, "queue")
        if unknown:
            continue
        rows = sorted(
            (row for row in trace.rows.rows if begin_s <= row.submit_s < end_s),
            key=lambda row: row.submit_s,
        )
        ticks = run_ticks(np.array([row.duration_s for row in rows]), frame.step_s).tolist()
        for row, run in zip(rows, ticks, strict=True):
            submitted_s = row.submit_s - begin_s
            if submitted_s >= frame.end_s:
                break
            kind = row.kind
            if kind is None:
                gpus = int(row.gpus)  # a trace with parts of GPUs says what its pods are
                if gpus not in kinds:
                    kinds[gpus] = kind_of(gpus, most_gpus)
                kind = kinds[gpus]
            queue = frame.queues[trace.line.queue or row.queue]
            jobs.append(Job(submitted_s, run, queue, row.gpus, kind, trace.name))
    return jobs


def _stretch(line: TraceLine, found: Findings, at: int) -> tuple[float, float]:
    begin_s = found.seconds(line.begin, "traces", at, "begin")
    end_s = math.inf
    if line.end is not None:
        end_s = found.seconds(line.end, "traces", at, "end")
        if end_s <= begin_s:
            fix = "write an instant after begin"
            found.add("is not after begin", "traces", at, "end", value=line.end, fix=fix)
    return begin_s, end_s


def _read(line: TraceLine, place: Path) -> JobRows:
    form = line.format or _form_of(place)
    if form == "openb":
        return read_openb(place)
    if form == "swf":
        return read_swf(place, line.queue_by, max(line.processors_per_gpu, 1))
    if form == "csv":
        return read_table(place)
    trace = read_trace(place)
    names = trace.queue_names
    columns = zip(
        trace.submit_s.tolist(),
        trace.duration_s.tolist(),
        trace.queue.tolist(),
        trace.gpus.tolist(),
        strict=True,
    )
    rows = [JobRow(submit, run, names[queue], gpus) for submit, run, queue, gpus in columns]
    nodes = zip(names, trace.published_nodes, strict=True)
    return JobRows(rows, {name: number or 0.0 for name, number in nodes})


def _form_of(place: Path) -> str:
    if place.is_dir():
        return "openb" if (place / "nodes.csv").is_file() else "vc"
    return "swf" if ".swf" in place.suffixes else "csv"
