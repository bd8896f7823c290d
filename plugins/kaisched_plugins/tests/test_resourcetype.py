"""Resource type: CPU pods to CPU nodes."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched import GPU
from kaisched.core.axis import ResourceAxis
from kaisched.testing import check_plugin
from kaisched_plugins.resourcetype import ResourceType

PLUGIN = ResourceType(ResourceType.Arguments())
CPU_POD, GPU_POD = 0, 1


def score(shape, rows, gpus_of_nodes=(8000, 0, 0)):
    request = np.zeros((4, 2), np.int64)
    request[GPU, GPU_POD] = 1000
    allocatable = np.zeros((4, len(gpus_of_nodes)), np.int64)
    allocatable[GPU] = gpus_of_nodes
    session: Any = SimpleNamespace(
        shapes=SimpleNamespace(charge=request),
        nodes=SimpleNamespace(allocatable=allocatable),
        axis=ResourceAxis.of(),
    )
    return PLUGIN.node_score(session, shape, np.array(rows), np.zeros(len(rows), np.int64))


def test_a_cpu_pod_prefers_nodes_without_gpus():
    assert score(CPU_POD, [0, 1, 2]).tolist() == [0.0, 1.0, 1.0]


def test_only_the_rows_asked_about_are_answered():
    assert score(CPU_POD, [2]).tolist() == [1.0]


def test_a_gpu_pod_has_no_preference():
    assert score(GPU_POD, [0, 1]) is None


def test_it_keeps_the_contract_of_plugins():
    check_plugin(ResourceType)
