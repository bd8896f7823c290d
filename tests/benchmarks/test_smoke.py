"""Every benchmark at a tiny size: its own check passes. No time is looked at here."""

import dataclasses
import json

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import b1, b3, harness, worker
from tests.benchmarks.catalogue import ROWS, Row

pytestmark = pytest.mark.proportion


def tiny(row: Row) -> Row:
    return dataclasses.replace(row, size=row.tiny)


UNLIKE = {(row.module, row.function, str(row.tiny)): row for row in ROWS}.values()
"""One row of those that are the same at a tiny size."""


@pytest.mark.parametrize("row", UNLIKE, ids=[row.name for row in UNLIKE])
def test_the_result_is_right(row):
    assert set(row.tiny) == set(row.size)
    report = worker.report(tiny(row), 1)
    assert report["checked"], report["detail"]
    assert report["median_s"] <= report["p99_s"]
    targets = report["detail"]["targets"]
    assert [(target["of"], target["most"]) for target in targets] == [
        (target.of, target.most) for target in row.targets
    ]
    assert max(len(line) for line in command.lines_of(report)) <= 79
    json.dumps(report, allow_nan=False)


def test_a_wrong_result_has_no_figures(monkeypatch):
    def fails(*_):
        harness.expect(False, "it went wrong")

    monkeypatch.setattr(b1, "check_fits", fails)
    report = worker.report(tiny(ROWS[0]), 1)
    assert not report["checked"]
    assert report["detail"] == {"error": "it went wrong"}
    assert report["median_s"] is None
    assert "WRONG: it went wrong" in "".join(command.lines_of(report))


def test_a_wrong_result_fails_the_run(monkeypatch, capsys):
    blank = dict.fromkeys(("median_s", "p99_s", "peak_mib", "ratio"))

    def run(number, repeat):
        detail = {"error": "it went wrong"}
        return {"name": ROWS[number].name, **blank, "checked": False, "detail": detail}

    monkeypatch.setattr(command, "run", run)
    assert command.main(["b2"]) == 1
    assert "wrong result: B2 backlog of 50,000 pods: it went wrong" in capsys.readouterr().err


def test_a_benchmark_is_a_row_of_the_document(capsys, monkeypatch):
    monkeypatch.setattr(command, "run", lambda number, _: worker.report(tiny(ROWS[number]), 1))
    assert command.main(["B3", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document["machine"]) == {"cpu", "cores", "load", "system", "python", "numpy"}
    assert [row["name"] for row in document["benchmarks"]] == [
        "B3 gang of 512: place",
        "B3 gang of 512: refuse",
    ]


def test_an_unknown_benchmark_is_named(capsys):
    with pytest.raises(SystemExit):
        command.main(["B99"])
    said = capsys.readouterr().err
    assert "no benchmark B99; there are B1, B11, B12, B13, B14, B15, B16, B2, B3, B4, B5," in said


def test_the_refusal_of_a_gang_is_one_node_away():
    store = b3.make_store(nodes=6, racks=2, busy=2)
    daemon = harness.Daemon(store)
    b3.add_gang(store, b3.GANG, 4, store.intern_shape(harness.WHOLE_NODE))
    assert daemon.cycle().bind_tasks.size == 4
