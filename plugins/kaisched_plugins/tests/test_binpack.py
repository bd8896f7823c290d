"""Binpack: the fuller node first, or the emptier where the shard spreads."""

from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from kaisched import CPU, GPU
from kaisched.testing import check_plugin
from kaisched_plugins.binpack import Binpack

GPU_POD, CPU_POD = 0, 1


def plugin_of(**arguments):
    return Binpack(Binpack.Arguments.model_validate(arguments))


class Cluster(SimpleNamespace):
    """Nodes of (free GPUs, GPUs, free CPU, CPU); the shapes ask for one GPU, or one CPU."""

    def __init__(self, *nodes, releasing_gpus=0):
        free_gpu, gpu, free_cpu, cpu = np.array(nodes, np.int64).T * 1000
        zeros = np.zeros((4, len(nodes)), np.int64)
        allocatable, idle, releasing = zeros.copy(), zeros.copy(), zeros.copy()
        request = np.zeros((4, 2), np.int64)
        allocatable[GPU], allocatable[CPU] = gpu, cpu
        idle[GPU], idle[CPU] = free_gpu, free_cpu
        releasing[GPU] = np.array(releasing_gpus) * 1000
        request[GPU, GPU_POD] = request[CPU, CPU_POD] = 1000
        super().__init__(
            nodes=SimpleNamespace(allocatable=allocatable),
            shapes=SimpleNamespace(request=request),
            axis=SimpleNamespace(gpu_part=None),
            free=lambda resource, rows: (idle + releasing)[resource, rows],
            state={},
        )

    def scores(self, shape, extra=None, **arguments):
        plugin = plugin_of(**arguments)
        self.state["binpack"] = plugin.session_open(self)
        rows = np.arange(self.nodes.allocatable.shape[1])
        extra = np.zeros(len(rows), np.int64) if extra is None else np.array(extra)
        return plugin.node_score(self, shape, rows, extra).tolist()


CLUSTER = Cluster((2, 8, 40, 64), (8, 8, 10, 64), (1, 4, 64, 64))


def test_binpacking_ranks_by_free_gpus_in_absolute_terms():
    assert CLUSTER.scores(GPU_POD) == [1 - 2 / 8, 0.0, 1 - 1 / 8]


def test_pods_without_gpus_are_ranked_by_free_cpu():
    assert CLUSTER.scores(CPU_POD) == [1 - 40 / 64, 1 - 10 / 64, 0.0]


def test_spreading_ranks_by_the_free_part_of_each_node():
    assert CLUSTER.scores(GPU_POD, gpu="spread") == [2 / 8, 8 / 8, 1 / 4]


def test_the_two_strategies_are_chosen_one_by_one():
    assert CLUSTER.scores(CPU_POD, gpu="spread") == CLUSTER.scores(CPU_POD)
    assert CLUSTER.scores(CPU_POD, cpu="spread") == [40 / 64, 10 / 64, 64 / 64]


def test_pods_assumed_there_count_as_placed():
    assert CLUSTER.scores(GPU_POD, extra=[1, 4, 0]) == [1 - 1 / 8, 1 - 4 / 8, 1 - 1 / 8]


def test_room_being_released_is_free():
    cluster = Cluster((2, 8, 8, 8), (2, 8, 8, 8), releasing_gpus=[0, 3])
    assert cluster.scores(GPU_POD) == [1 - 2 / 8, 1 - 5 / 8]


def test_a_node_without_the_resource_scores_nothing():
    cluster = Cluster((0, 0, 8, 8), (4, 8, 8, 8))
    assert cluster.scores(GPU_POD) == [0.0, 0.5]
    assert cluster.scores(GPU_POD, gpu="spread") == [0.0, 0.5]


def test_an_overdrawn_node_stays_within_bounds():
    cluster = Cluster((-3, 8, 8, 8), (8, 8, 8, 8))
    assert cluster.scores(GPU_POD) == [1.0, 0.0]
    assert cluster.scores(GPU_POD, gpu="spread") == [0.0, 1.0]


def test_another_strategy_is_refused():
    with pytest.raises(ValidationError, match="'binpack' or 'spread'"):
        plugin_of(gpu="scatter")


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Binpack)
