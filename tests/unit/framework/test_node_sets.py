"""Sets of nodes: refusals, order, and sets that are made when they are looked at."""

from typing import Any

import numpy as np
import pytest

from kaisched import LazyNodeSets, NodeSet, Plugin, PluginRefusal, hookimpl
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.node_sets import NodeSets
from kaisched.testing import draw
from kaisched.testing.builder import NOW_S, policy_of

NOT_TODAY = PluginRefusal("NotToday", "today no set is left", cure="Wait until tomorrow.")
NODES = "queue a\nnode n0 | . .\nnode n1 | . .\nnode n2 | . .\njob a1 tasks=3\n"


def named(label: str, *rows: int, order: tuple[int, ...] | None = None) -> NodeSet:
    nodes = np.isin(np.arange(3), rows)
    return NodeSet(label, nodes, order=None if order is None else np.array(order))


class Later(LazyNodeSets):
    """Counts what is made."""

    def __init__(self, *made: Any) -> None:
        super().__init__(len(made))
        self._all = made
        self.looked_at: list[int] = []

    def make(self, at):
        self.looked_at.append(at)
        if isinstance(self._all[at], Exception):
            raise self._all[at]
        return self._all[at]


def answering(answer: Any) -> type[Plugin]:
    class Answering(Plugin):
        """Answers one thing."""

        name = "answering"
        refusals = (NOT_TODAY,)

        @hookimpl
        def node_sets(self, session, action, job, ask, shapes):
            """Answer it."""
            assert shapes == [(0, 3)]
            return answer

    return Answering


def done(answer: Any) -> Any:
    """Return the result of a cycle, with its failures."""
    snapshot = draw(NODES).builder().store().snapshot()
    policy = policy_of(plugins=[answering(answer)])
    result, _ = run_cycle(snapshot, None, policy, NOW_S, Memory())
    return snapshot, result


def nodes_of(answer: Any) -> list[str]:
    _, result = done(answer)
    return sorted(bind.node for bind in result.binds)


def test_a_refusal_in_place_of_sets_is_told():
    _, result = done(NOT_TODAY)
    (record,) = result.records
    assert (record.reason, record.message, record.plugin) == (
        "NotToday",
        "today no set is left",
        "answering",
    )


def test_the_order_of_a_set_comes_before_scores():
    assert nodes_of([named("s", 0, 1, 2, order=(1, 2, 0))]) == ["n0", "n2", "n2"]


def test_sets_that_are_not_needed_are_not_made():
    sets = Later(named("small", 0), named("large", 1, 2), named("other", 0, 1))
    assert nodes_of(sets) == ["n1", "n1", "n2"]
    assert sets.looked_at == [0, 1]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (NodeSet("s", np.ones(2, np.bool_)), "bool[2]"),
        (KeyError("x"), "KeyError: 'x'"),
        ("n0", "not a sequence of kaisched.NodeSet"),
    ],
)
def test_a_set_that_cannot_be_made_is_left_out_and_its_plugin_named(wrong, told):
    _, result = done(Later(wrong, named("large", 1, 2)))
    assert sorted(bind.node for bind in result.binds) == ["n1", "n1", "n2"]
    assert {(it.plugin, it.question) for it in result.failures} == {("answering", "node_sets")}
    assert told in result.failures[0].error


def test_sets_of_two_plugins_meet_in_plugin_order():
    one = NodeSets([named("a", 0, 1), named("b", 2)])
    two = NodeSets([named("x", 1, 2, order=(0, 1, 0)), named("y", 0, 2)])
    met = one.meet(two)
    assert [each.label for each in met] == ["a, x", "a, y", "b, x", "b, y"]
    assert [each.nodes.nonzero()[0].tolist() for each in met] == [[1], [0], [2], [2]]
    assert met[0].order.tolist() == [0, 1, 0]
    assert met[-1].label == "b, y"
    with pytest.raises(IndexError):
        met[4]


def test_one_order_inside_another():
    one, two = named("a", 0, 1, 2, order=(0, 0, 1)), named("b", 0, 1, 2, order=(1, 0, 0))
    assert np.argsort(one.meet(two).order).tolist() == [1, 0, 2]


def test_sets_are_alike_if_the_same_nodes_are_tried_in_the_same_order():
    one, same = NodeSets([named("a", 0)]), NodeSets([named("a", 0)])
    assert one.is_like(same)
    assert not one.is_like(NodeSets([named("a", 1)]))
    assert not one.is_like(NodeSets([named("a", 0), named("a", 0)]))
    source = Later(named("a", 0))
    assert NodeSets(source, sources=(source,)).is_like(NodeSets(source, sources=(source,)))
    assert source.looked_at == []
