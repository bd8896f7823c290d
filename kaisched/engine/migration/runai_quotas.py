"""One project or department of Run:ai: its quotas by pool, its weights, ranks and rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from kaisched.engine.migration.parts import Part, Reasons, Told
from kaisched.engine.migration.reading import Item
from kaisched.engine.migration.runai_nodes import read_node_types
from kaisched.objects.queue import WEIGHT_NAMES
from kaisched.objects.wire import WORKLOAD_TYPES

_DEFAULT: Final = "default"
_UNLIMITED: Final = -1
_MEGABYTES: Final = {
    "mib": 1.048576,
    "mb": 1.0,
    "gib": 1073.741824,
    "gb": 1000.0,
}
"""Megabytes (10^6 bytes) of each unit of memory; Run:ai spells them in several ways."""
_RANKS: Final = {
    "verylow": 97,
    "low": 98,
    "mediumlow": 100,
    "medium": 100,
    "normal": 100,
    "mediumhigh": 101,
    "high": 102,
    "veryhigh": 103,
}
"""Priority of a queue for each rank; who says nothing is at the middle."""
_RECORD: Final = "it tells of the export, and is no rule"
_ROLES: Final = "who may use a queue is said by roles: queueUsePolicy in the chart"
_IDLE: Final = "whether a GPU is idle is not measured; maxRunTime limits run times"
_UNIT: Final[Reasons] = {
    **dict.fromkeys(
        (
            "id",
            "kind",
            "clusterId",
            "clusterUuid",
            "clusterName",
            "tenantId",
            "createdAt",
            "createdBy",
            "updatedAt",
            "updatedBy",
            "deletedAt",
            "phase",
            "status",
            "effective",
            "effectiveNodePools",
            "isDeleted",
            "parent",
            "totalResources",
            "overtimeData",
        ),
        _RECORD,
    ),
    "description": "a queue has no description; displayName is a name for people",
    "permissions": _ROLES,
    "subjects": _ROLES,
    "namespace": "the label kai.scheduler/queue of pods says which queue they are in",
    "requestedNamespace": "the label kai.scheduler/queue of pods says which queue they are in",
    "enforceRunaiScheduler": "pods say by schedulerName who schedules them",
    "interactiveJobMaxIdleDurationSecs": _IDLE,
    "trainingJobMaxIdleDurationSecs": _IDLE,
    "interactivePreemptibleJobMaxIdleDurationSecs": _IDLE,
}
_RULES: Final[Reasons] = {
    "interactiveJobMaxIdleDurationSeconds": _IDLE,
    "interactiveJobPreemptIdleDurationSeconds": _IDLE,
    "trainingJobMaxIdleDurationSeconds": _IDLE,
}


@dataclass(slots=True)
class Unit:
    """A project or department, as read."""

    part: Part
    is_project: bool
    name: str
    id: str
    parent: str
    queue: str
    """Name of its queue in the pool ``default``."""
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Resources of its queue by pool."""
    priorities: dict[str, int] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    """What its queues have in common."""


def read_unit(item: Item, pools: dict[str, str], told: Told) -> Unit:
    """Read a project or department; ``pools`` has the names of pools by id and name."""
    part = item.entry(told, _UNIT)
    name = part.name("name", "projectName")
    parent = part.text("parentId", "departmentName", "departmentId", "department")
    unit = Unit(part, item.kind == "Project", name, part.text("id"), parent, name)
    for entry in (*part.parts("resources"), *part.parts("nodePoolsResources")):
        _take_pool(entry, unit, pools)
    if not unit.pools or part.has("deservedGpus"):
        unit.pools.setdefault(_DEFAULT, _resources(part))
    listed = [pools.get(it, it) for it in part.texts("defaultNodePools")]
    if listed:
        unit.spec["nodePools"] = listed
    types = read_node_types(part)
    if types:
        unit.spec["nodeAffinity"] = types
    times = _run_times(part)
    if times:
        unit.spec["maxRunTime"] = times
    for key in ("parentId", "departmentName", "departmentId", "department"):
        part.raw(key)
    part.rest(_UNIT)
    return unit


def _take_pool(entry: Part, unit: Unit, pools: dict[str, str]) -> None:
    named = entry.part("nodePool")
    given = named.text("name")
    by_id = pools.get(named.text("id"), "")
    named.rest({})
    pool = given or by_id or _DEFAULT
    if pool in unit.pools:
        entry.wrong("nodePool", "given twice", pool, "keep one entry for each pool")
    rank = entry.text("rank", "priority")
    if rank:
        word = rank.lower().replace(" ", "").replace("_", "")
        if word in _RANKS:
            unit.priorities[pool] = _RANKS[word]
        else:
            entry.wrong("rank", "no rank", rank, "write one from VeryLow to VeryHigh")
    unit.pools[pool] = _resources(entry)
    entry.rest({"id": _RECORD})


def _resources(entry: Part) -> dict[str, Any]:
    """Return the resources of a queue; CPU and memory without a quota are unlimited."""
    gpu = entry.part("gpu")
    quota = gpu.number("deserved", _UNLIMITED)
    older = entry.number("deservedGpus", _UNLIMITED)
    shares = {"gpu": _share(gpu, older or 0 if quota is None else quota, 1.0)}
    bound = entry.number("maxAllowedGpus", _UNLIMITED)
    if bound is not None:
        shares["gpu"]["limit"] = bound
    weight = _weight(entry, "gpuOverQuotaWeight", "overQuotaPriority")
    if weight is not None:
        shares["gpu"]["overQuotaWeight"] = weight
    if entry.switch("allowOverQuota") is False:
        shares["gpu"]["limit"] = shares["gpu"]["quota"]
    for key in ("cpu", "memory"):
        part = entry.part(key)
        unit = (part.text("units") or "MB").lower()
        if unit not in _MEGABYTES:
            part.wrong("units", "no unit of memory", unit, "write Mib, MB, GiB or GB")
        factor = _MEGABYTES.get(unit, 1.0) if key == "memory" else 1.0
        amount = part.number("deserved", _UNLIMITED)
        shares[key] = _share(part, _UNLIMITED if amount is None else amount, factor)
    return shares


def _share(part: Part, quota: float, factor: float) -> dict[str, Any]:
    share: dict[str, Any] = {"quota": _scaled(quota, factor)}
    limit = part.number("limit", _UNLIMITED)
    if limit is not None:
        share["limit"] = _scaled(limit, factor)
    weight = _weight(part, "overQuotaWeight", "overQuotaPriority")
    if weight is not None:
        share["overQuotaWeight"] = weight
    part.rest({})
    return share


def _scaled(amount: float, factor: float) -> float:
    scaled = amount if amount < 0 else round(amount * factor, 6)
    return int(scaled) if float(scaled).is_integer() else scaled


def _weight(part: Part, *keys: str) -> float | str | None:
    """Take a weight: a number, or a word from None to High; Lowest is a weight of 0."""
    for key in keys:
        value = part.raw(key)
        word = value.strip().capitalize() if isinstance(value, str) else ""
        if word in WEIGHT_NAMES:
            return word
        if word == "Lowest":
            return 0
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
            return value
        if value is not None:
            fix = f"write a number of at least 0, or {', '.join(WEIGHT_NAMES)}"
            part.wrong(key, "no weight", value, fix)
    return None


def _run_times(part: Part) -> list[dict[str, Any]]:
    """Take limits on run times: those of interactive work end it though it is not preemptible."""
    rules = part.part("schedulingRules")
    times: list[dict[str, Any]] = []
    for type_ in WORKLOAD_TYPES[:2]:
        keys = ((rules, f"{type_}JobTimeLimitSeconds"), (part, f"{type_}JobTimeLimitSecs"))
        limit = next((it for holder, key in keys if (it := holder.seconds(key))), "")
        if limit:
            never = {"nonPreemptible": True} if type_ == "interactive" else {}
            times.append({"workloads": [type_], "time": limit, **never})
    rules.rest(_RULES)
    return times
