"""File of usage history: its contents after a stop and after a kill, and its faults."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from kaisched.core.usage import PARTS, UsageState
from kaisched.usage.history import MemoryStore, Stretch, Window
from kaisched.usage.sqlite import Row, SqliteStore, UsageFile
from tests.unit.usage.samples import HOUR, RESOURCES, fill, sample, units_of
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


def opened(path, now_s=0.0, window=None, **options):
    return SqliteStore(path, window or Window(), now_s, **options)


def asked(path, statement):
    """Run a statement on a closed file and close it again."""
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute(statement).fetchall()
        db.commit()
    return rows


def samples_of(hours, start_s=0.0):
    return [
        sample(start_s + 60 * at, a=at % 7, b=3 if at % 100 < 50 else 0)
        for at in range(60 * hours + 1)
    ]


@pytest.mark.parametrize(
    "window",
    [Window(), Window(size_s=3 * HOUR), Window(half_life_s=HOUR), Window("tumbling", 4 * HOUR)],
    ids=["week", "3 h", "half-life", "tumbling"],
)
def test_what_was_recorded_is_there_after_a_restart(tmp_path, window):
    path = tmp_path / "folder" / "usage.db"
    first = fill(opened(path, window=window), samples_of(5))
    before = first.usage(5 * HOUR, ["a", "b"], RESOURCES)
    first.close()
    second = opened(path, 5 * HOUR, window)
    after = second.usage(5 * HOUR, ["a", "b"], RESOURCES)
    second.close()
    # Restored use is even within each stretch, which is 160 s long with this half-life; without
    # decay that makes no difference.
    assert after.parts == pytest.approx(before.parts, rel=2e-4 if window.half_life_s else 0, abs=2)
    assert after.coverage == before.coverage
    assert before.parts[2].tolist() == pytest.approx(
        fill(MemoryStore(window), samples_of(5)).usage(5 * HOUR, ["a", "b"], RESOURCES).parts[2]
    )


def test_a_day_of_the_past_is_at_most_720_rows_twice_over(tmp_path):
    store = opened(tmp_path / "u.db", window=Window(size_s=24 * HOUR))
    fill(store, samples_of(24 * 4))
    store.close()
    ((rows, first_s),) = asked(tmp_path / "u.db", "SELECT count(*), min(start_s) FROM stretch")
    assert 720 <= rows <= 2 * 721
    assert first_s >= 24 * HOUR * 2 - 120


def test_the_file_is_as_large_after_ten_windows_as_after_three(tmp_path):
    """Deleted rows leave room that is used again: two windows are kept, and no more."""
    file, sizes = UsageFile(tmp_path / "u.db"), []
    amounts = np.ones((len(RESOURCES), 50)), np.ones(len(RESOURCES))
    queues = tuple(f"queue-{at}" for at in range(50))
    for number in range(0, 1000, 5):
        stretches = [
            Stretch(at, at + 1.0, tuple(RESOURCES), queues, *amounts)
            for at in range(number, number + 5)
        ]
        file.write([Row(it.start_s + 1, it) for it in stretches], 0.0, 205.0)
        sizes.append(sum(it.stat().st_size for it in tmp_path.iterdir()))
    file.close()
    assert sizes[60] > 2 * sizes[0]
    assert sizes[-1] <= sizes[60] + 2 * 4096


@pytest.mark.fault("I132")
def test_little_of_the_file_is_kept_in_memory(tmp_path):
    """SQLite's default is nearly the whole file, and memory grows until it is filled."""
    file = UsageFile(tmp_path / "u.db")
    ((pages,),) = file._db.execute("PRAGMA cache_size").fetchall()
    file.close()
    assert -256 <= pages < 0  # less than zero: in kB


def test_what_is_older_than_the_window_is_not_read_again(tmp_path):
    window = Window(size_s=HOUR)
    store = fill(opened(tmp_path / "u.db", window=window), [sample(0, a=10), sample(60, a=0)])
    store.close()
    later = opened(tmp_path / "u.db", 2 * HOUR, window)
    assert units_of(later.usage(2 * HOUR, ["a"], RESOURCES)) == 0
    later.close()


def test_coverage_remembers_the_first_sample_ever(tmp_path):
    store = fill(opened(tmp_path / "u.db"), [sample(60 * at, a=1) for at in range(61)])
    store.close()
    second = opened(tmp_path / "u.db", 4 * HOUR)
    fill(second, [sample(4 * HOUR, a=1)])
    usage = second.usage(4 * HOUR, ["a"], RESOURCES)
    second.close()
    # The last sample before the restart holds for five minutes, as any sample does.
    assert usage.coverage == pytest.approx((HOUR + 300) / (4 * HOUR))


def test_a_short_restart_leaves_no_gap(tmp_path):
    fill(opened(tmp_path / "u.db"), [sample(60 * at, a=5) for at in range(61)]).close()
    second = opened(tmp_path / "u.db", HOUR + 120)
    fill(second, [sample(HOUR + 120, a=5)])
    usage = second.usage(HOUR + 120, ["a"], RESOURCES)
    second.close()
    assert (usage.coverage, units_of(usage)) == (1.0, PARTS // 2)


KILLED = """
import sys, time
from pathlib import Path
from kaisched.usage.sqlite import SqliteStore
from kaisched.usage.history import Window
from tests.unit.usage.samples import sample

store = SqliteStore(Path(sys.argv[1]), Window(size_s=3600.0), 0.0, save_s=0.0)
begin = at = int(sys.argv[2])
end = time.monotonic() + 20
while time.monotonic() < end:
    # As in life, a sample has long been written when the next one comes.
    while begin + 1 < at and store.writer.written_until_s < at - 1 and time.monotonic() < end:
        time.sleep(0.0002)
    store.record(sample(at, a=5, b=5))
    print(at, flush=True)
    at += 1
"""


def test_a_kill_at_any_moment_loses_no_more_than_one_sample(tmp_path):
    path, chance, begin = tmp_path / "u.db", random.Random(7), 0
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(path), str(begin)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        seen = [int(process.stdout.readline()) for _ in range(3)]
        time.sleep(chance.uniform(0.0, 0.2))
        process.kill()
        seen += [int(line) for line in process.stdout.read().split()]
        process.stdout.close()
        process.wait()
        store = opened(path, seen[-1], Window(size_s=3600.0))
        usage = store.usage(seen[-1], ["a"], RESOURCES)
        newest_s = store._memory.history.newest_s
        store.close()
        assert usage.reasons == ()
        assert newest_s >= seen[-1] - 1
        assert units_of(usage) == PARTS // 2
        begin = seen[-1] + 1


@pytest.mark.fault("C58")
@pytest.mark.parametrize("harm", ["middle", "cut", "row"])
def test_a_corrupt_file_is_moved_aside_and_told(tmp_path, harm):
    path = tmp_path / "u.db"
    fill(opened(path), samples_of(48)).close()
    content = path.read_bytes()
    if harm == "middle":
        path.write_bytes(content[:4096] + bytes(8192) + content[12288:])
    elif harm == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        asked(path, "UPDATE stretch SET amounts = '{\"resources\": 7}' WHERE number = 3")
    store = opened(path, 49 * HOUR)
    usage = store.usage(49 * HOUR, ["a"], RESOURCES)
    assert usage.state == UsageState.ABSENT
    (reason,) = [line for line in usage.reasons if "corrupt" in line]
    (aside,) = tmp_path.glob("u.db.corrupt-*Z")
    assert f"moved to {aside}, history is empty" in reason
    fill(store, [sample(50 * HOUR, a=1), sample(50 * HOUR + 60, a=1)])
    store.close()
    again = opened(path, 51 * HOUR)
    assert units_of(again.usage(51 * HOUR, ["a"], RESOURCES)) == PARTS // 10
    again.close()


@pytest.mark.fault("C58")
def test_a_second_process_keeps_its_hands_off(tmp_path):
    first = fill(opened(tmp_path / "u.db"), samples_of(1))
    second = fill(opened(tmp_path / "u.db"), samples_of(1))
    usage = second.usage(HOUR, ["a"], RESOURCES)
    assert "history is kept in memory only" in usage.reasons[0]
    assert "locked" in usage.reasons[0]
    assert units_of(usage) == units_of(first.usage(HOUR, ["a"], RESOURCES)) > 0
    first.close()
    second.close()


@pytest.mark.fault("C58")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("PRAGMA user_version=2", "written by a later version (schema 2, ours 1)"),
        ("PRAGMA user_version=0", "a database of something else"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path, statement, said):
    path = tmp_path / "u.db"
    fill(opened(path), samples_of(1)).close()
    asked(path, statement)
    before = path.read_bytes()
    store = fill(opened(path), samples_of(1))
    assert said in store.usage(HOUR, ["a"], RESOURCES).reasons[0]
    store.close()
    assert path.read_bytes() == before


@pytest.mark.fault("B33")
def test_a_place_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    store = fill(opened(tmp_path / "file" / "u.db"), samples_of(1))
    usage = store.usage(HOUR, ["a"], RESOURCES)
    assert "history is kept in memory only" in usage.reasons[0]
    assert units_of(usage) > 0
    store.close()


@pytest.mark.fault("B33")
def test_a_full_disk_is_told_and_made_up_for(tmp_path):
    store = opened(tmp_path / "u.db", save_s=0.0)
    file = store.writer._file
    (size,) = file._db.execute("PRAGMA page_count").fetchone()
    file._db.execute(f"PRAGMA max_page_count={size}")
    fill(store, samples_of(24))
    until(lambda: store.writer.error)
    usage = store.usage(24 * HOUR, ["a", "b"], RESOURCES)
    assert "history is not being written" in usage.reasons[0]
    assert "full" in usage.reasons[0]
    file._db.execute("PRAGMA max_page_count=1000000")
    fill(store, [sample(24 * HOUR + 60, a=0)])
    until(lambda: not store.writer.error)
    assert store.usage(24 * HOUR, ["a", "b"], RESOURCES).reasons == ()
    store.close()
    again = opened(tmp_path / "u.db", 24 * HOUR)
    assert again.usage(24 * HOUR, ["a", "b"], RESOURCES).parts == pytest.approx(
        usage.parts, rel=1e-3
    )
    again.close()


@pytest.mark.fault("B33")
def test_a_disk_that_stands_still_makes_nobody_wait(tmp_path):
    store = opened(tmp_path / "u.db", save_s=0.0)
    write, gate = store.writer._file.write, []
    store.writer._file.write = lambda *args: (until(lambda: gate), write(*args))
    fill(store, samples_of(10))
    store.usage(10 * HOUR, ["a"], RESOURCES)
    assert store.writer.written_until_s <= 0  # no call has waited for the file
    gate.append(True)
    store.close()
    assert store.writer.dropped == 0


# -- who may read it -----------------------------------------------------------------------------


def modes(folder):
    """Name to mode, for a folder and its contents."""
    return {
        path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in (folder, *folder.iterdir())
    }


@pytest.fixture
def lenient():
    """The umask of our parent lets everybody read our files."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.fault("I131")
def test_the_file_and_its_folder_are_our_own(tmp_path, lenient):
    folder = tmp_path / "state" / "kaisched"
    store = fill(opened(folder / "u.db"), samples_of(1))
    until(lambda: store.writer.written_until_s > 0)
    assert modes(folder) == {"kaisched": "700", "u.db": "600", "u.db-wal": "600"}
    store.close()


@pytest.mark.fault("I131")
def test_a_file_that_others_could_read_is_tightened(tmp_path, lenient):
    path = tmp_path / "u.db"
    fill(opened(path), samples_of(1)).close()
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    store = opened(path, HOUR)
    assert store.usage(HOUR, ["a"], RESOURCES).reasons == ()
    store.close()
    # A folder that existed before may belong to somebody else: it is left alone.
    assert modes(tmp_path) == {tmp_path.name: "755", "u.db": "600"}


@pytest.mark.fault("I131")
def test_a_file_that_cannot_be_tightened_is_told(tmp_path, monkeypatch):
    path = tmp_path / "u.db"
    fill(opened(path), samples_of(1)).close()
    path.chmod(0o644)

    def refused(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchmod", refused)
    store = opened(path, HOUR)
    assert store.usage(HOUR, ["a"], RESOURCES).reasons == (
        f"others may read {path}: its mode 644 stays (Operation not permitted)",
    )
    store.close()
