"""The table of workloads: which pods of which kind are one gang.

One row a kind. A plugin adds rows by the question ``workloads``. What a row does not say is read
off the object by :mod:`kaisched.objects.gang_sizes`.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.wire import StrictWire

Grouping = Literal["together", "each", "through"]


class Gang(StrictWire, frozen=True, kw_only=True):
    """What the spec of one workload says about how its pods start."""

    minimum: int = 1
    """Pods that must start together, at least 1; without effect where there are subgroups."""
    sub_groups: list[SubGroupSpec] = []
    """As a PodGroup has them; names of leaves are what the row's ``subgroup_labels`` make."""
    min_sub_group: int | None = None
    """Top-level subgroups needed; left out, all of them."""
    is_leader_first: bool = False
    """The first pod starts alone: the others are not made before it runs."""
    is_each: bool = False
    """Each pod is a job of its own, whatever the row says."""
    priority_class: str = ""
    unsupported: str = ""
    """What it asks for that is not offered."""


Read: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], Gang]
"""From the spec and the annotations of a workload, which may be anything; never raises."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How the pods of one kind of workload are grouped."""

    api_version: str
    """Group and version that are listed; an owner reference counts by its group alone."""
    plural: str
    kind: str
    pods: Grouping = "together"
    """``together``: one job; ``each``: a job each; ``through``: as the owner below says. Labels of
    owners count in all three."""
    read: Read | None = None
    """Reads the gang off the object; without it only metadata are asked for, and 1 pod starts."""
    priority_class: str = ""
    """Where nobody names one."""
    priority_label: str = ""
    """Label that names the priority class, beside ``priorityClassName``."""
    index_label: str = ""
    """Label of the pods; those of each value are a job of their own."""
    subgroup_labels: tuple[str, ...] = ()
    """Labels of the pods whose values, joined by ``/``, name the pod's subgroup."""
    size_annotation: str = ""
    """Annotation of the pods that says the minimum before ``read`` does."""
    other_versions: tuple[str, ...] = ()
    """API versions to look under where ``api_version`` is not served, in order."""

    @property
    def api_group(self) -> str:
        """The group of the API version."""
        return self.api_version.rpartition("/")[0]


Table: TypeAlias = Mapping[tuple[str, str], Workload]
"""Rows by (API group, kind)."""


def table_of(rows: Iterable[Workload]) -> dict[tuple[str, str], Workload]:
    """Return the rows by group and kind; of several for one kind the first counts."""
    table: dict[tuple[str, str], Workload] = {}
    for row in rows:
        table.setdefault((row.api_group, row.kind), row)
    return table


MOST: Final = 100_000
"""A workload that says it needs more pods than this is taken for a mistake."""
MOST_SUBGROUPS: Final = 10_000
"""The same of subgroups; KAI-Scheduler's bound of segments."""
