"""One cycle's view of the world, as actions see it; plugins see what ``SessionView`` names.

Holds the snapshot, the ledger (made on first use: a cycle that places nothing copies nothing), what
plugins returned at opening, and the questions. An action puts what it has to remember into
``facts``, JSON-like, and what the next one can use in this cycle into ``found``.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.devices import ShareSpread, least_charges
from kaisched.core.refusals import freeable_codes, lasting_codes
from kaisched.core.sums import charges_of
from kaisched.core.tree import PROJECTS, without_inner
from kaisched.framework.session.capacity import Holding, capacity_of, room_of
from kaisched.framework.session.devices import Devices
from kaisched.framework.session.ledger import held_in, ledger_of, rolled_up
from kaisched.framework.session.outcome import Outcome
from kaisched.framework.session.placement import Placement
from kaisched.framework.session.run_times import requeued
from kaisched.framework.session.statement import Statement
from kaisched.framework.session.unschedulable import find_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, ResourceAxis, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.tables import (
        JobTable,
        LabelSets,
        NodeTable,
        PodSetTable,
        QueueTable,
        ShapeTable,
        TaskTable,
    )
    from kaisched.core.tree import QueueTree
    from kaisched.core.usage import Usage
    from kaisched.framework.memory import Memory
    from kaisched.framework.plugins.dispatch import Questions
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.records import PluginFailure
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.claims import NodeSet
    from kaisched.framework.session.ledger import Ledger
    from kaisched.framework.session.view import Columns, Fold

_FAIR_TREE = "session.fairTree"
_EVICTABLE = "places.evictable"


class Session:
    """Everything one cycle knows. Built by ``run_cycle``; plugins read it, actions act on it."""

    def __init__(
        self,
        snapshot: Snapshot,
        usage: Usage | None,
        policy: Policy,
        now_s: float,
        memory: Memory,
        ask: Questions,
    ) -> None:
        """Bind the inputs; nothing is computed yet."""
        self.snapshot = snapshot
        self.usage = usage
        self.policy = policy
        self.now_s = now_s
        self.memory = memory
        self.ask = ask
        self.state: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}
        self.has_kept_promises = False
        self.trying: tuple[int, ...] = ()
        """The jobs that an action is trying, which an exception is blamed on."""
        self.barred: set[int] = set()
        """Jobs on which an action has failed."""
        self.left_out: set[str] = set()
        """Actions that have failed for good in this cycle."""
        self.action = ""
        """The action that runs."""
        self.is_careful = False
        """True when jobs are to be tried one by one."""
        self.axis: ResourceAxis = snapshot.axis
        self.nodes: NodeTable = snapshot.nodes
        self.queues: QueueTable = snapshot.queues
        self.jobs: JobTable = requeued(snapshot.jobs, memory.facts)
        self.podsets: PodSetTable = snapshot.podsets
        self.tasks: TaskTable = snapshot.tasks
        self.shapes: ShapeTable = snapshot.shapes
        self.label_sets: LabelSets = snapshot.label_sets
        self.generation = snapshot.generation
        self.hints: dict[str, Any] = memory.hints
        self.failures: list[PluginFailure] = []
        self.gates: dict[str, Callable[..., CodeVec | None] | None] = {}
        self.found: dict[str, Any] = {}
        self._passed_over: list[int] = []
        """Pod sets that are left out of the next batch, as their pods find no room."""
        self.capacity: Capacity = self.initial_capacity()
        """What the nodes have room for, as of now."""

    def initial_capacity(self) -> Capacity:
        """Return what the nodes have room for before anything has moved."""
        if self.nodes.cards is None:
            return capacity_of(self.snapshot)
        said = self.ask.spreads_shares(self, np.arange(2))
        spread = ShareSpread() if said is None else ShareSpread(*said.tolist())
        return capacity_of(self.snapshot, spread)

    @cached_property
    def held(self) -> Amounts:
        """``(R, Q)`` held at every level when the cycle began (``ledger.held`` is now)."""
        return rolled_up(self.snapshot, self.snapshot.allocated)

    @cached_property
    def held_non_preemptible(self) -> Amounts:
        """``(R, Q)`` the part of :attr:`held` that belongs to non-preemptible jobs."""
        return rolled_up(self.snapshot, self.snapshot.allocated_non_preemptible)

    @cached_property
    def held_stuck(self) -> tuple[Amounts, Amounts] | None:
        """``(R, Q)`` what pods hold that do not end, all and non-preemptible; None if none do."""
        return held_in(self.snapshot, TaskState.STUCK)

    @cached_property
    def held_not_evictable(self) -> Amounts:
        """``(R, Q)`` what stays: non-preemptible jobs, and pods on nodes that are gone."""
        if self.stranded is None:
            return self.held_non_preemptible
        rows = self.stranded.nonzero()[0]
        job = self.tasks.job_of_task[rows]
        queue = self.jobs.queue_of_job[job]
        counts = self.jobs.is_preemptible[job] & (queue >= 0) & (job >= 0)
        rows, queue = rows[counts], queue[counts]
        amounts = charges_of(self.snapshot, rows, queue)
        return self.held_non_preemptible + rolled_up(self.snapshot, amounts)

    @property
    def total(self) -> Amounts:
        """``(R,)`` what is divided."""
        return self.snapshot.total

    @cached_property
    def requested(self) -> Amounts:
        """``(R, Q)`` held plus pending, less :attr:`unschedulable`, when the cycle began."""
        return rolled_up(self.snapshot, self.requested_by_jobs)

    @cached_property
    def requested_by_jobs(self) -> Amounts:
        """``(R, Q)`` the same of each queue's own jobs; inner queues have none."""
        asked = self.snapshot.allocated + self.snapshot.pending
        return asked if self.unschedulable is None else asked - self.unschedulable.amounts

    unschedulable = cached_property(find_unschedulable)

    @cached_property
    def fair_share(self) -> Amounts:
        """``(R, Q)`` fair share at every level, computed when first needed."""
        share = self.ask.fair_share(self)
        if share is None:
            share = np.zeros((len(self.axis), len(self.queues)), np.int64)
        share.setflags(write=False)
        return share

    def divide(self) -> Amounts:
        """Return :attr:`fair_share`, for plugins that find out something in the division."""
        return self.fair_share

    @property
    def fold(self) -> Fold | None:
        """The plugins' over-quota weight fold, or None when no plugin answers (the identity)."""
        return self.ask.fold(self)

    @property
    def head_start(self) -> Callable[..., IntVec | None] | None:
        """The plugins' head starts, or None when no plugin answers."""
        return self.ask.head_start(self)

    @cached_property
    def devices(self) -> Devices | None:
        """Devices for claims, as of now; None while no pod has a claim."""
        table = self.snapshot.claims
        return None if table is None else Devices(self.snapshot, table)

    @cached_property
    def least_charge(self) -> Amounts:
        """``(R, S)`` the least that shapes could count in queues: on the largest cards (V2).

        Gates are asked with this before nodes are chosen.
        """
        return least_charges(self.shapes)

    @cached_property
    def ledger(self) -> Ledger:
        """What queues hold and where every task stands, as of now."""
        return ledger_of(self.snapshot, self.held, self.held_non_preemptible, self.capacity)

    @cached_property
    def placement(self) -> Placement:
        """Where pods may go, as of now."""
        return Placement(self)

    @cached_property
    def outcome(self) -> Outcome:
        """What has been decided so far."""
        return Outcome(len(self.jobs.name))

    @cached_property
    def stranded(self) -> BoolVec | None:
        """``(T,)`` pods that run on nodes that are not known, None while there are none.

        They count for their queue and their gang until they end, and are never evicted: no room
        that could be given to others would come of it.
        """
        tasks = self.tasks
        found = ACTIVE_STATES.take(tasks.state) & (tasks.node_of_task < 0)
        return found if np.count_nonzero(found) else None

    @cached_property
    def stranded_of_job(self) -> IntVec | None:
        """``(J,)`` how many pods of each job are :attr:`stranded`, None while there are none."""
        if self.stranded is None:
            return None
        job = self.tasks.job_of_task[self.stranded]
        return np.bincount(job[job >= 0], minlength=len(self.jobs.name))

    def standing_of(self, job: RowVec) -> IntVec:
        """``(K,)`` how many pods of jobs run as of now, and could be evicted."""
        active = (self.ledger.job_active if self.has_moved else self.jobs.active).take(job)
        stranded = self.stranded_of_job
        return active if stranded is None else active - stranded.take(job)

    @cached_property
    def waiting(self) -> RowVec:
        """The rows of the jobs that had pending tasks when the cycle began."""
        return (self.jobs.pending > 0).nonzero()[0]  # of numbers: four times as long

    @property
    def jobs_waiting(self) -> int:
        """How many jobs had pending tasks when the cycle began."""
        return len(self.waiting)

    @property
    def moves(self) -> int:
        """A number that grows with every change of the ledger; 0 while there is none."""
        return len(self.capacity.touched) + 1 if self.has_moved else 0

    @property
    def has_moved(self) -> bool:
        """True once the ledger exists, so that something may differ from the snapshot."""
        return "ledger" in self.__dict__

    @property
    def held_now(self) -> Amounts:
        """``(R, Q)`` held at every level as of now."""
        return self.ledger.held if "ledger" in self.__dict__ else self.held

    @property
    def held_non_preemptible_now(self) -> Amounts:
        """``(R, Q)`` the part of it that belongs to non-preemptible jobs."""
        return (
            self.ledger.held_non_preemptible
            if "ledger" in self.__dict__
            else self.held_non_preemptible
        )

    @property
    def state_now(self) -> NDArray[np.int8]:
        """``(T,)`` the state of each task as of now."""
        return self.ledger.state if "ledger" in self.__dict__ else self.tasks.state

    @property
    def node_of_task_now(self) -> RowVec:
        """``(T,)`` the node of each task as of now, -1 for none."""
        return self.ledger.node_of_task if "ledger" in self.__dict__ else self.tasks.node_of_task

    @property
    def job_active_now(self) -> IntVec:
        """``(J,)`` active tasks of each job as of now."""
        return self.ledger.job_active if "ledger" in self.__dict__ else self.jobs.active

    @property
    def podset_active_now(self) -> IntVec:
        """``(P,)`` active tasks of each pod set as of now."""
        return self.ledger.podset_active if "ledger" in self.__dict__ else self.podsets.active

    @property
    def podset_pending_now(self) -> IntVec:
        """``(P,)`` pending tasks of each pod set as of now; none of those passed over."""
        is_made = "ledger" in self.__dict__
        pending = self.ledger.podset_pending if is_made else self.podsets.pending
        if self._passed_over:
            pending = pending.copy()
            pending[self._passed_over] = 0
        return pending

    @contextmanager
    def passing_over(self, podsets: Collection[int]) -> Iterator[None]:
        """Let no pods of some pod sets be pending while the context lasts."""
        before, self._passed_over = self._passed_over, [*podsets]
        try:
            yield
        finally:
            self._passed_over = before

    @property
    def over_quota_weights(self) -> str:
        """How the shard gives over-quota weights."""
        return self.policy.over_quota_weights

    @cached_property
    def fair_tree(self) -> QueueTree:
        """The tree by which shares are divided and queues compared; it is kept by :attr:`hints`."""
        tree = self.queues.tree
        if self.policy.fairness != PROJECTS:
            return tree
        known: tuple[QueueTree, QueueTree] | None = self.hints.get(_FAIR_TREE)
        if known is None or known[0] is not tree:
            known = self.hints[_FAIR_TREE] = (tree, without_inner(tree))
        return known[1]

    @property
    def overdrawn(self) -> Amounts | None:
        """``(R, Q)`` what projects hold in other node pools beyond their quotas there."""
        return self.snapshot.overdrawn

    @property
    def facts_before(self) -> Mapping[str, Any]:
        """What plugins and actions had to remember of the cycle before, by name."""
        return self.memory.facts

    def subgroup_order(self, active: IntVec, minimum: IntVec) -> Columns:
        """Return the keys by which the plugins order subgroups, low first."""
        return self.ask.subgroup_order(self, active, minimum)

    @property
    def node_set(self) -> NodeSet | None:
        """The set of nodes on which a job is tried now; None for all nodes."""
        return self.placement.nodes

    def room(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that the idle amounts of each node allow now."""
        return self.placement.amounts_room(shape)

    def room_once_released(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that each node's amounts allow once all is released."""
        return self.capacity.room(shape)

    def places(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that fit now, by amounts, filters and bounds."""
        plan, room, _, _ = self.placement.vacancy(shape)
        if plan.one_of is None:
            return room
        # Pods that share a claim fit on one node only; each counts as if it were that one.
        found: IntVec = self.placement.amounts_room(shape) * (plan.one_of == 0)
        return found if plan.cap is None else np.minimum(found, plan.cap)

    def places_once_released(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that fit once room being released is free."""
        if not self.capacity.has_releasing:
            return self.places(shape)
        plan = self.placement.plan(shape)
        return self.placement.future(plan, plan.one_of)

    @property
    def is_releasing(self) -> bool:
        """Whether room is being released, as of now."""
        return self.capacity.has_releasing

    def places_once_evicted(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that would fit if no preemptible pod ran any more: a bound."""
        plan = self.placement.plan(shape)
        allowed: BoolVec | None = None
        if plan.codes is not None:
            allowed = (plan.codes == 0) | np.isin(plan.codes, freeable_codes())
        return self.capacity.room(shape, allowed, self._evictable())

    def _evictable(self) -> Holding:
        """Return what the running pods of preemptible jobs hold."""
        known: tuple[int, Holding] | None = self.found.get(_EVICTABLE)
        if known is not None and known[0] == self.moves:
            return known[1]
        job = self.tasks.job_of_task
        runs = ACTIVE_STATES[self.state_now] & (self.node_of_task_now >= 0) & (job >= 0)
        runs &= self.jobs.is_preemptible[job]
        tasks = runs.nonzero()[0]
        held = self.shapes.request.take(self.tasks.shape_of_task[tasks], axis=1)
        holding = Holding(self.node_of_task_now[tasks], held)
        self.found[_EVICTABLE] = self.moves, holding
        return holding

    def places_when_empty(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that would fit by amounts if nothing ran at all: a bound."""
        # Never too low: who is above it is not tried until nodes change. So cards, devices and
        # bounds of plugins are left out; a node is out only for what no other work lifts.
        codes = self.placement.plan(shape).codes
        allowed = None if codes is None else ~np.isin(codes, lasting_codes())
        return room_of(self.nodes.allocatable, self.shapes.request[:, shape], allowed)

    def free(self, resource: int, rows: RowVec) -> IntVec:
        """``(K,)`` what is free of a resource on some nodes: idle, or being released by now."""
        return self.capacity.free_of(resource, rows)

    def gpus_free(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """``(K,)`` whole GPUs and ``(K, G)`` thousandths left of shared ones, with more pods."""
        return self.capacity.gpus_free(shape, rows, extra)

    def pending_count(self, job: int) -> int:
        """Pending tasks of one job, as of now."""
        return int((self.ledger.job_pending if self.has_moved else self.jobs.pending)[job])

    def pending_of(self, job: RowVec) -> IntVec:
        """``(K,)`` pending tasks of jobs, as of now."""
        return self.ledger.job_pending[job] if self.has_moved else self.jobs.pending[job]

    def statement(self) -> Statement:
        """Open a statement: tentative moves that are kept or taken back as a whole."""
        return Statement(self)
