"""What puts a job or a queue behind the one before it, and its sentence."""

from __future__ import annotations

from typing import Final, NamedTuple

from kaisched.units import UNLIMITED

_IN_WORDS: Final = {
    "creation": "{} was created later",
    "age": "{} was created later, or requeued later, when its time was over",
    "name": "the name of {} comes later",
    "place": "{} was created later, or its name comes later",
}


class Because(NamedTuple):
    """The first key in which two neighbours in an order differ."""

    plugin: str
    """The plugin that answered it; empty for the last rules of the host."""
    key: str
    own: float | str | None
    other: float | str | None

    def text(self, whose: str) -> str:
        """Return for example ``priority 10 against 90 (priority)``; ``whose`` is who is behind."""
        if not self.plugin:
            return _IN_WORDS[self.key].format(whose)
        return f"{self.key} {_told(self.own)} against {_told(self.other)} ({self.plugin})"


def _told(value: float | str | None) -> str:
    number = plain_number(value)
    if number is None:
        return "none"
    return f"{number:.15g}" if isinstance(number, float) else str(number)


def plain_number(value: float | str | None) -> float | str | None:
    """Return a value for JSON, None for one that stands for none or infinite."""
    if value is None or isinstance(value, str):
        return value
    return value if abs(value) < UNLIMITED else None
