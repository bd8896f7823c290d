"""Stopwatch for plugins' answers and for actions, with a given clock."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kaisched.framework.plugins.probe import Probe
from kaisched.framework.report.records import RUN

if TYPE_CHECKING:
    from collections.abc import Callable

_F = TypeVar("_F", bound="Callable[..., Any]")


class Stopwatch(Probe):
    """Sums seconds and calls by (plugin, question), and by (action, ``run``)."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        """Keep the clock: any function that returns seconds."""
        self._now_s = now_s
        self.seconds: dict[tuple[str, str], float] = {}
        self.calls: dict[tuple[str, str], int] = {}

    def wrap(self, plugin: str, question: str, function: _F) -> _F:
        """Return ``function``, timed even if it raises."""
        key = (plugin, question)

        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start_s = self._now_s()
            try:
                return function(*args, **kwargs)
            finally:
                # The machine's clock may be set back, but a counter must not fall.
                took_s = max(self._now_s() - start_s, 0.0)
                self.seconds[key] = self.seconds.get(key, 0.0) + took_s
                self.calls[key] = self.calls.get(key, 0) + 1

        return cast("_F", timed)

    def by_plugin(self) -> dict[str, float]:
        """Return seconds by plugin, sorted by name."""
        total: dict[str, float] = {}
        for (plugin, question), seconds in sorted(self.seconds.items()):
            if question != RUN:
                total[plugin] = total.get(plugin, 0.0) + seconds
        return total

    def by_action(self) -> dict[str, float]:
        """Return seconds by action, in the order in which they ran."""
        seconds = self.seconds.items()
        return {name: took_s for (name, question), took_s in seconds if question == RUN}

    def reset(self) -> None:
        """Forget everything, before the next cycle."""
        self.seconds.clear()
        self.calls.clear()
