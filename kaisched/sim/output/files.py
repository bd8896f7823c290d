"""Result of a run, and its files: CSV for spreadsheets, JSON for programs.

Equal runs give equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from kaisched.errors import ConfigError
from kaisched.files import replace_files
from kaisched.sim.cluster import NOBODY, DeviceUse
from kaisched.sim.machines import end_if_unwanted
from kaisched.sim.outcome import HOUR_S, Outcome, Timeline, outcome_of, timeline_of
from kaisched.sim.recorder import NOT_YET, JobLog, Occupancy
from kaisched.sim.running import Run, policy_of, run_scenario
from kaisched.sim.scenario.load import Scenario
from kaisched.sim.workload import Workload, plain

SCHEMA: Final = "kaisched.io/scenario/v1"
QUEUE_COLUMNS: Final = (
    "queue",
    "weight",
    "quota_gpus",
    "jobs",
    "finished",
    "running",
    "pending",
    "evictions",
    "failures",
    "gpu_hours",
    "lost_gpu_hours",
    "fair_share_gpu_hours",
    "entitled_gpu_hours",
    "wait_mean_s",
    "wait_p50_s",
    "wait_p95_s",
    "wait_longest_s",
)
TIMELINE_COLUMNS: Final = (
    "begin_s",
    "end_s",
    "queue",
    "allocated_gpus",
    "waiting_gpus",
    "fair_share_gpus",
    "entitled_gpus",
    "gpu_hours",
    "entitled_gpu_hours",
    "evictions",
    "lost_gpu_hours",
)
CLUSTER_COLUMNS: Final = ("begin_s", "end_s", "capacity_gpus", "utilisation", "jain")
JOB_COLUMNS: Final = (
    "job",
    "group",
    "queue",
    "gpus",
    "pods",
    "submitted_s",
    "started_s",
    "ended_s",
    "wait_s",
    "starts",
    "evictions",
    "failures",
    "redone_gpu_hours",
)
DEVICE_COLUMNS: Final = ("node", "device", "class", "hours_in_use", "runs", "job", "queue")


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that is reported about a run: plain values, which other processes can send."""

    file: str
    """The file of the scenario."""
    step_s: float
    workload: Workload
    groups: Sequence[str]
    """Origin of each job."""
    jobs: Sequence[JobLog]
    nodes: Occupancy
    node_names: Sequence[str]
    node_gpus: Sequence[float]
    outcome: Outcome
    timeline: Timeline
    devices: Sequence[DeviceUse] = ()


def result_of(run: Run) -> Result:
    """Compute everything that is reported about a run."""
    return Result(
        file=run.scenario.file,
        step_s=run.scenario.pace.step_s,
        workload=run.workload,
        groups=run.groups,
        jobs=run.record.jobs,
        nodes=run.record.nodes,
        node_names=run.node_names,
        node_gpus=run.node_gpus,
        outcome=outcome_of(run),
        timeline=timeline_of(run),
        devices=run.record.devices.until(run.replay.last),
    )


def write_files(result: Result, folder: Path) -> list[Path]:
    """Write all files of one run into a folder, which is created; return their paths.

    Raises:
        ConfigError: the folder cannot be written.

    """
    texts = {
        "result.json": json_of(result),
        "queues.csv": _csv(QUEUE_COLUMNS, _queue_rows(result.outcome)),
        "timeline.csv": _csv(TIMELINE_COLUMNS, _timeline_rows(result.timeline)),
        "cluster.csv": _csv(CLUSTER_COLUMNS, _cluster_rows(result.timeline)),
        "jobs.csv": _csv(JOB_COLUMNS, _job_rows(result)),
    }
    if result.devices:
        texts["devices.csv"] = _csv(DEVICE_COLUMNS, _device_rows(result))
    return write_texts(folder, texts)


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files of a folder, and the folders above it: each is whole, or what it was before.

    Raises:
        ConfigError: a file cannot be written.

    """
    files = {folder / name: text.encode() for name, text in texts.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_files(files)
    except OSError as error:
        raise _unwritable(Path(error.filename or folder), error) from None
    return list(files)


def write_text(path: Path, text: str) -> Path:
    """Write one file as :func:`write_texts` does.

    Raises:
        ConfigError: the file cannot be written.

    """
    return write_texts(path.parent, {path.name: text})[0]


def check_folder(folder: Path) -> None:
    """Make a folder and try to write in it, before a long run is begun for it.

    Raises:
        ConfigError: files cannot be written there.

    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigError:
    reason = error.strerror or str(error)
    fix = "give a folder that can be written"
    return ConfigError(f"cannot be written: {reason}", file=str(path), path="--out", fix=fix)


def json_of(result: Result) -> str:
    """Format the sums and the timeline of a run; unrounded sums, keys in camelCase."""
    line = result.timeline
    sums = camel(asdict(result.outcome))
    if not result.outcome.levels:
        del sums["levels"]
    answer = {
        "schemaVersion": SCHEMA,
        **sums,
        "timeline": {
            "endSeconds": _short(line.end_s.tolist()),
            "capacityGpus": _short(line.capacity.tolist()),
            "jain": _short(line.jain.tolist()),
            "queues": [_line_of(line, at) for at in range(len(line.queues))],
        },
    }
    return json.dumps(answer, indent=1, allow_nan=False) + "\n"


def camel(value: Any) -> Any:
    """Convert the keys of plain values to camelCase."""
    if isinstance(value, dict):
        return {_camel_key(key): camel(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [camel(item) for item in value]
    return value


def _camel_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join("Seconds" if word == "s" else word.capitalize() for word in others)


def _line_of(line: Timeline, at: int) -> dict[str, Any]:
    return {
        "name": line.queues[at],
        "allocatedGpus": _short(line.allocated[at].tolist()),
        "fairShareGpus": _short(line.fair_share[at].tolist()),
        "gpuHours": _short(line.gpu_hours[at].tolist()),
        "entitledGpuHours": _short(line.entitled_hours[at].tolist()),
    }


def _short(values: list[float]) -> list[float]:
    """Round values to four decimals: enough for a picture, and a third of the bytes."""
    return [round(value, 4) for value in values]


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _queue_rows(outcome: Outcome) -> Iterable[Sequence[object]]:
    for queue in outcome.queues:
        wait = queue.wait
        yield (
            queue.name,
            f"{queue.weight:g}",
            f"{queue.quota_gpus:g}",
            queue.jobs,
            queue.finished,
            queue.running,
            queue.pending,
            queue.evictions,
            queue.failures,
            *(
                f"{hours:.4f}"
                for hours in (
                    queue.gpu_hours,
                    queue.lost_gpu_hours,
                    queue.fair_share_gpu_hours,
                    queue.entitled_gpu_hours,
                )
            ),
            *(
                ("",) * 4
                if wait is None
                else (
                    f"{wait.mean_s:.1f}",
                    f"{wait.p50_s:g}",
                    f"{wait.p95_s:g}",
                    f"{wait.longest_s:g}",
                )
            ),
        )


def _timeline_rows(line: Timeline) -> Iterable[Sequence[object]]:
    entitled = line.entitled
    spans = list(zip(line.begin_s.tolist(), line.end_s.tolist(), strict=True))
    for queue, name in enumerate(line.queues):
        columns = (
            line.allocated[queue],
            line.waiting[queue],
            line.fair_share[queue],
            entitled[queue],
            line.gpu_hours[queue],
            line.entitled_hours[queue],
        )
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        for at, ((begin_s, end_s), row) in enumerate(zip(spans, numbers, strict=True)):
            yield (
                f"{begin_s:.0f}",
                f"{end_s:.0f}",
                name,
                *(f"{number:.4f}" for number in row),
                int(line.evictions[queue, at]),
                f"{line.lost_hours[queue, at]:.4f}",
            )


def _cluster_rows(line: Timeline) -> Iterable[Sequence[object]]:
    columns = (line.begin_s, line.end_s, line.capacity, line.utilisation, line.jain)
    for begin_s, end_s, capacity, used, jain in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield (f"{begin_s:.0f}", f"{end_s:.0f}", f"{capacity:.4f}", f"{used:.6f}", f"{jain:.6f}")


def _job_rows(result: Result) -> Iterable[Sequence[object]]:
    work, step_s = result.workload, result.step_s
    for job, log in enumerate(result.jobs):
        started = log.started != NOT_YET
        wait = (log.started - work.arrival[job]) * step_s if started else ""
        yield (
            job,
            result.groups[job],
            work.queue_names[work.queue[job]],
            f"{plain(work.gpus[job]):.12g}",
            len(work.kind[job].pods),
            f"{work.submitted_s[job]:.3f}",
            _instant(log.started, step_s),
            _instant(log.ended, step_s),
            wait if wait == "" else f"{wait:.0f}",
            log.runs,
            log.evictions,
            log.failures,
            f"{plain(log.lost) * step_s / HOUR_S:.4f}",
        )


def _device_rows(result: Result) -> Iterable[Sequence[object]]:
    work, hours = result.workload, result.step_s / HOUR_S
    for use in result.devices:
        driver, pool, name = use.identity
        has_it = use.job != NOBODY
        queue = work.queue_names[work.queue[use.job]] if has_it else ""
        job = use.job if has_it else ""
        yield pool, name, driver, f"{use.ticks * hours:.4f}", use.runs, job, queue


def _instant(tick: int, step_s: float) -> str:
    return "" if tick == NOT_YET else f"{tick * step_s:.0f}"


@dataclass(frozen=True, slots=True)
class Order:
    """A run that another machine carries out."""

    scenario: Scenario
    actions: Sequence[str] | None
    """The only actions to run; None for those of the scenario."""
    is_checked: bool
    """Whether each cycle is checked for broken invariants."""


def carry_out(order: Order) -> tuple[Result, float]:
    """Run a scenario on a worker; return its result, and the seconds that it took."""
    began = time.perf_counter()
    policy, _ = policy_of(order.scenario, order.actions)
    run = run_scenario(
        order.scenario, policy, end_if_unwanted, actions=order.actions, is_checked=order.is_checked
    )
    return result_of(run), time.perf_counter() - began
