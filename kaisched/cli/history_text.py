"""Sums over a period as a table, and amounts of resources in cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.printing import Column, print_table
from kaisched.units import format_amount, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_GIBIBYTE: Final = 1 << 30
UNITS: Final = {"gpu": "GPU-hours", "cpu": "core-hours", "memory": "GiB-hours"}
_PERIOD: Final = (
    Column("QUEUE"),
    Column("USED", is_number=True),
    Column("FAIR SHARE", is_number=True),
    Column("GOT", is_number=True),
    Column("OF CAPACITY", is_number=True, may_go=True),
)


def amount_of(resource: str, amount: float | None) -> str:
    """Return an amount of a document for a cell; None is unlimited."""
    if amount is None:
        return "unlimited"
    if resource == "memory":
        return format_amount(resource, int(amount) >> 6)
    return f"{amount:g}"


def hours_of(resource: str, amount: float | None) -> str:
    """Return an amount times hours for a cell, to three digits at least."""
    if amount is None:
        return "-"
    shown = amount / _GIBIBYTE if resource == "memory" else amount
    return f"{shown:,.0f}" if shown >= 100 else f"{shown:.3g}"  # noqa: PLR2004 - three digits


def print_period(period: Mapping[str, Any]) -> None:
    """Print what queues used in a period, and which part of it is known."""
    resource, capacity = period["resource"], period["capacityHours"]
    print_table(
        f"The last {format_duration(period['seconds'])}: {UNITS[resource]}",
        _PERIOD,
        [
            (
                it["name"],
                hours_of(resource, it["usedHours"]),
                hours_of(resource, it["entitledHours"]),
                _ratio(it["usedHours"], it["entitledHours"]),
                _ratio(it["usedHours"], capacity),
            )
            for it in period["queues"]
        ],
    )
    print(covered_line(period))  # noqa: T201


def covered_line(period: Mapping[str, Any]) -> str:
    """Say which part of a period is known."""
    return f"{period['covered']:.0%} of this time is covered by samples"


def _ratio(amount: float, of: float | None) -> str:
    return f"{amount / of:.0%}" if of else "-"


def period_rows(period: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV."""
    heads = ("name", "usedHours", "entitledHours", "waitedHours")
    yield heads
    for it in period["queues"]:
        yield tuple(it[head] for head in heads)
