"""The loop runs a cycle after each event and at least once a period, and survives bad cycles."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from kaisched.clock import ManualClock, SystemClock
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import TopologyLevel
from kaisched.core.usage import Usage, UsageState
from kaisched.daemon.loop import MOST_PUT_OFF, Loop
from kaisched.engine.policy import default_policy
from kaisched.errors import ClusterUnavailable
from kaisched.framework import cycle as framework_cycle
from kaisched.framework.cycle import run_cycle
from kaisched.telemetry.metrics import CycleCollector
from kaisched.telemetry.published import Spread
from kaisched.units import MEBIBYTE
from tests.waiting import PATIENCE_S, until

GIB = 1024 * MEBIBYTE


class StoreCluster:
    """A source and a sink on one row store: bound pods run."""

    def __init__(self, jobs=1):
        self.store = RowStore()
        self.store.put_node(
            NodeRow("n0", {"cpu": 8000, "memory": 64 * GIB, "gpu": 2000, "pods": 99})
        )
        self.store.put_queue(QueueRow("a", quota={"gpu": 2000}))
        for number in range(jobs):
            self.add_job(f"team/j{number}")
        self.applied = []
        self.faults = []

    def add_job(self, name):
        shape = self.store.intern_shape({"cpu": 1000, "gpu": 1000})
        self.store.add_job(
            name, "a", priority=50, is_preemptible=True, created_s=0.0, tasks=[(f"{name}-0", shape)]
        )

    def snapshot(self):
        if self.faults:
            raise self.faults.pop()
        return self.store.snapshot()

    def apply(self, binds, evictions, nominations):
        self.applied.extend(bind.pod for bind in binds)
        for bind in binds:
            self.store.set_state(bind.task, TaskState.RUNNING, bind.node_row)


def loop_on(cluster, clock=None, period_s=1.0):
    return Loop(
        cluster,
        cluster,
        default_policy(),
        clock or ManualClock(),
        CycleCollector(),
        period_s=period_s,
    )


def test_a_turn_binds_and_is_published():
    cluster = StoreCluster(jobs=3)
    cluster.store.nodes.put_topology("t", (TopologyLevel("rack"),))
    loop = loop_on(cluster)
    with capture_logs() as logs:
        loop.cycle()
    assert cluster.applied == ["team/j0-0", "team/j1-0"]
    published = loop._collector.published
    assert (published.binds, dict(published.pending)) == (2, {"NoRoom": 1})
    assert published.domains == {("t", "rack"): Spread()}, "a rate has a zero to rise from"
    assert [line["event"] for line in logs] == ["cycle_completed", "job_started", "job_started"]
    assert all(check.is_ok for check in loop.health.ready(0.0))


def test_a_failed_cycle_is_told_and_the_next_one_runs():
    cluster = StoreCluster()
    cluster.faults = [ClusterUnavailable("the server is away")]
    loop = loop_on(cluster)
    with capture_logs() as logs:
        assert loop.cycle() is None
        assert loop.cycle() is not None
    assert [line["event"] for line in logs] == ["cycle_failed", "cycle_completed", "job_started"]
    assert (logs[0]["err"], logs[0]["exc_info"]) == ("the server is away", None)
    assert loop._collector.published.cycles["failed"] == 1
    assert cluster.applied == ["team/j0-0"]


@pytest.mark.fault("G106")
def test_three_failures_in_a_row_are_not_ready_but_alive():
    cluster = StoreCluster()
    loop = loop_on(cluster)
    with capture_logs():
        loop.cycle()
        cluster.faults = [RuntimeError("a bug")] * 3
        for _ in range(3):
            loop.cycle()
    checks = {check.name: check for check in loop.health.ready(0.0)}
    assert not checks["cycles"].is_ok
    assert checks["cycles"].text == "3 failed in a row: RuntimeError: a bug"
    assert all(check.is_ok for check in loop.health.live(0.0))


def test_an_event_wakes_the_loop_and_stop_ends_it():
    cluster = StoreCluster()
    loop = loop_on(cluster, SystemClock(), period_s=60.0)
    with capture_logs() as logs:
        thread = threading.Thread(target=loop.run)
        thread.start()
        until(lambda: cluster.applied == ["team/j0-0"])
        cluster.add_job("team/late")
        loop.wake()
        until(lambda: "team/late-0" in cluster.applied)
        loop.stop()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [logs[0]["event"], logs[-1]["event"]] == ["loop_started", "loop_stopped"]
    assert not all(check.is_ok for check in loop.health.ready(time.time()))


def test_a_cycle_that_was_cut_short_is_followed_by_the_next_at_once(monkeypatch):
    cut_short = [True, True, False]

    def cycle(*given):
        result, memory = run_cycle(*given)
        return replace(result, is_cut_short=bool(cut_short) and cut_short.pop(0)), memory

    monkeypatch.setattr(framework_cycle, "run_cycle", cycle)
    loop = loop_on(StoreCluster(), SystemClock(), period_s=PATIENCE_S)
    thread = threading.Thread(target=loop.run)
    thread.start()
    until(lambda: not cut_short)
    loop.stop()
    thread.join(PATIENCE_S)
    assert loop.cycles == 3


def test_without_events_it_turns_once_a_period():
    loop = loop_on(StoreCluster(), SystemClock(), period_s=0.06)
    with capture_logs():
        thread = threading.Thread(target=loop.run)
        thread.start()
        until(lambda: loop.cycles >= 3)
        loop.stop()
        thread.join(PATIENCE_S)


def rested(loop, called_for):
    """Return whether deferred work ran after each cycle; some cycles are followed at once."""
    found, turns = [], []
    loop._between = turns.append
    with capture_logs():
        for is_called_for in called_for:
            (loop._news.set if is_called_for else loop._news.clear)()
            count = len(turns)
            loop._run_deferred(loop.cycle())
            found.append(len(turns) > count)
    return found


def test_what_is_not_urgent_waits_for_a_rest_but_not_for_ever():
    loop = loop_on(StoreCluster())
    assert rested(loop, [False, True, False]) == [True, False, True]
    assert rested(loop, [True] * (MOST_PUT_OFF + 2)) == [False] * MOST_PUT_OFF + [True, False]


def test_what_is_done_at_rest_cannot_end_the_loop():
    def fails(_):
        raise ValueError("a bug")

    cluster = StoreCluster()
    loop = Loop(
        cluster,
        cluster,
        default_policy(),
        SystemClock(),
        CycleCollector(),
        period_s=0.01,
        between=fails,
    )
    with capture_logs() as logs:
        thread = threading.Thread(target=loop.run)
        thread.start()
        until(lambda: loop.cycles >= 3)
        loop.stop()
        thread.join(5.0)
    assert "rest_failed" in {line["event"] for line in logs}
    assert loop.cycle() is not None


@pytest.mark.fault("G107")
def test_a_loop_that_stands_still_is_not_alive():
    loop = loop_on(StoreCluster(), ManualClock(1000.0))
    assert all(check.is_ok for check in loop.health.live(1059.0))
    (check,) = loop.health.live(1061.0)
    assert not check.is_ok
    assert check.text == "last turned 61.0 s ago, stalled after 60 s"


def test_log_lines_of_a_turn_are_json():
    with capture_logs() as logs:
        loop_on(StoreCluster()).cycle()
    assert json.loads(json.dumps(logs))[0]["shard"] == "default"


class Remembering:
    """A usage source that records its samples, and is ready after a number of checks."""

    def __init__(self, *answers, ready_after=0):
        self.answers, self.glances, self.ready_after = list(answers), 0, ready_after

    def usage(self, snapshot, now_s):
        shape = (len(snapshot.axis), len(snapshot.queues))
        state, *reasons = self.answers.pop(0)
        return Usage(np.zeros(shape, np.int64), 1.0, 1.0, UsageState(state), tuple(reasons))

    def is_ready(self):
        self.glances += 1
        return self.glances > self.ready_after


def remembering_loop(source, **options):
    cluster = StoreCluster()
    return Loop(
        cluster,
        cluster,
        default_policy(),
        SystemClock(),
        CycleCollector(),
        period_s=60.0,
        usage_source=source,
        **options,
    )


def test_a_change_of_the_usage_history_is_told_once():
    stale = ("stale", "the last sample is 301 s old")
    loop = remembering_loop(Remembering(("fresh",), ("fresh",), stale, stale, ("fresh",)))
    told = []
    for _ in range(5):
        with capture_logs() as logs:
            loop.cycle()
        told += [
            (line["log_level"], line["state"], line["reasons"])
            for line in logs
            if line["event"] == "usage_changed"
        ]
        checks = {check.name: check for check in loop.health.ready(loop._clock.now_s())}
        assert checks["usage"].is_ok
    assert told == [
        ("info", "fresh", []),
        ("warning", "stale", ["the last sample is 301 s old"]),
        ("info", "fresh", []),
    ]
    assert checks["usage"].text == "fresh"
    assert loop._collector.published.usage.state == "fresh"


def actions_by_turn(loop, turns):
    """Return the names of the actions of several turns."""
    asked = []

    def noted(snapshot, usage, policy, *rest):
        asked.append([action.name for action in policy.actions])
        return run_cycle(snapshot, usage, policy, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kaisched.framework.cycle.run_cycle", noted)
        for _ in range(turns):
            assert loop.cycle() is not None
    return asked


def test_cycles_begin_at_once_and_nothing_is_reclaimed_before_usage_has_come():
    source = Remembering(*[("absent", "refused")] * 3, ("fresh",), ready_after=2)
    loop = remembering_loop(source, usage_wait_s=30.0)
    with capture_logs() as logs:
        asked = actions_by_turn(loop, 4)
    whole = [action.name for action in default_policy().actions]
    without = [name for name in whole if name != "reclaim"]
    assert asked == [without, without, whole, whole]
    told = [(line["state"], line["reasons"]) for line in logs if line["event"] == "usage_changed"]
    awaited = "waiting for a first answer, and nothing is reclaimed meanwhile"
    assert told == [("absent", ["refused", awaited]), ("absent", ["refused"]), ("fresh", [])]
    assert "usage_not_awaited" not in [line["event"] for line in logs]


def test_probes_are_told_at_once_what_is_waited_for():
    loop = remembering_loop(Remembering(("absent", "refused"), ready_after=9), usage_wait_s=30.0)
    loop.cycle()
    checks = {check.name: check for check in loop.health.ready(loop._clock.now_s())}
    assert checks["usage"].text.startswith("absent; refused; waiting for a first answer")
    assert all(check.is_ok for check in checks.values())


def test_usage_is_not_waited_for_for_ever():
    source = Remembering(*[("absent", "why")] * 9, ready_after=10_000)
    loop = remembering_loop(source, usage_wait_s=30.0)
    loop._clock = ManualClock(100.0)
    with capture_logs() as logs:
        (first,) = actions_by_turn(loop, 1)
        loop._clock.advance_to(130.0)
        (second,) = actions_by_turn(loop, 1)
    assert ("reclaim" in first, "reclaim" in second) == (False, True)
    assert [line["event"] for line in logs].count("usage_not_awaited") == 1
