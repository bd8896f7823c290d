"""Builds a policy from a SchedulingShard, from defaults and the shard's settings.

Merging is KAI's. A shard may override enabled, priority and weight of a plugin or action one by
one, and arguments as a whole. A name that is not among the defaults is added with priority 0. The
order is by priority, highest first, then by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.actions.allocate import Allocate
from kaisched.actions.consolidate import Consolidate
from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.actions.stalegang import StaleGangs
from kaisched.actions.whole_jobs import Drain, TimeLimit
from kaisched.core.tree import PROJECTS
from kaisched.errors import Collector, ConfigError, ObjectError, join_path
from kaisched.framework.plugins.asking import workloads_of
from kaisched.framework.plugins.loader import answered_questions, installed_plugins
from kaisched.framework.policy import Policy
from kaisched.framework.shard_settings import SETTINGS, settings_of, without_former_values
from kaisched.objects.faults import did_you_mean
from kaisched.objects.shard import (
    DEFAULT_ACTIONS,
    DEFAULT_PLUGINS,
    GPU_SPREAD,
    HIERARCHY,
    MAX_EVICTIONS_PER_CYCLE,
    OTHER_PRIORITIES,
    SETTINGS_IN_ARGUMENTS,
    TIME_BASED_FAIRSHARE,
    PluginEntry,
    SchedulingShard,
    ShardSpec,
    map_action,
    map_arguments,
    map_plugin,
    read_args,
    read_disruption_budgets,
)
from kaisched.objects.wire import ObjectMeta
from kaisched.units import UnitError, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaisched.framework.plugins.loader import Catalogue
    from kaisched.framework.plugins.plugin import Plugin, PluginSetting
    from kaisched.framework.policy import Action

_ENTITLEMENT: Final = "fair_share"
_HISTORY: Final = TIME_BASED_FAIRSHARE
_DEFAULTS: Final = frozenset(plugin.name for plugin in DEFAULT_PLUGINS)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Settings of one plugin after merging."""

    priority: int
    is_enabled: bool = True
    weight: float | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)


def default_shard() -> SchedulingShard:
    """Return a shard with all defaults."""
    return SchedulingShard(metadata=ObjectMeta(name="default"), spec=ShardSpec())


def default_policy() -> Policy:
    """Return the policy of a shard with all defaults."""
    return build_policy(default_shard())[0]


def build_policy(
    shard: SchedulingShard,
    file: str = "",
    *,
    catalogue: Catalogue | None = None,
    actions: Sequence[str] | None = None,
    has_history: bool = False,
) -> tuple[Policy, list[str]]:
    """Build the policy of a shard's cycles.

    Args:
        shard: the shard.
        file: file of the shard, for messages.
        catalogue: the available plugins; by default the installed ones.
        actions: run these instead of the shard's, in this order.
        has_history: there is a usage history even without the shard's ``usageDBConfig``.

    Returns:
        The policy, and warnings: one line for each setting without effect.

    Raises:
        ConfigError: a plugin, action or argument does not exist or is invalid.
        PluginError: an enabled plugin is broken, or its workloads are invalid. Either holds all
            other errors of the shard.

    """
    catalogue = catalogue or installed_plugins()
    warnings: list[str] = []
    errors = Collector()
    spec = shard.spec
    plugins = _plugins(spec, file, catalogue, warnings, errors)
    chosen = _actions(spec, file, actions, errors)
    depth = _queue_depth(spec, file, errors)
    settings = _settings(spec, file, errors)
    fairness = spec.fairness or settings.pop("fairness", "hierarchy")
    errors.errors += _at_odds_with_projects(spec, fairness, plugins, file)
    errors.stop_if_any()
    warnings.extend(_number_of_policies(plugins, catalogue))
    warnings.extend(history_warnings(spec, plugins, has_history=has_history))
    policy = Policy(
        plugins=plugins,
        actions=chosen,
        queue_depth=depth,
        over_quota_weights=spec.over_quota_weights or "equal",
        fairness=fairness,
        evictions_per_hour=-1 if spec.evictions_per_hour is None else spec.evictions_per_hour,
        max_evictions_per_cycle=spec.max_evictions_per_cycle or MAX_EVICTIONS_PER_CYCLE,
        has_tenants=spec.queue_use_policy,
        workloads=workloads_of(plugins, spec.workloads),
        **settings,
    )
    return policy, warnings


def _number_of_policies(plugins: Sequence[PluginSetting], catalogue: Catalogue) -> Iterator[str]:
    """Warn unless exactly one plugin says which queue is entitled to what."""
    enabled = [each.plugin.name for each in plugins if _divides(type(each.plugin))]
    known = [name for name, it in catalogue.by_name.items() if it.plugin and _divides(it.plugin)]
    where = join_path("spec", "plugins")
    if known and not enabled:
        yield (
            f"{where}: no enabled plugin divides the cluster among the queues, so every fair share"
            f" is 0 and evictions follow no shares; enable {' or '.join(sorted(known))}"
        )
    elif len(enabled) > 1:
        yield (
            f"{where}: {' and '.join(enabled)} each divide the cluster among the queues; shares are"
            f" those of {enabled[0]}, and the rules of all of them apply; disable all but one"
        )


def _at_odds_with_projects(
    spec: ShardSpec, fairness: str, plugins: Sequence[PluginSetting], file: str
) -> Iterator[ConfigError]:
    """Yield an error for each plugin that needs departments to divide where they do not."""
    said, hierarchy = (
        (("fairness",), "hierarchy") if spec.fairness else (("args", HIERARCHY), "true")
    )
    names = [it.plugin.name for it in plugins if it.plugin.lends]
    names += [it.plugin.name for it in plugins if it.plugin.name == _HISTORY]
    for name in names if fairness == PROJECTS else ():
        yield ConfigError(
            f"{name} divides down the tree of queues, so departments cannot be left out",
            file=file,
            path=join_path("spec", *said),
            value=spec.fairness or spec.args[HIERARCHY],
            fix=f"write {hierarchy}, or disable {name}",
        )


def _divides(plugin: type[Plugin]) -> bool:
    return _ENTITLEMENT in answered_questions(plugin)


def without_evictions(policy: Policy) -> Policy:
    """Return the policy without evictions: the kill switch."""
    return replace(policy, evictions_per_hour=0)


def _plugins(
    spec: ShardSpec, file: str, catalogue: Catalogue, warnings: list[str], errors: Collector
) -> tuple[PluginSetting, ...]:
    wanted = {
        plugin.name: _Wanted(plugin.priority, weight=plugin.weight) for plugin in DEFAULT_PLUGINS
    }
    if spec.usage_db_config is not None and spec.usage_db_config.client_type:
        wanted[_HISTORY] = _Wanted(OTHER_PRIORITIES[_HISTORY])
    spread = GPU_SPREAD
    if spec.placement_strategy.gpu == "spread" and spread in catalogue.by_name:
        wanted[spread] = _Wanted(OTHER_PRIORITIES[spread])
    for written, entry in spec.plugins.items():
        with errors.collecting():
            name = _plugin_name(written, file, catalogue, warnings)
            if name is not None:
                wanted[name] = _merged(name, wanted.get(name), entry, warnings)
    _rename_former_values(wanted, catalogue, warnings)
    _fill(wanted, spec, catalogue)
    enabled = {name for name, want in wanted.items() if want.is_enabled}
    missing = _missing_defaults(enabled, file, catalogue, errors)
    warnings.extend(
        f"{entry.error}; it is not enabled"
        for entry in catalogue.broken
        if entry.name not in enabled
    )
    order = sorted(wanted.items(), key=lambda item: (-item[1].priority, item[0]))
    made = []
    for name, want in order:
        if want.is_enabled and name not in missing:
            with errors.collecting():
                made.append(catalogue.make(name, want.arguments, want.weight, file))
    return tuple(made)


def _plugin_name(written: str, file: str, catalogue: Catalogue, warnings: list[str]) -> str | None:
    """Return the plugin for a name in a shard, or None if it is left out with a warning."""
    if written in catalogue.by_name:
        return written
    mapped = map_plugin(written)
    if mapped.warning is not None:
        warnings.append(mapped.warning)
    if mapped.name is None:
        return None
    if mapped.name not in {*catalogue.by_name, *_DEFAULTS}:
        raise ConfigError(
            "no such plugin is installed",
            file=file,
            path=join_path("spec", "plugins", written),
            fix=_FORMER.get(written) or did_you_mean(written, list(catalogue.by_name)),
        )
    return mapped.name


_FORMER: Final = {"workloads": "list its kinds in spec.workloads"}
"""What there is in place of a plugin of earlier versions."""


def _missing_defaults(
    enabled: set[str], file: str, catalogue: Catalogue, errors: Collector
) -> set[str]:
    """Return the enabled plugins of the default policy that are not installed, as errors too.

    Where no plugin is installed at all, the catalogue itself says so.
    """
    missing = enabled & _DEFAULTS - catalogue.by_name.keys() if catalogue.by_name else set()
    errors.errors += [
        ConfigError(
            "this plugin of the default policy is not installed",
            file=file,
            path=join_path("spec", "plugins", name),
            fix="install it, or say enabled: false and enable another that does its work",
        )
        for name in sorted(missing)
    ]
    return missing


def _merged(name: str, default: _Wanted | None, entry: PluginEntry, warnings: list[str]) -> _Wanted:
    wanted = default or _Wanted(OTHER_PRIORITIES.get(name, 0))
    arguments = wanted.arguments
    if entry.arguments is not None:
        arguments, said = map_arguments(name, entry.arguments)
        warnings.extend(said)
    return _Wanted(
        priority=wanted.priority if entry.priority is None else entry.priority,
        is_enabled=wanted.is_enabled if entry.enabled is None else entry.enabled,
        weight=wanted.weight if entry.weight is None else float(entry.weight),
        arguments=arguments,
    )


def _rename_former_values(
    wanted: dict[str, _Wanted], catalogue: Catalogue, warnings: list[str]
) -> None:
    """Read values of arguments under names of earlier versions, and warn."""
    for name, want in wanted.items():
        entry = catalogue.by_name.get(name)
        if entry is None or entry.plugin is None or not want.arguments:
            continue
        arguments, changed = without_former_values(entry.plugin.Arguments, want.arguments)
        if changed:
            wanted[name] = replace(want, arguments=arguments)
            where = join_path("spec", "plugins", name, "arguments")
            warnings.extend(f"{where}.{line} now; write the new name" for line in changed)


def _fill(wanted: dict[str, _Wanted], spec: ShardSpec, catalogue: Catalogue) -> None:
    """Pass the shard's settings to the plugins that take them, unless arguments set them."""
    settings = _settings_in(msgspec.to_builtins(spec))
    for path, (plugin, argument) in SETTINGS_IN_ARGUMENTS.items():
        if plugin in wanted and argument in wanted[plugin].arguments:
            settings[path] = wanted[plugin].arguments[argument]
    for name, want in wanted.items():
        entry = catalogue.by_name.get(name)
        if entry is None or entry.plugin is None:
            continue
        taken = settings_of(entry.plugin.Arguments)
        given = {key: settings[path] for key, path in taken.items() if path in settings}
        if given:
            wanted[name] = replace(want, arguments={**given, **want.arguments})


def _settings_in(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a shard's settings by path."""
    found: dict[str, Any] = {}
    for path in SETTINGS:
        value: Any = spec
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if value is not None:
            found[path] = value
    return found


def _actions(
    spec: ShardSpec, file: str, chosen: Sequence[str] | None, errors: Collector
) -> tuple[Action, ...]:
    names: list[str] = []
    for written in chosen or ():
        with errors.collecting():
            names.append(_action_name(written, file, "--actions"))
    if chosen is None:
        priority = {action.name: action.priority for action in DEFAULT_ACTIONS}
        for written, entry in spec.actions.items():
            with errors.collecting():
                name = _action_name(written, file, join_path("spec", "actions", written))
                if entry.enabled is False:
                    priority.pop(name, None)
                    continue
                priority[name] = priority.get(name, 0) if entry.priority is None else entry.priority
        names = sorted(priority, key=lambda name: (-priority[name], name))
    return tuple(ACTIONS[name]() for name in dict.fromkeys(names))


def _action_name(written: str, file: str, path: str) -> str:
    name = map_action(written).name
    if name is None:
        raise ConfigError(
            "there is no such action",
            file=file,
            path=path,
            value=written,
            fix=did_you_mean(written, list(ACTIONS)),
        )
    return name


def _settings(spec: ShardSpec, file: str, errors: Collector) -> dict[str, Any]:
    """Return the policy fields that KAI sets by flags, and durations, if given."""
    given: dict[str, Any] = {}
    with errors.collecting():
        try:
            given.update(read_args(spec.args))
        except ObjectError as error:
            raise ConfigError(
                error.message, file=file, path=error.path, value=error.value, fix=error.fix
            ) from None
    told: list[tuple[str, object, str, Callable[[Any], object]]] = [
        ("ownerWait", spec.owner_wait, "owner_wait_s", parse_duration),
        (
            "disruptionBudgets",
            spec.disruption_budgets,
            "disruption_budgets",
            read_disruption_budgets,
        ),
    ]
    for key, value, field_name, read in told:
        with errors.collecting():
            try:
                given |= {} if value is None else {field_name: read(value)}
            except UnitError as error:  # reported already, as a fault of the shard
                path = join_path("spec", key)
                raise ConfigError(str(error), file=file, path=path, fix=error.fix) from None
    return given


def _queue_depth(spec: ShardSpec, file: str, errors: Collector) -> dict[str, int]:
    depths = {}
    for written, depth in spec.queue_depth_per_action.items():
        with errors.collecting():
            path = join_path("spec", "queueDepthPerAction", written)
            depths[_action_name(written, file, path)] = depth
    return depths


ACTIONS: Final[Mapping[str, Callable[[], Action]]] = {
    "allocate": Allocate,
    "reclaim": Reclaim,
    "preempt": Preempt,
    "consolidate": Consolidate,
    "stalegang": StaleGangs,
    "drain": Drain,
    "timelimit": TimeLimit,
}
"""Makers of actions by name."""


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
    entries = [it for it in spec.plugins if _HISTORY in {it, map_plugin(it).name}]
    is_enabled = any(each.plugin.name == _HISTORY for each in plugins)
    lending = [each.plugin.name for each in plugins if each.plugin.lends]
    if config is None and not has_history and (k_value or (entries and is_enabled)):
        path = k_value or join_path("spec", "plugins", entries[0])
        yield (
            f"{path}: has no effect, since no usage history is kept; add usageDBConfig:"
            " {clientType: sqlite}, or drop it"
        )
    elif k_value and not is_enabled:
        fix = f"enable {_HISTORY} in spec.plugins" if entries else "add the clientType"
        yield f"{k_value}: has no effect, since {_HISTORY} is not enabled; {fix}, or drop it"
    elif config is None or entries:
        return
    elif lending and is_enabled:
        # There a history has other uses too, so that the plugin need not be meant.
        yield (
            f"{_CONFIG}: enables {_HISTORY}, so that past usage changes the weights of"
            f" {lending[0]}; write {_HISTORY} into spec.plugins, with enabled: true if that is"
            " meant, else with enabled: false"
        )
    elif not (lending or config.client_type):
        yield (
            f"{_CONFIG}: without a clientType it does not enable {_HISTORY}, so past usage is"
            f" recorded and changes no share; add the clientType, or write {_HISTORY} into"
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
