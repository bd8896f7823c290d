"""Warnings about fairness over time: what a shard asks for needs a history, and a plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.errors import join_path
from kaisched.objects.shard import SETTINGS_IN_ARGUMENTS, TIME_BASED_FAIRSHARE, map_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.framework.plugins.plugin import PluginSetting
    from kaisched.objects.shard import ShardSpec

_PLUGIN: Final = TIME_BASED_FAIRSHARE
_CONFIG: Final = join_path("spec", "usageDBConfig")


def history_warnings(
    spec: ShardSpec, plugins: Sequence[PluginSetting], *, has_history: bool
) -> Iterator[str]:
    """Yield what is missing for what a shard says about past usage, one line at most.

    Args:
        spec: what the shard says.
        plugins: the enabled ones.
        has_history: there is a usage history even without ``usageDBConfig``.

    """
    config, k_value = spec.usage_db_config, _k_value(spec)
    entries = [it for it in spec.plugins if _PLUGIN in {it, map_plugin(it).name}]
    is_enabled = any(each.plugin.name == _PLUGIN for each in plugins)
    lending = [each.plugin.name for each in plugins if each.plugin.lends]
    if config is None and not has_history and (k_value or (entries and is_enabled)):
        path = k_value or join_path("spec", "plugins", entries[0])
        yield (
            f"{path}: has no effect, since no usage history is kept; add usageDBConfig:"
            " {clientType: sqlite}, or drop it"
        )
    elif k_value and not is_enabled:
        fix = f"enable {_PLUGIN} in spec.plugins" if entries else "add the clientType"
        yield f"{k_value}: has no effect, since {_PLUGIN} is not enabled; {fix}, or drop it"
    elif config is None or entries:
        return
    elif lending and is_enabled:
        # There a history has other uses too, so that the plugin need not be meant.
        yield (
            f"{_CONFIG}: enables {_PLUGIN}, so that past usage changes the weights of"
            f" {lending[0]}; write {_PLUGIN} into spec.plugins, with enabled: true if that is"
            " meant, else with enabled: false"
        )
    elif not (lending or config.client_type):
        yield (
            f"{_CONFIG}: without a clientType it does not enable {_PLUGIN}, so past usage is"
            f" recorded and changes no share; add the clientType, or write {_PLUGIN} into"
            " spec.plugins with enabled: false"
        )


def _k_value(spec: ShardSpec) -> str:
    """Return where a shard says how strongly past usage counts, empty if it does not count."""
    if spec.k_value:
        return join_path("spec", "kValue")
    plugin, argument = SETTINGS_IN_ARGUMENTS["kValue"]
    entry = spec.plugins.get(plugin)
    is_said = entry is not None and entry.arguments is not None and entry.arguments.get(argument)
    return join_path("spec", "plugins", plugin, "arguments", argument) if is_said else ""
