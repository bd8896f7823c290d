"""What happened in an embedded cluster, for tests and demonstrations to look back on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

HISTORY_LENGTH: Final = 10_000
"""So many happenings are kept, the last ones: a scheduler may run for months on such a cluster."""

What = Literal[
    "created",
    "bound",
    "bind_failed",
    "nominated",
    "started",
    "ended",
    "evicted",
    "eviction_failed",
    "released",
    "deleted",
    "lost",
]


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened to a pod (``namespace/name``)."""

    at_s: float
    what: What
    pod: str
    node: str = ""
    detail: str = ""
