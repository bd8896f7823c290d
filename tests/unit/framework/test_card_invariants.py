"""I25: what a cycle gives of cards, counted anew."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.core.devices import PromisedCards, changed_cards
from kaisched.framework.invariants.cards import cards
from kaisched.framework.invariants.evictions import evictions
from kaisched.framework.invariants.sums import Moves
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.testing import draw
from kaisched.testing.builder import ClusterBuilder, policy_of


def ran(cells, *actions, **jobs):
    lines = [f"job {name} {line}" for name, line in jobs.items()]
    return draw("\n".join(["queue a deserved=8", f"node n0 | {cells}", *lines])).after(*actions).ran


def test_a_cycle_as_it_is_breaks_nothing():
    after = ran("a1 .", "allocate", a1="gpu=0.5", a2="gpu=0.5", a3="gpu=1")
    assert list(after.result.bind_cards.values()) == [(0,)]
    assert list(cards(after.snapshot, after.result)) == []


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        ((1,), "node n0: 2 shared cards and 1 whole GPUs are bound of 2"),
        ((0, 1), "node n0: pod default/a2-0 has 2 of 1 cards"),
        ((), "node n0: pod default/a2-0 has 0 of 1 cards"),
    ],
)
def test_a_wrong_card_is_told(slots, told):
    after = ran("a1 .", "allocate", a1="gpu=0.5", a2="gpu=0.5", a3="gpu=1")
    (task,) = after.result.bind_cards
    wrong = replace(after.result, bind_cards={task: slots})
    assert f"I25 {told}" in list(cards(after.snapshot, wrong))


def test_a_card_that_is_given_twice_is_told():
    after = ran("a1 .", "allocate", a1="gpu=0.5", a2="gpu=0.7")
    wrong = replace(after.result, bind_cards=dict.fromkeys(after.result.bind_cards, (0,)))
    assert list(cards(after.snapshot, wrong)) == [
        "I25 node n0, card 0: 1200000 of 1000000 is bound"
    ]


def test_a_share_that_is_moved_to_the_card_it_has_is_told():
    after = ran("a1 a2", "consolidate", a1="gpu=0.5", a2="gpu=0.5", a3="gpu=1")
    assert list(evictions(Moves(after.snapshot, after.result))) == []
    ((task, _),) = after.result.nominate_cards.items()
    own = after.snapshot.nodes.cards.slots_of_task[task]
    wrong = replace(after.result, nominate_cards={task: PromisedCards(own)})
    (told,) = evictions(Moves(after.snapshot, wrong))
    assert "is moved to the node it is on" in told


def test_a_promise_of_a_card_that_stays_in_use_is_told():
    after = ran("a1/a2>", "allocate", a1="gpu=0.5", a2="gpu=0.5", a3="gpu=0.5")
    (task,) = after.result.nominate_cards
    wrong = replace(after.result, nominate_cards={task: PromisedCards((), (0,))})
    assert list(cards(after.snapshot, wrong)) == [
        "I25 node n0: 2 shared cards and 0 whole GPUs are promised of 1"
    ]


def test_a_table_that_is_not_the_sum_over_its_tasks_is_told():
    after = ran("a1", "allocate", a1="gpu=0.5")
    table = after.snapshot.nodes.cards
    nodes = replace(after.snapshot.nodes, cards=replace(table, used=table.used + 1))
    found = list(cards(replace(after.snapshot, nodes=nodes), after.result))
    assert found == ["I25 node n0, card 0: 500001 is said, 500000 counted"]


def test_room_follows_cards_where_amounts_stay_as_they_were():
    builder = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=2).node("n1", gpu=2)
    for name in "ab":
        builder.job(name, queue="q", gpu=0.5, running={"n0": 1}, on_cards=[("x",)])
    store, policy, hints, pods_on_node = builder.job("new", queue="q").store(), policy_of(), {}, []
    for group in ("x", "y"):
        task = store.row_of_task("default/b-0")
        store.cards.name(task, (group,))
        store.revision += 1
        snapshot = store.snapshot()
        session = Session(snapshot, None, policy, 0.0, Memory({}, hints), policy.questions)
        session.ask.open(session)
        shape = int(snapshot.tasks.shape_of_task[store.row_of_task("default/new-0")])
        pods_on_node.append(session.placement.free_capacity(shape).room.tolist())
    assert pods_on_node == [[1, 2], [0, 2]]


def test_only_nodes_whose_cards_differ_are_changed():
    table = ran("a1 .", "allocate", a1="gpu=0.5").snapshot.nodes.cards
    assert changed_cards(table, table).tolist() == [False]
    assert changed_cards(table, replace(table, tasks=table.tasks + 1)).tolist() == [True]
    assert changed_cards(table, replace(table, milli=table.milli + 1)).tolist() == [True]
    assert changed_cards(None, table) == slice(None)
    assert changed_cards(table, replace(table, used=np.zeros((1, 5), np.int64))) == slice(None)
