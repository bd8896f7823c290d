"""The state store: events of API objects become changes of rows, which snapshots share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from kaisched.cluster.aversion import Aversion
from kaisched.cluster.claims.device_claims import DEVICE_OBJECTS, DeviceClaims
from kaisched.cluster.declared import Declared, Problem, fault_of
from kaisched.cluster.facts import STUCK_AFTER_S, Facts, KnownPods, SentOf
from kaisched.cluster.firmness import within_quotas
from kaisched.cluster.grouping import Membership, Owner
from kaisched.cluster.members import OWNER_WAIT_S, Members
from kaisched.cluster.nodes import node_row
from kaisched.cluster.pods import NO_SHARING, OUR_SCHEDULERS, Ours, PodRow, Sharing, pod_row
from kaisched.cluster.pools.book import PoolBook
from kaisched.cluster.pools.owners import Owners, SharedOwners
from kaisched.cluster.queues import queue_row
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.shared_gpus import Use
from kaisched.cluster.volumes import Given, Volumes
from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.claims.model import Site
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import TopologyLevel
from kaisched.errors import ObjectError
from kaisched.objects.gangs import KNOWN
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
)
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import GPU_RESOURCES, SchedulingShard
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.workloads import PartialObject, PriorityClass, Table


class StateStore:
    """The present state of one shard: takes in events, gives snapshots.

    Events may come in any order and more than once; what refers to something unknown waits for it.
    No event raises for what an object says: see :meth:`problems`. The parts answer questions.
    """

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
        offers_shares: bool = False,
        owners: Owners | None = None,
        sharing: Sharing = NO_SHARING,
        checks_queues: bool = False,
    ) -> None:
        """Make an empty store.

        Args:
            schedulers: values of ``schedulerName`` whose pods are ours to place.
            node_pool: value of the label of what is ours; empty for what is without the label.
            gpu_resources: resource names that count as whole GPUs.
            extended: extended resources to count from the start.
            workloads: how the pods of each kind are grouped.
            stuck_after_s: how long a pod that leaves is waited for; negative for ever.
            owner_wait_s: how long a pod waits for an unknown owner.
            offers_shares: whether pods may share GPUs, as parts of cards.
            owners: which node pool each job with a list is in; None where there is one pool.
            sharing: how shares reach the hardware; those that are claims are on no cards.
            checks_queues: whether pods, their owners and groups have to name the same queue.

        """
        whose = frozenset(schedulers), node_pool, tuple(gpu_resources)
        has_shares = offers_shares and not sharing.share_class
        self.ours = Ours(*whose, has_shares, sharing, has_tenants=checks_queues)
        self.rows = RowStore(extended)
        self.pods = KnownPods()
        self.pools = PoolBook(self.ours, owners or SharedOwners().for_shard(node_pool))
        self.members = Members(
            self.rows,
            self.pods,
            self.pools,
            workloads,
            owner_wait_s,
            checks_queues=checks_queues,
        )
        self.facts = Facts(stuck_after_s)
        self.volumes = Volumes()
        self.aversion = Aversion()
        self.device_claims = DeviceClaims(
            lambda pod: self.members.of(pod).job, gpu_resources, sharing.share_class, sharing.least
        )
        self.declared = Declared()
        if sharing.has_reservations:
            self.rows.cards.hold_by(self.facts.sharing)
        self._layouts = self._compactions = 0
        """The layouts of nodes and the compactions of rows that were last acted upon."""
        self._eased: tuple[Snapshot, Snapshot] | None = None
        """The rows' last snapshot, and the same with work beyond quotas as preemptible."""
        self._frozen: tuple[Snapshot, Snapshot] | None = None
        """The rows' last snapshot, and the same with its optional parts."""

    # -- nodes, queues, classes, owners ----------------------------------------------------------

    def upsert_node(self, node: Node) -> None:
        """Take in a node that came or changed."""
        self.pools.record_node(node)
        if not self.ours.has(node.metadata):
            self._remove_node(node.name)
            return
        try:
            row = node_row(node, self.ours.gpu_resources)
        except ObjectError as error:
            self._remove_node(node.name)
            self.declared.record_node(node.name, str(error))
            return
        self.declared.record_node(node.name)
        is_new = not self.rows.nodes.is_known(row.name)
        self.rows.put_node(self.device_claims.gpus.with_gpus(row))
        if listed := self.rows.listed():
            self._ask_anew(listed)
        if is_new:
            for pod in list(self.pods.strangers.values()):
                if self.facts.sent.node_of(pod) == row.name:
                    self._take_in(pod)

    def _ask_anew(self, resources: AbstractSet[str]) -> None:
        """Give pods that ask for some resources another row: these are counted by name now."""
        for pod, _ in list(self.pods.values()):
            if not resources.isdisjoint(pod.request):
                self._drop(pod.key, is_over=False)
                self._take_in(pod)

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods stay until they are said to end."""
        self.pools.forget_node(name)
        self._remove_node(name)

    def _remove_node(self, name: str) -> None:
        self.declared.record_node(name)
        if not self.rows.nodes.is_known(name):
            return
        self.rows.remove_node(name)
        self.device_claims.gpus.forget_node(name)
        for pod, member in list(self.pods.values()):
            if member is None and self.facts.sent.node_of(pod) == name:
                self._drop(pod.key)
                self.pods.strangers[pod.key] = pod

    def upsert_queue(self, queue: Queue) -> None:
        """Take in a queue that came or changed; one with a fault is as good as absent."""
        if self.pools.record_queue(queue):
            self._refresh_listed()
        if self.declared.has_queue(queue):
            return
        self._remove_queue(queue.name)
        if self.ours.has(queue.metadata):
            self.declared.put_queue(queue)
            if fault := fault_of(queue):
                self.rows.leave_out_queue(queue.name, fault.removeprefix(f"Queue {queue.name}: "))
            else:
                self.rows.put_queue(queue_row(queue))

    def remove_queue(self, name: str) -> None:
        """Drop a queue; its jobs are refused until it comes back."""
        if self.pools.forget_queue(name):
            self._refresh_listed()
        self._remove_queue(name)

    def _remove_queue(self, name: str) -> None:
        self.declared.drop_queue(name)
        self.rows.remove_queue(name)

    def set_volumes_read(self, *, is_read: bool) -> None:
        """Let pods wait for their volume claims, or no longer if these cannot be read."""
        self.look_again(self.volumes.set_read(is_read=is_read))

    def give_volumes(self, key: str, node: str) -> list[Given]:
        """Choose the free volumes that a pod's claims get on its node, if it has such claims."""
        pod, nodes = self.pods.pod(key), self.rows.nodes
        if pod is None or not pod.constraints.unbound:
            return []
        row = nodes.row_of_name.get(node)
        labels = {} if row is None else nodes.statics().labels[row]
        return self.volumes.give(pod, Site(node, labels))

    def look_again(self, pods: Iterable[str]) -> None:
        """Take in pods again: something about them changed that their objects do not say."""
        for key in pods:
            pod = self.pods.pod(key) or self.pools.pod(key)
            if pod is not None:
                self.rows.touch()
                self._take_in(pod)

    def upsert_owner(self, owner: Owner) -> None:
        """Take in a workload that may own pods."""
        self._regroup(self.members.grouper.put(owner))

    def remove_owner(self, uid: str) -> None:
        """Drop a workload."""
        self._regroup(self.members.grouper.remove(uid))

    def _regroup(self, uids: Sequence[str]) -> None:
        """Look again at the pods that know an owner by one of these, if there are any."""
        if uids:
            self.rows.touch()
        for key in dict.fromkeys(
            (*self.members.dependents.of(uids), *self.pools.dependents.of(uids))
        ):
            # Looking at another may have come upon it already.
            found = self.pods.pod(key) or self.members.done(key) or self.pools.pod(key)
            if found is not None:
                self._take_in(found)

    # -- pod groups and pods ---------------------------------------------------------------------

    def upsert_pod_group(self, group: PodGroup) -> None:
        """Take in a pod group that came or changed; one with a fault refuses its pods."""
        self._regroup(
            self.members.grouper.record_group(group.key, None if fault_of(group) else group)
        )
        self._note_group(group)

    def remove_pod_group(self, key: str) -> None:
        """Drop a pod group."""
        self._regroup(self.members.grouper.record_group(key, None))
        if self.pools.forget_group(key):
            self._look_at_job(key)
        self._withdraw(key)

    def upsert_pod(self, pod: Pod) -> None:
        """Take in a pod that came or changed."""
        self.rows.touch()
        row = pod_row(pod, self.ours)
        self.pools.record_place(row)
        self._take_in(row)

    def remove_pod(self, key: str, uid: str = "") -> None:
        """Drop a pod; with a UID, only if it is still that one."""
        found = self.pods.pod(key)
        self.members.forget(key, uid)
        self.pools.forget_pod(key, uid)
        self.facts.forget(key, uid)
        if found is not None and uid in {"", found.uid}:
            self.rows.touch()
            self._drop(key)
        self.pods.drop_stranger(key, uid)
        if found is None or uid in {"", found.uid}:
            self.aversion.forget(key)
        self.look_again([*self.volumes.forget(key, uid), *self.device_claims.forget(key, uid)])

    def _take_in(self, pod: PodRow) -> None:
        facts, members = self.facts, self.members
        facts.handle(pod)
        if pod.claims or pod.key in self.volumes:
            pod = self._with_volumes(pod)
        if pod.device_claims or pod.extended or pod.key in self.device_claims:
            pod, rivals = self.device_claims.noted(pod)
            self.look_again(rivals)
        self.pods.drop_stranger(pod.key)
        pod = self._with_averse(pod)
        member = self._member_of(pod)
        pod = members.handle(pod, member)
        found = self.pods.get(pod.key)
        is_known = found is not None and found[0].uid == pod.uid
        if found is not None and not is_same_task(found, (pod, member)):
            self._drop(pod.key, is_over=not is_known or pod.state == TaskState.GONE)
            facts.sent.take_back_eviction(pod.key)  # it was not this one that was chosen
            found = None
        node = facts.sent.node_of(pod)
        if pod.state == TaskState.GONE or (member is None and not self.rows.nodes.is_known(node)):
            if found is not None:
                self._drop(pod.key)
            members.record_done(pod, member)
            if pod.state != TaskState.GONE and node:
                self.pods.strangers[pod.key] = pod
            return
        self._place(pod, member, found, is_known=is_known)

    def _member_of(self, pod: PodRow) -> Membership | None:
        """Return the membership of a pod that is ours to place now; None for another's."""
        if not pod.is_ours:
            return None
        if self._is_kept(pod):
            return self.members.of(pod)
        if not (self.pools.is_on or self.ours.has(pod.meta)):
            return None
        member = self.members.of(pod)
        return member if self.pools.admits(pod, member) else None

    def _is_kept(self, pod: PodRow) -> bool:
        """Tell whether a pod on a node of ours names another pool, where tenants may write that.

        It would else hold our room, count in no queue of ours, and never give way.
        """
        if not self.ours.has_tenants or self.ours.has(pod.meta):
            return False
        is_here = self.rows.nodes.is_known(self.facts.sent.node_of(pod))
        return is_here and pod.state != TaskState.GONE

    def _place(
        self,
        pod: PodRow,
        member: Membership | None,
        found: tuple[PodRow, Membership | None] | None,
        *,
        is_known: bool,
    ) -> None:
        """Give a pod its place in job and row; ``found`` is what it was, None for a new task."""
        self.pods[pod.key] = pod, member
        self.facts.note(pod, was_known=is_known)
        job, podset = self.members.join(pod, member, found[1] if found else None)
        if found is None:
            self._add_task(pod, job, podset)
        self._update_task(pod)
        if pod.uid in self.members.dependents and (found is None or _is_other_owner(found[0], pod)):
            self._regroup((pod.uid,))

    def _add_task(self, pod: PodRow, job: int, podset: int) -> None:
        """Add the task of a pod, which is updated next. Rows are -1 for a foreign pod."""
        rows, constraints = self.rows, pod.constraints
        label_set = rows.labels.intern(pod.namespace, pod.meta.labels)
        if pod.has_pod_terms:
            constraints = replace(constraints, label_set=label_set)
        task = rows.add_task(pod.key, pod.uid, rows.shape_of(pod.request, constraints), job, podset)
        rows.tasks.created_s.data[task] = pod.created_s
        rows.tasks.order_priority.data[task] = pod.order_priority
        rows.tasks.label_set_of_task.data[task] = label_set

    def _update_task(self, pod: PodRow) -> None:
        """Bring a task in line with its pod and the facts about the pod."""
        rows, facts = self.rows, self.facts
        task = rows.row_of_task(pod.key)
        rows.put_on(task, facts.state_of(pod), facts.sent.node_of(pod), pod.started_s)
        self._put_on_cards(task, pod)
        if pod.key not in facts.sent:
            node = pod.nominated if pod.state == TaskState.PENDING else ""
            if facts.promise(pod.key, node) or node:
                rows.nominate(task, rows.nodes.row_of_name.get(node, -1))
        job = rows.tasks.job_of_task.data[task]
        if job >= 0 and ACTIVE_STATES[pod.state] and not math.isnan(pod.started_s):
            last_s = rows.jobs.last_start_s
            if not last_s.data[job] <= pod.started_s:  # NaN, or later than this pod's
                last_s.set(job, pod.started_s)

    def _put_on_cards(self, task: int, pod: PodRow) -> None:
        """Set the cards of a task, and record it as a user where reservation pods hold them."""
        facts, rows = self.facts, self.rows
        cards, demand = facts.sent.cards_of(pod), pod.constraints.devices
        if demand is not None and demand.has_cards and (cards or pod.node):
            # A pod that names no card has some of its own: nobody knows which it shares.
            own = tuple(f"{pod.uid}-{number}" for number in range(demand.cards))
            rows.cards.name(task, (*cards, *own)[: max(demand.cards, 1)])
        if pod.reservation is not None:
            facts.sharing.look_again(pod.reservation.card)  # its deletion may have been sent
        elif rows.cards.sharing is not None:
            # Also pods whose request is invalid here: what they use is not for others.
            use = Use(facts.sent.node_of(pod), cards, pod.gpus, not pod.node) if cards else None
            facts.sharing.record_use(pod.key, use)
        facts.sharing.record_fault(pod.key, pod.groups_fault)

    def _with_volumes(self, pod: PodRow) -> PodRow:
        """Return a pod with what its claims demand; others that want the same are looked at too."""
        assumed = self.pods.pod(pod.key) if pod.key in self.facts.sent.binds else None
        rivals = self.volumes.note(pod)
        pod = self.volumes.resolved(pod, assumed)
        self.look_again(rivals)
        return pod

    def _with_averse(self, pod: PodRow) -> PodRow:
        """Return a pod with the anti-affinity of others that selects it.

        One about which something was sent keeps what that was decided by.
        """
        self.aversion.record(pod)
        sent = self.pods.pod(pod.key) if pod.key in self.facts.sent else None
        averse = self.aversion.against(pod) if sent is None else sent.constraints.averse
        if averse == pod.constraints.averse:
            return pod
        return replace(pod, constraints=replace(pod.constraints, averse=averse))

    def _drop(self, key: str, *, is_over: bool = True) -> None:
        pod, member = self.pods.pop(key)
        self.facts.drop(key, is_over=is_over)
        self.facts.sharing.record_use(key, None)
        self.facts.sharing.record_fault(key, "")
        self.rows.retire_task(self.rows.row_of_task(key))
        self.members.leave(key, member, is_over=is_over)
        if pod.uid in self.members.dependents:
            self._regroup((pod.uid,))

    # -- decided, but not yet confirmed -----------------------------------------------------------

    def assume_bound(self, key: str, node: str, cards: tuple[str, ...] = ()) -> None:
        """Count a pod as bound, since a bind was sent: until it is confirmed, or taken back."""
        pod = self.pods.pod(key)
        if pod is not None:
            self.facts.sent.bind(pod, node, cards)
            self.rows.touch()
            self._update_task(pod)

    def assume_evicted(self, key: str, at_s: float = math.nan) -> None:
        """Count a pod as releasing, since an eviction was sent at that time."""
        pod = self.pods.pod(key)
        if pod is not None:
            self.facts.sent.evict(pod)
            self.rows.touch()
            self._update_task(pod)
            self.record_eviction(key, at_s)

    def record_eviction(self, key: str, at_s: float) -> None:
        """Note that a pod was evicted, at that time, at the cost of its job and its budget."""
        self.facts.disruptions.record_eviction(key)
        self.rows.record_eviction(self.rows.row_of_task(key), at_s)

    def refute_bind(self, key: str, uid: str = "") -> None:
        """Take back a bind: it has not happened and never will; with a UID, only that pod's."""
        self.device_claims.sent.take_back(key, uid)
        if self.facts.sent.take_back_bind(key, uid):
            self._reconsider(key)

    def refute_eviction(self, key: str, uid: str = "") -> None:
        """Take back an eviction; what was sent before it still counts."""
        if self.facts.sent.take_back_eviction(key, uid):
            self.facts.disruptions.forget(key)
            self._reconsider(key)

    def refute(self, key: str, sent: SentOf | None = None) -> None:
        """Take back what was assumed, or only what was ``sent`` by then: its object is right."""
        now = self.facts.sent.of(key)
        if (sent or now).evicted == now.evicted:
            self.refute_eviction(key)
        if (sent or now).bind == now.bind:
            self.refute_bind(key)

    def hold_back(self, key: str, now_s: float, uid: str = "", why: str = "") -> None:
        """Take back a bind that could not be done; its pod counts as gated for a while."""
        pod = self.pods.pod(key)
        if pod is not None and uid in {"", pod.uid}:
            self.facts.held_back.add(key, now_s, why)
        self.refute_bind(key, uid)

    def promise(self, key: str, node: str) -> None:
        """Nominate a node for a pending pod, before its status says so."""
        if self.rows.state_of(key) == TaskState.PENDING and self.facts.promise(key, node):
            self.rows.nominate(self.rows.row_of_task(key), self.rows.row_of_node(node))

    def _reconsider(self, key: str) -> None:
        """Take in a pod again of which less is assumed; its claims may have changed since."""
        self.rows.touch()
        if (pod := self.pods.pod(key) or self.pods.strangers.get(key)) is not None:
            self._take_in(pod)

    def let_go(self, now_s: float) -> None:
        """Release pods that were held back for long enough; called before every snapshot.

        It also updates which pods wait for their owner object.
        """
        due = self.facts.held_back.pop_due(now_s)
        self.look_again((*due, *self.members.unsettled.cycle(now_s)))

    def find_stuck(self, now_s: float, wall_s: float) -> None:
        """Find pods whose deletion does not end, and correct times that lie in the future.

        ``wall_s`` is the time by the clock that stamps objects.
        """
        self.rows.bring_back_to_now(wall_s)
        for key in self.facts.stuck.cycle(now_s, wall_s):
            if (pod := self.pods.pod(key)) is not None:
                self.rows.touch()
                self._update_task(pod)

    # -- jobs with lists of node pools ----------------------------------------------------------

    def settle_pools(self) -> None:
        """Take in and drop jobs as the shards own them; before a snapshot."""
        book, rows = self.pools, self.rows
        if book.is_on:
            book.owners.begin()
            self.look_again([*book.take_moved(), *book.listed_anew(self.pods.values())])
            for job, pool in book.settle():
                self.hand_over(job, pool)
            for job in book.news():
                self._review(job)
            self.look_again(book.take_moved())
        for job in book.named_queues.review():
            rows.touch()
            self.members.refresh(job)
        why_not = book.named_queues.why_not()
        if why_not is not None and rows.queues.record_why_not(why_not):
            rows.touch()
        for queue in book.missing_queues():
            rows.put_queue(queue)

    def hand_over(self, job: str, pool: str) -> None:
        """Drop a job and then let another pool own it."""
        self.pools.let_go(job)
        self._review(job)
        self.pools.pass_on(job, pool)

    def _review(self, job: str) -> None:
        """Take a job in or drop it, as its owner says."""
        book, members = self.pools, self.members
        group = book.group(job)
        if job in book.jobs:
            is_ours = book.is_mine(job)
        else:  # it has no list any more
            is_ours = group is not None and book.admits_group(group)
        if not (is_ours or members.is_known(job)):
            return  # it is another pool's, and nothing of it is here
        self.rows.touch()
        if group is not None:
            self._note_group(group)
        is_new = not members.is_known(job)
        self._look_at_job(job)
        if not is_new or len(members.pods_of(job)) > 1:
            members.refresh(job)  # a single pod has brought its new job in line

    def _note_group(self, group: PodGroup) -> None:
        """Take in a pod group of any pool; look at its pods again if its list is another."""
        is_listed_anew = self.pools.record_group(group)
        self._declare(group)
        if is_listed_anew:
            self._look_at_job(group.key)
            self._declare(group)  # whose it is depends on its pods

    def _declare(self, group: PodGroup) -> None:
        if not self.pools.admits_group(group):
            self._withdraw(group.key)
        elif self.members.declare(group, fault_of(group)):
            self.rows.touch()

    def _withdraw(self, key: str) -> None:
        self.rows.touch()
        self.members.withdraw(key)

    def _look_at_job(self, job: str) -> None:
        """Look at the pods of a job again, wherever they are known."""
        there = {pod.key for pod in self.members.pods_of(job)}
        self.look_again(sorted(there.union(self.pools.pods_of(job))))

    def _refresh_listed(self) -> None:
        """Look at all jobs with lists again: queues have changed."""
        self.rows.touch()
        self.look_again(self.pools.all_pods())
        for job in list(self.pools.jobs):
            self.members.refresh(job)

    # -- questions that several parts answer together --------------------------------------------

    def node_of(self, key: str) -> str:
        """Return the node that a pod has, or that a bind was sent for; empty for none."""
        return "" if (pod := self.pods.pod(key)) is None else self.facts.sent.node_of(pod)

    def pending_pods(self, job: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that wait for a node."""
        pods = (pod for pod in self.members.pods_of(job) if pod.key not in self.facts.sent)
        return [(pod.key, pod.uid) for pod in pods if pod.state == TaskState.PENDING]

    def problems(self) -> list[Problem]:
        """Return what is wrong with the objects, by kind and name."""
        groups = self.facts.sharing.faults().items()
        found = [Problem(Pod.KIND, pod, text) for pod, text in groups]
        return sorted([*self.declared.problems(self.members.faults()), *found])

    def snapshot(self) -> Snapshot:
        """Freeze the present state; the same object while nothing happened."""
        nodes, concerned = self.device_claims.settle()
        for node in nodes:
            self.rows.put_node(node)
        self.look_again([*concerned, *self.volumes.settle()])
        if selected := self.aversion.settle(self.rows.labels):
            self.look_again(self.rows.tasks_with(selected))
        self.settle_pools()
        rows, claims = self.rows, self.device_claims
        rows.settle()
        if self._layouts != rows.layouts:  # a node may be back
            self._layouts = rows.layouts
            for key, name in self.facts.promised():
                rows.nominate(rows.row_of_task(key), rows.nodes.row_of_name.get(name, -1))
        if rows.axis.bridged != claims.gpus.bridged:
            rows.count_by(rows.axis.bridging(claims.gpus.bridged))
        rows.tidy()
        is_new = self._frozen is None or self._frozen[0].revision != rows.revision
        uncounted = claims.uncounted(rows) if is_new else {}
        bare = rows.snapshot()
        if rows.compactions != self._compactions:
            self._compactions = rows.compactions
            claims.specs.keep({use.spec for it in bare.shapes.constraints for use in it.claims})
        return self._with_the_rest(self._within_quotas(bare), uncounted)

    def _within_quotas(self, bare: Snapshot) -> Snapshot:
        if not self.ours.has_tenants:
            return bare
        if self._eased is None or self._eased[0] is not bare:
            self._eased = bare, within_quotas(bare)
        return self._eased[1]

    def _with_the_rest(
        self, bare: Snapshot, uncounted: Mapping[int, Mapping[frozenset[str], int]]
    ) -> Snapshot:
        """Return a snapshot of the rows with disruption budgets, claims and overdrafts, if any."""
        rows, budgets, claims = self.rows, self.facts.disruptions, self.device_claims
        more: dict[str, Any] = {}
        overdrawn = self.pools.overdrafts.table(rows, self.pools.owners.served)
        if overdrawn is not None:
            more["overdrawn"] = overdrawn
        if not (len(budgets) or claims.has_table or more):
            self._frozen = None
            return bare
        if self._frozen is None or self._frozen[0] is not bare:
            if len(budgets):
                table = budgets.table(bare, rows.tasks.row_of_name, rows.compactions)
                more["disruption_budgets"] = table
            if claims.has_table:
                more["claims"] = claims.table(rows.row_of_task, uncounted)
            self._frozen = bare, replace(bare, **more)
        return self._frozen[1]


def is_same_task(
    old: tuple[PodRow, Membership | None], new: tuple[PodRow, Membership | None]
) -> bool:
    """Tell whether a pod may keep its row: these parts of a row are never rewritten."""
    (pod, member), (pod_now, member_now) = old, new
    return (
        pod.uid == pod_now.uid
        and pod.request == pod_now.request
        and pod.constraints == pod_now.constraints
        and pod.meta.labels == pod_now.meta.labels
        and pod.created_s == pod_now.created_s
        and pod.order_priority == pod_now.order_priority
        and (member.job if member else "") == (member_now.job if member_now else "")
    )


def _is_other_owner(old: PodRow, new: PodRow) -> bool:
    """Tell whether pods that a pod owns may be grouped in another way."""
    parts = ("labels", "annotations", "owner_references")
    return any(getattr(old.meta, part) != getattr(new.meta, part) for part in parts)


def update(
    store: StateStore, obj: KubernetesObject | PartialObject, *, is_gone: bool = False
) -> None:
    """Take in any object that came or changed, or drop it; shards are not the store's."""
    match obj:
        case Pod():
            store.remove_pod(obj.key, obj.metadata.uid) if is_gone else store.upsert_pod(obj)
        case PodGroup():
            store.remove_pod_group(obj.key) if is_gone else store.upsert_pod_group(obj)
        case Node():
            store.remove_node(obj.name) if is_gone else store.upsert_node(obj)
        case Queue():
            store.remove_queue(obj.name) if is_gone else store.upsert_queue(obj)
        case PersistentVolumeClaim() | PersistentVolume() | StorageClass():
            store.look_again(store.volumes.update(obj, is_gone=is_gone))
        case PriorityClass() | PodDisruptionBudget() | Topology():
            if _update_setting(store, obj, is_gone=is_gone):
                store.rows.touch()
        case SchedulingShard():
            pass
        case _ if isinstance(obj, DEVICE_OBJECTS):
            store.rows.touch()
            store.look_again(store.device_claims.update(obj, is_gone=is_gone))
        case _:
            owner = owner_of(obj)
            store.remove_owner(owner.meta.uid) if is_gone else store.upsert_owner(owner)


def _update_setting(
    store: StateStore, obj: PriorityClass | PodDisruptionBudget | Topology, *, is_gone: bool
) -> bool:
    """Record or drop an object that many pods depend on; tell whether anything has changed."""
    match obj:
        case PriorityClass():
            return store.members.update_class(obj, is_gone=is_gone)
        case PodDisruptionBudget() if is_gone:
            return store.facts.disruptions.remove(obj.key)
        case PodDisruptionBudget():
            return store.facts.disruptions.put(obj, store.facts.sent.evictions)
        case Topology():
            fault = "" if is_gone else fault_of(obj)
            store.declared.record_topology(obj.name, fault)
            levels = () if is_gone or fault else obj.spec.levels
            named = tuple(TopologyLevel(it.node_label, it.alias) for it in levels)
            return store.rows.nodes.put_topology(obj.name, named)


def owner_of(obj: KubernetesObject | PartialObject) -> Owner:
    """Return what grouping needs of a workload."""
    if isinstance(obj, PartialObject):
        return Owner(obj.api_version.rpartition("/")[0], obj.kind, obj.metadata, obj.gang)
    return Owner(obj.API_VERSION.rpartition("/")[0], obj.KIND, obj.metadata)
