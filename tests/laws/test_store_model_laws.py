"""Whatever is decided, answered, lost, told late or told twice: what may be held is never free.

The machine drives a shard's store, its binds and its evictions against a server of plain values.
It knows from the server alone which pods are where, and from the requests which may be yet.
"""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kaisched.clock import ManualClock
from kaisched.cluster import rowstore
from kaisched.cluster.kubernetes import binder, cluster, evictor, pods
from kaisched.cluster.kubernetes.binder import BindWork
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.store import StateStore, update
from kaisched.core.axis import ACTIVE_STATES, GPU, HOLDING_STATES, TaskState
from kaisched.framework.intents import Bind, Evict, Nominate
from tests.contract.clusters import group, node, queue
from tests.laws.server_model import FATES, Server
from tests.oracles.accounts import assert_adds_up, content

GPUS = 4
NODES = ("n0", "n1")
PODS = ("p0", "p1", "p2", "p3", "p4")
numbers = st.integers(0, 1 << 16)
LEAVING = {TaskState.RELEASING, TaskState.STUCK}  # which of them is a question of time alone
HAPPENINGS = (
    "start",
    "start",
    "succeed",
    "fail",
    "delete",
    "end",
    "end",
    "ungate",
    "mark",
    "pool",
    "group",
)


class WriteQueue:
    """Work that waits to be sent; the machine says what is sent when."""

    def __init__(self):
        self.works = []

    def put(self, rank, work):
        del rank
        self.works.append(work)


class StoreMachine(RuleBasedStateMachine):
    """One shard of a cluster in which everything happens at its own time."""

    def __init__(self):
        super().__init__()
        self.now_s = 1000.0
        self.stack = ExitStack()
        for module in (binder, cluster, evictor, pods):
            self.stack.enter_context(patch.object(module, "monotonic_s", lambda: self.now_s))
        self.stack.enter_context(patch.object(rowstore, "_SLACK", 2))
        self.stack.enter_context(structlog.testing.capture_logs())
        self.server, self.write_queue, self.store = Server(), WriteQueue(), StateStore()
        leadership = Leadership()
        leadership.renew(1e9)
        self.shard = KubernetesCluster(
            self.server, leadership, self.write_queue, ManualClock(1e9), self.store
        )
        self.server.overtake = self.handle_all
        self.others = {}
        """Nodes, queues and groups that are there."""
        self.bound = set()
        """(Pod, UID, node) of every bind that was decided."""
        for obj in (queue("a"), *(node(name, GPUS) for name in NODES)):
            self.put(obj)
        for name, gpus in zip(PODS, (3, 2, 4), strict=False):
            self.server.create(name, gpus)
            self.handle_all(name)

    def teardown(self):
        try:
            self.comes_to_rest()
        finally:
            self.stack.close()

    def put(self, obj):
        self.others[obj.KIND, obj.name] = obj
        self.shard.handle(Change(obj))

    def toggle(self, obj):
        if (obj.KIND, obj.name) in self.others:
            self.shard.handle(Change(self.others.pop((obj.KIND, obj.name)), is_gone=True))
        else:
            self.put(obj)

    def handle_all(self, name):
        while name in self.server.news:
            self.shard.handle(self.server.next_of(name))

    # -- what happens at the server --------------------------------------------------------------

    @rule(number=numbers)
    def a_pod_is_made(self, number):
        free = [name for name in PODS if name not in self.server.pods]
        if free:
            self.server.create(
                free[number % len(free)],
                1 + number // 8 % 3,
                is_gated=number // 64 % 4 == 0,
                group="g" if number // 512 % 3 == 0 else "",
            )

    @precondition(lambda self: self.server.pods)
    @rule(number=numbers, what=st.sampled_from(HAPPENINGS))
    def a_pod_changes(self, number, what):
        self.change(sorted(self.server.pods)[number % len(self.server.pods)], what)

    def change(self, name, what):
        server, pod = self.server, self.server.pods[name]
        is_there = bool(pod.node) and not pod.has_ended
        if what == "start" and is_there and not pod.is_leaving:
            server.change(pod.name, phase="Running")
        elif what in ("succeed", "fail") and is_there:
            server.change(pod.name, phase="Succeeded" if what == "succeed" else "Failed")
        elif what == "delete":
            server.evict(pod.name)
        elif what == "end" and (pod.is_leaving or pod.has_ended):
            server.remove(pod.name)
        elif what == "ungate" and pod.is_gated:
            server.change(pod.name, is_gated=False)
        elif what == "mark":
            server.change(pod.name, mark=pod.mark + 1)
        elif what == "pool":
            server.change(pod.name, is_elsewhere=not pod.is_elsewhere)
        elif what == "group":
            server.change(pod.name, group="" if pod.group else "g")

    @rule(obj=st.sampled_from([*(node(name, GPUS) for name in NODES), queue("a"), group("g")]))
    def something_else_comes_or_goes(self, obj):
        self.toggle(obj)

    # -- what is told ----------------------------------------------------------------------------

    @precondition(lambda self: self.server.news)
    @rule(number=numbers)
    def the_watch_tells(self, number):
        names = sorted(self.server.news)
        self.shard.handle(self.server.next_of(names[number % len(names)]))

    @precondition(lambda self: self.server.told)
    @rule(number=numbers)
    def the_watch_says_it_again(self, number):
        told = self.server.told
        self.shard.handle(Change(told[sorted(told)[number % len(told)]].obj()))

    @rule()
    def the_watch_lists_anew(self):
        for change in self.server.listed():
            self.shard.handle(change)

    # -- what is decided -------------------------------------------------------------------------

    @rule(number=numbers, is_whole=st.booleans())
    def binds_are_decided(self, number, is_whole):
        """As a cycle would: only pods that wait, only on room that is idle."""
        snapshot = self.shard.snapshot()
        tasks, idle, binds = snapshot.tasks, snapshot.nodes.idle[GPU].copy(), []
        rows = np.flatnonzero((tasks.state == TaskState.PENDING) & (tasks.job_of_task >= 0))
        for row in rows.tolist() if is_whole else rows[number % max(len(rows), 1) :][:1].tolist():
            gpus = int(snapshot.shapes.request[GPU, tasks.shape_of_task[row]])
            fits = np.flatnonzero(idle >= gpus)
            if fits.size:
                at = int(fits[number % fits.size])
                idle[at] -= gpus
                name, uid, where = tasks.name[row], tasks.uid[row], snapshot.nodes.name[at]
                binds.append(Bind(name, uid, where, f"job {number if is_whole else row}", row, at))
                self.bound.add((name.partition("/")[2], uid, where))
        self.shard.apply(binds, [], [])

    @rule(number=numbers, count=st.integers(1, 2))
    def evictions_are_decided(self, number, count):
        snapshot = self.shard.snapshot()
        tasks = snapshot.tasks
        runs = ACTIVE_STATES[tasks.state] & (tasks.job_of_task >= 0) & (tasks.node_of_task >= 0)
        rows = np.flatnonzero(runs)
        chosen = np.roll(rows, -number)[:count].tolist()
        self.shard.apply(
            [],
            [
                Evict(tasks.name[row], tasks.uid[row], "n", "v", "reclaim", "b", "why", row, 0)
                for row in chosen
            ],
            [],
        )

    @rule(number=numbers)
    def a_node_is_promised(self, number):
        snapshot = self.shard.snapshot()
        tasks = snapshot.tasks
        rows = np.flatnonzero((tasks.state == TaskState.PENDING) & (tasks.job_of_task >= 0))
        for row in rows[number % max(len(rows), 1) :][:1].tolist():
            promise = Nominate(tasks.name[row], tasks.uid[row], NODES[number % 2], "j", row, 0)
            self.shard.apply([], [], [promise])

    # -- what is sent ----------------------------------------------------------------------------

    @precondition(lambda self: self.write_queue.works)
    @rule(number=numbers, fates=st.lists(st.sampled_from(FATES), max_size=2), is_last=st.booleans())
    def something_is_sent(self, number, fates, is_last):
        """Once more later if need be; or never again, as when the lead is lost meanwhile."""
        works = self.write_queue.works
        work = works.pop(number % len(works))
        self.server.fates = fates
        is_done = work.send() is None
        self.server.fates = []
        if not is_done and is_last:
            work.drop("stopping")
        elif not is_done:
            works.append(work)

    @rule(
        number=numbers,
        what=st.sampled_from(["mark", *HAPPENINGS]),
        fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=3),
        is_evicted=st.booleans(),
    )
    def a_bind_meets_trouble(self, number, what, fates, is_evicted):
        """Much at once, since one of it alone does little harm."""
        before = len(self.write_queue.works)
        self.binds_are_decided(number, is_whole=False)
        made = self.write_queue.works[before:]
        for work in made:
            name = work.bind.pod.partition("/")[2]
            if name in self.server.pods:
                self.change(name, what)
        if is_evicted:
            self.evictions_are_decided(number, 1)
        for fate in fates:
            for work in made:
                if work in self.write_queue.works:
                    self.something_is_sent(
                        self.write_queue.works.index(work), [fate], is_last=False
                    )

    @precondition(lambda self: self.write_queue.works)
    @rule(number=numbers)
    def something_is_dropped(self, number):
        self.write_queue.works.pop(number % len(self.write_queue.works)).drop("full")

    @rule(seconds=st.sampled_from([2.0, 31.0, 70.0]))
    def time_passes(self, seconds):
        self.now_s += seconds

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def what_may_be_held_is_held_once_and_nothing_else(self):
        snapshot = self.shard.snapshot()
        assert not self.shard.bad_news
        assert_adds_up(snapshot)
        tasks, names = snapshot.tasks, snapshot.nodes.name
        rows = np.flatnonzero(tasks.state != TaskState.GONE).tolist()
        stands = {tasks.name[row].partition("/")[2]: row for row in rows}
        assert len(stands) == len(rows), "a pod is counted twice"
        for name, uid, where in self.may_hold():
            if where in names:
                row = stands.get(name)
                assert row is not None, (name, where)
                assert tasks.uid[row] == uid
                assert HOLDING_STATES[tasks.state[row]], TaskState(int(tasks.state[row]))
                assert names[tasks.node_of_task[row]] == where
        for name, told in self.server.told.items():
            # A read may be ahead of the watch; the store stands by the newer of the two.
            is_newest = self.store.pods.version_of(f"ns/{name}") == (told.uid, str(told.version))
            if is_newest and f"ns/{name}" not in self.store.facts.sent:
                self.is_as_told(told, stands.get(name), snapshot)

    @invariant()
    def no_node_has_more_than_it_can_hold(self):
        for where in NODES:
            there = [
                it.gpus for it in self.server.pods.values() if it.node == where and not it.has_ended
            ]
            assert sum(there) <= GPUS, (where, there)

    def may_hold(self):
        """Yield what is bound by us, and what may be any moment: (pod, UID, node)."""
        for name, uid, where in self.bound:
            pod = self.server.pods.get(name)
            if pod is not None and (pod.uid, pod.node) == (uid, where) and not pod.has_ended:
                yield name, uid, where
        for work in self.write_queue.works:
            if isinstance(work, BindWork):
                name = work.bind.pod.partition("/")[2]
                pod = self.server.pods.get(name)
                if pod is not None and pod.uid == work.bind.uid and pod.may_be_bound:
                    yield name, pod.uid, work.bind.node

    def is_as_told(self, told, row, snapshot):
        """A pod of which nothing is assumed is what the watch has told of it."""
        is_away = told.is_elsewhere and told.node not in snapshot.nodes.name
        if told.has_ended or is_away or (told.is_leaving and not told.node):
            assert row is None
            return
        state, at = int(snapshot.tasks.state[row]), int(snapshot.tasks.node_of_task[row])
        if not told.node:
            held_back = {TaskState.GATED} if told.is_gated else {TaskState.PENDING, TaskState.GATED}
            assert state in held_back
            assert at == -1
            return
        on_node = TaskState.RUNNING if told.phase == "Running" else TaskState.BOUND
        assert state in (LEAVING if told.is_leaving else {on_node})
        assert ("", *snapshot.nodes.name)[at + 1] in (told.node, "")
        assert (at >= 0) == (told.node in snapshot.nodes.name)

    @rule()
    def comes_to_rest(self):
        """All is sent and told: the store is as one that was told what there is now."""
        for _ in range(12):
            for name in list(self.server.news):
                self.handle_all(name)
            self.now_s += 400.0
            self.shard.snapshot()
            for work in list(self.write_queue.works):
                if work.send() is None:
                    self.write_queue.works.remove(work)
        for name in list(self.server.news):
            self.handle_all(name)
        self.shard.snapshot()
        self.now_s += 400.0  # who has been seen to leave until here has not ended for too long
        snapshot = self.shard.snapshot()
        assert not self.write_queue.works
        assert not any(f"ns/{name}" in self.store.facts.sent for name in PODS)
        fresh = StateStore()
        fresh.facts.stuck.restore(
            f"ns/{it.name}" for it in self.server.pods.values() if it.is_leaving
        )
        for obj in (*self.others.values(), *(pod.obj() for pod in self.server.pods.values())):
            update(fresh, obj)
        assert content(snapshot) == content(fresh.snapshot())


@pytest.mark.fault("I121")
def test_the_store_against_a_server_of_plain_values():
    run_state_machine_as_test(StoreMachine, settings=settings(stateful_step_count=30))
