"""The snapshot: everything one cycle decides on, frozen.

Made by a snapshot source (the state store), read by the session. All arrays are unwritable. What
queues and nodes hold is summed up once, when the snapshot is made, so a cycle never sums tasks.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from kaisched.core.claims.table import ClaimTable
from kaisched.core.disruption_budgets import NO_DISRUPTION_BUDGETS, DisruptionBudgets
from kaisched.core.divided import divided
from kaisched.core.marks import mark_of
from kaisched.core.record import record
from kaisched.core.tables import LabelSets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import Amounts, ResourceAxis, RowVec
    from kaisched.core.marks import Mark
    from kaisched.core.tables import (
        JobTable,
        NodeTable,
        PodSetTable,
        QueueTable,
        ShapeTable,
        TaskTable,
    )


@record
class Snapshot:
    """One frozen view of a shard.

    ``(R, Q)`` columns count tasks at the *leaf* they belong to, inner queues zero; the session
    rolls them up.
    """

    axis: ResourceAxis
    nodes: NodeTable
    queues: QueueTable
    jobs: JobTable
    podsets: PodSetTable
    tasks: TaskTable
    shapes: ShapeTable
    allocated: Amounts
    """Tasks in an allocated state."""
    allocated_non_preemptible: Amounts
    pending: Amounts
    """Requests of pending tasks that are not gated; requested = allocated + pending."""
    generation: int
    """Row numbers keep their meaning within one generation."""
    revision: int
    """Grows with every event that the store takes in."""
    label_sets: LabelSets = field(default_factory=LabelSets)
    evictions_s: tuple[float, ...] = ()
    """When pods were evicted by this shard, in the last hour before the newest of them."""
    disruption_budgets: DisruptionBudgets = NO_DISRUPTION_BUDGETS
    overdrawn: Amounts | None = None
    """``(R, Q)`` what the project of each leaf holds in other node pools beyond its quotas there;
    None if no project does."""
    claims: ClaimTable | None = None
    """Devices and claims on them; None while no pod has a claim."""
    _total: Amounts | None = field(default=None, init=False)

    @property
    def total(self) -> Amounts:
        """``(R,)`` what is divided, worked out when it is first read."""
        if self._total is None:
            self._total = divided(self)  # type: ignore[misc] # once, to one value
        return self._total

    def mark(self, *names: str) -> Mark:
        """Return a mark of columns such as ``jobs.pending``, to compare a later snapshot."""
        return mark_of(self, *names)

    def unchanged_since(self, mark: Mark | None) -> int:
        """Return how many first rows of the marked columns are unchanged; 0 without a mark.

        Also return 0 if that would need a comparison row by row.
        """
        return 0 if mark is None else mark.unchanged_in(self)

    def changed_since(self, mark: Mark) -> Iterator[tuple[str, RowVec]]:
        """Yield the marked columns with changed rows, and those rows.

        Row numbers mean the same within a :attr:`generation` only.
        """
        return mark.changed_in(self)
