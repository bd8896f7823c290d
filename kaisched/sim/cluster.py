"""The simulated cluster: equal GPU nodes, a queue for each virtual cluster, jobs as pods in rows.

GPUs are what is short. Pods ask for some CPU and memory as real ones do, but nodes have twice what
their GPUs' pods can ask for, and queues may hold as much of it as they like.
"""

from __future__ import annotations

from typing import Final

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU_UNIT, RowVec
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import TaskState
from kaisched.errors import InvariantBroken
from kaisched.framework.records import CycleResult
from kaisched.framework.report import Shares
from kaisched.sim.workload import ClusterSize, Workload

PRIORITY: Final = 50
"""Of every job: the class ``train``, which is preemptible."""
POD_CPU: Final = 4_000
"""Milli-CPU a pod asks for with each GPU."""
POD_MEMORY: Final = 16_384
"""MiB a pod asks for with each GPU."""
NODE_PODS: Final = 110
_NO_ROW: Final = -1


class Cluster:
    """Speaks of jobs by their position in the workload; the rows of the store stay inside."""

    def __init__(self, workload: Workload, size: ClusterSize) -> None:
        """Set up empty nodes and queues."""
        self._work = workload
        self._store = RowStore()
        self._shape = {
            gpus: self._store.intern_shape(
                {"cpu": POD_CPU * gpus, "memory": POD_MEMORY * gpus, "gpu": GPU_UNIT * gpus}
            )
            for gpus in sorted({gpus for pods in set(workload.pods) for gpus in pods})
        }
        self._put_nodes(size)
        self._put_queues()
        self._queue = [self._store.row_of_queue(name) for name in workload.queue_names]
        self._row = [_NO_ROW] * len(workload)
        self._job_of_row: list[int] = []
        self._compactions = self._store.compactions

    def add(self, job: int) -> None:
        """Let a job come: its pods wait."""
        work = self._work
        name = f"trace/job-{job:07d}"
        pods = work.pods[job]
        self._row[job] = self._store.add_job(
            name,
            self._queue[work.queue[job]],
            priority=PRIORITY,
            is_preemptible=True,
            created_s=work.submitted_s[job],
            tasks=[(f"{name}-{pod}", self._shape[gpus]) for pod, gpus in enumerate(pods)],
            minimum=len(pods),
        )
        self._job_of_row.append(job)

    def remove(self, job: int) -> None:
        """Let a job go: its room is free."""
        self._store.remove_job(self._row[job])
        self._row[job] = _NO_ROW

    def renew(self, job: int) -> None:
        """Let an evicted job's pods go; new ones wait in its old place."""
        self.remove(job)
        self.add(job)

    def place(self, tasks: RowVec, nodes: RowVec, at_s: float) -> None:
        """Let pods run on nodes, none of which may then hold more than it has."""
        self._store.place(tasks, nodes, TaskState.RUNNING, at_s)
        idle = self._store.nodes.idle
        for node in set(nodes.tolist()):
            if idle.least(node) < 0:
                raise InvariantBroken(f"node {self._store.nodes.name[node]} is over capacity")

    def release(self, job: int) -> None:
        """Begin to stop a job's pods: they still hold their room."""
        for task in self._store.jobs.tasks.data[self._row[job]]:
            self._store.set_state(task, TaskState.RELEASING)

    def nominate(self, tasks: RowVec, nodes: RowVec) -> None:
        """Keep the promise of a node to each of some waiting pods."""
        for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
            self._store.nominate(task, node)

    def jobs_of(self, tasks: RowVec) -> list[int]:
        """Return the job of each pod."""
        rows = self._store.tasks.job_of_task.data[tasks].tolist()
        return [self._job_of_row[row] for row in rows]

    def snapshot(self) -> Snapshot:
        """Freeze the present state."""
        snapshot = self._store.snapshot()
        if self._compactions != self._store.compactions:
            self._renumber()
        return snapshot

    def fair_shares(self, result: CycleResult) -> list[int]:
        """Return the fair share of each queue of the workload in thousandths of a GPU."""
        shares = result.shares
        if isinstance(shares, Shares):
            share = shares.fair_share_of("gpu")
            return [share[row] for row in self._queue]
        by_name = {queue.name: queue.fair_share["gpu"] for queue in shares}
        return [by_name[name] for name in self._work.queue_names]

    def _renumber(self) -> None:
        self._compactions = self._store.compactions
        remap = self._store.remap
        assert remap is not None
        jobs = [_NO_ROW] * self._store.jobs.size
        for job, row in zip(self._job_of_row, remap.job.tolist(), strict=True):
            if row != _NO_ROW:
                jobs[row] = job
                self._row[job] = row
        self._job_of_row = jobs

    def _put_nodes(self, size: ClusterSize) -> None:
        allocatable = {
            "cpu": 2 * POD_CPU * size.gpus_per_node,
            "memory": 2 * POD_MEMORY * size.gpus_per_node,
            "gpu": GPU_UNIT * size.gpus_per_node,
            "pods": NODE_PODS,
        }
        for node in range(size.nodes):
            self._store.put_node(NodeRow(f"node-{node:05d}", allocatable))

    def _put_queues(self) -> None:
        work = self._work
        for name, weight, quota in zip(work.queue_names, work.weights, work.quotas, strict=True):
            self._store.put_queue(
                QueueRow(name, quota={"gpu": quota * GPU_UNIT}, weight={"gpu": weight})
            )
