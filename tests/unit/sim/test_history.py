"""Usage in virtual time against sums over small steps, and against a daemon's samples."""

import math
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.tree import build_tree
from kaisched.core.usage import PARTS, UsageState
from kaisched.objects.usage import parse_cron
from kaisched.sim.recorder import VirtualHistory
from kaisched.sim.scenario.load import origin_of
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import MemoryStore, Window
from kaisched.usage.settings import UsageSettings

HOUR_S = 3600.0
DAY_S = 86_400.0
TREE = build_tree(["all", "a", "b"], ["", "all", "all"], [0.0, 1.0, 2.0])
A, B = TREE.names.index("a"), TREE.names.index("b")
QUEUES = SimpleNamespace(name=TREE.names, tree=TREE)
GPUS = SimpleNamespace(names=("gpu",))


def snapshot(a, b, total=10):
    return SimpleNamespace(
        axis=GPUS, queues=QUEUES, allocated=amounts(a, b), total=np.array([total])
    )


def amounts(a, b):
    held = np.zeros((1, 3), np.int64)
    held[0, A], held[0, B] = a, b
    return held


def virtual(fetch_s=1.0, **window):
    settings = UsageSettings("memory", Window(**window), fetch_s=fetch_s)
    return VirtualHistory(settings, GPUS.names, QUEUES)


def hold(history, a, b, now_s, total=10):
    history.hold(amounts(a, b), np.array([total]), now_s)


def used(history, now_s, queue=A):
    return history.usage(snapshot(0, 0), now_s).parts[0, queue] / PARTS


def test_before_any_time_has_passed_nothing_was_used():
    history = virtual()
    hold(history, 8, 0, 0.0)
    assert used(history, 0.0) == 0


def test_what_a_cycle_decided_is_held_from_then_on():
    """The snapshot of the cycle at 1 h shows nothing; the job it placed runs from 1 h on."""
    history = virtual()
    hold(history, 0, 0, 0.0)
    history.usage(snapshot(0, 0), HOUR_S)
    hold(history, 10, 0, HOUR_S)
    assert used(history, 2 * HOUR_S) == pytest.approx(0.5)


def test_a_parent_has_used_what_its_children_have():
    history = virtual()
    hold(history, 3, 4, 0.0)
    usage = history.usage(snapshot(3, 4), HOUR_S)
    assert usage.parts[0].tolist() == [700_000_000, 300_000_000, 400_000_000]
    assert (usage.state, usage.coverage) == (UsageState.FRESH, 1.0)


def test_an_answer_stands_until_it_is_time_for_another():
    history = virtual(fetch_s=600.0)
    hold(history, 10, 0, 0.0)
    assert used(history, 60.0) == 1
    hold(history, 0, 0, 60.0)
    assert used(history, 600.0) == 1
    assert used(history, 660.0) == pytest.approx(1 / 11)


CHANGES = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12
)


@settings(max_examples=30)
@given(
    CHANGES,
    st.sampled_from([None, 7.0, 40.0]),
    st.sampled_from([5.0, 30.0, 1e4]),
    st.integers(1, 60),
)
def test_the_answer_is_the_sum_over_small_steps(changes, half_life_s, size_s, more):
    history = virtual(half_life_s=half_life_s, size_s=size_s)
    held = []
    for span, a, b in changes:
        hold(history, a, b, float(len(held)))
        held += [a] * span
    now = len(held) + more
    hold(history, 0, 0, float(len(held)))
    held += [0] * more
    pieces = 64
    top = bottom = 0.0
    for piece in range(now * pieces):
        middle = (piece + 0.5) / pieces
        if now - middle <= size_s:
            weight = 1.0 if half_life_s is None else 0.5 ** ((now - middle) / half_life_s)
            top += held[int(middle)] * weight
            bottom += 10 * weight
    # At the window's begin, use counts as even within a 720th of it, as in the daemon.
    assert used(history, float(now)) == pytest.approx(top / bottom, abs=2e-3)


WINDOWS = {
    "sliding": Window(size_s=DAY_S),
    "fading": Window(half_life_s=6 * HOUR_S),
    "tumbling": Window("tumbling", DAY_S, anchor_s=1_767_225_600.0),
    "cron": Window("cron", cron=parse_cron("0 6 * * mon,thu")),
}


@pytest.mark.parametrize("kind", WINDOWS)
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), *[st.integers(0, 5)] * 2), min_size=1, max_size=9))
def test_a_simulation_sees_what_a_daemon_sees_that_looks_all_the_time(kind, changes):
    """The first is told of changes, hours apart; the second samples every five minutes."""
    window = WINDOWS[kind]
    begin_s = origin_of(window, 0)
    told = virtual(**{name: getattr(window, name) for name in Window.__slots__})
    daemon = UsageFeed(MemoryStore(window), 60.0)
    at_s = begin_s
    for hours, a, b in [*changes, (1, 0, 0)]:
        hold(told, a, b, at_s)
        end_s = at_s + hours * HOUR_S
        while at_s < end_s:
            daemon.usage(snapshot(a, b), at_s)
            at_s += 300.0
    answer = daemon.usage(snapshot(0, 0), at_s)
    mine = told.usage(snapshot(0, 0), at_s)
    # A stretch of the daemon may hold a change: its use is even within 1/720 of a week.
    assert np.abs(mine.parts - answer.parts).max() <= PARTS * 2e-3
    assert mine.state == answer.state


@pytest.mark.parametrize(
    ("window", "first_day", "begins"),
    [
        (Window(), 3, "1970-01-01"),
        (Window("tumbling", DAY_S, anchor_s=1_767_225_600.0), 0, "2026-01-01"),
        (Window("cron", cron=parse_cron("@monthly")), 0, "2018-01-01"),
        (Window("cron", cron=parse_cron("@monthly")), 2, "2025-01-01"),
        (Window("cron", cron=parse_cron("@monthly")), 6, "2023-01-01"),
    ],
)
def test_time_begins_with_a_window_or_a_year(window, first_day, begins):
    begin = datetime.fromtimestamp(origin_of(window, first_day), UTC)
    assert begin.date().isoformat() == begins
    assert math.isclose(begin.timestamp() % DAY_S, 0)


def test_a_common_year_begins_on_every_weekday():
    cron = Window("cron", cron=parse_cron("@monthly"))
    for day in range(7):
        begin = datetime.fromtimestamp(origin_of(cron, day), UTC)
        assert (begin.month, begin.day, begin.weekday()) == (1, 1, day)
