"""The loop: runs a cycle after every event, and at least once a period, until stopped."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.ma
import structlog

from kaisched.clock import monotonic_s
from kaisched.core.axis import TaskState
from kaisched.core.usage import UsageState
from kaisched.daemon import garbage
from kaisched.engine.policy import build_policy, without_evictions
from kaisched.errors import KaischedError
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.limits import left_of
from kaisched.telemetry.decisions import CycleLog
from kaisched.telemetry.stopwatch import Stopwatch
from kaisched.usage.feed import UsageFeed, open_probe, open_store
from kaisched.usage.settings import read_usage
from kaisched.view.publisher import Publisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.clock import Clock
    from kaisched.config.settings import SchedulerConfiguration
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.daemon.recordings import Recordings
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.advice.standing import StandingAdvice
    from kaisched.framework.cycle import Cycle, IntentSink, SnapshotSource, UsageSource
    from kaisched.framework.policy import Policy
    from kaisched.objects.shard import SchedulingShard
    from kaisched.telemetry.metrics import ClaimFigures, CycleCollector
    from kaisched.usage.history import ServerHealth

_AWAITED: Final = "waiting for a first answer, and nothing is reclaimed meanwhile"
LEAST_GAP_S: Final = 0.05
"""Events that follow each other faster than this share a cycle."""
MOST_PUT_OFF: Final = 20
"""Most cycles in a row that deferred work waits for."""
_BY_FAIR_SHARE: Final = "reclaim"
"""The action that evicts by fair shares, which depend on usage history."""


class Loop:
    """Loop of one shard. ``wake`` and ``stop`` work from any thread, but not in signal handlers."""

    _server: ServerHealth | None = None
    """Whether the server of usage history answers, as of the last cycle."""

    def __init__(
        self,
        source: SnapshotSource,
        sink: IntentSink,
        policy: Policy,
        clock: Clock,
        collector: CycleCollector,
        *,
        period_s: float,
        usage_source: UsageSource | None = None,
        usage_wait_s: float = 0.0,
        usage_server: Callable[[], ServerHealth | None] = lambda: None,
        shard: str = "default",
        after: Callable[[Cycle], None] = lambda _: None,
        between: Callable[[Cycle], None] = lambda _: None,
        recordings: Recordings | None = None,
        view: Publisher | None = None,
        claims: Callable[[Snapshot], ClaimFigures] | None = None,
        is_observing: bool = False,
    ) -> None:
        """Keep what a cycle needs; do nothing yet.

        ``after`` gets each cycle, ``between`` gets it again when there is time, ``view`` what it
        found. ``recordings`` may ask to record the next cycle; ``claims`` has figures of claims.
        What it decides while it is observing (``is_observing``) is not told as done.
        """
        self._source, self._sink = source, sink
        self._policy, self._clock = policy, clock
        self._collector, self._period_s = collector, period_s
        self._after, self._between, self._usage_server = after, between, usage_server
        self._recordings, self._view, self._claims = recordings, view, claims
        self._usage_source, self._usage_wait_s = usage_source, usage_wait_s
        without = tuple(it for it in policy.actions if it.name != _BY_FAIR_SHARE)
        self._policy_without_usage = replace(policy, actions=without)
        self._usage_until_s: float | None = -1.0
        """Deadline for the first usage answer; negative before the wait begins, None after it."""
        self._usage_logged: tuple[str, ...] = ()
        self._memory = Memory()
        collector.publish(
            collector.published.starting(
                [action.name for action in policy.actions],
                [setting.plugin.name for setting in policy.plugins],
            )
        )
        self._watch = Stopwatch(clock.now_s)
        self._news, self._bell, self._end = (threading.Event() for _ in range(3))
        if recordings is not None:
            recordings.wake = self.wake
        if view is not None:
            view.inquiries.ring = self._bell.set
        self._log: Any = structlog.get_logger().bind(shard=shard)
        self._cycle_log = CycleLog(self._log, is_observing=is_observing)
        self.cycles = self._deferred = 0
        self.health = Health(clock.now_s(), period_s)

    def wake(self) -> None:
        """Request the next cycle at once."""
        self._news.set()
        self._bell.set()

    def stop(self) -> None:
        """Stop after the cycle that is under way."""
        self._end.set()
        self.wake()

    def run(self) -> None:
        """Run cycles until stopped."""
        self._log.debug("loop_started", period_s=self._period_s)
        while not self._end.is_set():
            self._news.clear()
            cycle = self.cycle()
            garbage.tend()
            ended_s = monotonic_s()
            if not self._end.wait(min(LEAST_GAP_S, self._period_s)):
                self._answer(cycle)  # before what may take long
                self._run_deferred(cycle)
                self._rest(cycle, ended_s + self._period_s)
        self.health.stopping()
        self._log.info("loop_stopped", cycles=self.cycles)

    def _rest(self, cycle: Cycle | None, until_s: float) -> None:
        """Wait for events, and answer requests of the view meanwhile, at least one."""
        if self._view is None:
            self._news.wait(max(until_s - monotonic_s(), 0.0))
            return
        inquiries = self._view.inquiries
        self._answer(cycle)
        while not self._news.is_set() and (left_s := until_s - monotonic_s()) > 0:
            due_s = inquiries.due_in_s()
            self._bell.wait(left_s if due_s is None else min(left_s, due_s))
            self._bell.clear()
            self._answer(cycle)
        inquiries.forget()

    def _answer(self, cycle: Cycle | None) -> None:
        """Answer the first waiting request of the view."""
        if self._view is None:
            return
        try:
            self._view.inquiries.answer(None if cycle is None else cycle.result)
        except Exception as error:  # noqa: BLE001 - a plugin may fail at any question
            self._log.error("inquiry_failed", cycle=self.cycles, exc_info=error)

    def _run_deferred(self, cycle: Cycle | None) -> None:
        """Do deferred work; after the next cycle if one is requested, but not for ever."""
        is_pressed = self._news.is_set() and self._deferred < MOST_PUT_OFF
        if cycle is None or is_pressed:
            self._deferred += 1
            return
        self._deferred = 0
        try:
            self._between(cycle)
        except Exception as error:  # noqa: BLE001 - it must not take the next cycles with it
            self._log.error("rest_failed", cycle=self.cycles, exc_info=error)

    def _policy_now(self, now_s: float) -> Policy:
        """Return the policy of the next cycle: without reclaim while usage history is pending.

        The first answer of the usage store may change which queues exceed their fair share. So
        nothing is reclaimed until the answer comes or the wait for it has been long enough.
        """
        source, until_s = self._usage_source, self._usage_until_s
        if source is None or until_s is None:
            return self._policy
        if until_s < 0:
            until_s = self._usage_until_s = now_s + self._usage_wait_s
        is_ready = source.is_ready()
        if not is_ready and 0 < until_s - now_s <= self._usage_wait_s:
            return self._policy_without_usage
        self._usage_until_s = None
        if not is_ready:
            self._log.warning("usage_not_awaited", waited_s=self._usage_wait_s)
        return self._policy

    def cycle(self) -> Cycle | None:
        """Run one cycle; return None if it failed, which is logged and does not end the loop."""
        self.cycles += 1
        self._watch.reset()
        start_s = self._clock.now_s()
        self.health.beginning(start_s)
        recordings = self._recordings
        recorder = recordings if recordings is not None and recordings.is_wanted else None
        facts = self._memory.facts
        policy = self._policy_now(start_s)
        try:
            cycle = next_cycle(
                recorder or self._source,
                self._sink,
                policy,
                self._usage_source,
                self._clock,
                self._memory,
                self._watch,
            )
            self._memory = cycle.memory
            if recorder is not None:
                recorder.end(cycle, facts, policy)
            self._publish(cycle)
            self._show(cycle)
            self._after(cycle)
            if cycle.result.is_cut_short:
                self.wake()
        except Exception as error:  # noqa: BLE001 - a bad cycle must not take the next ones with it
            self._failed(start_s, error)
            return None
        return cycle

    def _failed(self, start_s: float, error: Exception) -> None:
        now_s = self._clock.now_s()
        text = (
            str(error) if isinstance(error, KaischedError) else f"{type(error).__name__}: {error}"
        )
        is_bug = not isinstance(error, KaischedError)
        self._log.error(
            "cycle_failed", cycle=self.cycles, err=text, exc_info=error if is_bug else None
        )
        self.health.failed(now_s, text)
        published = self._collector.published
        self._collector.publish(published.after_failure(max(now_s - start_s, 0.0), now_s))

    def _publish(self, cycle: Cycle) -> None:
        result = cycle.result
        self._cycle_log.record(self.cycles, result, cycle.duration_s, cycle.end_s)
        if result.stats.abandoned:
            self.health.failed(cycle.end_s, result.stats.abandoned)
        else:
            failing = sorted({failure.plugin for failure in result.failures})
            self.health.succeeded(cycle.end_s, tuple(failing), self._log_usage(cycle.usage))
        self._note_server()
        published = self._collector.published.after(
            result, cycle.duration_s, cycle.end_s, self._watch.by_plugin()
        )
        published = published.with_starts(cycle.snapshot, result)
        left = left_of(cycle.snapshot, self._policy, cycle.end_s)
        left = left if left < 0 else max(left - len(result.evictions), 0)
        stuck = np.count_nonzero(cycle.snapshot.tasks.state == int(TaskState.STUCK))
        claims = None if self._claims is None else self._claims(cycle.snapshot)
        published = replace(
            published,
            evictions_left=left,
            stuck=int(stuck),
            nodes=cycle.snapshot.nodes,
            claims=claims,
        )
        axis, queues = cycle.snapshot.axis.names, cycle.snapshot.queues.name
        self._collector.publish(
            published.with_history(
                axis,
                queues,
                cycle.snapshot.total,
                cycle.usage,
                server=None if self._server is None else self._server.is_reachable,
            )
        )

    def _show(self, cycle: Cycle) -> None:
        """Publish the view of a cycle; a fault in it is logged, and costs this view only."""
        if self._view is None:
            return
        try:
            self._view.take(
                cycle.result,
                cycle=self.cycles,
                time_s=cycle.end_s,
                duration_s=cycle.duration_s,
                usage=cycle.usage,
                by_action=self._watch.by_action(),
                by_plugin=self._watch.by_plugin(),
            )
        except Exception as error:  # noqa: BLE001 - no cycle depends on who looks at it
            self._log.error("view_failed", cycle=self.cycles, exc_info=error)

    def _note_server(self) -> None:
        """Note whether the server of usage history answers; log changes."""
        server = self._usage_server()
        if server is None:
            return
        self.health.note_server(server.message)
        if self._server is None or server.is_reachable != self._server.is_reachable:
            log = self._log.info if server.is_reachable else self._log.warning
            log("usage_server_changed", reachable=server.is_reachable, message=server.message)
        self._server = server

    def _log_usage(self, usage: Usage | None) -> str:
        """Log changes of the usage history; return its state as text."""
        if usage is None:
            return ""
        parts = (usage.state.value, *usage.reasons)
        if self._usage_until_s is not None:
            parts = (*parts, _AWAITED)
        if parts != self._usage_logged:
            log = self._log.info if usage.state is UsageState.FRESH else self._log.warning
            log(
                "usage_changed",
                state=usage.state.value,
                age_s=round(usage.age_s, 1) if math.isfinite(usage.age_s) else None,
                coverage=round(usage.coverage, 3),
                reasons=list(parts[1:]),
            )
            self._usage_logged = parts
        return "; ".join(parts)


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

    def beginning(self, now_s: float) -> None:
        """Note that a new cycle begins."""
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


def policy_of(settings: SchedulerConfiguration, found: FoundShard) -> tuple[Policy, list[str]]:
    """Build the policy of a shard; return it with its warnings.

    Raises:
        KaischedError: the shard is wrong, or a plugin it enables is broken.

    """
    policy, said = build_policy(found.shard, found.file)
    return policy if settings.evictions else without_evictions(policy), said


def publisher_of(
    settings: SchedulerConfiguration, shard: SchedulingShard, advice: StandingAdvice
) -> Publisher | None:
    """Return the publisher of a shard's live view; None where the settings serve none."""
    if not settings.view.enabled:
        return None
    pool, config = shard.spec.partition_label_value, shard.spec.usage_db_config
    usage = None if config is None else read_usage(config, shard.name, "")
    is_file = usage is not None and usage.prometheus is None and usage.type == "sqlite"
    hours = usage.path.with_name(f"{usage.path.name}.hours") if usage and is_file else None
    return Publisher(shard.name, advice, pool=pool, hours=hours)


def usage_feed(
    found: FoundShard, clock: Clock, notify: Callable[[ServerHealth], None] = lambda _: None
) -> tuple[UsageFeed | None, float]:
    """Open the usage history a shard asks for; return how long to wait for its first answer.

    ``notify`` is called whenever the server of the history was asked whether it answers.

    Raises:
        ConfigError: the usage store cannot be opened.

    """
    config = found.shard.spec.usage_db_config
    if config is None:
        return None, 0.0
    settings = read_usage(config, found.shard.name, found.file)
    probe = open_probe(settings, notify)
    return UsageFeed(open_store(settings, clock), settings.fetch_s, probe), settings.wait_s
