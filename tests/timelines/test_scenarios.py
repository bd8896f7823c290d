"""The scenario files that come with kaisched, and the report in a real browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kaisched.cli.app import run_line
from kaisched.sim.outcome import outcome_of
from kaisched.sim.output.files import result_of
from kaisched.sim.output.report import write_report
from kaisched.sim.running import policy_of, run_scenario
from kaisched.sim.scenario.load import read_raw, read_scenario, scenario_of
from kaisched.sim.tuning import settings_of

FOLDER = Path(__file__).resolve().parents[2] / "config" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))
STORIES = (
    "time-sharing",
    "time-sharing-three",
    "burst",
    "guaranteed",
    "within-share",
    "within-share-late",
    "budget",
    "budget-calendar",
    "budget-reset",
    "budget-granularity",
    "budget-overcommitted",
    "budget-late",
    "usage-pool",
)
TRACED = ("philly-32-now", "philly-32-over-time", "philly-64-now", "philly-64-over-time")
OF_THE_MOMENT = (
    "two-teams",
    "office-hours",
    "lending-by-weight",
    "lending-departments",
    "lending-late-team",
    "philly-64-lending",
    "shared-gpus",
    "claims",
    "gpu-memory",
    "pools-fallback",
    "pools-hpo",
    "topology-on",
    "topology-off",
)
"""Scenarios of shares at each moment: without a usage history."""
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def run(name, **more):
    scenario = read_scenario(FOLDER / f"{name}.yaml", **more)
    return run_scenario(scenario, policy_of(scenario)[0])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_scenario_is_read_without_a_word(file):
    scenario = read_scenario(file)
    assert scenario.warnings == ()
    assert scenario.planned or scenario.backlogs
    assert scenario.tune is None or settings_of(scenario)


def test_each_story_has_a_scenario_with_a_usage_history():
    assert {file.stem for file in FILES} == {*STORIES, *TRACED, *OF_THE_MOMENT}
    for name in STORIES:
        assert read_scenario(FOLDER / f"{name}.yaml").usage is not None


def test_two_teams_get_what_their_weights_say():
    outcome = outcome_of(run("two-teams"))
    research, products = outcome.queues
    assert research.gpu_hours / products.gpu_hours == pytest.approx(3, rel=0.1)
    assert outcome.utilisation > 0.95
    assert outcome.fairness_error < 0.02


def test_memory_counts_as_a_part_of_the_gpus_of_its_node():
    outcome = outcome_of(run("gpu-memory"))
    (models,) = [queue for queue in outcome.queues if queue.name == "models"]
    assert 80 < models.gpu_hours <= 4 * 24, "its limit, though memory is more of a small GPU"
    assert outcome.utilisation <= 1


def test_a_search_is_spread_over_pools_and_a_training_is_not():
    ran = run("pools-hpo")
    by_pool = {"search": set(), "training": set()}
    for group, queue in zip(ran.groups, ran.workload.queue, strict=True):
        by_pool.setdefault(group, set()).add(ran.workload.queue_names[queue])
    assert by_pool["search"] == {"research", "research-l40"}
    assert len(by_pool["training"]) == 1
    assert outcome_of(ran).pending == 0


@pytest.mark.slow
def test_office_hours_come_before_training_and_nodes_fail():
    outcome = outcome_of(run("office-hours"))
    people, training = outcome.queues
    assert people.got == pytest.approx(1, abs=0.02)
    assert people.wait.p50_s <= 60
    assert people.evictions == 0
    assert training.evictions > 0
    assert outcome.failures > 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run():
    path = FOLDER / "guaranteed.yaml"
    raw = read_raw(path)
    raw["time"]["duration"] = "1d"

    def outcome(seed):
        scenario = scenario_of(raw | {"seed": seed}, path)
        return outcome_of(run_scenario(scenario, policy_of(scenario)[0]))

    first, again, other = map(outcome, (5, 5, 6))
    assert first == again
    assert first != other


def test_a_scenario_prints_the_same_again_and_writes_its_files(capsys, tmp_path):
    line = ["simulate", str(FOLDER / "two-teams.yaml"), "--out", str(tmp_path / "out")]
    assert run_line(line) == 0
    first = capsys.readouterr()
    assert "two teams, three to one: 2d, 4 nodes, 32 GPUs, seed 1" in first.out
    assert first.err.splitlines()[-1] == f"kaisched: wrote {tmp_path}/out/report.html"
    assert run_line(line) == 0
    assert capsys.readouterr().out == first.out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "report.html",
        "result.json",
        "queues.csv",
        "timeline.csv",
        "cluster.csv",
        "jobs.csv",
    }


def test_two_scenarios_are_compared(capsys, tmp_path):
    other = tmp_path / "other.yaml"
    text = (FOLDER / "two-teams.yaml").read_text(encoding="utf-8")
    other.write_text(text.replace("overQuotaWeight: 3", "overQuotaWeight: 1"), encoding="utf-8")
    files = [str(FOLDER / "two-teams.yaml"), str(other)]
    out = tmp_path / "out"
    assert run_line(["simulate", "--compare", *files, "--out", str(out)]) == 0
    assert "policy" in capsys.readouterr().out
    assert "Side by side" in (out / "report.html").read_text(encoding="utf-8")
    assert {path.name for path in out.iterdir()} == {"report.html", "two-teams", "other"}


def test_a_scenario_speaks_json(capsys):
    line = ["simulate", str(FOLDER / "two-teams.yaml"), "--seed", "3", "-o", "json"]
    assert run_line(line) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seed"], document["untilSeconds"]) == (3, 172_800)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["none.yaml"], "none.yaml: cannot be read: No such file"),
        (["{two}", "{two}"], "--compare: several files are compared"),
        (["{two}", "--compare"], "--compare: needs two files or more"),
        (["{two}", "--plots"], "--plots: there is no folder for the charts"),
        (["{two}", "--nodes", "3"], "--nodes: does not apply to a scenario; write it into"),
        (["--out", "x"], "--out: needs a scenario; name a scenario file before it"),
        (["{two}", "--shard", "none.yaml"], "none.yaml: no such file"),
        (["{two}", "--actions", "allokate"], "--actions: there is no such action"),
    ],
)
def test_a_wrong_line_is_told_in_one_line(capsys, words, complaint):
    line = [word.format(two=FOLDER / "two-teams.yaml") for word in words]
    assert run_line(["simulate", *line]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err
    assert captured.err.count("\n") == 1


def test_all_that_is_wrong_with_a_file_is_told(capsys, tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "seed: -1\ntime: {duration: 1d}\nnodes: [{gpus: 1}]\nqueues: [{name: a}]\n"
        "jobs: [{queue: b, arrivals: {every: 1h}, duration: 1h}]\n",
        encoding="utf-8",
    )
    assert run_line(["simulate", str(file)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[2] for line in told] == ["seed", "jobs[0].queue"]


@pytest.mark.slow
def test_tune_prints_a_recommendation_and_writes_a_page(capsys, tmp_path):
    file = tmp_path / "s.yaml"
    text = (FOLDER / "two-teams.yaml").read_text(encoding="utf-8")
    parameters = "tune: {parameters: {shard.minRuntime.reclaimMinRuntime: [0s, 4h]}}\n"
    file.write_text(text.replace("duration: 2d", "duration: 12h") + parameters, encoding="utf-8")
    assert run_line(["tune", str(file), "--processes", "1", "--out", str(tmp_path / "t")]) == 0
    out = capsys.readouterr().out
    assert "Recommended: reclaimMinRuntime" in out
    assert {path.name for path in (tmp_path / "t").iterdir()} == {
        "tune.json",
        "tune.csv",
        "tune.html",
    }
    assert run_line(["tune", str(FOLDER / "two-teams.yaml")]) == 2
    assert "tune.parameters: names nothing to try" in capsys.readouterr().err


def opened(page, width=1280):
    """Open a page; return the console and the addresses that it asked for, apart from its own.

    What the browser wants for itself has no page as its initiator.
    """
    log, picture = page.with_suffix(".net.json"), page.with_suffix(".png")
    done = subprocess.run(
        [
            str(CHROMIUM),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--enable-logging=stderr",
            f"--log-net-log={log}",
            f"--user-data-dir={page.parent / 'profile'}",
            f"--screenshot={picture}",
            f"--window-size={width},2600",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert picture.stat().st_size > 1_000
    starts = [event.get("params", {}) for event in json.loads(log.read_bytes())["events"]]
    asked = {
        start["url"]
        for start in starts
        if "url" in start and start.get("initiator", "not an origin") != "not an origin"
    }
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return console, asked - {page.as_uri()}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_report_opens_in_a_browser_without_an_error_or_a_request(tmp_path):
    page = write_report([result_of(run("two-teams"))], tmp_path / "report.html")
    assert opened(page) == ([], set())
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<p>x</p><img src='http://127.0.0.1:1/x.png'><script>throw Error()</script>",
        encoding="utf-8",
    )
    console, asked = opened(bad)
    assert console, "an error would be noticed"
    assert asked == {"http://127.0.0.1:1/x.png"}, "a request would be noticed"
