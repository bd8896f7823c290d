"""The node affinity of queues: what holds for a job is what all queues on its path demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.constraints import NodeTerm, Requirement
    from kaisched.core.tables import QueueTable

Terms: TypeAlias = "tuple[tuple[NodeTerm, ...], ...]"
"""Of each entry one term must hold."""


def demands_of(table: QueueTable, workload: int, queue: int) -> Iterator[tuple[str, Terms]]:
    """Yield the queues from the root to ``queue`` that demand something, with what they demand."""
    own = table.node_affinity
    if own is not None and queue >= 0:
        for row in reversed(table.tree.path(queue).tolist()):
            if entries := own[row][workload]:
                yield table.name[row], entries


def terms_for(table: QueueTable, workload: int, queue: int) -> Terms:
    """Return what holds for jobs of a type of workload in a leaf, each entry once."""
    found = demands_of(table, workload, queue)
    return tuple(dict.fromkeys(entry for _, entries in found for entry in entries))


def in_words(terms: Terms) -> str:
    """Return demands as a text, as ``run.ai/type in (a100, v100)``."""
    return " and ".join(" or ".join(_term(term) for term in entry) for entry in terms)


def _term(term: NodeTerm) -> str:
    return " and ".join(_requirement(one) for part in term for one in part)


def _requirement(one: Requirement) -> str:
    if one.operator in ("In", "NotIn"):
        word = "in" if one.operator == "In" else "not in"
        return f"{one.key} {word} ({', '.join(one.values)})"
    if one.operator in ("Gt", "Lt"):
        return f"{one.key} {'>' if one.operator == 'Gt' else '<'} {', '.join(one.values)}"
    return one.key if one.operator == "Exists" else f"no {one.key}"
