"""A history survives starts with a wrong clock: nothing is lost, and the future does not count."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from kaisched.usage.history import Window
from kaisched.usage.sqlite import SqliteStore
from tests.unit.usage.samples import HOUR, RESOURCES, fill, sample

DAY = 24 * HOUR
NOW = 100 * DAY
WINDOWS = {
    "week": Window(),
    "half-life": Window(half_life_s=DAY),
    "tumbling": Window("tumbling", 7 * DAY, anchor_s=NOW - 6 * DAY),
    "granular": Window(granularity_s=6 * HOUR),
}


def ran(path, begin_s, end_s, window, **held):
    """Let a scheduler run from one time of its clock to another; return what it knew at first."""
    store = SqliteStore(path, window, begin_s)
    known = store.usage(begin_s, ["a", "b"], RESOURCES)
    minutes = int(end_s - begin_s) // 60
    fill(store, [sample(begin_s + 60 * at, **held) for at in range(minutes + 1)])
    store.close()
    return known


def rows_of(path):
    with closing(sqlite3.connect(path)) as db:
        return db.execute("SELECT number, start_s, end_s, amounts FROM stretch").fetchall()


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """Write five days of which a had half and b a fifth; they are computed once for a window."""
    made = {}

    def write(path, window):
        if window not in made:
            made[window] = tmp_path_factory.mktemp("history") / "u.db"
            ran(made[window], NOW - 5 * DAY, NOW, window, a=5, b=2)
        shutil.copy(made[window], path)

    return write


def asked(path, window, now_s):
    store = SqliteStore(path, window, now_s)
    usage = store.usage(now_s, ["a", "b"], RESOURCES)
    store.close()
    return usage


def told(usage):
    """What is told of the file, beside that there is no sample yet."""
    return [reason for reason in usage.reasons if "u.db" in reason]


@pytest.mark.parametrize("days", [[13], [15], [400], [13, 15, 400], [-1], [-13], [400, -13]])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_start_with_a_wrong_clock_loses_nothing(tmp_path, history, window, days):
    path, kept = tmp_path / "u.db", tmp_path / "kept.db"
    for each in (path, kept):
        history(each, window)
    before = rows_of(path)
    for ahead in days:
        ran(path, NOW + ahead * DAY, NOW + ahead * DAY + 300, window, b=10)
    assert set(before) <= set(rows_of(path))
    found, right = (asked(each, window, NOW + 1800) for each in (path, kept))
    # Clocks that were behind wrote five minutes again that are in the window.
    near = {"rel": 0, "abs": 0} if min(days) > 0 else {"rel": 0.01}
    assert found.parts.ravel().tolist() == pytest.approx(right.parts.ravel().tolist(), **near)
    assert found.coverage == pytest.approx(right.coverage, **near)
    assert found.weighed_s == pytest.approx(right.weighed_s, **near)


def test_a_start_more_than_a_window_ahead_says_so(tmp_path, history):
    history(tmp_path / "u.db", Window())
    usage = ran(tmp_path / "u.db", NOW + 15 * DAY, NOW + 15 * DAY + 300, Window(), b=10)
    (reason,) = told(usage)
    assert reason == (
        f"the newest sample in {tmp_path}/u.db is 15d old, and the window 1w long: samples stay,"
        " and none counts; unless the scheduler was stopped for so long, the clock is wrong"
    )
    usage = asked(tmp_path / "u.db", Window(), NOW + 300)
    (reason,) = told(usage)
    assert reason.startswith(f"samples in {tmp_path}/u.db are up to 15d in the future: they stay")


def test_a_short_stop_is_not_worth_a_word(tmp_path, history):
    weekly = Window("tumbling", 7 * DAY, anchor_s=NOW + 60)
    history(tmp_path / "u.db", weekly)
    assert told(asked(tmp_path / "u.db", weekly, NOW + 120)) == []
    assert told(asked(tmp_path / "u.db", weekly, NOW - 60)) == []


def test_a_clock_that_is_a_little_behind_loses_no_row(tmp_path, history):
    history(tmp_path / "u.db", Window())
    usage = asked(tmp_path / "u.db", Window(), NOW - 30)
    assert usage.parts[2].tolist() == pytest.approx([5e8, 2e8], rel=1e-3)
    assert usage.coverage == 1.0


def test_a_history_that_begins_in_the_future_has_no_beginning_yet(tmp_path):
    path = tmp_path / "u.db"
    ran(path, NOW + 400 * DAY, NOW + 400 * DAY + 300, Window(), b=10)
    ran(path, NOW, NOW + 2 * HOUR, Window(), a=5)
    usage = asked(path, Window(), NOW + 2 * HOUR)
    assert usage.parts[2].tolist() == [5e8, 0]
    assert usage.weighed_s == 2 * HOUR


def test_a_clock_that_leaps_while_the_process_runs_costs_no_row(tmp_path):
    path = tmp_path / "u.db"
    store = SqliteStore(path, Window(), NOW - 5 * DAY)
    fill(store, [sample(NOW - 5 * DAY + 60 * at, a=5) for at in range(5 * 1440)])
    fill(store, [sample(NOW + 400 * DAY + 60 * at, b=10) for at in range(30)])
    fill(store, [sample(NOW + 60 * at, a=5) for at in range(60)])
    store.close()
    usage = asked(path, Window(), NOW + HOUR)
    assert usage.parts[2].tolist() == pytest.approx([5e8, 0], abs=1e6)
    assert usage.coverage > 0.99
