"""A queue gets its own quota back wherever the work stands that borrowed it."""

from kaisched.core.tables import Flavor, FlavorQuota, Sharing
from kaisched.testing import ClusterBuilder, draw
from kaisched.testing.builder import NOW_S

GPU, HOUR_S = 1000, 3600.0
SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}


def flavors(**quotas):
    """Return the sharing of a queue with so many GPUs of each flavor, in this order."""
    return Sharing(
        flavors=tuple(
            Flavor(name, (FlavorQuota("gpu", gpus * GPU),), (("type", name),))
            for name, gpus in quotas.items()
        )
    )


def two_flavors():
    """Return four GPUs of the first flavor on n0, eight of the second on n1, under one queue."""
    made = ClusterBuilder().node("n0", gpu=4, labels={"type": "fa"})
    return made.node("n1", gpu=8, labels={"type": "fb"}).queue("top", deserved=None)


def test_of_borrowers_on_all_nodes_those_on_one_node_go():
    """The least important two are on different nodes; either node alone has room for the pod."""
    ran = (
        draw("""
        queue top
        queue guest parent=top deserved=2
        queue owner parent=top deserved=2
        node  n0 | guest1 guest3
        node  n1 | guest2 guest4
        job   owner1 gpu=2
    """)
        .builder()
        .run(shard=SHARD)
    )
    assert set(ran.evicted) in ({"guest1-0", "guest3-0"}, {"guest2-0", "guest4-0"})
    assert list(ran.promised) == ["owner1-0"]


def test_the_borrower_on_the_node_that_is_selected_goes_though_another_comes_first():
    made = ClusterBuilder().node("n0", gpu=2).node("n1", gpu=2).queue("top")
    made.queue("owner", parent="top", deserved=2).queue("guest", parent="top", deserved=2)
    made.job("there", queue="guest", gpu=2, running={"n1": 1}, started_s=0.0)
    made.job("elsewhere", queue="guest", gpu=2, running={"n0": 1}, started_s=300.0)
    ran = made.job("own", queue="owner", gpu=2, on=["n1"]).run(shard=SHARD)
    assert (list(ran.evicted), ran.promised) == (["there-0"], {"own-0": "n1"})


def test_pods_within_their_minimum_runtime_do_not_count_as_taken():
    """The two that started just now would go first. With them guest would borrow nothing more."""
    made = ClusterBuilder().node("n0", gpu=4).queue("top")
    made.queue("owner", parent="top", deserved=2).queue("guest", parent="top", deserved=2)
    made.job("new", queue="guest", tasks=2, min_tasks=1, running={"n0": 2}, started_s=NOW_S - 300.0)
    made.job("old", queue="guest", gpu=2, running={"n0": 1}, started_s=NOW_S - 2 * HOUR_S)
    made.job("own", queue="owner", gpu=2)
    ran = made.run(shard={**SHARD, "minRuntime": {"reclaimMinRuntime": "1h"}})
    assert (list(ran.evicted), ran.promised) == (["old-0"], {"own-0": "n0"})


def test_the_small_stay_where_the_large_one_alone_makes_room():
    """By size the two small go first and then big, which leaves guest 1; big alone leaves it 3.

    The owner has room as soon as guest has lost big, so neither of the small need go.
    """
    ran = (
        draw("""
        queue top
        queue guest parent=top deserved=4
        queue owner parent=top deserved=3
        node  n0 | small1 small2 big big big big keep
        job   small1 queue=guest
        job   small2 queue=guest
        job   big    queue=guest gpu=4
        job   keep   queue=guest priority=60
        job   own    queue=owner gpu=3
    """)
        .builder()
        .run(shard=SHARD)
    )
    assert (list(ran.evicted), ran.promised) == (["big-0"], {"own-0": "n0"})


def test_what_a_queue_borrows_of_another_flavor_does_not_cost_it_its_own():
    """Owner borrows 6 of fb, a larger share than that of guest, which holds 2 of owner's 3 fa."""
    made = two_flavors()
    made.queue("owner", parent="top", deserved=None, sharing=flavors(fa=3, fb=0))
    made.queue("guest", parent="top", deserved=None, sharing=flavors(fa=0, fb=0))
    made.queue("lender", parent="top", deserved=None, sharing=flavors(fa=1, fb=8))
    made.job("big", queue="owner", gpu=6, running={"n1": 1})
    made.job("guest", queue="guest", gpu=2, running={"n0": 1})
    ran = made.job("own", queue="owner", gpu=3).run(shard=SHARD)
    assert (list(ran.evicted), ran.promised) == (["guest-0"], {"own-0": "n0"})


def test_nobody_goes_where_the_next_flavor_has_room():
    """Of fa nothing is left. Of fb the asker's 3 are idle beside what is borrowed."""
    made = ClusterBuilder().node("n0", gpu=4, labels={"type": "fa"})
    made.node("n1", gpu=5, labels={"type": "fb"}).queue("top", deserved=None)
    asker = flavors(fa=0, fb=3).flavors
    patient = Sharing(flavors=asker, when_can_preempt="MayStopSearch")
    made.queue("asker", parent="top", deserved=None, sharing=patient)
    made.queue("holder", parent="top", deserved=None, sharing=flavors(fa=3, fb=2))
    made.queue("guest", parent="top", deserved=None, sharing=flavors(fa=0, fb=0))
    made.job("held", queue="holder", gpu=4, running={"n0": 1})
    made.job("borrowed", queue="guest", gpu=2, running={"n1": 1})
    made.job("own", queue="asker", gpu=3)
    first = made.run(shard=SHARD)
    assert not first.evicted
    second = made.run(shard=SHARD, memory=first.memory)
    assert not second.evicted
    assert {**first.placed, **second.placed} == {"own-0": "n1"}
