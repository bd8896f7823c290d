"""How many pods must start together: what the specs of the known workloads say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.objects.gang_sizes import MOST, SIZED, minimum_of


def kubeflow(key, **more):
    return {key: {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}, **more}


@pytest.mark.parametrize(
    ("kind", "spec", "minimum"),
    [
        ("PyTorchJob", kubeflow("pytorchReplicaSpecs"), 4),
        ("PyTorchJob", kubeflow("pytorchReplicaSpecs", elasticPolicy={"minReplicas": 2}), 3),
        (
            "TFJob",
            kubeflow("tfReplicaSpecs", runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
            2,
        ),
        ("XGBoostJob", kubeflow("xgbReplicaSpecs"), 4),
        ("JAXJob", {"jaxReplicaSpecs": {"Worker": {}}}, 1),
        ("MPIJob", {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}}, 5),
        (
            "MPIJob",
            {
                "mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}},
                "launcherCreationPolicy": "WaitForWorkersReady",
            },
            4,
        ),
        (
            "JobSet",
            {
                "replicatedJobs": [
                    {"replicas": 2, "template": {"spec": {"parallelism": 3}}},
                    {"template": {"spec": {}}},
                ]
            },
            7,
        ),
        (
            "JobSet",
            {
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
                "replicatedJobs": [{"replicas": 4}],
            },
            1,
        ),
        (
            "RayCluster",
            {"workerGroupSpecs": [{"minReplicas": 2, "numOfHosts": 2}, {"replicas": 3}]},
            5,
        ),
        ("Job", {"parallelism": 9}, 1),
        ("PyTorchJob", None, 1),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": -3}}}, 1),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 10**12}}}, 1),
    ],
)
def test_minimums_of_workloads(kind, spec, minimum):
    assert minimum_of(kind, spec) == minimum


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["replicas", "Worker", "replicatedJobs", "template", "spec",
                         "workerGroupSpecs", "pytorchReplicaSpecs", "mpiReplicaSpecs"]),
        inner,
    ),
)  # fmt: skip


@given(st.sampled_from(sorted(SIZED)), ANYTHING)
def test_no_spec_is_too_strange(kind, spec):
    assert 1 <= minimum_of(kind, spec) <= MOST
