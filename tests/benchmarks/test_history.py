"""The history of the benchmarks: its page and picture show its data, and nothing else."""

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import history
from tests.benchmarks.catalogue import ROWS
from tests.benchmarks.history import Version

MACHINE = {"cpu": "c", "cores": 2, "python": "3", "numpy": "2", "load": 1}


def version(commit, committed, **ratios):
    return Version(commit, committed, MACHINE, ratios)


def test_page_and_picture_show_the_data():
    versions = history.read()
    assert history.PAGE.read_text(encoding="utf-8") == history.page_of(versions)
    assert history.PICTURE.read_text(encoding="utf-8") == history.picture_of(versions)


def test_recorded_rows_have_names_of_the_catalogue():
    """A row that is renamed is renamed in the history too, so that its line goes on."""
    assert set(history.names_of(history.read())) <= {row.name for row in ROWS}


def test_versions_are_in_order_and_a_commit_has_one_entry():
    old, new = (
        version("a", "2026-01-01 00:00:00", x=1.0),
        version("b", "2026-01-02 00:00:00", x=2.0),
    )
    again = version("a", "2026-01-01 00:00:00", y=3.0)
    found = history.added(history.added(history.added([], new), old), again)
    assert [(it.commit, it.ratios) for it in found] == [
        ("a", {"x": 1.0, "y": 3.0}),
        ("b", {"x": 2.0}),
    ]


def test_a_regression_is_told_beside_the_version_before_that_has_the_row():
    versions = [version("a", "1", x=1.0, y=8.0), version("b", "2", y=9.0), version("c", "3", x=3.0)]
    assert history.slower(versions) == ["* x: 3.00 times from a to c"]
    assert "* x: 3.00 times" in history.page_of(versions)
    assert "No row." in history.page_of(versions[:2])
    assert "| x | 1 |  | 3 |" in history.page_of(versions)


def test_a_run_is_recorded_under_its_commit(monkeypatch):
    written = []
    rows = {"B3 place": (3.14159, True), "B3 refuse": (None, False)}

    def run(number, _):
        name = list(rows)[ROWS[number].name.endswith("refuse")]
        ratio, checked = rows[name]
        detail = {"error": "wrong", "targets": []}
        return {"name": name, "ratio": ratio, "checked": checked, "detail": detail}

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(history, "git", lambda *it: ("", "") if "status" in it else ("abc", "2026"))
    monkeypatch.setattr(history, "write", written.extend)
    monkeypatch.setattr(history, "read", list)
    assert command.main(["B3", "-o", "json", "--record"]) == 1
    assert [(it.commit, it.committed, it.ratios) for it in written] == [
        ("abc", "2026", {"B3 place": 3.142})
    ]


def test_what_is_not_committed_is_not_recorded(monkeypatch, capsys):
    monkeypatch.setattr(history, "git", lambda *_: ("M", "kaisched/units.py"))
    with pytest.raises(SystemExit):
        command.main(["--record"])
    assert "commit first what is changed (M kaisched/units.py)" in capsys.readouterr().err
