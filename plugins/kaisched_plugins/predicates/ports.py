"""When two pods cannot share a node because of their host ports."""

from __future__ import annotations

from collections.abc import Iterable

HostPort = tuple[str, str, int]
"""(protocol, host IP, port)."""

_EVERY_ADDRESS = ("", "0.0.0.0")  # noqa: S104 - compared with, not bound to


def are_in_conflict(one: Iterable[HostPort], other: Iterable[HostPort]) -> bool:
    """Tell whether two pods want the same port; an unset or wildcard address is every address."""
    others = list(other)
    return any(_is_same(mine, theirs) for mine in one for theirs in others)


def _is_same(one: HostPort, other: HostPort) -> bool:
    if (one[0] or "TCP", one[2]) != (other[0] or "TCP", other[2]):
        return False
    return one[1] == other[1] or one[1] in _EVERY_ADDRESS or other[1] in _EVERY_ADDRESS
