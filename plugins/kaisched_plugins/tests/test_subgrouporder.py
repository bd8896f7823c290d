"""Subgroup order: who lacks most is served first."""

from typing import Any

import numpy as np
import pytest

from kaisched.testing import check_plugin
from kaisched_plugins.subgrouporder import SubGroupOrder

PLUGIN = SubGroupOrder(SubGroupOrder.Arguments())


def first_of(*groups):
    """Return the position of the group served first; a group is (active, minimum)."""
    active, minimum = np.array(groups, np.int64).T
    session: Any = None  # nothing of it is read
    keys = PLUGIN.subgroup_order(session, active, minimum)
    return int(np.lexsort(keys[::-1])[0])


@pytest.mark.parametrize(
    ("groups", "first"),
    [
        pytest.param([(2, 2), (1, 4)], 1, id="below its minimum before satisfied"),
        pytest.param([(0, 0), (3, 2)], 1, id="required before optional"),
        pytest.param([(0, 0), (0, 1)], 1, id="lacking before optional"),
        pytest.param([(2, 0), (1, 0)], 1, id="of two optional ones the one with fewer pods"),
        pytest.param([(1, 2), (1, 4)], 1, id="both below: the relatively emptier"),
        pytest.param([(6, 2), (5, 2)], 1, id="both satisfied: the relatively emptier"),
        pytest.param([(1, 2), (2, 4)], 0, id="a tie is left to the next rule"),
    ],
)
def test_the_group_served_first(groups, first):
    assert first_of(*groups) == first


def test_it_keeps_the_contract_of_plugins():
    check_plugin(SubGroupOrder)
