"""The tables of a snapshot: read-only columns, one row per object.

Rows are only appended, never reused, within one *generation* of the store that made them, so a
row number stays valid as long as the snapshot lives. Rows of vanished jobs and tasks stay as
``GONE`` until the store compacts and starts a new generation.

Nodes are sorted by name, queues are in preorder (siblings by creation, then name): the lowest row
is the last rule of every tie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, overload

import numpy as np

from kaisched.core.axis import record
from kaisched.core.titles import Titles, TopOwner
from kaisched.units import UNLIMITED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaisched.core.axis import Amounts, BoolVec, FloatVec, IntVec, RowVec
    from kaisched.core.constraints import Constraints, NodeStatics, NodeTerm
    from kaisched.core.devices import CardTable, MemoryCharges
    from kaisched.core.tree import QueueTree

    PodCounts: TypeAlias = IntVec | Mapping[int, int]
    """Numbers of pods, by pod set."""


class Metadata(Protocol):
    """The labels and annotations of an object."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels, by key."""
        ...

    @property
    def annotations(self) -> Mapping[str, str]:
        """Annotations, by key."""
        ...


class _Nothing(NamedTuple):
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


NO_METADATA: Final[Metadata] = _Nothing()
"""The metadata of rows that were made without an object."""


def is_same(one: Metadata, other: Metadata) -> bool:
    """Tell whether two objects have the same labels and annotations."""
    return one.labels == other.labels and one.annotations == other.annotations


class PartOfEach(Sequence[Mapping[str, str]]):
    """The labels, or the annotations, of each row: read from the metadata of the rows asked for."""

    __slots__ = ("_name", "_rows")

    def __init__(self, rows: Sequence[Metadata], name: str) -> None:
        """Keep the metadata of every row and the name of the part."""
        self._rows = rows
        self._name = name

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, str]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, str]]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return PartOfEach(self._rows[at], self._name)
        return getattr(self._rows[at], self._name)


# -- tables ----------------------------------------------------------------------------------------


class TopologyLevel(NamedTuple):
    """A level of a topology: nodes with one value of the label, in one domain above, are near."""

    label: str
    alias: str = ""


class TopologyConstraint(NamedTuple):
    """Wish or condition that pods are placed in one domain of a topology."""

    topology: str
    """Its name; empty for the first one that has all the levels."""
    required: str = ""
    """Label or alias of a level; empty for no condition."""
    preferred: str = ""
    """Label or alias of a level; empty for no wish."""
    slices: tuple[tuple[str, int], ...] = ()
    """(level, pods): so many pods go into one domain of the level, the outermost level first."""
    is_pod_set: bool = False
    """Whether each domain of the last level gets a number of pods, as Kueue has it."""
    is_label: bool = False
    """Whether ``required`` is a label of nodes: a level of the first topology that has it, or where
    none has it the only level of one made up."""
    patience_s: float = 0.0
    """Seconds for which the preferred level of a job counts as required, while it waits."""

    @property
    def is_condition(self) -> bool:
        """Whether the pods must not be placed otherwise."""
        return bool(self.required or self.slices)


@record
class NodeTable:
    """Nodes, sorted by name. Columns ``(N,)`` or ``(R, N)``."""

    name: Sequence[str]
    statics: NodeStatics
    """Labels, taints, readiness: the same object as long as none of them changes."""
    allocatable: Amounts
    idle: Amounts
    """Allocatable less what all tasks on the node hold, including releasing ones. May be
    negative."""
    releasing: Amounts
    """Amounts that tasks being deleted will give back."""
    version: IntVec
    """Grows whenever a row's idle or releasing changes, for caches to compare."""
    cards: CardTable | None = None
    """The cards that pods share; None while no pod shares."""
    annotations: Sequence[Mapping[str, str]] = ()
    """Annotations of each node. Not in ``statics``, since they may change every few seconds."""
    topologies: Mapping[str, tuple[TopologyLevel, ...]] = field(default_factory=dict)
    """The levels of each topology, the outermost first."""

    def __len__(self) -> int:
        """Return N."""
        return len(self.name)

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """Labels of each node; :meth:`NodeStatics.label_column` has one key as a column."""
        return self.statics.labels


OPEN, HELD, DRAINED = range(3)
"""Values of ``stop_of_queue``: normal; nothing new starts; running jobs are evicted as well."""


OwnAffinity: TypeAlias = "tuple[tuple[tuple[NodeTerm, ...], ...], ...]"
"""What one queue demands of the nodes of training, interactive and inference jobs: of each entry
one term must hold."""


class FlavorQuota(NamedTuple):
    """What a queue may have of one resource in a flavor, in base units; UNLIMITED for no bound."""

    resource: str
    quota: int = 0
    borrowing_limit: int = UNLIMITED
    lending_limit: int = UNLIMITED


class Flavor(NamedTuple):
    """What a queue may have on nodes with some labels."""

    name: str
    quotas: tuple[FlavorQuota, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """Keys and values. Without any, those that a queue above states for the flavor count; if none
    does, the flavor has all nodes that no other flavor of the queue has."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The lending settings of a queue, for policies that use them."""

    weight: Fraction = Fraction(1)
    """Weight among its siblings; at least 0."""
    is_on: bool = True
    """Read at a top-level queue, for its whole tree."""
    within: str = "LowerPriority"
    """From which jobs of its queue a job may take: Never, LowerPriority,
    LowerOrNewerEqualPriority or Any."""
    across: str = "Any"
    """From which jobs of other queues a job may take, likewise."""
    flavors: tuple[Flavor, ...] = ()
    """In the order in which a job tries them; a leaf without any has those of the queue above."""
    when_can_borrow: str = "MayStopSearch"
    """Whether a job takes the first flavor that fits by borrowing, or TryNextFlavor."""
    when_can_preempt: str = "TryNextFlavor"
    """Whether a job waits for evictions in the first flavor that they could help in, likewise."""
    flavor_preference: str = "BorrowingOverPreemption"
    """What counts first between flavors that do not fit at once, or PreemptionOverBorrowing."""
    borrowing: str = "Never"
    """From which of those a job may take while its queue borrows: Never or LowerPriority."""
    borrowing_up_to: int | None = None
    """The highest priority that then may go; None for any."""
    is_by_usage: bool = False
    """Whether the queues below it have its quota in the order of their past usage."""


SHARING: Final = Sharing()
"""The defaults of a queue."""


@dataclass(frozen=True, slots=True)
class QueueTable:
    """Queues in preorder. The same object as long as no queue changes."""

    name: tuple[str, ...]
    row_of_name: Mapping[str, int]
    tree: QueueTree
    deserved: Amounts
    """``(R, Q)`` quota, UNLIMITED for none."""
    limit: Amounts
    weight: FloatVec
    """``(R, Q)`` over-quota weight."""
    priority: IntVec
    created_s: FloatVec
    preempt_min_runtime_s: FloatVec
    """Minimum runtime in seconds, -1 if unset."""
    reclaim_min_runtime_s: FloatVec
    stop_of_queue: IntVec
    """OPEN, HELD or DRAINED: the strictest up to the root."""
    borrowing_limit: Amounts
    """``(R, Q)`` the most beyond its quota, for policies that lend; UNLIMITED for none."""
    lending_limit: Amounts
    """``(R, Q)`` the most of its quota that other queues may have, likewise."""
    sharing: tuple[Sharing, ...]
    max_run_time_s: FloatVec | None = None
    """``(2, 3, Q)`` how long a job may run, by whether it is preemptible and by type of workload,
    or NO_LIMIT_S: the shortest up to the root. None if no queue limits it."""
    node_affinity: tuple[OwnAffinity, ...] | None = None
    """What each queue itself demands of nodes."""
    why_not: Mapping[str, str] = field(default_factory=dict)
    """Why declared queues are not in the table, by name."""
    labels: Sequence[Mapping[str, str]] = ()
    """Labels of each queue."""
    annotations: Sequence[Mapping[str, str]] = ()
    """Annotations of each queue."""

    def __len__(self) -> int:
        """Return Q."""
        return len(self.name)


@dataclass(frozen=True, slots=True)
class SubGroup:
    """One node of a structured job's tree of subgroups."""

    name: str
    podset: int
    """Row in the pod set table for a leaf, -1 for an inner group."""
    min_subgroup: int
    """Children needed, for an inner group: all of them unless the object says otherwise."""
    children: tuple[SubGroup, ...] = ()
    topology: TopologyConstraint | None = None
    """Where the pods below are to be placed together; at the root for the whole job."""

    def groups(self) -> Iterator[SubGroup]:
        """Yield the group and all groups below it, each before its children."""
        yield self
        for child in self.children:
            yield from child.groups()

    @property
    def podsets(self) -> list[int]:
        """The pod sets of the group, in order."""
        return [group.podset for group in self.groups() if group.podset >= 0]

    @property
    def needs_some(self) -> bool:
        """Whether it, or a group below it, needs fewer subgroups than it has."""
        return any(group.min_subgroup < len(group.children) for group in self.groups())

    def is_met(self, running: PodCounts, minimum: PodCounts) -> bool:
        """Tell whether so many pods of each pod set are what it needs to run."""
        if self.podset >= 0:
            return bool(running[self.podset] >= minimum[self.podset])
        return self.met_children(running, minimum) >= self.min_subgroup

    def met_children(self, running: PodCounts, minimum: PodCounts) -> int:
        """Count the children that have what they need to run."""
        return sum(child.is_met(running, minimum) for child in self.children)


@record
class PodSetTable:
    """Leaf subgroups; a job without structure has exactly one, named ``default``."""

    name: Sequence[str]
    job_of_podset: RowVec
    minimum: IntVec
    """Tasks needed before any of them may run."""
    active: IntVec
    """Tasks in an active state (see states)."""
    pending: IntVec
    """Tasks pending and not gated."""


TRAINING, INTERACTIVE, INFERENCE = range(3)
"""Values of ``workload_of_job``: work that runs by itself, that somebody waits for, or that serves
requests."""
WORKLOADS: Final = ("training", "interactive", "inference")
"""Their names."""
NO_LIMIT_S: Final = float("inf")

DELAY, EVICTED, GRACE, STALE, SUCCEEDED, WORKLOAD, NEVER = range(7)
"""Columns of :attr:`JobTable.rare`."""


@record
class JobTable:
    """Jobs (pod groups). ``(J,)``."""

    name: Sequence[str]
    """``namespace/name``."""
    queue_of_job: RowVec
    """-1 where the queue is unknown; then ``refusal`` says why."""
    priority: IntVec
    is_preemptible: BoolVec
    created_s: FloatVec
    refusal: NDArray[np.int16]
    """Why the job is never tried; 0 where it is tried."""
    first_task: RowVec
    """First task row; ``tasks`` has them all, which need not be together."""
    first_podset: RowVec
    podset_count: IntVec
    shape_of_job: RowVec
    """The shape of all its tasks, -1 when they differ."""
    active: IntVec
    pending: IntVec
    last_start_s: FloatVec
    """NaN if none of its tasks has run."""
    rare: FloatVec
    """``(J, 7)`` values that few jobs have: the properties below are its columns. They are in one
    array, since every array costs each snapshot."""
    metadata_version: IntVec
    """Grows whenever labels or annotations of a job change, for caches to compare."""
    structure: Mapping[int, SubGroup]
    """Job row to its tree of subgroups, for jobs with several pod sets or a topology constraint."""
    tasks: Sequence[Sequence[int]]
    """Job row to its task rows, in order of arrival."""
    queue_name: Sequence[str] = ()
    """The queue each job names, whether or not it exists."""
    metadata: Sequence[Metadata] = ()
    """Labels and annotations of each job: those of its pod group, else of the workload of its
    pods, or of its only pod."""
    top_owner: Sequence[TopOwner | None] = ()
    """What each job comes from; None for rows that were made without objects."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """Job row to what is wrong with its objects, if refused for it."""

    @property
    def title(self) -> Sequence[str]:
        """What people call each job, such as ``Job nlp/train``."""
        return Titles(self.name, self.top_owner)

    def owner_of(self, job: int) -> TopOwner | None:
        """Return what a job comes from; None for no job, and for rows made without objects."""
        return self.top_owner[job] if job >= 0 and self.top_owner else None

    @property
    def labels(self) -> Sequence[Mapping[str, str]]:
        """Labels of each job, see :attr:`metadata`."""
        return PartOfEach(self.metadata, "labels")

    @property
    def annotations(self) -> Sequence[Mapping[str, str]]:
        """Annotations of each job, see :attr:`metadata`."""
        return PartOfEach(self.metadata, "annotations")

    @property
    def preemption_delay_s(self) -> FloatVec:
        """``(J,)`` seconds a job waits before it may cause evictions, 0 by default."""
        return self.rare[:, DELAY]

    @property
    def is_never_preempting(self) -> BoolVec:
        """``(J,)`` whether a pod of the job or its class has ``preemptionPolicy: Never``."""
        return self.rare[:, NEVER] > 0

    @property
    def last_evicted_s(self) -> FloatVec:
        """``(J,)`` when a pod of the job was last evicted, NaN if no eviction is known."""
        return self.rare[:, EVICTED]

    @property
    def staleness_grace_s(self) -> FloatVec:
        """``(J,)`` seconds a job may run below its minimum.

        NaN: the default of the shard; negative: for ever.
        """
        return self.rare[:, GRACE]

    @property
    def stale_since_s(self) -> FloatVec:
        """``(J,)`` since when a job runs below its minimum, by its object, or NaN."""
        return self.rare[:, STALE]

    @property
    def succeeded(self) -> FloatVec:
        """``(J,)`` pods of a job that succeeded and whose objects are still there."""
        return self.rare[:, SUCCEEDED]

    def workload_of(self, job: RowVec) -> IntVec:
        """Return ``(K,)`` TRAINING, INTERACTIVE or INFERENCE of job rows.

        Where a job says nothing: training if it is preemptible, else interactive.
        """
        said: IntVec = self.rare[job, WORKLOAD].astype(np.int64)
        said[said < 0] = np.where(self.is_preemptible[job], TRAINING, INTERACTIVE)[said < 0]
        return said


@record
class TaskTable:
    """Tasks (pods), other schedulers' pods included (``job_of_task`` -1). ``(T,)``."""

    name: Sequence[str]
    """``namespace/name``."""
    uid: Sequence[str]
    job_of_task: RowVec
    podset_of_task: RowVec
    shape_of_task: RowVec
    state: NDArray[np.int8]
    node_of_task: RowVec
    """-1 for none."""
    nominated_node: RowVec
    order_priority: IntVec
    """Label ``kai.scheduler/task-priority``; lowest possible where absent. Higher goes first."""
    created_s: FloatVec
    label_set_of_task: RowVec
    """Interned pod labels with namespace, for pod affinity."""


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Shapes: tasks of one shape ask for the same and obey the same constraints."""

    request: Amounts
    """``(R, S)`` what a task takes of its node, the pod slot included."""
    charge: Amounts
    """``(R, S)`` what a task counts in its queue: MIG instances also as parts of a GPU.

    The same array as ``request`` where no task differs. Memory of a GPU counts by the smallest card
    of the cluster: what tasks count on their nodes says ``kaisched.charges``."""
    constraints: Sequence[Constraints]
    by_card: MemoryCharges | None = None
    """What asking for memory counts on each card; None where all are equal."""


@dataclass(frozen=True, slots=True)
class LabelSets:
    """Interned (namespace, labels) of pods, for pod affinity."""

    namespace: Sequence[str] = ()
    labels: Sequence[Mapping[str, str]] = field(default_factory=tuple)


# -- disruption budgets ----------------------------------------------------------------------------

UNPROTECTED: Final = -1
SEVERAL: Final = -2
"""More than one budget selects the pod: the API refuses to evict it."""


@dataclass(frozen=True, slots=True, eq=False)
class DisruptionBudgets:
    """PodDisruptionBudgets, ``namespace/name``. Columns ``(B,)``; no rows where there are none."""

    name: tuple[str, ...]
    allowed: IntVec
    """How many pods may be evicted, less sent evictions that the budget does not show yet."""
    of_task: RowVec
    """``(T,)`` the budget that an eviction counts against; UNPROTECTED for none, SEVERAL for too
    many. ``(0,)`` without budgets."""

    def __len__(self) -> int:
        """Return B."""
        return len(self.name)


def _frozen(column: IntVec) -> IntVec:
    column.setflags(write=False)
    return column


NO_DISRUPTION_BUDGETS: Final = DisruptionBudgets(
    (), _frozen(np.empty(0, np.int64)), _frozen(np.empty(0, np.int64))
)
