"""The runner on our own cases: what it must call a pass, a deviation and a failure, and why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.__main__ import main, totals
from tests.conformance.deviations import LIST, PREDICATES, rule_for, rules
from tests.conformance.kai_remainders import play_case
from tests.conformance.kinds import JUDGES
from tests.conformance.reading import group_of, read
from tests.conformance.running import run

pytestmark = pytest.mark.proportion

CASES = {case["id"]: case for case in read(Path(__file__).with_name("cases"))}
NOT_BUILT = {
    "own::later": "not built: kind raw",
}
DEVIATIONS = {
    "own::leak": "remainders-stay-in-their-priority",
    "own::beyond-the-request": "no-share-above-the-request",
    "own::over-utilised": "over-utilised-in-what-is-held",
    "own::typo": "malformed-arguments-are-refused",
    "own::multiplier-below-1": "malformed-arguments-are-refused",
    "own::cpu-is-not-asked-for": "claims-count-in-what-they-ask-for",
    "own::not-over-by-enough": "the-multiplier-guards-shares",
    "own::own-side-loses": "what-the-own-side-loses-is-no-gain",
    "own::min-runtime-typo": "malformed-arguments-are-refused",
    "own::pods-move-together": "a-gang-moves-whole",
    "own::smaller-moves": "fewest-gpus-move-first",
    "own::quota-is-left": "quota-is-left-where-it-can-be",
    "own::over-utilised-gives-first": "over-utilised-in-what-is-held",
    "own::smaller-goes": "fewest-gpus-are-lost",
    "own::granted-while-waiting": "what-waits-holds-nothing",
    "own::nobody-is-moved": "within-share-nobody-is-moved",
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(CASES.keys() - NOT_BUILT.keys() - DEVIATIONS.keys()))
def test_a_case_passes(name):
    outcome = run(CASES[name])
    assert (outcome.outcome, outcome.detail, outcome.note) == ("pass", "", "")


@pytest.mark.parametrize("name", sorted(NOT_BUILT))
def test_what_is_not_built_is_a_failure_that_says_so(name):
    outcome = run(CASES[name])
    assert (outcome.outcome, outcome.detail) == ("fail", NOT_BUILT[name])


@pytest.mark.parametrize("name", sorted(DEVIATIONS))
def test_a_deviation_names_its_rule(name):
    outcome = run(CASES[name])
    assert (outcome.outcome, outcome.detail) == ("deviation", DEVIATIONS[name])


def test_every_kind_has_a_case_of_ours():
    assert JUDGES.keys() <= {group_of(case) for case in CASES.values()}


def changed(name, old, new):
    """Return a case in which a text of its JSON is replaced."""
    text = json.dumps(CASES[name])
    assert old in text
    return json.loads(text.replace(old, new))


@pytest.mark.parametrize(
    ("case", "detail"),
    [
        (changed("own::gang-whole", '"status": "Binding"', '"status": "Pending"'), "g-0: expected"),
        (changed("own::gang-whole", '"max_binds": 3', '"max_binds": 2'), "max_binds: at most 2"),
        (changed("own::releasing", '"idle_gpus": 1', '"idle_gpus": 2'), "n0: idle_gpus expected 2"),
        (changed("own::gang-whole", '"gpus_requested": 3', '"gpus_requested": 4'), "g: gpus_requ"),
        (
            changed("own::rounds", '"status": "Running"', '"status": "Pending"'),
            "g-0: expected Pend",
        ),
        (changed("own::rounds", '"until_match": 2', '"until_match": 1'), "g-0: expected Running"),
        (changed("own::limit", '"x": {"status": "Binding"', '"x": {"status": "Running"'), "x-0"),
        (changed("own::affinity", 'older_than_s": 600', 'older_than_s": 601'), "db: last start"),
        (changed("own::half-a-gpu", '"gpu": 2.5', '"gpu": 2'), "fair share of gpu[y]"),
        (changed("own::half-a-gpu", '"remaining": 0', '"remaining": 1'), "gpu[remaining]"),
        (changed("own::order", '"first": "right"', '"first": "left"'), "expected"),
        (changed("own::walk", '"count": 2', '"count": 3'), "expected 3 jobs"),
        (changed("own::victims", '["name-low", ', '["name-high", '), "expected"),
        (changed("own::levels", '["y"]', '["x"]'), "expected"),
        (changed("own::claims", '"rejected": true', '"rejected": false'), "expected rejected"),
        (changed("own::node", '"gpu": 1, "cpu_millis": 70', '"gpu": 2, "cpu_millis": 70'), "gpu:"),
        (changed("own::job-within", '"schedulable": true', '"schedulable": false'), "expected sch"),
        (changed("own::up-to-the-share", "true}", "false}"), "expected False"),
        (changed("own::below-the-share", "false}", "true}"), "expected True, refusals ['NotOver"),
        (changed("own::more-than-its-share", "true}", "false}"), "expected False"),
        (changed("own::limit-of-a-parent", '"allocated": 2', '"allocated": 1'), "expected sched"),
    ],
)
def test_a_case_that_states_something_else_fails(case, detail):
    outcome = run(case)
    assert outcome.outcome == "fail"
    assert outcome.detail.startswith(detail)


def test_a_node_that_differs_is_told_apart():
    outcome = run(changed("own::gang-none", '"node": "n0", "gpus_req', '"node": "n7", "gpus_req'))
    assert (outcome.outcome, outcome.detail) == ("fail", "node")
    assert outcome.note == "s-0 expected on n7, got n0"


def test_a_broken_case_fails_alone():
    outcome = run({**CASES["own::half-a-gpu"], "input": {}})
    assert outcome.outcome == "fail"
    assert outcome.detail.startswith("error: KeyError")


def test_every_rule_has_a_predicate_and_no_predicate_is_unused():
    assert {rule.predicate for rule in rules()} == PREDICATES.keys()
    assert all(rule.reason for rule in rules())


def test_a_rule_is_about_content_and_not_about_the_id():
    for name in DEVIATIONS:
        assert rule_for({**CASES[name], "id": "another", "name": "another"}) == rule_for(
            CASES[name]
        )
    assert all("own::" not in entry for entry in LIST.read_text().split('"'))


def test_every_rule_is_told_at_length():
    told = (ROOT / "docs" / "explanation" / "differences-from-kai.md").read_text(encoding="utf-8")
    assert all(f"`{rule.name}`" in told for rule in rules())


def test_kai_s_own_rule_gives_what_the_deviating_cases_expect():
    for name in ("own::leak", "own::beyond-the-request"):
        (played,) = play_case(CASES[name])
        expected = CASES[name]["expected"]["fair_share"]
        assert {queue: share["gpu"] for queue, share in expected.items()} == played.share


def test_the_report_as_json(capsys):
    assert main(["--cases", str(ROOT / "tests/conformance/cases"), "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {entry["outcome"] for entry in report["cases"]} == {"pass", "fail", "deviation"}
    by_id = {entry["id"]: entry for entry in report["cases"]}
    assert by_id["own::rounds"]["action"] == "rounds"
    assert by_id["own::gang-whole"]["action"] == "allocate"
    assert by_id["own::half-a-gpu"]["kind"] == "fair_share"
    assert report["totals"]["feature"]["gang"] == {"pass": 3, "deviation": 0, "fail": 0}
    assert sum(report["totals"]["all"]["cases"].values()) == len(CASES)


def test_cases_can_be_chosen(capsys):
    folder = str(ROOT / "tests/conformance/cases")
    main(["--cases", folder, "--only", "own::gang"])
    assert capsys.readouterr().out.count("own::") == 2
    assert main(["--cases", folder, "--action", "raw", "--strict"]) == 1
    assert capsys.readouterr().out.count("own::") == 1


def test_a_folder_without_cases_is_an_error(tmp_path, capsys):
    assert main(["--cases", str(tmp_path)]) == 2
    assert "no case documents" in capsys.readouterr().err


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "tests.conformance", "--cases", "tests/conformance/cases"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "own::gang-whole" in ran.stdout
    assert totals([])["all"]["cases"] == {"pass": 0, "deviation": 0, "fail": 0}
