"""A policy from the plugins and actions that a case names in KAI's words, mapped as in a shard."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kaisched.engine.actions import ACTIONS
from kaisched.engine.policy import build_policy
from kaisched.errors import ConfigError
from kaisched.framework.policy import Policy
from kaisched.objects.shard import (
    DEFAULT_PLUGINS,
    PluginEntry,
    SchedulingShard,
    ShardSpec,
    map_action,
    map_plugin,
)
from kaisched.objects.wire import ObjectMeta
from tests.conformance.outcome import NotBuiltError

CORE = "gang"
"""What KAI does whatever the plugins: our plugin of that part is always there."""
FIRST = 10_000


def build(
    plugins: Sequence[Mapping[str, Any]],
    actions: Sequence[str],
    config: Mapping[str, Any] | None = None,
) -> Policy:
    """Return the policy of a case: these plugins in this order and no others.

    ``config`` is the settings of a scheduling case; unit cases have none.
    """
    entries = {plugin.name: PluginEntry(enabled=plugin.name == CORE) for plugin in DEFAULT_PLUGINS}
    for place, entry in enumerate(plugins):
        if entry.get("disabled"):
            raise NotBuiltError(f"switching off parts of a plugin ({entry['name']})")
        name = map_plugin(entry["name"]).name
        if name is not None:
            arguments = entry.get("arguments") or None
            entries[name] = PluginEntry(enabled=True, priority=FIRST - place, arguments=arguments)
    for action in actions:
        if map_action(action).name not in ACTIONS:
            raise NotBuiltError(f"action {action}")
    shard = SchedulingShard(metadata=ObjectMeta(name="case"), spec=ShardSpec(plugins=entries))
    try:
        policy, _ = build_policy(shard, actions=actions)
    except ConfigError as error:
        raise NotBuiltError(str(error)) from error
    return policy if config is None else replace(policy, **_settings(config))


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "staleness_grace_s": float(config["staleness_grace_s"]),
        "max_consolidation_preemptees": config["max_consolidation_victims"],
        "allows_consolidating_reclaim": config["consolidating_reclaim"],
    }
