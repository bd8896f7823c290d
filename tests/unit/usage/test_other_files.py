"""A usage history is kept in no file of something else, and such a file stays as it is."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from kaisched.usage.history import Window
from kaisched.usage.sqlite import SqliteStore, move_aside
from tests.unit.usage.samples import HOUR, RESOURCES, fill, sample, units_of

NULL = Path("/dev/null")


def database(path, *statements):
    with closing(sqlite3.connect(path)) as db:
        for statement in ("PRAGMA page_size=4096", *statements):
            db.execute(statement)
        db.commit()


def of_another_program(path):
    database(path, "CREATE TABLE accounts (owner TEXT)", "INSERT INTO accounts VALUES ('me')")


def with_our_version(path):
    database(path, "CREATE TABLE accounts (owner TEXT)", "PRAGMA user_version=1")


def marked_and_empty(path):
    database(path, "PRAGMA application_id=7", "CREATE TABLE t (x)", "DROP TABLE t")


def with_a_log(path):
    database(path, "PRAGMA journal_mode=WAL", "CREATE TABLE accounts (owner TEXT)")


FILES = {
    "text": lambda path: path.write_text("of mine\n" * 1000),
    "one byte": lambda path: path.write_bytes(b"S"),
    "zeros": lambda path: path.write_bytes(bytes(8192)),
    "magic": lambda path: path.write_bytes(b"SQLite format 3\0" + b"x" * 5000),
    "another program": of_another_program,
    "our version": with_our_version,
    "marked and empty": marked_and_empty,
    "log": with_a_log,
    "folder": lambda path: path.mkdir(),
    "pipe": os.mkfifo,
    "link to text": lambda path: path.symlink_to(path.parent / "target"),
    "link to a device": lambda path: path.symlink_to(NULL),
}


def look_of(folder):
    return {
        path.name: (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None,
        )
        for path in folder.iterdir()
    }


@pytest.mark.parametrize("kind", FILES)
def test_what_is_no_history_is_left_as_it_is(tmp_path, kind):
    path = tmp_path / "u.db"
    (tmp_path / "target").write_text("of mine")
    FILES[kind](path)
    if not path.is_symlink() and path.is_file():
        path.chmod(0o644)
    before, device = look_of(tmp_path), NULL.stat().st_mode
    store = fill(SqliteStore(path, Window(), 0.0), [sample(60 * at, a=5) for at in range(61)])
    usage = store.usage(HOUR, ["a"], RESOURCES)
    store.close()
    assert usage.reasons[0].startswith(f"history is kept in memory only: {path}: a ")
    assert usage.reasons[0].endswith("left as it is; name another file in connectionString")
    assert units_of(usage) > 0
    assert look_of(tmp_path) == before
    assert NULL.stat().st_mode == device


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
@pytest.mark.parametrize("kind", ["pipe", "link to text", "link to a device", "folder"])
def test_what_is_no_file_beside_a_history_is_left_as_it_is(tmp_path, kind, ending):
    path = tmp_path / "u.db"
    fill(SqliteStore(path, Window(), 0.0), [sample(60, a=5), sample(120, a=5)]).close()
    target = tmp_path / "target"
    target.write_text("of mine")
    target.chmod(0o644)
    FILES[kind](tmp_path / f"u.db{ending}")
    before, device = look_of(tmp_path), NULL.stat().st_mode
    store = fill(SqliteStore(path, Window(), 0.0), [sample(60, a=5), sample(120, a=5)])
    (reason,) = store.usage(HOUR, ["a"], RESOURCES).reasons
    store.close()
    assert f"{path}: beside u.db{ending}, which is no file" in reason
    assert (look_of(tmp_path), NULL.stat().st_mode) == (before, device)


def test_a_corrupt_history_replaces_no_file_and_moves_no_link(tmp_path):
    path, other = tmp_path / "u.db", tmp_path / "other"
    path.write_bytes(b"corrupt")
    other.write_text("of mine")
    (tmp_path / "u.db-wal").symlink_to(other)
    taken = tmp_path / "u.db.corrupt-19700101T000000Z-wal"
    taken.write_text("of before")
    assert move_aside(path, 0.0).name == "u.db.corrupt-19700101T000000Z-2"
    assert taken.read_text() == "of before"
    assert (tmp_path / "u.db-wal").readlink() == other


def test_an_empty_file_becomes_a_history(tmp_path):
    path = tmp_path / "u.db"
    path.touch()
    store = fill(SqliteStore(path, Window(), 0.0), [sample(60 * at, a=5) for at in range(61)])
    assert store.usage(HOUR, ["a"], RESOURCES).reasons == ()
    store.close()
    again = SqliteStore(path, Window(), HOUR)
    assert units_of(again.usage(HOUR, ["a"], RESOURCES)) > 0
    again.close()


def test_a_database_without_anything_in_it_becomes_a_history(tmp_path):
    """As a history is for a moment, between its first page and its tables."""
    path = tmp_path / "u.db"
    database(path, "PRAGMA journal_mode=WAL")
    store = fill(SqliteStore(path, Window(), 0.0), [sample(60 * at, a=5) for at in range(61)])
    assert store.usage(HOUR, ["a"], RESOURCES).reasons == ()
    store.close()


def test_a_history_whose_tables_are_in_the_log_alone_is_one(tmp_path):
    """A process that is killed early leaves the first page without tables."""
    path, copy = tmp_path / "u.db", tmp_path / "copy.db"
    store = fill(SqliteStore(path, Window(), 0.0, save_s=0.0), [sample(60, a=5), sample(120, a=5)])
    while not store.writer.written_until_s:
        pass
    for ending in ("", "-wal"):
        copy.with_name(copy.name + ending).write_bytes(
            path.with_name(path.name + ending).read_bytes()
        )
    store.close()
    assert b"CREATE TABLE stretch" not in copy.read_bytes()[:4096]
    again = SqliteStore(copy, Window(), 180.0)
    assert again.usage(180.0, ["a"], RESOURCES).reasons == ()
    assert units_of(again.usage(180.0, ["a"], RESOURCES)) > 0
    again.close()


def test_a_name_that_sqlite_has_for_itself_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(":memory:")
    fill(SqliteStore(path, Window(), 0.0), [sample(60 * at, a=5) for at in range(61)]).close()
    again = SqliteStore(path, Window(), HOUR)
    assert units_of(again.usage(HOUR, ["a"], RESOURCES)) > 0
    again.close()
