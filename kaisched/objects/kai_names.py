"""KAI-Scheduler's names of plugins, actions and arguments, each mapped to ours or to a warning.

A name that is neither in a table here nor installed is an error of the plugin loader; no name is
skipped silently. docs/reference/kai-names.md shows the tables.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple


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
    DefaultAction("reclaim", 300),
    DefaultAction("preempt", 200),
    DefaultAction("consolidate", 150),
    DefaultAction("stalegang", 100),
    DefaultAction("drain", 50),
    DefaultAction("timelimit", 40),
)
"""Our consolidate runs after reclaim and preempt; KAI's, with 400, runs before."""

ACTIONS: Final = tuple(action.name for action in DEFAULT_ACTIONS)

_KAI_ACTIONS: Final = {"consolidation": "consolidate", "stalegangeviction": "stalegang"}

_PACKED: Final = "shares of a GPU are packed without a plugin, unless gpu-spread is enabled"
_NODES_FIRST: Final = (
    "nodes with a shared GPU that has room come first without a plugin, unless GPUs are spread"
)
_SEARCH: Final = "the search for victims is part of the actions"
PLUGINS: Final = {
    "nodeplacement": Mapped("binpack"),
    "podaffinity": Mapped(
        None, "predicates handles required pod affinity; preferred affinity is not scored"
    ),
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
