"""Node availability: idle room now counts, released room later does not."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched.testing import check_plugin
from kaisched_plugins.nodeavailability import NodeAvailability

PLUGIN = NodeAvailability(NodeAvailability.Arguments())


def scores(room, extra):
    """Score all nodes, given how many such pods fit each of them now."""
    session: Any = SimpleNamespace(room=lambda shape: np.array(room, np.int64))
    return PLUGIN.node_score(session, 0, np.arange(len(room)), np.array(extra)).tolist()


def test_a_node_scores_where_the_pod_fits_idle_room():
    assert scores(room=[1, 0, 3], extra=[0, 0, 0]) == [1.0, 0.0, 1.0]


def test_pods_assumed_there_need_room_too():
    assert scores(room=[3, 3], extra=[2, 3]) == [1.0, 0.0]


def test_it_keeps_the_contract_of_plugins():
    check_plugin(NodeAvailability)
