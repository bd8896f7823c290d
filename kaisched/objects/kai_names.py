"""KAI-Scheduler's names of plugins, actions and arguments, mapped to ours or to a warning.

A name that is in no table here and installed nowhere is an error of whoever loads plugins; nothing
is skipped silently. The tables are printed in docs/reference/kai-names.md.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple


class Mapped(NamedTuple):
    """Our name (None: leave it out) and what to tell the administrator (None: nothing)."""

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
    DefaultPlugin("binpack", 200, 9.0),
)
"""KAI's priorities where KAI has the plugin; the weights keep the steps of its ladder of scores."""

TIME_BASED_FAIRSHARE: Final = "time-based-fairshare"
"""Part of proportion in KAI; there and here it is on where a shard names a usage store."""

OTHER_PRIORITIES: Final = {TIME_BASED_FAIRSHARE: 1750, "topology": 500}
"""Where a plugin that is not on by default stands once a shard enables it; any other is at 0."""

DEFAULT_ACTIONS: Final = (
    DefaultAction("allocate", 500),
    DefaultAction("reclaim", 300),
    DefaultAction("preempt", 200),
    DefaultAction("consolidate", 150),
    DefaultAction("stalegang", 100),
    DefaultAction("drain", 50),
)
"""Ours consolidates after reclaim and preempt, where KAI (with 400) does before."""

ACTIONS: Final = tuple(action.name for action in DEFAULT_ACTIONS)

_KAI_ACTIONS: Final = {"consolidation": "consolidate", "stalegangeviction": "stalegang"}

_NO_SHARING: Final = "GPU sharing is not offered, so there is nothing for it to do"
_SEARCH: Final = "the search for victims is part of the actions"
_PLUGINS: Final = {
    "nodeplacement": Mapped("binpack"),
    "podaffinity": Mapped(
        None, "predicates looks after required pod affinity; preferred affinity is not scored"
    ),
    "kubeflow": Mapped(None, "taskorder looks after the order of pods inside a job"),
    "ray": Mapped(None, "taskorder looks after the order of pods inside a job"),
    "nominatednode": Mapped(None, "a pod's nominated node is kept without a plugin"),
    "gpupack": Mapped(None, _NO_SHARING),
    "gpuspread": Mapped(None, _NO_SHARING),
    "gpusharingorder": Mapped(None, _NO_SHARING),
    "dynamicresources": Mapped(None, "devices are not allocated by claims"),
    "snapshot": Mapped(None, "kaisched snapshot take records a cycle, and replays it"),
    "reflectjoborder": Mapped(None, "the order is not shown; kaisched plan says why a job waits"),
    "topology": Mapped(None, "topology constraints are not offered in this version"),
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
"""Settings of a shard to the plugin and argument where KAI takes them from instead."""


def map_plugin(name: str, installed: Container[str] = ()) -> Mapped:
    """Return our plugin for a plugin name in a shard.

    A name that is installed, or that is not KAI's, stays as it is.
    """
    mapped = _PLUGINS.get(name)
    if mapped is None or name in installed:
        return Mapped(name)
    if mapped.name is None:
        return Mapped(None, f'plugin "{name}" is left out: {mapped.warning}')
    return mapped


def map_action(name: str) -> Mapped:
    """Return our action for an action name in a shard, or None for a name that is no action."""
    ours = _KAI_ACTIONS.get(name, name)
    return Mapped(ours) if ours in ACTIONS else Mapped(None, f'there is no action "{name}"')


def map_arguments(plugin: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a plugin's arguments under our names, and the warnings.

    Where a KAI name and ours are both given, ours stands.
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


def known_plugins() -> tuple[str, ...]:
    """Return all plugin names that need not be installed, for "did you mean"."""
    return (*_PLUGINS, *(plugin.name for plugin in DEFAULT_PLUGINS))


def known_actions() -> tuple[str, ...]:
    """Return all action names, ours and KAI's."""
    return (*ACTIONS, *_KAI_ACTIONS)
