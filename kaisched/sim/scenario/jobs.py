"""Jobs of a scenario: groups with arrivals by plan or by chance, and parts of traces."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU_UNIT, FloatVec
from kaisched.core.devices import LEAST_SHARE
from kaisched.errors import ConfigError
from kaisched.objects.faults import INT32_MAX
from kaisched.sim.arrivals import (
    DAY_S,
    MOST_JOBS,
    Backlog,
    Bodies,
    Chance,
    Job,
    JobSize,
    Length,
    OpenTime,
    always,
    evenly,
    poisson,
    weekly,
)
from kaisched.sim.scenario.document import WEEK, JobGroup, RunTime, Size, TraceLine
from kaisched.sim.scenario.findings import Findings
from kaisched.sim.scenario.nodes import Offered, claim_of, mib_of, pod_with, wish_of
from kaisched.sim.scenario.queues import Pools
from kaisched.sim.ticks import FOREVER, NEVER, run_ticks, tick_at
from kaisched.sim.traces import (
    JobRow,
    JobRows,
    place_of,
    read_openb,
    read_swf,
    read_table,
    read_trace,
)
from kaisched.sim.workload import (
    JobKind,
    PodKind,
    kind_of,
    pod_of,
    pod_of_memory,
    scaled,
    with_least_share,
)
from kaisched.units import memory_units, milli_cpu

ENDLESS = "endless"
FOREVER_WORD = "forever"
NEVER_WORD = "never"
MOST_GPUS = 64
MOST_PODS = 10_000
_MOST_SIGMA = 10.0
_WAYS = ("poissonPerHour", "every", "at", "backlog")


@dataclass(frozen=True, slots=True)
class Frame:
    """Values that all groups of a scenario share."""

    found: Findings
    queues: Mapping[str, int]
    """Position of each leaf."""
    step_s: float
    end_s: float
    first_day: int
    gpus: int
    """GPUs of the whole cluster."""
    most_gpus: int
    """GPUs of the largest node."""
    card_mib: tuple[int, int]
    """MiB of the smallest and of the largest GPU of which nodes say it; 0 for none."""
    chance: Chance
    pools: Pools
    offered: Offered
    """Devices for claims."""
    levels: Sequence[str] = ()
    """The levels of the topology that jobs may ask for."""
    least_share: int = LEAST_SHARE
    """Thousandths of a GPU that a part of one counts at least in its queue."""


def jobs_of(groups: Sequence[JobGroup], frame: Frame) -> tuple[list[Job], list[Backlog]]:
    """Return the jobs with planned arrivals, and the backlogs."""
    planned: list[Job] = []
    backlogs: list[Backlog] = []
    names: set[str] = set()
    for at, group in enumerate(groups):
        name, found = group.name or f"{group.queue}-{at + 1}", frame.found.inside("jobs", at)
        if name in names:
            fix = "each group draws by its name: give it another"
            found.add("appears twice", "name", value=name, fix=fix)
        names.add(name)
        known = found.known(group.queue, list(frame.queues), "queue for jobs", "queue")
        most = MOST_JOBS
        if group.count is not None:
            most = int(found.number(group.count, "count", most=MOST_JOBS))
        bodies = Bodies(
            name,
            frame.queues[group.queue] if known else 0,
            _sizes(group, frame, found),
            _length(group, found.inside("duration")),
            frame.chance,
            frame.step_s,
        )
        if group.arrivals.backlog is not None:
            backlogs.append(_backlog(group, bodies, most, frame, found))
        else:
            instants = _instants(group, name, most, frame, found)
            made = [bodies.make(instant) for instant in instants.tolist()]
            planned += _each_pod(made, bodies) if group.independent else made
    return planned, backlogs


def _each_pod(jobs: Sequence[Job], bodies: Bodies) -> list[Job]:
    """Return a job for each pod of these, with a run time of its own."""
    alone = []
    for job in jobs:
        kind = replace(job.kind, pods=job.kind.pods[:1])
        runs = [job, *(bodies.make(job.submitted_s) for _ in job.kind.pods[1:])]
        alone += [replace(it, kind=kind, gpus=kind.gpus) for it in runs]
    return alone


def checkpoint_ticks(text: str | int, found: Findings, step_s: float) -> int:
    """Return the ticks of work between two checkpoints; FOREVER without checkpoints."""
    if text == NEVER_WORD:
        return FOREVER
    return tick_at(found.seconds(text, "checkpointEvery", least=1.0), step_s)


def _sizes(group: JobGroup, frame: Frame, found: Findings) -> list[JobSize]:
    claim = claim_of(group, frame.offered, found)
    given: list[tuple[JobGroup | Size, float]] = [(group, 1.0)]
    parts = [found]
    if group.sizes:
        given = [(it, float(it.share)) for it in group.sizes]
        parts = [found.inside("sizes", row) for row in range(len(given))]
        if group.gpus not in (None, 1) or group.pods != 1:
            fix = "keep sizes, or gpus and pods"
            found.add("conflicts with gpus or pods", "sizes", fix=fix)
        if group.cards != 1:
            found.add("conflicts with sizes", "cards", fix="write cards in each size")
        if group.gpu_memory is not None:
            fix = "write gpuMemory in each size"
            found.add("conflicts with sizes", "gpuMemory", fix=fix)
    checkpoint = None
    if group.checkpoint_every is not None:
        checkpoint = checkpoint_ticks(group.checkpoint_every, found, frame.step_s)
    found.number(group.priority, "priority", least=-INT32_MAX, most=INT32_MAX)
    pools = frame.pools.of_group(group, found)
    wish = wish_of(group, frame.levels, found)
    sizes = []
    for (size, share), part in zip(given, parts, strict=True):
        count = int(part.number(size.pods, "pods", least=1, most=MOST_PODS))
        part.number(share, "share", least=1e-9)
        asked = _gpus_of(size, frame, part) if claim is None else pod_with(claim)
        pod = _pod(group, asked, found)
        kind = JobKind((pod,) * count, group.priority, group.preemptible, checkpoint, pools, wish)
        kind = with_least_share(kind, frame.least_share)
        sizes.append(JobSize(kind, kind.gpus, share))
    return sizes


def _gpus_of(size: JobGroup | Size, frame: Frame, found: Findings) -> PodKind:
    """Return a pod with the GPUs that a group or a size asks for, with a warning if none has so."""
    is_part = True
    cards = int(found.number(size.cards, "cards", least=1, most=MOST_GPUS))
    if size.gpu_memory is not None:
        pod = _with_memory(size, cards, frame, found)
        needed: float = cards
    else:
        if size.gpus is None and isinstance(size, Size):
            found.add("needs gpus or gpuMemory", fix="write one of them")
        gpus = _checked(1 if size.gpus is None else size.gpus, cards, found)
        is_part = 0 < gpus < 1
        needed, pod = cards if is_part else gpus, pod_of(gpus, cards)
    if frame.most_gpus < needed <= MOST_GPUS:
        warning = f"no node has {needed:g} GPUs, so these jobs wait for ever"
        found.warn(warning, "cards" if is_part else "gpus")
    return pod


def _with_memory(size: JobGroup | Size, cards: int, frame: Frame, found: Findings) -> PodKind:
    """Return a pod that asks for memory of a GPU."""
    (least, most), key = frame.card_mib, "gpuMemory"
    mib = mib_of(size.gpu_memory, found)
    if size.gpus is not None:
        found.add("conflicts with gpus", key, fix="keep one of the two")
    if not most:
        fix = "write gpuMemory for a group of nodes too"
        found.add("no node says how much memory its GPUs have", key, fix=fix)
    elif mib > most:
        found.warn(f"no GPU has {mib} MiB, so these jobs wait for ever", key)
    return pod_of_memory(mib, cards, least)


def _checked(gpus: float, cards: int, found: Findings) -> float:
    """Return the GPUs of a pod; several cards are for parts of one only."""
    gpus = found.number(gpus, "gpus", most=MOST_GPUS)
    if gpus > 1 and gpus % 1:
        fix = "write whole GPUs, or a number below 1 for a part of one"
        found.add("is not whole", "gpus", value=gpus, fix=fix)
    if cards > 1 and not 0 < gpus < 1:
        fix = "leave cards out, or write gpus below 1"
        found.add("is for parts of GPUs", "cards", value=cards, fix=fix)
    return gpus


def _pod(group: JobGroup, pod: PodKind, found: Findings) -> PodKind:
    """Return a pod with the CPU and the memory that its group asks for, if it does."""
    if group.cpu is not None:
        cpu = found.units(milli_cpu, group.cpu, "cpu", is_request=True)
        pod = replace(pod, cpu=pod.cpu if cpu is None else cpu)
    if group.memory is not None:
        memory = found.units(memory_units, group.memory, "memory", is_request=True)
        pod = replace(pod, memory=pod.memory if memory is None else memory)
    return pod


def _length(group: JobGroup, found: Findings) -> Length:
    written = group.duration
    if not isinstance(written, RunTime):
        if written == FOREVER_WORD:
            return Length(fixed_s=math.inf)
        return Length(fixed_s=found.seconds(written))
    if (written.exponential is None) == (written.lognormal is None):
        found.add("needs one of exponential and lognormal", fix="write the one that is meant")
        return Length(fixed_s=1.0)
    least_s = found.seconds(written.least, "least")
    most_s = math.inf
    if written.most is not None:
        most_s = found.seconds(written.most, "most")
        if most_s < least_s:
            found.add("is below least", "most", value=written.most, fix="swap them")
    if written.exponential is not None:
        mean_s = found.seconds(written.exponential, "exponential", least=1.0)
        return Length(mean_s=mean_s, least_s=least_s, most_s=most_s)
    assert written.lognormal is not None
    shape = written.lognormal
    median_s = found.seconds(shape.median, "lognormal", "median", least=1.0)
    sigma = found.number(shape.sigma, "lognormal", "sigma", most=_MOST_SIGMA)
    return Length(median_s=median_s, sigma=sigma, least_s=least_s, most_s=most_s)


def _window(group: JobGroup, frame: Frame, found: Findings) -> tuple[float, float]:
    arrivals, found = group.arrivals, found.inside("arrivals")
    begin_s = found.seconds(arrivals.begin, "begin")
    end_s = frame.end_s
    if arrivals.end is not None:
        end_s = min(found.seconds(arrivals.end, "end"), end_s)
        if end_s <= begin_s:
            fix = "write an instant after begin"
            found.add("is not after begin", "end", value=arrivals.end, fix=fix)
    return begin_s, end_s


def _open_time(group: JobGroup, frame: Frame, found: Findings) -> OpenTime:
    begin_s, end_s = _window(group, frame, found)
    if group.hours is None:
        return always(begin_s, end_s)
    found = found.inside("hours")
    opens_s = found.seconds(group.hours.begin, "begin")
    closes_s = found.seconds(group.hours.end, "end")
    if not opens_s < closes_s <= DAY_S:
        fix = "write an hour of the day after begin, at most 24h"
        found.add("is not after begin", "end", value=group.hours.end, fix=fix)
    return weekly(
        begin_s,
        end_s,
        days=[WEEK.index(day) for day in group.hours.days],
        opens_s=opens_s,
        closes_s=closes_s,
        first_day=frame.first_day,
    )


def _instants(
    group: JobGroup, name: str, most_jobs: int, frame: Frame, found: Findings
) -> FloatVec:
    arrivals, part = group.arrivals, found.inside("arrivals")
    each = int(part.number(arrivals.each, "each", least=1, most=MOST_JOBS))
    most = -(-most_jobs // each)
    if _is_wrong_way(group, found):
        return np.empty(0)
    if arrivals.at is not None:
        if group.hours is not None:
            fix = "name instants within the hours, and leave hours out"
            found.add("conflicts with at", "hours", fix=fix)
        texts = enumerate(arrivals.at)
        drawn = sorted(part.seconds(text, "at", row) for row, text in texts)
        instants: FloatVec = np.array([it for it in drawn if it < frame.end_s], np.float64)
    elif arrivals.every is not None:
        when = _open_time(group, frame, found)
        every_s = part.seconds(arrivals.every, "every", least=1.0)
        instants = evenly(every_s, when, most)
    else:
        assert arrivals.poisson_per_hour is not None
        when = _open_time(group, frame, found)
        least = 1e-6
        rate = part.number(arrivals.poisson_per_hour, "poissonPerHour", least=least)
        stream = frame.chance.stream("arrivals", name)
        instants = poisson(rate / 3600.0, when, most, stream)
    if group.count is None and len(instants) * each >= MOST_JOBS:
        fix = "lower the rate, or write count"
        part.add(f"makes more than {MOST_JOBS} jobs", fix=fix)
        return np.empty(0)
    return np.repeat(instants, each)[:most_jobs]


def _is_wrong_way(group: JobGroup, found: Findings) -> bool:
    arrivals = group.arrivals
    values = (arrivals.poisson_per_hour, arrivals.every, arrivals.at, arrivals.backlog)
    given = [name for name, value in zip(_WAYS, values, strict=True) if value is not None]
    if len(given) == 1:
        return False
    what = "names no kind of arrival" if not given else f"names {' and '.join(given)}"
    found.add(what, "arrivals", fix=f"write one of {', '.join(_WAYS)}")
    return True


def _backlog(group: JobGroup, bodies: Bodies, most: int, frame: Frame, found: Findings) -> Backlog:
    _is_wrong_way(group, found)
    if group.hours is not None:
        found.add("conflicts with a backlog", "hours", fix="a backlog has no hours: drop it")
    if group.independent:
        fix = "leave it out: write pods: 1"
        found.add("conflicts with a backlog", "independent", fix=fix)
    # By the largest GPUs, on which most jobs fit.
    kinds = [size.kind.pods for size in bodies.sizes]
    milli = min(sum(pod.milli_of(frame.card_mib[1]) for pod in pods) for pods in kinds)
    depth = GPU_UNIT * frame.gpus // (milli or GPU_UNIT) + 1
    if (claim := bodies.sizes[0].kind.pods[0].claim) is not None:
        depth = frame.offered.holds(claim) + 1
    if group.arrivals.backlog != ENDLESS:
        said = float(group.arrivals.backlog or 0)
        depth = int(found.number(said, "arrivals", "backlog", least=1, most=1e6))
    begin_s, end_s = _window(group, frame, found)
    is_open = group.arrivals.end is None and end_s == frame.end_s
    end_tick = NEVER if is_open else tick_at(end_s, frame.step_s)
    return Backlog(bodies, depth, most, tick_at(begin_s, frame.step_s), end_tick)


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
        part = found.inside("traces", at)
        part.number(line.processors_per_gpu, "processorsPerGpu", least=1, most=MOST_PROCESSORS)
        try:
            place = place_of(line.path, folder)
            traced.append(Traced(line, place.name, _read(line, place)))
        except ConfigError as error:
            if error.file:
                found.add_error(error, "")
            else:
                part.add_error(error, "", "path")
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
        found = frame.found.inside("traces", at)
        begin_s, end_s = _stretch(trace.line, found)
        unknown = {row.queue for row in trace.rows.rows} - frame.queues.keys()
        if trace.line.queue:
            unknown = {trace.line.queue} - frame.queues.keys()
        for name in sorted(unknown)[:1]:
            found.known(name, list(frame.queues), "queue for jobs", "queue")
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
            kind, count = row.kind, row.gpus
            if kind is not None:
                kind = with_least_share(kind, frame.least_share)
                count = kind.gpus
            else:
                gpus = int(row.gpus)  # a trace with parts of GPUs says what its pods are
                if gpus not in kinds:
                    kinds[gpus] = kind_of(gpus, most_gpus)
                kind = kinds[gpus]
            queue = frame.queues[trace.line.queue or row.queue]
            jobs.append(Job(submitted_s, run, queue, count, kind, trace.name))
    return jobs


def _stretch(line: TraceLine, found: Findings) -> tuple[float, float]:
    begin_s = found.seconds(line.begin, "begin")
    end_s = math.inf
    if line.end is not None:
        end_s = found.seconds(line.end, "end")
        if end_s <= begin_s:
            fix = "write an instant after begin"
            found.add("is not after begin", "end", value=line.end, fix=fix)
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
