"""Pod groups: jobs whose pods start together or not at all."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, ClassVar

from kaisched.objects.wire import Condition, KubernetesObject, StrictWire, Wire


class TopologyConstraint(StrictWire, frozen=True, kw_only=True):
    """Keep the pods within one domain of a Topology's level."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroupSpec(StrictWire, frozen=True, kw_only=True):
    """A part of a job: a leaf counts pods, an inner one counts its children."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str = ""
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(StrictWire, frozen=True, kw_only=True):
    """Needs and treatment of a job."""

    min_member: int | None = None
    """Pods needed to start; by default 1 (without subgroups)."""
    min_sub_group: int | None = None
    """Top-level subgroups needed; by default all of them."""
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    """``preemptible``, ``non-preemptible``, or empty: preemptible if the priority is below 100."""
    topology_constraint: TopologyConstraint | None = None
    sub_groups: list[SubGroupSpec] = []
    mark_unschedulable: bool = True
    scheduling_backoff: int = -1
    preemption_delay: str | int | None = None
    staleness_grace_period: str | int | None = None
    """Negative: never evicted as stale."""


class PodGroupStatus(Wire, frozen=True, kw_only=True):
    """Last report on the job."""

    conditions: list[Condition] = []
    scheduling_conditions: list[dict[str, Any]] = []
    """Why node pools could not take the job, whole: entries of other pools are written back."""
    resources_status: Any = None
    """Conditions as stored, unchecked."""


class PodGroup(KubernetesObject, frozen=True, kw_only=True):
    """A job."""

    API_VERSION: ClassVar[str] = "scheduling.run.ai/v2alpha2"
    KIND: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec
    status: PodGroupStatus = PodGroupStatus()
