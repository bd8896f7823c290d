"""Findings of the doctor's checks, and what the checks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.resources import Watched
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.engine.shards import FoundShard
    from kaisched.errors import KaischedError

Level = Literal["ok", "warn", "fail"]
_MOST_NAMES: Final = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: a state, and what to do about it."""

    check: str
    level: Level
    text: str
    fix: str = ""
    """Empty if nothing is to be done."""


class Served(NamedTuple):
    """API groups and kinds that a server has."""

    versions: Mapping[str, tuple[str, ...]]
    """By group."""

    def has(self, kind: Watched) -> bool:
        """Tell whether our version of a kind's group is served; the kind itself may be absent."""
        group, _, version = kind.api_version.rpartition("/")
        is_served = not group or version in self.versions.get(group, ())
        return is_served or any(map(self.has, kind.others))


@dataclass(slots=True)
class Visit:
    """Inputs of the checks, and what earlier checks found out for later ones."""

    client: Client
    settings: SchedulerConfiguration
    clock: Clock
    user: str = ""
    """The user whose rights are checked; ours if empty."""
    served: Served | None = None
    """None until the server has answered what it serves."""
    shards: Sequence[FoundShard] = ()
    kinds: Sequence[Watched] = ()
    """Kinds that the shards watch."""

    @property
    def namespace(self) -> str:
        """The namespace of the leases."""
        return self.settings.kubernetes.namespace or self.client.access.namespace


def failures(check: str, wrong: KaischedError) -> Iterator[Finding]:
    """Yield an error, and those found together with it."""
    for error in (wrong, *wrong.others):
        text = str(error).removesuffix(f"; {error.fix}") if error.fix else str(error)
        yield Finding(check, "fail", text, error.fix)


def named(names: Iterable[str]) -> str:
    """Join names for a sentence: the first few, in order, and the number of the rest."""
    ordered = sorted(names)
    more = len(ordered) - _MOST_NAMES
    return ", ".join(ordered[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, word: str) -> str:
    """Return a number with its word: "1 pod", "2 pods"."""
    return f"{number} {word}{'s' * (number != 1)}"
