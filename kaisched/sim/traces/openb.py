"""Reader of the trace openb-2023: pods of a cluster that shares GPUs, and its nodes.

A folder with ``pods.csv.gz`` (or ``pods.csv``) and ``nodes.csv``. The trace has no queues; classes
of service are used instead. A job arrives when its pod was created, and runs as long as the pod ran
after its placement. Pods that were never placed or never deleted are left out with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import GPU_UNIT
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.sim.cluster import node_amounts
from kaisched.sim.reading import MOST_GPUS, MOST_SECONDS, Column, read_columns
from kaisched.sim.traces.rows import JobRow, JobRows
from kaisched.sim.workload import JobKind, PodKind
from kaisched.units import MAX_AMOUNT, MEBIBYTE

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
_MOST_AMOUNT: Final = 1e12
_MOST_MEBIBYTES: Final = MAX_AMOUNT // MEBIBYTE


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
    """Read the pods of a trace folder as jobs of one pod."""
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
