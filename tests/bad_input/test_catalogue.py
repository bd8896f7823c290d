"""Every fault in the catalogue is told in one exact line, and the object after it is untouched."""

from pathlib import Path

import pytest
import yaml

from kaisched.errors import ObjectError
from kaisched.objects.load import check_queues, load_manifests, load_text
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue

HERE = Path(__file__).parent
CASES = [
    pytest.param(
        case,
        id=f"{file.stem}/{case['name']}",
        marks=[pytest.mark.fault(case["fault"])] if "fault" in case else [],
    )
    for file in sorted(HERE.glob("*.yaml"))
    for case in yaml.safe_load(file.read_text(encoding="utf-8"))
]
GOOD = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: good}
spec: {}
"""
VERY_DEEP = ".".join("a" * 12)
GOOD_JSON = (
    '{"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", '
    '"metadata": {"name": "good"}, "spec": {}}'
)


def names(loaded):
    return [obj.name for obj in loaded.objects]


def all_problems(loaded):
    queues, wrong_queues = check_queues(loaded.of(Queue), loaded.sources)
    assert "good" in {obj.name for obj in (*queues, *loaded.of(PodGroup))}
    return loaded.problems + wrong_queues


@pytest.mark.parametrize("case", CASES)
def test_the_error_is_exact_and_the_good_object_loads(case):
    loaded = load_text(f"{case['text']}---{GOOD}", "f.yaml")
    errors = [str(problem) for problem in all_problems(loaded)]
    assert errors == [f"f.yaml: {line}" for line in case["errors"]]


@pytest.mark.parametrize("case", CASES)
def test_the_good_object_may_also_come_first(case):
    loaded = load_text(f"{GOOD}---\n{case['text']}", "f.yaml")
    assert len(all_problems(loaded)) == len(case["errors"])


def test_the_catalogue_is_not_small_and_names_are_unique():
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids) > 100


@pytest.mark.fault("E91")
@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (
            b"kind: \xff\xfe\n---" + GOOD.encode(),
            ["f: document 1: no UTF-8: byte 0xff at 6; save it as UTF-8"],
        ),
        (
            b"kind: \x00\n---" + GOOD.encode(),
            [
                (
                    "f: document 1: line 1: no YAML: control characters are not allowed; "
                    "check indentation, colons and quotes here"
                )
            ],
        ),
        (
            b"a: " + b"{a: " * 200_000 + b"\n---" + GOOD.encode(),
            [f"f: document 1: {VERY_DEEP}: line 1: nested deeper than 64 levels; flatten it"],
        ),
        (
            b"kind: '" + b"x" * 1_000_000 + b"'\n---" + GOOD.encode(),
            [f"f: document 1 ({'x' * 80}): apiVersion: missing; add apiVersion"],
        ),
        (b"---\n# nothing\n---\n...\n---\n%YAML 1.1\n---" + GOOD.encode() + b"---\n", []),
        (
            b"\xef\xbb\xbf" + GOOD_JSON.encode() + b"\n{}",
            ["f: document 2: apiVersion: missing; add apiVersion"],
        ),
        (
            b'{"kind": "Queue", "kind": "Pod"}\n---' + GOOD.encode(),
            [
                (
                    "f: document 1 (Queue): kind: line 1: key 'kind' is given twice, "
                    "first in line 1; keep one of the two"
                )
            ],
        ),
    ],
    ids=["no-utf8", "nul", "very-deep", "long-kind", "empty-documents", "json-values", "json-like"],
)
def test_bytes_that_no_text_file_can_hold(data, lines):
    loaded = load_text(data, "f")
    assert names(loaded) == ["good"]
    assert [str(problem) for problem in loaded.problems] == lines


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "{",
            (
                "line 1: no JSON: Expecting property name enclosed in double quotes; "
                "check commas, quotes and brackets here"
            ),
        ),
        ('{"a": 1, "a": 2}', "key 'a' is given twice; keep one of the two"),
        ("[" * 100_000, "line 1: nested too deep; flatten it"),
        (
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "\\ud800"}}',
            "document 1 (Pod \\ud800): half a character in '\\ud800'",
        ),
    ],
)
def test_json_that_is_none(text, line):
    (problem,) = load_text(text, "f.json").problems
    assert str(problem) == f"f.json: {line}"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ("1e400", "expected a number, got a text (value '1e400')"),
        ("NaN", "not a finite number (value nan)"),
        ("-Infinity", "not a finite number (value -inf)"),
        ("9" * 5000, "expected a number, got a text"),
    ],
)
def test_json_numbers_out_of_all_bounds(number, said):
    spec = f'"spec": {{"resources": {{"gpu": {{"quota": {number}}}}}}}'
    text = GOOD_JSON.replace('"spec": {}', spec)
    (problem,) = load_text(text + GOOD_JSON.replace("good", "other"), "f.json").problems
    assert problem.path == "spec.resources.gpu.quota"
    assert said in str(problem)


def test_one_bad_file_of_a_directory(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "a.yaml").write_text("kind: [", encoding="utf-8")
    (tmp_path / "b" / "good.yml").write_text(GOOD, encoding="utf-8")
    (tmp_path / ".hidden.yaml").write_text("kind: [", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("kind: [", encoding="utf-8")
    loaded = load_manifests(tmp_path)
    assert names(loaded) == ["good"]
    assert [problem.file for problem in loaded.problems] == [str(tmp_path / "a.yaml")]


@pytest.mark.fault("E91")
def test_a_file_that_is_not_there_or_too_large(tmp_path):
    large = tmp_path / "large.yaml"
    large.write_text(GOOD + "#" * 3_000_000, encoding="utf-8")
    loaded = load_manifests([tmp_path / "none.yaml", large, "bad\x00name"], max_bytes=2 << 20)
    first, second, third = loaded.problems
    assert str(first) == f"{tmp_path}/none.yaml: no such file or directory; check the path"
    assert str(second) == f"{large}: larger than 2 MiB; split it"
    assert isinstance(third, ObjectError)
