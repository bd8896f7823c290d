"""Faults of a scenario, collected while it is read, so that all are reported at once."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from kaisched.errors import ABSENT, ConfigError, ObjectError, join_path
from kaisched.objects.decode import BadObject, decode_object, without_nulls
from kaisched.objects.faults import Fault, did_you_mean, explain
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import Amount
from kaisched.units import UnitError, parse_duration

MOST_TOLD = 20

Step = str | int


class ScenarioError(ConfigError):
    """The first fault of a scenario; ``others`` are the rest."""


class Findings:
    """Collected faults of one file. A method that finds a fault returns a harmless value."""

    def __init__(self, file: str) -> None:
        """Start without faults."""
        self.file = file
        self.errors: list[ScenarioError] = []
        self.warnings: list[str] = []
        self.path: tuple[Step, ...] = ()

    def inside(self, *path: Step) -> Findings:
        """Return the same findings for a part of the file: paths begin there."""
        part = copy.copy(self)
        part.path = (*self.path, *path)
        return part

    def add(self, message: str, *path: Step, value: object = ABSENT, fix: str = "") -> None:
        """Record a fault at a path."""
        where = join_path(*self.path, *path)
        self.errors.append(ScenarioError(message, file=self.file, path=where, value=value, fix=fix))

    def warn(self, message: str, *path: Step) -> None:
        """Record an oddity at a path."""
        self.warnings.append(f"{self.file}: {join_path(*self.path, *path)}: {message}")

    def add_error(self, error: ConfigError | ObjectError, inside: str, *path: Step) -> None:
        """Record an error of an embedded object at a path; its own path begins with ``inside``."""
        steps = error.path.removeprefix(inside).removeprefix(".")
        where = ".".join(filter(None, (join_path(*self.path, *path), steps)))
        self.errors.append(
            ScenarioError(
                error.message,
                file=error.file or self.file,
                path=where,
                value=error.value,
                fix=error.fix,
            )
        )

    def stop_if_any(self) -> None:
        """Raise the first error, which holds the others.

        Raises:
            ScenarioError: there is any fault.

        """
        if self.errors:
            first, *others = self.errors
            first.others = tuple(others[: MOST_TOLD - 1])
            raise first

    def shard(self, name: str, spec: dict[str, Any]) -> SchedulingShard | None:
        """Read the spec of a shard; None, with its faults, if that fails."""
        try:
            shard, warnings = decode_object(
                {"metadata": {"name": name}, "spec": spec}, SchedulingShard
            )
        except BadObject as bad:
            for wrong in bad.errors:
                self.add_error(wrong, "spec")
            return None
        self.warnings += [f"{self.file}: {it.path}: {it.message}" for it in warnings]
        return shard

    def convert(self, raw: object, type_: type[Any], *path: Step) -> Any:
        """Convert plain values to a struct; None, with a fault for each mismatch, if that fails."""
        try:
            value = without_nulls(raw)
        except ValueError as error:
            self.add(str(error), *path)
            return None
        try:
            return msgspec.convert(value, type_)
        except (msgspec.ValidationError, ValueError, OverflowError) as error:
            for fault in list(explain(value, type_)) or [Fault((), str(error))]:
                where = (*path, *fault.path)
                self.add(fault.message, *where, value=fault.value, fix=fault.fix)
            return None

    def seconds(self, text: str | int, *path: Step, least: float = 0.0) -> float:
        """Return the seconds of a duration, or ``least`` and a fault if invalid or shorter."""
        try:
            seconds = parse_duration(text)
        except UnitError as error:
            self.add(str(error), *path, fix=error.fix)
            return max(least, 1.0)
        if seconds < least:
            self.add("is too short", *path, value=text, fix=f"write {least:g}s or more")
            return least
        return seconds

    def units(
        self, read: Callable[[Amount, bool], int], amount: Amount, key: Step, *, is_request: bool
    ) -> int | None:
        """Return the base units of an amount, or None and a fault if invalid."""
        try:
            return read(amount, is_request)
        except UnitError as error:
            self.add(str(error), key, fix=error.fix)
            return None

    def number(self, value: float, *path: Step, least: float = 0.0, most: float = 1e9) -> float:
        """Return a number in a range, or ``least`` and a fault if it is outside."""
        if not (math.isfinite(value) and least <= value <= most):
            fix = f"write a number from {least:g} to {most:g}"
            self.add("is out of range", *path, value=value, fix=fix)
            return least
        return value

    def known(self, name: str, names: Sequence[str], what: str, *path: Step) -> bool:
        """Tell whether a name is known; record a fault if not."""
        if name in names:
            return True
        fix = did_you_mean(name, list(names)) or f"there is no {what} at all: add one"
        self.add(f"there is no such {what}", *path, value=name, fix=fix)
        return False
