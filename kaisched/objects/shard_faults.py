"""Checks of a SchedulingShard on its own.

The plugin loader checks which plugins exist and what their arguments are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kaisched.objects.faults import (
    INT32_MAX,
    Fault,
    Path,
    did_you_mean,
    duration_faults,
)
from kaisched.objects.kai_names import ACTIONS, map_action, map_plugin
from kaisched.objects.labels import LABEL_VALUE
from kaisched.objects.shard import (
    MAX_EVICTIONS_PER_CYCLE,
    GpuSharing,
    SchedulingShard,
    SearchBudgets,
    ShardSpec,
)
from kaisched.objects.shard_args import ARGS, args_faults
from kaisched.objects.usage_faults import seconds_of, usage_faults

MAX_K: Final = 1e6
_GENERATORS: Final = ("NodeLocalGreedy", "MultiNodeGang")
_RESOURCE_NAME: Final = re.compile(r"[a-z0-9][-a-z0-9.]*/[A-Za-z0-9][-\w.]*", re.ASCII)
_CLASS_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?", re.ASCII)
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
    if spec.gpu_sharing is not None:
        yield from _sharing_faults(spec, spec.gpu_sharing)
    yield from _plugin_faults(spec)
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
        if not _RESOURCE_NAME.fullmatch(name):
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
    if not _CLASS_NAME.fullmatch(name):
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
