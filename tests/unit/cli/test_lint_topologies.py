"""``kaisched lint`` on topologies: names of topologies and levels that the files do not have."""

import json

import pytest

from tests.unit.cli.conftest import QUEUE

TOPOLOGY = """apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: datacenter}
spec:
  levels:
    - {nodeLabel: topology.kubernetes.io/zone, alias: zone}
    - {nodeLabel: example.com/rack, alias: rack}
---
"""
GROUP = """apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, namespace: default}
spec:
  queue: a
  topologyConstraint: {topology: %s, %s: %s}
  subGroups:
    - {name: s, minMember: 1, topologyConstraint: {topology: datacenter, requiredTopologyLevel: %s}}
---
"""
JOB = """apiVersion: batch/v1
kind: Job
metadata:
  name: j
  labels: {kai.scheduler/queue: a}
  annotations: {%s}
spec:
  template: {metadata: {annotations: {%s}}}
---
"""
REQUIRED, PREFERRED = "requiredTopologyLevel", "preferredTopologyLevel"


@pytest.fixture
def lint(run, tmp_path):
    """Lint one text; returns (level, path, message, value, fix, line) of what is said."""

    def lint(text):
        file = tmp_path / "f.yaml"
        file.write_text(QUEUE % ("a", "", 4, 8) + "\n" + text, encoding="utf-8")
        found = json.loads(run("lint", file, "-o", "json")[1])["findings"]
        assert {it["rule"] for it in found} <= {"unknown-topology"}, found
        keys = ("level", "path", "message", "value", "fix", "line")
        found = [{**it, "value": it["value"].strip("'")} for it in found]
        return [tuple(it[key] for key in keys) for it in found]

    return lint


def test_names_that_exist_are_no_finding(lint):
    assert lint(TOPOLOGY + GROUP % ("datacenter", REQUIRED, "zone", "example.com/rack")) == []


def test_without_a_topology_among_the_files_none_is_missed(lint):
    assert lint(GROUP % ("datacentre", REQUIRED, "zone", "rac")) == []


def test_a_topology_that_no_file_has_is_told_with_the_nearest(lint):
    text = TOPOLOGY + GROUP % ("datacentre", REQUIRED, "zone", "rack")
    ((level, path, message, value, fix, line),) = lint(text)
    assert (level, path) == ("error", "spec.topologyConstraint.topology")
    assert (message, value) == ("no such Topology among the files", "datacentre")
    assert fix == 'did you mean "datacenter"?'
    assert line > 1


def test_a_level_that_the_topology_does_not_have_is_told(lint):
    text = TOPOLOGY + GROUP % ("datacenter", REQUIRED, "zone", "rak")
    ((level, path, message, value, fix, _),) = lint(text)
    assert (level, value, fix) == ("error", "rak", 'did you mean "rack"?')
    assert path == "spec.subGroups[0].topologyConstraint.requiredTopologyLevel"
    assert message == "topology datacenter has no such level"


def test_a_wish_that_names_nothing_is_a_warning(lint):
    text = TOPOLOGY + GROUP % ("datacenter", PREFERRED, "hall", "rack")
    ((level, path, _, value, fix, _),) = lint(text)
    assert (level, value) == ("warning", "hall")
    assert path == "spec.topologyConstraint.preferredTopologyLevel"
    assert "zone" in fix
    assert "rack" in fix


KEY = "kai.scheduler/topology"


@pytest.mark.parametrize(
    ("own", "template", "path", "value"),
    [
        (f"{KEY}: dc, {KEY}-required-placement: rack", "", f"metadata.annotations.{KEY}", "dc"),
        (
            f"{KEY}: datacenter, {KEY}-required-placement: host",
            "",
            f"metadata.annotations.{KEY}-required-placement",
            "host",
        ),
        (
            f"{KEY}: datacenter",
            f"{KEY}-required-placement: host",
            f"spec.template.metadata.annotations.{KEY}-required-placement",
            "host",
        ),
        (
            "",
            "kueue.x-k8s.io/podset-required-topology: example.com/hall",
            "spec.template.metadata.annotations.kueue.x-k8s.io/podset-required-topology",
            "example.com/hall",
        ),
        (
            "",
            (
                "kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/zone,"
                " kueue.x-k8s.io/podset-slice-required-topology: example.com/row,"
                " kueue.x-k8s.io/podset-slice-size: '2'"
            ),
            "spec.template.metadata.annotations.kueue.x-k8s.io/podset-slice-required-topology",
            "example.com/row",
        ),
    ],
)
def test_annotations_of_workloads_are_read_too(lint, own, template, path, value):
    ((level, where, _, said, fix, _),) = lint(TOPOLOGY + JOB % (own, template))
    before, _, key = path.partition("annotations.")
    assert (level, where, said) == ("error", f"{before}annotations['{key}']", value)
    assert fix


KUEUE = "kueue.x-k8s.io/podset"
SLICES = f'{KUEUE}-slice-required-topology-constraints: \'[{{"topology": "a b", "size": 2}}]\''


@pytest.mark.parametrize(
    ("notes", "level", "key"),
    [
        (f"{KUEUE}-required-topology: a b", "error", "required-topology"),
        (f"{KUEUE}-preferred-topology: a b", "warning", "preferred-topology"),
        (
            f"{KUEUE}-slice-required-topology: a b, {KUEUE}-slice-size: '2'",
            "error",
            "slice-required-topology",
        ),
        (SLICES, "error", "slice-required-topology-constraints"),
    ],
)
def test_a_label_that_no_node_can_have_is_told_also_without_a_topology(lint, notes, level, key):
    ((told, where, message, value, fix, line),) = lint(JOB % ("", notes))
    assert (told, value) == (level, "a b")
    assert where == f"spec.template.metadata.annotations['{KUEUE}-{key}']"
    assert message == "no name of a label, so no node can have it"
    assert fix == "write one such as topology.kubernetes.io/rack"
    assert line > 1


def test_a_label_that_nodes_can_have_is_no_finding_without_a_topology(lint):
    assert lint(JOB % ("", f"{KUEUE}-required-topology: Rack_1.x")) == []
    assert lint(JOB % (f"{KEY}: a b, {KEY}-required-placement: c d", "")) == []


def test_the_label_of_a_group_of_kubernetes_is_told(run, tmp_path):
    text = """apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 2}}
  schedulingConstraints: {topology: [{key: a b}]}
---
"""
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    code, out, _ = run("lint", tmp_path / "f.yaml")
    assert code == 1
    assert "f.yaml:" in out
    assert "spec.schedulingConstraints.topology[0].key: no label of nodes (value 'a b')" in out


def test_a_topology_with_a_fault_is_not_missed_as_well(run, tmp_path):
    text = TOPOLOGY.replace("example.com/rack", "topology.kubernetes.io/zone")
    text += GROUP % ("datacenter", REQUIRED, "zone", "hall")
    (tmp_path / "f.yaml").write_text(QUEUE % ("a", "", 4, 8) + "\n" + text, encoding="utf-8")
    found = json.loads(run("lint", tmp_path / "f.yaml", "-o", "json")[1])["findings"]
    assert [(it["rule"], it["path"]) for it in found] == [("object", "spec.levels[1].nodeLabel")]


def test_labels_of_two_topologies_do_not_go_together(lint):
    other = TOPOLOGY.replace("datacenter", "other").replace("example.com/rack", "example.com/row")
    notes = (
        "kueue.x-k8s.io/podset-required-topology: example.com/rack,"
        " kueue.x-k8s.io/podset-slice-required-topology: example.com/row,"
        " kueue.x-k8s.io/podset-slice-size: '2'"
    )
    ((level, _, message, value, _, _),) = lint(TOPOLOGY + other + JOB % ("", notes))
    assert (level, value) == ("error", "example.com/row")
    assert "and the others" in message


def test_templates_of_any_workload_are_read(lint):
    text = f"""apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: t, labels: {{kai.scheduler/queue: a}}}}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      template:
        metadata:
          annotations:
            {KEY}: datacenter
            kai.scheduler/segment-size: "2"
            kai.scheduler/segment-topology-required-placement: rac
---
"""
    ((level, path, _, value, _, line),) = lint(TOPOLOGY + text)
    assert (level, value) == ("error", "rac")
    assert path.startswith("spec.pytorchReplicaSpecs.Worker.template.metadata.annotations")
    assert line
