"""Workloads among manifests are read as the daemon reads watched ones."""

import msgspec
import pytest

from kaisched.cluster.kubernetes.resources import GANG_GROUPS, owner
from kaisched.objects.gangs import KNOWN
from kaisched.objects.load import load_text, workloads_among

TYPED = {"Job", "ReplicaSet", "Deployment", "StatefulSet"}
SPECS = {
    "PyTorchJob": {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}},
    "TFJob": {"tfReplicaSpecs": {"Worker": {"replicas": 5}}},
    "MPIJob": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}},
    "JobSet": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {}}}]},
    "LeaderWorkerSet": {"leaderWorkerTemplate": {"size": 4}},
    "RayCluster": {"workerGroupSpecs": [{"groupName": "g", "replicas": 2, "minReplicas": 2}]},
    "PodGroup": {"schedulingPolicy": {"gang": {"minCount": 3}}},
}


def text_of(api_version, kind, spec=None):
    meta = {"name": "m", "namespace": "ns", "uid": "u1", "annotations": {}}
    raw = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec or {}}
    return msgspec.json.encode(raw)


def watched(kind, api_version, text):
    """Return the object as a watch of its kind decodes it."""
    line = b'{"type": "ADDED", "object": %b}' % text
    return kind.read_event(line).object, api_version


@pytest.mark.parametrize("row", [row for row in KNOWN.values() if row.kind not in TYPED])
def test_a_workload_of_a_file_is_what_a_watch_makes_of_it(row):
    for api_version in (row.api_version, *row.other_versions):
        text = text_of(api_version, row.kind, SPECS.get(row.kind))
        (found,) = workloads_among(load_text(text, "f").others, KNOWN).objects
        seen, _ = watched(owner(row), api_version, text)
        assert (found.metadata, found.kind, found.gang) == (seen.metadata, seen.kind, seen.gang)
        assert found.api_version == api_version


@pytest.mark.parametrize("kind", GANG_GROUPS, ids=lambda it: it.api_version)
def test_a_group_of_the_gang_api_of_kubernetes_is_read(kind):
    text = text_of(kind.api_version, "PodGroup", SPECS["PodGroup"])
    (found,) = workloads_among(load_text(text, "f").others, KNOWN).objects
    seen, _ = watched(kind, kind.api_version, text)
    assert found == seen
    assert found.gang.minimum == 3


def test_what_is_wrong_with_a_workload_names_file_document_and_object():
    text = b"""
{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: good}}
---
{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: bad, labels: 3}}
---
{apiVersion: v1, kind: Service, metadata: {name: web}}
"""
    found = workloads_among(load_text(text, "f.yaml").others, KNOWN)
    assert [obj.metadata.name for obj in found.objects] == ["good"]
    (problem,) = found.problems
    assert (problem.file, problem.document, problem.kind, problem.name) == (
        "f.yaml",
        2,
        "RayCluster",
        "bad",
    )
    assert problem.path == "metadata.labels"
    assert found.left_out == {"Service": 1}
