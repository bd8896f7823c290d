"""What benchmarks share: timing beside a calibration loop, clusters, and checks of results."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.snapshot import Snapshot
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.units import MEBIBYTE

_T = TypeVar("_T")
GPUS_OF_NODE = 8
NODE = {"cpu": 128_000, "memory": MEBIBYTE << 20, "gpu": GPUS_OF_NODE * 1000, "pods": 110}
ONE_GPU = {"cpu": 8_000, "memory": MEBIBYTE * 64 << 10, "gpu": 1000}
WHOLE_NODE = {resource: GPUS_OF_NODE * amount for resource, amount in ONE_GPU.items()}

_CALIBRATION_NODES = 5_000
_CALIBRATION_PASSES = 10


class CheckError(Exception):
    """A benchmark's result is wrong, so that its time says nothing."""


def expect(is_so: object, otherwise: str) -> None:
    """Raise unless the result is as it must be."""
    if not is_so:
        raise CheckError(otherwise)


@dataclass
class Watch:
    """Times calls, and one pass of the calibration loop before each of them.

    Seconds are what a user waits. Ratios are of processor time, so that a neighbour's load, which a
    long call meets and a short one does not, stays out of them.
    """

    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)

    def time(self, call: Callable[[], _T]) -> _T:
        self.calibration.append(calibrate())
        start, cpu_start = perf_counter(), process_time()
        answer = call()
        end, cpu_end = perf_counter(), process_time()
        self.times.append(end - start)
        self.cpu.append(cpu_end - cpu_start)
        return answer

    def summary(self) -> dict[str, float]:
        cpu = float(np.median(self.cpu))
        return {
            "median_s": float(np.median(self.times)),
            "p99_s": float(np.percentile(self.times, 99, method="higher")),
            "best_s": min(self.times),
            "cpu_s": cpu,
            "ratio": cpu / float(np.median(self.calibration)),
        }


@dataclass
class Measured:
    """What one row of the report is made from."""

    watch: Watch
    detail: dict[str, Any]


@functools.cache
def _columns() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    idle = rng.integers(0, 9_000, (4, _CALIBRATION_NODES))
    nodes = np.empty(_CALIBRATION_NODES, np.bool_)
    return idle, np.full(4, 4_000), nodes, nodes.copy()


def calibrate() -> float:
    """Return the seconds of one mask pass: which of 5,000 nodes have room, ``(R, N)`` columns."""
    idle, request, allowed, fits = _columns()
    times = []
    for _ in range(_CALIBRATION_PASSES):
        start = perf_counter()
        allowed.fill(True)
        for column, amount in zip(idle, request, strict=True):
            np.greater_equal(column, amount, out=fits)
            np.logical_and(allowed, fits, out=allowed)
        times.append(perf_counter() - start)
    return float(np.median(times))


def add_nodes(store: RowStore, count: int, racks: int = 1) -> None:
    for i in range(count):
        labels = {"rack": f"r{i % racks:03}"}
        store.put_node(NodeRow(f"n{i:05}", NODE, labels=labels))


class Daemon:
    """Cycles over a store, remembering from one to the next as the daemon does."""

    def __init__(self, store: RowStore, policy: Policy | None = None) -> None:
        self.store = store
        self.policy = policy or default_policy()
        self.memory = Memory()

    def cycle(self, watch: Watch | None = None) -> CycleResult:
        snapshot = self.store.snapshot()

        def call() -> tuple[CycleResult, Memory]:
            return run_cycle(snapshot, None, self.policy, 1e6, self.memory)

        result, self.memory = watch.time(call) if watch else call()
        return result

    def cold_cycle(self, watch: Watch) -> CycleResult:
        """Run the cycle of a daemon that has just started; nothing is remembered."""
        snapshot = self.store.snapshot()
        return watch.time(lambda: run_cycle(snapshot, None, self.policy, 1e6, Memory()))[0]

    def obey(self, result: CycleResult) -> None:
        """Bind what was decided."""
        self.store.place(result.bind_tasks, result.bind_nodes)


def check_fits(snapshot: Snapshot, result: CycleResult) -> None:
    """No pod twice, and no node beyond what it had."""
    tasks, nodes = result.bind_tasks, result.bind_nodes
    expect(np.unique(tasks).size == tasks.size, "a pod was bound twice")
    taken = np.zeros_like(snapshot.nodes.idle)
    request = snapshot.shapes.request[:, snapshot.tasks.shape_of_task[tasks]]
    for resource in range(len(taken)):
        np.add.at(taken[resource], nodes, request[resource])
    expect((taken <= snapshot.nodes.idle).all(), "a node holds more than it has room for")
