"""Numbers and times as the documents of the live view show them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kaisched.core.axis import GPU_UNIT
from kaisched.units import UNLIMITED
from kaisched.view.plan_document import amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.view.live import LiveView

SCHEMA: Final = "kaisched.io/view/v1"


def envelope(view: LiveView) -> dict[str, Any]:
    """Return what every document of a view begins with."""
    return {
        "schemaVersion": SCHEMA,
        "shard": view.shard,
        "revision": view.revision,
        "since": stamp(view.since_s),
    }


def stamp(seconds: float) -> str | None:
    """Return a time as RFC 3339 in UTC; None for none."""
    if not math.isfinite(seconds):
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def gpus(base: int) -> float | int:
    """Return thousandths of GPUs as GPUs."""
    return base // GPU_UNIT if base % GPU_UNIT == 0 else base / GPU_UNIT


def by_name(names: Sequence[str], column: Iterable[int]) -> dict[str, float | int | None]:
    """Return amounts ``(R,)`` in base units for people."""
    pairs = zip(names, column, strict=True)
    return amounts({name: -1 if base >= UNLIMITED else base for name, base in pairs})
