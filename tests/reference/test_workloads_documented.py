"""The page of workloads has a line for each row of the table, and its example works."""

import re
from dataclasses import fields
from pathlib import Path

import msgspec
import yaml

from kaisched import Gang, SubGroupSpec, Workload
from kaisched.objects.gangs import GANG_API, GANG_API_KIND, GANG_API_VERSIONS, KNOWN, WORKLOADS
from kaisched.objects.workloads import WorkloadKind
from kaisched.testing import check_plugin
from tests.reference import making as m
from tests.small_clusters.deciding import decided

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = (ROOT / "docs" / "reference" / "workloads.md").read_text(encoding="utf-8")

OF_YOUR_OWN = PAGE.partition("## Kinds of your own")[2]
DIFFERENCES = (ROOT / "docs" / "explanation" / "differences-from-kai.md").read_text("utf-8")


LINE = re.compile(r"^- ((?:`\w+(?:\[\])?`(?:, )?)+)(?: \(|: )", re.MULTILINE)
"""A line of a list of fields, with their names."""


def fields_under(heading):
    """The names that the lines of the list under a heading begin with."""
    lines = PAGE.partition(f"{heading}:\n\n")[2].partition("\n\n")[0]
    return [name for names in LINE.findall(lines) for name in re.findall(r"`(\w+)", names)]


def test_every_kind_has_a_line_with_its_versions():
    text = PAGE.partition("\n## ")[0]
    heads = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    rows = re.findall(r"`(\w+)`[^()]* \(([^)]*)\)", "\n".join(heads))
    listed = [(kind, re.findall(r"`([\w./-]+)`", versions)) for kind, versions in rows]
    known = [(row.kind, [row.api_version, *row.other_versions]) for row in WORKLOADS]
    known.append((GANG_API_KIND, [f"{GANG_API}/{it}" for it in GANG_API_VERSIONS]))
    assert sorted(listed) == sorted(known)


def test_every_field_is_described():
    assert fields_under("Fields of a `Workload`") == [it.name for it in fields(Workload)]
    gangs = fields_under("Fields of a `Gang`")
    assert sorted(gangs) == sorted(it.name for it in msgspec.structs.fields(Gang))


def test_the_example_is_a_plugin():
    (text,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    there = {}
    exec(text, there)
    check_plugin(there["Widgets"])
    assert there["read"]({"arms": 2}, {}) == Gang(
        sub_groups=[
            SubGroupSpec(name="head", min_member=1),
            SubGroupSpec(name="arm", min_member=2),
        ]
    )


def test_the_kinds_of_kais_pod_grouper_are_known_or_named_as_not_offered():
    hub = yaml.safe_load((HERE / "kai_pod_grouper.yaml").read_text(encoding="utf-8"))
    table = DIFFERENCES.partition("| not offered |")[2].partition("\n\n")[0]
    left_out = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    known = {*KNOWN, ("", "Pod")}  # pods that own pods are looked through
    assert {(it["group"], it["kind"]) for it in hub if it["kind"] not in left_out} <= known
    assert left_out == {it["kind"] for it in hub if (it["group"], it["kind"]) not in known}


def test_classes_by_kind_are_those_of_kai():
    hub = yaml.safe_load((HERE / "kai_pod_grouper.yaml").read_text(encoding="utf-8"))
    kais = {(it["group"], it["kind"]): it["class"] for it in hub}
    kais["serving.knative.dev", "Revision"] = kais["serving.knative.dev", "Service"]
    ours = {
        key: row.priority_class or "train" for key, row in KNOWN.items() if row.pods != "through"
    }
    assert {key: cls for key, cls in ours.items() if cls != kais.get(key, cls)} == {}
    assert {cls for cls in ours.values() if cls != "train"} == {"build", "inference"}


def declared(tmp_path, **training):
    """Decide the shard of the page with a Training, its pods, and two GPUs."""
    example = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    shard = yaml.safe_load(example.findall(OF_YOUR_OWN)[0])
    meta = {"name": "t", "namespace": "team", "uid": "uid-t", "creationTimestamp": m.AGES}
    made = {"apiVersion": "example.com/v1", "kind": "Training", "metadata": meta, "spec": training}
    owner = {"apiVersion": "example.com/v1", "kind": "Training", "name": "t", "uid": "uid-t"}
    pods = []
    for name in ("worker-0", "worker-1", "worker-2", "leader-0"):
        pod = m.pod(name, labels={"example.com/role": name.partition("-")[0]})
        pod["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        pods.append(pod)
    return decided(tmp_path, shard, m.node(gpus=2), m.queue(), made, *pods)


def test_the_shard_of_the_page_groups_the_pods_of_its_kinds(tmp_path):
    # A leader and one worker fit; a leader and two do not.
    found = declared(tmp_path, groups=[{"size": 1}, {"size": 2}], needed=1)
    assert set(found[0]) == {"team/leader-0", "team/worker-0"}
    assert declared(tmp_path, groups=[{"size": 1}, {"size": 2}], needed=2)[0] == {}
    assert declared(tmp_path, groups=[{"size": 1}, {"size": 2}])[0] == {}
    assert set(declared(tmp_path, groups=[{"size": 1}])[0]) == {"team/leader-0", "team/worker-0"}


def test_every_field_of_a_declared_kind_is_described():
    names = fields_under("with what counts without them in brackets")
    assert names == [it.encode_name for it in msgspec.structs.fields(WorkloadKind)]
