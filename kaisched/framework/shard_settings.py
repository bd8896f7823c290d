"""Shard settings that are defaults of plugin arguments, and former names of argument values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel
    from pydantic.config import JsonDict

SETTINGS: Final = (
    "kValue",
    "minRuntime.preemptMinRuntime",
    "minRuntime.reclaimMinRuntime",
    "placementStrategy.cpu",
    "placementStrategy.gpu",
    "quotaScope",
    "usageDBConfig.usageParams.cronString",
    "usageDBConfig.usageParams.halfLifePeriod",
    "usageDBConfig.usageParams.tumblingWindowStartTime",
    "usageDBConfig.usageParams.windowSize",
    "usageDBConfig.usageParams.windowType",
)
"""Paths below ``spec``."""
_KEY: Final = "shardSetting"
_FORMER: Final = "formerValues"


def shard_setting(path: str) -> JsonDict:
    """Mark an argument whose default is the shard's setting at a path.

    For a field of a plugin's ``Arguments``: ``json_schema_extra=shard_setting("kValue")``.

    Raises:
        ValueError: there is no such setting.

    """
    if path not in SETTINGS:
        raise ValueError(f"no shard setting {path!r}; there are {', '.join(SETTINGS)}")
    return {_KEY: path}


def settings_of(arguments: type[BaseModel]) -> dict[str, str]:
    """Return argument, as a shard writes it, to the path of its shard setting."""
    found: dict[str, str] = {}
    for name, field in arguments.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and _KEY in extra:
            found[field.alias or name] = str(extra[_KEY])
    return found


def former_values(**now_called: str) -> JsonDict:
    """Declare former names of an argument's values: they are read with a warning.

    For a field of a plugin's ``Arguments``: ``json_schema_extra=former_values(old="new")``.
    """
    return {_FORMER: dict(now_called)}


def without_former_values(
    model: type[BaseModel], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return arguments, as a shard writes them, with today's values, and a line for each changed.

    Each line is ``argument: former is called now``.
    """
    current, changed = dict(arguments), []
    for name, field in model.model_fields.items():
        key, extra = field.alias or name, field.json_schema_extra
        former = extra.get(_FORMER) if isinstance(extra, dict) else None
        value = arguments.get(key)
        if isinstance(former, dict) and isinstance(value, str) and value in former:
            current[key] = former[value]
            changed.append(f"{key}: {value} is called {former[value]}")
    return current, changed
