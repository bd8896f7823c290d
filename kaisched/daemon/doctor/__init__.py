"""Findings of the doctor's checks, and what the checks share."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from kaisched.cluster.kubernetes.client import JSON
from kaisched.errors import ClusterUnavailable
from kaisched.objects.wire import BAD_JSON

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
_PAGE: Final = 5000
_T = TypeVar("_T")


class _Meta(msgspec.Struct):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Page(msgspec.Struct, Generic[_T]):
    metadata: _Meta | None = None
    items: list[_T] | None = None


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


def listed(
    visit: Visit, path: str, plural: str, type_: type[_T], accept: str = JSON
) -> Iterator[_T]:
    """Yield the objects of a list, page by page.

    Raises:
        ClusterUnavailable: the list cannot be had or read.

    """
    query = {"limit": str(_PAGE)}
    while True:
        answer = visit.client.call("GET", path, query=query, accept=accept)
        if not answer.is_done:
            raise ClusterUnavailable(f"{plural} cannot be listed: {answer.text()}")
        try:
            page: _Page[_T] = msgspec.json.decode(answer.data, type=_Page[type_])  # type: ignore[valid-type]
        except BAD_JSON as wrong:
            raise ClusterUnavailable(f"the list of {plural} cannot be read") from wrong
        yield from page.items or ()
        if page.metadata is None or not page.metadata.continue_:
            return
        query = {**query, "continue": page.metadata.continue_}


def of_binding(
    visit: Visit, path: str, *, there: Finding, missing: Finding, unknown: str
) -> Finding:
    """Say whether a binding of an admission policy is there; ``unknown`` says what else is not."""
    answer = visit.client.call("GET", path)
    if answer.is_done:
        return there
    if answer.code == HTTPStatus.NOT_FOUND:
        return missing
    fix = f"run the doctor as a user who may get {path.split('/')[-2]}"
    text = f"whether {unknown} is not known: {answer.text()}"
    return Finding(missing.check, "warn", text, fix)
