"""Membership: the job of each pod, and the pods whose job may change with an owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kaisched.cluster.dependents import Dependents
from kaisched.cluster.grouping import Grouper, Membership, Owner
from kaisched.cluster.groups import Groups
from kaisched.cluster.node_types import with_node_types
from kaisched.cluster.pod_segments import with_segments
from kaisched.cluster.priorities import PriorityClasses
from kaisched.cluster.unsettled import Unsettled
from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from kaisched.cluster.rowstore import RowStore
    from kaisched.cluster.structure import JobRow
    from kaisched.cluster.translate import PodRow
    from kaisched.objects.podgroup import PodGroup
    from kaisched.objects.wire import ObjectMeta
    from kaisched.objects.workloads import PriorityClass, Table


class Members:
    """Jobs and their pods: reads owners, pod groups and priority classes, and updates job rows."""

    def __init__(
        self,
        rows: RowStore,
        workloads: Table,
        meta_of: Callable[[str], ObjectMeta | None],
        owner_wait_s: float,
        adjusted: Callable[[str, JobRow], JobRow],
        gone: Callable[[str], None],
    ) -> None:
        """Start without owners, groups and classes.

        Args:
            rows: the rows in which jobs are opened, amended and ended.
            workloads: how the pods of each kind of workload are grouped.
            meta_of: returns the metadata of a pod, for pods that own pods.
            owner_wait_s: how long a pod waits for an owner that is not known yet.
            adjusted: returns a job, by its name, as it is in our node pool.
            gone: told of the jobs that are not there any more.

        """
        self.unsettled = Unsettled(owner_wait_s)
        """Pods that wait for an owner, or have waited in vain."""
        self._classes = PriorityClasses()
        self._grouper = Grouper(workloads, meta_of)
        self._groups = Groups(rows, self._classes, adjusted, gone)
        self._dependents = Dependents()

    # -- objects ---------------------------------------------------------------------------------

    def put_class(self, cls: PriorityClass) -> bool:
        """Take in a priority class; tell whether anything is different."""
        return self._refreshed(is_changed=self._classes.put(cls))

    def remove_class(self, name: str) -> bool:
        """Drop a priority class; tell whether there was one."""
        return self._refreshed(is_changed=self._classes.remove(name))

    def _refreshed(self, *, is_changed: bool) -> bool:
        if is_changed:
            self._groups.refresh()
        return is_changed

    def refresh(self, job: str) -> None:
        """Look at a job again: what it is in our node pool has changed."""
        self._groups.refresh_one(job)

    def put_owner(self, owner: Owner) -> Sequence[str]:
        """Take in an owner; return the keys by which pods refer to it."""
        return self._grouper.put(owner)

    def remove_owner(self, uid: str) -> Sequence[str]:
        """Drop an owner; return the keys by which pods refer to it."""
        return self._grouper.remove(uid)

    def note_group(self, key: str, group: PodGroup | None) -> Sequence[str]:
        """Note a pod group of any pool, None for one that is gone or faulty.

        Return how pods know it if they are independent since, or no longer.
        """
        return self._grouper.note_group(key, group)

    def declare(self, group: PodGroup, fault: str) -> bool:
        """Take in a pod group; tell whether it has changed. A fault refuses the pods."""
        return self._groups.declare(group, fault)

    def withdraw(self, key: str) -> None:
        """Drop a pod group; its pods are refused."""
        self._groups.withdraw(key)

    # -- pods ------------------------------------------------------------------------------------

    def of(self, pod: PodRow) -> Membership:
        """Return the membership of a pod."""
        return self._grouper.membership(pod)

    def hear(self, pod: PodRow, member: Membership | None) -> PodRow:
        """Note whether a pod has succeeded; return the pod, marked while it waits for its owner."""
        self._groups.note_success(pod, member)
        self._dependents.forget_done(pod.key)
        pod = with_segments(self.unsettled.marked(pod, member), member)
        return with_node_types(pod, member)

    def join(
        self, pod: PodRow, member: Membership | None, before: Membership | None
    ) -> tuple[int, int]:
        """Put a pod into its job, in place of the membership ``before``; return (job, pod set).

        Both rows are -1 for a pod of another scheduler.
        """
        waits = member is not None and pod.state == TaskState.PENDING and member.missing != ""
        self.unsettled.note(pod.key, is_unsettled=waits)
        self._dependents.watch(pod.key, before, member)
        return self._groups.join(pod, member) if member is not None else (-1, -1)

    def leave(self, key: str, member: Membership | None, *, is_over: bool) -> None:
        """Take a pod out of its job after its task has ended; ``is_over``: the pod itself ended."""
        if is_over:
            self.unsettled.note(key, is_unsettled=False)
        self._dependents.watch(key, member, None)
        if member is not None:
            self._groups.leave(key, member.job)

    def note_done(self, pod: PodRow, member: Membership | None) -> None:
        """Remember a pod that has succeeded: its job counts it until its object is gone."""
        self._dependents.note_done(pod, member)

    def forget(self, key: str, uid: str = "") -> None:
        """Forget a pod that is gone; with a UID, only the pod of that UID."""
        self._groups.forget_success(key, uid)
        self._dependents.forget_done(key, uid)

    # -- pods that depend on owners --------------------------------------------------------------

    def is_owner(self, uid: str) -> bool:
        """Tell whether the job of some pod depends on an object."""
        return uid in self._dependents

    def dependents(self, uids: Sequence[str]) -> list[str]:
        """Return the pods whose job depends on one of these, by name."""
        return self._dependents.of(uids)

    def done(self, key: str) -> PodRow | None:
        """Return a remembered pod that has succeeded; None for none."""
        return self._dependents.done(key)

    # -- questions -------------------------------------------------------------------------------

    def pods_of(self, job: str) -> list[PodRow]:
        """Return the pods of a job."""
        return self._groups.pods_of(job)

    def running_pods(self, job: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that have a node and are not leaving, by name."""
        there = (TaskState.BOUND, TaskState.RUNNING)
        return sorted((it.key, it.uid) for it in self._groups.pods_of(job) if it.state in there)

    def is_known(self, job: str) -> bool:
        """Tell whether a job has pods or a PodGroup object here."""
        return self._groups.is_known(job)

    def is_declared(self, job: str) -> bool:
        """Tell whether a PodGroup object stands behind a job."""
        return self._groups.is_declared(job)

    def is_silent(self, job: str) -> bool:
        """Tell whether the pods of a job shall not be told that they wait, as its PodGroup says."""
        return self._groups.is_silent(job)

    def stale_marks(self) -> Mapping[str, Mapping[str, float]]:
        """Return the start of staleness by job, and by the pod whose status has it."""
        return self._groups.stale_marks()

    def faults(self) -> Mapping[str, Mapping[str, str]]:
        """Return faults by job and by pod; faults of the job itself have an empty pod."""
        return self._groups.faults()

    def fault_of(self, job: str) -> str:
        """Return the fault of a job, or the first fault of its pods; empty for none."""
        return next(iter(self._groups.faults().get(job, {}).values()), "")
