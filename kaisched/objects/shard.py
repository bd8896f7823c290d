"""SchedulingShards: the nodes that a scheduler is responsible for, its policy, and checks of both.

KAI-Scheduler's names of plugins, actions, arguments and flags are mapped to ours or to a warning. A
name that is neither in a table here nor installed is an error of the plugin loader; no name is
skipped silently. docs/reference/kai-names.md shows the tables.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from kaisched.errors import ObjectError, join_path
from kaisched.objects.faults import (
    INT32_MAX,
    Fault,
    Path,
    did_you_mean,
    duration_faults,
    unit_faults,
)
from kaisched.objects.labels import LABEL_VALUE
from kaisched.objects.usage import UsageConfig, seconds_of, usage_faults
from kaisched.objects.wire import KubernetesObject, StrictWire
from kaisched.objects.workloads import WorkloadKind, kind_faults
from kaisched.units import UnitError, parse_duration

# -- KAI-Scheduler's names -------------------------------------------------------------------------


class Mapped(NamedTuple):
    """Our name (None: leave it out) and the warning for the administrator (None: no warning)."""

    name: str | None
    warning: str | None = None


class DefaultPlugin(NamedTuple):
    """A plugin of the default policy. A higher priority comes first, ties by name."""

    name: str
    priority: int
    weight: float = 1.0


class DefaultAction(NamedTuple):
    """An action of the default policy. A higher priority runs first, ties by name."""

    name: str
    priority: int


DEFAULT_PLUGINS: Final = (
    DefaultPlugin("predicates", 1900),
    DefaultPlugin("proportion", 1800),
    DefaultPlugin("priority", 1700),
    DefaultPlugin("nodeavailability", 1600, 1000.0),
    DefaultPlugin("resourcetype", 1500, 10.0),
    DefaultPlugin("preferences", 1400, 900.0),
    DefaultPlugin("elastic", 1300),
    DefaultPlugin("gang", 1200),
    DefaultPlugin("subgrouporder", 1000),
    DefaultPlugin("taskorder", 900),
    DefaultPlugin("minruntime", 600),
    DefaultPlugin("topology", 500),
    DefaultPlugin("binpack", 200, 9.0),
)
"""KAI's priorities of the plugins that KAI has; the weights keep the steps of its score ladder."""

TIME_BASED_FAIRSHARE: Final = "time-based-fairshare"
"""Part of proportion in KAI; both schedulers enable it if a shard names a usage store."""

GPU_SPREAD: Final = "gpu-spread"
"""KAI's ``gpuspread``; both schedulers enable it if a shard places GPUs by ``spread``."""

OTHER_PRIORITIES: Final = {TIME_BASED_FAIRSHARE: 1750, GPU_SPREAD: 300}
"""Priorities of plugins that a shard enables and that are off by default; any other has 0."""

DEFAULT_ACTIONS: Final = (
    DefaultAction("allocate", 500),
    DefaultAction("stalegang", 450),
    DefaultAction("drain", 440),
    DefaultAction("timelimit", 430),
    DefaultAction("reclaim", 300),
    DefaultAction("preempt", 200),
    DefaultAction("consolidate", 150),
)
"""What must go in any case goes before pods are chosen that make way for others.

A set of victims goes as a whole, so one that the server refuses again and again would hold those in
it that must go anyway. KAI's stalegang comes last, with 100; its consolidate, with 400, before
reclaim and preempt.
"""

ACTIONS: Final = tuple(action.name for action in DEFAULT_ACTIONS)

_KAI_ACTIONS: Final = {"consolidation": "consolidate", "stalegangeviction": "stalegang"}

_PACKED: Final = "shares of a GPU are packed without a plugin, unless gpu-spread is enabled"
_NODES_FIRST: Final = (
    "nodes with a shared GPU that has room come first without a plugin, unless GPUs are spread"
)
_SEARCH: Final = "the search for victims is part of the actions"
PLUGINS: Final = {
    "nodeplacement": Mapped("binpack"),
    "podaffinity": Mapped("preferences"),
    "kubeflow": Mapped(None, "taskorder handles the order of pods inside a job"),
    "ray": Mapped(None, "taskorder handles the order of pods inside a job"),
    "nominatednode": Mapped(None, "a pod's nominated node is kept without a plugin"),
    "gpupack": Mapped(None, _PACKED),
    "gpuspread": Mapped(GPU_SPREAD),
    "gpusharingorder": Mapped(None, _NODES_FIRST),
    "dynamicresources": Mapped(
        None, "claims on devices need no plugin, but resourceClaims: true in the shard"
    ),
    "snapshot": Mapped(None, "kaisched snapshot take records a cycle, and replays it"),
    "reflectjoborder": Mapped(None, "the order is not shown; kaisched plan says why a job waits"),
    "numa": Mapped(None, "NUMA zones are not predicted"),
    "sg-nodelocalgreedy": Mapped(None, _SEARCH),
    "sg-multinodegang": Mapped(None, _SEARCH),
}

_SPELLING: Final = "KAI spells it so; ours is reclaimerUtilizationMultiplier"
_ARGUMENTS: Final[dict[str, dict[str, Mapped]]] = {
    "proportion": {
        "relcaimerSaturationMultiplier": Mapped("reclaimerUtilizationMultiplier", _SPELLING),
        "reclaimerSaturationMultiplier": Mapped(
            "reclaimerUtilizationMultiplier", "ours is reclaimerUtilizationMultiplier"
        ),
    },
}


SETTINGS_IN_ARGUMENTS: Final = {"kValue": ("proportion", "kValue")}
"""Shard settings that KAI takes from an argument of a plugin."""


def map_plugin(name: str, installed: Container[str] = ()) -> Mapped:
    """Map a plugin name in a shard to ours.

    A name that is installed, or that is not KAI's, stays as it is.
    """
    mapped = PLUGINS.get(name)
    if mapped is None or name in installed:
        return Mapped(name)
    if mapped.name is None:
        return Mapped(None, f'plugin "{name}" is left out: {mapped.warning}')
    return mapped


def map_action(name: str) -> Mapped:
    """Map an action name in a shard to ours; a name that is no action gets a warning."""
    ours = _KAI_ACTIONS.get(name, name)
    return Mapped(ours) if ours in ACTIONS else Mapped(None, f'there is no action "{name}"')


def map_arguments(plugin: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a plugin's arguments under our names, with warnings.

    If a KAI name and ours are both given, ours counts.
    """
    table = _ARGUMENTS.get(plugin, {})
    mapped: dict[str, Any] = {}
    warnings: list[str] = []
    for name, value in arguments.items():
        ours = table.get(name, Mapped(name))
        if ours.warning is not None:
            warnings.append(f'argument "{name}" of plugin "{plugin}": {ours.warning}')
        key = ours.name or name
        if key == name or key not in arguments:
            mapped[key] = value
    return mapped, warnings


def known_actions() -> tuple[str, ...]:
    """Return all action names, ours and KAI's."""
    return (*ACTIONS, *_KAI_ACTIONS)


# -- the object ------------------------------------------------------------------------------------

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


BUDGETS_ALWAYS: Final = "always"
BUDGETS_WITHIN_FAIR_SHARE: Final = "withinFairShare"
BUDGETS: Final = (BUDGETS_ALWAYS, "withinQuota", BUDGETS_WITHIN_FAIR_SHARE)


LEAST_GPU_SHARE: Final = 0.05


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
    disruption_budgets: str | None = None
    """When PodDisruptionBudgets hold against jobs that evict: ``always``, ``withinQuota``,
    ``withinFairShare`` (also for None), or until the job has waited for a duration."""
    workloads: list[WorkloadKind] = []
    """Kinds of workload whose pods are grouped, beside those that are known."""
    owner_wait: str | int | None = None
    """How long a pod waits for an owner that cannot be read yet; None for two minutes."""
    queue_use_policy: bool = False
    """Whether pods, owners and groups have to name one queue, for whose use an admission policy
    asks their authors."""
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
    least_gpu_share: int | float = LEAST_GPU_SHARE
    """How much of a GPU a part of one counts at least in its queue."""
    resource_claims: bool = False
    """Whether claims on devices are allocated on a cluster; without it their pods wait."""
    gpu_resources: list[str] = msgspec.field(default_factory=lambda: list(GPU_RESOURCES))


class SchedulingShard(KubernetesObject, frozen=True, kw_only=True):
    """A node pool and its policy."""

    API_VERSION = "kai.scheduler/v1"
    KIND = "SchedulingShard"
    IS_NAMESPACED = False

    spec: ShardSpec

    @property
    def share_class(self) -> str:
        """The class of devices of which shares of GPUs are claims; empty where they are none."""
        return "" if self.spec.gpu_sharing is None else self.spec.gpu_sharing.device_class

    @property
    def least_share(self) -> int:
        """Thousandths of a GPU that a part of one counts at least in its queue."""
        return round(1000 * self.spec.least_gpu_share)

    @property
    def deletes_victims(self) -> bool:
        """Whether victims may go past their disruption budgets."""
        return self.spec.disruption_budgets != BUDGETS_ALWAYS

    @property
    def has_reservations(self) -> bool:
        """Whether reservation pods hold the GPUs that pods share."""
        return self.spec.gpu_sharing is not None and not self.share_class

    @property
    def writes_lookups(self) -> bool:
        """Whether ConfigMaps are written in which pods look up their GPU."""
        sharing = self.spec.gpu_sharing
        return self.has_reservations and sharing is not None and sharing.config_maps


# -- flags -----------------------------------------------------------------------------------------

_SWITCHES: Final = {"true": True, "false": False}


def _grace(value: object) -> float:
    return parse_duration(value, allow_negative=True)


def _preemptees(value: object) -> int:
    text = str(value)
    is_whole = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    if not is_whole or not -1 <= int(text[:20]) <= INT32_MAX:
        fix = "write how many jobs may be moved at most; 0 for none, -1 for no bound"
        raise UnitError(f"{text[:40]!r} is no number of jobs", fix)
    return int(text)


def _switch(value: object) -> bool:
    text = str(value).lower()
    if text not in _SWITCHES:
        raise UnitError(f"{text[:40]!r} is neither true nor false", "write true or false")
    return _SWITCHES[text]


def _fairness(value: object) -> str:
    return "hierarchy" if _switch(value) else "projects"


HIERARCHY: Final = "full-hierarchy-fairness"
"""KAI's flag for what the setting ``fairness`` says here."""
ARGS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    HIERARCHY: ("fairness", _fairness),
    "default-staleness-grace-period": ("staleness_grace_s", _grace),
    "stuck-in-releasing-threshold": ("stuck_after_s", _grace),
    "max-consolidation-preemptees": ("max_consolidation_preemptees", _preemptees),
    "allow-consolidating-reclaim": ("allows_consolidating_reclaim", _switch),
}
"""Field of our policy for each of KAI's flags, and the function that reads its value."""


def args_faults(args: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of the flags that are read."""
    for name, (_, parse) in ARGS.items():
        if name in args:
            yield from unit_faults(("spec", "args", name), args[name], parse)


def read_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Read the flags as fields of a policy.

    Raises:
        ObjectError: for the first invalid flag.

    """
    fields: dict[str, Any] = {}
    for name, (field, parse) in ARGS.items():
        if name in args:
            try:
                fields[field] = parse(args[name])
            except UnitError as error:
                path = join_path("spec", "args", name)
                raise ObjectError(str(error), path=path, fix=error.fix) from None
    return fields


# -- when disruption budgets hold ------------------------------------------------------------------


def read_disruption_budgets(value: object) -> str | float:
    """Return when disruption budgets hold: a word, or for how many seconds.

    Raises:
        UnitError: it is neither.

    """
    if isinstance(value, str) and value in BUDGETS:
        return value
    try:
        return parse_duration(value)
    except UnitError as error:
        words = ", ".join(BUDGETS)
        raise UnitError(str(error), f"write {words}, or a duration such as 30m") from None


# -- checks ----------------------------------------------------------------------------------------

MAX_K: Final = 1e6
_GENERATORS: Final = ("NodeLocalGreedy", "MultiNodeGang")
RESOURCE_NAME: Final = re.compile(r"[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-\w.]*", re.ASCII)
CLASS_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)
_NO_EFFECT: Final = "has no effect here"


def shard_faults(shard: SchedulingShard) -> Iterator[Fault]:
    """Yield the faults of a shard; settings that are accepted but without effect are warnings."""
    spec = shard.spec
    if not LABEL_VALUE.fullmatch(spec.partition_label_value):
        yield Fault(
            ("spec", "partitionLabelValue"),
            "no label value",
            spec.partition_label_value,
            "write at most 63 letters, digits, hyphens, dots and underscores",
        )
    yield from _k_faults(spec.k_value)
    yield from _gpu_faults(spec.gpu_resources)
    least = spec.least_gpu_share
    if not (math.isfinite(least) and 0 <= least <= 1):
        fix = "write a part of a GPU from 0 to 1, such as 0.05"
        yield Fault(("spec", "leastGpuShare"), "out of range", least, fix)
    if spec.gpu_sharing is not None:
        yield from _sharing_faults(spec, spec.gpu_sharing)
    yield from _plugin_faults(spec)
    yield from kind_faults(spec.workloads, ("spec", "workloads"))
    yield from _action_faults(spec)
    yield from _eviction_faults(spec)
    yield from duration_faults(
        {
            ("spec", "ownerWait"): spec.owner_wait,
            ("spec", "poolDwell"): spec.pool_dwell,
            ("spec", "poolPatience"): spec.pool_patience,
            ("spec", "minRuntime", "preemptMinRuntime"): spec.min_runtime.preempt_min_runtime,
            ("spec", "minRuntime", "reclaimMinRuntime"): spec.min_runtime.reclaim_min_runtime,
        }
    )
    if spec.usage_db_config is not None:
        yield from usage_faults(spec.usage_db_config)
    if spec.scenario_search_budgets is not None:
        yield from _budget_faults(spec.scenario_search_budgets)
    yield from args_faults(spec.args)
    if spec.fairness is not None and HIERARCHY in spec.args:
        fix = "keep one of the two"
        yield Fault(("spec", "args", HIERARCHY), "says the same as spec.fairness", fix=fix)
    if spec.args.keys() - ARGS.keys():
        fix = f"only {', '.join(ARGS)} have; set the daemon's own settings instead"
        yield Fault(("spec", "args"), _NO_EFFECT, fix=fix, is_warning=True)
    if spec.go_mem_limit_ratio is not None:
        yield Fault(("spec", "goMemLimitRatio"), _NO_EFFECT, fix="drop it", is_warning=True)


def _k_faults(k: float | None) -> Iterator[Fault]:
    path: Path = ("spec", "kValue")
    if k is not None and not (math.isfinite(k) and 0 <= k <= MAX_K):
        yield Fault(path, "out of range", k, "write a number from 0 (no correction) to 1e6")


def _gpu_faults(names: list[str]) -> Iterator[Fault]:
    path: Path = ("spec", "gpuResources")
    if not names:
        yield Fault(path, "empty", fix='leave it out, or list names such as "nvidia.com/gpu"')
    for at, name in enumerate(names):
        if not RESOURCE_NAME.fullmatch(name):
            fix = 'write a name such as "nvidia.com/gpu"'
            yield Fault((*path, at), "no extended resource name", name, fix)
        elif name in names[:at]:
            yield Fault((*path, at), "given twice", name, "keep one of the two")


def _sharing_faults(spec: ShardSpec, sharing: GpuSharing) -> Iterator[Fault]:
    """Yield what is wrong with how GPUs are shared: there is one way for a shard."""
    path: Path = ("spec", "gpuSharing")
    name = sharing.device_class
    if not name and not sharing.image:
        fix = "name the image of the agent in reservation pods, or a deviceClass of a DRA driver"
        yield Fault((*path, "image"), "missing", fix=fix)
        return
    if name and sharing.image:
        fix = "keep image where GPUs come from a device plugin, deviceClass for a DRA driver"
        yield Fault((*path, "deviceClass"), "does not go with image", name, fix)
        return
    backend = "claim" if name else "reservation"
    if sharing.backend not in (None, backend):
        fix = f"write {backend}, or leave it out"
        what = f"does not go with {'deviceClass' if name else 'image'}"
        yield Fault((*path, "backend"), what, sharing.backend, fix)
    if not name:
        if sharing.cdi_names and not sharing.config_maps:
            fix = "set configMaps: true, or drop it: it is about these ConfigMaps alone"
            yield Fault((*path, "cdiNames"), _NO_EFFECT, fix=fix, is_warning=True)
        return
    yield from _share_claim_faults(spec, sharing)


def _share_claim_faults(spec: ShardSpec, sharing: GpuSharing) -> Iterator[Fault]:
    """Yield what is wrong where shares are claims."""
    path: Path = ("spec", "gpuSharing")
    name = sharing.device_class
    if sharing.runtime_class:
        fix = "drop it: there are no reservation pods"
        yield Fault((*path, "runtimeClass"), "goes with image", sharing.runtime_class, fix)
    if sharing.config_maps or sharing.cdi_names:
        key = "configMaps" if sharing.config_maps else "cdiNames"
        fix = "drop it: where a share is a claim, containers get their device by it"
        yield Fault((*path, key), "goes with image", fix=fix)
    if not CLASS_NAME.fullmatch(name):
        yield Fault(
            (*path, "deviceClass"), "no name of a class", name, "write one such as gpu.nvidia.com"
        )
    elif "gpu" not in name:
        fix = "classes of GPUs have gpu in their name: name one of these"
        what = "shares of this class count in no queue"
        yield Fault((*path, "deviceClass"), what, name, fix, is_warning=True)
    if not spec.resource_claims:
        fix = "set it to true: with deviceClass a share of a GPU is a claim"
        yield Fault(("spec", "resourceClaims"), "not set", fix=fix)


def _plugin_faults(spec: ShardSpec) -> Iterator[Fault]:
    for name, entry in spec.plugins.items():
        path: Path = ("spec", "plugins", name)
        if entry.weight is not None and not (math.isfinite(entry.weight) and entry.weight >= 0):
            fix = "write a number of at least 0"
            yield Fault((*path, "weight"), "no weight", entry.weight, fix)
        yield from _priority_faults((*path, "priority"), entry.priority)
        ours = map_plugin(name).name
        if ours is not None and ours != name and ours in spec.plugins:
            fix = "keep one of the two"
            yield Fault(path, f'conflicts with "{ours}", which is the same plugin', fix=fix)


def _action_faults(spec: ShardSpec) -> Iterator[Fault]:
    for name, entry in spec.actions.items():
        path: Path = ("spec", "actions", name)
        yield from _action_name_faults(path, name, spec.actions)
        yield from _priority_faults((*path, "priority"), entry.priority)
    for name, depth in spec.queue_depth_per_action.items():
        path = ("spec", "queueDepthPerAction", name)
        yield from _action_name_faults(path, name, spec.queue_depth_per_action)
        if not 1 <= depth <= INT32_MAX:
            fix = "write at least 1, or leave it out for no bound"
            yield Fault(path, "out of range", depth, fix)


def _action_name_faults(path: Path, name: str, beside: Mapping[str, Any]) -> Iterator[Fault]:
    ours = map_action(name).name
    if ours is None:
        yield Fault(path, "no such action", fix=did_you_mean(name, list(ACTIONS)))
    elif ours != name and ours in beside:
        fix = "keep one of the two"
        yield Fault(path, f'conflicts with "{ours}", which is the same action', fix=fix)


def _eviction_faults(spec: ShardSpec) -> Iterator[Fault]:
    most = spec.evictions_per_hour
    if most is not None and not 0 <= most <= INT32_MAX:
        fix = "write 0 for no eviction ever, or leave it out for no bound"
        yield Fault(("spec", "evictionsPerHour"), "out of range", most, fix)
    most = spec.max_evictions_per_cycle
    if most is not None and not 1 <= most <= INT32_MAX:
        fix = f"write at least 1, or leave it out for {MAX_EVICTIONS_PER_CYCLE}"
        yield Fault(("spec", "maxEvictionsPerCycle"), "out of range", most, fix)
    if spec.disruption_budgets is not None:
        path: Path = ("spec", "disruptionBudgets")
        yield from unit_faults(path, spec.disruption_budgets, read_disruption_budgets)


def _priority_faults(path: Path, priority: int | None) -> Iterator[Fault]:
    if priority is not None and abs(priority) > INT32_MAX:
        yield Fault(path, "out of range", priority, "write at most 2^31 - 1")


def _budget_faults(budgets: SearchBudgets) -> Iterator[Fault]:
    path: Path = ("spec", "scenarioSearchBudgets")
    longest, shortest = budgets.max_job_search_duration, budgets.min_job_search_duration
    durations: dict[Path, str | int | None] = {
        (*path, "maxJobSearchDuration"): longest,
        (*path, "minJobSearchDuration"): shortest,
    }
    for action, text in (budgets.max_action_search_duration or {}).items():
        durations[*path, "maxActionSearchDuration", action] = text
        yield from _action_name_faults((*path, "maxActionSearchDuration", action), action, {})
    for generator, text in (budgets.max_generator_search_duration or {}).items():
        durations[*path, "maxGeneratorSearchDuration", generator] = text
        if generator not in _GENERATORS:
            fix = did_you_mean(generator, _GENERATORS)
            where = (*path, "maxGeneratorSearchDuration", generator)
            yield Fault(where, "no such generator", fix=fix)
    yield from duration_faults(durations)
    least, most = seconds_of(shortest), seconds_of(longest)
    if least and most and least >= most:
        fix = "write less than maxJobSearchDuration"
        yield Fault((*path, "minJobSearchDuration"), "not below the maximum", shortest, fix)
    fix = "drop it: searches here are bounded in steps, not in seconds"
    yield Fault(path, _NO_EFFECT, fix=fix, is_warning=True)
