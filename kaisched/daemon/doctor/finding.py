"""What a check found, and what checks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.resources import Watched
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.daemon.doctor.served import Served
    from kaisched.engine.shards import FoundShard

Level = Literal["ok", "warn", "fail"]
_MOST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: how it is, and what to do about it."""

    check: str
    level: Level
    text: str
    fix: str = ""
    """Empty where nothing is to be done."""


@dataclass(slots=True)
class Visit:
    """What the checks ask, and what the first of them found out for the others."""

    client: Client
    settings: SchedulerConfiguration
    clock: Clock
    user: str = ""
    """Whose rights are looked at; ours unless given."""
    served: Served | None = None
    """None until the server has said what it serves."""
    shards: Sequence[FoundShard] = ()
    kinds: Sequence[Watched] = ()
    """What is watched for the shards."""

    @property
    def namespace(self) -> str:
        """Where the leases are."""
        return self.settings.kubernetes.namespace or self.client.access.namespace


def named(names: Iterable[str]) -> str:
    """Return names for a sentence: the first few, in order, and how many more there are."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
