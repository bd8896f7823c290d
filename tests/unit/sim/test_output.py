"""Files and pages: their contents, and that equal runs give equal bytes."""

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from kaisched.errors import ConfigError
from kaisched.sim.output.charts import shown_of
from kaisched.sim.output.files import (
    CLUSTER_COLUMNS,
    JOB_COLUMNS,
    QUEUE_COLUMNS,
    TIMELINE_COLUMNS,
    check_folder,
    result_of,
    write_files,
    write_text,
)
from kaisched.sim.output.report import report_html
from kaisched.sim.output.tables import aligned, comparison_of, differences_of, names_of, summary_of

JOBS = [
    {"queue": "a", "arrivals": {"poissonPerHour": 6}, "gpus": 2, "duration": {"exponential": "1h"}},
    {"queue": "b", "arrivals": {"backlog": "endless"}, "gpus": 4, "duration": "2h"},
]
VOID = {"meta", "link", "path", "rect", "line", "circle", "br"}


@pytest.fixture
def result(ran):
    return result_of(ran(jobs=JOBS, time={"duration": "10h"}))


class Page(HTMLParser):
    """Checks that tags are closed in order; collects the parts that readers or browsers use."""

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
    table = comparison_of(results)
    assert [line.split()[0] for line in table.splitlines()[:3]] == ["policy", "one", "two"]
    assert max(map(len, table.splitlines())) <= 80
    assert table.splitlines()[3:] == [
        "",
        "The seeds differ too, not the policies alone: one: 1; two: 2.",
    ]


def test_runs_of_one_name_are_named_by_their_files(ran):
    small = result_of(ran(time={"duration": "1h"}))
    files = ("now.yaml", "x/now.yaml", "later.yaml", "later.yaml", "s.yaml")
    results = [of_file(small, file) for file in files]
    assert names_of(results) == ["now.yaml", "x/now.yaml", "later (1)", "later (2)", "s"]
    assert names_of([small]) == ["small"]
    assert differences_of(results) == []


def test_a_comparison_says_when_clusters_or_queues_differ(ran):
    time = {"duration": "1h"}
    other = ran(name="other", time=time, queues=[{"name": "a"}], nodes=[{"count": 1, "gpus": 8}])
    results = [result_of(ran(time=time)), result_of(other)]
    text = " ".join(comparison_of(results).split())
    assert (
        "The clusters differ too, not the policies alone: small: 2 nodes with 4 GPUs; other: 1 "
        "nodes with 8 GPUs. The queues differ too, not the policies alone: small: b; other: no "
        "more." in text
    )
    assert "The clusters differ too" in " ".join(Page(report_html(results)).words)


def test_a_name_that_is_too_long_has_a_line_to_itself():
    name = "n" * 90
    assert aligned([("name", "x"), (name, "1"), ("short", "22")]) == [
        "name               x",
        name,
        "                   1",
        "short             22",
    ]


def test_a_folder_that_cannot_be_written_is_found_before_a_run(tmp_path):
    check_folder(tmp_path / "new" / "folder")
    assert list((tmp_path / "new" / "folder").iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file/below: --out: cannot be written"):
        check_folder(tmp_path / "file" / "below")


def of_file(result, file):
    return replace(result, file=file)


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
