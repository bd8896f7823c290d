"""The plugins of a shard, registered with pluggy in the shard's order.

pluggy finds the answers in each plugin, checks them against the specification and keeps them by
question. Calls do not go through pluggy but through tuples of the answers that it found. A call
then costs a quarter of the time, and answers are in the shard's order.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary

import pluggy

from kaisched.framework.plugins.answers import Answer
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.plugins.specification import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from kaisched.framework.plugins.answers import Answers
    from kaisched.framework.plugins.probe import Probe

_Options: TypeAlias = "WeakKeyDictionary[type, dict[str, pluggy.HookimplOpts | None]]"
_OPTIONS: Final[_Options] = WeakKeyDictionary()
"""The options of what plugin classes answer, by name; None for what is no answer. A policy makes
dozens of registries, and to look at every name of a class anew costs more than all the rest."""
_SPECIFIED: Final[dict[str, pluggy.HookspecOpts | None]] = {}
"""The options of the questions, likewise."""


@dataclass(frozen=True, slots=True)
class PluginSetting:
    """An enabled plugin, the factor of its scores and where it came from."""

    plugin: Plugin
    weight: float = 1.0
    distribution: str = ""
    version: str = ""


class Registry(pluggy.PluginManager):
    """pluggy's manager of the plugins of one shard."""

    def __init__(self, plugins: Iterable[PluginSetting] = ()) -> None:
        """Register plugins, in their order.

        Raises:
            pluggy.PluginValidationError: an answer has no question, or other arguments.
            ValueError: two plugins have the same name.

        """
        super().__init__(PROJECT)
        self.add_hookspecs(Plugin)
        self._setting: dict[str, PluginSetting] = {}
        for each in plugins:
            self.register(each.plugin, each.plugin.name)
            self._setting[each.plugin.name] = each
        self.check_pending()

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """Return the options of a plugin's answer; a method inherited from the base is none."""
        owner = plugin if inspect.isclass(plugin) else type(plugin)
        if owner is not plugin and name in vars(plugin):
            return super().parse_hookimpl_opts(plugin, name)
        known = _OPTIONS.setdefault(owner, {})
        if name not in known:
            inherited = getattr(owner, name, None) is getattr(Plugin, name, owner)
            known[name] = None if inherited else super().parse_hookimpl_opts(owner, name)
        return known[name]

    def parse_hookspec_opts(
        self, module_or_class: ModuleType | type, name: str
    ) -> pluggy.HookspecOpts | None:
        """Return the options of a question; there is one specification."""
        assert module_or_class is Plugin
        if name not in _SPECIFIED:
            _SPECIFIED[name] = super().parse_hookspec_opts(module_or_class, name)
        return _SPECIFIED[name]

    def answers(self, question: str, probe: Probe) -> Answers:
        """Return the answers to a question in the order of the shard, watched by ``probe``."""
        found: list[pluggy.HookImpl] = getattr(self.hook, question).get_hookimpls()
        return tuple(self._answer(each, question, probe) for each in found)

    def _answer(self, found: pluggy.HookImpl, question: str, probe: Probe) -> Answer:
        setting = self._setting[found.plugin_name]
        return Answer(
            owner=found.plugin,
            plugin=found.plugin_name,
            question=question,
            weight=setting.weight,
            source=f"{setting.distribution} {setting.version}".strip(),
            call=probe.wrap(found.plugin_name, question, found.function),
        )
