"""What has changed since a snapshot that nobody keeps."""

from pathlib import Path

import pytest

from tests.unit.framework.fakes import job, store

ROOT = Path(__file__).resolve().parents[3]
PRIORITY = "jobs.priority"


def changed(mark, snapshot):
    return {name: rows.tolist() for name, rows in snapshot.changed_since(mark)}


def test_nothing_has_changed_since_a_snapshot_itself():
    at = store(job("a"), job("b")).snapshot()
    mark = at.mark(PRIORITY, "jobs.pending")
    assert changed(mark, at) == {}


def test_rows_that_join_leave_those_before_as_they_were():
    made = store(job("a"), job("b"))
    mark = made.snapshot().mark(PRIORITY)
    made.add_job("default/c", "q", priority=1, is_preemptible=True, created_s=0.0, tasks=())
    after = made.snapshot()
    assert changed(mark, after) == {}


def test_a_row_that_is_written_to_is_named_with_its_column():
    made = store(job("a"), job("b"))
    mark = made.snapshot().mark(PRIORITY, "podsets.minimum")
    made.jobs.priority.own()[1] = 7
    made.revision += 1
    after = made.snapshot()
    assert changed(mark, after) == {PRIORITY: [1]}


@pytest.mark.parametrize("folder", ["kaisched/actions", "kaisched/framework", "plugins"])
def test_nobody_else_looks_at_the_buffers_behind_columns(folder):
    readers = [path for path in (ROOT / folder).rglob("*.py") if ".base is" in path.read_text()]
    assert readers == []
