"""Allocate, slow and plain: after every batch everything is asked again, one row at a time.

What kaisched/actions/allocate.py must answer, without prediction, runs of jobs or caches: the
amounts are added up from the tasks anew for each question, plugins are opened anew, and every pod
looks for its node by itself.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, HOLDING_STATES, TaskState
from kaisched.core.refusals import Refusal, lasting_codes

PENDING, ALLOCATED, PIPELINED = TaskState.PENDING, TaskState.ALLOCATED, TaskState.PIPELINED
NO_ROOM = int(Refusal.NO_ROOM)
HUGE = 1 << 40
LASTING = lasting_codes()


class PlainSession:
    """What plugins may look at, added up from the tasks as they stand."""

    has_moved = True

    def __init__(self, snapshot, policy, state, node_of_task, fair_share=None):
        self.snapshot, self.policy = snapshot, policy
        self.axis, self.nodes, self.queues = snapshot.axis, snapshot.nodes, snapshot.queues
        self.jobs, self.podsets, self.tasks = snapshot.jobs, snapshot.podsets, snapshot.tasks
        self.shapes, self.label_sets = snapshot.shapes, snapshot.label_sets
        self.total, self.generation = snapshot.total, snapshot.generation
        self.fair_tree, self.overdrawn = snapshot.queues.tree, snapshot.overdrawn
        self.over_quota_weights, self.facts_before = policy.over_quota_weights, {}
        self.hints, self.found, self.state, self.failures = {}, {}, {}, []
        self.usage, self.weight_transform, self.head_start = None, None, None
        self.barred, self.held_stuck = set(), None
        self.ask = policy.questions
        self.ledger = self._ledger(np.array(state), np.array(node_of_task))
        if fair_share is not None:
            self.fair_share = fair_share
        self.ask.open(self)

    @cached_property
    def fair_share(self):
        return self.ask.fair_share(self)

    def __getattr__(self, name):
        """As of now: what the ledger says."""
        if name.endswith("_now"):
            return getattr(self.ledger, name.removesuffix("_now"))
        raise AttributeError(name)

    def subgroup_order(self, active, minimum):
        return self.ask.subgroup_order(self, active, minimum)

    @property
    def requested_by_jobs(self):
        return self.snapshot.allocated + self.snapshot.pending

    def divide(self):
        return self.fair_share

    @cached_property
    def requested(self):
        requested = np.zeros((len(self.axis), len(self.queues)), np.int64)
        for task, (state, job) in enumerate(
            zip(self.tasks.state.tolist(), self.tasks.job_of_task.tolist(), strict=True)
        ):
            if job >= 0 and (state == PENDING or ACTIVE_STATES[state]):
                self._add_to_path(requested, task)
        return requested

    def _ledger(self, state, node_of_task):
        snapshot = self.snapshot
        idle, releasing = snapshot.nodes.allocatable.copy(), np.zeros_like(snapshot.nodes.idle)
        held = np.zeros((len(self.axis), len(self.queues)), np.int64)
        held_np = held.copy()
        counts = {
            "job_active": np.zeros(len(self.jobs.name), np.int64),
            "job_pending": np.zeros(len(self.jobs.name), np.int64),
            "podset_active": np.zeros(len(self.podsets.name), np.int64),
            "podset_pending": np.zeros(len(self.podsets.name), np.int64),
        }
        for task in range(len(state)):
            job, podset = int(self.tasks.job_of_task[task]), int(self.tasks.podset_of_task[task])
            node, now = int(node_of_task[task]), int(state[task])
            request = self.request(task)
            if node >= 0 and HOLDING_STATES[now]:
                idle[:, node] -= request
            if node >= 0 and now == TaskState.RELEASING:
                releasing[:, node] += request
            if now == PIPELINED:
                releasing[:, node] -= request
            if job < 0:
                continue
            kind = "active" if ACTIVE_STATES[now] else "pending" if now == PENDING else ""
            if kind:
                counts[f"job_{kind}"][job] += 1
                counts[f"podset_{kind}"][podset] += 1
            if ACTIVE_STATES[now]:
                self._add_to_path(held, task)
                if not self.jobs.is_preemptible[job]:
                    self._add_to_path(held_np, task)
        return SimpleNamespace(
            idle=idle,
            releasing=releasing,
            held=held,
            held_non_preemptible=held_np,
            state=state,
            node_of_task=node_of_task,
            **counts,
        )

    def request(self, task):
        return self.shapes.request[:, self.tasks.shape_of_task[task]]

    def _add_to_path(self, amounts, task):
        queue = int(self.jobs.queue_of_job[self.tasks.job_of_task[task]])
        while queue >= 0:
            amounts[:, queue] += self.request(task)
            queue = int(self.queues.tree.parent_of_queue[queue])

    def room(self, shape):
        """Pods of a shape that fit now; what is promised beyond what is released is not free."""
        ledger = self.ledger
        return self._pods(shape, ledger.idle + np.minimum(ledger.releasing, 0))

    def free(self, resource, rows):
        """What is idle or being released, and not promised."""
        return (self.ledger.idle + self.ledger.releasing)[resource, rows]

    def room_once_released(self, shape):
        """Pods of a shape that fit once everything is released."""
        return self._pods(shape, self.ledger.idle + self.ledger.releasing)

    def _pods(self, shape, free):
        pods_on_node = np.full(len(self.nodes), HUGE, np.int64)
        for node in range(len(self.nodes)):
            for resource, asked in enumerate(self.shapes.request[:, shape].tolist()):
                if asked:
                    pods_on_node[node] = min(
                        pods_on_node[node], max(0, int(free[resource, node]) // asked)
                    )
        return pods_on_node

    def pending_of(self, job):
        return self.ledger.job_pending[job]


@dataclass
class Answer:
    """Task row to node row, in the order of decision; job row to refusal code."""

    binds: dict[int, int] = field(default_factory=dict)
    nominations: dict[int, int] = field(default_factory=dict)
    refusal: dict[int, int] = field(default_factory=dict)


class NaiveAllocate:
    """One run over a snapshot."""

    def __init__(self, snapshot, policy):
        self.snapshot, self.policy = snapshot, policy
        self.state = [int(state) for state in snapshot.tasks.state]
        self.node = snapshot.tasks.node_of_task.tolist()
        self.fair_share = None
        self.answer = Answer()
        self.batches: list[tuple[int, list[int]]] = []
        """(job, its pods to be bound), in the order of decision."""
        self.instead: dict[int, list[int]] = {}
        """Job row to its next batch, where that of its first subgroups has no room."""
        self.fair_share = self.now.fair_share

    @property
    def now(self):
        """A session of this very moment."""
        return PlainSession(self.snapshot, self.policy, self.state, self.node, self.fair_share)

    def run(self):
        waiting = self._bounded(self._in_depth(self._open_jobs()))
        waiting = [job for job in waiting if not self._refused_by_queues(job)]
        while waiting:
            job = self._next(waiting)
            batch = self._batch(job)
            if self._refused_by_queues(job):
                waiting.remove(job)
            elif self._place(job, batch) or self._place_others(job, batch):
                self.instead.pop(job, None)
                if not self._batch(job):
                    waiting.remove(job)
            else:
                for other in [job, *self._no_easier(job, batch, waiting)]:
                    self.answer.refusal[other] = NO_ROOM
                    waiting.remove(other)
        self._await_leaving()
        return self.answer

    def _await_leaving(self):
        """Promise, instead of binding, what its queues refuse beside all that still leaves."""
        tasks, waits = self.snapshot.tasks, set()
        here = [
            int(TaskState.RUNNING if tasks.job_of_task[at] >= 0 and HOLDING_STATES[now] else now)
            for at, now in enumerate(tasks.state.tolist())
        ]
        for job, batch in self.batches:
            now = PlainSession(self.snapshot, self.policy, here, self.node, self.fair_share)
            ask = sum(now.request(task) for task in batch)
            if job in waits or self._refused(now, "bind", job, ask):
                waits.add(job)
                for task in batch:
                    self.answer.nominations[task] = self.answer.binds.pop(task)
                self.answer.refusal[job] = int(Refusal.WAITING_FOR_RELEASE)
            else:
                for task in batch:
                    here[task] = int(ALLOCATED)

    # -- who takes part -----------------------------------------------------------------------

    def _open_jobs(self):
        """Jobs with pending pods that no gate refuses and that have something to place."""
        now, jobs = self.now, self.snapshot.jobs
        for job in range(len(jobs.name)):
            if now.ledger.job_pending[job] == 0 or jobs.refusal[job]:
                continue
            code = one(now.ask.job_gate(now, "allocate", np.array([job])))
            if code:
                self.answer.refusal[job] = code
            elif self._is_shut_out(now, job):
                self.answer.refusal[job] = NO_ROOM
            elif self._batch(job):
                yield job

    def _is_shut_out(self, now, job):
        """Not even one of its pods fits anywhere; who has no depth to count needs not look on."""
        shape = int(self.snapshot.jobs.shape_of_job[job])
        is_counted = self.policy.queue_depth.get("allocate") is not None
        return shape >= 0 and not is_counted and not now.room_once_released(shape).any()

    def _in_depth(self, open_jobs):
        """The best jobs of each leaf, as many as the shard says."""
        depth = self.policy.queue_depth.get("allocate")
        by_leaf: dict[int, list[int]] = {}
        for job in open_jobs:
            by_leaf.setdefault(int(self.snapshot.jobs.queue_of_job[job]), []).append(job)
        for jobs in by_leaf.values():
            ranked = sorted(jobs, key=self._rank)
            for place, job in enumerate(ranked):
                if depth is not None and place >= depth:
                    self.answer.refusal[job] = int(Refusal.QUEUE_DEPTH)
                else:
                    yield job

    def _bounded(self, jobs):
        """Jobs that all nodes together could hold by the amounts, now or after the releases."""
        now = self.now
        free = np.maximum(now.ledger.idle + now.ledger.releasing, 0).sum(axis=1)

        def fits(tasks):
            shapes = [self._shape(task) for task in tasks]
            asked = sum(now.request(task) for task in tasks)
            return bool((asked <= free).all()) and all(
                shapes.count(s) <= now.room_once_released(s).sum() for s in set(shapes)
            )

        for job in jobs:
            batch = self._batch(job)
            found = next((it for it in (batch, *self._others(job, batch, fits)) if fits(it)), None)
            if found is None:
                self.answer.refusal[job] = NO_ROOM
                continue
            if found != batch:
                self.instead[job] = found
            yield job

    def _no_easier(self, job, batch, waiting):
        """Whoever asks for at least as many of the very same pods; for jobs of one shape only."""
        if not self._is_simple(job):
            return []
        return [
            other
            for other in waiting
            if other != job
            and self._is_simple(other)
            and self.snapshot.jobs.shape_of_job[other] == self.snapshot.jobs.shape_of_job[job]
            and len(self._batch(other)) >= len(batch)
        ]

    def _is_simple(self, job):
        jobs = self.snapshot.jobs
        return jobs.podset_count[job] == 1 and jobs.shape_of_job[job] >= 0

    # -- what comes next ------------------------------------------------------------------------

    def _batch(self, job):
        """The task rows a job places next, all or nothing."""
        now = self.now
        if job in self.instead:
            return self.instead[job]
        if self.snapshot.jobs.podset_count[job] == 1:
            size = int(now.ask.batch_size(now, np.array([job]))[0])
            return self._pending(now, job)[:size]
        batch = now.ask.next_batch(now, job)
        if batch is None:
            return self._pending(now, job)[:1]
        first, fits = batch.tolist(), self._would_fit_alone
        tree = self.snapshot.jobs.structure.get(job)
        if tree is None or not needs_some(tree):
            return first
        others = (it for it in self._others(job, first, fits) if fits(it))
        return first if fits(first) else next(others, first)

    def _would_fit_alone(self, tasks):
        """Nodes that may ever take such pods would have room for them if nothing else ran."""
        now, counts = self.now, Counter(self._shape(task) for task in tasks)
        every = np.arange(len(now.nodes))
        for shape, count in counts.items():
            codes = now.ask.node_filter(now, shape, every)
            is_open = np.ones(len(every), bool) if codes is None else ~np.isin(codes, LASTING)
            if now._pods(shape, now.nodes.allocatable)[is_open].sum() < count:
                return False
        return True

    def _others(self, job, batch, fits):
        """Batches of other subgroups, as those of the first have no room together."""
        podset_of = self.snapshot.tasks.podset_of_task
        jobs, first, known, without = self.snapshot.jobs, batch, [], []
        tree = jobs.structure.get(job)
        if tree is None or jobs.podset_count[job] == 1 or not batch:
            return
        if len({int(podset_of[task]) for task in batch}) > 1 and not needs_some(tree):
            return
        while first:
            found, over = first, list(without)
            while found and found not in known:
                known.append(found)
                if found is not batch:
                    yield found
                parts = list(dict.fromkeys(int(podset_of[task]) for task in found))
                so_far = [
                    [task for task in found if podset_of[task] in parts[: at + 1]]
                    for at in range(len(parts))
                ]
                short = (at for at, some in enumerate(so_far[:-1]) if not fits(some))
                over.append(parts[next(short, -1)])
                found = self._batch_without(job, over)
            without.append(int(podset_of[first[0]]))
            first = self._batch_without(job, without)

    def _batch_without(self, job, podsets):
        now = self.now
        now.ledger.podset_pending[podsets] = 0
        return now.ask.next_batch(now, job).tolist()

    def _place_others(self, job, batch):
        """Place pods of other subgroups, where the queues of the job let them."""

        def fits(tasks):
            before = list(self.state), list(self.node)
            order = self._put(job, tasks)
            self.state, self.node = before
            return order is not None

        for other in self._others(job, batch, fits):
            self.instead[job] = other
            if not self._refused_by_queues(job) and self._place(job, other):
                return True
        self.answer.refusal[job] = NO_ROOM
        return False

    def _pending(self, now, job):
        tasks = self.snapshot.tasks

        def rank(task):
            keys = [key[0] for key in now.ask.task_order(now, np.array([task]))]
            return (*keys, tasks.created_s[task], tasks.name[task])

        rows = self.snapshot.jobs.tasks[job]
        return sorted((task for task in rows if self.state[task] == PENDING), key=rank)

    def _rank(self, job):
        now, jobs = self.now, self.snapshot.jobs
        keys = [key[0] for key in now.ask.job_order(now, np.array([job]))]
        return (*keys, jobs.created_s[job], jobs.name[job])

    def _next(self, waiting):
        """The best job of the best queue of ... of the best root."""
        tree = self.snapshot.queues.tree
        below: dict[int, list[int]] = {}
        for job in waiting:
            below.setdefault(int(self.snapshot.jobs.queue_of_job[job]), []).append(job)
        best = {leaf: min(jobs, key=self._rank) for leaf, jobs in below.items()}
        for depth in range(len(tree.levels) - 1, -1, -1):
            groups: dict[int, list[int]] = {}
            for queue in best:
                if tree.depth_of_queue[queue] == depth:
                    groups.setdefault(int(tree.parent_of_queue[queue]), []).append(queue)
            for parent, siblings in groups.items():
                first = min(siblings, key=lambda queue: self._standing(queue, best[queue]))
                best[parent] = best[first]
        return best[-1]

    def _standing(self, queue, job):
        now = self.now
        held = now.ledger.held[:, [queue]]
        heads = np.array([job])
        keys = now.ask.contest(now, np.array([queue]), heads, held, self._ask(job)[:, None])
        return (*(key[0] for key in keys), queue)

    def _ask(self, job):
        request = self.snapshot.shapes.request
        return sum(
            (request[:, self._shape(task)] for task in self._batch(job)),
            start=np.zeros(len(self.snapshot.axis), np.int64),
        )

    def _shape(self, task):
        return int(self.snapshot.tasks.shape_of_task[task])

    def _refused_by_queues(self, job):
        """Ask the gates from the leaf to the root; note the first refusal."""
        code = self._refused(self.now, "allocate", job, self._ask(job))
        if code:
            self.answer.refusal[job] = code
        return bool(code)

    def _refused(self, now, action, job, ask):
        leaf = int(self.snapshot.jobs.queue_of_job[job])
        for queue in self.snapshot.queues.tree.path(leaf).tolist():
            code = one(
                now.ask.queue_gate(
                    now,
                    action,
                    np.array([queue]),
                    np.array([job]),
                    ask[:, None],
                    now.ledger.held[:, [queue]],
                    now.ledger.held_non_preemptible[:, [queue]],
                )
            )
            if code:
                return code
        return 0

    # -- placing ----------------------------------------------------------------------------------

    def _put(self, job, batch):
        """Place pods in their order, or else the largest first by each resource; return the order.

        None where they fit in no order; then nothing is placed.
        """
        before = list(self.state), list(self.node)
        for order in self._orders(batch):
            if all(map(self._put_one, order)):
                if self._leans_on_promises(job):
                    for task in order:
                        self.state[task] = int(PIPELINED)
                return order
            self.state, self.node = list(before[0]), list(before[1])
        return None

    def _orders(self, batch):
        yield batch
        for amounts in self.snapshot.shapes.request.tolist():
            if len({amounts[self._shape(task)] for task in batch}) > 1:
                yield sorted(batch, key=lambda task: -amounts[self._shape(task)])

    def _put_one(self, task):
        found = self._best_node(self._shape(task))
        if found is None:
            return False
        self.node[task], fits_now = found
        self.state[task] = int(ALLOCATED if fits_now else PIPELINED)
        return True

    def _place(self, job, batch):
        batch = self._put(job, batch)
        if batch is None:
            return False
        for task in batch:
            is_firm = self.state[task] == ALLOCATED
            (self.answer.binds if is_firm else self.answer.nominations)[task] = self.node[task]
        if firm := [task for task in batch if self.state[task] == ALLOCATED]:
            self.batches.append((job, firm))
        if any(self.state[task] == PIPELINED for task in batch):
            self.answer.refusal[job] = int(Refusal.WAITING_FOR_RELEASE)
        return True

    def _best_node(self, shape):
        """The open node with room now or later that scores highest, the lower row at a tie."""
        now = self.now
        every = np.arange(len(now.nodes))
        codes = now.ask.node_filter(now, shape, every)
        caps = now.ask.node_room(now, shape, every)
        best, highest = None, -1.0
        for node in every.tolist():
            if (codes is not None and codes[node]) or (caps is not None and caps[node] <= 0):
                continue
            if now.room_once_released(shape)[node] <= 0:
                continue
            score = now.ask.node_score(now, shape, np.array([node]), np.zeros(1, np.int64))[0]
            if score > highest:
                best, highest = (node, bool(now.room(shape)[node] > 0)), score
        return best

    def _leans_on_promises(self, job):
        """Some pod set has promised pods and, without them, fewer than its minimum."""
        tasks = self.snapshot.tasks
        members: dict[int, list[int]] = {}
        for task in self.snapshot.jobs.tasks[job]:
            members.setdefault(int(tasks.podset_of_task[task]), []).append(self.state[task])
        for podset, states in members.items():
            firm = sum(bool(ACTIVE_STATES[s]) and s != PIPELINED for s in states)
            if PIPELINED in states and firm < self.snapshot.podsets.minimum[podset]:
                return True
        return False


def needs_some(group):
    """Some group of the tree needs fewer subgroups than it has."""
    return group.min_subgroup < len(group.children) or any(map(needs_some, group.children))


def one(codes):
    """The code of the only row."""
    return 0 if codes is None else int(codes[0])


def naive_allocate(snapshot, policy):
    """Return what allocate must decide."""
    return NaiveAllocate(snapshot, policy).run()
