"""Book of one shard about jobs with lists of pools: which are its own, and all others it knows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kaisched.cluster.grouping import Dependents, Membership
from kaisched.cluster.jobs import JobRow, queue_of
from kaisched.cluster.pods import Ours, PodRow
from kaisched.cluster.pools.owners import Owners
from kaisched.cluster.pools.projects import Overdrafts, Projects
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.labels import NODE_POOL, QUEUE_PROJECT, pool_name
from kaisched.objects.node import Node
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import ObjectMeta

Known = tuple["PodRow", "Membership"]
"""A pod and the job that it is in."""


@dataclass(slots=True)
class Listed:
    """A job with a list of pools."""

    pools: tuple[str, ...]
    """Label values, the pool to try first in front."""
    queue: str
    """The queue that it names, of whatever pool."""
    speaker: str
    """The first of its pods by name, whose word counts where pods differ."""
    pods: dict[str, Known] = field(default_factory=dict)
    is_by_place: bool = False
    """It says nothing of pools, and pods of it are on nodes of one."""

    def speak(self, pod: str, pools: tuple[str, ...], queue: str) -> bool:
        """Use the list of a pod if it is the first of its job; tell whether it has changed."""
        if pod > self.speaker:
            return False
        before = (self.pools, self.queue)
        self.pools, self.queue, self.speaker = pools, queue, pod
        return before != (pools, queue)

    def home(self, pool_of_node: Mapping[str, str]) -> str | None:
        """Return the pool with most bound pods of the job, or else of those that have succeeded."""
        placed = [pod for pod, _ in self.pods.values() if pod.node]
        bound = [pod.node for pod in placed if pod.state != TaskState.GONE]
        nodes = bound or [pod.node for pod in placed if pod.has_succeeded]
        counts = Counter(pool_of_node[it] for it in nodes if it in pool_of_node)
        if not counts:
            return None
        order = {pool: at for at, pool in enumerate(self.pools)}
        return min(counts, key=lambda it: (-counts[it], order.get(it, len(order)), it))

    def fault(self, served: Collection[str]) -> str:
        """Return what is wrong with the list where none of its pools is served; else nothing."""
        if any(pool in served for pool in self.pools):
            return ""
        names = ", ".join(map(labels.pool_name, self.pools))
        there = ", ".join(sorted(map(labels.pool_name, served)))
        return f"no shard serves a node pool of its list ({names}); there are: {there}"


def is_lost(metas: Sequence[ObjectMeta]) -> bool:
    """Tell whether a job has a list with a fault, and no label that puts it into a pool."""
    try:
        any(labels.node_pools_of(meta) is not None for meta in metas)  # the first one counts
    except ObjectError:
        return not any(labels.NODE_POOL in meta.labels for meta in metas)
    return False


def sign_of(pod: PodRow) -> tuple[object, ...]:
    """Return the fields of a pod that decide which pool owns its job."""
    return pod.state, pod.node, pod.pool_condition


Said = tuple[tuple[str, ...], str]
"""The pools of a list, and the queue that is named."""


class Lists:
    """Which pools jobs list, and the pod groups that say so."""

    def __init__(self, projects: Projects) -> None:
        """Know no groups yet; the queues are kept current by the caller."""
        self._projects = projects
        self._groups: dict[str, PodGroup] = {}

    def put(self, group: PodGroup) -> bool:
        """Note a pod group; tell whether its list is another than before."""
        before = self._groups.get(group.key)
        self._groups[group.key] = group
        return before is None or self.of_group(before) != self.of_group(group)

    def drop(self, key: str) -> bool:
        """Forget a pod group; tell whether it was known."""
        return self._groups.pop(key, None) is not None

    def group(self, job: str) -> PodGroup | None:
        """Return the pod group of a job; None without one."""
        return self._groups.get(job)

    def of_group(self, group: PodGroup) -> Said | None:
        """Return what a pod group says by itself; None without a list."""
        return self._said((group.metadata,), group.spec.queue)

    def of(self, member: Membership) -> Said | None:
        """Return the pools of a pod's job and the queue that it names; None without a list."""
        group = self._group_of(member)
        if group is None:
            return self._said(member.metas, "")
        return self._said((group.metadata, *member.metas), group.spec.queue)

    def queue_of(self, member: Membership) -> str:
        """Return the queue that a pod's job names."""
        group = self._group_of(member)
        return (group.spec.queue if group is not None else "") or queue_of(member.metas)

    def _group_of(self, member: Membership) -> PodGroup | None:
        return self._groups.get(member.job) if member.is_declared else None

    def _said(self, metas: tuple[ObjectMeta, ...], queue: str) -> Said | None:
        queue = queue or queue_of(metas)
        for meta in metas:
            try:
                pools = labels.node_pools_of(meta)
            except ObjectError:
                return None  # the job has this fault where its labels put it, or see PoolBook
            if pools is not None:
                return pools, queue
        if any(labels.NODE_POOL in meta.labels for meta in metas):
            return None
        pools = self._projects.list_of(queue)
        return None if pools is None else (pools, queue)


class Whereabouts:
    """The pool of each node and the node of each pod, of all pools."""

    def __init__(self) -> None:
        """Know none."""
        self.changes: Counter[str] = Counter()
        """By pool, how often something there may have made room."""
        self.pool_of_node: dict[str, str] = {}
        self._said: dict[str, tuple[object, ...]] = {}
        """What each node has last said that could matter to a pod."""
        self._node_of_pod: dict[str, str] = {}

    def record_node(self, node: Node) -> bool:
        """Note a node that came or changed; tell whether its pool is another than before.

        Nodes report again and again that nothing has changed: that makes no room.
        """
        said = node.metadata.labels, node.spec, node.status
        if self._said.get(node.name) == said:
            return False
        self._said[node.name] = said
        pool = labels.node_pool_of(node.metadata)
        self.changes[pool] += 1
        before, self.pool_of_node[node.name] = self.pool_of_node.get(node.name), pool
        return before != pool

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self.pool_of_node.pop(name, None)
        self._said.pop(name, None)

    def pods_on(self, node: str) -> list[str]:
        """Return the pods on a node, by name."""
        return sorted(pod for pod, at in self._node_of_pod.items() if at == node)

    def pool_of(self, pod: PodRow) -> str:
        """Return the pool that has a pod by its node; empty if it says itself, or none has."""
        if pod.state == TaskState.GONE or labels.NODE_POOL in pod.meta.labels:
            return ""
        return self.pool_of_node.get(pod.node, "")

    def record_pod(self, pod: PodRow) -> None:
        """Record the node of a pod; one that has ended frees capacity."""
        if pod.node and pod.state != TaskState.GONE:
            self._node_of_pod[pod.key] = pod.node
        else:
            self.forget_pod(pod.key)

    def forget_pod(self, key: str) -> None:
        """Forget a pod that has ended or is gone: it frees capacity."""
        left = self._node_of_pod.pop(key, None)
        if left in self.pool_of_node:
            self.changes[self.pool_of_node[left]] += 1


class NamedQueues:
    """Which queue of our pool counts for the queue that a job names: that of its project here.

    A job that names a queue of ours needs none of this, and costs three look-ups.
    """

    def __init__(self, projects: Projects, owners: Owners, pool: str) -> None:
        """Have none yet."""
        self._projects, self._owners, self._pool = projects, owners, pool
        self._queue_of: dict[str, tuple[str, str]] = {}
        """By job without a list, the queue that it names and the one that counts."""
        self._lacking: dict[str, str] = {}
        """By job with a list, the queue that it names where no queue counts."""
        self._revision = -1
        self._is_news = False

    def queue_for(self, job: str, name: str) -> str:
        """Return the queue that counts for a job without a list; the name as it is if none does."""
        self._drop(self._lacking, job)  # it had a list before
        if self._projects.pool_of(name) == self._pool:
            self._drop(self._queue_of, job)
            return name
        queue = self._resolved(name)
        if self._queue_of.get(job) != (name, queue):
            self._queue_of[job] = name, queue
            self._is_news = True
        return queue

    def queue_for_listed(self, job: str, name: str) -> str:
        """Return the queue that counts for a job with a list, made up if need be."""
        self._drop(self._queue_of, job)  # it had no list before
        queue = self._projects.queue_in(self._pool, name)
        if not queue and self._owners.served.get(self._pool):
            queue = self._projects.made_up(self._pool, name)[-1].name
        if queue:
            self._drop(self._lacking, job)
        elif self._lacking.get(job) != name:
            self._lacking[job] = name
            self._is_news = True
        return queue or name

    def _resolved(self, name: str) -> str:
        is_known = self._projects.pool_of(name) is not None
        if not (is_known or self._owners.is_on or self._pool):
            return name  # there are no pools: the queue does not exist
        queue = self._projects.queue_in(self._pool, name)
        if not queue and is_known and self._owners.served.get(self._pool):
            queue = self._projects.made_up(self._pool, name)[-1].name
        return queue or name

    def forget(self, job: str) -> None:
        """Forget a job that is gone."""
        for known in (self._queue_of, self._lacking):
            self._drop(known, job)

    def _drop(self, known: dict[str, tuple[str, str]] | dict[str, str], job: str) -> None:
        self._is_news |= known.pop(job, None) is not None

    def review(self) -> list[str]:
        """Return the jobs for which another queue counts now."""
        if not self._is_news and self._revision == self._projects.revision:
            return []
        self._is_news |= self._revision != self._projects.revision
        self._revision = self._projects.revision
        now = {name: self._resolved(name) for name, _ in self._queue_of.values()}
        return [job for job, (name, queue) in self._queue_of.items() if now[name] != queue]

    def why_not(self) -> Mapping[str, str] | None:
        """Return what is lacking, by the queue that jobs name; None if it is as it was."""
        if not self._is_news:
            return None
        self._is_news = False
        named = {name for name, queue in self._queue_of.values() if name == queue}
        return {
            name: text
            for name in sorted(named.union(self._lacking.values()))
            if (text := self._text(name))
        }

    def _text(self, name: str) -> str:
        pool = self._projects.pool_of(name)
        if pool is None or pool == self._pool:
            return ""
        project, here = self._projects.project_of(name), pool_name(self._pool)
        labels = f"labels {NODE_POOL}: {here} and" if self._pool else "label"
        return (
            f"queue {name} is in node pool {pool_name(pool)}; project {project} has no queue in"
            f" node pool {here}, which would have the {labels} {QUEUE_PROJECT}: {project}"
        )

    def made_up(self) -> list[QueueRow]:
        """Return the queues to make up for jobs without a list."""
        if not self._queue_of or not self._owners.served.get(self._pool):
            return []
        names = {name for name, _ in self._queue_of.values()}
        known = sorted(name for name in names if self._projects.pool_of(name) is not None)
        lacking = [name for name in known if not self._projects.queue_in(self._pool, name)]
        return [row for name in lacking for row in self._projects.made_up(self._pool, name)]


class PoolBook:
    """What a shard knows of pools: their nodes and queues, jobs with lists, and other pods.

    It hears of every object of the cluster, also of those of other pools. It is written by the
    thread that owns the store. While there is no other pool it knows queues only.
    """

    def __init__(self, ours: Ours, owners: Owners) -> None:
        """Begin empty.

        Args:
            ours: the scope of the store.
            owners: which pool each job is in.

        """
        self._ours, self.owners = ours, owners
        self.pool = ours.node_pool
        self.is_idle_first = False
        """Whether jobs may not evict here before they were refused in all their pools."""
        self.projects = Projects()
        self.overdrafts = Overdrafts(self.projects, self.pool)
        self._open: dict[tuple[tuple[str, ...], str], list[str]] = {}
        """The open pools of each list and queue, as the queues and shards were then."""
        self._open_then: tuple[object, ...] = ()
        self.named_queues = NamedQueues(self.projects, owners, self.pool)
        self.jobs: dict[str, Listed] = {}
        self.impatient: set[str] = set()
        """Jobs that may evict here all the same: they were refused in all their pools."""
        self._where = Whereabouts()
        self.changes = self._where.changes
        self._lists = Lists(self.projects)
        self._job_of_pod: dict[str, str] = {}
        """Of all pods that are known here, listed or not."""
        self._others: dict[str, dict[str, Known]] = {}
        """By job, pods of other pools without a list. They may get one: it may be read after them.
        """
        self.dependents = Dependents()
        self._let_go: set[str] = set()
        self._unsettled: set[str] = set()
        self._new: set[str] = set()
        self.moved: set[str] = set()
        """Pods whose pool by their node may be another."""
        self._looked_at = -1
        """The revision of the queues by which pods without a list were looked at last."""

    @property
    def is_on(self) -> bool:
        """Whether there are other pools."""
        return self.owners.is_on

    # -- nodes and queues ------------------------------------------------------------------------

    def record_node(self, node: Node) -> None:
        """Note a node that came or changed: there may be room on it."""
        if self.is_on and self._where.record_node(node):
            self.look_at_all()
            self.moved.update(self._where.pods_on(node.name))

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self._where.forget_node(name)
        self.look_at_all()

    def record_queue(self, queue: Queue) -> bool:
        """Note a queue that came or changed; tell whether jobs must be looked at again."""
        if not self.projects.put(queue) or not self.is_on:
            return False
        self.changes[labels.node_pool_of(queue.metadata)] += 1
        return True

    def forget_queue(self, name: str) -> bool:
        """Forget a queue that is gone; tell whether jobs must be looked at again."""
        return self.projects.drop(name)

    def missing_queues(self) -> list[QueueRow]:
        """Return the queues to make up for jobs of ours whose project has none here."""
        if not self.owners.served.get(self.pool):
            return []
        made_up = self.named_queues.made_up()
        names = {it.queue for job, it in self.jobs.items() if self.is_mine(job)}
        lacking = [name for name in sorted(names) if not self.projects.queue_in(self.pool, name)]
        rows = (row for name in lacking for row in self.projects.made_up(self.pool, name))
        return [*rows, *made_up]

    # -- pods and groups -------------------------------------------------------------------------

    def record_group(self, group: PodGroup) -> bool:
        """Note a pod group; tell whether its pods must be looked at again: its list is another."""
        if not self.is_on:
            return False
        if group.spec.queue:
            self.overdrafts.requeue(group.key, group.spec.queue)
        return self._lists.put(group)

    def admits_group(self, group: PodGroup) -> bool:
        """Tell whether a pod group is ours now."""
        if not self.is_on:
            return self._ours.has(group.metadata)
        if group.key in self.jobs or self._lists.of_group(group) is not None:
            return self.is_mine(group.key)
        return self._has(group.metadata, (group.metadata,))

    def forget_group(self, key: str) -> bool:
        """Forget a pod group that is gone; tell whether its list of pools went with it."""
        return self._lists.drop(key) and key in self.jobs

    def group(self, job: str) -> PodGroup | None:
        """Return the pod group of a job; None without one."""
        return self._lists.group(job)

    def admits(self, pod: PodRow, member: Membership) -> bool:
        """Tell whether a pod is ours now; note what it says of pools."""
        if not self.is_on:
            return self._ours.has(pod.meta)
        said = self._lists.of(member)
        is_by_place = said is None
        said = said or self._said_by_place(pod, member)
        if said is not None:
            self._enter(pod, member, *said)
            self.jobs[member.job].is_by_place = is_by_place
            is_mine = self.is_mine(member.job)
            self.overdrafts.count(pod, member.job, said[1], is_ours=is_mine)
            return is_mine and self.owners.admits(member.job, pod)
        self._strike(pod.key)
        is_ours = self._has(pod.meta, member.metas)
        self.overdrafts.count(pod, member.job, self._lists.queue_of(member), is_ours=is_ours)
        if not is_ours and pod.state != TaskState.GONE:
            self._put_other(pod, member)
        return is_ours

    def _put_other(self, pod: PodRow, member: Membership) -> None:
        self._others.setdefault(member.job, {})[pod.key] = (pod, member)
        self._job_of_pod[pod.key] = member.job
        self.dependents.watch(pod.key, None, member)

    def _said_by_place(self, pod: PodRow, member: Membership) -> Said | None:
        """Return the pool of the node of a pod that says none, or where others of its job are."""
        if pool := self._place_of(pod):
            return (pool,), self._lists.queue_of(member)
        listed = self.jobs.get(member.job)
        if listed is None or not listed.is_by_place or labels.NODE_POOL in pod.meta.labels:
            return None
        return listed.pools, listed.queue

    def _place_of(self, pod: PodRow) -> str:
        pool = self._where.pool_of(pod)
        return pool if pool in self.owners.served else ""

    def _has(self, meta: ObjectMeta, metas: tuple[ObjectMeta, ...]) -> bool:
        """Tell whether something without a list is ours: by its label, or as we tell its fault."""
        served = self.owners.served  # without a label that is for ``default``, or else the first
        is_told_here = "" not in served and self.pool == min(served)
        return self._ours.has(meta) or (is_told_here and is_lost(metas))

    def _enter(self, pod: PodRow, member: Membership, pools: tuple[str, ...], queue: str) -> None:
        listed = self.jobs.get(member.job)
        before = None if listed is None else listed.pods.get(pod.key)
        if before is None:
            self._strike(pod.key)
            listed = self.jobs.get(member.job)
        if listed is None:
            listed = self.jobs[member.job] = Listed(pools, queue, pod.key)
            self.owners.join(member.job)
            self.owners.follow(member.job, listed.pods)
            self._new.add(member.job)  # its group may have been taken in as that of an earlier job
        if listed.speak(pod.key, pools, queue):
            self._new.add(member.job)
        if before is None or sign_of(before[0]) != sign_of(pod):
            self._unsettled.add(member.job)
            self.owners.noted(member.job)
        self.dependents.watch(pod.key, None if before is None else before[1], member)
        listed.pods[pod.key] = (pod, member)
        self._job_of_pod[pod.key] = member.job

    def _strike(self, key: str) -> None:
        """Take a pod out of the book."""
        self.overdrafts.drop(key)
        job = self._job_of_pod.pop(key, None)
        if job is None:
            return
        others, listed = self._others.get(job, {}), self.jobs.get(job)
        if key in others:
            self.dependents.watch(key, others.pop(key)[1], None)
            if not others:
                del self._others[job]
        elif listed is not None:
            self.dependents.watch(key, listed.pods.pop(key)[1], None)
            if listed.pods:
                self._unsettled.add(job)
                self.owners.noted(job)
                return
            del self.jobs[job]
            self._new.add(job)  # its group is ours or not by itself now
            self.impatient.discard(job)
            self._unsettled.discard(job)
            self.owners.leave(job)

    def record_place(self, pod: PodRow) -> None:
        """Record the node of any pod; one that has ended frees capacity."""
        if self.is_on:
            self._where.record_pod(pod)

    def forget_pod(self, key: str, uid: str = "") -> None:
        """Forget a pod that is gone; with a UID, only if it is still that one."""
        if not self.is_on:
            return
        known = self._find(key)
        if known is None or uid in {"", known[0].uid}:
            self._where.forget_pod(key)
            self._strike(key)

    def _find(self, key: str) -> Known | None:
        job = self._job_of_pod.get(key)
        if job is None:
            return None
        return self._others.get(job, {}).get(key) or self.jobs[job].pods[key]

    # -- what jobs say ---------------------------------------------------------------------------

    def _let_next_speak(self, job: str, listed: Listed) -> None:
        """Use the list of the next pod of a job whose first pod is gone.

        A shard that never saw that one has the word of the next, and shards must agree.
        """
        if listed.speaker not in listed.pods:
            listed.speaker = min(listed.pods)
            pod, member = listed.pods[listed.speaker]
            said = self._lists.of(member) or self._said_by_place(pod, member)
            if said is not None and listed.speak(listed.speaker, *said):
                self._new.add(job)

    def adjusted(self, job: str, spec: JobRow) -> JobRow:
        """Return a job as it is in this pool: with the queue of its project here."""
        listed = self.jobs.get(job)
        if listed is None:
            queue = self.named_queues.queue_for(job, spec.queue)
            return spec if queue == spec.queue else replace(spec, queue=queue)
        queue = self.named_queues.queue_for_listed(job, spec.queue)
        timing = spec.timing
        if self.is_idle_first and job not in self.impatient:
            timing = replace(timing, preemption_delay_s=math.inf)
        fault = spec.fault or listed.fault(self.owners.served)
        if (queue, timing, fault) == (spec.queue, spec.timing, spec.fault):
            return spec
        return replace(spec, queue=queue, timing=timing, fault=fault)

    # -- owners ----------------------------------------------------------------------------------

    def is_mine(self, job: str) -> bool:
        """Tell whether this shard owns a job and is not passing it on."""
        return job not in self._let_go and self.owners.owner(job) == self.pool

    def open_pools(self, listed: Listed) -> list[str]:
        """Return the pools of a list in which the job could be, in order; not to be changed.

        As the queues and shards are now. Many jobs have one list and queue.
        """
        served, now = self.owners.served, (self.projects.revision, dict(self.owners.served))
        if self._open_then != now:
            self._open, self._open_then = {}, now
        key = listed.pools, listed.queue
        if key not in self._open:
            self._open[key] = [
                pool
                for pool in listed.pools
                if served.get(pool)
                or (pool in served and self.projects.queue_in(pool, listed.queue) != "")
            ]
        return self._open[key]

    def first_of(self, listed: Listed) -> str:
        """Return the pool in which a job begins."""
        served, lost = self.owners.served, self.owners.lost
        known = [pool for pool in listed.pools if pool in served]
        rest = ("",) if "" in served else tuple(sorted(served))
        pools = (*self.open_pools(listed), *known, *rest)
        return next((pool for pool in pools if pool not in lost), pools[0])

    def take_moved(self) -> list[str]:
        """Return, once, the pods whose node may have changed its pool."""
        moved, self.moved = sorted(self.moved), set()
        return moved

    def look_at_all(self) -> None:
        """Mark the owners of all jobs for another check."""
        self._unsettled.update(self.jobs)

    def settle(self) -> list[tuple[str, str]]:
        """Claim the jobs without an owner; return own jobs that run elsewhere, with the pool."""
        elsewhere, unsettled = [], set()
        for job in sorted(self._unsettled):
            listed = self.jobs[job]
            self._let_next_speak(job, listed)
            places = (self._place_of(pod) for pod, _ in listed.pods.values())
            if listed.is_by_place and not any(places):
                self._forget_place(listed)
                continue
            owner, home = self.owners.owner(job), listed.home(self._where.pool_of_node)
            if home is not None and home not in self.owners.served:
                home = None
            if owner == self.pool and home not in {None, self.pool}:
                elsewhere.append((job, str(home)))
            else:
                self.owners.claim(job, self.first_of(listed) if home is None else home)
                if self.owners.owner(job) is None:
                    unsettled.add(job)
        self._unsettled = unsettled
        return elsewhere

    def _forget_place(self, listed: Listed) -> None:
        """Let a job be where its labels say again: no pod of it is on a node of another pool."""
        for key, known in list(listed.pods.items()):
            self._strike(key)
            self._put_other(*known)
            self.moved.add(key)

    def news(self) -> list[str]:
        """Return the jobs that have a list or none anew, or another owner, since the last time."""
        new, self._new = self._new, set()
        return sorted((self.owners.news() & self.jobs.keys()) | new)

    def let_go(self, job: str) -> None:
        """Have a job no more, before it is passed on."""
        self._let_go.add(job)

    def pass_on(self, job: str, pool: str) -> None:
        """Make another pool the owner of a job that was dropped here."""
        self.owners.move(job, pool)
        self._let_go.discard(job)

    # -- looking again ---------------------------------------------------------------------------

    def pod(self, key: str) -> PodRow | None:
        """Return a pod that the store has no row of; None for none."""
        found = self._find(key)
        return None if found is None else found[0]

    def job_of(self, key: str) -> str:
        """Return the job with a list that a pod is in; empty for none."""
        job = self._job_of_pod.get(key, "")
        return job if job in self.jobs and key in self.jobs[job].pods else ""

    def pods_of(self, job: str) -> list[str]:
        """Return the pods of a job that are known here, by name."""
        listed = self.jobs.get(job)
        return sorted({*self._others.get(job, ()), *(listed.pods if listed is not None else ())})

    def all_pods(self) -> list[str]:
        """Return all pods with a list, and those that may get one, by name."""
        return sorted(self._job_of_pod)

    def listed_anew(self, pods: Iterable[tuple[PodRow, Membership | None]]) -> list[str]:
        """Return those of some pods that were taken in without a list and now have that of a queue.

        Without it our shard would keep a job that another one has by its list. They are looked at
        before a snapshot, once for all queues that have changed since the last one.
        """
        if self._looked_at == self.projects.revision:
            return []
        self._looked_at = self.projects.revision
        if not self.projects.has_lists:
            return []
        return [
            pod.key
            for pod, member in pods
            if member is not None
            and member.job not in self.jobs
            and self._lists.of(member) is not None
        ]
