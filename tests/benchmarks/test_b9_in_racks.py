"""B9 on racks: what the topology is used for, at a tiny size."""

from collections import Counter

import pytest

from tests.benchmarks import b9
from tests.benchmarks.b9_in_racks import USES
from tests.benchmarks.harness import Watch

pytestmark = pytest.mark.proportion


@pytest.mark.parametrize("policy", sorted(b9.SHARDS))
def test_pods_that_ask_for_no_rack_are_packed_as_without_one(policy):
    found = {name: b9.fill(1, policy, Watch(), 24, racks) for name, racks in USES.items()}
    assert found["racks, no pod asks"] == found["no topology"]
    assert found["no topology"][1] > 0
    assert all(part == found["no topology"] for part in found.values()), "all find room"


@pytest.mark.parametrize("is_dealt", [False, True])
def test_racks_have_sixteen_nodes_each(is_dealt):
    nodes = b9.Cluster("binpack", b9.Racks(is_dealt=is_dealt))._store.snapshot().nodes
    racks = [labels["rack"] for labels in nodes.labels]
    assert sorted(set(Counter(racks).values())) == [1213 % 16, 16]
    assert (racks == sorted(racks)) is not is_dealt
