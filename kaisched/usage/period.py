"""Sums of what queues used in a period, for reports; from the file of a usage store."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaisched.errors import ConfigError, UsageUnavailable
from kaisched.units import MEMORY_UNIT
from kaisched.usage.sqlite import FileUnusableError, UsageFile, why_foreign

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kaisched.usage.history import Stretch

HOUR_S: Final = 3600.0
BASE_UNITS: Final = {"gpu": 1000.0, "cpu": 1000.0, "memory": 1.0 / MEMORY_UNIT}
"""Base units of a GPU, a core and a byte."""
_PARTS: Final = ("", "-wal")
"""Ends of the names of the files that hold a history."""


@dataclass(frozen=True, slots=True)
class Period:
    """What queues used, in amounts of a resource times hours: GPUs, cores, bytes."""

    resource: str
    seconds: float
    """Length of the period."""
    covered_s: float
    """The part of it about which something is known."""
    capacity: float
    used: Mapping[str, float]
    entitled: Mapping[str, float] | None = None
    """What the fair shares came to; None where they are not recorded."""
    waited: Mapping[str, float] | None = None
    """What waiting pods asked for; None likewise."""

    def document(self, names: Collection[str] | None = None) -> dict[str, Any]:
        """Return the sums of these queues; of all without names."""
        known = sorted({*self.used, *(self.entitled or ())} if names is None else names)
        return {
            "resource": self.resource,
            "seconds": round(self.seconds, 3),
            "covered": round(min(self.covered_s / self.seconds, 1.0), 4),
            "capacityHours": round(self.capacity, 3),
            "queues": [
                {
                    "name": name,
                    "usedHours": round(self.used.get(name, 0.0), 3),
                    "entitledHours": _rounded(self.entitled, name),
                    "waitedHours": _rounded(self.waited, name),
                }
                for name in known
            ],
        }


def _rounded(amounts: Mapping[str, float] | None, name: str) -> float | None:
    return None if amounts is None else round(amounts.get(name, 0.0), 3)


def from_file(path: Path, resource: str, start_s: float, end_s: float) -> Period:
    """Sum up a period from a copy of a usage file, so that a running scheduler keeps its own.

    Raises:
        ConfigError: there is no such file, or it is none of the store `sqlite`.
        UsageUnavailable: it cannot be read.

    """
    try:
        foreign = why_foreign(path)
        why = f"is {foreign}" if foreign else "" if path.exists() else "no such file"
        if why := why or ("" if path.stat().st_size else "is empty"):
            fix = "name the file of the store `sqlite`"
            raise ConfigError(why, file=str(path), fix=fix)
        with tempfile.TemporaryDirectory(prefix="kaisched-") as folder:
            for ending in _PARTS:
                beside = path.with_name(path.name + ending)
                if beside.is_file():
                    shutil.copyfile(beside, Path(folder, f"usage{ending}"))
            file = UsageFile(Path(folder, "usage"))
            try:
                stretches = [row.stretch for row in file.read(start_s)]
            finally:
                file.close()
    except (FileUnusableError, sqlite3.Error, OSError) as error:
        raise UsageUnavailable(f"{path}: no usage history can be read: {error}") from error
    return summed(stretches, resource, start_s, end_s)


def summed(stretches: Iterable[Stretch], resource: str, start_s: float, end_s: float) -> Period:
    """Sum up the stretches of a period; one that is partly in it counts in proportion."""
    capacity, covered_s, used = 0.0, 0.0, dict[str, float]()
    for it in stretches:
        within_s = min(it.end_s, end_s) - max(it.start_s, start_s)
        if within_s <= 0 or resource not in it.resources:
            continue
        row = it.resources.index(resource)
        hours = within_s / it.span_s / (HOUR_S * BASE_UNITS[resource])
        covered_s += within_s
        capacity += float(it.capacity[row]) * hours
        for name, amount in zip(it.queues, it.used[row].tolist(), strict=True):
            used[name] = used.get(name, 0.0) + amount * hours
    return Period(resource, end_s - start_s, covered_s, capacity, used)
