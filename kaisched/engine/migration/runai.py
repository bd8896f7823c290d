"""Projects, departments and node pools of Run:ai as queues and shards of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kaisched.engine.migration.export import (
    OUR_NAME,
    Item,
    Migration,
    Part,
    Reasons,
    Told,
    items,
    nothing_in,
)
from kaisched.errors import join_path
from kaisched.objects.labels import LABEL_VALUE, NODE_POOL, QUEUE_PROJECT
from kaisched.objects.queue import WEIGHT_NAMES
from kaisched.objects.shard import ARGS, HIERARCHY
from kaisched.objects.wire import WORKLOAD_TYPES
from kaisched.units import UnitError

DEFAULT: Final = "default"
LISTS: Final = {
    "projects": "Project",
    "departments": "Department",
    "nodePools": "NodePool",
    "nodepools": "NodePool",
    "data": "Project",
}
"""Kind of the entries of each list of Run:ai's REST API; ``data`` is its first version's."""
_RECORD: Final = "it tells of the export, and is no rule"
_RUNAI_LABEL: Final = "runai/node-pool"
_RECORDS: Final = (
    "id",
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
)
"""What any entry tells of the export."""
_POOL: Final[Reasons] = {
    **dict.fromkeys((*_RECORDS, "phaseMessage", "nodes"), _RECORD),
    "overProvisioningRatio": "shares of a GPU are never more than the GPU",
    "gpuNetworkAccelerationDetection": "name the levels of the network in a Topology",
    "gpuNetworkAccelerationLabelKey": "name the levels of the network in a Topology",
    "gpuNetworkAccelerationLabelValue": "name the levels of the network in a Topology",
    "networkTopologyId": "write the topology as an object: docs/how-to/keep-pods-together.md",
    "metadata": _RECORD,
}


def from_runai(files: list[Path]) -> Migration:
    """Read what Run:ai's objects, or the lists of its REST API, say.

    Raises:
        ObjectError: a file cannot be read; it holds all further such errors.

    """
    made = Migration()
    found: dict[str, list[Item]] = {"NodePool": [], "Department": [], "Project": []}
    configs: list[Item] = []
    for item in items(files, LISTS, made.told):
        if item.kind in found:
            found[item.kind].append(item)
        elif item.kind == "RunaiConfig":
            configs.append(item)
        else:
            kinds = "Project, Department, NodePool and RunaiConfig are read"
            item.part(made.told).leave("kind", f"only objects of the kinds {kinds}")
    if not (configs or any(found.values())):
        raise nothing_in(files, "Projects, Departments, NodePools and RunaiConfigs of Run:ai")
    pools = _take_pools(found["NodePool"], made)
    departments = [read_unit(it, pools, made.told) for it in found["Department"]]
    projects = [read_unit(it, pools, made.told) for it in found["Project"]]
    _write_units(departments, projects, made)
    in_pools = (pool for unit in (*departments, *projects) for pool in unit.pools)
    for pool in dict.fromkeys((DEFAULT, *in_pools)):
        made.shards.setdefault(pool, _shard(pool))
    for item in configs:
        take_config(item, made)
    made.scheduler_names = [OUR_NAME, "runai-scheduler"]
    return made


def _shard(pool: str) -> dict[str, Any]:
    value = "" if pool == DEFAULT else pool
    return {"partitionLabelValue": value, "admitsAllProjects": True}


def _take_pools(found: list[Item], made: Migration) -> dict[str, str]:
    """Make a shard for each pool; return the names of pools by id and by name."""
    names: dict[str, str] = {}
    for item in found:
        part = item.entry(made.told, _POOL)
        name = part.name("name")
        names |= {name: name, part.text("id"): name}
        spec = made.shards[name] = _shard(name)
        scheduling = part.part("schedulingConfiguration")
        for holder in (part, scheduling):
            strategy = holder.part("placementStrategy")
            chosen = {key: _strategy(strategy, key) for key in ("gpu", "cpu")}
            if any(chosen.values()):
                spec["placementStrategy"] = {key: it for key, it in chosen.items() if it}
            strategy.rest({})
        scheduling.rest({})
        _label_nodes(part, name)
        part.rest(_POOL)
    names.pop("", None)
    return names


def _strategy(part: Part, key: str) -> str:
    word = part.text(key)
    if word.lower() not in ("", "binpack", "spread"):
        part.wrong(key, "no way to place pods", word, "write binpack or spread")
    return word.lower()


def _label_nodes(part: Part, name: str) -> None:
    key, value = part.text("labelKey"), part.text("labelValue")
    is_default = part.switch("isDefault")
    if name == DEFAULT or is_default:
        if name != DEFAULT:
            part.to_do(f"nodes of no other pool get the label {NODE_POOL}={name}")
        return
    chosen = f"{key}={value}" if key else f"{_RUNAI_LABEL}={name}"
    part.to_do(f"label the nodes: kubectl label nodes -l {chosen} {NODE_POOL}={name}")


def _write_units(departments: list[Unit], projects: list[Unit], made: Migration) -> None:
    """Write a queue for each department and project in each of its pools."""
    taken = {unit.name for unit in projects}
    above: dict[str, Unit] = {}
    for unit in departments:
        above |= {key: unit for key in (unit.name, unit.id) if key}
        if unit.name in taken:
            unit.queue = f"{unit.name}-department"
            unit.part.to_do(f"its queues are called {unit.queue}: a project has its name")
        _write(unit, None, made)
    for unit in projects:
        parent = above.get(unit.parent)
        if unit.parent and parent is None:
            unit.part.to_do(
                f"its department {unit.parent} is not among the files: its queues are at the top"
            )
        _write(unit, parent, made)


def _write(unit: Unit, parent: Unit | None, made: Migration) -> None:
    for pool, resources in unit.pools.items():
        name = _queue_name(unit, pool)
        labels = {} if pool == DEFAULT else {NODE_POOL: pool}
        spec = {**unit.spec, **({"resources": resources} if resources else {})}
        if unit.priorities.get(pool) is not None:
            spec["priority"] = unit.priorities[pool]
        if parent is not None:
            spec["parentQueue"] = _queue_name(parent, pool)
            if pool not in parent.pools:
                _make_up(parent, pool, made)
        if unit.is_project:
            labels[QUEUE_PROJECT] = unit.name
        if name in made.queues:
            path = join_path(*unit.part.at)
            fix = f"rename {unit.name}, or the pool {pool}"
            unit.part.wrong("", f"two queues would be called {name} ({path})", unit.name, fix)
        made.queues[name] = {"metadata": {"labels": labels} if labels else {}, "spec": spec}


def _queue_name(unit: Unit, pool: str) -> str:
    return unit.queue if pool == DEFAULT else f"{unit.queue}-{pool}"


def _make_up(parent: Unit, pool: str, made: Migration) -> None:
    """Give a department a queue in a pool in which only its projects have one."""
    labels = {} if pool == DEFAULT else {NODE_POOL: pool}
    made.queues.setdefault(
        _queue_name(parent, pool),
        {
            "metadata": {"labels": labels} if labels else {},
            "spec": {"resources": {"gpu": {"quota": 0, "overQuotaWeight": "Medium"}}},
        },
    )
    parent.pools[pool] = {}
    parent.part.to_do(f"it has no quota in the pool {pool}: a queue with none is made for it")


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
_ROLES: Final = "who may use a queue is said by roles: queueUsePolicy in the chart"
_IDLE: Final = "whether a GPU is idle is not measured; maxRunTime limits run times"
_UNIT: Final[Reasons] = {
    **dict.fromkeys(
        (
            *_RECORDS,
            "kind",
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


_LABEL: Final = "run.ai/type"
_LISTS: Final = {
    "training": ("trainNodeAffinity", "nodeAffinityTrain"),
    "interactive": ("interactiveNodeAffinity", "nodeAffinityInteractive"),
}
"""Keys of older exports, each a list of types."""
_WORDS: Final = {"training": ("training", "train"), "interactive": ("workspace", "interactive")}
"""What the two types of workload are called inside ``nodeTypes`` and ``nodeAffinity``."""
_ANY: Final = "no_limit"
_INNER: Final[Reasons] = {"id": _RECORD}


def read_node_types(part: Part) -> list[dict[str, Any]]:
    """Take the node types of a project or department, as ``nodeAffinity`` of a queue."""
    newer, older = part.part("nodeTypes"), part.part("nodeAffinity")
    entries: list[dict[str, Any]] = []
    for workload, words in _WORDS.items():
        types: list[str] = []
        for key in _LISTS[workload]:
            types += _checked(part, key)
        for word in words:
            types += _checked(newer, word)
            types += _selected(older.part(word))
        if types:
            values = sorted(set(types))
            wanted = {"key": _LABEL, "operator": "In", "values": values}
            entries.append({"workloads": [workload], "terms": [{"matchExpressions": [wanted]}]})
    newer.rest({})
    older.rest({})
    return entries


def _selected(rule: Part) -> list[str]:
    """Take a rule that says whether there is a limit, and the types by id and name."""
    is_any = rule.text("affinityType").lower() == _ANY
    types = []
    for each in rule.parts("selectedTypes"):
        types += [name] if (name := each.text("name")) else []
        each.rest(_INNER)
    rule.rest({})
    return [] if is_any else types


def _checked(part: Part, key: str) -> list[str]:
    types = part.texts(key)
    for name in types:
        if not name or not LABEL_VALUE.fullmatch(name):
            part.wrong(key, "no value of a label", name, "write the types as nodes have them")
    return types


_IN_SECONDS: Final = ("default-staleness-grace-period", "stuck-in-releasing-threshold")
_SERVICE: Final = "kaisched is one Deployment: set its resources, replicas and image in the chart"
_PLATFORM: Final = "it is about Run:ai's platform, not about scheduling"
_GPUS: Final = "kaisched decides which pods share a GPU; it does not divide it while they run"
_SCHEDULER: Final[Reasons] = {
    "resources": _SERVICE,
    "properties": _SERVICE,
    "replicas": _SERVICE,
    "image": _SERVICE,
}
_ARGS: Final[Reasons] = {
    "verbosity": "set log.level in the settings",
    "v": "set log.level in the settings",
    "schedulePeriod": "set schedulePeriod in the settings",
    "schedule-period": "set schedulePeriod in the settings",
}
_GLOBAL: Final[Reasons] = {
    "nodeAffinity": {
        "restrictScheduling": "a job goes where its requests fit; keep work without GPUs off GPU"
        " nodes with a taint"
    },
    "affinity": "set affinity in the chart's values",
    "tolerations": "set tolerations in the chart's values",
    "replicaCount": "set replicas in the chart's values",
    "subdomainSupport": _PLATFORM,
    "enableWorkloadOwnershipProtection": _PLATFORM,
    "core": {
        "dynamicFractions": _GPUS,
        "swap": _GPUS,
        "timeSlicing": _GPUS,
        "nodeScheduler": _GPUS,
    },
    "schedulingServices": _SERVICE,
    "syncServices": _SERVICE,
    "SyncServices": _SERVICE,
    "workloadServices": _SERVICE,
    "controlPlane": _PLATFORM,
}
_CONFIG: Final[Reasons] = {
    "global": _GLOBAL,
    "prometheus": "kaisched deploys no Prometheus: see docs/how-to/bring-your-prometheus.md",
    "limitRange": "requests and limits that pods lack are given by a LimitRange of Kubernetes",
    "project-controller": "queues are written by hand or by your own tools; namespaces are not"
    " made for them",
    "mps-server": _GPUS,
    "runai-container-toolkit": _GPUS,
    "node-scale-adjuster": "nodes are not added for waiting shares of GPUs",
    "pod-grouper": "kaisched groups pods itself; plugins.workloads of the shard takes more kinds",
    "daemonSetsTolerations": "there is no DaemonSet here",
    "local-path-provisioner": _PLATFORM,
    "nodeSelectorTerms": "a shard has the nodes of its pool; nodes of no pool are those of the"
    " shard for the pool default",
}
_TOP: Final[Reasons] = {
    "metadata": "it names Run:ai's own object",
    "status": "it is written anew from what is the case",
}


def take_config(item: Item, made: Migration) -> None:
    """Take what the config says of the scheduler, for every shard."""
    whole = item.part(made.told)
    for key in ("apiVersion", "kind", "spec"):
        whole.raw(key)
    whole.rest(_TOP)
    config = item.part(made.told, inside="spec")
    scheduler = config.part("runai-scheduler")
    args = _args(scheduler.part("args"))
    fairness = _fairness(scheduler)
    for spec in made.shards.values():
        for key, value in (("args", args), ("fairness", fairness)):
            if value:
                spec[key] = value
    scheduler.rest(_SCHEDULER)
    config.rest(_CONFIG)


def _fairness(part: Part) -> str:
    """Take both switches: departments take part in fairness unless one of them says otherwise."""
    full = part.switch("fullHierarchyFairness")
    is_disabled = part.switch("disable_department_fairness")
    if full is None and is_disabled is None:
        return ""
    return "projects" if full is False or is_disabled else "hierarchy"


def _args(part: Part) -> dict[str, Any]:
    """Take the flags that a shard has too; Run:ai writes them as keys or as flags."""
    taken: dict[str, Any] = {}
    for flag in (it for it in ARGS if it != HIERARCHY):  # see _fairness
        for key in (_as_key(flag), flag):
            if part.has(key) and (value := _arg(part, key, flag)) is not None:
                taken[flag] = value
    part.rest(_ARGS)
    return taken


def _arg(part: Part, key: str, flag: str) -> Any:
    """Take one flag; Run:ai writes seconds without a unit."""
    value = part.raw(key)
    is_time = isinstance(value, int | float) and not isinstance(value, bool)
    if is_time and flag in _IN_SECONDS:
        value = f"{value:g}s"
    try:
        ARGS[flag][1](value)
    except UnitError as error:
        part.wrong(key, str(error), value, error.fix)
        return None
    return value


def _as_key(flag: str) -> str:
    first, *others = flag.split("-")
    return first + "".join(word.capitalize() for word in others)
