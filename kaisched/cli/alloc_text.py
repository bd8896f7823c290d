"""Who holds the GPUs, as a tree and as ``kaisched.io/alloc/v1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kaisched.cli.printing import Column, print_table
from kaisched.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SCHEMA: Final = "kaisched.io/alloc/v1"
GROUPS: Final = ("queue", "node", "job")
OTHERS: Final = "(other schedulers)"
HIDDEN: Final = "(hidden)"
_KINDS: Final = {
    "queue": "queue.scheduling.run.ai",
    "node": "node",
    "job": "podgroup.scheduling.run.ai",
}


def groups_of(text: str) -> tuple[str, ...]:
    """Return the groups that a list names.

    Raises:
        ConfigError: one is unknown, or named twice.

    """
    groups = tuple(part.strip() for part in text.split(","))
    if len(set(groups)) != len(groups) or not set(groups) <= set(GROUPS):
        fix = "write some of queue, node and job, each once"
        raise ConfigError("no such grouping", path="--group", value=text, fix=fix)
    return groups


def document(nodes: Iterable[Mapping[str, Any]], groups: Sequence[str]) -> dict[str, Any]:
    """Return who holds what, as a tree of groups; from the nodes' entries of the live view."""
    total, free = 0.0, 0.0
    tree: dict[str, dict[str, Any]] = {}
    for node in nodes:
        total, free = total + node["gpus"]["total"], free + node["gpus"]["free"]
        if groups[0] == "node":
            top = _group(tree, "node", node["name"])
            top["total"], top["free"] = node["gpus"]["total"], node["gpus"]["free"]
        for holder in node["holders"]:
            _add(tree, groups, node["name"], holder)
    return {
        "schemaVersion": SCHEMA,
        "resource": "gpu",
        "groupedBy": list(groups),
        "total": _plain(total),
        "free": _plain(free),
        "held": _plain(sum(it["held"] for it in tree.values())),
        "groups": _listed(tree),
    }


def _add(
    tree: dict[str, dict[str, Any]], groups: Sequence[str], node: str, holder: Mapping[str, Any]
) -> None:
    """Add what a job holds on a node to the groups that it is in."""
    names = {
        "node": node,
        "queue": holder["queue"] or OTHERS,
        "job": holder["podGroup"] or (HIDDEN if holder["queue"] else OTHERS),
    }
    level = tree
    for group in groups:
        entry = _group(level, group, names[group])
        entry["held"] += holder["gpus"]
        entry["pods"] += holder["pods"]
        level = entry["groups"]


def _group(level: dict[str, dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    new = {"kind": kind, "name": name, "held": 0.0, "pods": 0, "groups": {}}
    return level.setdefault(name, new)


def _listed(level: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**level[name], "held": _plain(level[name]["held"]), "groups": _listed(entry["groups"])}
        for name, entry in sorted(level.items())
    ]


def _plain(amount: float) -> float | int:
    rounded = round(amount, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def print_table_of(document: Mapping[str, Any]) -> None:
    """Print the tree, and the sums."""
    groups, total = document["groupedBy"], document["total"]
    is_by_node = groups[0] == "node"
    columns = [
        Column(", ".join(groups).upper()),
        Column("HELD", is_number=True),
        Column("OF ALL", is_number=True),
        Column("PODS", is_number=True),
    ]
    if is_by_node:
        columns.append(Column("FREE", is_number=True))
    lines = []
    for depth, entry in _flat(document["groups"]):
        of = f"{entry['held'] / total:.0%}" if total else "-"
        name = "  " * depth + entry["name"]
        line = [name, f"{entry['held']:g}", of, f"{entry['pods']}"]
        lines.append([*line, f"{entry.get('free', ''):}"] if is_by_node else line)
    print_table("GPUs", columns, lines)
    print(f"{document['held']:g} of {total:g} GPUs held, {document['free']:g} free")  # noqa: T201


def _flat(
    groups: Sequence[Mapping[str, Any]], depth: int = 0
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each group with its depth, those in it after it."""
    for entry in groups:
        yield depth, entry
        yield from _flat(entry["groups"], depth + 1)


def rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the innermost groups, with those that they are in."""
    yield (*document["groupedBy"], "held", "pods")
    yield from _leaves(document["groups"], (), len(document["groupedBy"]))


def _leaves(
    groups: Sequence[Mapping[str, Any]], above: tuple[str, ...], left: int
) -> Iterator[Sequence[object]]:
    for entry in groups:
        line = (*above, entry["name"])
        if left > 1:
            yield from _leaves(entry["groups"], line, left - 1)
        else:
            yield (*line, entry["held"], entry["pods"])


def names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outermost groups as kubectl reads them."""
    for entry in document["groups"]:
        if entry["name"] not in {OTHERS, HIDDEN}:
            yield f"{_KINDS[entry['kind']]}/{entry['name'].rpartition('/')[2]}"
