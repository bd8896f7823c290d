"""What queues have of their fair shares, as tables and as ``kaisched.io/fairness/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.history_text import amount_of, print_period
from kaisched.cli.printing import Column, indented, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kaisched.usage.period import Period

SCHEMA: Final = "kaisched.io/fairness/v1"
_NOW: Final = (
    Column("QUEUE"),
    Column("FAIR SHARE", is_number=True),
    Column("ALLOCATED", is_number=True),
    Column("OF SHARE", is_number=True),
    Column("REQUESTED", is_number=True, may_go=True),
    Column("USED LATELY", is_number=True, may_go=True),
    Column("WAITING", is_number=True),
)
_TITLES: Final = {
    "gpu": "Fairness: GPUs",
    "cpu": "Fairness: CPU cores",
    "memory": "Fairness: memory",
}


def document(
    queues: Sequence[Mapping[str, Any]],
    usage: Mapping[str, Any] | None,
    resource: str,
    period: Period | None,
) -> dict[str, Any]:
    """Return queues with their amounts of one resource; in entries of the live view."""
    shown = [_entry(it, resource) for it in queues]
    names = {it["name"] for it in shown}
    return {
        "schemaVersion": SCHEMA,
        "resource": resource,
        "queues": shown,
        "usage": usage,
        "period": None if period is None else period.document(names),
    }


def _entry(queue: Mapping[str, Any], resource: str) -> dict[str, Any]:
    fair, held = queue["fairShare"].get(resource, 0), queue["allocated"].get(resource, 0)
    return {
        "name": queue["name"],
        "parent": queue["parent"],
        "fairShare": fair,
        "allocated": held,
        "ofShare": round(held / fair, 4) if fair and held is not None else None,
        "requested": queue["requested"].get(resource, 0),
        "deserved": queue["deserved"].get(resource, 0),
        "usedLately": None if queue["usage"] is None else queue["usage"].get(resource, 0.0),
        "waiting": sum(queue["pending"].values()),
    }


def print_tables(document: Mapping[str, Any]) -> None:
    """Print the queues as they are now and, if it was read, what they had over time."""
    entries, resource = document["queues"], document["resource"]
    names = indented([(it["name"], it["parent"]) for it in entries])
    print_table(
        _TITLES.get(resource, f"Fairness: {resource}"),
        _NOW,
        [
            (
                name,
                amount_of(resource, it["fairShare"]),
                amount_of(resource, it["allocated"]),
                _part(it["ofShare"]),
                amount_of(resource, it["requested"]),
                _part(it["usedLately"]),
                f"{it['waiting']}",
            )
            for name, it in zip(names, entries, strict=True)
        ],
    )
    print(_usage_line(document["usage"]))  # noqa: T201
    if document["period"] is not None:
        print()  # noqa: T201
        print_period(document["period"])


def _part(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _usage_line(usage: Mapping[str, Any] | None) -> str:
    if usage is None:
        return "no usage history: shares are those of the moment"
    why = f": {', '.join(usage['reasons'])}" if usage["reasons"] else ""
    return f"usage history: {usage['state']}, {usage['coverage']:.0%} of the window covered{why}"


def rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: queues as they are now, with their sums over time if read."""
    heads = (
        "name",
        "parent",
        "fairShare",
        "allocated",
        "ofShare",
        "requested",
        "deserved",
        "usedLately",
        "waiting",
    )
    period = document["period"]
    had = {} if period is None else {it["name"]: it for it in period["queues"]}
    yield (*heads, *(() if period is None else ("usedHours", "entitledHours")))
    for entry in document["queues"]:
        found = had.get(entry["name"], {})
        more = () if period is None else (found.get("usedHours"), found.get("entitledHours"))
        yield (*(entry[head] for head in heads), *more)
