"""The probe: wraps every call of a plugin and every action, for example to measure its time.

The cycle itself never reads a clock; a caller that wants timings passes in a probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


class Probe(Protocol):
    """Wraps each plugin's answer to each question; must return what the answer returns.

    An action is wrapped likewise, under its own name and the question ``run``.
    """

    def __hash__(self) -> int:
        """Return a hash: what is compiled for a probe is kept."""
        ...

    def wrap(self, plugin: str, question: str, function: _F) -> _F:
        """Return a function that behaves as ``function`` and may note that it was called."""
        ...


class NullProbe:
    """A probe that wraps no call and costs nothing."""

    def wrap(self, plugin: str, question: str, function: _F) -> _F:
        """Return the function itself."""
        del plugin, question
        return function


NULL: Probe = NullProbe()
