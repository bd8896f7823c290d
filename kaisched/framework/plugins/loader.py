"""Finds installed plugins and makes those a shard enables.

Plugins come from the entry-point group ``kaisched.plugins``, bundled and third-party plugins alike.
Each is loaded by itself. A broken plugin is remembered with its distribution and version, and
raises only when a shard enables it. Plugins run in the shard's order, so pluggy's order options are
refused here.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import entry_points
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import pluggy
from pydantic import BaseModel, ValidationError

from kaisched.core.refusals import TEXTS, PluginRefusal, code_named
from kaisched.errors import (
    Collector,
    ConfigError,
    PluginConflictError,
    PluginContractError,
    PluginError,
    PluginLoadError,
    join_path,
)
from kaisched.framework.plugins.plugin import Arguments, Plugin, PluginSetting
from kaisched.framework.plugins.questions import PROJECT, QUESTIONS
from kaisched.objects.faults import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint


GROUP: Final = "kaisched.plugins"
_FORBIDDEN: Final = (
    ("tryfirst", "the order of plugins is the shard's"),
    ("trylast", "the order of plugins is the shard's"),
    ("wrapper", "an answer stands for itself; wrappers would hide another plugin's"),
    ("hookwrapper", "an answer stands for itself; wrappers would hide another plugin's"),
    ("optionalhook", "every question is listed in kaisched.Plugin"),
    ("specname", "a method has the name of its question"),
)


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed plugin: its class, or why it cannot be used."""

    name: str
    distribution: str
    version: str
    plugin: type[Plugin] | None = None
    error: PluginError | None = None


@dataclass(frozen=True, slots=True)
class ArgumentDescription:
    """One argument of a plugin, as a shard file writes it."""

    name: str
    type: str
    default: Any
    is_required: bool
    description: str


@dataclass(frozen=True, slots=True)
class PluginDescription:
    """What ``kaisched plugins list`` shows of a plugin."""

    name: str
    distribution: str
    version: str
    summary: str
    questions: tuple[str, ...]
    arguments: tuple[ArgumentDescription, ...]
    problem: str = ""


class Catalogue:
    """The installed plugins by name, broken ones included."""

    def __init__(self, installed: Iterable[Installed]) -> None:
        """Keep the plugins, sorted by name."""
        self.by_name: dict[str, Installed] = {
            entry.name: entry for entry in sorted(installed, key=lambda entry: entry.name)
        }

    @property
    def broken(self) -> tuple[Installed, ...]:
        """The plugins that cannot be used, with their errors."""
        return tuple(entry for entry in self.by_name.values() if entry.error is not None)

    def make(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        weight: float | None = None,
        file: str = "",
    ) -> PluginSetting:
        """Make one plugin with typed arguments.

        Raises:
            ConfigError: no such plugin is installed, or an argument is unknown or of a wrong type.
            PluginError: the plugin is installed but broken.

        """
        entry = self.by_name.get(name)
        if entry is None:
            raise ConfigError(
                "no such plugin is installed",
                file=file,
                path=join_path("spec", "plugins", name),
                fix=self._fix(name),
            )
        if (error := entry.error) is not None:
            # A new one each time: an error that is raised holds those found together with it.
            parts = {"plugin": error.plugin, "distribution": error.distribution, "fix": error.fix}
            raise type(error)(error.message, **parts) from error
        assert entry.plugin is not None
        typed = typed_arguments(entry.plugin, arguments or {}, file)
        return PluginSetting(
            plugin=_made(entry.plugin, typed, entry),
            weight=entry.plugin.default_weight if weight is None else weight,
            distribution=entry.distribution,
            version=entry.version,
        )

    def _fix(self, name: str) -> str:
        if not self.by_name:
            return "no plugin is installed at all; install kaisched itself with pip"
        return did_you_mean(name, list(self.by_name))


@cache
def installed_plugins() -> Catalogue:
    """Return the plugins installed in this environment; looked up once."""
    return load_plugins(entry_points(group=GROUP))


def load_plugins(points: Iterable[EntryPoint]) -> Catalogue:
    """Load entry points one at a time; a broken one does not affect the others."""
    found: dict[str, list[Installed]] = {}
    for point in points:
        found.setdefault(point.name, []).append(_load(point))
    return Catalogue(_the_one(name, entries) for name, entries in found.items())


def _the_one(name: str, entries: list[Installed]) -> Installed:
    if len(entries) == 1:
        return entries[0]
    owners = " and ".join(sorted(f"{entry.distribution} {entry.version}" for entry in entries))
    error = PluginConflictError(
        f"it is offered by {owners}", plugin=name, fix="uninstall all but one of them"
    )
    first = min(entries, key=lambda entry: entry.distribution)
    return Installed(name, first.distribution, first.version, error=error)


def _load(point: EntryPoint) -> Installed:
    distribution = point.dist.name if point.dist is not None else "unknown"
    version = point.dist.version if point.dist is not None else ""
    try:
        loaded = point.load()
    except Exception as cause:  # noqa: BLE001 - whatever a foreign module raises on import
        error: PluginError = PluginLoadError(
            f"it cannot be imported: {type(cause).__name__}: {cause}",
            plugin=point.name,
            distribution=f"{distribution} {version}",
        )
        error.__cause__ = cause
        return Installed(point.name, distribution, version, error=error)
    fault = contract_fault(loaded, point.name)
    if fault:
        error = PluginContractError(
            fault, plugin=point.name, distribution=f"{distribution} {version}"
        )
        return Installed(point.name, distribution, version, error=error)
    return Installed(point.name, distribution, version, plugin=loaded)


def contract_fault(plugin: object, name: str) -> str:
    """Return what is wrong with a plugin class, naming the hook, or an empty string."""
    if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
        return f"{plugin!r} is not a subclass of kaisched.Plugin"
    own_name = getattr(plugin, "name", None)
    if own_name != name:
        return f"its class is named {own_name!r}, its entry point {name!r}; they must agree"
    arguments: object = plugin.Arguments
    if not (isinstance(arguments, type) and issubclass(arguments, Arguments)):
        return "its Arguments is not a subclass of kaisched.Arguments"
    if fault := _refusals_fault(plugin.refusals):
        return fault
    for hook in dir(plugin):
        fault = _hook_fault(plugin, hook)
        if fault:
            return f"hook {hook}: {fault}"
    return ""


def _refusals_fault(refusals: object) -> str:
    listed = isinstance(refusals, tuple) and all(isinstance(it, PluginRefusal) for it in refusals)
    if not listed:
        return "its refusals are not a tuple of kaisched.PluginRefusal"
    names: list[str] = [refusal.text.name for refusal in refusals]  # type: ignore[attr-defined]
    for at, name in enumerate(names):
        if name in names[:at]:
            return f"it lists two refusals called {name}"
        if code_named(name) in TEXTS:
            return f"its refusal {name} has the name of one that the host has"
    return ""


def _hook_fault(plugin: type[Plugin], hook: str) -> str:
    method = inspect.getattr_static(plugin, hook)
    options = _manager().parse_hookimpl_opts(plugin, hook)
    if options is None:
        if hook in QUESTIONS and method is not getattr(Plugin, hook):
            return "it is not marked with @kaisched.hookimpl and would never be asked"
        return ""
    if hook not in QUESTIONS:
        return f"there is no such question; {did_you_mean(hook, sorted(QUESTIONS))}"
    if not isinstance(method, FunctionType):
        return "it must be a plain method"
    return _mark_fault(options) or _signature_fault(hook, method)


def _mark_fault(options: pluggy.HookimplOpts) -> str:
    for option, reason in _FORBIDDEN:
        if options.get(option):
            return f"{option} is not allowed: {reason}"
    return ""


def _signature_fault(hook: str, method: FunctionType) -> str:
    asked = inspect.signature(getattr(Plugin, hook)).parameters
    answered = inspect.signature(method).parameters
    if [*asked] != [*answered] or any(p.kind is not asked[n].kind for n, p in answered.items()):
        return f"its parameters are ({', '.join(answered)}), the question's ({', '.join(asked)})"
    return ""


def _made(plugin: type[Plugin], arguments: Arguments, entry: Installed) -> Plugin:
    """Make an instance."""
    try:
        return plugin(arguments)
    except Exception as cause:
        raise PluginLoadError(
            f"it cannot be made: {type(cause).__name__}: {cause}",
            plugin=entry.name,
            distribution=f"{entry.distribution} {entry.version}",
        ) from cause


def typed_arguments(plugin: type[Plugin], raw: Mapping[str, Any], file: str = "") -> Arguments:
    """Parse a shard's arguments; numbers and booleans may be written as text.

    Raises:
        ConfigError: arguments are unknown or do not parse; the first holds the others.

    """
    try:
        return plugin.Arguments.model_validate(dict(raw))
    except ValidationError as wrong:
        faults = wrong.errors(include_url=False)
        errors = Collector(
            ConfigError(
                _sentence(fault["type"], fault["msg"]),
                file=file,
                path=join_path("spec", "plugins", plugin.name, "arguments", *fault["loc"]),
                value=fault["input"],
                fix=_argument_fix(plugin.Arguments, fault["type"], fault["loc"]),
            )
            for fault in sorted(faults, key=lambda fault: tuple(map(str, fault["loc"])))
        )
        errors.stop_if_any()
        raise


def _sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "no such argument"
    return message[:1].lower() + message[1:]


def _argument_fix(model: type[BaseModel], kind: str, where: tuple[int | str, ...]) -> str:
    if kind != "extra_forbidden" or not where:
        return ""
    known = _names_at(model, where[:-1])
    return did_you_mean(str(where[-1]), known) if known else "it takes no arguments"


def _names_at(model: type[BaseModel], where: tuple[int | str, ...]) -> list[str]:
    """Return the keys a (nested) model accepts."""
    names = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    if not where:
        return list(names)
    inner, rest = names.get(str(where[0])), where[1:]
    if rest and isinstance(rest[0], int):  # the number of an entry
        inner, rest = next(iter(get_args(inner)), None), rest[1:]
    if isinstance(inner, type) and issubclass(inner, BaseModel):
        return _names_at(inner, rest)
    return []


def answered_questions(plugin: type[Plugin]) -> tuple[str, ...]:
    """Return the questions a plugin answers, in the order of the specification."""
    as_key: Any = plugin
    return _answered(as_key)


@lru_cache(maxsize=128)
def _answered(plugin: type) -> tuple[str, ...]:
    found = {name: _manager().parse_hookimpl_opts(plugin, name) for name in QUESTIONS}
    return tuple(name for name, options in found.items() if options is not None)


@cache
def _manager() -> pluggy.PluginManager:
    """Return a manager that tells how methods are marked."""
    return pluggy.PluginManager(PROJECT)


def describe_plugins(catalogue: Catalogue | None = None) -> tuple[PluginDescription, ...]:
    """Describe every installed plugin, sorted by name; broken ones say why."""
    entries = (catalogue or installed_plugins()).by_name.values()
    return tuple(_description(entry) for entry in entries)


def _description(entry: Installed) -> PluginDescription:
    if entry.plugin is None:
        return PluginDescription(
            entry.name, entry.distribution, entry.version, "", (), (), problem=str(entry.error)
        )
    doc = inspect.getdoc(entry.plugin) or ""
    return PluginDescription(
        entry.name,
        entry.distribution,
        entry.version,
        doc.partition("\n\n")[0].replace("\n", " "),
        answered_questions(entry.plugin),
        tuple(_arguments(entry.plugin.Arguments)),
    )


def _arguments(model: type[Arguments]) -> Iterable[ArgumentDescription]:
    for name, field in model.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        plain = default.model_dump(by_alias=True) if isinstance(default, BaseModel) else default
        yield ArgumentDescription(
            name=field.alias or name,
            type=_type_name(field.annotation),
            default=plain,
            is_required=field.is_required(),
            description=field.description or "",
        )


def _type_name(annotation: Any) -> str:
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return "map" if issubclass(annotation, BaseModel) else annotation.__name__
    if get_origin(annotation) is tuple:
        return f"list of {_type_name(get_args(annotation)[0])}"
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, get_args(annotation)))
    return str(annotation).replace("typing.", "")
