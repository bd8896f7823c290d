"""The session: one cycle, as plugins and actions see it."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.devices import ShareSpread, least_charges
from kaisched.core.refusals import freeable_codes, lasting_codes
from kaisched.core.sums import charges_of
from kaisched.core.tree import PROJECTS, without_inner
from kaisched.framework.session.capacity import Holding, capacity_of, room_of
from kaisched.framework.session.claim_payers import ClaimPayers, with_own_shapes
from kaisched.framework.session.devices import Devices
from kaisched.framework.session.ledger import Ledger, held_in, rolled_up
from kaisched.framework.session.limits import requeued
from kaisched.framework.session.outcome import Outcome
from kaisched.framework.session.placement import Placement
from kaisched.framework.session.statement import Statement
from kaisched.framework.session.unschedulable import find_unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, ResourceAxis, RowVec
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
    from kaisched.framework.plugins.asking import Questions
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.records import PluginFailure
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.node_sets import NodeSet

    Columns = list[IntVec | FloatVec]
    WeightTransform = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]

_FAIR_TREE = "session.fairTree"
_EVICTABLE = "capacity.evictable"
HOST_ONLY: Final = frozenset(
    {
        "action",
        "ask",
        "barred",
        "capacity",
        "claim_payers",
        "devices",
        "facts",
        "failures",
        "has_kept_promises",
        "has_moved",
        "initial_capacity",
        "is_careful",
        "jobs_waiting",
        "least_charge",
        "ledger",
        "left_out",
        "memory",
        "outcome",
        "passing_over",
        "placement",
        "policy",
        "standing_of",
        "statement",
        "stranded",
        "stranded_of_job",
        "trying",
        "unschedulable",
        "waiting",
    }
)
"""What only the host and its actions use of a session. All other public names are for plugins."""


class Session:
    """One cycle, as plugins and actions see it.

    Plugins write only to what ``state``, ``hints`` and ``found`` hold under a name of their own. A
    cycle that places nothing copies nothing: the ledger and the like are made on first use.
    """

    # -- what the cycle decides on: frozen tables --------------------------------------------------

    nodes: NodeTable
    """Nodes by row, as the cycle began."""
    queues: QueueTable
    """Queues by row, in preorder."""
    jobs: JobTable
    """Jobs by row, as the cycle began."""
    podsets: PodSetTable
    """Pod sets by row, as the cycle began."""
    tasks: TaskTable
    """Tasks by row, as the cycle began."""
    shapes: ShapeTable
    """Shapes by number: what pods ask for, and where they may go."""
    label_sets: LabelSets
    """Labels of pods by the number of their set."""
    axis: ResourceAxis
    """The resources, in the order of the rows of all amounts."""
    generation: int
    """Row numbers mean the same things within one generation."""
    snapshot: Snapshot
    """All that the cycle decides on: caches compare it by identity."""
    now_s: float
    """The cycle's time, in seconds since 1970: the only clock."""
    usage: Usage | None
    """What queues consumed lately; None where no history is kept."""

    # -- what plugins keep -------------------------------------------------------------------------

    state: dict[str, Any]
    """What each plugin returned from ``session_open``, by its name."""
    found: dict[str, Any]
    """What must not outlive the cycle, by names of one's own."""
    hints: dict[str, Any]
    """What saves time in later cycles, by names of one's own; may be dropped at any time."""
    facts_before: Mapping[str, Any]
    """What each plugin returned from ``session_close`` in the last cycle, by its name."""

    # -- what the host keeps -----------------------------------------------------------------------

    facts: dict[str, Any]
    """What actions have to remember, JSON-like, by their names."""
    trying: tuple[int, ...]
    """The jobs that an action is trying, which an exception is blamed on."""
    barred: set[int]
    """Jobs on which an action has failed."""
    left_out: set[str]
    """Actions that have failed for good in this cycle."""
    action: str
    """The action that runs."""
    is_careful: bool
    """True when jobs are to be tried one by one."""
    failures: list[PluginFailure]
    """Plugins and actions that have failed so far."""
    capacity: Capacity
    """What the nodes have room for, as of now."""
    claim_payers: ClaimPayers | None
    """With which pods claims count that several jobs wait for; None while there are none."""

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
        self.claim_payers = None
        if (claims := snapshot.claims) is not None and claims.uncounted:
            snapshot = with_own_shapes(snapshot)
            self.claim_payers = ClaimPayers(snapshot, claims)
        self.snapshot, self.usage, self.now_s = snapshot, usage, now_s
        self.policy, self.memory, self.ask = policy, memory, ask
        self.axis, self.generation = snapshot.axis, snapshot.generation
        self.nodes, self.queues = snapshot.nodes, snapshot.queues
        self.jobs = requeued(snapshot.jobs, memory.facts)
        self.podsets, self.tasks = snapshot.podsets, snapshot.tasks
        self.shapes, self.label_sets = snapshot.shapes, snapshot.label_sets
        self.state, self.found, self.facts = {}, {}, {}
        self.hints, self.facts_before = memory.hints, memory.facts
        self.trying, self.barred, self.left_out = (), set(), set()
        self.action, self.is_careful, self.has_kept_promises = "", False, False
        self.failures = []
        self._passed_over: list[int] = []
        """Pod sets that are left out of the next batch, as their pods find no room."""
        self.capacity = self.initial_capacity()

    def initial_capacity(self) -> Capacity:
        """Return what the nodes have room for before anything has moved."""
        if self.nodes.cards is None:
            return capacity_of(self.snapshot)
        said = self.ask.spreads_shares(self, np.arange(2))
        spread = ShareSpread() if said is None else ShareSpread(*said.tolist())
        return capacity_of(self.snapshot, spread)

    # -- amounts of queues -------------------------------------------------------------------------

    @property
    def total(self) -> Amounts:
        """``(R,)`` what is divided: what pods of queues hold, and what they could be given."""
        return self.snapshot.total

    @property
    def over_quota_weights(self) -> str:
        """How a shard gives over-quota weights: as queues say, or by their quota."""
        return self.policy.over_quota_weights

    @cached_property
    def held(self) -> Amounts:
        """``(R, Q)`` held at every level when the cycle began."""
        return rolled_up(self.snapshot, self.snapshot.allocated)

    @cached_property
    def held_non_preemptible(self) -> Amounts:
        """``(R, Q)`` the part of :attr:`held` that belongs to non-preemptible jobs."""
        return rolled_up(self.snapshot, self.snapshot.allocated_non_preemptible)

    @cached_property
    def held_stuck(self) -> tuple[Amounts, Amounts] | None:
        """``(R, Q)`` what pods hold that were asked to go and do not end, and the firm part of it.

        ``queue_gate`` is asked with it as held.
        """
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

    @cached_property
    def fair_tree(self) -> QueueTree:
        """The tree by which shares are divided and queues compared.

        That of :attr:`queues`; or with ``fairness: projects`` one in which all leaf queues are
        siblings and inner queues are in no level.
        """
        tree = self.queues.tree
        if self.policy.fairness != PROJECTS:
            return tree
        known: tuple[QueueTree, QueueTree] | None = self.hints.get(_FAIR_TREE)
        if known is None or known[0] is not tree:
            known = self.hints[_FAIR_TREE] = (tree, without_inner(tree))
        return known[1]

    @property
    def overdrawn(self) -> Amounts | None:
        """``(R, Q)`` what projects hold in other pools beyond their quotas there, at leaves."""
        return self.snapshot.overdrawn

    @cached_property
    def parts_of_gpus(self) -> BoolVec | None:
        """``(S,)`` which shapes ask for a part of GPUs."""
        devices = [limits.devices for limits in self.shapes.constraints]
        is_part = np.array([it is not None and it.is_share for it in devices], np.bool_)
        return is_part if is_part.any() else None

    @cached_property
    def requested(self) -> Amounts:
        """``(R, Q)`` held plus pending, at every level, when the cycle began.

        Pods that could not start if nothing else ran ask for nothing.
        """
        return rolled_up(self.snapshot, self.requested_by_jobs)

    @cached_property
    def requested_by_jobs(self) -> Amounts:
        """``(R, Q)`` the same of each queue's own jobs; inner queues have none."""
        asked = self.snapshot.allocated + self.snapshot.pending
        return asked if self.unschedulable is None else asked - self.unschedulable.amounts

    unschedulable = cached_property(find_unschedulable)

    @cached_property
    def fair_share(self) -> Amounts:
        """``(R, Q)`` fair share at every level, divided when first needed."""
        share = self.ask.fair_share(self)
        if share is None:
            share = np.zeros((len(self.axis), len(self.queues)), np.int64)
        share.setflags(write=False)
        return share

    def divide(self) -> Amounts:
        """Return :attr:`fair_share`, divided now at the latest."""
        return self.fair_share

    @property
    def weight_transform(self) -> WeightTransform | None:
        """The plugins' transform of over-quota weights, or None (the identity)."""
        return self._division("over_quota_weights")

    @property
    def fold(self) -> WeightTransform | None:
        """The old name of :attr:`weight_transform`, for plugins written before."""
        return self.weight_transform

    @property
    def head_start(self) -> Callable[..., IntVec | None] | None:
        """The plugins' head starts, or None."""
        return self._division("head_start")

    def _division(self, question: str) -> Callable[..., Any] | None:
        asker = self.ask.speaking(self, question)
        return None if asker is None else partial(asker, self)

    # -- as of now, tentative moves included -------------------------------------------------------

    @property
    def moves(self) -> int:
        """Grows with every move, from 0: what is cached of what follows is good until then."""
        return len(self.capacity.touched) + 1 if self.has_moved else 0

    @property
    def held_now(self) -> Amounts:
        """``(R, Q)`` held at every level as of now; a promise counts as held."""
        return self.ledger.held if self.has_moved else self.held

    @property
    def held_non_preemptible_now(self) -> Amounts:
        """``(R, Q)`` the part of :attr:`held_now` that belongs to non-preemptible jobs."""
        return self.ledger.held_non_preemptible if self.has_moved else self.held_non_preemptible

    @property
    def state_now(self) -> NDArray[np.int8]:
        """``(T,)`` the state of each task as of now."""
        return self.ledger.state if self.has_moved else self.tasks.state

    @property
    def node_of_task_now(self) -> RowVec:
        """``(T,)`` the node of each task as of now, -1 for none."""
        return self.ledger.node_of_task if self.has_moved else self.tasks.node_of_task

    @property
    def job_active_now(self) -> IntVec:
        """``(J,)`` active tasks of each job as of now."""
        return self.ledger.job_active if self.has_moved else self.jobs.active

    @property
    def podset_active_now(self) -> IntVec:
        """``(P,)`` active tasks of each pod set as of now."""
        return self.ledger.podset_active if self.has_moved else self.podsets.active

    @property
    def podset_pending_now(self) -> IntVec:
        """``(P,)`` pending tasks of each pod set as of now; none of one that is passed over.

        So is a pod set without room when the next batch of its job is asked for again.
        """
        pending = self.ledger.podset_pending if self.has_moved else self.podsets.pending
        if self._passed_over:
            pending = pending.copy()
            pending[self._passed_over] = 0
        return pending

    def pending_of(self, job: RowVec) -> IntVec:
        """``(K,)`` pending tasks of jobs, as of now."""
        return self.ledger.job_pending[job] if self.has_moved else self.jobs.pending[job]

    def pending_count(self, job: int) -> int:
        """Return the pending tasks of one job, as of now."""
        return int((self.ledger.job_pending if self.has_moved else self.jobs.pending)[job])

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
        """``(N,)`` pods of a shape that fit now, by amounts, filters and bounds, on each node.

        None fits outside the set of nodes that is tried now. Asks other plugins: not to be called
        by a plugin that is asked about filters, bounds or scores.
        """
        plan, room, _, _ = self.placement.free_capacity(shape)
        if plan.one_of is None:
            return room
        # Pods that share a claim fit on one node only; each counts as if it were that one.
        found: IntVec = self.placement.amounts_room(shape) * (plan.one_of == 0)
        return found if plan.cap is None else np.minimum(found, plan.cap)

    def places_once_released(self, shape: int) -> IntVec:
        """``(N,)`` the same, once room being released is free."""
        if not self.is_releasing:
            return self.places(shape)
        plan = self.placement.plan(shape)
        return self.placement.future(plan, plan.one_of)

    def places_once_evicted(self, shape: int) -> IntVec:
        """``(N,)`` the same, if no preemptible pod ran: a bound that no eviction lifts."""
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
        """``(N,)`` a bound that no end of other work lifts: amounts of nodes on which nothing runs.

        Nodes refused for a reason that lasts (``is_lasting``), such as a label, have none.
        """
        # Never too low: who is above it is not tried until nodes change. So cards, devices and
        # bounds of plugins are left out; a node is out only for what no other work lifts.
        codes = self.placement.filtered(shape)
        allowed = None if codes is None else ~np.isin(codes, lasting_codes())
        return room_of(self.nodes.allocatable, self.shapes.request[:, shape], allowed)

    @property
    def is_releasing(self) -> bool:
        """Whether room is being released now."""
        return self.capacity.has_releasing

    def free(self, resource: int, rows: RowVec) -> IntVec:
        """``(K,)`` what is free of a resource on some nodes: idle, or being released by now."""
        return self.capacity.free_of(resource, rows)

    def gpus_free(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """``(K,)`` whole GPUs and ``(K, G)`` thousandths left of each GPU that pods share.

        As :meth:`free`, less what ``extra`` ``(K,)`` more pods of a shape would take. A node with
        fewer shared ones has zeros.
        """
        return self.capacity.gpus_free(shape, rows, extra)

    def subgroup_order(self, active: IntVec, minimum: IntVec) -> Columns:
        """Return the keys by which the plugins order subgroups, low first."""
        return [*(self.ask.subgroup_order(self, active, minimum) or ())]

    # -- for the host and its actions --------------------------------------------------------------

    @cached_property
    def ledger(self) -> Ledger:
        """What queues hold and where every task stands, as of now."""
        return Ledger(self.snapshot, self.held, self.held_non_preemptible, self.capacity)

    @property
    def has_moved(self) -> bool:
        """True once the ledger exists, so that something may differ from the snapshot."""
        return "ledger" in self.__dict__

    @cached_property
    def placement(self) -> Placement:
        """Where pods may go, as of now."""
        return Placement(self)

    @cached_property
    def outcome(self) -> Outcome:
        """What has been decided so far."""
        return Outcome(len(self.jobs.name))

    def statement(self) -> Statement:
        """Open a statement: tentative moves that are kept or taken back as a whole."""
        return Statement(self)

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
        active = self.job_active_now.take(job)
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

    @contextmanager
    def passing_over(self, podsets: Collection[int]) -> Iterator[None]:
        """Let no pods of some pod sets be pending while the context lasts."""
        before, self._passed_over = self._passed_over, [*podsets]
        try:
            yield
        finally:
            self._passed_over = before
