"""What plugins may touch of a session, name by name; all else is the host's and may change.

Nothing of it is to be written to, but what ``state``, ``hints`` and ``found`` hold under a name of
the plugin's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, ResourceAxis, RowVec
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
    from kaisched.framework.session.claims import NodeSet

    Columns = list[IntVec | FloatVec]
    Fold = Callable[[RowVec, RowVec, RowVec, BoolVec, FloatVec], FloatVec]


class SessionView(Protocol):
    """One cycle, as plugins see it."""

    # -- what the cycle decides on: frozen tables --------------------------------------------------

    @property
    def nodes(self) -> NodeTable:
        """Nodes by row, with their labels and annotations, as the cycle began."""
        ...

    @property
    def queues(self) -> QueueTable:
        """Queues by row, in preorder, with their labels and annotations."""
        ...

    @property
    def jobs(self) -> JobTable:
        """Jobs by row, with their labels and annotations, as the cycle began."""
        ...

    @property
    def podsets(self) -> PodSetTable:
        """Pod sets by row, as the cycle began."""
        ...

    @property
    def tasks(self) -> TaskTable:
        """Tasks by row, as the cycle began."""
        ...

    @property
    def shapes(self) -> ShapeTable:
        """Shapes by number: what pods ask for, and where they may go."""
        ...

    @property
    def label_sets(self) -> LabelSets:
        """Labels of pods by the number of their set."""
        ...

    @property
    def axis(self) -> ResourceAxis:
        """The resources, in the order of the rows of all amounts."""
        ...

    @property
    def total(self) -> Amounts:
        """``(R,)`` what is divided: what pods of queues hold, and what they could be given."""
        ...

    @property
    def generation(self) -> int:
        """Row numbers mean the same things within one generation."""
        ...

    @property
    def snapshot(self) -> object:
        """Stands for all that the cycle decides on: to be compared by identity, for caches."""
        ...

    @property
    def now_s(self) -> float:
        """The time of the cycle, in seconds since 1970: there is no other clock."""
        ...

    @property
    def usage(self) -> Usage | None:
        """What queues consumed lately; None where no history is kept."""
        ...

    @property
    def over_quota_weights(self) -> str:
        """How a shard gives over-quota weights: as queues say, or by their quota."""
        ...

    # -- amounts of queues -------------------------------------------------------------------------

    @property
    def held(self) -> Amounts:
        """``(R, Q)`` held at every level when the cycle began."""
        ...

    @property
    def held_non_preemptible(self) -> Amounts:
        """``(R, Q)`` the part of :attr:`held` that belongs to non-preemptible jobs."""
        ...

    @property
    def held_stuck(self) -> tuple[Amounts, Amounts] | None:
        """``(R, Q)`` what pods hold that were asked to go and do not end, and the firm part of it.

        ``queue_gate`` is asked with it as held. None if there are none.
        """
        ...

    @property
    def held_not_evictable(self) -> Amounts:
        """``(R, Q)`` what stays: non-preemptible jobs, and pods on nodes that are gone."""
        ...

    @property
    def fair_tree(self) -> QueueTree:
        """The tree by which shares are divided and queues compared.

        That of :attr:`queues`; or with ``fairness: projects`` one in which all leaf queues are
        siblings and inner queues are in no level.
        """
        ...

    @property
    def overdrawn(self) -> Amounts | None:
        """``(R, Q)`` what projects hold in other node pools beyond their quotas there, at leaves.

        None if no project does.
        """
        ...

    @property
    def requested(self) -> Amounts:
        """``(R, Q)`` held plus pending, at every level, when the cycle began.

        Pods that could not start if nothing else ran ask for nothing.
        """
        ...

    @property
    def requested_by_jobs(self) -> Amounts:
        """``(R, Q)`` the same of each queue's own jobs; inner queues have none."""
        ...

    @property
    def fair_share(self) -> Amounts:
        """``(R, Q)`` fair share at every level, divided when first needed."""
        ...

    def divide(self) -> Amounts:
        """Return :attr:`fair_share`, divided now at the latest.

        For plugins that find out something while the shares are divided.
        """
        ...

    @property
    def fold(self) -> Fold | None:
        """The plugins' over-quota weight fold, or None when no plugin answers (the identity)."""
        ...

    @property
    def head_start(self) -> Callable[..., IntVec | None] | None:
        """The plugins' head starts, or None when no plugin answers."""
        ...

    # -- as of now, tentative moves included -------------------------------------------------------

    @property
    def moves(self) -> int:
        """A number that grows with every move: what is cached of what follows is good until then.

        0 while the cycle has not moved anything.
        """
        ...

    @property
    def held_now(self) -> Amounts:
        """``(R, Q)`` held at every level as of now; a promise counts as held."""
        ...

    @property
    def held_non_preemptible_now(self) -> Amounts:
        """``(R, Q)`` the part of :attr:`held_now` that belongs to non-preemptible jobs."""
        ...

    @property
    def state_now(self) -> NDArray[np.int8]:
        """``(T,)`` the state of each task as of now."""
        ...

    @property
    def node_of_task_now(self) -> RowVec:
        """``(T,)`` the node of each task as of now, -1 for none."""
        ...

    @property
    def job_active_now(self) -> IntVec:
        """``(J,)`` active tasks of each job as of now."""
        ...

    @property
    def podset_active_now(self) -> IntVec:
        """``(P,)`` active tasks of each pod set as of now."""
        ...

    @property
    def podset_pending_now(self) -> IntVec:
        """``(P,)`` pending tasks of each pod set as of now; none of one that is passed over.

        So is a pod set without room when the next batch of its job is asked for again.
        """
        ...

    @property
    def node_set(self) -> NodeSet | None:
        """The set of nodes on which a job is tried now; None for all nodes."""
        ...

    def pending_count(self, job: int) -> int:
        """Return the pending tasks of one job, as of now."""
        ...

    def pending_of(self, job: RowVec) -> IntVec:
        """``(K,)`` pending tasks of jobs, as of now."""
        ...

    def room(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that the idle amounts of each node allow now."""
        ...

    def room_once_released(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that each node's amounts allow once all is released."""
        ...

    def places(self, shape: int) -> IntVec:
        """``(N,)`` pods of a shape that fit now, by amounts, filters and bounds, on each node.

        None fits outside the set of nodes that is tried now. Asks other plugins, so that it must
        not be called by a plugin that is asked about filters, bounds or scores.
        """
        ...

    def places_once_released(self, shape: int) -> IntVec:
        """``(N,)`` the same, once room being released is free."""
        ...

    def places_once_evicted(self, shape: int) -> IntVec:
        """``(N,)`` the same, if no preemptible pod ran any more: a bound that no eviction lifts."""
        ...

    def places_when_empty(self, shape: int) -> IntVec:
        """``(N,)`` a bound that no end of other work lifts: amounts of nodes on which nothing runs.

        Nodes refused for a reason that lasts (``is_lasting``), such as a label, have none.
        """
        ...

    @property
    def is_releasing(self) -> bool:
        """Whether room is being released now: if not, places once released are the same as now."""
        ...

    def free(self, resource: int, rows: RowVec) -> IntVec:
        """``(K,)`` what is free of a resource on some nodes: idle, or being released by now."""
        ...

    def gpus_free(self, shape: int, rows: RowVec, extra: IntVec) -> tuple[IntVec, Amounts]:
        """``(K,)`` whole GPUs and ``(K, G)`` thousandths left of each GPU that pods share.

        As :meth:`free`: idle, or being released by now; less what ``extra`` ``(K,)`` more pods of a
        shape would take, each on the GPUs that it would get. A node with fewer shared ones has
        zeros.
        """
        ...

    # -- what plugins keep -------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """What each plugin returned from ``session_open``, by its name: its own for this cycle."""
        ...

    @property
    def found(self) -> dict[str, Any]:
        """What was found out in this cycle and must not outlive it, by names of one's own."""
        ...

    @property
    def hints(self) -> dict[str, Any]:
        """What saves time in later cycles, by names of one's own; it may be dropped at any time."""
        ...

    @property
    def facts_before(self) -> Mapping[str, Any]:
        """What each plugin returned from ``session_close`` in the last cycle, by its name."""
        ...

    # -- other plugins' answers --------------------------------------------------------------------

    def subgroup_order(self, active: IntVec, minimum: IntVec) -> Columns:
        """Return the keys by which the plugins order subgroups, low first."""
        ...


Session = SessionView
"""The name under which plugins know it."""
