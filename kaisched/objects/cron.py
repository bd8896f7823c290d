"""Cron expressions: when they last fired, and when they fire next.

An expression has five fields (minute, hour, day of month, month, day of week) or is a macro such as
``@monthly``, in UTC or after ``CRON_TZ=Europe/Berlin`` in a named zone. Fields are lists, ranges,
steps, and names of months and days. If both day of month and day of week are restricted, either
fires, as in every cron.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from kaisched.units import UnitError

_FIX: Final = (
    'write minute, hour, day of month, month and day of week, such as "0 0 * * 1",'
    " or a macro such as @monthly"
)
_MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {name: at + 1 for at, name in enumerate(_MONTHS)}),
    ("day of week", 0, 7, {name: at for at, name in enumerate(_DAYS)}),
)
_PART: Final = re.compile(r"(\*|\?|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]{1,4}))?", re.ASCII)
_MOST_DAYS: Final = 8 * 366 + 1
"""The longest possible wait: from one 29 February to the next around a year such as 2100."""
_MOST_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed cron expression."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    is_either_day: bool
    """Whether both kinds of day are restricted, so that either one suffices."""
    is_every_hour: bool
    zone: tzinfo

    def before(self, now_s: float) -> float:
        """Return the last time it fired *before* ``now_s``, seconds since 1970.

        At the very moment of firing it returns the time before that: the window that ends now is
        still whole. A time that daylight saving skips fires later by the skipped hour. A time that
        comes twice fires once, at first, unless the hour is ``*``.
        """
        # Cron fires at whole minutes, so all moments of one minute have the same answer.
        return _before(self, math.ceil(now_s / 60) * 60)

    def after(self, now_s: float) -> float:
        """Return the next time it fires, ``now_s`` or later: the end of the window at ``now_s``."""
        return _after(self, math.ceil(now_s / 60) * 60)

    def search(self, now_s: int) -> float:
        """Find the answer of :meth:`before`, day by day."""
        today = datetime.fromtimestamp(now_s, self.zone).date()
        # Start a day later: a skipped time may fall on the next day.
        for back in range(-1, _MOST_DAYS):
            day = today - timedelta(days=back)
            if not self.is_on(day):
                continue
            fired = [at for at in self._times(day) if at < now_s]
            if fired:
                return max(fired)
        return now_s  # not reached: parse_cron refuses an expression that never fires

    def search_on(self, now_s: int) -> float:
        """Find the answer of :meth:`after`, day by day."""
        today = datetime.fromtimestamp(now_s, self.zone).date()
        found: list[float] = []
        # A skipped time may fall on the next day, so each day is looked at with the one before.
        for on in range(-1, _MOST_DAYS):
            day, is_last = today + timedelta(days=on), bool(found)
            if self.is_on(day):
                found += [at for at in self._times(day) if at >= now_s]
            if is_last:
                break
        return min(found, default=now_s)  # as above

    def is_on(self, day: date) -> bool:
        """Tell whether the expression fires on a day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.is_either_day else in_month and in_week

    def _times(self, day: date) -> list[float]:
        folds = (0, 1) if self.is_every_hour else (0,)
        return [
            datetime.combine(day, time(hour, minute, fold=fold), self.zone).timestamp()
            for hour in self.hours
            for minute in self.minutes
            for fold in folds
        ]


@lru_cache(maxsize=256)
def _before(cron: Cron, now_s: int) -> float:
    return cron.search(now_s)


@lru_cache(maxsize=256)
def _after(cron: Cron, now_s: int) -> float:
    return cron.search_on(now_s)


def parse_cron(value: object) -> Cron:
    """Parse a cron expression.

    Raises:
        UnitError: not in the grammar, an unknown zone, or a day that never comes.

    """
    if not isinstance(value, str) or len(value) > _MOST_CHARS:
        raise UnitError("no cron expression", _FIX)
    zone, text = _zone_of(value.strip())
    if text.startswith("@every"):
        raise UnitError(
            f"{text!r} is no time of the day", "use windowType: tumbling with a windowSize instead"
        )
    fields = _MACROS.get(text.lower(), text).lower().split()
    if len(fields) != len(_FIELDS):
        raise UnitError(f"{value!r} has {len(fields)} fields instead of five", _FIX)
    minutes, hours, days, months, weekdays = (
        _values(field, *what) for field, what in zip(fields, _FIELDS, strict=True)
    )
    cron = Cron(
        value,
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        fields[2][0] not in "*?" and fields[4][0] not in "*?",
        fields[1] in {"*", "?"},
        zone,
    )
    leap = date(2004, 12, 31)
    if not any(cron.is_on(leap - timedelta(days=back)) for back in range(5 * 366)):
        raise UnitError(f"{value!r} never fires", "write a day that the month has")
    return cron


def _zone_of(text: str) -> tuple[tzinfo, str]:
    match = re.fullmatch(r"(?:CRON_TZ|TZ)=(\S*)\s+(.*)", text)
    if match is None:
        return UTC, text
    try:
        return ZoneInfo(match[1]), match[2]
    except (ValueError, OSError, KeyError):
        fix = 'write a name such as "Europe/Berlin", or leave it out for UTC'
        raise UnitError(f"{match[1]!r} is no time zone", fix) from None


def _values(field: str, what: str, least: int, most: int, names: dict[str, int]) -> set[int]:
    values: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise UnitError(f"{part!r} is no {what}", _FIX)
        first, last, step = match[1], match[2], int(match[3] or 1)
        is_all = first in {"*", "?"}
        if step < 1 or (is_all and last is not None):
            raise UnitError(f"{part!r} is no {what}", _FIX)
        low = least if is_all else _number(first, what, least, most, names)
        if last is not None:
            high = _number(last, what, least, most, names)
        else:
            high = most if is_all or match[3] else low
        if high < low:
            raise UnitError(f"{part!r} runs backwards", f"write the smaller {what} first")
        values.update(range(low, high + 1, step))
    return values


def _number(text: str, what: str, least: int, most: int, names: dict[str, int]) -> int:
    number = names.get(text, int(text) if text.isdigit() and len(text) <= len("9999") else -1)
    if not least <= number <= most:
        raise UnitError(f"{text!r} is no {what}", f"write a number from {least} to {most}")
    return number
