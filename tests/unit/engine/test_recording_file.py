"""A snapshot file from a stranger: JSON only, bounded, and every fault is named."""

import gzip
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.daemon.recordings import from_manifests
from kaisched.engine.recording import (
    Recording,
    encoded,
    parsed,
    read_recording,
    replay,
    write_recording,
)
from kaisched.engine.redaction import redacted
from kaisched.errors import ConfigError, KaischedError

MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: a}
spec: {resources: {gpu: {quota: 4}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team, labels: {kai.scheduler/queue: a}}
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("manifests") / "cluster.yaml"
    file.write_text(MANIFESTS)
    return from_manifests([str(file)], None).recording


@pytest.fixture(scope="module")
def document(recording):
    return json.loads(encoded(recording))


def changed(document, **changes):
    return json.dumps({**document, **changes}).encode()


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_what_is_written_is_read(recording, tmp_path, name):
    file = tmp_path / name
    write_recording(recording, file)
    assert encoded(read_recording(file)) == encoded(recording)
    assert file.read_bytes()[:1] == (b"\x1f" if name.endswith(".gz") else b"{")


def test_the_same_recording_gives_the_same_file(recording, tmp_path):
    for name in ("a.json.gz", "b.json.gz"):
        write_recording(recording, tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


@pytest.mark.fault("H120")
def test_a_bomb_is_not_unpacked(tmp_path):
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * (64 << 20)))
    with pytest.raises(ConfigError, match="unpacks to more than") as caught:
        read_recording(file)
    assert caught.value.file == str(file)


@pytest.mark.fault("H120")
def test_many_members_count_together(tmp_path):
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(b" " * (2 << 20)) * 40)
    with pytest.raises(ConfigError, match="unpacks to more than"):
        read_recording(file)


@pytest.mark.fault("H120")
def test_a_file_that_is_too_large_is_not_read(recording, tmp_path, monkeypatch):
    monkeypatch.setattr("kaisched.engine.recording.MAX_FILE", 100)
    write_recording(recording, tmp_path / "a.json")
    with pytest.raises(ConfigError, match="larger than"):
        read_recording(tmp_path / "a.json")


@pytest.mark.fault("H120")
@pytest.mark.parametrize(
    "data",
    [b"[" * 100_000, b'{"facts":' + b'{"a":' * 100_000, b'{"objects":[' + b"[" * 200_000],
    ids=["list", "facts", "objects"],
)
def test_deep_nesting_is_refused(data):
    with pytest.raises(ConfigError, match=r"nested too deep|no JSON"):
        parsed(data, "file")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"),
        (b"\x80\x04K\x01.", "no JSON"),  # a pickle
        (b"\x1f\x8bnonsense", "no gzip file"),
        (gzip.compress(b"{}", mtime=0)[:-4], "no gzip file"),
        (b"[]", "no recording of a version that is read here"),
        (b'{"schemaVersion": "kaisched.io/plan/v1"}', "kaisched.io/plan/v1"),
        (b'{"schemaVersion": "\xff"}', "file"),
    ],
)
def test_what_is_no_recording_is_told_so(data, said):
    with pytest.raises(ConfigError) as caught:
        parsed(data, "file")
    assert said in str(caught.value)
    assert str(caught.value).startswith("file: ")


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"nowSeconds": "noon"}, "nowSeconds"),
        ({"nowSeconds": -1.0}, ""),
        ({"nowSeconds": 1e300}, ""),
        ({"extra": 1}, "extra"),
        ({"assumed": [{"pod": "a/b", "sent": "sideways"}]}, "assumed[0].sent"),
        ({"usage": {"resources": [], "queues": {"a": [1 << 70]}}}, ""),
        ({"shard": []}, "shard"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(document, changes, path):
    with pytest.raises(ConfigError) as caught:
        parsed(changed(document, **changes), "file")
    assert (caught.value.file, caught.value.path) == ("file", path)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"facts": {"stalegang": {"a": "long ago"}}}, "facts.stalegang"),
        ({"facts": {"stalegang": 3}}, "facts.stalegang"),
        ({"facts": {"turns": [[1, 2]]}}, "facts.turns"),
        ({"facts": {"turns": {"a": 1}}}, "facts.turns"),
        ({"usage": {"resources": ["gpu"], "queues": {"a": [1, 2]}}}, "usage.queues.a"),
        ({"shard": {"metadata": {"name": "x"}, "spec": {"kvalue": 1}}}, "shard.spec.kvalue"),
    ],
)
def test_a_recording_that_contradicts_itself_is_not_run(document, changes, path):
    with pytest.raises(KaischedError) as caught:
        replay(parsed(changed(document, **changes), "file"), "file")
    assert (caught.value.file, caught.value.path) == ("file", path)


def test_a_bad_object_is_left_out_and_named(document):
    bad = [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, 7]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": "x"}}
    recording = parsed(changed(document, objects=[*document["objects"], *bad, pod]), "file")
    again = replay(recording, "file")
    assert [it.path for it in again.problems] == [
        "objects[3].kind",
        "objects[4].kind",
        "objects[5].spec.priority",
    ]
    assert len(again.result.binds) == 1


def broken(value, seed):
    """Return a copy of a JSON value with one place, chosen by numbers, replaced."""
    if not seed:
        return value
    first, *rest = seed
    nonsense = [None, -1, 1e308, "", "x", [], {}, [[]], {"a": {}}, True, 1 << 62]
    if isinstance(value, dict) and value:
        key = sorted(value)[first % len(value)]
        if not rest:
            return {**value, key: nonsense[first % len(nonsense)]}
        return {**value, key: broken(value[key], rest)}
    if isinstance(value, list) and value:
        at = first % len(value)
        return [*value[:at], broken(value[at], rest), *value[at + 1 :]]
    return nonsense[first % len(nonsense)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.lists(st.integers(0, 1000), min_size=1, max_size=7))
def test_no_file_gives_anything_but_a_result_or_a_clear_error(document, seed):
    data = json.dumps(broken(document, seed)).encode()
    try:
        recording = parsed(data, "file")
        again = replay(recording, "file")
        redacted(recording, "file")
    except KaischedError as error:
        said = str(error)
    else:
        said = again.result.encode().decode()
    assert said
    assert "\n" not in said


def test_every_field_of_the_file_is_documented(document):
    page = (Path(__file__).parents[3] / "docs" / "reference" / "snapshot-file.md").read_text()
    documented = re.findall(r"^- `(\w+)`: ", page, re.MULTILINE)
    assert documented == [field.encode_name for field in msgspec.structs.fields(Recording)]
    assert document.keys() <= set(documented)
