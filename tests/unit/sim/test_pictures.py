"""Charts and pictures: axes, colours, text without overlaps, and files."""

import itertools
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from kaisched.cli.runs import write
from kaisched.sim.output.comparison import wrong_chart
from kaisched.sim.output.files import result_of
from kaisched.sim.output.page import (
    BOLD_SIZES,
    DARK,
    LIGHT,
    TEXT_SIZE,
    ticks_over,
    time_ticks,
    width_of,
)
from kaisched.sim.output.plots import (
    Dot,
    scatter_chart,
)
from kaisched.sim.output.report import report_html, write_compared, write_pictures

LONG = "a queue whose name is longer than anybody should ever make it, but somebody did"
SVG = "{http://www.w3.org/2000/svg}"
CVD = {
    "all cones": np.eye(3),
    "no M cones": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no L cones": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
}
"""Linear RGB as colour-blind people see it, by Machado, Oliveira and Fernandes (2009)."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


@pytest.fixture(scope="module")
def crowd(ran):
    """Return a short run of more queues than there are colours, one with a long name."""
    names = [LONG] + [f"team-{at:02}" for at in range(11)]
    return result_of(
        ran(
            queues=[{"name": name} for name in names],
            jobs=[
                {"queue": name, "arrivals": {"every": "1h"}, "duration": f"{60 - at}m"}
                for at, name in enumerate(names)
            ],
            time={"duration": "3h"},
            name=LONG,
        )
    )


@pytest.fixture(scope="module")
def pair(ran):
    """Return runs of different lengths."""
    jobs = [
        {"queue": "a", "arrivals": {"poissonPerHour": 6}, "gpus": 2, "duration": "1h"},
        {"queue": "b", "arrivals": {"backlog": "endless"}, "gpus": 4, "duration": "2h"},
    ]
    return [
        result_of(ran(jobs=jobs, name=name, time={"duration": duration}))
        for name, duration in (("short", "2h"), ("long", "6h"))
    ]


def svg_of(path):
    return ET.fromstring(path.read_text(encoding="utf-8"))


def tree_of(chart):
    """Return the tree of a chart as in a page."""
    named = chart.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1)
    return ET.fromstring(named)


def words_of(tree):
    return [text.text for text in tree.iter(f"{SVG}text")]


def boxes_of(tree, x=0.0, y=0.0):
    """Yield (words, left, top, right, bottom) of every text, at its place in the whole."""
    for child in tree:
        move = re.fullmatch(r"translate\(([\d.]+) ([\d.]+)\)", child.get("transform", ""))
        dx, dy = map(float, move.groups()) if move else (0.0, 0.0)
        yield from boxes_of(child, x + dx, y + dy)
        if child.tag == f"{SVG}text":
            kind = child.get("class")
            wide, foot = width_of(child.text, kind), y + float(child.get("y"))
            left = x + float(child.get("x"))
            left -= {"start": 0.0, "middle": wide / 2, "end": wide}[child.get("text-anchor")]
            em = BOLD_SIZES.get(kind, TEXT_SIZE)
            yield child.text, left, foot - 0.75 * em, left + wide, foot + 0.2 * em


def check_layout(tree):
    """Check that all text is inside, and that none lies on another."""
    _, _, width, height = map(float, tree.get("viewBox").split())
    boxes = list(boxes_of(tree))
    for words, left, top, right, bottom in boxes:
        assert left >= -1, words
        assert right <= width + 12, words  # half of the last instant's label is beyond the axis
        assert 0 <= top < bottom <= height, words
    for one, other in itertools.combinations(boxes, 2):
        is_apart = (
            one[3] <= other[1] or other[3] <= one[1] or one[4] <= other[2] or other[4] <= one[2]
        )
        assert is_apart, (one[0], other[0])


def lab(colour, seen):
    """Return CIE L*a*b* of a colour as it is seen."""
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(seen @ linear, 0, 1) / [0.95047, 1.0, 1.08883]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


# -- axes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "last"), [(0.7, 0.8), (1, 1), (7, 8), (16, 20), (37, 40), (512, 600), (1234, 1250)]
)
def test_ticks_are_round_and_reach_the_most(most, last):
    ticks = ticks_over(0.0, most)
    assert ticks[-1] == pytest.approx(last)
    assert 3 <= len(ticks) <= 8
    assert np.diff(ticks) == pytest.approx(np.full(len(ticks) - 1, ticks[1]))


@pytest.mark.parametrize(
    ("end_s", "unit", "last"),
    [
        (90, "seconds", 90),
        (3600, "minutes", 60),
        (86_400, "hours", 24),
        (172_800, "hours", 48),
        (1_209_600, "days", 14),
    ],
)
def test_time_has_the_unit_that_reads_well(end_s, unit, last):
    ticks, name = time_ticks(end_s)
    size = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}[unit]
    assert name == unit
    assert ticks[0] == 0
    assert ticks[-1] / size <= last


# -- marks ---------------------------------------------------------------------------------------


def test_runs_of_different_lengths_end_where_they_end(pair):
    chart = wrong_chart(pair, ["short", "long"])
    paths = re.findall(r'<path d="(M[^"]*)" class="line-\d" stroke', chart.inside)[:2]
    ends = [float(re.findall(r"[HL]([\d.]+)", path)[-1]) for path in paths]
    begin = float(re.match(r"M([\d.]+)", paths[0])[1])
    assert ends[0] - begin == pytest.approx((ends[1] - begin) / 3, abs=1)


# -- what it looks like --------------------------------------------------------------------------


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("seen", CVD.values(), ids=CVD)
def test_colours_are_told_apart_from_each_other_and_from_the_background(palette, seen):
    colours = [lab(colour, np.array(seen)) for colour in (*palette.series, palette.back)]
    for one, other in itertools.combinations(colours, 2):
        assert np.linalg.norm(one - other) >= 15


def test_no_text_covers_another_or_is_cut_off(crowd, pair, tmp_path):
    paths = [*write_pictures(crowd, tmp_path), write_compared([crowd, *pair], tmp_path)]
    for path in paths:
        check_layout(svg_of(path))
    report = report_html([crowd, *pair])
    charts = re.findall(r"<svg.*?</svg>", report, re.DOTALL)
    assert len(charts) > 30
    for chart in charts:
        named = chart.replace("<svg ", f'<svg xmlns="{SVG[1:-1]}" ', 1)
        check_layout(ET.fromstring(named))


@pytest.mark.parametrize("chosen", [(0.0, 0.0), (5.0, 0.0), (0.0, 5.0), (5.0, 5.0)])
def test_the_name_of_a_dot_stays_inside(chosen):
    dots = [
        Dot(2.0, 2.0, "other"),
        Dot(*chosen, "reclaimMinRuntime 4h, kValue 0.5", is_chosen=True),
    ]
    chart = scatter_chart("title", "work lost, %", "fairness error, %", dots, [])
    check_layout(tree_of(chart.inline("")))


# -- files ---------------------------------------------------------------------------------------


def test_pictures_stand_alone_and_are_the_same_again(pair, tmp_path):
    first, second = (
        [*write_pictures(pair[0], tmp_path / name), write_compared(pair, tmp_path / name)]
        for name in ("one", "two")
    )
    names = ["allocation.svg", "fair-share.svg", "gpu-hours.svg", "comparison.svg"]
    assert [path.name for path in first] == names
    for one, other in zip(first, second, strict=True):
        text = one.read_text(encoding="utf-8")
        assert one.read_bytes() == other.read_bytes()
        assert set(re.findall(r"\w+://[^\"]*", text)) == {SVG[1:-1]}
        assert not re.search(r"<script|<image|href|@import|url\(|var\(", text)
        assert svg_of(one).find(f"{SVG}title").text


def test_a_comparison_names_its_runs_once_and_all_queues(pair, tmp_path):
    words = words_of(svg_of(write_compared(pair, tmp_path)))
    assert [words.count(name) for name in ("short", "long", "a", "b")] == [1, 1, 1, 1]


@pytest.mark.parametrize(("has_plots", "count"), [(False, 0), (True, 7)])
def test_pictures_stand_beside_the_files_of_each_run(pair, tmp_path, capsys, has_plots, count):
    write(pair, tmp_path, has_plots=has_plots)
    assert "report.html" in capsys.readouterr().err
    pictures = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.svg"))
    assert len(pictures) == count
    assert ("comparison.svg" in pictures) == has_plots
