"""Pod slots of cards: one that is opened takes a slot for its reservation pod too."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.cards import cards, opened_cards
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.report.node_reasons import TOGETHER_OR_SLOTS
from kaisched.framework.session.cards import pods_by_slots
from kaisched.testing import ClusterBuilder, draw
from kaisched.testing.builder import Group, Job, Task, add_job, policy_of


def cluster(slots, *, gpu=2, other=0):
    """Return a node n0 with so many slots besides that of a whole pod, and maybe a node n1."""
    made = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=gpu + 1, pods=slots + 1)
    if other:
        made.node("n1", gpu=other)
    return made.job("whole", queue="q", gpu=1, running={"n0": 1})


def share(made, name="new", gpu=0.5, **job):
    return made.job(name, **({"queue": "q", "gpu": gpu} | job))


def reasons(ran, job="new"):
    (record,) = [it for it in ran.result.records if it.pod_group == f"default/{job}"]
    return record.reason, [(miss.reason, miss.detail) for miss in record.node_misses]


SHORT = "pods short by at least {}: a card that is opened needs one for its reservation pod"


def test_a_share_goes_to_a_node_with_a_slot_for_the_reservation_pod_too():
    assert share(cluster(2, other=2)).run().placed == {"new-0": "n0"}
    assert share(cluster(1, other=2)).run().placed == {"new-0": "n1"}


def test_a_share_that_would_open_a_card_waits_for_a_second_slot_and_hears_so():
    ran = share(cluster(1)).run()
    assert not ran.placed
    assert reasons(ran) == ("NoRoom", [("PodSlots", SHORT.format(1))])
    assert share(cluster(2)).run().placed == {"new-0": "n0"}


def test_a_share_that_lacks_cpu_too_hears_of_that_first():
    ran = share(cluster(1), cpu=1000).run()
    assert reasons(ran) == ("NoRoom", [("Resources", "cpu short by at least 1")])


def test_one_slot_is_enough_on_an_open_card():
    made = share(cluster(2), "old", running={"n0": 1})
    assert share(made).run().placed == {"new-0": "n0"}
    made = share(cluster(2), "old", running={"n0": 1})
    ran = share(made, "large", gpu=0.7).run()
    assert reasons(ran, "large") == ("NoRoom", [("PodSlots", SHORT.format(1))])


def test_a_whole_pod_needs_one_slot():
    assert share(cluster(1), gpu=1).run().placed == {"new-0": "n0"}


@pytest.mark.parametrize(("slots", "short"), [(1, 2), (2, 1), (3, 0)])
def test_a_pod_with_shares_of_several_cards_needs_a_slot_for_each(slots, short):
    ran = share(cluster(slots), cards=2).run()
    assert bool(ran.placed) == (not short)
    if short:
        assert reasons(ran) == ("NoRoom", [("PodSlots", SHORT.format(short))])


def test_a_pod_with_shares_of_several_cards_needs_none_for_an_open_one():
    made = share(cluster(3), "old", running={"n0": 1})
    assert share(made, cards=2).run().placed == {"new-0": "n0"}


@pytest.mark.parametrize("order", [("new", "other"), ("other", "new")])
def test_a_reservation_pod_that_is_to_come_has_its_slot_in_the_cycle(order):
    made, parts = cluster(2), {"new": 0.5, "other": 0}
    for name in order:
        share(made, name, gpu=parts[name])
    assert made.run().placed == {f"{order[0]}-0": "n0"}


def test_equal_shares_open_cards_as_far_as_slots_reach():
    ran = share(cluster(4, gpu=4, other=4), gpu=0.6, tasks=5, min_tasks=1).run()
    assert sorted(ran.placed.values()) == ["n0"] * 2 + ["n1"] * 3
    ran = share(cluster(5, gpu=4, other=4), gpu=0.5, tasks=5, min_tasks=1).run()
    assert sorted(ran.placed.values()) == ["n0"] * 3 + ["n1"] * 2


def test_a_gang_that_lacks_slots_for_its_cards_waits_whole():
    ran = share(cluster(3), gpu=0.6, tasks=2).run()
    assert not ran.placed
    assert share(cluster(4), gpu=0.6, tasks=2).run().placed


def test_a_share_after_another_hears_of_the_slot_that_the_other_leaves():
    ran = share(share(cluster(3), "first", gpu=0.6, priority=60), gpu=0.7).run()
    assert ran.placed == {"first-0": "n0"}
    assert reasons(ran) == ("NoRoom", [("PodSlots", SHORT.format(1))])


def test_pods_of_a_gang_that_differ_hear_that_slots_may_be_what_they_lack():
    store = cluster(1, other=1).store()
    parts = [Constraints(devices=DeviceDemand(it)) for it in (600_000, 700_000)]
    pods = [Task(f"g-{at}", {"cpu": 100}, it) for at, it in enumerate(parts)]
    add_job(store, Job("g", "q", pods, root=Group("default", 2)))
    result, _ = run_cycle(store.snapshot(), None, policy_of(), 1000.0, Memory())
    (record,) = result.records
    assert (record.reason, len(result.binds)) == ("GangNoRoom", 0)
    told = ["gpu short by at least 0.3", TOGETHER_OR_SLOTS]
    assert [miss.detail for miss in record.node_misses] == told


def test_a_promise_of_a_new_card_takes_two_slots_of_what_is_released():
    for slots, promised in ((2, {"new-0": "n0"}), (1, {})):
        made = cluster(slots, gpu=1).job("goes", queue="q", gpu=1, leaving={"n0": 1})
        assert share(made).run("allocate").promised == promised
    made = cluster(2, gpu=2).job("goes", queue="q", gpu=1, leaving={"n0": 1})
    made.job("cpu", queue="q", gpu=0, running={"n0": 1})
    ran = share(share(made, "first", gpu=0.6), "second", gpu=0.6).run("allocate")
    assert (ran.placed, ran.promised) == ({}, {})


def test_a_drawing_with_few_pod_slots_knows_them():
    lines = "queue a deserved=2", "node n0 pods={} | . .", "job a1 gpu=0.6", "job a2 gpu=0.6"
    for slots, cells in ((1, ". ."), (3, "+a1 ."), (4, "+a1 +a2")):
        after = draw("\n".join(lines).format(slots)).after("allocate")
        (drawn,) = after.ran and after.drawing.nodes
        assert " ".join(map(str, drawn.cells)) == cells


def reserved(slots, *, parts=1):
    """Return a node with shares on cards of their own, their reservation pods and free slots."""
    made = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=parts, pods=2 * parts + slots)
    holds = Constraints(devices=DeviceDemand(is_reservation=True))
    for number in range(parts):
        at = {"running": {"n0": 1}, "on_cards": [[f"g{number}"]]}
        share(made, f"old{number}", **at)
        made.job(f"r{number}", queue="q", gpu=0, cpu=0, constraints=holds, priority=200, **at)
    return made


@pytest.mark.parametrize("parts", [1, 2])
def test_a_share_preempts_another_of_a_whole_card_whose_reservation_pod_leaves_too(parts):
    made = reserved(0, parts=parts)
    ran = share(made, gpu=0.6, priority=90, tasks=parts).run("preempt")
    assert ran.promised == {f"new-{at}": "n0" for at in range(parts)}
    assert sorted(ran.evicted) == [f"old{at}-0" for at in range(parts)]


def test_the_slot_of_a_reservation_pod_is_free_once_everything_leaves_its_card():
    made = reserved(0).job("cpu", queue="q", gpu=0, tasks=2, priority=90)
    ran = share(made, gpu=0.6, priority=95).run("preempt")
    assert (ran.promised, list(ran.evicted)) == ({"new-0": "n0"}, ["old0-0"])


def test_spread_shares_open_cards_as_long_as_there_are_two_slots():
    made = share(cluster(4, gpu=4), gpu=0.2, tasks=5, min_tasks=1)
    ran = made.run(shard=SPREAD)
    assert sorted(ran.result.bind_cards.values()) == [(0,), (1,)]
    ran = share(cluster(5, gpu=4), gpu=0.2, tasks=5, min_tasks=1).run(shard=SPREAD)
    assert len(set(ran.result.bind_cards.values())) == 2
    assert len(ran.placed) == 3


SPREAD = {"plugins": {"gpu-spread": {"enabled": True}}}


def promised_gang(made, *devices_and_gpus):
    """Return the cards that pods of one gang are promised, and what is wrong with the promises."""
    store, policy = made.store(), policy_of(SPREAD, (), ("allocate",))
    pods = [
        Task(f"g-{at}", {"cpu": 100, "gpu": gpu}, Constraints(devices=device))
        for at, (device, gpu) in enumerate(devices_and_gpus)
    ]
    add_job(store, Job("g", "q", pods, root=Group("default", len(pods))))
    snapshot = store.snapshot()
    result, _ = run_cycle(snapshot, None, policy, 1000.0, Memory())
    assert len(result.nominate_tasks) == len(pods)
    told = [tuple(result.nominate_cards.get(it, ())) for it in result.nominate_tasks.tolist()]
    return told, violations(snapshot, result, policy)


def test_a_share_that_waits_for_its_gang_keeps_the_open_card_beside_a_whole_pod():
    """Spread, it would be promised the GPU that leaves, which the whole pod needs."""
    made = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=2)
    share(made, "old", running={"n0": 1}).job("goes", queue="q", gpu=1, leaving={"n0": 1})
    half = DeviceDemand(500_000)
    assert promised_gang(made, (half, 0), (None, 1000)) == ([((0,), ()), ()], [])


def test_a_share_that_waits_for_its_gang_keeps_the_open_card_that_needs_no_slot():
    """One slot is idle, so the first pod gets an open card; another is released for the second."""
    made = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=2, pods=3)
    share(made, "old", running={"n0": 1}).job("goes", queue="q", gpu=0, leaving={"n0": 1})
    parts = DeviceDemand(200_000), DeviceDemand(250_000)
    assert promised_gang(made, *((part, 0) for part in parts)) == ([((0,), ()), ((0,), ())], [])


def test_pods_that_wait_for_their_gang_share_the_card_that_one_of_them_opened():
    made = ClusterBuilder().queue("q", deserved=8).node("n0", gpu=2, pods=3)
    made.job("goes", queue="q", gpu=1, leaving={"n0": 1})
    parts = DeviceDemand(500_000), DeviceDemand(400_000)
    told = promised_gang(made, *((part, 0) for part in parts))
    assert told == ([((), (0,)), ((), (0,))], [])


def test_cards_that_are_opened_without_a_slot_are_told():
    ran = share(cluster(2), tasks=1).run()
    assert list(cards(ran.snapshot, ran.result)) == []
    nodes = ran.snapshot.nodes
    nodes.idle.setflags(write=True)
    nodes.idle[ran.snapshot.axis.position["pods"], 0] -= 1
    assert list(cards(ran.snapshot, ran.result)) == [
        "I25 node n0: 1 pods and 1 opened cards are bound, with 1 pod slots"
    ]


def test_a_pod_that_is_bound_to_the_slot_of_a_reservation_pod_to_come_is_told():
    made = share(share(cluster(2), "old", running={"n0": 1}), "cpu", gpu=0)
    ran = made.run()
    assert ran.placed == {"cpu-0": "n0"}
    assert violations(ran.snapshot, ran.result, policy_of()) == []
    awaited = ran.snapshot.nodes.cards.awaited
    awaited.setflags(write=True)
    awaited[0] = 1
    told = ["I3 node n0: more pods is bound than there is"]
    assert violations(ran.snapshot, ran.result, policy_of()) == told


def test_a_card_on_which_a_pod_is_bound_keeps_its_reservation_pod_whoever_leaves():
    ran = share(reserved(1), gpu=0.3).run()
    assert ran.result.bind_cards == {2: (0,)}
    old = np.array([ran.snapshot.tasks.name.index("default/old0-0")])
    assert [it.tolist() for it in opened_cards(ran.snapshot, ran.result)] == [[0], [0]]
    result = replace(ran.result, evict_tasks=old)
    assert [it.tolist() for it in opened_cards(ran.snapshot, result)] == [[0], [0]]
    nothing = replace(result, bind_tasks=old[:0], bind_nodes=old[:0], bind_cards={})
    assert [it.tolist() for it in opened_cards(ran.snapshot, nothing)] == [[0], [-1]]


def one_by_one(on_open, whole, per_card, slots, *, is_spread):
    """Count pods by placing them one by one."""
    pods = 0
    while True:
        can_open = whole > 0 and slots > 1 and per_card > 0
        if can_open and (is_spread or not on_open):
            whole, slots, on_open = whole - 1, slots - 2, on_open + per_card - 1
        elif on_open and slots > 0:
            slots, on_open = slots - 1, on_open - 1
        else:
            return pods
        pods += 1


@pytest.mark.parametrize("is_spread", [False, True])
def test_counting_finds_as_many_pods_as_placing_them_one_by_one(is_spread):
    grid = np.array(np.meshgrid(range(5), range(4), range(4), range(-1, 12))).reshape(4, -1)
    counted = pods_by_slots(*grid, is_spread=is_spread).tolist()
    placed = [one_by_one(*it, is_spread=is_spread) for it in grid.T.tolist()]
    assert counted == placed
