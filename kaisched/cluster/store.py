"""The state store: events of API objects become changes of rows, and a snapshot copies columns.

See docs/explanation/state-store.md for the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from kaisched.cluster.changes import is_other_owner, is_same_task
from kaisched.cluster.grouping import Owner
from kaisched.cluster.jobs import TaskRow, add_task, retire_task
from kaisched.cluster.known import KnownObjects
from kaisched.cluster.problems import fault_of
from kaisched.cluster.sent import SentBind, SentOf
from kaisched.cluster.translate import PodRow, has_same_wishes, node_row, pod_row, queue_row
from kaisched.cluster.volumes import Storage
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import ACTIVE_STATES, HOLDING_STATES, TaskState
from kaisched.errors import ObjectError
from kaisched.objects.disruption_budget import PodDisruptionBudget
from kaisched.objects.node import Node
from kaisched.objects.owners import PriorityClass
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

_HOLDS: Final = tuple(HOLDING_STATES.tolist())


class StateStore(KnownObjects):
    """The present state of one shard, fed by events, frozen on demand.

    Events may come in any order and more than once; what refers to something unknown waits for it.
    No event raises for what an object says: see :meth:`problems`.
    """

    # -- nodes, queues, classes, owners ----------------------------------------------------------

    def upsert_node(self, node: Node) -> None:
        """Take in a node that came or changed."""
        if not self._is_in_pool(node.metadata):
            self.remove_node(node.name)
            return
        try:
            row = node_row(node, self._gpu_resources)
        except ObjectError as error:
            self.remove_node(node.name)
            self._node_faults[node.name] = str(error)
            return
        self._node_faults.pop(node.name, None)
        is_new = not self.nodes.is_known(row.name)
        self.put_node(row)
        if is_new:
            for pod in [
                it for it in self._strangers.values() if self._sent.node_of(it) == row.name
            ]:
                self._take_in(pod)

    def remove_node(self, name: str) -> None:
        """Drop a node; its pods stay until they are said to end."""
        self._node_faults.pop(name, None)
        if not self.nodes.is_known(name):
            return
        super().remove_node(name)
        for pod, member in list(self._pods.values()):
            if member is None and self._sent.node_of(pod) == name:
                self._drop(pod.key)
                self._strangers[pod.key] = pod

    def upsert_queue(self, queue: Queue) -> None:
        """Take in a queue that came or changed; one with a fault is as good as absent."""
        known = self._queue_objects.get(queue.name)
        if known is not None and has_same_wishes(known, queue):
            return
        self.remove_queue(queue.name)
        if self._is_in_pool(queue.metadata):
            self._queue_objects[queue.name] = queue
            self._queue_faults = None
            if fault := fault_of(queue):
                self.leave_out_queue(queue.name, fault.removeprefix(f"Queue {queue.name}: "))
            else:
                self.put_queue(queue_row(queue))

    def leave_out_queue(self, name: str, fault: str) -> None:
        """Note why a queue that was declared is not used, for what its jobs are told."""
        self.revision += 1
        self.queues.leave_out(name, fault)

    def remove_queue(self, name: str) -> None:
        """Drop a queue; its jobs are refused until it comes back."""
        self._queue_objects.pop(name, None)
        self._queue_faults = None
        super().remove_queue(name)

    def upsert_priority_class(self, cls: PriorityClass) -> None:
        """Take in a priority class that came or changed."""
        if self._classes.put(cls):
            self.revision += 1
            self._groups.refresh()

    def remove_priority_class(self, name: str) -> None:
        """Drop a priority class."""
        if self._classes.remove(name):
            self.revision += 1
            self._groups.refresh()

    def upsert_disruption_budget(self, budget: PodDisruptionBudget) -> None:
        """Take in a disruption budget that came or changed."""
        self.revision += self.disruptions.put(budget, self._sent.evictions)

    def remove_disruption_budget(self, key: str) -> None:
        """Drop a disruption budget."""
        self.revision += self.disruptions.remove(key)

    def upsert_storage(self, obj: Storage) -> None:
        """Take in a claim, a volume or a storage class that came or changed."""
        self._look_again(self.volumes.put(obj))

    def remove_storage(self, obj: Storage) -> None:
        """Drop a claim, a volume or a storage class."""
        self._look_again(self.volumes.remove(obj))

    def heed_volumes(self, *, is_read: bool) -> None:
        """Let pods wait for their claims from now on, or no more where claims cannot be read."""
        if self.volumes.is_read != is_read:
            self.volumes.is_read = is_read
            self._look_again(self.volumes.users())

    def _look_again(self, pods: Iterable[str]) -> None:
        """Take in pods again of which something is new that they do not say themselves."""
        for key in pods:
            if key in self._pods:
                self.revision += 1
                self._take_in(self._pods[key][0])

    def upsert_owner(self, owner: Owner) -> None:
        """Take in a workload that may own pods."""
        self._regroup(self._grouper.put(owner))

    def remove_owner(self, uid: str) -> None:
        """Drop a workload."""
        self._regroup(self._grouper.remove(uid))

    def _regroup(self, uids: Sequence[str]) -> None:
        """Look again at the pods that know an owner by one of these, if there are any."""
        self.revision += bool(uids)
        for key in self._dependents.of(uids):
            # Looking at another may have come upon it already.
            found = self._pods[key][0] if key in self._pods else self._dependents.done(key)
            if found is not None:
                self._take_in(found)

    # -- pod groups and pods ---------------------------------------------------------------------

    def upsert_pod_group(self, group: PodGroup) -> None:
        """Take in a pod group that came or changed; one with a fault refuses its pods."""
        if not self._is_in_pool(group.metadata):
            self.remove_pod_group(group.key)
            return
        if self._groups.declare(group, fault_of(group)):
            self.revision += 1

    def remove_pod_group(self, key: str) -> None:
        """Drop a pod group."""
        self.revision += 1
        self._groups.withdraw(key)

    def upsert_pod(self, pod: Pod) -> None:
        """Take in a pod that came or changed."""
        self.revision += 1
        self._take_in(pod_row(pod, self._schedulers, self._gpu_resources))

    def remove_pod(self, key: str, uid: str = "") -> None:
        """Drop a pod; with a UID, only if it is still that one."""
        found = self._pods.get(key)
        self._groups.forget_success(key, uid)
        self._dependents.forget_done(key, uid)
        self._sent.forget(key, uid)
        if found is not None and uid in ("", found[0].uid):
            self.revision += 1
            self._drop(key)
        stranger = self._strangers.get(key)
        if stranger is not None and uid in ("", stranger.uid):
            del self._strangers[key]
        self._look_again(self.volumes.forget(key))

    def _take_in(self, pod: PodRow) -> None:
        self._sent.hear(pod)
        if pod.claims:
            pod = self._with_volumes(pod)
        self._strangers.pop(pod.key, None)
        is_ours = pod.is_ours and self._is_in_pool(pod.meta)
        member = self._grouper.membership(pod) if is_ours else None
        self._groups.note_success(pod, member)
        self._dependents.forget_done(pod.key)
        pod = self._unsettled.marked(pod, member)
        found = self._pods.get(pod.key)
        is_known = found is not None and found[0].uid == pod.uid
        if found is not None and not is_same_task(found, (pod, member)):
            is_over = found[0].uid != pod.uid or pod.state == TaskState.GONE
            self._drop(pod.key, is_over=is_over)
            self._sent.evictions.pop(pod.key, None)  # it was not this one that was chosen
            found = None
        node = self._sent.node_of(pod)
        if pod.state == TaskState.GONE or (member is None and not self.nodes.is_known(node)):
            if found is not None:
                self._drop(pod.key)
            self._dependents.note_done(pod, member)
            if pod.state != TaskState.GONE and node:
                self._strangers[pod.key] = pod
            return
        self._pods[pod.key] = (pod, member)
        self._stuck.note(pod.key, pod.leaving, was_alive=is_known)
        self.disruptions.note_pod(pod.key, is_unready=pod.is_unready)
        waits = member is not None and pod.state == TaskState.PENDING and member.missing != ""
        self._unsettled.note(pod.key, is_unsettled=waits)
        self._dependents.watch(pod.key, found[1] if found else None, member)
        job, podset = self._groups.join(pod, member) if member is not None else (-1, -1)
        if found is None:
            add_task(self, self._task_row(pod), job, podset)
        self._update(pod)
        if pod.uid in self._dependents and (found is None or is_other_owner(found[0], pod)):
            self._regroup((pod.uid,))

    def _with_volumes(self, pod: PodRow) -> PodRow:
        """Return a pod with what its claims demand; others that want the same are looked at too."""
        found = self._pods.get(pod.key) if pod.key in self._sent.binds else None
        rivals = self.volumes.note(pod)
        pod = self.volumes.resolved(pod, None if found is None else found[0])
        self._look_again(rivals)
        return pod

    def _task_row(self, pod: PodRow) -> TaskRow:
        label_set = self.labels.intern(pod.namespace, pod.meta.labels)
        constraints = pod.constraints
        if pod.has_pod_terms:
            constraints = replace(constraints, label_set=label_set)
        return TaskRow(
            name=pod.key,
            uid=pod.uid,
            shape=self.shape_of(pod.request, constraints),
            created_s=pod.created_s,
            order_priority=pod.order_priority,
            label_set=label_set,
        )

    def _update(self, pod: PodRow) -> None:
        task = self.row_of_task(pod.key)
        self._move(task, pod)
        if pod.key not in self._sent:
            self._nominate(task, pod)
        job = int(self.tasks.job_of_task.data[task])
        if job >= 0 and ACTIVE_STATES[pod.state] and not math.isnan(pod.started_s):
            last_s = self.jobs.last_start_s
            if not last_s.data[job] <= pod.started_s:  # NaN, or later than this pod's
                last_s.own()[job] = pod.started_s

    def _move(self, task: int, pod: PodRow) -> None:
        row, state, node = -1, self._sent.state_of(pod), self._sent.node_of(pod)
        if pod.state != TaskState.PENDING:
            self._held_back.forget(pod.key)
        elif state == TaskState.PENDING and pod.key in self._held_back:
            state = TaskState.GATED
        if state == TaskState.RELEASING and pod.key in self._stuck:
            state = TaskState.STUCK
        if _HOLDS[state]:
            if self.nodes.is_laid_out:
                row = self.nodes.row_of_name.get(node, -1)
            if row < 0:
                self._away[task] = node
        if row >= 0 or not _HOLDS[state]:
            self._away.pop(task, None)
        self.accounts.move(task, int(state), row, pod.started_s)

    def _nominate(self, task: int, pod: PodRow) -> None:
        if pod.nominated and pod.state == TaskState.PENDING:
            self._nominations[pod.key] = pod.nominated
            self.nominate(task, self.nodes.row_of_name.get(pod.nominated, -1))
        elif self._nominations.pop(pod.key, None) is not None:
            self.nominate(task, -1)

    def _drop(self, key: str, *, is_over: bool = True) -> None:
        pod, member = self._pods.pop(key)
        if is_over:
            self._held_back.forget(key)
            self._unsettled.note(key, is_unsettled=False)
            self._stuck.forget(key)
        self.disruptions.drop_pod(key)
        self._nominations.pop(key, None)
        retire_task(self, self.row_of_task(key))
        self._dependents.watch(key, member, None)
        if member is not None:
            self._groups.leave(key, member.job)
        if pod.uid in self._dependents:
            self._regroup((pod.uid,))

    # -- what was decided but not yet seen -------------------------------------------------------

    def assume_bound(self, key: str, node: str) -> None:
        """Let a pod hold its room, for a bind was sent: until it is seen, or taken back."""
        if key in self._pods:
            pod = self._pods[key][0]
            self._sent.binds[key] = SentBind(pod.uid, node)
            self._sent.hear(pod)
            self.revision += 1
            self._update(pod)

    def assume_evicted(self, key: str, at_s: float = math.nan) -> None:
        """Let a pod release its room, for an eviction was sent at that time."""
        if key in self._pods:
            pod = self._pods[key][0]
            self._sent.evictions[key] = pod.uid
            self._sent.hear(pod)
            self.disruptions.note_eviction(key)
            self.revision += 1
            self._update(pod)
            self.accounts.note_eviction(self.row_of_task(key), at_s)

    def refute_bind(self, key: str, uid: str = "") -> None:
        """Take back a bind: it has not happened and never will; with a UID, only that pod's."""
        bind = self._sent.binds.get(key)
        if bind is not None and uid in ("", bind.uid):
            del self._sent.binds[key]
            self._reconsider(key)

    def refute_eviction(self, key: str, uid: str = "") -> None:
        """Take back an eviction; what was sent before it still counts."""
        evicted = self._sent.evictions.get(key)
        if evicted is not None and uid in ("", evicted):
            del self._sent.evictions[key]
            self.disruptions.forget(key)
            self._reconsider(key)

    def refute(self, key: str, sent: SentOf | None = None) -> None:
        """Take back what was assumed, or only what was ``sent`` by then: its object is right."""
        now = self._sent.of(key)
        sent = sent or now
        if sent.evicted == now.evicted:
            self.refute_eviction(key)
        if sent.bind == now.bind:
            self.refute_bind(key)

    def hold_back(self, key: str, now_s: float, uid: str = "") -> None:
        """Take back a bind that could not be done; its pod counts as gated for a while."""
        if key in self._pods and uid in ("", self._pods[key][0].uid):
            self._held_back.add(key, now_s)
        self.refute_bind(key, uid)

    def _reconsider(self, key: str) -> None:
        """Take in a pod again of which less is assumed; its claims may have changed since."""
        self.revision += 1
        pod = self._strangers.get(key)
        if key in self._pods:
            pod = self._pods[key][0]
        if pod is not None:
            self._take_in(pod)

    def let_go(self, now_s: float) -> None:
        """Let the pods be decided again that were held back for long enough.

        Where this is asked, before every snapshot, pods also wait for owners that are not seen yet.
        """
        # Those that are no more for us to place are left out.
        self._look_again((*self._held_back.pop_due(now_s), *self._unsettled.turn(now_s)))

    def find_stuck(self, now_s: float, wall_s: float) -> None:
        """Count no more on room of pods that do not end; ``wall_s`` is as objects are stamped."""
        for key in self._stuck.turn(now_s, wall_s):
            if key in self._pods:
                self.revision += 1
                self._update(self._pods[key][0])

    # -- the rest --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take changes of the set of nodes and queues into effect."""
        is_moved = not self.nodes.is_laid_out
        super().settle()
        if is_moved:
            for key, node in self._nominations.items():
                self.nominate(self.row_of_task(key), self.nodes.row_of_name.get(node, -1))

    def snapshot(self) -> Snapshot:
        """Freeze the present state; the same object while nothing happened."""
        found = super().snapshot()
        if len(self.disruptions) and not len(found.disruption_budgets):
            budgets = self.disruptions.table(found, self.tasks.row_of_name, self.compactions)
            found = self._snapshot = replace(found, disruption_budgets=budgets)
        return found
