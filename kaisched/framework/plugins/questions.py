# mypy: disable-error-code="empty-body"
"""The questions to plugins whose answers decide: first a document, then code.

A plugin subclasses :class:`Plugin` and overrides the questions it answers. Each override is marked
with ``@hookimpl`` and has exactly the signature below (mypy and the loader check this). Letters:
``K`` rows asked about now, ``R`` resources, ``N`` nodes, ``Q`` queues. All arguments are read-only
arrays or the session; answers are new arrays. Amounts are int64 base units.

Rules for every answer: it depends only on the arguments, the session and the plugin's own typed
arguments, never on the clock, on chance or on earlier questions. Rows are independent of each
other. ``None`` always means "nothing to say". Plugins are asked in the shard's order.

Each question declares how the answers of several plugins combine, and the substitute for a plugin
that fails: it raises or answers nonsense (wrong shape, type or range, NaN). The cycle's failures
name it. A plugin whose ``is_silent`` is True is not asked where that is said. The questions whose
answers people read come last.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

from kaisched.core.refusals import text_of
from kaisched.framework.plugins.combine import (
    AnyOf,
    Chain,
    First,
    FirstOfEach,
    FirstRefusal,
    FirstRefusalInTurn,
    Intersections,
    Keys,
    Least,
    Lines,
    OfOwner,
    Own,
    Rows,
    Sum,
    Union,
)
from kaisched.framework.plugins.validity import (
    batch_fault,
    domains_fault,
    figures_fault,
    head_start_fault,
    order_fault,
    reason_fault,
    sentence_fault,
    share_fault,
    size_fault,
    text_fault,
)
from kaisched.framework.report.records import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kaisched.core.axis import Amounts, BoolVec, CodeVec, FloatVec, IntVec, RowVec
    from kaisched.core.tables import SubGroup
    from kaisched.framework.advice.advice import Proposal
    from kaisched.framework.invariants.sums import Moves
    from kaisched.framework.plugins.combine import Asked, Combination
    from kaisched.framework.report.records import EvictionReason, Problem
    from kaisched.framework.session.node_sets import NodeSet
    from kaisched.framework.session.session import Session
    from kaisched.framework.session.units import Claim, Unit, Units
    from kaisched.objects.workloads import Workload

PROJECT: Final = "kaisched"

_F = TypeVar("_F", bound="Callable[..., Any]")
_declared: dict[str, Combination] = {}
QUESTIONS: Final[Mapping[str, Combination]] = MappingProxyType(_declared)
"""Every question by name, in the order of the specification, and how its answers combine."""
_spec = pluggy.HookspecMarker(PROJECT)
_impl = pluggy.HookimplMarker(PROJECT)


def hookimpl(function: _F) -> _F:
    """Mark a method as a plugin's answer to the question of the same name.

    It takes no options: plugins are asked in the shard file's order, so ``tryfirst``, ``trylast``
    and wrappers do not exist here (the loader refuses them when pluggy's own marker sets them).
    """
    return _impl(function)


def is_answer(method: object) -> bool:
    """Tell whether a method is marked as an answer."""
    return getattr(method, f"{PROJECT}_impl", None) is not None


def question(combine: Combination, *, may_be_silent: bool = False) -> Callable[[_F], _F]:
    """Declare a question: how answers combine, and whether plugins may promise silence."""

    def declare(function: _F) -> _F:
        combine.declare(function, may_be_silent=may_be_silent)
        _declared[function.__name__] = combine
        return _spec(firstresult=isinstance(combine, First))(function)

    return declare


class Decisions:
    """The questions whose answers decide, or on which a decision depends."""

    # -- once a shard ------------------------------------------------------------------

    @question(Rows())
    def workloads(self) -> Sequence[Workload]:
        """Return how pods of more workload kinds are grouped into gangs, one row for each kind.

        Asked once, when the shard's policy is made. Every kind is then listed and watched, which
        the daemon's roles must allow. All shards of a process must read a kind alike: ``read`` is
        compared with ``==``.
        """

    # -- once a cycle ------------------------------------------------------------------

    @question(Own(fails="It has no state, so that its other answers are likely to fail too."))
    def session_open(self, session: Session) -> object:
        """Return this cycle's state of the plugin.

        Asked once, before all else but :meth:`spreads_shares`. It is read back as
        ``session.state[name]``. Cost: O(rows), no loop per node or task; what may not be needed is
        a cached property.
        """

    @question(AnyOf("level"))
    def spreads_shares(self, session: Session, level: IntVec) -> BoolVec | None:
        """Tell, ``(K,)``, over what shares of GPUs are spread: nodes (0), GPUs of a node (1).

        Packed over nodes, a node with a shared GPU that has room comes before all scores; spread,
        scores alone choose the node. Packed over GPUs, a share goes to the shared GPU with the
        least left; spread, to a GPU that nobody has, then to the shared one with the most left.
        Asked at most once a cycle, before :meth:`session_open`, where pods share GPUs.
        """

    @question(Own(fails="Nothing is remembered for it."))
    def session_close(self, session: Session) -> object:
        """Return facts to remember (JSON-like), or None. Asked once, after all actions.

        They are read back as ``memory.facts[name]``, and serialised with a cycle's input.
        """

    @question(First(share_fault, without="all fair shares are zero", abandons="fair share"))
    def fair_share(self, session: Session) -> Amounts | None:
        """Return the fair share ``(R, Q)`` of each queue at every level.

        Asked at most once a cycle, when first needed.
        """

    @question(Chain(), may_be_silent=True)
    def over_quota_weights(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        active: BoolVec,
        weights: FloatVec,
    ) -> FloatVec | None:
        """Return the weights ``(K,)`` with which the surplus is shared in this round.

        Asked each division round, for all sibling groups of one depth: entry i is queue
        ``queue[i]`` for resource ``resource[i]``; ``group[i]`` numbers (resource, parent) groups;
        ``active[i]`` is True if the queue still wants more; ``weights`` are normalised over the
        group.
        """

    @question(
        First(head_start_fault, without="all head starts are zero", abandons="head start"),
        may_be_silent=True,
    )
    def head_start(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        weights: FloatVec,
        has: IntVec,
        wants: IntVec,
        surplus: IntVec,
    ) -> IntVec | None:
        """Return how much of the surplus ``(K,)`` queues get before the weights share the rest.

        Asked for each depth and priority, before its first round: rows as in
        :meth:`over_quota_weights`. ``has`` is what the queue gets already, its deserved part;
        ``wants`` is what it may still take; ``surplus`` is what its group shares. Answers are at
        least 0, at most ``wants``, and their sum over a group is at most the surplus.
        """

    # -- order ---------------------------------------------------------------------------

    @question(Keys("queue"))
    def queue_order(
        self, session: Session, queue: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...] | None:
        """Return key columns ``(K,)`` that decide which of several sibling queues goes first.

        ``held`` ``(R, K)`` is what the queue would hold then, and ``ask`` ``(R, K)`` what its best
        candidate asks for. Also asked on assumed positions: the answer must use ``held``.
        """

    @question(Keys("queue", without="of equal queues the older goes first, then the name decides"))
    def head_order(
        self, session: Session, queue: RowVec, job: RowVec, held: Amounts, ask: Amounts
    ) -> tuple[IntVec | FloatVec, ...] | None:
        """Return key columns ``(K,)`` that break ties of :meth:`queue_order` between siblings.

        The keys are of the best candidates: ``job[i]`` is that of ``queue[i]``, in the queue or
        below it. Asked after :meth:`queue_order`, with the same positions.
        """

    @question(Keys("job"))
    def job_order(self, session: Session, job: RowVec) -> tuple[IntVec | FloatVec, ...] | None:
        """Return key columns ``(K,)`` that decide the order of jobs inside a leaf queue.

        Asked when an action starts, and again for an elastic job whose turn is over. Counts are as
        of now.
        """

    @question(Keys("task"))
    def task_order(self, session: Session, task: RowVec) -> tuple[IntVec | FloatVec, ...] | None:
        """Return key columns ``(K,)`` that decide which pods of a job are placed first."""

    @question(Keys("active", without="the name decides"))
    def subgroup_order(
        self, session: Session, active: IntVec, minimum: IntVec
    ) -> tuple[IntVec | FloatVec, ...] | None:
        """Return key columns ``(K,)`` that decide which subgroup of a job is placed first.

        ``active`` and ``minimum`` ``(K,)`` count the pods (for an inner group, the children) that
        run and that must run.
        """

    # -- what and whether ------------------------------------------------------------------

    @question(FirstRefusal("job"))
    def job_gate(self, session: Session, action: str, job: RowVec) -> CodeVec | None:
        """Return int16 codes ``(K,)``: may these jobs be tried by this action at all?

        Asked when an action starts, and about gangs that lack pods when their demand is summed up:
        so it must not rest on ``requested`` or ``fair_share``.
        """

    @question(FirstRefusal("job"))
    def queue_gate(
        self,
        session: Session,
        action: str,
        queue: RowVec,
        job: RowVec,
        ask: Amounts,
        held: Amounts,
        held_non_preemptible: Amounts,
    ) -> CodeVec | None:
        """Return int16 codes ``(K,)``: may ``queue[i]`` take ``ask[:, i]`` more for ``job[i]``?

        Asked at every level up to the root, also on assumed positions (``held`` ``(R, K)`` is what
        the queue would hold by then); pods that ask for memory of a GPU again with what they count
        on nodes. At the end of a cycle the action ``bind`` asks with all that still leaves in
        ``held``: what is refused waits on its node for that.
        """

    @question(FirstRefusal("job"))
    def claim_gate(
        self, session: Session, action: str, job: RowVec, ask: Amounts
    ) -> CodeVec | None:
        """Return int16 codes ``(K,)``: may ``job[i]`` take ``ask[:, i]`` from other jobs at all?

        Asked by reclaim, preempt and consolidate before they search victims, and again after a
        move. Not for reasons that victims can cure, such as a limit: :meth:`queue_gate` is asked
        once the victims are gone.
        """

    @question(FirstRefusal("job"))
    def victim_filter(self, session: Session, claim: Claim, job: RowVec) -> CodeVec | None:
        """Return int16 codes ``(K,)``: may running jobs give room to this claim at all?

        Asked once per action and class of claims (same queue, shape, size and priority), about
        preemptible jobs that the action may evict.
        """

    @question(FirstRefusalInTurn("units"))
    def scenario_gate(
        self, session: Session, claim: Claim, units: Units, taken: BoolVec
    ) -> CodeVec | None:
        """Return int16 codes ``(V,)``: may these units be taken, those of a set all together?

        Asked about many sets at once (``units.alternative``), each in the order in which units
        would go. A unit is judged as if those before it in its set were gone from
        ``session.held_now``, if they are ``taken`` and not refused here; a plugin may also judge a
        set by what it leaves. Entries that are not ``taken`` are not asked about.
        """

    @question(First(order_fault, without="the order of candidates, reversed"))
    def victim_order(
        self, session: Session, claim: Claim, units: Units
    ) -> tuple[RowVec, int] | None:
        """Return (units in the order in which they would go, code of the units left out).

        The order has rows of ``units``, which is in reversed job order inside each queue. Of the
        allowed sets that make room, the one that ends first in the order is taken. The code is 0
        if no unit is left out; if it is *retried*, the next pass asks again.
        """

    @question(FirstRefusal("units"))
    def plan_gate(self, session: Session, claim: Claim, units: Units) -> CodeVec | None:
        """Return int16 codes ``(V,)``: may these units go together for this claim?

        Asked about each set that :meth:`scenario_gate` allows before the claim is placed. The
        units are gone from ``session.held_now``. If any is refused, the next set is tried.
        """

    @question(First(size_fault, without="pods are placed one by one"))
    def batch_size(self, session: Session, job: RowVec) -> IntVec | None:
        """Return how many pending pods ``(K,)`` of each job are placed next, all or nothing.

        Asked for jobs of a single pod set: the gang's missing pods, 1 for an elastic pod, or 0 for
        nothing.
        """

    @question(First(batch_fault, without="pods are placed one by one"))
    def next_batch(self, session: Session, job: int) -> RowVec | None:
        """Return the task rows of a *structured* job to place next, all or nothing, in order.

        Empty for nothing. If the pods find no room, it is asked again as if a pod set had none to
        place: see ``session.podset_pending_now``.
        """

    @question(AnyOf("job"))
    def is_guaranteed(self, session: Session, job: RowVec, ask: Amounts) -> BoolVec | None:
        """Tell, ``(K,)``, which jobs are entitled to ``ask[:, i]`` at any time.

        Evictions for such a job are not stopped as part of an eviction loop (R33).
        """

    # -- nodes -------------------------------------------------------------------------------

    @question(Intersections(), may_be_silent=True)
    def node_sets(
        self,
        session: Session,
        action: str,
        job: int,
        ask: Amounts,
        shapes: Sequence[tuple[int, int]],
    ) -> Sequence[NodeSet] | int | None:
        """Return the sets of nodes on one of which the job's next batch is placed, the best first.

        Asked when an action tries the job, when its nominations are kept, and before its pods are
        moved. The sets are tried in order until the batch fits. ``ask`` ``(R,)`` is what it asks
        for; ``shapes`` has the shapes of its pods with their numbers. Within a cycle a job must
        either always have sets or never. Without any set the job is not placed: the answer is
        empty, or the refusal that says why. Answer ``LazyNodeSets`` for many sets: most are never
        looked at.
        """

    @question(Intersections(), may_be_silent=True)
    def subgroup_sets(
        self,
        session: Session,
        job: int,
        group: SubGroup,
        shapes: Sequence[tuple[int, int]],
    ) -> Sequence[NodeSet] | int | None:
        """Return the sets of nodes on one of which a subgroup is placed, the best first.

        Asked for each subgroup with pods in the batch of a structured job: ``session.node_set`` is
        the set of the group around it, and ``shapes`` has its own pods. Where they fit in none,
        the next set of the group around it is tried. The rest is as for :meth:`node_sets`.
        """

    @question(FirstRefusal("rows"))
    def node_filter(self, session: Session, shape: int, rows: RowVec) -> CodeVec | None:
        """Return int16 codes ``(K,)``: may a pod of this shape run on these nodes at all?

        Asked once per shape for all nodes, then only for rows that :meth:`on_moves` names as stale.
        Amounts are checked elsewhere.
        """

    @question(Least("rows"))
    def node_room(self, session: Session, shape: int, rows: RowVec) -> IntVec | None:
        """Return how many more pods of this shape ``(K,)`` the nodes can take, amounts aside.

        For host ports and anti-affinity. Asked again for every node with a move.
        """

    @question(First(domains_fault, without="pods of a shape need not be together"))
    def node_domains(self, session: Session, shape: int) -> IntVec | None:
        """Return the number of each node's domain ``(N,)``: all pods of the shape must be in one.

        None if they need not be together, or where the first of them are decides. -1 is in no
        domain. Asked after :meth:`node_filter`, and again when that is. The host leaves them the
        domain where most of them fit, of the nodes that are tried.
        """

    @question(Sum("rows"), may_be_silent=True)
    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> FloatVec | None:
        """Return scores ``(K,)`` in [0, 1], higher is better.

        Score each node as if ``extra`` ``(K,)`` more pods of the shape were on it. Never normalise
        over the rows asked about (constants of the snapshot are fine). ``session.free`` and
        ``session.room`` are as of now.
        """

    @question(Union(), may_be_silent=True)
    def on_moves(
        self, session: Session, task: RowVec, node: RowVec, sign: int
    ) -> tuple[RowVec, RowVec] | None:
        """Take note of tasks placed (``sign`` +1) or taken back (-1); return stale answers.

        (Shapes, node rows) whose :meth:`node_filter` and :meth:`node_score` must be asked again.
        An empty shape array means every shape. States and nodes of the tasks are as of now; what
        queues hold may be counted once a run of pods has been placed.
        """


def _without_more(asked: Asked) -> Reason:
    text = text_of(int(asked[-1]))
    return Reason(f"{text.sentence} (plugin {text.plugin} failed to say more)")


class Words:
    """The questions whose answers people read."""

    @question(First(text_fault, without="the sentence of the refusal stands"))
    def node_reason(self, session: Session, shape: int, code: int) -> str | None:
        """Return the numbers behind a refusal of nodes for pods of this shape; None for no more.

        ``code`` is one that :meth:`node_filter` answers; the answer is added to its sentence.
        Asked when the record of a job is read.
        """

    @question(
        OfOwner(
            reason_fault,
            without="the sentence of the refusal stands",
            fails="The sentence of the refusal stands, and says that the plugin failed.",
            instead=_without_more,
        )
    )
    def refusal_reason(self, session: Session, action: str, job: int, code: int) -> Reason | None:
        """Return why this plugin refuses a job, with the numbers, as of the end of the cycle.

        ``code`` is the plugin's own refusal with which ``action`` ended the attempt. Asked when the
        job's record is read.
        """

    @question(OfOwner(without="nothing is proposed", fails="It proposes nothing.", is_listed=True))
    def proposals(self, session: Session, job: int, code: int) -> Iterable[Proposal] | None:
        """Return changes that may cure a refusal of this plugin, likely ones first.

        Each change is tried on a copy before it is shown as advice. Its kind is one that the
        refusal lists as ``tried``. Asked when advice is asked for.
        """

    @question(First(sentence_fault, without="it names the claim and the queues that lose"))
    def eviction_reason(
        self, session: Session, claim: Claim, units: Sequence[Unit]
    ) -> Callable[[Session], str | EvictionReason] | None:
        """Return a function that makes the reason of these evictions for a claim.

        A sentence, or one with the kinds of the evictions by queue. Asked once for each claim that
        evicts, when all its moves are in ``session.held_now``. The function is called with the
        session when the reason is read; it may keep numbers of now, but not the session.
        """

    @question(FirstOfEach())
    def queue_problems(self, session: Session) -> Mapping[int, Problem] | None:
        """Return, by queue row, the problems of queues that do not work under this policy.

        Shown as the condition ``Ready`` of the queue. Asked after each cycle whose shares are read.
        """

    @question(First(figures_fault, without="no figures"))
    def queue_figures(self, session: Session) -> Mapping[str, FloatVec] | None:
        """Return figures of queues under this policy, by name: a number for each queue ``(Q,)``.

        Shown with the shares of a cycle, and as the metric ``kaisched_queue_figure_ratio``. Names
        are words in snake_case. Asked when the shares of a cycle are read.
        """

    @question(Lines())
    def broken_rules(self, moves: Moves) -> Iterable[str] | None:
        """Return a line for each rule of this plugin that a cycle's result breaks.

        Asked by tests, replays and other checks of results; never by a cycle. Each line begins with
        the rule's name.
        """
