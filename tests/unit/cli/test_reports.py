"""``kaisched fairness``, ``alloc`` and ``report``: from files, a live view, and histories."""

import csv
import io
import json
import re
import time

import numpy as np
import pytest

from kaisched.cli.report import seen_evictions, waits_of
from kaisched.usage.history import Stretch
from kaisched.usage.period import Period, summed
from kaisched.usage.prometheus.store import _growth
from kaisched.usage.sqlite import Row, UsageFile
from tests.faults.fake_prometheus import FakePrometheus

pytestmark = pytest.mark.usefixtures("rested")
HOUR = 3600.0
BOTH = [
    ("fairness",),
    ("fairness", "a"),
    ("alloc",),
    ("alloc", "-g", "node,queue,job"),
]


@pytest.mark.parametrize("form", ["table", "json", "csv", "name"])
@pytest.mark.parametrize("line", BOTH, ids=" ".join)
def test_a_running_scheduler_says_what_the_files_say(run, live_files, url, line, form):
    code, out, err = run(*line, "--server", url, "-o", form)
    assert (code, out, "") == run(*line, "-f", live_files, "-o", form)
    assert (code, err) == (0, f"kaisched: this is what the scheduler at {url} says\n")
    assert out


@pytest.mark.proportion
def test_fairness_is_a_table_of_80_columns(run, live_files):
    out = run("fairness", "-f", live_files)[1]
    assert (
        out
        == """\
Fairness: GPUs
QUEUE  FAIR SHARE  ALLOCATED  OF SHARE  REQUESTED  USED LATELY  WAITING
root           12          4       33%         12            -        3
  a             6          4       67%         12            -        2
  b             0          0         -          0            -        1

no usage history: shares are those of the moment
"""
    )
    assert run("fairness", "b", "-f", live_files, "-r", "cpu", "-o", "csv")[1].splitlines() == [
        "name,parent,fairShare,allocated,ofShare,requested,deserved,usedLately,waiting",
        "root,,0,0,,0,,,3",
        "b,root,0,0,,0,,,1",
    ]


def test_what_is_held_is_a_tree_that_adds_up(run, live_files):
    out = run("alloc", "-g", "queue,job", "-f", live_files)[1]
    assert [line.split() for line in out.splitlines()[2:4]] == [
        ["a", "4", "25%", "1"],
        ["Pod", "team/a-0", "4", "25%", "1"],
    ]
    assert out.endswith("4 of 16 GPUs held, 12 free\n")
    document = json.loads(run("alloc", "-g", "node", "-f", live_files, "-o", "json")[1])
    assert [(it["name"], it["held"], it["free"]) for it in document["groups"]] == [
        ("n0", 4, 4),
        ("n1", 0, 8),
    ]
    assert (document["held"], document["free"], document["total"]) == (4, 12, 16)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("alloc", "-g", "queue,queue"), 2, "write some of queue, node and job, each once"),
        (("alloc", "-g", "team"), 2, "--group: no such grouping (value 'team')"),
        (("alloc", "--watch"), 2, "only a running scheduler can be watched"),
        (("fairness", "rot"), 2, 'there is no queue rot; did you mean "root"?'),
        (("fairness", "--since", "7d"), 2, "no usage history is named"),
        (("fairness", "--since", "soon", "--history", "x"), 2, "--since: 'soon' is no duration"),
    ],
)
def test_a_wrong_line_is_one_line(run, live_files, line, code, said):
    found = run(*line, "-f", live_files)
    assert (found[0], found[1]) == (code, "")
    assert said in found[2]
    assert found[2].count("\n") == 1


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("usage",), 2, "no usage history is named"),
        (("usage", "--last", "0s"), 2, "--last: must be longer than nothing"),
        (("usage", "--history", "/nowhere"), 2, "/nowhere: no such file"),
        (("usage", "--history", "x", "--prometheus", "http://x"), 2, "name two histories"),
        (("usage", "--prometheus", "x:9090"), 2, "write it like http://prometheus:9090"),
        (("usage", "--prometheus", "http://127.0.0.1:9"), 5, "did not answer"),
        (("evictions", "--prometheus", "http://127.0.0.1:9"), 5, "did not answer"),
        (("evictions",), 2, "no live view of a scheduler is named"),
        (("waits",), 2, "no live view of a scheduler is named"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, tuple) else "",
)
def test_a_report_without_its_source_is_one_line(run, line, code, said):
    found = run("report", *line)
    assert (found[0], found[1]) == (code, "")
    assert said in found[2]
    assert found[2].count("\n") == 1


# -- histories -----------------------------------------------------------------------------------


def stretch(start_s, end_s, **gpus):
    """Queues that hold so many of ten GPUs all the time."""
    held = np.array([list(gpus.values())], np.float64)
    span = end_s - start_s
    return Stretch(
        start_s, end_s, ("gpu",), tuple(gpus), held * 1000 * span, np.array([10_000.0]) * span
    )


def test_a_stretch_counts_as_far_as_it_is_in_the_period():
    found = summed(
        [stretch(0, 4 * HOUR, a=2), stretch(6 * HOUR, 8 * HOUR, a=1, b=10)],
        "gpu",
        2 * HOUR,
        7 * HOUR,
    )
    assert found.used == pytest.approx({"a": 5, "b": 10})
    assert (found.capacity, found.covered_s) == (30, 3 * HOUR)
    assert found.document()["covered"] == 0.6
    assert found.document(["b", "c"])["queues"] == [
        {"name": "b", "usedHours": 10, "entitledHours": None, "waitedHours": None},
        {"name": "c", "usedHours": 0, "entitledHours": None, "waitedHours": None},
    ]


def test_a_usage_file_is_read_while_its_scheduler_has_it_open(run, tmp_path):
    path, now_s = tmp_path / "usage.sqlite3", time.time()
    file = UsageFile(path)
    rows = [Row(1, stretch(now_s - 10 * HOUR, now_s - 6 * HOUR, a=5, b=2))]
    file.write(rows, now_s - 10 * HOUR, 0.0)
    code, out, err = run("report", "usage", "--last", "20h", "--history", path)
    file.close()
    assert (code, err) == (0, "")
    assert (
        out
        == """\
The last 20h: GPU-hours
QUEUE  USED  FAIR SHARE  GOT  OF CAPACITY
a        20           -    -          50%
b         8           -    -          20%

20% of this time is covered by samples
"""
    )


@pytest.fixture
def prometheus():
    """Ten GPUs in all steps; queue a held five and was entitled to four, b held two of six."""
    fake = FakePrometheus()
    amounts = {"allocated": (5, 2), "fair_share": (4, 6), "pending": (0, 3)}

    def usual(path, asked):
        query = asked["query"][0]
        if path.endswith("query_range"):
            begin, end, step = (float(asked[name][0]) for name in ("start", "end", "step"))
            late = [[begin + step * at, str(at)] for at in range(3, 6)]
            old = [[begin + step * at, str(100 + at)] for at in range(4)]
            labels = {"queue": "a", "preemptor": "b", "reason": "over share"}
            return "matrix", [
                {"metric": {**labels, "pod": "new"}, "values": late},
                {"metric": {**labels, "pod": "old"}, "values": old},
                {"metric": {**labels, "queue": "b", "preemptor": ""}, "values": [[end, "4"]]},
            ]
        at = [float(asked["time"][0])]
        span, step = re.search(r"\[(\d+)s:(\d+)s\]", query).groups()
        steps = int(span) // int(step)
        if query.startswith("count_over_time"):
            return "vector", [{"metric": {}, "value": [*at, str(steps)]}]
        hours = float(query.rpartition("*")[2])
        if "capacity" in query:
            return "vector", [{"metric": {}, "value": [*at, str(10 * steps * hours)]}]
        key = next(key for key in amounts if key in query)
        return "vector", [
            {"metric": {"queue": name}, "value": [*at, str(amount * steps * hours)]}
            for name, amount in zip(("a", "b"), amounts[key], strict=True)
        ]

    fake.usual = usual
    yield fake
    fake.close()


def test_a_server_says_what_was_used_and_what_it_should_have_been(run, prometheus):
    code, out, err = run("report", "usage", "--last", "100m", "--prometheus", prometheus.url)
    assert (code, err) == (0, "")
    assert (
        out
        == """\
The last 1h40m: GPU-hours
QUEUE  USED  FAIR SHARE   GOT  OF CAPACITY
a      8.33        6.67  125%          50%
b      3.33          10   33%          20%

100% of this time is covered by samples
"""
    )


def test_fairness_over_time_is_a_second_table(run, prometheus, live_files):
    line = ("fairness", "-f", live_files, "--since", "1h", "--prometheus", prometheus.url)
    out = run(*line)[1]
    assert "The last 1h: GPU-hours\nQUEUE" in out
    rows = list(csv.reader(io.StringIO(run(*line, "-o", "csv")[1])))
    assert rows[0][-2:] == ["usedHours", "entitledHours"]
    assert [row[0] for row in rows[1:]] == ["root", "a", "b"]


def test_counters_that_begin_or_start_anew_count_from_0():
    assert _growth([5.0, 7.0, 2.0, 3.0], is_older=True) == 2 + 2 + 1
    assert _growth([5.0, 7.0], is_older=False) == 7
    assert _growth([], is_older=True) == 0


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("queue", [["a", "8"], ["b", "4"]]),
        ("preemptor", [["b", "8"], ["", "4"]]),
        ("all", [["a", "b", "over share", "8"], ["b", "", "over share", "4"]]),
    ],
)
def test_evictions_are_counted_from_their_counters(run, prometheus, by, rows):
    line = ("report", "evictions", "--by", by, "--last", "1h", "--prometheus", prometheus.url)
    code, out, err = run(*line, "-o", "csv")
    assert (code, err) == (0, "")
    assert list(csv.reader(io.StringIO(out)))[1:] == rows
    assert run(*line)[1].endswith("12 pods evicted\n")


# -- the live view -------------------------------------------------------------------------------


class Viewed:
    """A live view that has these entries."""

    def __init__(self, *entries):
        self._entries = entries

    def entries(self, *_, **__):
        return iter(self._entries)


def ago(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))


def test_the_last_decisions_are_counted_as_far_back_as_is_asked():
    entry = {"queue": "a", "beneficiaryQueue": "b", "rule": "reclaim"}
    times = (60, 120, 7200)
    found = seen_evictions(Viewed(*({**entry, "time": ago(it)} for it in times)), HOUR)
    assert found["since"] == ago(120)
    assert found["evictions"] == [{"queue": "a", "preemptor": "b", "reason": "reclaim", "pods": 2}]


def test_waits_are_those_of_jobs_that_wait_and_of_those_that_started():
    def job(queue, state, created, started=None):
        return {
            "queue": queue,
            "state": state,
            "created": ago(created),
            "started": None if started is None else ago(started),
        }

    found = waits_of(
        Viewed(
            job("a", "pending", 100),
            job("a", "pending", 300),
            job("a", "running", 500, 440),
            job("b", "running", 90_000, 80_000),
            job("b", "running", 500, 500),
        ),
        HOUR,
    )
    a, b = found["queues"]
    assert (a["name"], a["waiting"]["jobs"], a["started"]) == (
        "a",
        2,
        {"jobs": 1, "medianSeconds": 60, "longestSeconds": 60},
    )
    assert a["waiting"]["longestSeconds"] == pytest.approx(300, abs=2)
    assert (b["waiting"]["jobs"], b["started"]["jobs"]) == (0, 1)


def test_waits_of_a_running_scheduler_are_a_table(run, url):
    code, out, err = run("report", "waits", "--server", url)
    assert (code, err) == (0, f"kaisched: this is what the scheduler at {url} says\n")
    assert out


def test_an_empty_period_is_no_division_by_nothing():
    assert Period("gpu", 60.0, 0.0, 0.0, {}).document()["queues"] == []
