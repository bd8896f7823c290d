"""Collects what is wrong with a scenario while it is read, so that all of it is told at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from kaisched.errors import ABSENT, ConfigError, ObjectError, join_path
from kaisched.objects.decode import without_nulls
from kaisched.objects.explain import explain
from kaisched.objects.faults import Fault, did_you_mean
from kaisched.units import UnitError, parse_duration

MOST_TOLD = 20

Step = str | int


class ScenarioError(ConfigError):
    """The first thing wrong with a scenario; ``others`` are the rest."""

    others: tuple[ConfigError, ...] = ()


class Findings:
    """What is wrong with one file. Where a method finds a fault, its answer is harmless."""

    def __init__(self, file: str) -> None:
        """Begin with nothing wrong."""
        self.file = file
        self.errors: list[ScenarioError] = []
        self.warnings: list[str] = []

    def add(self, message: str, *path: Step, value: object = ABSENT, fix: str = "") -> None:
        """Take note of a fault at a path."""
        where = join_path(*path)
        self.errors.append(ScenarioError(message, file=self.file, path=where, value=value, fix=fix))

    def add_error(self, error: ConfigError | ObjectError, inside: str, *path: Step) -> None:
        """Take note of an error in an object that stands at a path, ``inside`` which it counts."""
        steps = error.path.removeprefix(inside).removeprefix(".")
        where = ".".join(filter(None, (join_path(*path), steps)))
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
        """Raise the first error, with the others in it.

        Raises:
            ScenarioError: where anything is wrong.

        """
        if self.errors:
            first, *others = self.errors
            first.others = tuple(others[: MOST_TOLD - 1])
            raise first

    def convert(self, raw: object, type_: type[Any], *path: Step) -> Any:
        """Return the struct of plain values, or None with a fault for each that does not fit."""
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
        """Return the seconds of a duration, ``least`` where it is none or shorter."""
        try:
            seconds = parse_duration(text)
        except UnitError as error:
            self.add(str(error), *path, fix=error.fix)
            return max(least, 1.0)
        if seconds < least:
            self.add("is too short", *path, value=text, fix=f"write {least:g}s or more")
            return least
        return seconds

    def number(self, value: float, *path: Step, least: float = 0.0, most: float = 1e9) -> float:
        """Return a number in a range, the least of it where it is outside."""
        if not (math.isfinite(value) and least <= value <= most):
            fix = f"write a number from {least:g} to {most:g}"
            self.add("is out of range", *path, value=value, fix=fix)
            return least
        return value

    def known(self, name: str, names: Sequence[str], what: str, *path: Step) -> bool:
        """Tell whether a name is one of those there are; a fault if not."""
        if name in names:
            return True
        fix = did_you_mean(name, list(names)) or f"there is no {what} at all: add one"
        self.add(f"there is no such {what}", *path, value=name, fix=fix)
        return False
