"""Proportion: the division is that of the library."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched import GPU, UNLIMITED, roll_up
from kaisched.core.tree import build_tree
from kaisched_plugins.proportion import Proportion

PLUGIN = Proportion(Proportion.Arguments())
R = 4
UNIT = np.array([1, 1, 1000, 1])


class Queues(SimpleNamespace):
    def __len__(self):
        return len(self.tree)


def queues_of(parents, **columns) -> Queues:
    """Equal queues without quota or limit, unless columns say otherwise."""
    shape = (R, len(parents))
    names = [f"q{i}" for i in range(len(parents))]
    known = {
        "deserved": np.zeros(shape, np.int64),
        "limit": np.full(shape, UNLIMITED),
        "weight": np.ones(shape),
        "priority": np.zeros(len(parents), np.int64),
        **columns,
    }
    for column in known.values():
        column.flags.writeable = False
    tree = build_tree(names, [None if p is None else names[p] for p in parents])
    return Queues(tree=tree, **known)


class Cluster:
    """Sessions one after the other, each with the hints of the one before."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.hints: dict[str, Any] = {}

    def session(self, pending, allocated=0, total=8, weight_transform=None, mode="equal") -> Any:
        """Amounts are of leaves; a number stands for all of them."""
        column = np.zeros((R, len(self.queues)), np.int64)
        leaf = self.queues.tree.is_leaf
        session: Any = SimpleNamespace(
            requested_by_jobs=np.where(leaf, column + allocated + pending, 0),
            total=np.zeros(R, np.int64) + total,
            queues=self.queues,
            fair_tree=self.queues.tree,
            over_quota_weights=mode,
            axis=SimpleNamespace(unit=UNIT),
            hints=self.hints,
            weight_transform=weight_transform,
            head_start=None,
            state={},
        )
        session.state["proportion"] = PLUGIN.session_open(session)
        return session

    def share(self, pending, **more) -> np.ndarray:
        return PLUGIN.fair_share(self.session(pending, **more))


def test_the_division_is_that_of_the_library():
    queues = queues_of([None, 0, 0], deserved=np.array([[3, 1, 0]] * R) * UNIT[:, None])
    pending = np.array([[0, 5, 5]] * R) * UNIT[:, None]
    share = Cluster(queues).share(pending, total=8 * UNIT)
    assert (share[GPU] // 1000).tolist() == [8, 5, 3]
    assert roll_up(np.where(queues.tree.is_leaf, share, 0), queues.tree)[:, 0].tolist() == (
        share[:, 0].tolist()
    )
