"""Cycle: takes a snapshot, decides, and carries decisions out, in the daemon and in ``plan``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kaisched.framework.cycle import run_cycle
from kaisched.framework.plugins.probe import NULL

if TYPE_CHECKING:
    from kaisched.clock import Clock
    from kaisched.cluster.state import IntentSink, SnapshotSource
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.memory import Memory
    from kaisched.framework.plugins.probe import Probe
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.result import CycleResult


class UsageSource(Protocol):
    """Source of the queues' usage history."""

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage | None:
        """Return usage for the snapshot's queues and resources; None without a history.

        Called once a cycle; it neither waits nor raises.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether an answer is there, or none is to be expected."""
        ...


@dataclass(frozen=True, slots=True)
class Cycle:
    """Snapshot, decisions and memory of a cycle."""

    snapshot: Snapshot
    result: CycleResult
    memory: Memory
    start_s: float
    end_s: float
    usage: Usage | None = None
    """Usage history in this cycle; None if no history is kept."""

    @property
    def duration_s(self) -> float:
        """Duration in seconds; never negative, even if the clock was set back meanwhile."""
        return max(self.end_s - self.start_s, 0.0)

    @property
    def has_intents(self) -> bool:
        """Tell whether there are any intents."""
        return bool(self.result.binds or self.result.evictions or self.result.nominations)


def next_cycle(
    source: SnapshotSource,
    sink: IntentSink,
    policy: Policy,
    usage_source: UsageSource | None,
    clock: Clock,
    memory: Memory,
    probe: Probe = NULL,
) -> Cycle:
    """Run one cycle on the present state of ``source`` and pass its intents to ``sink``.

    An abandoned cycle has no intents; nothing is passed on then, and the old facts remain. A cycle
    that decides nothing is passed on: it withdraws earlier promises.
    """
    start_s = clock.now_s()
    snapshot = source.snapshot()
    usage = usage_source.usage(snapshot, start_s) if usage_source is not None else None
    result, memory = run_cycle(snapshot, usage, policy, start_s, memory, probe)
    cycle = Cycle(snapshot, result, memory, start_s, clock.now_s(), usage)
    if not result.stats.abandoned:
        sink.apply(result.binds, result.evictions, result.nominations)
    return cycle
