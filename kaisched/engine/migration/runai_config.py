"""The RunaiConfig of a Run:ai cluster: what its scheduler keys become, and why the rest is left."""

from __future__ import annotations

from typing import Any, Final

from kaisched.engine.migration.files import Migration
from kaisched.engine.migration.parts import Part, Reasons
from kaisched.engine.migration.reading import Item
from kaisched.objects.shard import ARGS
from kaisched.units import UnitError

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
    for flag in ARGS:
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
