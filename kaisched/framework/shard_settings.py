"""Settings of a shard that plugins take for arguments: which there are, and who takes which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.config import JsonDict

SETTINGS: Final = (
    "kValue",
    "minRuntime.preemptMinRuntime",
    "minRuntime.reclaimMinRuntime",
    "placementStrategy.cpu",
    "placementStrategy.gpu",
    "usageDBConfig.usageParams.halfLifePeriod",
    "usageDBConfig.usageParams.tumblingWindowStartTime",
    "usageDBConfig.usageParams.windowSize",
)
"""Paths below ``spec``."""
_KEY: Final = "shardSetting"


def shard_setting(path: str) -> JsonDict:
    """Mark an argument as the shard's setting at a path, where the shard gives no argument for it.

    For a field of a plugin's ``Arguments``: ``json_schema_extra=shard_setting("kValue")``.

    Raises:
        ValueError: there is no such setting.

    """
    if path not in SETTINGS:
        raise ValueError(f"no shard setting {path!r}; there are {', '.join(SETTINGS)}")
    return {_KEY: path}


def settings_of(arguments: type[BaseModel]) -> dict[str, str]:
    """Return argument, as a shard writes it, to the path of the setting that it is."""
    found: dict[str, str] = {}
    for name, field in arguments.model_fields.items():
        extra = field.json_schema_extra
        if isinstance(extra, dict) and _KEY in extra:
            found[field.alias or name] = str(extra[_KEY])
    return found
