"""Readers of traces: our own folders, SWF, openb, and tables in CSV."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TextIO

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU_UNIT, FloatVec, IntVec
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.errors import ConfigError
from kaisched.objects.faults import INT32_MAX
from kaisched.sim.cluster import node_amounts
from kaisched.sim.workload import PRIORITY, Gpus, JobKind, PodKind, Trace, pod_of
from kaisched.units import MAX_AMOUNT, MEBIBYTE

BUNDLED: Final = Path(__file__).parent.parent / "data" / "traces"
"""Traces that come with kaisched, by name."""
MOST_SECONDS: Final = 1e10
"""Three hundred years: more is a wrong unit, such as milliseconds."""
MOST_GPUS: Final = 1_000_000
JOB_COLUMNS: Final = ("submit_s", "duration_s", "num_gpus", "vc")
VC_COLUMNS: Final = ("vc", "published_nodes")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file as text, with the line of each value."""

    path: Path
    name: str
    values: list[str]
    lines: list[int]

    def fail(self, row: int, message: str, fix: str) -> ConfigError:
        """Return the error that names a row's value and its line."""
        return ConfigError(
            message,
            file=f"{self.path}:{self.lines[row]}",
            path=self.name,
            value=self.values[row],
            fix=fix,
        )

    def numbers(self, least: float, most: float, fix: str) -> FloatVec:
        """Return the values as numbers; fail at the first that is none or out of range."""
        try:
            numbers = np.array(self.values, np.float64)
        except ValueError:
            row = next(i for i, text in enumerate(self.values) if _is_odd(text))
            raise self.fail(row, "is not a number", fix) from None
        wrong = ~((numbers >= least) & (numbers <= most))
        if wrong.any():
            raise self.fail(int(wrong.argmax()), "is out of range", fix)
        return numbers

    def whole_numbers(self, least: float, most: float, what: str) -> IntVec:
        """Return the values as whole numbers of something."""
        fix = f"write a whole number of {what} from {least:.0f} to {most:.0f}"
        numbers = self.numbers(least, most, fix)
        broken = numbers % 1 != 0
        if broken.any():
            raise self.fail(int(broken.argmax()), "is not whole", fix)
        return numbers.astype(np.int64)

    def filled_numbers(self, least: float, most: float, fix: str) -> list[float | None]:
        """Return the values as numbers, None for an empty one."""
        given = [row for row, text in enumerate(self.values) if text]
        filled = Column(
            self.path, self.name, [self.values[i] for i in given], [self.lines[i] for i in given]
        )
        number = dict(zip(given, filled.numbers(least, most, fix).tolist(), strict=True))
        return [number.get(row) for row in range(len(self.values))]


def _is_odd(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return True
    return False


def bundled_names(holding: str = "README.md") -> list[str]:
    """Return the names of the traces that come with kaisched and have a file of that name."""
    return sorted(path.parent.name for path in BUNDLED.glob(f"*/{holding}"))


def place_of(written: str, folder: Path, holding: str = "README.md") -> Path:
    """Return a bundled trace by its name, or a path relative to a folder.

    Raises:
        ConfigError: it is neither a path nor a bundled trace with a file named ``holding``.

    """
    if written in (known := bundled_names(holding)):
        return BUNDLED / written
    place = folder / written
    if not place.exists():
        fix = f"write a path, relative to the scenario; bundled are: {', '.join(known)}"
        raise ConfigError("there is no such trace", value=written, fix=fix)
    return place


def find_trace(name: str) -> Path:
    """Return the folder of a trace: a path, or the name of a bundled one."""
    if name in bundled_names("vcs.csv"):
        return BUNDLED / name
    folder = Path(name)
    if not folder.is_dir():
        raise ConfigError(
            "there is no such trace",
            value=name,
            fix="give a folder with jobs.csv.gz and vcs.csv, or the name of a bundled trace: "
            + ", ".join(bundled_names("vcs.csv")),
        )
    return folder


def read_trace(folder: Path) -> Trace:
    """Read a trace folder, sorted by submission.

    Jobs have the columns ``submit_s``, ``duration_s``, ``num_gpus`` and ``vc``. Virtual clusters,
    which become queues, have ``vc`` and ``published_nodes`` (may be empty). Other columns are
    ignored. An invalid row is an error that names file, line, value and what to write instead; no
    row is ever left out or guessed.
    """
    names, nodes = _read_vcs(folder / "vcs.csv")
    jobs = folder / "jobs.csv.gz"
    columns = read_columns(jobs if jobs.is_file() else folder / "jobs.csv", JOB_COLUMNS)
    seconds = f"write seconds as a number from 0 to {MOST_SECONDS:.0f}"
    submit_s = columns["submit_s"].numbers(0, MOST_SECONDS, seconds)
    duration_s = columns["duration_s"].numbers(0, MOST_SECONDS, seconds)
    gpus = columns["num_gpus"].whole_numbers(1, MOST_GPUS, "GPUs")
    queue = _queues(columns["vc"], names, folder / "vcs.csv")
    order = np.argsort(submit_s, kind="stable")
    return Trace(
        name=folder.name,
        submit_s=submit_s[order],
        duration_s=duration_s[order],
        gpus=gpus[order],
        queue=queue[order],
        queue_names=names,
        published_nodes=nodes,
    )


def _queues(column: Column, names: tuple[str, ...], vcs: Path) -> IntVec:
    position = {name: i for i, name in enumerate(names)}
    try:
        return np.array([position[name] for name in column.values], np.int64)
    except KeyError:
        row = next(i for i, name in enumerate(column.values) if name not in position)
        raise column.fail(
            row, "is not known", f"name a vc of {vcs}, or add a row for it there"
        ) from None


def _read_vcs(path: Path) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    columns = read_columns(path, VC_COLUMNS)
    names = columns["vc"]
    seen: set[str] = set()
    for row, name in enumerate(names.values):
        if not name or not name.isprintable():
            raise names.fail(row, "is no name", "give each vc a name of printable characters")
        if name in seen:
            raise names.fail(row, "appears twice", "give each vc one row")
        seen.add(name)
    fix = f"write a number from 0 to {MOST_GPUS}, or leave it empty"
    nodes = columns["published_nodes"].filled_numbers(0, MOST_GPUS, fix)
    return tuple(names.values), tuple(nodes)


def read_columns(
    path: Path, wanted: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Column]:
    """Read columns of a CSV file as text, each value with its line.

    Raises:
        ConfigError: the file or a needed column is missing, or a row has another width.

    """
    if not path.is_file():
        raise ConfigError(
            "does not exist",
            file=str(path),
            fix="a trace is a folder with jobs.csv.gz (or jobs.csv) and vcs.csv",
        )
    try:
        with _opened(path) as text:
            rows = csv.reader(text)
            header = next(rows, [])
            wanted += tuple(name for name in optional if name in header)
            at = [_position(path, header, name) for name in wanted]
            lines: list[int] = []
            kept: list[list[str]] = []
            for row in rows:
                if len(row) == len(header):
                    lines.append(rows.line_num)
                    kept.append(row)
                elif row:
                    raise _wrong_width(path, rows.line_num, row, len(header))
    except (OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", file=str(path), fix="write it as CSV in UTF-8"
        ) from error
    return {
        name: Column(path, name, [row[position] for row in kept], lines)
        for name, position in zip(wanted, at, strict=True)
    }


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _wrong_width(path: Path, line: int, row: list[str], width: int) -> ConfigError:
    return ConfigError(
        f"{len(row)} values where the first line names {width} columns",
        file=f"{path}:{line}",
        value=",".join(row),
        fix="write one value for each column",
    )


def _position(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise ConfigError(
            f"no column is called {name}",
            file=f"{path}:1",
            value=",".join(header),
            fix=f"name the columns in the first line: {name} is needed",
        )
    return header.index(name)


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job of a trace. Times are seconds from the beginning of the trace."""

    submit_s: float
    duration_s: float
    queue: str
    gpus: Gpus
    """In all."""
    kind: JobKind | None = None
    """Kind of its pods; None if the trace has GPUs only."""


@dataclass(frozen=True, slots=True)
class JobRows:
    """Jobs of a trace in any order, and facts about its queues."""

    rows: list[JobRow]
    nodes_of_queue: dict[str, float] = field(default_factory=dict)
    """Published nodes of each queue, if the trace has them: weights and quotas follow them."""
    warnings: tuple[str, ...] = ()

    @property
    def queues(self) -> list[str]:
        """Names of the queues, in order."""
        named = {row.queue for row in self.rows} - self.nodes_of_queue.keys()
        return [*self.nodes_of_queue, *sorted(named)]


_FIELDS: Final = 18
_SUBMIT, _RUN, _USED, _ASKED = 1, 3, 4, 7
_COLUMN_OF: Final = {"user": 11, "group": 12, "queue": 14}


def read_swf(path: Path, queue_by: str, processors_per_gpu: int) -> JobRows:
    """Read a file in the Standard Workload Format of the Parallel Workloads Archive.

    A text (or ``.gz``) with 18 numbers a line, -1 for unknown, and comments that begin with a
    semicolon. The fields used are submission (2), run time (4), processors used (5) or else
    requested (8), user (12), group (13) and queue (15). Jobs without run time or processors never
    ran, and are left out with a warning. ``processors_per_gpu`` processors count as a GPU, rounded
    up.
    """
    column = _COLUMN_OF[queue_by]
    rows: list[JobRow] = []
    left_out = 0
    try:
        with _opened(path) as text:
            for line, words in enumerate(text, 1):
                content = words.partition(";")[0].split()
                if not content:
                    continue
                fields = _numbers(content, path, line)
                processors = fields[_USED] if fields[_USED] > 0 else fields[_ASKED]
                if processors <= 0 or fields[_RUN] <= 0:
                    left_out += 1
                    continue
                gpus = -(-int(processors) // processors_per_gpu)
                _check(fields, gpus, path, line)
                name = fields[column]
                queue = f"{queue_by}-{int(name)}" if name >= 0 else f"{queue_by}-unknown"
                rows.append(JobRow(fields[_SUBMIT], fields[_RUN], queue, gpus))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", file=str(path), fix="write it as text in UTF-8"
        ) from error
    warning = f"{left_out} jobs of {path.name} have no run time or processors and are left out"
    return JobRows(rows, warnings=(warning,) if left_out else ())


def _numbers(words: list[str], path: Path, line: int) -> list[float]:
    if len(words) != _FIELDS:
        raise ConfigError(
            f"{len(words)} values where the format has {_FIELDS}",
            file=f"{path}:{line}",
            value=" ".join(words),
            fix="write -1 for unknown values",
        )
    numbers = []
    for at, word in enumerate(words, 1):
        try:
            numbers.append(float(word))
        except ValueError:
            raise ConfigError(
                "is not a number",
                file=f"{path}:{line}",
                path=f"field {at}",
                value=word,
                fix="write -1 for unknown values",
            ) from None
    return numbers


def _check(fields: list[float], gpus: int, path: Path, line: int) -> None:
    for at in (_SUBMIT, _RUN):
        if not 0 <= fields[at] <= MOST_SECONDS:
            raise ConfigError(
                "is out of range",
                file=f"{path}:{line}",
                path=f"field {at + 1}",
                value=fields[at],
                fix=f"write seconds from 0 to {MOST_SECONDS:.0f}",
            )
    if gpus > MOST_GPUS:
        raise ConfigError(
            "asks for too much",
            file=f"{path}:{line}",
            value=gpus,
            fix=f"at most {MOST_GPUS} GPUs: raise processorsPerGpu",
        )


COLUMNS: Final = ("submit_s", "duration_s", "gpus", "queue")
OPTIONAL: Final = ("pods", "cpu", "memory", "priority", "preemptible")
_MOST_PODS: Final = 10_000
_MOST_AMOUNT: Final = 1e12
_MOST_MEBIBYTES: Final = MAX_AMOUNT // MEBIBYTE
_SWITCH: Final = {"true": True, "false": False, "": True}


def read_table(path: Path) -> JobRows:
    """Read jobs from one CSV file, which may be compressed, for data that no other reader knows.

    Columns are ``submit_s``, ``duration_s``, ``gpus`` (of each pod; below 1 a part of one) and
    ``queue``. Optional are ``pods`` (1 if empty), ``cpu`` (milli-CPU of each pod), ``memory`` (MiB
    of each pod), ``priority`` (50) and ``preemptible`` (true).
    """
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


MODEL_LABEL: Final = "gpu-model"
"""Node label with the model of the GPUs."""
_POD_COLUMNS: Final = (
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "creation_s",
    "scheduled_s",
    "deletion_s",
)
_NODE_COLUMNS: Final = ("node", "cpu_milli", "memory_mib", "gpu", "model")


def read_nodes(folder: Path, prefix: str) -> list[NodeRow]:
    """Read the nodes of a trace folder; a label holds the model of their GPUs."""
    columns = read_columns(folder / "nodes.csv", _NODE_COLUMNS)
    number = f"write a number from 0 to {_MOST_AMOUNT:.0f}"
    mebibytes = f"write a number from 0 to {_MOST_MEBIBYTES}"
    cpu = columns["cpu_milli"].numbers(0, _MOST_AMOUNT, number)
    memory = columns["memory_mib"].numbers(0, _MOST_MEBIBYTES, mebibytes)
    gpus = columns["gpu"].numbers(0, MOST_GPUS, "write a whole number of GPUs")
    names, models = columns["node"].values, columns["model"].values
    width = max(map(len, names), default=1)
    return [
        NodeRow(
            f"{prefix}-{name.zfill(width)}",
            node_amounts(int(gpus[at]), int(cpu[at]), MEBIBYTE * int(memory[at])),
            labels={MODEL_LABEL: models[at]} if models[at] else {},
        )
        for at, name in enumerate(names)
    ]


def read_pods(folder: Path) -> list[PodKind]:
    """Read what each pod of a trace folder asks for, also of those that never ran."""
    return _pods(_columns(folder))


def read_openb(folder: Path) -> JobRows:
    """Read the pods of openb-2023, a cluster that shares GPUs, as jobs of one pod.

    A folder with ``pods.csv.gz`` (or ``pods.csv``) and ``nodes.csv``. The trace has no queues;
    classes of service are used instead. A job arrives when its pod was created, and runs as long as
    the pod ran after its placement. Pods that were never placed or never deleted are left out with
    a warning.
    """
    columns = _columns(folder)
    seconds = f"write seconds as a number from 0 to {MOST_SECONDS:.0f}"
    created = columns["creation_s"].numbers(0, MOST_SECONDS, seconds)
    placed = columns["scheduled_s"].filled_numbers(0, MOST_SECONDS, seconds)
    deleted = columns["deletion_s"].filled_numbers(0, MOST_SECONDS, seconds)
    pods, rows = _pods(columns), []
    for at, (begin, end) in enumerate(zip(placed, deleted, strict=True)):
        if begin is None or end is None or end <= begin:
            continue
        qos = columns["qos"].values[at] or "none"
        kind = JobKind((pods[at],))
        rows.append(JobRow(float(created[at]), end - begin, qos.lower(), kind.gpus, kind))
    left_out = len(created) - len(rows)
    warning = f"{left_out} pods of {folder.name} never ran to an end and are left out"
    return JobRows(rows, warnings=(warning,) if left_out else ())


def _columns(folder: Path) -> Mapping[str, Column]:
    packed = folder / "pods.csv.gz"
    return read_columns(packed if packed.is_file() else folder / "pods.csv", _POD_COLUMNS)


def _pods(columns: Mapping[str, Column]) -> list[PodKind]:
    number = f"write a number from 0 to {_MOST_AMOUNT:.0f}"
    mebibytes = f"write a number from 0 to {_MOST_MEBIBYTES}"
    cpu = columns["cpu_milli"].numbers(0, _MOST_AMOUNT, number)
    memory = columns["memory_mib"].numbers(0, _MOST_MEBIBYTES, mebibytes)
    gpus = columns["num_gpu"].numbers(0, MOST_GPUS, "write a whole number of GPUs")
    milli = columns["gpu_milli"].numbers(0, GPU_UNIT, f"write a number from 0 to {GPU_UNIT}")
    pods = []
    for at, models in enumerate(columns["gpu_spec"].values):
        labels = ((MODEL_LABEL, tuple(models.split("|"))),) if models else ()
        pod = PodKind(int(cpu[at]), MEBIBYTE * int(memory[at]), GPU_UNIT * int(gpus[at]), labels)
        if gpus[at] == 1 and 0 < milli[at] < GPU_UNIT:
            part = DeviceDemand(int(milli[at]) * CARD // GPU_UNIT)
            pod = replace(pod, gpu=0, devices=part)
        pods.append(pod)
    return pods
