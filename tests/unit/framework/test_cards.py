"""Shares of GPUs in a cycle: which card a pod gets, what is freed, and what is said."""

import numpy as np
import pytest

from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand, PromisedCards
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of


def share(thousandths, cards=1):
    return Constraints(devices=DeviceDemand(thousandths * 1000, 0, cards))


def memory(mib):
    return Constraints(devices=DeviceDemand(0, mib))


RESERVES = Constraints(devices=DeviceDemand(is_reservation=True))


class Cluster(ClusterBuilder):
    """A cluster whose pods may ask for a part of a GPU."""

    def part(self, name, thousandths, cards=1, **job):
        job = {"queue": "q", "gpu": 0} | job
        return self.job(name, constraints=share(thousandths, cards), **job)


def cluster(*gpus, quota=8):
    made = Cluster().queue("q", deserved=quota)
    for number, count in enumerate(gpus):
        made.node(f"n{number}", gpu=count)
    return made


def cards_of(ran):
    """Return pod to the slots of its node, of the pods that were bound."""
    names = ran.snapshot.tasks.name
    return {names[task].rpartition("/")[2]: it for task, it in ran.result.bind_cards.items()}


def reasons(ran, job):
    (record,) = [it for it in ran.result.records if it.pod_group == f"default/{job}"]
    return record.reason, [miss.detail for miss in record.node_misses]


def session_of(made):
    """Return a session on a cluster, before any action."""
    policy = policy_of()
    session = Session(made.run().snapshot, None, policy, 1000.0, Memory(), policy.questions)
    session.ask.open(session)
    return session


def test_shares_are_packed_on_the_card_with_the_least_left():
    made = cluster(3).part("a", 600, running={"n0": 1}).part("b", 300, running={"n0": 1})
    made.part("c", 800, running={"n0": 1})  # a and b are on card 0, c is on card 1
    assert cards_of(made.part("new", 200).run()) == {"new-0": (1,)}
    assert cards_of(made.part("large", 300).run())["large-0"] == (2,)


def test_a_node_with_an_open_card_comes_before_a_fuller_node():
    made = cluster(2, 2, 2).job("whole", queue="q", gpu=1, running={"n0": 1})
    made.part("a", 500, running={"n2": 1})
    assert made.part("new", 500).run().placed == {"new-0": "n2"}
    assert made.part("large", 700).run().placed["large-0"] == "n0"


def test_several_shares_of_one_pod_are_on_different_cards_of_a_node():
    made = cluster(1, 3).part("a", 500, running={"n1": 1})
    ran = made.part("new", 500, cards=2).run()
    assert (ran.placed, cards_of(ran)) == ({"new-0": "n1"}, {"new-0": (0, 1)})


def test_more_cards_than_a_node_has_never_fit():
    ran = cluster(1, 2).part("new", 100, cards=3).run()
    assert reasons(ran, "new")[0] == "ExceedsAnyNode"


def test_no_card_is_opened_while_an_open_one_is_being_vacated():
    made = cluster(2).part("stays", 500, running={"n0": 1}).part("goes", 500, leaving={"n0": 1})
    ran = made.part("new", 500).run("allocate")
    assert (ran.placed, ran.promised) == ({}, {"new-0": "n0"})


def test_a_card_that_everything_leaves_is_promised_as_a_whole_one():
    made = cluster(1).part("goes", 500, leaving={"n0": 1})
    assert made.job("whole", queue="q", gpu=1).run("allocate").promised == {"whole-0": "n0"}
    made = cluster(1).part("stays", 400, running={"n0": 1}).part("goes", 500, leaving={"n0": 1})
    assert made.job("whole", queue="q", gpu=1).run("allocate").promised == {}


@pytest.mark.parametrize(("mib", "reason"), [(8_000, None), (20_000, "ExceedsAnyNode")])
def test_memory_must_fit_on_one_card(mib, reason):
    made = Cluster().queue("q", deserved=2).node("n0", gpu=2, card_mib=16_000)
    ran = made.job("new", queue="q", gpu=0, constraints=memory(mib)).run()
    assert bool(ran.placed) == (reason is None)
    if reason:
        assert reasons(ran, "new")[0] == reason


def told(made, **new):
    """Return what nodes lack for a new pod, after a cycle."""
    ran = made.job("new", **({"queue": "q", "gpu": 0} | new)).run("allocate")
    assert not ran.placed
    return reasons(ran, "new")


def filled(*parts, gpus=None, nodes=1):
    """Return nodes whose cards have these parts taken, in thousandths."""
    made = cluster(*[gpus or len(parts)] * nodes, quota=64)
    for node in range(nodes):
        for number, part in enumerate(parts):
            made.part(f"r{node}-{number}", part, running={f"n{node}": 1})
    return made


def test_many_cards_are_told_as_a_range_and_many_nodes_by_their_best_card():
    parts = [600 + 10 * number for number in range(8)]
    assert told(filled(*parts), constraints=share(500)) == (
        "NoRoom",
        ["gpu: cards 0 to 7 of node n0 have at most 0.4 free"],
    )
    assert told(filled(800, 600, nodes=2), constraints=share(500)) == (
        "NoRoom",
        ["gpu: no card has more than 0.4 free"],
    )


def test_a_pod_of_several_cards_is_told_how_many_have_so_much_left():
    assert told(filled(300, 800), constraints=share(500, 2)) == (
        "NoRoom",
        ["gpu: 1 card with so much left, 2 asked"],
    )
    # A GPU that nobody uses yet is such a card too.
    assert told(filled(800, 800, gpus=3), constraints=share(500, 2)) == (
        "NoRoom",
        ["gpu: 1 card with so much left, 2 asked"],
    )


def test_what_no_empty_node_has_is_told_by_the_size_and_the_number_of_cards():
    made = Cluster().queue("q", deserved=8).node("n0", gpu=2, card_mib=16_000)
    assert told(made, constraints=memory(20_000)) == (
        "ExceedsAnyNode",
        ["gpu: cards have at most 16000 MiB"],
    )
    assert told(cluster(2), constraints=share(100, 3)) == (
        "ExceedsAnyNode",
        ["gpu: at most 2 cards"],
    )


def test_cards_of_unknown_memory_are_not_said_to_be_small():
    made = Cluster().queue("q", deserved=8).node("n0", gpu=2, card_mib=16_000).node("n1", gpu=2)
    assert told(made, constraints=memory(20_000)) == (
        "ExceedsAnyNode",
        ["gpu: cards have at most 16000 MiB", "gpu: how much memory a card has is not known there"],
    )


def test_memory_is_told_in_the_unit_that_was_asked():
    made = Cluster().queue("q", deserved=8).node("n0", gpu=1, card_mib=16_000)
    made.job("a", queue="q", gpu=0, constraints=memory(10_000), running={"n0": 1})
    assert told(made, constraints=memory(8_000))[1] == ["gpu: card 0 of node n0 has 6000 MiB free"]


def test_a_card_that_is_being_vacated_is_told():
    made = cluster(2).part("stays", 500, running={"n0": 1}).part("goes", 500, leaving={"n0": 1})
    made.part("first", 500)
    ran = made.part("new", 700).run("allocate")
    assert (ran.placed, ran.promised) == ({"new-0": "n0"}, {"first-0": "n0"})


def test_a_batch_of_several_shapes_is_told_that_its_pods_fit_only_alone():
    made = cluster(1).job("new", queue="q", gpu=0, tasks=1)
    assert made.run("allocate").placed


def test_a_gang_that_waits_whole_is_promised_the_cards_on_which_it_was_tried():
    """Chosen anew, the first pod would take what leaves card 0, and nothing were left beside it."""
    made = cluster(4).part("a", 800, running={"n0": 1}).part("goes", 100, leaving={"n0": 1})
    made.part("b", 750, running={"n0": 1}).part("c", 600, running={"n0": 1})
    session = session_of(
        made.job("full", queue="q", running={"n0": 1}).part("new", 200, 2, tasks=2)
    )
    statement, cards = session.statement(), session.capacity.cards
    first, second = np.flatnonzero(session.tasks.state == TaskState.PENDING).tolist()
    statement.allocate(first, 0)
    statement.pipeline(second, 0)
    assert (cards.chosen, cards.promised) == ({first: (1, 2)}, {second: PromisedCards((0, 2))})
    statement.pipeline_all()
    promised = {first: PromisedCards((1, 2)), second: PromisedCards((0, 2))}
    assert (cards.chosen, cards.promised) == ({}, promised)
    statement.rollback()
    assert (cards.chosen, cards.promised) == ({}, {})


def test_a_card_that_a_gang_would_have_opened_is_promised_as_one_that_will_be_whole():
    session = session_of(cluster(2).part("new", 400, tasks=3).job("whole", queue="q"))
    statement, cards = session.statement(), session.capacity.cards
    pods = np.flatnonzero(session.tasks.state == TaskState.PENDING).tolist()
    statement.pipeline(pods[0], 0)
    statement.allocate(pods[1], 0)
    statement.pipeline(pods[2], 0)
    assert cards.promised == {pods[0]: PromisedCards((), (0,)), pods[2]: PromisedCards((0,))}
    statement.pipeline_all()
    assert cards.promised == {
        pods[0]: PromisedCards((), (0,)),
        pods[1]: PromisedCards((), (1,)),
        pods[2]: PromisedCards((), (1,)),
    }


def test_a_card_of_a_reservation_pod_that_a_whole_pod_was_promised_takes_no_share():
    """Without shares its reservation pod goes, and the whole pod gets the GPU."""
    made = cluster(2).job("reserves", queue="q", gpu=0, running={"n0": 1}, constraints=RESERVES)
    made.job("goes", queue="q", gpu=1, leaving={"n0": 1})
    one = made.job("whole", queue="q", gpu=1, priority=90).part("new", 500).run("allocate")
    assert (one.promised, one.placed) == ({"whole-0": "n0"}, {"new-0": "n0"})
    made = cluster(2).job("reserves", queue="q", gpu=0, running={"n0": 1}, constraints=RESERVES)
    made.job("goes", queue="q", gpu=1, leaving={"n0": 1}).job("two", queue="q", gpu=2, priority=90)
    both = made.part("new", 500).run("allocate")
    assert (both.promised, both.placed) == ({"two-0": "n0"}, {})
