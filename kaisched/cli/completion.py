"""Completion of names in a shell: those of jobs and queues of a running scheduler.

Nothing is completed where none answers at once: a shell waits for it at every key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

_MOST = 500


def jobs(incomplete: str) -> list[str]:
    """Return the names of jobs that begin with a text, with and without their namespaces."""
    found: dict[str, None] = {}
    for entry in _entries("/jobs", "jobs", name=incomplete.rpartition("/")[2], limit=_MOST):
        of = entry["workload"] or {}
        named = f"{of['namespace']}/{of['part'] or of['name']}" if of else entry["podGroup"]
        found |= dict.fromkeys((named, named.partition("/")[2]))
    return [name for name in found if name.startswith(incomplete)]


def queues(incomplete: str) -> list[str]:
    """Return the names of queues that begin with a text."""
    found = (entry["name"] for entry in _entries("/queues", "queues"))
    return [name for name in found if name.startswith(incomplete)]


def _entries(path: str, key: str, **query: object) -> Iterator[Mapping[str, Any]]:
    from kaisched.cli.source import running_scheduler  # noqa: PLC0415 - only for a completion
    from kaisched.errors import KaischedError  # noqa: PLC0415 - as above

    try:
        yield from running_scheduler("", "").get(path, **query)[key]
    except KaischedError:
        return
