"""The class of a workload by its kind, as in KAI-Scheduler: who goes, who stays, who is first."""

import pytest

from tests.reference import making as m
from tests.small_clusters.deciding import decided

NOTEBOOK = ("kubeflow.org/v1", "Notebook")
SET = ("apps/v1", "StatefulSet")
REPLICAS = ("apps/v1", "ReplicaSet")
DEPLOYMENT = ("apps/v1", "Deployment")


def meta(kind, by=None, labels=None):
    made = {"name": "w", "namespace": "team", "uid": f"uid-{kind}", "creationTimestamp": m.AGES}
    return {**made, "labels": labels or {}, "ownerReferences": [reference(*by)] if by else []}


def reference(version, kind):
    return {
        "apiVersion": version,
        "kind": kind,
        "name": "w",
        "uid": f"uid-{kind}",
        "controller": True,
    }


def workload(*chain, labels=None, at="node-1"):
    """A pod of 1 GPU, and its owners from the outermost in; ``labels`` are the outermost one's."""
    found, above = [], None
    for version, kind in chain:
        said = None if found else labels
        body = {"apiVersion": version, "kind": kind, "metadata": meta(kind, above, said)}
        found.append({**body, "spec": {}})
        above = (version, kind)
    pod = m.pod("w-0", at=at)
    pod["metadata"]["ownerReferences"] = [reference(*above)] if above else []
    return [*found, pod]


RUNNING = {
    "Notebook": ([NOTEBOOK, SET], {}, True),
    "Notebook of an older version": ([("kubeflow.org/v1beta1", "Notebook"), SET], {}, True),
    "Notebook that may go": ([NOTEBOOK, SET], {"priorityClassName": "train"}, False),
    "Notebook, preemptible": (
        [NOTEBOOK, SET],
        {"kai.scheduler/preemptibility": "preemptible"},
        False,
    ),
    "StatefulSet": ([SET], {}, False),
    "Deployment": ([DEPLOYMENT, REPLICAS], {}, True),
    "ReplicaSet": ([REPLICAS], {}, False),
    "SPOTRequest": ([("egx.nvidia.io/v1", "SPOTRequest")], {}, True),
    "SeldonDeployment": (
        [("machinelearning.seldon.io/v1", "SeldonDeployment"), DEPLOYMENT, REPLICAS],
        {},
        False,
    ),
    "VirtualMachineInstance": ([("kubevirt.io/v1", "VirtualMachineInstance")], {}, False),
    "DevWorkspace": (
        [("workspace.devfile.io/v1alpha2", "DevWorkspace"), DEPLOYMENT, REPLICAS],
        {},
        False,
    ),
    "Revision": (
        [("serving.knative.dev/v1", "Service"), ("serving.knative.dev/v1", "Revision"), DEPLOYMENT],
        {},
        True,
    ),
}


@pytest.mark.proportion
@pytest.mark.parametrize(("chain", "labels", "stays"), RUNNING.values(), ids=RUNNING)
def test_a_workload_of_a_class_that_stays_is_not_reclaimed(tmp_path, chain, labels, stays):
    # The GPU is over the quota of 0; the other queue is due it.
    found = decided(
        tmp_path,
        m.node(gpus=1),
        m.queue(quota=0),
        m.queue("speech", quota=1),
        *workload(*chain, labels=labels),
        m.pod("claims", queue="speech"),
    )
    assert found[2] == (set() if stays else {"team/w-0"})


@pytest.mark.parametrize("cls", ["build-preemptible", "high"])
def test_a_notebook_is_not_preempted(tmp_path, cls):
    found = decided(
        tmp_path,
        m.priority_class("high", 90),
        m.node(gpus=1),
        m.queue(quota=1),
        *workload(NOTEBOOK, SET),
        m.pod("claims", priorityClassName=cls),
        rounds=2,
    )
    assert (found[0], found[2]) == ({}, set())


def test_a_notebook_goes_before_training_and_stays_within_the_quota(tmp_path):
    parts = [*workload(NOTEBOOK, SET, at=""), m.pod("train", created="2026-01-05T07:00:00Z")]
    found = decided(tmp_path, m.node(gpus=1), m.queue(quota=1), *parts)
    assert found[0] == {"team/w-0": "node-1"}
    found = decided(tmp_path, m.node(gpus=2), m.queue(quota=0), *parts)
    assert found[0] == {"team/train": "node-1"}


def test_a_shard_may_give_a_known_kind_another_class(tmp_path):
    said = {"apiVersion": NOTEBOOK[0], "plural": "notebooks", "kind": "Notebook"}
    shard = m.shard(workloads=[said | {"priorityClass": "build-preemptible"}])
    cluster = [
        m.node(gpus=1),
        m.queue(quota=0),
        m.queue("speech", quota=1),
        *workload(NOTEBOOK, SET),
        m.pod("claims", queue="speech"),
    ]
    assert decided(tmp_path, shard, *cluster)[2] == {"team/w-0"}
