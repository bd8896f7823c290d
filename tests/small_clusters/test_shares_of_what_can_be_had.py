"""Queues share what their pods could have, and demand that cannot be met entitles to nothing."""

from collections import Counter

import pytest

from tests.small_clusters.test_plans import planned

pytestmark = pytest.mark.proportion


def moves(name):
    """Return how many pods of each queue are evicted and bound, over all cycles."""
    cycles = planned(f"{name}.yaml", 3).cycles
    evicted = Counter(it.pod.split("/")[1][0] for cycle in cycles for it in cycle.evictions)
    bound = Counter(it.pod.split("/")[1][0] for cycle in cycles for it in cycle.binds)
    return dict(evicted), dict(bound)


@pytest.mark.parametrize(
    ("name", "each"), [("cordoned-node", 4), ("tainted-node", 2), ("deleted-queue", 2)]
)
def test_half_of_what_can_be_had_is_taken_back(name, each):
    assert moves(f"share-{name}") == ({"a": each}, {"b": each})


def test_demand_that_no_node_can_take_entitles_to_nothing_and_is_told():
    name = "share-demand-that-no-node-can-take"
    assert moves(name) == ({"r": 4}, {"s": 4})
    share = next(it for it in planned(f"{name}.yaml").cycles[0].shares if it.name == "junk")
    assert (share.fair_share["gpu"], share.requested["gpu"]) == (0, 0)
    assert share.unschedulable == (
        {"gpu": 32_000},
        "NoNodeAllowed",
        (
            "gpu 32 that its jobs ask for counts for no share: 4 NoNodeAllowed, such as"
            " default/pg-j0-uid-default-j0; they could not start if nothing else ran"
        ),
    )
