"""Steps: the cycles of several shards, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.framework.report.records import CycleResult


@dataclass(frozen=True, slots=True)
class Step:
    """One cycle of one shard."""

    shard: str
    pool: str
    """Name of its node pool."""
    result: CycleResult
    passed_on: dict[str, str]
    """Jobs that went on to another node pool after it, with the name of that pool."""
