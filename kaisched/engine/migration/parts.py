"""A cursor over exported settings, by which every key is taken, told of, or found to be wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from kaisched.errors import ABSENT, ObjectError, join_path
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.telemetry.logs import masked
from kaisched.units import UnitError, parse_duration

Reasons: TypeAlias = Mapping[str, "str | Reasons"]
"""Why keys are not taken; those inside a key may have reasons of their own."""

UNKNOWN: Final = "kaisched does not know this key: see what it did, and whether you need it"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


class Note(NamedTuple):
    """Something that a file does not hold, and why; or something that is left to do."""

    source: Source
    path: str
    text: str
    value: object = ABSENT


@dataclass(slots=True)
class Told:
    """All that is said about an export beside the files made of it."""

    left: list[Note] = field(default_factory=list)
    """What is not taken, and why."""
    to_do: list[Note] = field(default_factory=list)
    """What no file can do."""
    errors: list[ObjectError] = field(default_factory=list)


class Part:
    """One map of an export. Nulls count as absent."""

    def __init__(self, raw: object, at: Path, source: Source, told: Told) -> None:
        """Begin with all keys; what is no map is an error, and has none."""
        self.at, self.source, self.told = at, source, told
        self._left: dict[str, Any] = {}
        if isinstance(raw, dict):
            self._left = {str(key): value for key, value in raw.items() if value is not None}
        else:
            self.wrong("", "no map", raw, "export it again, as it was given out")

    def wrong(self, key: str, message: str, value: object, fix: str) -> None:
        """Add an error about a key, or about the map itself."""
        shown = masked(key, value)
        fault = Fault((*self.at, key) if key else self.at, message, shown, fix)
        self.told.errors.append(to_error(fault, self.source))

    def has(self, key: str) -> bool:
        """Tell whether a key is given and was not taken yet."""
        return key in self._left

    def raw(self, key: str) -> Any:
        """Take a value as it is; None without one."""
        return self._left.pop(key, None)

    def text(self, *keys: str) -> str:
        """Take the text, or number, of the first key that is given."""
        for key in keys:
            value = self.raw(key)
            if isinstance(value, str | int) and not isinstance(value, bool):
                return str(value)
            if value is not None:
                self.wrong(key, "no text", value, "write a text")
        return ""

    def name(self, *keys: str) -> str:
        """Take the name of something that becomes an object of Kubernetes."""
        key = next((it for it in keys if self.has(it)), keys[0])
        name = self.text(key)
        if not _NAME.fullmatch(name):
            shown = name or ABSENT
            fix = "write small letters, digits, hyphens and dots"
            self.wrong(key, "no name" if name else "missing", shown, fix)
        return name

    def switch(self, key: str) -> bool | None:
        """Take true or false; None without a value."""
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        self.wrong(key, "neither true nor false", value, "write true or false")
        return None

    def number(self, key: str, least: float = 0) -> float | None:
        """Take a number, which may be written as a text; -1 stands for no bound."""
        value = self.raw(key)
        if value is None:
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number) and number >= least:
            return int(number) if number.is_integer() else number
        self.wrong(
            key,
            "no number" if math.isnan(number) else "out of range",
            value,
            f"write a number of at least {least:g}",
        )
        return None

    def seconds(self, key: str) -> str:
        """Take a number of seconds as a duration; empty without one, or for 0."""
        number = self.number(key)
        return f"{number:g}s" if number else ""

    def duration(self, key: str) -> str:
        """Take a duration as it is written; empty without one."""
        text = self.text(key)
        if text:
            try:
                parse_duration(text)
            except UnitError as error:
                self.wrong(key, str(error), text, error.fix)
                return ""
        return text

    def texts(self, key: str) -> list[str]:
        """Take a list of texts."""
        value = self.raw(key)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(it, str | int) for it in value):
            return [str(it) for it in value]
        self.wrong(key, "no list of texts", value, "write a list such as [a, b]")
        return []

    def part(self, key: str) -> Part:
        """Take a map; an empty one if there is none."""
        return Part(self._left.pop(key, {}), (*self.at, key), self.source, self.told)

    def parts(self, key: str) -> list[Part]:
        """Take a list of maps."""
        value = self._left.pop(key, [])
        if not isinstance(value, list):
            self.wrong(key, "no list", value, "export it again, as it was given out")
            return []
        return [
            Part(it, (*self.at, key, at), self.source, self.told) for at, it in enumerate(value)
        ]

    def leave(self, key: str, reason: str) -> None:
        """Take a key and say why it is not used."""
        if self.has(key):
            self._leave((*self.at, key), self.raw(key), reason)

    def to_do(self, text: str, *steps: str) -> None:
        """Say what no file can do."""
        self.told.to_do.append(Note(self.source, join_path(*self.at, *steps), text))

    def rest(self, reasons: Reasons) -> None:
        """Say of every key that was not taken why it is not used."""
        for key in list(self._left):
            reason = reasons.get(key, reasons.get("*", UNKNOWN))
            value = self.raw(key)
            if isinstance(reason, str):
                self._leave((*self.at, key), value, reason)
            elif isinstance(value, dict):
                Part(value, (*self.at, key), self.source, self.told).rest(reason)
            else:
                self._leave((*self.at, key), value, UNKNOWN)

    def _leave(self, at: Path, value: object, reason: str) -> None:
        for path, each in _leaves(value, at):
            shown = masked(join_path(*path), each)
            self.told.left.append(Note(self.source, join_path(*path), reason, shown))


def _leaves(value: object, at: Path) -> Iterator[tuple[Path, object]]:
    """Yield every value inside a map, so that no key of it is left out; lists are one value."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*at, str(key)))
    else:
        yield at, value
