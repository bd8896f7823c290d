"""The probe: wraps every call of a plugin and every action, for example to measure its time.

The cycle itself never reads a clock; a caller that wants timings passes in a probe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


class Probe:
    """Wraps each plugin's answer to each question, and each action as the question ``run``.

    This one wraps nothing and costs nothing. It is hashable: what is made for a probe is kept.
    """

    def wrap(self, plugin: str, question: str, function: _F) -> _F:
        """Return a function that behaves as ``function`` and may note that it was called."""
        del plugin, question
        return function


NULL: Final = Probe()
