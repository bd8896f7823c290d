"""Files and pages: what stands in them, and that the same run gives the same bytes."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from kaisched.errors import ConfigError
from kaisched.sim.output.files import (
    CLUSTER_COLUMNS,
    JOB_COLUMNS,
    QUEUE_COLUMNS,
    TIMELINE_COLUMNS,
    result_of,
    write_files,
    write_text,
)
from kaisched.sim.output.report import report_html
from kaisched.sim.output.shown import shown_of
from kaisched.sim.output.summary import comparison_of, summary_of
from kaisched.sim.output.svg.charts import Line, bars_over_time, lines_chart
from kaisched.sim.output.svg.scale import label, nice_step, ticks_up_to, time_ticks

JOBS = [
    {"queue": "a", "arrivals": {"poissonPerHour": 6}, "gpus": 2, "duration": {"exponential": "1h"}},
    {"queue": "b", "arrivals": {"backlog": "endless"}, "gpus": 4, "duration": "2h"},
]
VOID = {"meta", "link", "path", "rect", "line", "circle", "br"}


@pytest.fixture
def result(ran):
    return result_of(ran(jobs=JOBS, time={"duration": "10h"}))


class Page(HTMLParser):
    """Checks that tags are closed in order; gathers what a reader or a browser would look at."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def rows_of(path):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_every_file_has_its_columns_and_adds_up(result, tmp_path):
    paths = {path.name: path for path in write_files(result, tmp_path / "out")}
    heads = {
        "queues.csv": QUEUE_COLUMNS,
        "timeline.csv": TIMELINE_COLUMNS,
        "cluster.csv": CLUSTER_COLUMNS,
        "jobs.csv": JOB_COLUMNS,
    }
    for name, columns in heads.items():
        rows = rows_of(paths[name])
        assert tuple(rows[0]) == columns
        assert {len(row) for row in rows} == {len(columns)}
    assert len(rows_of(paths["jobs.csv"])) - 1 == result.outcome.jobs
    assert len(rows_of(paths["queues.csv"])) - 1 == 2
    document = json.loads(paths["result.json"].read_text(encoding="utf-8"))
    assert document["schemaVersion"] == "kaisched.io/scenario/v1"
    for queue, line in zip(document["queues"], document["timeline"]["queues"], strict=True):
        assert line["gpuHours"][-1] == pytest.approx(queue["gpuHours"], abs=1e-3)
    hours = sum(float(row[9]) for row in rows_of(paths["queues.csv"])[1:])
    assert hours == pytest.approx(document["gpuHours"], abs=1e-2)


def test_the_same_seed_gives_the_same_bytes_and_another_others(ran, tmp_path):
    texts = []
    for at, seed in enumerate((1, 1, 2)):
        result = result_of(ran(jobs=JOBS, seed=seed, time={"duration": "10h"}))
        paths = write_files(result, tmp_path / str(at))
        texts.append([path.read_bytes() for path in paths] + [report_html([result])])
    assert texts[0] == texts[1]
    assert all(one != other for one, other in zip(texts[0], texts[2], strict=True))


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match="--out: cannot be written: "):
        write_text(tmp_path / "file" / "x.csv", "")


def test_the_report_needs_nothing_but_itself(result):
    text = report_html([result])
    page = Page(text)
    assert not {"script", "img", "iframe", "object", "embed"} & set(page.tags)
    addresses = [value for name, value in page.attributes if name in {"href", "src"}]
    assert addresses == ["data:,"]
    assert not re.search(r"https?:|//|@import|url\(", text)
    assert "default-src 'none'" in text


def test_every_chart_has_a_title_units_and_a_legend_or_one_series(result):
    text = report_html([result])
    charts = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(charts) >= 9
    for chart in charts:
        assert 'class="title"' in chart
        assert 'class="unit"' in chart
        assert 'aria-label="' in chart


def test_the_report_says_what_the_outcome_says(result):
    words = " ".join(Page(report_html([result])).words)
    for queue in result.outcome.queues:
        assert queue.name in words
        assert f"{queue.gpu_hours:,.1f}" in words
    assert f"{result.outcome.utilisation:.1%}" in words
    for title in (
        "GPUs held, by queue",
        "GPU-hours so far, held and entitled",
        "GPUs in use, by node",
        "Evictions",
    ):
        assert title in words


def test_names_cannot_break_the_page(ran):
    queues = [{"name": "<script>alert(1)</script>"}, {"name": "b"}]
    jobs = [{"queue": queues[0]["name"], "arrivals": {"every": "1h"}, "duration": "1h"}]
    page = Page(report_html([result_of(ran(queues=queues, jobs=jobs, name='"><b>'))]))
    assert "script" not in page.tags
    assert "b" not in page.tags


def test_an_empty_run_has_a_report_too(ran):
    jobs = [{"queue": "a", "arrivals": {"at": []}, "duration": "1h"}]
    result = result_of(ran(jobs=jobs))
    assert result.outcome.jobs == 0
    assert Page(report_html([result])).tags
    assert "0 jobs" in summary_of(result.outcome)


def test_several_runs_stand_side_by_side(ran):
    results = [
        result_of(ran(jobs=JOBS, name=name, seed=seed, time={"duration": "10h"}))
        for name, seed in (("one", 1), ("two", 2))
    ]
    page = Page(report_html(results))
    words = " ".join(page.words)
    assert "one against two" in words
    assert "Side by side" in words
    table = comparison_of([result.outcome for result in results])
    assert [line.split()[0] for line in table.splitlines()] == ["policy", "one", "two"]
    assert max(map(len, table.splitlines())) <= 80


def test_many_queues_become_the_busiest_and_the_others(ran):
    queues = [{"name": f"q{at:02}"} for at in range(30)]
    jobs = [
        {"queue": f"q{at:02}", "arrivals": {"every": "1h"}, "duration": f"{at + 1}m"}
        for at in range(30)
    ]
    result = result_of(ran(queues=queues, jobs=jobs, nodes=[{"count": 8, "gpus": 8}]))
    shown = shown_of(result)
    assert shown.names == [*(f"q{at:02}" for at in range(23, 30)), "23 others"]
    sums = shown.sums(result.timeline.gpu_hours)
    assert sums.sum(axis=0) == pytest.approx(result.timeline.gpu_hours.sum(axis=0))


def test_the_table_fits_a_terminal(result):
    assert max(map(len, summary_of(result.outcome).splitlines())) <= 80


@pytest.mark.parametrize(
    ("most", "last"), [(0.7, 0.8), (1, 1), (7, 8), (16, 20), (37, 40), (512, 600), (1234, 1250)]
)
def test_ticks_are_round_and_reach_the_most(most, last):
    ticks = ticks_up_to(most)
    assert ticks[-1] == pytest.approx(last)
    assert 3 <= len(ticks) <= 8
    assert np.diff(ticks) == pytest.approx(np.full(len(ticks) - 1, ticks[1]))


def test_steps_of_ticks_are_one_two_two_and_a_half_or_five():
    for span in (0.003, 1.7, 42, 999, 123_456):
        step = nice_step(span, 5)
        mantissa = step / 10 ** np.floor(np.log10(step) + 1e-12)
        assert min(abs(mantissa - nice) for nice in (1, 2, 2.5, 5)) < 1e-9


@pytest.mark.parametrize(
    ("end_s", "unit", "last"),
    [(90, "seconds", 90), (3600, "minutes", 60), (86_400, "hours", 24), (1_209_600, "days", 14)],
)
def test_time_has_the_unit_that_reads_well(end_s, unit, last):
    ticks, name = time_ticks(end_s)
    size = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}[unit]
    assert name == unit
    assert ticks[0] == 0
    assert ticks[-1] / size <= last


def test_labels_of_amounts():
    assert [label(value) for value in (0, 0.5, 2, 2.25, 1234.5, 0.004)] == [
        "0",
        "0.5",
        "2",
        "2.25",
        "1,234.5",
        "0.004",
    ]


def test_a_line_has_a_corner_only_where_it_changes():
    ends = np.arange(1.0, 1001.0)
    chart = lines_chart("t", "u", ends, [Line("x", np.where(ends < 500, 1.0, 2.0), 0)])
    path = next(it for it in re.findall(r'<path d="(M[^"]*)"', chart) if it.count("L") > 1)
    assert path.count("L") == 3


def test_bars_keep_the_sum_when_spans_are_joined():
    ends, values = np.arange(1.0, 241.0), np.ones(240)
    chart = bars_over_time("t", "u", ends, values, 0, most=60)
    assert chart.count("M56") >= 1
    assert len(re.findall(r"M[\d.]+ [\d.]+h", chart)) == 60


def test_pictures_are_written_twice_and_are_the_same_again(result, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    from kaisched.sim.output.plots import write_plots

    first, second = (write_plots(result, tmp_path / name) for name in ("one", "two"))
    assert {path.name for path in first} == {
        f"{name}.{suffix}"
        for name in ("allocation", "fair-share", "gpu-hours")
        for suffix in ("png", "svg")
    }
    for one, other in zip(first, second, strict=True):
        assert one.stat().st_size > 1000
        assert one.read_bytes() == other.read_bytes()


def test_runs_that_are_compared_have_a_picture_together(result, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra plots is not installed")
    from kaisched.sim.output.plots_compared import write_comparison

    pair = [result, result]
    first, second = (write_comparison(pair, tmp_path / name) for name in ("one", "two"))
    assert [path.name for path in first] == ["comparison.png", "comparison.svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    for queue in result.outcome.queues[:2]:
        assert f"<!-- {queue.name} -->" in first[1].read_text(encoding="utf-8")
