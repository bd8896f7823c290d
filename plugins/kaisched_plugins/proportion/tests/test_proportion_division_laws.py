"""Proportion: the division is made anew where it could come out otherwise, and only there."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched import CPU, GPU, UNLIMITED, roll_up
from kaisched.core.tree import build_tree
from kaisched_plugins.proportion import Proportion
from kaisched_plugins.proportion.standing import Standing

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

    def session(self, pending, allocated=0, total=8, fold=None, mode="equal") -> Any:
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
            fold=fold,
            head_start=None,
            state={},
        )
        session.state["proportion"] = PLUGIN.session_open(session)
        return session

    def share(self, pending, **more) -> np.ndarray:
        return PLUGIN.fair_share(self.session(pending, **more))


@pytest.fixture
def cluster() -> Cluster:
    """Two equal queues share 8 of everything: 4 each, but 8 milli-GPUs go to the older."""
    return Cluster(queues_of([None, None]))


def test_the_same_inputs_are_divided_once(cluster):
    assert cluster.share(2) is cluster.share(2)


def test_a_pod_that_starts_changes_no_share(cluster):
    assert cluster.share(4) is cluster.share(3, allocated=1)


@pytest.mark.parametrize(
    "change", [{"pending": 3}, {"total": 9}, {"mode": "quota"}, {"allocated": 1}]
)
def test_whatever_a_share_rests_on_divides_anew(cluster, change):
    assert cluster.share(2) is not cluster.share(**{"pending": 2, **change})


def test_a_backlog_beyond_the_share_may_change_without_a_division(cluster):
    pending = np.full((R, 2), 20)
    before = cluster.share(pending)
    pending[CPU, 1] = 5
    assert cluster.share(pending) is before
    pending[CPU, 1] = 4
    assert cluster.share(pending) is not before


def test_another_set_of_queues_is_divided_anew(cluster):
    before = cluster.share(20)
    cluster.queues = queues_of([None, None], weight=np.array([[1.0, 3.0]] * R))
    assert before[CPU].tolist() == [4, 4]
    assert cluster.share(20)[CPU].tolist() == [2, 6]


def test_with_a_weight_fold_nothing_is_remembered(cluster):
    def fold(*args):
        return args[-1]

    first, second = cluster.share(20, fold=fold), cluster.share(20, fold=fold)
    assert first is not second
    assert first.tolist() == second.tolist() == cluster.share(20).tolist()


AMOUNTS = st.integers(0, 12) | st.integers(0, 12_000)


@given(st.data())
def test_what_is_remembered_never_shows(data):
    """Shares and standings are those of a scheduler that has just started."""
    size = data.draw(st.integers(1, 7))
    parents = [data.draw(st.none() | st.integers(0, i - 1)) if i else None for i in range(size)]

    def column(values, rows=R):
        row = st.lists(values, min_size=size, max_size=size)
        return np.array([data.draw(row) for _ in range(rows)])

    bounds = AMOUNTS | st.just(UNLIMITED)
    cluster = Cluster(
        queues_of(
            parents,
            deserved=column(bounds),
            limit=column(bounds),
            weight=column(st.sampled_from([0.0, 1.0, 2.5])),
            priority=column(st.integers(0, 1), 1)[0],
        )
    )
    mode = data.draw(st.sampled_from(["equal", "quota"]))
    total = np.array([data.draw(AMOUNTS) for _ in range(R)])
    pending = column(AMOUNTS)
    standing = None
    for _ in range(5):
        session = cluster.session(pending, total=total, mode=mode)
        share = session.fair_share = PLUGIN.fair_share(session)
        newly = Cluster(cluster.queues).share(pending, total=total, mode=mode)
        assert share.tolist() == newly.tolist()
        standing = Standing.of(session, standing)
        afresh = Standing.of(session)
        assert standing.bounds.tolist() == afresh.bounds.tolist()
        assert standing.divisors.tolist() == afresh.divisors.tolist()
        pending = pending.copy()
        r, q = data.draw(st.integers(0, R - 1)), data.draw(st.integers(0, size - 1))
        # Close to where it begins to matter, as often as anywhere.
        near = int(share[r, q]) + data.draw(st.sampled_from([-1, 0, 1])) * int(UNIT[r])
        pending[r, q] = data.draw(st.just(max(near, 0)) | AMOUNTS)


def test_the_division_is_that_of_the_library():
    queues = queues_of([None, 0, 0], deserved=np.array([[3, 1, 0]] * R) * UNIT[:, None])
    pending = np.array([[0, 5, 5]] * R) * UNIT[:, None]
    share = Cluster(queues).share(pending, total=8 * UNIT)
    assert (share[GPU] // 1000).tolist() == [8, 5, 3]
    assert roll_up(np.where(queues.tree.is_leaf, share, 0), queues.tree)[:, 0].tolist() == (
        share[:, 0].tolist()
    )
