"""Projects, departments and node pools of Run:ai as queues and shards of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kaisched.engine.migration.files import OUR_NAME, Migration
from kaisched.engine.migration.parts import Part, Reasons
from kaisched.engine.migration.reading import Item, items
from kaisched.engine.migration.runai_config import take_config
from kaisched.engine.migration.runai_quotas import Unit, read_unit
from kaisched.errors import join_path
from kaisched.objects.labels import NODE_POOL, QUEUE_PROJECT

DEFAULT: Final = "default"
LISTS: Final = {
    "projects": "Project",
    "departments": "Department",
    "nodePools": "NodePool",
    "nodepools": "NodePool",
    "data": "Project",
}
"""Kind of the entries of each list of Run:ai's REST API; ``data`` is its first version's."""
_RUNAI_LABEL: Final = "runai/node-pool"
_RECORD: Final = "it tells of the export, and is no rule"
_POOL: Final[Reasons] = {
    **dict.fromkeys(
        (
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
            "phaseMessage",
            "status",
            "nodes",
            "effective",
        ),
        _RECORD,
    ),
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
