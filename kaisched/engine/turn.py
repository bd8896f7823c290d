"""One turn: take a snapshot, decide, carry out. The daemon and ``plan`` both do this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kaisched.framework.cycle import run_cycle
from kaisched.framework.plugins.probe import NULL

if TYPE_CHECKING:
    from kaisched.clock import Clock
    from kaisched.cluster.ports import IntentSink, SnapshotSource
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.memory import Memory
    from kaisched.framework.plugins.probe import Probe
    from kaisched.framework.policy import Policy
    from kaisched.framework.report.records import CycleResult


class UsageSource(Protocol):
    """Says what each queue has consumed lately."""

    def usage(self, snapshot: Snapshot, now_s: float) -> Usage | None:
        """Return usage for the snapshot's queues and resources; None where there is no history.

        Called once a turn; it neither waits nor raises.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether there is something to begin with, or nothing to wait for."""
        ...


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn saw, decided and remembers."""

    snapshot: Snapshot
    result: CycleResult
    memory: Memory
    start_s: float
    end_s: float
    usage: Usage | None = None
    """What it was told of the past; None where no history is kept."""

    @property
    def duration_s(self) -> float:
        """How long it took; never negative, even when the clock was set back meanwhile."""
        return max(self.end_s - self.start_s, 0.0)

    @property
    def has_intents(self) -> bool:
        """Tell whether anything is to be done."""
        return bool(self.result.binds or self.result.evictions or self.result.nominations)


def take_turn(
    source: SnapshotSource,
    sink: IntentSink,
    policy: Policy,
    usage_source: UsageSource | None,
    clock: Clock,
    memory: Memory,
    probe: Probe = NULL,
) -> Turn:
    """Run one cycle on what ``source`` shows now and hand its intents to ``sink``.

    An abandoned cycle has no intents; nothing is handed over then, and the old facts stay. One that
    decided to do nothing is handed over: what was promised before is promised no more.
    """
    start_s = clock.now_s()
    snapshot = source.snapshot()
    usage = usage_source.usage(snapshot, start_s) if usage_source is not None else None
    result, memory = run_cycle(snapshot, usage, policy, start_s, memory, probe)
    turn = Turn(snapshot, result, memory, start_s, clock.now_s(), usage)
    if not result.stats.abandoned:
        sink.apply(result.binds, result.evictions, result.nominations)
    return turn
