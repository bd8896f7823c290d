"""Consolidation of shares: which of them move, on their node or off it, so that a card is whole."""

from typing import Any

from kaisched.testing import draw


def moves(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """Run a cycle on a drawing; return who is evicted from where, and who is promised what."""
    ran: Any = draw(text).after("allocate", "consolidate").ran
    return ran.evicted, ran.promised


def test_a_share_moves_to_another_card_of_its_node():
    """Two halves on two cards: one moves beside the other."""
    evicted, promised = moves("""
        queue q  deserved=4
        node n0 | a1 b1
        job a1 queue=q gpu=0.5
        job b1 queue=q gpu=0.5
        job w queue=q gpu=1
    """)
    assert len(evicted) == 1
    assert promised == {"w-0": "n0"} | evicted


def test_the_card_with_the_fewest_pods_is_emptied():
    evicted, promised = moves("""
        queue q  deserved=4
        node n0 | a1/b1 c1
        job a1 queue=q gpu=0.2
        job b1 queue=q gpu=0.2
        job c1 queue=q gpu=0.5
        job w queue=q gpu=1
    """)
    assert evicted == {"c1-0": "n0"}
    assert promised == {"w-0": "n0", "c1-0": "n0"}


def test_two_cards_are_emptied_for_a_pod_of_two_gpus():
    evicted, promised = moves("""
        queue q  deserved=8
        node n0 | a1 b1 c1
        job a1 queue=q gpu=0.3
        job b1 queue=q gpu=0.3
        job c1 queue=q gpu=0.3
        job w queue=q gpu=2
    """)
    assert len(evicted) == 2
    assert promised == {"w-0": "n0"} | evicted


def test_a_share_moves_so_that_another_share_fits():
    """0.7 fits on neither card: 0.4 joins the other 0.4."""
    evicted, promised = moves("""
        queue q  deserved=4
        node n0 | a1 b1
        job a1 queue=q gpu=0.4
        job b1 queue=q gpu=0.4
        job w queue=q gpu=0.7
    """)
    assert len(evicted) == 1
    assert promised == {"w-0": "n0"} | evicted


def test_nothing_moves_where_it_would_not_help():
    """0.6 and 0.6 cannot share a card."""
    assert moves("""
        queue q  deserved=4
        node n0 | a1 b1
        job a1 queue=q gpu=0.6
        job b1 queue=q gpu=0.6
        job w queue=q gpu=1
    """) == ({}, {})


def test_a_share_that_must_not_move_holds_its_card():
    evicted, promised = moves("""
        queue q  deserved=4
        node n0 | a1 b1
        job a1 queue=q gpu=0.2 preemptible=no
        job b1 queue=q gpu=0.5
        job w queue=q gpu=1
    """)
    assert evicted == {"b1-0": "n0"}
    assert promised == {"w-0": "n0", "b1-0": "n0"}


def test_two_cards_of_one_node_are_emptied_for_two_pods_of_a_gang():
    evicted, promised = moves("""
        queue q  deserved=8
        node n0 | b1 b2 b3 b4
        job b1 queue=q gpu=0.5
        job b2 queue=q gpu=0.5
        job b3 queue=q gpu=0.5
        job b4 queue=q gpu=0.5
        job w queue=q gpu=1 tasks=2
    """)
    assert len(evicted) == 2
    assert promised == {"w-0": "n0", "w-1": "n0"} | evicted


def test_a_gang_gets_two_cards_of_one_node_besides_one_of_another():
    """The nodes n0 and n1 have a card each that can be emptied, and n0 another one."""
    evicted, promised = moves("""
        queue q  deserved=16
        node n0 | b1 b2 b3 b4
        node n1 | c1 c2
        job b1 queue=q gpu=0.5
        job b2 queue=q gpu=0.5
        job b3 queue=q gpu=0.5
        job b4 queue=q gpu=0.5
        job c1 queue=q gpu=0.5
        job c2 queue=q gpu=0.5
        job w queue=q gpu=1 tasks=3
    """)
    assert len(evicted) == 3
    assert promised.keys() == {"w-0", "w-1", "w-2"} | evicted.keys()


def test_a_dearer_choice_of_the_same_node_is_taken_where_the_cheapest_finds_no_place():
    """0.6 fits nowhere else; the two shares of 0.3 beside it do."""
    evicted, promised = moves("""
        queue q  deserved=9
        node n0 | b1 c1/c2
        node n1 | d1 d2
        job b1 queue=q gpu=0.6
        job c1 queue=q gpu=0.3
        job c2 queue=q gpu=0.3
        job d1 queue=q gpu=0.7
        job d2 queue=q gpu=0.7
        job w queue=q gpu=1
    """)
    assert evicted == {"c1-0": "n0", "c2-0": "n0"}
    assert promised["w-0"] == "n0"
    assert promised.keys() == {"w-0", "c1-0", "c2-0"}
