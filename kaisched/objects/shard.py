"""SchedulingShards: the nodes that a scheduler is responsible for, and its policy."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import msgspec

from kaisched.objects.usage import UsageConfig
from kaisched.objects.wire import KubernetesObject, StrictWire

GPU_RESOURCES: Final = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "habana.ai/gaudi",
)
"""Resource names that count whole GPUs, unless the shard lists others."""

MAX_EVICTIONS_PER_CYCLE: Final = 2_000
"""What the daemon sends in four seconds, unless its settings say otherwise."""

Placement = Literal["binpack", "spread"]


class PlacementStrategy(StrictWire, frozen=True, kw_only=True):
    """Pack nodes full, or spread over them; None for the default (binpack)."""

    gpu: Placement | None = None
    cpu: Placement | None = None


class MinRuntime(StrictWire, frozen=True, kw_only=True):
    """How long a job is protected after its start, unless its queue says otherwise."""

    preempt_min_runtime: str | int | None = None
    reclaim_min_runtime: str | int | None = None


class SearchBudgets(StrictWire, frozen=True, kw_only=True):
    """KAI's search budgets in time; ours count steps, so these only cause warnings."""

    max_action_search_duration: dict[str, str | int] | None = None
    max_job_search_duration: str | int | None = None
    min_job_search_duration: str | int | None = None
    max_generator_search_duration: dict[str, str | int] | None = None


class PluginEntry(StrictWire, frozen=True, kw_only=True):
    """Settings of a plugin. None keeps the default; ``arguments`` replaces all of them."""

    enabled: bool | None = None
    priority: int | None = None
    weight: int | float | None = None
    """Factor of its scores, at least 0."""
    arguments: dict[str, Any] | None = None


class ActionEntry(StrictWire, frozen=True, kw_only=True):
    """Settings of an action. None keeps the default."""

    enabled: bool | None = None
    priority: int | None = None


class GpuSharing(StrictWire, frozen=True, kw_only=True):
    """How a pod's share of a GPU reaches its containers."""

    backend: Literal["reservation", "claim"] | None = None
    """``reservation``: a pod for each shared GPU takes it from the device plugin, and tells which
    it got. ``claim``: a share is a claim on a part of a device. None for the one that is set up."""
    image: str = ""
    """Image of that pod: an agent that writes the UUID of its GPU on its own pod."""
    runtime_class: str = ""
    """Runtime class of that pod; empty for the nodes' default."""
    config_maps: bool = False
    """Whether the ConfigMaps are written in which pods look up their GPU that KAI-Scheduler's
    webhook has changed; without it such pods wait."""
    cdi_names: bool = False
    """Whether these name GPUs as the device plugin does where it uses CDI."""
    device_class: str = ""
    """Class of the devices of which claims may have parts."""


class ShardSpec(StrictWire, frozen=True, kw_only=True):
    """A shard's nodes and policy."""

    partition_label_value: str = ""
    placement_strategy: PlacementStrategy = PlacementStrategy()
    args: dict[str, Any] = {}
    queue_depth_per_action: dict[str, int] = {}
    min_runtime: MinRuntime = MinRuntime()
    k_value: int | float | None = None
    usage_db_config: UsageConfig | None = msgspec.field(default=None, name="usageDBConfig")
    scenario_search_budgets: SearchBudgets | None = None
    go_mem_limit_ratio: int | float | None = None
    plugins: dict[str, PluginEntry] = {}
    actions: dict[str, ActionEntry] = {}
    over_quota_weights: Literal["equal", "quota"] | None = None
    fairness: Literal["hierarchy", "projects"] | None = None
    """Whether departments divide the cluster first (``hierarchy``, also for None), or all leaf
    queues are siblings."""
    quota_scope: Literal["project", "pool"] | None = None
    """Whether non-preemptible work must be within the sum of its project's quotas over all pools
    too (``project``, also for None), or within the quota in its pool alone."""
    evictions_per_hour: int | None = None
    """Most pods evicted in any hour; 0 for no evictions, None for no bound."""
    max_evictions_per_cycle: int | None = None
    """After so many evictions a cycle begins no further one; None for what is sent in 4 s."""
    owner_wait: str | int | None = None
    """How long a pod waits for an owner that cannot be read yet; None for two minutes."""
    admits_all_projects: bool = False
    """Whether projects without a queue in this node pool count as queues with a quota of 0."""
    pool_dwell: str | int | None = None
    """How long a job with a list of pools waits here before the next is tried; None for 10 s."""
    pool_patience: str | int | None = None
    """How long such a job waits beyond that until it may evict here; None for not at all."""
    pool_order: Literal["strict", "idleFirst"] = "strict"
    """``idleFirst``: a job with a list may evict here only after it was refused in every pool."""
    gpu_sharing: GpuSharing | None = None
    """How pods share GPUs; None: pods that ask for a share wait."""
    resource_claims: bool = False
    """Whether claims on devices are allocated on a cluster; without it their pods wait."""
    gpu_resources: list[str] = msgspec.field(default_factory=lambda: list(GPU_RESOURCES))


class SchedulingShard(KubernetesObject, frozen=True, kw_only=True):
    """A node pool and its policy."""

    API_VERSION: ClassVar[str] = "kai.scheduler/v1"
    KIND: ClassVar[str] = "SchedulingShard"
    IS_NAMESPACED: ClassVar[bool] = False

    spec: ShardSpec

    @property
    def share_class(self) -> str:
        """The class of devices of which shares of GPUs are claims; empty where they are none."""
        return "" if self.spec.gpu_sharing is None else self.spec.gpu_sharing.device_class

    @property
    def has_reservations(self) -> bool:
        """Whether reservation pods hold the GPUs that pods share."""
        return self.spec.gpu_sharing is not None and not self.share_class

    @property
    def writes_lookups(self) -> bool:
        """Whether ConfigMaps are written in which pods look up their GPU."""
        sharing = self.spec.gpu_sharing
        return self.has_reservations and sharing is not None and sharing.config_maps
