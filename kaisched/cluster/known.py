"""What a state store knows of objects, and what it can be asked about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kaisched.cluster.dependents import Dependents
from kaisched.cluster.disruptions import Disruptions
from kaisched.cluster.grouping import Grouper, Membership
from kaisched.cluster.groups import Groups
from kaisched.cluster.held_back import HeldBack
from kaisched.cluster.priorities import PriorityClasses
from kaisched.cluster.problems import Problem, problems_of
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.sent import Sent
from kaisched.cluster.stuck import STUCK_AFTER_S, Stuck
from kaisched.cluster.translate import PodRow
from kaisched.cluster.unsettled import OWNER_WAIT_S, Unsettled
from kaisched.cluster.volumes import Volumes
from kaisched.core.states import TaskState
from kaisched.core.tables import EVICTED
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.check import check_queues
from kaisched.objects.known_workloads import KNOWN
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import Table

OUR_SCHEDULERS: Final = frozenset({"kaisched"})


class KnownObjects(RowStore):
    """Rows, and the objects behind them."""

    def __init__(
        self,
        schedulers: Iterable[str] = OUR_SCHEDULERS,
        *,
        node_pool: str = "",
        gpu_resources: Sequence[str] = GPU_RESOURCES,
        extended: Iterable[str] = (),
        workloads: Table = KNOWN,
        stuck_after_s: float = STUCK_AFTER_S,
        owner_wait_s: float = OWNER_WAIT_S,
    ) -> None:
        """Make an empty store.

        Args:
            schedulers: values of ``schedulerName`` whose pods are ours to place.
            node_pool: value of the label of the nodes, queues, pod groups and pods that are ours;
                empty for those without the label.
            gpu_resources: resource names that count as whole GPUs.
            extended: extended resources to count from the start.
            workloads: how the pods of each kind of workload are grouped.
            stuck_after_s: nobody is made to wait for a pod that is leaving for so long; negative
                for ever.
            owner_wait_s: how long a pod waits for an owner that is not known yet.

        """
        super().__init__(extended)
        self._schedulers = frozenset(schedulers)
        self._node_pool = node_pool
        self._gpu_resources = tuple(gpu_resources)
        self._classes = PriorityClasses()
        self._grouper = Grouper(workloads, self._meta_of)
        self._groups = Groups(self, self._classes)
        self.volumes = Volumes()
        self._pods: dict[str, tuple[PodRow, Membership | None]] = {}
        self._dependents = Dependents()
        self._strangers: dict[str, PodRow] = {}
        """Pods of others on nodes that are not ours."""
        self._sent = Sent()
        self._held_back = HeldBack()
        self._unsettled = Unsettled(owner_wait_s)
        self._stuck = Stuck(stuck_after_s)
        self.disruptions = Disruptions()
        """Disruption budgets, and who was evicted at their cost."""
        self._nominations: dict[str, str] = {}
        self._queue_objects: dict[str, Queue] = {}
        self._queue_faults: dict[str, ObjectError] | None = None
        self._node_faults: dict[str, str] = {}

    @property
    def stuck(self) -> Stuck:
        """The pods that were asked to go long ago and still hold their room."""
        return self._stuck

    @property
    def unsettled(self) -> Unsettled:
        """The pods that wait for an owner, or have done so in vain."""
        return self._unsettled

    def promised_to(self, node: str) -> list[str]:
        """Return the waiting pods that a node is promised to."""
        return [key for key, name in self._nominations.items() if name == node]

    def is_waiting(self, key: str) -> bool:
        """Tell whether a pod had no node when it was last heard of, whatever is assumed of it."""
        found = self._pods.get(key)
        return found is not None and not found[0].node

    def node_of(self, key: str) -> str:
        """Return the node that a pod has, or that a bind was sent for; empty for none."""
        found = self._pods.get(key)
        return "" if found is None else self._sent.node_of(found[0])

    @property
    def schedulers(self) -> frozenset[str]:
        """The scheduler names whose pods are ours."""
        return self._schedulers

    @property
    def sent(self) -> Sent:
        """Binds and evictions that no event has confirmed yet."""
        return self._sent

    def is_assumed(self, key: str) -> bool:
        """Tell whether something is assumed of a pod that no event has confirmed yet."""
        return key in self._sent

    def may_place(self, pod: Pod) -> bool:
        """Tell whether a pod is one that we place, or have placed; from any thread."""
        return pod.spec.scheduler_name in self._schedulers and self._is_in_pool(pod.metadata)

    def version_of(self, key: str) -> tuple[str, str]:
        """Return (UID, resource version) of a pod as it was last taken in; empty for none."""
        found = self._pods.get(key)
        return (found[0].uid, found[0].meta.resource_version) if found is not None else ("", "")

    def known_as(self, key: str) -> tuple[PodRow, Membership | None] | None:
        """Return a pod as it was last taken in, None for none."""
        return self._pods.get(key)

    def state_of(self, key: str) -> TaskState:
        """Return the state of a pod, with what is assumed of it."""
        row = self.row_of_task(key)
        return TaskState.GONE if row < 0 else TaskState(int(self.tasks.state.data[row]))

    def claim_of(self, job: str) -> tuple[object, ...]:
        """Return what a job's right to room rests on: queue, priority and how many pods it needs.

        Empty for none. Two are equal while nothing of it has changed.
        """
        row = self.row_of_job(job)
        if row < 0:
            return ()
        jobs = self.jobs
        first, count = int(jobs.first_podset.data[row]), int(jobs.podset_count.data[row])
        minimums = self.podsets.minimum.data[first : first + count].tolist()
        return (jobs.queue_name[row], int(jobs.priority.data[row]), tuple(minimums))

    def promise(self, key: str, node: str) -> None:
        """Let a node be promised to a pod that waits, before its status says so."""
        if self.state_of(key) == TaskState.PENDING and self._nominations.get(key) != node:
            self._nominations[key] = node
            self.nominate(self.row_of_task(key), self.row_of_node(node))

    def last_evicted_s(self, job: str) -> float:
        """Return when a job was last evicted, NaN where that is not known."""
        row = self.row_of_job(job)
        return float(self.jobs.rare.data[row, EVICTED]) if row >= 0 else math.nan

    def forget_evictions(self, at_s: float, pods: int, before: Mapping[str, float]) -> None:
        """Take back that pods were evicted, for their evictions were not sent.

        Args:
            at_s: the time that was noted.
            pods: how many.
            before: by job of which no pod was evicted then, when it was evicted before that.

        """
        self.revision += 1
        self.accounts.forget_evictions(at_s, pods)
        for job, before_s in before.items():
            if self.last_evicted_s(job) == at_s:
                self.jobs.set_rare(self.row_of_job(job), EVICTED, before_s)

    def promises(self) -> list[tuple[str, str]]:
        """Return (pod, node) of the promises that the pods' own statuses do not show."""
        return [
            (key, node) for key, node in self._nominations.items() if not self.is_told(key, node)
        ]

    def is_told(self, key: str, node: str) -> bool:
        """Tell whether a pod's own status names the node that is promised to it."""
        found = self._pods.get(key)
        return found is not None and found[0].nominated == node

    def pending_pods(self, job: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that wait for a node."""
        pods = [pod for pod in self._groups.pods_of(job) if pod.state == TaskState.PENDING]
        return [(pod.key, pod.uid) for pod in pods if pod.key not in self._sent]

    def _meta_of(self, key: str) -> ObjectMeta | None:
        """Return the metadata of a pod that may own others."""
        found = self._pods.get(key)
        return None if found is None else found[0].meta

    def stale_marks(self) -> Mapping[str, Mapping[str, float]]:
        """Return since when jobs are stale, by job and by the pod whose status says so."""
        return self._groups.stale_marks()

    def running_pods(self, job: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that have a node and are not leaving, by name."""
        there = (TaskState.BOUND, TaskState.RUNNING)
        return sorted((it.key, it.uid) for it in self._groups.pods_of(job) if it.state in there)

    def is_declared(self, job: str) -> bool:
        """Tell whether a PodGroup object stands behind a job."""
        return self._groups.is_declared(job)

    def problems(self) -> list[Problem]:
        """Return what is wrong with the objects, by kind and name."""
        _, errors = check_queues(self._queue_objects.values())
        return problems_of(self._node_faults, errors, self._groups.faults())

    def fault_of(self, job: str) -> str:
        """Return what is wrong with a job, or the first thing that is with its pods; or nothing."""
        return next(iter(self._groups.faults().get(job, {}).values()), "")

    def queue_faults(self) -> Mapping[str, ObjectError]:
        """Return why queues are not used, by name; the same object while no queue changes."""
        if self._queue_faults is None:
            _, errors = check_queues(self._queue_objects.values())
            self._queue_faults = {error.name: error for error in reversed(errors)}
        return self._queue_faults

    def claims_to_select(self, key: str) -> list[str]:
        """Return the claims of a pod, by key, for which its node is to be named."""
        found = self._pods.get(key)
        if found is None or not found[0].claims:
            return []
        return self.volumes.to_select(found[0].namespace, found[0].claims)

    def _is_in_pool(self, meta: ObjectMeta) -> bool:
        return labels.node_pool_of(meta) == self._node_pool
