"""Settings from defaults, file, environment and flags, later ones winning, with their origins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, SecretStr, ValidationError

from kaisched.config.settings import API_VERSION, KIND, SchedulerConfiguration
from kaisched.errors import ABSENT, Collector, ConfigError, KaischedError, join_path
from kaisched.objects.faults import did_you_mean
from kaisched.objects.text import TextFault, first_document
from kaisched.units import format_duration

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PREFIX: Final = "KAISCHED_"
FILE_VARIABLE: Final = "KAISCHED_CONFIG"
"""Variable that names the settings file if no flag does."""
NO_SETTINGS: Final = (
    FILE_VARIABLE,
    "KAISCHED_FAILPOINT",
    "KAISCHED_SERVER",
    "KAISCHED_TOKEN",
)
"""Variables that are no settings: kaisched.cluster.kubernetes reads the second, for tests, and
commands that ask a running scheduler read the last two."""
DEFAULT: Final = "default"
# Variables that Kubernetes sets in pods for a Service called kaisched or kaisched-something.
_SERVICE_LINK: Final = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$")
_LINK_VALUE: Final = re.compile(r"(tcp|udp|sctp)://")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One setting: its key, type, default and purpose."""

    path: str
    variable: str
    type: str
    default: Any
    description: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One value in force with its origin, ready to print."""

    path: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and the origin of every one that is not a default."""

    settings: SchedulerConfiguration
    origins: Mapping[str, str]

    def shown(self) -> tuple[Shown, ...]:
        """Return every value with its origin, in the order of the reference, secrets masked."""
        return tuple(
            Shown(
                leaf.path,
                plain(_at(self.settings, leaf.path)),
                self.origins.get(leaf.path, DEFAULT),
            )
            for leaf in leaves()
        )


def leaves(model: type[BaseModel] = SchedulerConfiguration, above: str = "") -> tuple[Leaf, ...]:
    """Return every setting there is, in order of definition."""
    return tuple(_leaves(model, above, model()))


def _leaves(model: type[BaseModel], above: str, defaults: BaseModel) -> Iterator[Leaf]:
    for name, field in model.model_fields.items():
        path = above + (field.alias or name)
        value = getattr(defaults, name)
        if isinstance(value, BaseModel):
            yield from _leaves(type(value), f"{path}.", value)
        else:
            yield Leaf(
                path,
                variable_of(path),
                _kind(value, field.annotation),
                plain(value),
                field.description or "",
            )


def variable_of(path: str) -> str:
    """Return the variable of a key: ``metrics.bindAddress`` is ``..METRICS__BIND_ADDRESS``."""
    steps = (re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", step).upper() for step in path.split("."))
    return PREFIX + "__".join(steps)


def load_settings(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, tuple[str, Any]] | None = None,
) -> LoadedSettings:
    """Read and merge settings.

    Args:
        file: the settings file; without one, what ``KAISCHED_CONFIG`` names, if anything.
        environment: the process's variables.
        flags: key (``metrics.port``) to the flag's name and value.

    Raises:
        ConfigError: an unknown key or a value that does not fit, with its place and a fix; it holds
            all other errors of the file and the environment.

    """
    environment = environment or {}
    if file is None and environment.get(FILE_VARIABLE):
        file = Path(environment[FILE_VARIABLE])
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    errors = Collector()
    for path, origin, value in (
        *(_from_file(file, errors) if file is not None else ()),
        *_from_environment(environment, errors),
        *((path, flag, value) for path, (flag, value) in (flags or {}).items()),
    ):
        values[path] = value
        origins[path] = origin
    try:
        settings = SchedulerConfiguration(**_nested(values))
    except ValidationError as wrong:
        errors.errors += [_error(fault, origins) for fault in wrong.errors(include_url=False)]
        errors.stop_if_any()
        raise
    errors.stop_if_any()
    return LoadedSettings(settings, origins)


def settings_errors(file: Path) -> list[KaischedError]:
    """Return all errors of a settings file."""
    errors = Collector()
    with errors.collecting():
        load_settings(file)
    return errors.errors


def _from_file(file: Path, errors: Collector) -> list[tuple[str, str, Any]]:
    try:
        document, count = first_document(file.read_bytes())
    except OSError as wrong:
        fix = f"name a file with kind: {KIND}"
        raise ConfigError(f"cannot be read: {wrong.strerror}", file=str(file), fix=fix) from wrong
    except TextFault as fault:
        where = f"{file}:{fault.line}" if fault.line else str(file)
        raise ConfigError(fault.message, file=where, fix=fault.fix) from None
    if not isinstance(document, dict):
        message = "is empty" if document is None else "is not a mapping"
        raise ConfigError(message, file=str(file), fix=f"start with kind: {KIND}")
    if not {"apiVersion", "kind"} & document.keys():
        fix = f"write apiVersion: {API_VERSION} and kind: {KIND}"
        raise ConfigError("has no apiVersion and no kind", file=str(file), fix=fix)
    found = document.get("kind", KIND)
    if found != KIND:
        fix = f"name a file with kind: {KIND}"
        raise ConfigError("holds no settings", file=str(file), path="kind", value=found, fix=fix)
    if count > 1:
        fix = f"write one {KIND}"
        raise ConfigError(f"holds {count} documents", file=str(file), fix=fix)
    for key, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        found = document.pop(key, ABSENT)
        if found != expected:
            message = "is missing" if found is ABSENT else "names another kind of file"
            fix = f"write {key}: {expected}"
            errors.add(ConfigError(message, file=str(file), path=key, value=found, fix=fix))
    document.pop("metadata", None)
    return list(_flat(document, str(file), "", errors))


def _flat(
    section: Mapping[Any, Any], file: str, above: str, errors: Collector
) -> Iterator[tuple[str, str, Any]]:
    sections = {leaf.path.rpartition(".")[0] for leaf in leaves()}
    known = [leaf.path for leaf in leaves()]
    for key, value in section.items():
        path = f"{above}{key}"
        if path in known:
            yield path, file, value
        elif path in sections:
            if isinstance(value, dict):
                yield from _flat(value, file, f"{path}.", errors)
            else:
                errors.add(ConfigError("must be a mapping", file=file, path=path, value=value))
        else:
            fix = _nearest(path, above)
            errors.add(ConfigError("unknown key", file=file, path=path, fix=fix))


def _nearest(path: str, above: str) -> str:
    keys = sorted(
        {leaf.path[len(above) :].split(".")[0] for leaf in leaves() if leaf.path.startswith(above)}
    )
    return did_you_mean(path[len(above) :], keys)


def _from_environment(
    environment: Mapping[str, str], errors: Collector
) -> Iterator[tuple[str, str, Any]]:
    path_of = {leaf.variable: leaf.path for leaf in leaves()}
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in NO_SETTINGS:
            continue
        if _SERVICE_LINK.search(name) or _LINK_VALUE.match(value):
            continue
        if name not in path_of:
            fix = did_you_mean(name, list(path_of))
            errors.add(ConfigError("unknown setting in the environment", path=name, fix=fix))
        else:
            yield path_of[name], name, value


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for leaf in leaves():
        # Keys that are not set keep the defaults of this section, not those of its class.
        *sections, last = leaf.path.split(".")
        at = nested
        for section in sections:
            at = at.setdefault(section, {})
        if leaf.path in values:
            at[last] = values[leaf.path]
        elif sections:
            at[last] = leaf.default
    return nested


def _error(fault: ErrorDetails, origins: Mapping[str, str]) -> ConfigError:
    names = [str(step) for step in fault["loc"]]
    path = next((p for p in origins if names[: p.count(".") + 1] == p.split(".")), ".".join(names))
    origin = origins.get(path, "")
    cause = fault.get("ctx", {}).get("error")
    text = str(cause) if cause is not None else fault["msg"]
    return ConfigError(
        f"{text[:1].lower()}{text[1:]}",
        file=origin,
        path=join_path(*fault["loc"]),
        value=fault["input"],
        fix=str(getattr(cause, "fix", "")),
    )


def _at(settings: BaseModel, path: str) -> Any:
    value: Any = settings
    for step in path.split("."):
        names = {field.alias: name for name, field in type(value).model_fields.items()}
        value = getattr(value, names[step])
    return value


def plain(value: Any) -> Any:
    """Return a value as a settings file would write it."""
    if isinstance(value, SecretStr):
        return str(value)
    if isinstance(value, float):
        return format_duration(value)
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _kind(value: Any, annotation: Any) -> str:
    choices = getattr(annotation, "__args__", ())
    if choices and all(isinstance(choice, str) for choice in choices):
        return " or ".join(choices)
    if isinstance(value, tuple):
        return "list"
    kinds = {bool: "true or false", float: "duration", int: "integer"}
    return kinds.get(type(value), "text")
