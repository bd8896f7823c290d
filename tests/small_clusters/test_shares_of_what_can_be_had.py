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
