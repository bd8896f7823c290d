"""The jobs that pods and pod groups make together, kept in line with both as they come and go."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from kaisched.cluster.derived import derived_job
from kaisched.cluster.grouping import Membership
from kaisched.cluster.jobs import amend_job, assign_podset, divide, open_job, podset_names
from kaisched.cluster.priorities import PriorityClasses
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.structure import DEFAULT_PODSET, JobRow, job_row
from kaisched.cluster.translate import PodRow, has_same_wishes
from kaisched.core.refusals import Refusal
from kaisched.core.tables import STALE, SUCCEEDED
from kaisched.objects import labels
from kaisched.objects.podgroup import PodGroup

_Wanted: TypeAlias = tuple[bool, str | None]


class Group:
    """One job: the object that declares it, if any, and the pods in it."""

    __slots__ = ("declared", "declared_fault", "leader", "member", "name")

    def __init__(self, name: str) -> None:
        """Start empty."""
        self.name = name
        self.declared: PodGroup | None = None
        self.declared_fault = ""
        self.member: dict[str, tuple[PodRow, Membership]] = {}
        self.leader = ""
        """The first member by name, which speaks for a group without an object."""


class Groups:
    """All jobs that came from objects."""

    def __init__(
        self,
        store: RowStore,
        classes: PriorityClasses,
        adjusted: Callable[[str, JobRow], JobRow],
        gone: Callable[[str], None],
    ) -> None:
        """Know none; ``adjusted`` returns a job, by its name, as it is in our node pool.

        ``gone`` is told of the jobs that are not there any more.
        """
        self._store, self._adjusted, self._gone = store, adjusted, gone
        self._classes = classes
        self._group: dict[str, Group] = {}
        self._fault: dict[str, dict[str, str]] = {}
        self._succeeded: dict[str, Counter[_Wanted]] = {}
        """By job and by what they say of their pod set, pods that succeeded and are still there."""
        self._success: dict[str, tuple[str, str, _Wanted]] = {}
        """The same by pod: (job, UID, what it says)."""
        self._stale: dict[str, dict[str, float]] = {}
        """By job and pod, since when the job is stale, as the pod says."""

    def declare(self, group: PodGroup, fault: str) -> bool:
        """Take in a pod group; one with a fault refuses its pods. Return whether it was news."""
        mine = self._group.setdefault(group.key, Group(group.key))
        if mine.declared is not None and has_same_wishes(mine.declared, group):
            return False
        mine.declared, mine.declared_fault = group, fault
        self._bring_in_line(mine)
        return True

    def withdraw(self, name: str) -> None:
        """Drop a pod group's object; pods that name it are refused."""
        group = self._group.get(name)
        if group is not None:
            group.declared, group.declared_fault = None, ""
            self._bring_in_line(group)

    def join(self, pod: PodRow, member: Membership) -> tuple[int, int]:
        """Take in a pod, or what has become of it; return the rows of (job, pod set)."""
        group = self._group.setdefault(member.job, Group(member.job))
        group.member[pod.key] = (pod, member)
        if not group.leader or pod.key < group.leader:
            group.leader = pod.key
        is_second = member.gang.is_leader_first and len(group.member) == 2  # noqa: PLR2004
        if group.leader == pod.key or len(group.member) == 1 or is_second:
            self._bring_in_line(group)
        else:
            self._judge(group, pod.key)
        self._note_stale(group, pod.key, pod.stale_since_s)
        job = self._store.row_of_job(group.name)
        podset = self._podset_of(job, pod, member)[0]
        task = self._store.row_of_task(pod.key)
        if task >= 0:  # what its labels mean may be for its workload to say
            assign_podset(self._store, task, podset)
        return job, podset

    def leave(self, key: str, name: str) -> None:
        """Let a pod go, whose task is gone already."""
        group = self._group[name]
        _, member = group.member.pop(key)
        is_leader_left = member.gang.is_leader_first and len(group.member) == 1
        if group.leader == key or is_leader_left:
            group.leader = min(group.member, default="")
            self._bring_in_line(group)
        elif key in self._fault.get(name, ()):
            self._judge(group, key)
        if name in self._group:
            self._note_stale(group, key, math.nan)
        else:
            self._stale.pop(name, None)

    def _note_stale(self, group: Group, key: str, since_s: float) -> None:
        """Note since when a job is stale, as one of its pods says; NaN where it does not."""
        marks = self._stale.get(group.name, {})
        if math.isnan(since_s):
            if marks.pop(key, None) is None:
                return
            if not marks:
                del self._stale[group.name]
        else:
            self._stale.setdefault(group.name, {})[key] = since_s
        self._bring_in_line(group)

    def stale_marks(self) -> Mapping[str, Mapping[str, float]]:
        """Return since when jobs are stale, by job and by the pod that says so."""
        return self._stale

    def note_success(self, pod: PodRow, member: Membership | None) -> None:
        """Count a pod in its job if it has succeeded: what is done need not be done again.

        So many pods less does its pod set need to run.
        """
        said = None
        if pod.has_succeeded and member is not None:
            said = (member.job, pod.uid, _wanted_by(pod, member))
        if self._success.get(pod.key) != said:
            self.forget_success(pod.key)
            if said is not None:
                self._success[pod.key] = said
                self._succeeded.setdefault(said[0], Counter())[said[2]] += 1
                self._count_successes(said[0])

    def forget_success(self, key: str, uid: str = "") -> None:
        """Count a pod no more: it is gone, or another has come in its place."""
        found = self._success.get(key)
        if found is not None and uid in ("", found[1]):
            job, _, wanted = self._success.pop(key)
            done = self._succeeded[job]
            done[wanted] -= 1
            if not done.total():
                del self._succeeded[job]
            self._count_successes(job)

    def _count_successes(self, name: str) -> None:
        job = self._store.row_of_job(name)
        if job < 0 or name not in self._group:
            return
        self._store.touch()
        self._note_done(name, job)
        spec = self._spec(self._group[name])
        if spec is not None:
            divide(self._store, job, self._less_what_is_done(name, spec))

    def _note_done(self, name: str, job: int) -> None:
        done = self._succeeded.get(name)
        self._store.jobs.set_rare(job, SUCCEEDED, 0 if done is None else done.total())

    def refresh(self) -> None:
        """Look at every job again: a priority class has changed."""
        for group in list(self._group.values()):
            self._bring_in_line(group)

    def refresh_one(self, name: str) -> None:
        """Look at a job again, if there is one of that name."""
        group = self._group.get(name)
        if group is not None:
            self._bring_in_line(group)

    def pods_of(self, name: str) -> list[PodRow]:
        """Return the pods of a job."""
        group = self._group.get(name)
        return [] if group is None else [pod for pod, _ in group.member.values()]

    def is_known(self, name: str) -> bool:
        """Tell whether a job has pods or a PodGroup object."""
        return name in self._group

    def is_declared(self, name: str) -> bool:
        """Tell whether a job has a PodGroup object."""
        group = self._group.get(name)
        return group is not None and group.declared is not None

    def is_silent(self, name: str) -> bool:
        """Tell whether a job's PodGroup object wants no condition on pods that wait."""
        group = self._group.get(name)
        declared = None if group is None else group.declared
        return declared is not None and not declared.spec.mark_unschedulable

    def faults(self) -> Mapping[str, Mapping[str, str]]:
        """Return what is wrong, by job and by pod; under an empty pod with the job as such."""
        return self._fault

    def _bring_in_line(self, group: Group) -> None:
        spec = self._spec(group)
        store = self._store
        job = store.row_of_job(group.name)
        if spec is None:
            if job >= 0:
                store.remove_job(job)
            self._fault.pop(group.name, None)
            del self._group[group.name]
            self._gone(group.name)
            return
        spec = self._less_what_is_done(group.name, spec)
        if job < 0:
            job = open_job(store, group.name, spec)
        else:
            amend_job(store, job, spec)
            if divide(store, job, spec):
                self._assign_podsets(group, job)
        if group.name in self._stale:
            store.jobs.set_rare(job, STALE, max(self._stale[group.name].values()))
        self._note_done(group.name, job)
        faults = {"": spec.fault or spec.unsupported}
        if not faults[""]:
            faults = {key: self._pod_fault(group, key, job) for key in group.member}
        faults = {key: fault for key, fault in faults.items() if fault}
        self._refuse(group.name, job, faults, is_valid=not spec.fault)

    def _less_what_is_done(self, name: str, spec: JobRow) -> JobRow:
        """Return a job whose pod sets need so many pods less as have succeeded in each."""
        if name not in self._succeeded:
            return spec
        names = [podset for podset, _ in spec.podsets]
        left = [minimum for _, minimum in spec.podsets]
        for wanted, done in self._succeeded[name].items():
            at = _podset_in(names, wanted)
            if at is not None:
                left[at] = max(left[at] - done, 0)
        return replace(spec, podsets=tuple(zip(names, left, strict=True)))

    def _spec(self, group: Group) -> JobRow | None:
        if group.declared is not None:
            spec = job_row(group.declared, self._classes, group.declared_fault)
            return self._adjusted(group.name, spec)
        if group.leader:
            speaker = group.member[group.leader]
            spec = derived_job(*speaker, self._classes, len(group.member))
            return self._adjusted(group.name, spec)
        return None

    def _assign_podsets(self, group: Group, job: int) -> None:
        for pod, member in group.member.values():
            task = self._store.row_of_task(pod.key)
            if task >= 0:
                assign_podset(self._store, task, self._podset_of(job, pod, member)[0])

    def _podset_of(self, job: int, pod: PodRow, member: Membership) -> tuple[int, str]:
        """Return the row of the pod's pod set and what is wrong with it; then it is the first."""
        first = int(self._store.jobs.first_podset.data[job])
        names = podset_names(self._store, job)
        is_keyed, wanted = _wanted_by(pod, member)
        at = _podset_in(names, (is_keyed, wanted))
        if at is not None:
            return first + at, ""
        known = ", ".join(names[:5]) + (" ..." if len(names) > 5 else "")  # noqa: PLR2004
        what = f"names subgroup {wanted!r}" if wanted else "names no subgroup"
        rule = member.rule
        keys = [*rule.subgroup_labels]
        if member.gang.segments:
            keys += filter(None, (rule.segment_label, rule.size_annotation))
        return first, f"{what} ({', '.join(keys) or labels.SUBGROUP}), but its job has: {known}"

    def _pod_fault(self, group: Group, key: str, job: int) -> str:
        pod, member = group.member[key]
        return pod.fault or self._podset_of(job, pod, member)[1]

    def _judge(self, group: Group, key: str) -> None:
        """Look at one pod's faults only."""
        job = self._store.row_of_job(group.name)
        before = self._fault.get(group.name, {})
        if "" in before:
            return
        fault = self._pod_fault(group, key, job) if key in group.member else ""
        if fault != before.get(key, ""):
            faults = {pod: text for pod, text in before.items() if pod != key}
            if fault:
                faults[key] = fault
            self._refuse(group.name, job, faults)

    def _refuse(
        self, name: str, job: int, faults: dict[str, str], *, is_valid: bool = True
    ) -> None:
        refusal = Refusal.NONE
        if faults:
            self._fault[name] = faults
            pods = [self._group[name].member[key][0] for key in faults if key]
            is_group_at_fault = not is_valid or any(not pod.fault for pod in pods)
            refusal = Refusal.INVALID_GROUP if is_group_at_fault else Refusal.UNSUPPORTED
        else:
            self._fault.pop(name, None)
        # That of the group, or else of the first pod by name.
        self._store.jobs.set_fault(job, faults[min(faults)] if faults else "")
        self._store.refuse(job, refusal)


def _wanted_by(pod: PodRow, member: Membership) -> _Wanted:
    """Return what a pod says of its pod set: whether its workload's labels do, and the name."""
    if member.rule.subgroup_labels or member.gang.segments:
        return True, member.subgroup
    return False, labels.subgroup_of(pod.meta)


def _podset_in(names: list[str], wanted: _Wanted) -> int | None:
    """Return which of a job's pod sets is meant, None for none of them."""
    is_keyed, name = wanted
    if is_keyed and names == [DEFAULT_PODSET]:
        return 0  # it could be divided and is not: every pod counts alike
    name = name or DEFAULT_PODSET
    return names.index(name) if name in names else None
