"""Binds wait where there is no room beside what leaves: by amounts, lent in part, and by flavor."""

import pytest

from kaisched.core.tables import Flavor, FlavorQuota, Sharing
from kaisched.testing import ClusterBuilder, draw

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}


def run(text):
    return str(draw(text).after("allocate", "reclaim", shard=SHARD))


@pytest.mark.parametrize("lends", ["", "lending=2"])
def test_quota_of_others_is_had_once_who_borrowed_it_has_left(lends):
    """Nodes have room all along; by amounts, and where a queue lends a part only."""
    text = f"""
        queue top
        queue a     parent=top deserved=2
        queue b     parent=top deserved=4 {lends}
        node  n0    | a1 a2 {{0}} {{1}}
        node  n1    | . . . .
        job   b1    gpu=4
        """
    assert ">b1 >b1 >b1 >b1" in run(text.format("a3>", "a4>"))
    assert "+b1 +b1 +b1 +b1" in run(text.format(".", "."))


def test_what_leaves_holds_up_nobody_who_has_room_beside_it():
    assert "+b1 +b1 +b1" in run(
        """
        queue top
        queue a     parent=top deserved=2
        queue b     parent=top deserved=4 lending=2
        node  n0    | a1 a2 a3> .
        node  n1    | . . . .
        job   b1    gpu=3
        """
    )


def flavor(name):
    return Flavor(name, (FlavorQuota("gpu", 2000),), (("type", name),))


@pytest.mark.parametrize(("leaving", "is_bound"), [("old", False), ("new", True), ("", True)])
def test_quota_of_a_flavor_is_had_once_who_borrowed_it_has_left(leaving, is_bound):
    """Its nodes have room all along; what leaves another flavor is in nobody's way."""
    built = ClusterBuilder().queue("top", deserved=None)
    built.node("old", gpu=8, labels={"type": "old"}).node("new", gpu=4, labels={"type": "new"})
    for queue, flavors in (("a", (flavor("old"), flavor("new"))), ("b", (flavor("old"),))):
        built.queue(queue, parent="top", deserved=4, sharing=Sharing(flavors=flavors))
    if leaving:
        built.job("gone", queue="a", leaving={leaving: 2}, tasks=2)
    built.job("x", queue="a", running={"old": 2}, tasks=2)
    ran = built.job("y", queue="b", tasks=2).run(shard=SHARD)
    assert (ran.placed if is_bound else ran.promised) == {"y-0": "old", "y-1": "old"}
    assert not (ran.promised if is_bound else ran.placed)
