import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.sim.traces import read_trace
from kaisched.sim.workload import ClusterSize, QuotaMode, pods_of, scaled, workload_of


@pytest.mark.parametrize(
    ("gpus", "most", "pods"),
    [
        (1, 8, (1,)),
        (8, 8, (8,)),
        (12, 8, (6, 6)),
        (16, 8, (8, 8)),
        (13, 8, (8, 5)),
        (17, 8, (8, 8, 1)),
        (24, 8, (8, 8, 8)),
        (8, 4, (4, 4)),
        (3, 1, (1, 1, 1)),
    ],
)
def test_a_job_becomes_as_few_pods_as_nodes_allow(gpus, most, pods):
    assert pods_of(gpus, most) == pods


@given(st.integers(1, 1000), st.integers(1, 16))
def test_pods_add_up_and_fit(gpus, most):
    pods = pods_of(gpus, most)
    assert sum(pods) == gpus
    assert all(0 < pod <= most for pod in pods)
    assert len(pods) == -(-gpus // most)


def test_parts_scale_to_whole_pieces_that_add_up():
    assert scaled([64, 32, 4], 10) == [7, 3, 0]
    assert scaled([1, 1, 1], 8) == [3, 3, 2]
    assert scaled([0, 0], 8) == [0, 0]
    assert scaled([], 8) == []


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=20), st.integers(0, 10_000))
def test_scaling_hands_out_everything(parts, total):
    pieces = scaled(parts, total)
    whole = sum(parts)
    assert sum(pieces) == (total if whole else 0)
    for part, piece in zip(parts, pieces, strict=True):
        assert abs(piece - (part * total / whole if whole else 0)) < 1 + 1e-6


def test_published_nodes_are_weights_always_and_quotas_on_demand(write_trace):
    trace = read_trace(write_trace("0,1,1,a\n", vcs="vc,published_nodes\na,3\nb,1\nc,\n"))
    size = ClusterSize(nodes=2, gpus_per_node=8)
    free = workload_of(trace, size, QuotaMode.NONE)
    assert (free.weights, free.quotas) == ((3.0, 1.0, 1.0), (0, 0, 0))
    fixed = workload_of(trace, size, QuotaMode.PUBLISHED)
    assert (fixed.weights, fixed.quotas) == ((3.0, 1.0, 1.0), (12, 4, 0))
