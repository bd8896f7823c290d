"""Puts pods into jobs, and keeps the rows of jobs up to date as pods and PodGroups change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, TypeAlias

from kaisched.cluster.declared import has_same_wishes
from kaisched.cluster.facts import KnownPods
from kaisched.cluster.grouping import Dependents, Grouper, Membership
from kaisched.cluster.jobs import (
    DEFAULT_PODSET,
    JobRow,
    PriorityClasses,
    derived_job,
    job_row,
    placed_at,
    shape_of,
)
from kaisched.cluster.pods import PodRow
from kaisched.cluster.pools.book import PoolBook
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.refusals import Refusal
from kaisched.core.tables import DELAY, EVICTED, GRACE, NEVER, STALE, SUCCEEDED, WORKLOAD
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.workloads import PriorityClass, Table, required_of_workload

OWNER_WAIT_S: Final = 120.0
"""How long a pod waits for its owner to be seen, unless the shard says otherwise.

A kind that is not served is looked for every minute at least. A pod that started alone before its
owner was found might belong to a gang that does not fit any more, and would be evicted for it.
"""
_CODE: Final = int(Refusal.OWNER_NOT_READ)


class Unsettled:
    """Pods waiting for their owner object, from the next snapshot on."""

    def __init__(self, most_s: float = OWNER_WAIT_S) -> None:
        """Start without pods; none waits for longer than ``most_s``, which may be infinite."""
        self.most_s = most_s
        self._noted: dict[str, None] = {}
        self._until: dict[str, float] = {}  # in the order of time
        self._waited: set[str] = set()

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod waits now."""
        return key in self._until

    def note(self, key: str, *, is_unsettled: bool) -> None:
        """Note whether a pod has an owner that is not known."""
        if not is_unsettled:
            self._noted.pop(key, None)
            self._until.pop(key, None)
            self._waited.discard(key)
        elif key not in self._until and key not in self._waited:
            self._noted[key] = None

    @property
    def waited(self) -> AbstractSet[str]:
        """Pods whose owner was not found in time."""
        return self._waited

    def restore(self, keys: Iterable[str]) -> None:
        """Let these wait, as was known elsewhere; before their pods are noted."""
        self._until.update(dict.fromkeys(keys, math.inf))

    def __iter__(self) -> Iterator[str]:
        """Yield the pods that wait."""
        return iter(self._until)

    def marked(self, pod: PodRow, member: Membership | None) -> PodRow:
        """Return the pod with a constraint that keeps it pending while it waits, or without it."""
        wait = pod.constraints.wait
        new = None if wait is not None and wait[0] == _CODE else wait
        is_waiting = pod.key in self._until and pod.state == TaskState.PENDING
        if new is None and is_waiting and member is not None and member.missing:
            bound = (
                "ownerWait of the shard bounds this"
                if math.isfinite(self.most_s)
                else "it says which queue counts, as the shard has queueUsePolicy"
            )
            why = f"its owner {member.missing} is not read yet; {bound}"
            new = _CODE, why
        if new == wait:
            return pod
        return replace(pod, constraints=replace(pod.constraints, wait=new))

    def cycle(self, now_s: float) -> list[str]:
        """Return the pods that begin or stop to wait now, by the monotonic clock."""
        changed = list(self._noted)
        self._until.update((key, now_s + self.most_s) for key in changed)
        self._noted.clear()
        while self._until and (first := next(iter(self._until.items())))[1] <= now_s:
            del self._until[first[0]]
            self._waited.add(first[0])
            changed.append(first[0])
        return changed


def _with_node_types(pod: PodRow, member: Membership | None) -> PodRow:
    """Return a pod with the types that its owners or the pod name: the outermost that does."""
    wanted: tuple[str, ...] = ()
    for meta in member.metas if member is not None else ():
        if labels.NODE_TYPE in meta.annotations:
            try:
                wanted = labels.node_types_of(meta) or ()
            except ObjectError:
                wanted = ()  # its job is refused, with the reason
            break
    if wanted == pod.constraints.node_types:
        return pod
    return replace(pod, constraints=replace(pod.constraints, node_types=wanted))


def _with_segments(pod: PodRow, member: Membership | None) -> PodRow:
    """Return a pod with a fault while it requires a level for segments that its job has not.

    A PodGroup that the pod names says where its pods go.
    """
    refusal = required_of_workload(pod.meta)
    if not refusal:
        return pod
    is_divided = member is None or member.is_declared or bool(member.gang.segments)
    fault = "" if pod.fault == refusal else pod.fault  # as its job was known before
    fault = fault or ("" if is_divided else refusal)
    return pod if fault == pod.fault else replace(pod, fault=fault)


def open_job(store: RowStore, name: str, spec: JobRow) -> int:
    """Add a job without tasks and return its row."""
    job = store.add_job(
        name,
        spec.queue,
        priority=spec.priority,
        is_preemptible=spec.is_preemptible,
        created_s=spec.created_s,
        tasks=(),
        minimum=spec.podsets[0][1],
        metadata=spec.metadata,
    )
    store.podsets.name.data[-1] = spec.podsets[0][0]
    for podset_name, minimum in spec.podsets[1:]:
        store.podsets.append(podset_name, job, minimum)
    store.jobs.podset_count.data[job] = len(spec.podsets)
    amend_job(store, job, spec)
    divide(store, job, spec)
    return job


def amend_job(store: RowStore, job: int, spec: JobRow) -> None:
    """Bring a job's row in line with what it has become; see :func:`divide` for its pod sets."""
    jobs = store.jobs
    jobs.is_preemptible.set(job, spec.is_preemptible)
    jobs.priority.set(job, spec.priority)
    jobs.created_s.set(job, spec.created_s)
    if not math.isnan(spec.last_start_s):
        jobs.last_start_s.set(job, spec.last_start_s)
    timing = spec.timing
    jobs.rare.set((job, DELAY), timing.preemption_delay_s)
    jobs.rare.set((job, GRACE), timing.staleness_grace_s)
    jobs.rare.set((job, STALE), timing.stale_since_s)
    if not math.isnan(timing.last_evicted_s):  # else what the store itself was told of stands
        jobs.rare.set((job, EVICTED), timing.last_evicted_s)
    jobs.rare.set((job, WORKLOAD), spec.workload)
    jobs.set_metadata(job, spec.metadata)
    jobs.set_top_owner(job, spec.top_owner)
    jobs.queue_name[job] = spec.queue  # takes effect with the refusal, which goes by the queue too


def podset_names(store: RowStore, job: int) -> list[str]:
    """Return the names of a job's pod sets, in row order."""
    first = int(store.jobs.first_podset.data[job])
    return store.podsets.name.data[first : first + int(store.jobs.podset_count.data[job])]


def claim_of(store: RowStore, name: str) -> tuple[object, ...]:
    """Return what entitles a job to capacity: queue, priority and how many pods it needs.

    Empty for no job. Two are equal while nothing of this has changed.
    """
    row = store.row_of_job(name)
    if row < 0:
        return ()
    jobs = store.jobs
    first, count = int(jobs.first_podset.data[row]), int(jobs.podset_count.data[row])
    minimums = store.podsets.minimum.data[first : first + count].tolist()
    return (jobs.queue_name[row], int(jobs.priority.data[row]), tuple(minimums))


def active_pods_of(store: RowStore, name: str) -> int:
    """Return how many pods of a job run, or are about to."""
    row = store.row_of_job(name)
    tasks = list(store.jobs.tasks.data[row]) if row >= 0 else []
    return int(ACTIVE_STATES[store.tasks.state.data[tasks]].sum()) if tasks else 0


def divide(store: RowStore, job: int, spec: JobRow) -> bool:
    """Give a job the pod sets of ``spec``; return whether its tasks must be assigned again."""
    jobs, podsets = store.jobs, store.podsets
    names = [name for name, _ in spec.podsets]
    first = int(jobs.first_podset.data[job])
    is_renamed = names != podset_names(store, job)
    if is_renamed:
        old = range(first, first + int(jobs.podset_count.data[job]))
        podsets.dropped.update(old)
        podsets.minimum.own()[old.start : old.stop] = 0
        first = podsets.size
        for name, minimum in spec.podsets:
            podsets.append(name, job, minimum)
        jobs.first_podset.set(job, first)
        jobs.podset_count.set(job, len(names))
    else:
        minimums = [minimum for _, minimum in spec.podsets]
        if podsets.minimum.data[first : first + len(names)].tolist() != minimums:
            podsets.minimum.own()[first : first + len(names)] = minimums
    jobs.structure.set(job, None if spec.tree is None else placed_at(spec.tree, first))
    return is_renamed


_Wanted: TypeAlias = tuple[bool, str | None]


class Group:
    """One job: the object that declares it, if any, and the pods in it."""

    __slots__ = (
        "declared",
        "declared_fault",
        "leader",
        "member",
        "name",
        "never_preempting",
        "roles",
        "shape",
    )

    def __init__(self, name: str) -> None:
        """Start empty."""
        self.name = name
        self.declared: PodGroup | None = None
        self.declared_fault = ""
        self.member: dict[str, tuple[PodRow, Membership]] = {}
        self.leader = ""
        """The first member by name, which speaks for a group without an object."""
        self.never_preempting: set[str] = set()
        """Members for which nothing may be evicted, as they or their own class say."""
        self.roles: Counter[str] = Counter()
        """Members by the subgroup that they name."""
        self.shape: object = None
        """What decided on its subgroups when it was brought in line."""


class Members:
    """Jobs and their pods: reads owners, PodGroups and priority classes, and updates job rows."""

    def __init__(
        self,
        rows: RowStore,
        pods: KnownPods,
        pools: PoolBook,
        workloads: Table,
        owner_wait_s: float,
        *,
        checks_queues: bool = False,
    ) -> None:
        """Start without owners, groups and classes.

        Args:
            rows: the rows in which jobs are opened, amended and ended.
            pods: the known pods, of which some own pods.
            pools: says what a job is in our node pool, and is told of jobs that are gone.
            workloads: how the pods of each kind of workload are grouped.
            owner_wait_s: how long a pod waits for an owner that is not known yet.
            checks_queues: whether a pod and what owns it have to name the same queue; then pods
                wait for their owner however long it takes.

        """
        self._store, self._pools = rows, pools
        self.grouper = Grouper(workloads, pods.pod, checks_queues=checks_queues)
        self.dependents = Dependents()
        self.unsettled = Unsettled(math.inf if checks_queues else owner_wait_s)
        """Pods that wait for an owner, or have waited in vain."""
        self._classes = PriorityClasses()
        self._group: dict[str, Group] = {}
        self._fault: dict[str, dict[str, str]] = {}
        self._succeeded: dict[str, Counter[_Wanted]] = {}
        """By job and by what they say of their pod set, pods that succeeded and are still there."""
        self._done: dict[str, tuple[PodRow, Membership]] = {}
        """These pods: which job they count in may turn out later, with an owner."""
        self._stale: dict[str, dict[str, float]] = {}
        """By job and pod, since when the job is stale, as the pod says."""

    # -- objects ---------------------------------------------------------------------------------

    def update_class(self, cls: PriorityClass, *, is_gone: bool = False) -> bool:
        """Take in a priority class, or drop it; tell whether anything is different."""
        is_changed = self._classes.remove(cls.name) if is_gone else self._classes.put(cls)
        for group in list(self._group.values()) if is_changed else ():
            pods = [pod for pod, _ in group.member.values()]
            group.never_preempting = {
                pod.key for pod in pods if self._classes.forbid_preempting(pod)
            }
            self._bring_in_line(group)
        return is_changed

    def refresh(self, job: str) -> None:
        """Look at a job again: what it is in our node pool has changed."""
        if (group := self._group.get(job)) is not None:
            self._bring_in_line(group)

    def declare(self, group: PodGroup, fault: str) -> bool:
        """Record a pod group; a faulty one refuses its pods. Return whether it has changed."""
        mine = self._group.setdefault(group.key, Group(group.key))
        if mine.declared is not None and has_same_wishes(mine.declared, group):
            return False
        mine.declared, mine.declared_fault = group, fault
        self._bring_in_line(mine)
        return True

    def withdraw(self, name: str) -> None:
        """Drop a pod group; pods that name it are refused."""
        group = self._group.get(name)
        if group is not None:
            group.declared, group.declared_fault = None, ""
            self._bring_in_line(group)

    # -- pods ------------------------------------------------------------------------------------

    def of(self, pod: PodRow) -> Membership:
        """Return the membership of a pod."""
        return self.grouper.membership(pod)

    def handle(self, pod: PodRow, member: Membership | None) -> PodRow:
        """Note whether a pod has succeeded; return it with what its job and owners add.

        It is marked while it waits for its owner, has a fault while it requires a topology level
        for segments that its job has not, and asks for the node types that its owners name.
        """
        is_done = pod.has_succeeded and member is not None
        self._count_success(pod.key, (pod, member) if is_done and member is not None else None)
        return _with_node_types(_with_segments(self.unsettled.marked(pod, member), member), member)

    def join(
        self, pod: PodRow, member: Membership | None, before: Membership | None
    ) -> tuple[int, int]:
        """Put a pod into its job, in place of the membership ``before``; return (job, pod set).

        Both rows are -1 for a pod of another scheduler.
        """
        waits = member is not None and pod.state == TaskState.PENDING and member.missing != ""
        self.unsettled.note(pod.key, is_unsettled=waits)
        self.dependents.watch(pod.key, before, member)
        return (-1, -1) if member is None else self._join(pod, member)

    def _join(self, pod: PodRow, member: Membership) -> tuple[int, int]:
        group = self._group.setdefault(member.job, Group(member.job))
        if pod.key in group.member:
            group.roles[group.member[pod.key][1].subgroup] -= 1
        group.roles[member.subgroup] += 1
        group.member[pod.key] = (pod, member)
        if not group.leader or pod.key < group.leader:
            group.leader = pod.key
        is_first_never = False
        if self._classes.forbid_preempting(pod):
            is_first_never = not group.never_preempting
            group.never_preempting.add(pod.key)
        if group.leader == pod.key or is_first_never or self._is_reshaped(group):
            self._bring_in_line(group)
        else:
            self._judge(group, pod.key)
        self._note_stale(group, pod.key, pod.stale_since_s)
        job = self._store.row_of_job(group.name)
        podset = self._podset_of(job, pod, member)[0]
        task = self._store.row_of_task(pod.key)
        if task >= 0:  # what its labels mean may be for its workload to say
            self._store.tasks.podset_of_task.set(task, podset)
        return job, podset

    def leave(self, key: str, member: Membership | None, *, is_over: bool) -> None:
        """Take a pod out of its job after its task has ended; ``is_over``: the pod itself ended."""
        if is_over:
            self.unsettled.note(key, is_unsettled=False)
        self.dependents.watch(key, member, None)
        if member is not None:
            self._leave(key, member.job)

    def _leave(self, key: str, name: str) -> None:
        group = self._group[name]
        _, member = group.member.pop(key)
        group.roles[member.subgroup] -= 1
        is_last_never = group.never_preempting == {key}
        group.never_preempting.discard(key)
        if group.leader == key:
            group.leader = min(group.member, default="")
            self._bring_in_line(group)
        elif is_last_never or self._is_reshaped(group):
            self._bring_in_line(group)
        elif key in self._fault.get(name, ()):
            self._judge(group, key)
        if name in self._group:
            self._note_stale(group, key, math.nan)
        else:
            self._stale.pop(name, None)

    def _note_stale(self, group: Group, key: str, since_s: float) -> None:
        """Note since when a job is stale, as one of its pods says; NaN where it does not."""
        conditions = self._stale.get(group.name, {})
        if math.isnan(since_s):
            if conditions.pop(key, None) is None:
                return
            if not conditions:
                del self._stale[group.name]
        else:
            self._stale.setdefault(group.name, {})[key] = since_s
        self._bring_in_line(group)

    def stale_conditions(self) -> Mapping[str, Mapping[str, float]]:
        """Return since when jobs are stale, by job and by the pod that says so."""
        return self._stale

    def record_done(self, pod: PodRow, member: Membership | None) -> None:
        """Have a pod that has succeeded counted anew when its owner changes."""
        if pod.has_succeeded:
            self.dependents.watch(pod.key, None, member)

    def done(self, key: str) -> PodRow | None:
        """Return a pod that has succeeded and whose object is still there; None for none."""
        found = self._done.get(key)
        return None if found is None else found[0]

    def forget(self, key: str, uid: str = "") -> None:
        """Forget a pod that is gone; with a UID, only the pod of that UID."""
        found = self._done.get(key)
        if found is not None and uid in ("", found[0].uid):
            self._count_success(key, None)

    def _count_success(self, key: str, now: tuple[PodRow, Membership] | None) -> None:
        """Count a pod in its job if it has succeeded: its pod set needs one pod less to run."""
        before = self._done.pop(key, None)
        if before is not None:
            self.dependents.watch(key, before[1], None)
        if now is not None:
            self._done[key] = now
        was, said = (it and (it[1].job, _wanted_by(*it)) for it in (before, now))
        for counted, more in ((was, -1), (said, 1)):
            if counted is not None and was != said:
                job, wanted = counted
                done = self._succeeded.setdefault(job, Counter())
                done[wanted] += more
                if not done.total():
                    del self._succeeded[job]
                self._count_successes(job)

    def _count_successes(self, name: str) -> None:
        job = self._store.row_of_job(name)
        if job < 0 or name not in self._group:
            return
        self._store.touch()
        self._set_succeeded(name, job)
        group = self._group[name]
        spec = self._spec(group)
        if spec is not None and divide(self._store, job, self._less_what_is_done(name, spec)):
            self._assign_podsets(group, job)

    def _set_succeeded(self, name: str, job: int) -> None:
        done = self._succeeded.get(name, Counter())
        self._store.jobs.rare.set((job, SUCCEEDED), done.total())

    # -- questions -------------------------------------------------------------------------------

    def pods_of(self, name: str) -> list[PodRow]:
        """Return the pods of a job."""
        group = self._group.get(name)
        return [] if group is None else [pod for pod, _ in group.member.values()]

    def running_pods(self, name: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that have a node and are not leaving, by name."""
        there = (TaskState.BOUND, TaskState.RUNNING)
        return sorted((it.key, it.uid) for it in self.pods_of(name) if it.state in there)

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
        """Return the faults by job and pod; those of a job as a whole have an empty pod."""
        return self._fault

    def fault_of(self, name: str) -> str:
        """Return the fault of a job, or the first fault of its pods; empty for none."""
        return next(iter(self._fault.get(name, {}).values()), "")

    # -- the row of a job ------------------------------------------------------------------------

    def _bring_in_line(self, group: Group) -> None:
        spec = self._spec(group)
        store = self._store
        job = store.row_of_job(group.name)
        if spec is None:
            if job >= 0:
                store.remove_job(job)
            self._fault.pop(group.name, None)
            del self._group[group.name]
            self._pools.named_queues.forget(group.name)
            return
        spec = self._less_what_is_done(group.name, spec)
        if job < 0:
            job = open_job(store, group.name, spec)
        else:
            amend_job(store, job, spec)
            if divide(store, job, spec):
                self._assign_podsets(group, job)
        is_never = spec.is_never_preempting or bool(group.never_preempting)
        store.jobs.rare.set((job, NEVER), is_never)
        if group.name in self._stale:
            store.jobs.rare.set((job, STALE), max(self._stale[group.name].values()))
        self._set_succeeded(group.name, job)
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
            meta, pod = group.declared.metadata, group.member.get(group.leader)
            user = labels.user_of((meta, *(pod[1].metas if pod else ())))
            owner = self.grouper.top_owner_of(meta)._replace(user=user)
            spec = job_row(group.declared, self._classes, group.declared_fault)
            spec = replace(spec, top_owner=owner)
            return self._pools.adjusted(group.name, spec)
        if group.leader:
            speaker = group.member[group.leader]
            roles = self._roles(group)
            group.shape = shape_of(speaker[1], roles)
            spec = derived_job(*speaker, self._classes, roles)
            return self._pools.adjusted(group.name, spec)
        return None

    def _roles(self, group: Group) -> Counter[str]:
        """Return how many pods of each subgroup there are, those that have succeeded included."""
        done = self._succeeded.get(group.name)
        if not done:
            return group.roles
        return group.roles + Counter({role: pods for (_, role), pods in done.items() if role})

    def _is_reshaped(self, group: Group) -> bool:
        """Tell whether a job has other subgroups since a pod of it came or went."""
        if group.declared is not None or not group.leader:
            return False
        _, member = group.member[group.leader]
        return shape_of(member, self._roles(group)) != group.shape

    def _assign_podsets(self, group: Group, job: int) -> None:
        for pod, member in group.member.values():
            task = self._store.row_of_task(pod.key)
            if task >= 0:
                podset = self._podset_of(job, pod, member)[0]
                self._store.tasks.podset_of_task.set(task, podset)

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
        keys = [*rule.subgroup_labels, *rule.role_labels]
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
        self._store.jobs.faults.set(job, faults[min(faults)] if faults else None)
        self._store.refuse(job, refusal)


def _wanted_by(pod: PodRow, member: Membership) -> _Wanted:
    """Return what a pod says of its pod set: whether its workload's labels do, and the name."""
    rule = member.rule
    if rule.subgroup_labels or rule.role_labels or member.gang.segments:
        return True, member.subgroup
    return False, labels.subgroup_of(pod.meta)


def _podset_in(names: list[str], wanted: _Wanted) -> int | None:
    """Return which of a job's pod sets is meant, None for none of them."""
    is_keyed, name = wanted
    if is_keyed and names == [DEFAULT_PODSET]:
        return 0  # it could be divided and is not: every pod counts alike
    name = name or DEFAULT_PODSET
    return names.index(name) if name in names else None
