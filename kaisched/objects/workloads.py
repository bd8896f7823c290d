"""Table of workloads: which pods of which kind are one gang.

Each kind has one row. A plugin adds rows by the question ``workloads``.
:mod:`kaisched.objects.gang_sizes` reads the gang off an object.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kaisched.objects.pod_sets import PodSetTopology
from kaisched.objects.podgroup import SubGroupSpec, TopologyConstraint
from kaisched.objects.segments import Segments
from kaisched.objects.wire import StrictWire

Grouping = Literal["together", "each", "through"]


class Gang(StrictWire, frozen=True, kw_only=True):
    """How the pods of one workload start, by its spec."""

    minimum: int = 1
    """Pods that must start together, at least 1; ignored if there are subgroups."""
    sub_groups: list[SubGroupSpec] = []
    """Subgroups as in a PodGroup; the row's ``subgroup_labels`` give the names of leaves."""
    min_sub_group: int | None = None
    """Top-level subgroups needed; by default all of them."""
    pod_sets: dict[str, PodSetTopology] = {}
    """By top-level subgroup, where its pods are to be together by Kueue's annotations."""
    topology_constraint: TopologyConstraint | None = None
    """Of all pods; by default what annotations of the owners say."""
    segments: dict[str, Segments] = {}
    """By subgroup, how its pods are divided by the row's ``segment_label``; ``sub_groups`` has the
    parts."""
    node_label: str = ""
    """Label of nodes: the pods are only on nodes with one and the same value of it."""
    is_leader_first: bool = False
    """Whether the first pod starts alone, since the others are created once it runs."""
    is_each: bool = False
    """Whether each pod is a job of its own, whatever the row says."""
    priority_class: str = ""
    unsupported: str = ""
    """What the workload requests that is not supported."""


Read: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], Gang]
"""Reads a workload's spec and annotations, which may be anything; never raises."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Grouping of the pods of one kind of workload."""

    api_version: str
    """Listed group and version; an owner reference matches by its group alone."""
    plural: str
    kind: str
    pods: Grouping = "together"
    """``together``: one job; ``each``: one job each; ``through``: as the next owner says. Labels
    of owners count in all three cases."""
    read: Read | None = None
    """Reads the gang from the object; without it only metadata are listed, and 1 pod starts."""
    priority_class: str = ""
    """Default priority class."""
    priority_label: str = ""
    """Label that names the priority class, beside ``priorityClassName``."""
    index_label: str = ""
    """Label of the pods; each of its values is a job of its own."""
    subgroup_labels: tuple[str, ...] = ()
    """Labels of the pods whose values, joined by ``/``, name the pod's subgroup."""
    name_label: str = ""
    """Label of the pods that names the object, in their namespace; then no owner counts."""
    segment_label: str = ""
    """Label of the pods with their index, by which segments are counted."""
    size_annotation: str = ""
    """Annotation of the pods that says the minimum before ``read`` does."""
    other_versions: tuple[str, ...] = ()
    """API versions to try in order if ``api_version`` is not served."""

    @property
    def api_group(self) -> str:
        """The group of the API version."""
        return self.api_version.rpartition("/")[0]


Table: TypeAlias = Mapping[tuple[str, str], Workload]
"""Rows by (API group, kind)."""


def table_of(rows: Iterable[Workload]) -> dict[tuple[str, str], Workload]:
    """Return the rows by group and kind; the first row for a kind counts."""
    table: dict[tuple[str, str], Workload] = {}
    for row in rows:
        table.setdefault((row.api_group, row.kind), row)
    return table


MOST: Final = 100_000
"""A workload that needs more pods than this counts as a mistake."""
