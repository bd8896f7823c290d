"""Liveness and readiness of the loop, for probes.

Alive means that the loop makes progress. It does not depend on the API server or the usage store,
since a restart would mend neither. Ready means that cycles succeed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

LEAST_STALL_S: Final = 60.0
"""A cycle may take this long, whatever the period, before liveness fails."""
STALLED_PERIODS: Final = 10
MOST_FAILURES: Final = 3
"""Readiness fails after this many failed cycles in a row."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line in the answer to a probe."""

    name: str
    is_ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class _Beat:
    last_s: float
    cycles: int = 0
    failures: int = 0
    error: str = ""
    failing_plugins: tuple[str, ...] = ()
    usage: str = ""
    server: str = ""
    is_stopping: bool = False


class Health:
    """State of the loop: the loop swaps one immutable value, so probes need no lock."""

    def __init__(self, now_s: float, period_s: float) -> None:
        """Start as alive and not ready."""
        self._beat = _Beat(now_s)
        self._stalled_s = max(LEAST_STALL_S, STALLED_PERIODS * period_s)

    def turning(self, now_s: float) -> None:
        """Note that a new turn begins."""
        self._beat = replace(self._beat, last_s=now_s)

    def succeeded(
        self, now_s: float, failing_plugins: tuple[str, ...] = (), usage: str = ""
    ) -> None:
        """Note a successful cycle, the plugins that failed in it, and the state of its history."""
        cycles = self._beat.cycles + 1
        self._beat = _Beat(
            now_s, cycles, failing_plugins=failing_plugins, usage=usage, server=self._beat.server
        )

    def failed(self, now_s: float, error: str) -> None:
        """Note a cycle that raised or was abandoned."""
        beat = self._beat
        self._beat = replace(beat, last_s=now_s, failures=beat.failures + 1, error=error)

    def note_server(self, message: str) -> None:
        """Note what is known of the server of usage history."""
        self._beat = replace(self._beat, server=message)

    def stopping(self) -> None:
        """Note that the process is about to end: no longer ready."""
        self._beat = replace(self._beat, is_stopping=True)

    def live(self, now_s: float) -> tuple[Check, ...]:
        """Return the checks of liveness."""
        age_s = max(now_s - self._beat.last_s, 0.0)
        text = f"last turned {age_s:.1f} s ago, stalled after {self._stalled_s:.0f} s"
        return (Check("loop", age_s <= self._stalled_s, text),)

    def ready(self, now_s: float) -> tuple[Check, ...]:
        """Return the checks of readiness; those of plugins and usage history never fail."""
        beat = self._beat
        failed = (
            f"{beat.failures} failed in a row: {beat.error}" if beat.failures else "none failed"
        )
        plugins = ", ".join(beat.failing_plugins)
        return (
            *self.live(now_s),
            Check("first-cycle", beat.cycles > 0, f"{beat.cycles} cycles so far"),
            Check("cycles", beat.failures < MOST_FAILURES, failed),
            Check(
                "plugins",
                True,
                f"failed in the last cycle: {plugins}" if plugins else "no failures",
            ),
            Check("usage", True, beat.usage or "no history is kept"),
            *([Check("usage-server", True, beat.server)] if beat.server else []),
            Check(
                "shutdown", not beat.is_stopping, "stopping" if beat.is_stopping else "not asked"
            ),
        )
