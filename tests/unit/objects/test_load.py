"""Manifests: from any input, good objects are returned and problems are reported."""

import json
import os
import re
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kaisched.objects.load import check_queues, load_manifests, load_text
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue, QueueSpec
from kaisched.objects.text import TextFault, plain_scalar, read_yaml
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import Deployment

QUEUE = "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, spec: {}}\n"


def test_documents_lists_and_typed_lists():
    text = f"""
{QUEUE % "a"}
--- # a comment
apiVersion: v1
kind: List
items:
- {QUEUE % "b"}
- apiVersion: v1
  kind: List
  items: [{QUEUE % "c"}]
---
apiVersion: v1
kind: PodList
items:
- metadata: {{name: p}}
  spec: {{containers: []}}
"""
    loaded = load_text(text, "f")
    assert [obj.key for obj in loaded.objects] == ["a", "b", "c", "default/p"]
    assert loaded.problems == []
    assert loaded.sources["Queue", "c"] == ("f", 2)
    assert loaded.of(Pod)[0].metadata.namespace == "default"


def test_kinds_that_are_none_of_our_business_are_skipped_and_listed():
    text = """
{apiVersion: v1, kind: Service, metadata: {name: web}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: v}}
---
{apiVersion: kai.scheduler/v1, kind: Config, metadata: {name: kai-config}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: nightly}}
"""
    loaded = load_text(text)
    kinds = [f"{other.kind} {other.name}" for other in loaded.others]
    assert kinds == ["Service web", "Queue v", "Config kai-config", "CronJob nightly"]
    assert loaded.objects == loaded.problems == []


def test_json_and_yaml_of_one_object_are_one_object():
    value = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "labels": {"a": "b"}},
        "spec": {"replicas": 3, "template": {"spec": {"priorityClassName": "x"}}},
    }
    (first,) = load_text(json.dumps(value), "d.json").objects
    (second,) = load_text(yaml.safe_dump(value), "d.yaml").objects
    assert first == second
    assert isinstance(first, Deployment)
    assert first.spec.replicas == 3


def test_line_numbers_count_from_the_start_of_the_file():
    loaded = load_text(f"# one\n{QUEUE % 'a'}---\na: 1\na: 2\n")
    assert "line 5" in str(loaded.problems[0])


def test_anchors_and_merges_work_as_people_use_them():
    text = """
apiVersion: v1
kind: List
items:
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: a}
  spec: &spec {priority: 7, displayName: x}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: b}
  spec: {<<: *spec, displayName: y}
"""
    a, b = load_text(text).objects
    assert (a.spec.priority, b.spec.priority, b.spec.display_name) == (7, 7, "y")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1", 1),
        ("-0", 0),
        ("+7", 7),
        ("0x1f", 31),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("Null", None),
        ("y", "y"),
        ("010", "010"),
        ("00", "00"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-07-01", "2026-07-01"),
        ("1e999", "1e999"),
        ("9" * 41, "9" * 41),
        ("\u0661", "\u0661"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_unquoted_words(word, value):
    assert plain_scalar(word) == value
    assert type(plain_scalar(word)) is type(value)
    assert read_yaml(f"a: {word}") == {"a": value}
    assert read_yaml(f"a: '{word}'") == {"a": word}


NUMBER = re.compile(r"[-+]?[\d_.]*[eE][-+]?\d+")
"""Texts that the library writes without quotes, and that kubectl and we read as numbers."""
TEXT = st.text(st.characters(codec="utf-8")).filter(lambda text: not NUMBER.fullmatch(text))
SIMPLE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False) | TEXT,
    lambda it: st.lists(it) | st.dictionaries(TEXT, it),
    max_leaves=20,
)


@given(SIMPLE)
def test_what_yaml_writes_is_read_back(value):
    assert read_yaml(yaml.safe_dump(value)) == value


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_can_surprise_the_loader(data):
    for name in ("f.yaml", "f.json"):
        for problem in load_text(data, name).problems:
            assert str(problem).isprintable()


@given(st.text("{}[]:,-&*!|>'\"%@#?<\t\n a1~.\\", max_size=60))
def test_no_yaml_like_text_can_surprise_the_loader(text):
    load_text(f"{QUEUE % 'a'}---\n{text}\n---\n{QUEUE % 'b'}")
    try:
        read_yaml(text)
    except TextFault as fault:
        assert fault.message  # noqa: PT017 - most texts are no error


@given(st.text("{}[]:,-&*!|>'\"%@#?<\t a1~.\\", max_size=60))
def test_a_bad_line_never_takes_another_document_with_it(line):
    loaded = load_text(f"{QUEUE % 'a'}---\n x{line}\n---\n{QUEUE % 'b'}")
    assert [queue.name for queue in loaded.of(Queue)] == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 10**6, "- " * 10**6, "{a: " * 10**5, "? " * 10**5, "&a " * 10**5, "!" * 10**6),
        *("a: " + "x" * 10**7, "'" * 10**6, "---\n" * 10**5, "#" * 10**7, "- *a\n" * 10**5),
    ],
    ids=lambda text: text[:4].strip(),
)
def test_hostile_texts_are_read_in_little_time(text):
    start = time.process_time()
    load_text(text, "f.yaml")
    load_text(text, "f.json")
    assert time.process_time() - start < 10


def test_a_link_to_itself_and_a_pipe_do_not_hold_the_loader_up(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "q.yaml").write_text(QUEUE % "a", encoding="utf-8")
    assert [obj.name for obj in load_manifests(tmp_path).objects] == ["a"]


def queue(name, parent=""):
    return Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(parent_queue=parent))


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 12)), max_size=14))
def test_valid_queues_always_make_a_forest(pairs):
    queues = [queue(f"q{name}", f"q{above}" if above >= 0 else "") for name, above in pairs]
    valid, problems = check_queues(queues)
    parent = {it.name: it.spec.parent_queue for it in valid}
    assert len(parent) == len(valid)
    assert len(valid) + len(problems) >= len(queues)
    for above in parent.values():
        way = [above]
        while way[-1]:
            way.append(parent[way[-1]])
            assert len(way) <= len(parent)


@pytest.mark.fault("E79")
def test_thousands_of_bad_queues_are_told_in_little_time():
    start = time.process_time()
    deep = [queue(f"d{number}", f"d{number + 1}") for number in range(5_000)]
    ring = [queue(f"r{number}", f"r{(number + 1) % 5_000}") for number in range(5_000)]
    valid, problems = check_queues([*deep, *ring, *ring])
    assert valid == []
    assert len(problems) == 15_000
    assert time.process_time() - start < 10


def test_a_queue_below_a_bad_one_is_told_so():
    valid, problems = check_queues([queue("a", "a"), queue("b", "a"), queue("c", "b"), queue("d")])
    assert [it.name for it in valid] == ["d"]
    assert [it.message for it in problems] == [
        "the queue is its own parent",
        "the parent cannot be used",
        "the parent cannot be used",
    ]
