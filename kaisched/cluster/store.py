"""The state store: events of API objects become changes of rows, and a snapshot copies columns.

It is made of parts with one job each, see docs/explanation/state-store.md for them and the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kaisched.cluster.changes import is_other_owner, is_same_task
from kaisched.cluster.claims.known import DeviceClaims
from kaisched.cluster.declared import Declared
from kaisched.cluster.facts import Facts
from kaisched.cluster.freezing import Freezer
from kaisched.cluster.grouping import Membership, Owner
from kaisched.cluster.known_pods import KnownPods
from kaisched.cluster.members import Members
from kaisched.cluster.ours import NO_SHARING, OUR_SCHEDULERS, Ours, Sharing
from kaisched.cluster.pod_tasks import PodTasks
from kaisched.cluster.pools.book import PoolBook
from kaisched.cluster.pools.moving import forget_group, note_group, note_queue, refresh, settle
from kaisched.cluster.pools.owners import Owners, SharedOwners
from kaisched.cluster.problems import Problem, fault_of
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.sent import SentOf
from kaisched.cluster.stuck import STUCK_AFTER_S
from kaisched.cluster.translate import PodRow, node_row, pod_row, queue_row
from kaisched.cluster.unsettled import OWNER_WAIT_S
from kaisched.cluster.volumes import Volumes
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import TaskState
from kaisched.errors import ObjectError
from kaisched.objects.known_workloads import KNOWN
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.workloads import Table


class StateStore:
    """The present state of one shard, fed by events, frozen on demand.

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

        """
        whose = frozenset(schedulers), node_pool, tuple(gpu_resources)
        self.ours = Ours(*whose, offers_shares and not sharing.share_class, sharing)
        self.rows = RowStore(extended)
        self.pods = KnownPods()
        pools = self.pools = PoolBook(self.ours, owners or SharedOwners().seat(node_pool))
        told = pools.adjusted, pools.guests.forget
        self.members = Members(self.rows, workloads, self.pods.meta_of, owner_wait_s, *told)
        self.facts = Facts(stuck_after_s)
        self.volumes = Volumes()
        self.device_claims = DeviceClaims(
            lambda pod: self.members.of(pod).job, gpu_resources, sharing.share_class
        )
        self.declared = Declared()
        self._tasks = PodTasks(self.rows, self.facts, sharing.has_reservations)
        self._freezer = Freezer(self.rows, self.facts, self.device_claims, self.pools)

    # -- nodes, queues, classes, owners ----------------------------------------------------------

    def upsert_node(self, node: Node) -> None:
        """Take in a node that came or changed."""
        self.pools.note_node(node)
        if not self.ours.has(node.metadata):
            self._remove_node(node.name)
            return
        try:
            row = node_row(node, self.ours.gpu_resources)
        except ObjectError as error:
            self._remove_node(node.name)
            self.declared.note_node(node.name, str(error))
            return
        self.declared.note_node(node.name)
        is_new = not self.rows.nodes.is_known(row.name)
        self.rows.put_node(self.device_claims.gpus.with_gpus(row))
        if is_new:
            for pod in self.pods.strangers():
                if self.facts.node_of(pod) == row.name:
                    self._take_in(pod)

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods stay until they are said to end."""
        self.pools.forget_node(name)
        self._remove_node(name)

    def _remove_node(self, name: str) -> None:
        self.declared.note_node(name)
        if not self.rows.nodes.is_known(name):
            return
        self.rows.remove_node(name)
        self.device_claims.gpus.forget_node(name)
        for pod in self.pods.of_others():
            if self.facts.node_of(pod) == name:
                self._drop(pod.key)
                self.pods.put_stranger(pod)

    def upsert_queue(self, queue: Queue) -> None:
        """Take in a queue that came or changed; one with a fault is as good as absent."""
        note_queue(self, queue)
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
            refresh(self)
        self._remove_queue(name)

    def _remove_queue(self, name: str) -> None:
        self.declared.drop_queue(name)
        self.rows.remove_queue(name)

    def heed_volumes(self, *, is_read: bool) -> None:
        """Let pods wait for their claims from now on, or no more where claims cannot be read."""
        self.look_again(self.volumes.heed(is_read=is_read))

    def look_again(self, pods: Iterable[str]) -> None:
        """Take in pods again of which something is new that they do not say themselves."""
        for key in pods:
            pod = self.pods.pod(key) or self.pools.pod(key)
            if pod is not None:
                self.rows.touch()
                self._take_in(pod)

    def upsert_owner(self, owner: Owner) -> None:
        """Take in a workload that may own pods."""
        self._regroup(self.members.put_owner(owner))

    def remove_owner(self, uid: str) -> None:
        """Drop a workload."""
        self._regroup(self.members.remove_owner(uid))

    def _regroup(self, uids: Sequence[str]) -> None:
        """Look again at the pods that know an owner by one of these, if there are any."""
        if uids:
            self.rows.touch()
        for key in dict.fromkeys((*self.members.dependents(uids), *self.pools.dependents(uids))):
            # Looking at another may have come upon it already.
            found = self.pods.pod(key) or self.members.done(key) or self.pools.pod(key)
            if found is not None:
                self._take_in(found)

    # -- pod groups and pods ---------------------------------------------------------------------

    def upsert_pod_group(self, group: PodGroup) -> None:
        """Take in a pod group that came or changed; one with a fault refuses its pods."""
        self._regroup(self.members.note_group(group.key, None if fault_of(group) else group))
        note_group(self, group)

    def remove_pod_group(self, key: str) -> None:
        """Drop a pod group."""
        self._regroup(self.members.note_group(key, None))
        forget_group(self, key)

    def upsert_pod(self, pod: Pod) -> None:
        """Take in a pod that came or changed."""
        self.rows.touch()
        row = pod_row(pod, self.ours)
        self.pools.note_place(row)
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
        self.look_again([*self.volumes.forget(key, uid), *self.device_claims.forget(key, uid)])

    def _take_in(self, pod: PodRow) -> None:
        facts, members = self.facts, self.members
        facts.hear(pod)
        if pod.claims or pod.key in self.volumes:
            pod = self._with_volumes(pod)
        if pod.device_claims or pod.extended or pod.key in self.device_claims:
            pod, rivals = self.device_claims.noted(pod)
            self.look_again(rivals)
        self.pods.drop_stranger(pod.key)
        member = self._member_of(pod)
        pod = members.hear(pod, member)
        found = self.pods.find(pod.key)
        is_known = found is not None and found[0].uid == pod.uid
        if found is not None and not is_same_task(found, (pod, member)):
            self._drop(pod.key, is_over=not is_known or pod.state == TaskState.GONE)
            facts.sent.take_back_eviction(pod.key)  # it was not this one that was chosen
            found = None
        node = facts.node_of(pod)
        if pod.state == TaskState.GONE or (member is None and not self.rows.nodes.is_known(node)):
            if found is not None:
                self._drop(pod.key)
            members.note_done(pod, member)
            if pod.state != TaskState.GONE and node:
                self.pods.put_stranger(pod)
            return
        self._place(pod, member, found, is_known=is_known)

    def _member_of(self, pod: PodRow) -> Membership | None:
        """Return the membership of a pod that is ours to place now; None for another's."""
        if not pod.is_ours or not (self.pools.is_on or self.ours.has(pod.meta)):
            return None
        member = self.members.of(pod)
        return member if self.pools.admits(pod, member) else None

    def _place(
        self,
        pod: PodRow,
        member: Membership | None,
        found: tuple[PodRow, Membership | None] | None,
        *,
        is_known: bool,
    ) -> None:
        """Give a pod its place in job and row; ``found`` is what it was, None for a new task."""
        self.pods.put(pod, member)
        self.facts.note(pod, was_known=is_known)
        job, podset = self.members.join(pod, member, found[1] if found else None)
        if found is None:
            self._tasks.add(pod, job, podset)
        self._tasks.update(pod)
        if self.members.is_owner(pod.uid) and (found is None or is_other_owner(found[0], pod)):
            self._regroup((pod.uid,))

    def _with_volumes(self, pod: PodRow) -> PodRow:
        """Return a pod with what its claims demand; others that want the same are looked at too."""
        assumed = self.pods.pod(pod.key) if pod.key in self.facts.sent.binds else None
        rivals = self.volumes.note(pod)
        pod = self.volumes.resolved(pod, assumed)
        self.look_again(rivals)
        return pod

    def _drop(self, key: str, *, is_over: bool = True) -> None:
        pod, member = self.pods.take(key)
        self.facts.drop(key, is_over=is_over)
        self._tasks.end(key)
        self.members.leave(key, member, is_over=is_over)
        if self.members.is_owner(pod.uid):
            self._regroup((pod.uid,))

    # -- what was decided but not yet seen -------------------------------------------------------

    def assume_bound(self, key: str, node: str, cards: tuple[str, ...] = ()) -> None:
        """Let a pod hold its room, for a bind was sent: until it is seen, or taken back."""
        pod = self.pods.pod(key)
        if pod is not None:
            self.facts.sent.bind(pod, node, cards)
            self.rows.touch()
            self._tasks.update(pod)

    def assume_evicted(self, key: str, at_s: float = math.nan) -> None:
        """Let a pod release its room, for an eviction was sent at that time."""
        pod = self.pods.pod(key)
        if pod is not None:
            self.facts.sent.evict(pod)
            self.rows.touch()
            self._tasks.update(pod)
            self.note_eviction(key, at_s)

    def note_eviction(self, key: str, at_s: float) -> None:
        """Note that a pod was evicted, at that time, at the cost of its job and its budget."""
        self.facts.disruptions.note_eviction(key)
        self.rows.note_eviction(self.rows.row_of_task(key), at_s)

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

    def hold_back(self, key: str, now_s: float, uid: str = "") -> None:
        """Take back a bind that could not be done; its pod counts as gated for a while."""
        pod = self.pods.pod(key)
        if pod is not None and uid in {"", pod.uid}:
            self.facts.held_back.add(key, now_s)
        self.refute_bind(key, uid)

    def promise(self, key: str, node: str) -> None:
        """Let a node be promised to a pod that waits, before its status says so."""
        if self.rows.state_of(key) == TaskState.PENDING and self.facts.promise(key, node):
            self.rows.nominate(self.rows.row_of_task(key), self.rows.row_of_node(node))

    def _reconsider(self, key: str) -> None:
        """Take in a pod again of which less is assumed; its claims may have changed since."""
        self.rows.touch()
        if (pod := self.pods.pod(key) or self.pods.stranger(key)) is not None:
            self._take_in(pod)

    def let_go(self, now_s: float) -> None:
        """Let the pods be decided again that were held back for long enough.

        Where this is asked, before every snapshot, pods also wait for owners that are not seen yet.
        """
        due = self.facts.held_back.pop_due(now_s)
        self.look_again((*due, *self.members.unsettled.turn(now_s)))

    def find_stuck(self, now_s: float, wall_s: float) -> None:
        """Count no more on room of pods that do not end, nor on starts in the future.

        ``wall_s`` is the time as objects are stamped.
        """
        self.rows.bring_back_to_now(wall_s)
        for key in self.facts.stuck.turn(now_s, wall_s):
            if (pod := self.pods.pod(key)) is not None:
                self.rows.touch()
                self._tasks.update(pod)

    # -- questions that several parts answer together --------------------------------------------

    def node_of(self, key: str) -> str:
        """Return the node that a pod has, or that a bind was sent for; empty for none."""
        return "" if (pod := self.pods.pod(key)) is None else self.facts.node_of(pod)

    def pending_pods(self, job: str) -> list[tuple[str, str]]:
        """Return (key, UID) of the pods of a job that wait for a node."""
        pods = (pod for pod in self.members.pods_of(job) if not self.facts.is_assumed(pod.key))
        return [(pod.key, pod.uid) for pod in pods if pod.state == TaskState.PENDING]

    def problems(self) -> list[Problem]:
        """Return what is wrong with the objects, by kind and name."""
        return self.declared.problems(self.members.faults())

    def snapshot(self) -> Snapshot:
        """Freeze the present state; the same object while nothing happened."""
        nodes, concerned = self.device_claims.settle()
        for node in nodes:
            self.rows.put_node(node)
        self.look_again(concerned)
        settle(self)
        self.rows.settle()
        self._tasks.nominate_again()
        return self._freezer.snapshot()
