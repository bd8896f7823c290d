"""Flags of KAI-Scheduler in a shard's ``args`` that affect decisions; the others are ignored.

Values may be texts, as flags are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kaisched.errors import ObjectError, join_path
from kaisched.objects.faults import INT32_MAX, Fault, unit_faults
from kaisched.units import UnitError, parse_duration

_SWITCHES: Final = {"true": True, "false": False}


def _grace(value: object) -> float:
    return parse_duration(value, allow_negative=True)


def _preemptees(value: object) -> int:
    text = str(value)
    is_whole = text.removeprefix("-").isascii() and text.removeprefix("-").isdigit()
    if not is_whole or not -1 <= int(text[:20]) <= INT32_MAX:
        fix = "write how many jobs may be moved at most; 0 for none, -1 for no bound"
        raise UnitError(f"{text[:40]!r} is no number of jobs", fix)
    return int(text)


def _switch(value: object) -> bool:
    text = str(value).lower()
    if text not in _SWITCHES:
        raise UnitError(f"{text[:40]!r} is neither true nor false", "write true or false")
    return _SWITCHES[text]


ARGS: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "default-staleness-grace-period": ("staleness_grace_s", _grace),
    "stuck-in-releasing-threshold": ("stuck_after_s", _grace),
    "max-consolidation-preemptees": ("max_consolidation_preemptees", _preemptees),
    "allow-consolidating-reclaim": ("allows_consolidating_reclaim", _switch),
}
"""Field of our policy for each of KAI's flags, and the function that reads its value."""


def args_faults(args: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of the flags that are read."""
    for name, (_, parse) in ARGS.items():
        if name in args:
            yield from unit_faults(("spec", "args", name), args[name], parse)


def read_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Read the flags as fields of a policy.

    Raises:
        ObjectError: for the first invalid flag.

    """
    fields: dict[str, Any] = {}
    for name, (field, parse) in ARGS.items():
        if name in args:
            try:
                fields[field] = parse(args[name])
            except UnitError as error:
                path = join_path("spec", "args", name)
                raise ObjectError(str(error), path=path, fix=error.fix) from None
    return fields
