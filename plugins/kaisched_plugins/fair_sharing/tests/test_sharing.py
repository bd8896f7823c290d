"""What queues lend each other: who is served, who gives back, and what is left."""

from collections import Counter

import pytest

from kaisched.core.tables import Sharing
from kaisched.testing import ClusterBuilder, check_plugin, draw
from kaisched_plugins.fair_sharing import FairSharing

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}


def after(text):
    """Return the GPUs that queues hold, or were promised, after one cycle."""
    cells = [cell for node in draw(text).after(shard=SHARD).drawing.nodes for cell in node.cells]
    names = [cell.promised or ("" if cell.is_leaving else cell.holder) for cell in cells]
    return dict(Counter(name.rstrip("0123456789") for name in names if name))


def test_it_keeps_the_contract_of_plugins():
    check_plugin(FairSharing)


def test_who_comes_late_gets_as_much_extra_room():
    assert after(
        """
        queue top   deserved=4
        queue a     parent=top deserved=3
        queue b     parent=top deserved=1
        node  n0    | a1 a2 a3 a4 a5 a6 a7 a8
        job   b1    tasks=1
        job   b2    tasks=1
        job   b3    tasks=1
        job   b4    tasks=1
        """
    ) == {"a": 5, "b": 3}


def test_nothing_is_lent_beyond_a_common_queue():
    assert after(
        """
        queue a     deserved=3
        queue b     deserved=3
        node  n0    | . . . . . .
        job   a1    tasks=6 min=1
        """
    ) == {"a": 3}


@pytest.mark.parametrize(("limits", "most"), [("borrowing=2", 5), ("borrowing=0", 3), ("", 8)])
def test_a_borrowing_limit_is_kept(limits, most):
    text = f"""
        queue top   deserved=2
        queue a     parent=top deserved=3 {limits}
        queue b     parent=top deserved=3
        node  n0    | . . . . . . . .
        job   a1    tasks=8 min=1
        """
    assert after(text) == {"a": most}


@pytest.mark.parametrize(("limits", "most"), [("lending=1", 6), ("lending=0", 5), ("", 8)])
def test_a_lending_limit_is_kept(limits, most):
    text = f"""
        queue top   deserved=2
        queue a     parent=top deserved=3
        queue b     parent=top deserved=3 {limits}
        node  n0    | . . . . . . . .
        job   a1    tasks=8 min=1
        """
    assert after(text) == {"a": most}


def test_what_is_not_lent_can_always_be_had():
    text = """
        queue top   deserved=2
        queue a     parent=top deserved=3
        queue b     parent=top deserved=3 lending=1
        node  n0    | a1 a2 a3 a4 a5 a6 . .
        job   b1    tasks=2
        """
    assert after(text) == {"a": 6, "b": 2}


def test_the_least_important_goes_and_of_equals_the_smallest():
    text = """
        queue top   deserved=4
        queue a     parent=top
        queue b     parent=top
        node  n0    | a1 a1 a2 a3
        job   a1    tasks=2 priority=10
        job   a2    tasks=1 priority=10
        job   a3    tasks=1 priority=20
        job   b1    tasks=1
        """
    assert draw(text).after(shard=SHARD).drawing.nodes[0].cells[2].is_leaving


HIGH = """
    queue top   deserved=4
    queue a     parent=top
    queue b     parent=top
    node  n0    | a1 a2 b1 b2
    job   a1    tasks=1 priority=60
    job   a2    tasks=1 priority=10
    job   b1    tasks=1 priority=20
    job   b2    tasks=1 priority=90
    job   b3    tasks=2 priority=80
"""


@pytest.mark.parametrize(("high", "gone"), [(80, ["a2", "b1"]), (None, [])])
def test_a_high_priority_takes_the_least_important_work_whatever_the_shares_are(high, gone):
    arguments = {} if high is None else {"arguments": {"highPriorityFrom": high}}
    text = HIGH if high else HIGH.replace("priority=20", "priority=80")
    shard = {"plugins": {**SHARD["plugins"], "fair-sharing": {"enabled": True, **arguments}}}
    evictions = draw(text).builder().run(shard=shard).result.evictions
    assert sorted(it.pod_group.removeprefix("default/") for it in evictions) == gone
    assert all((it.beneficiary_queue, it.kind) == ("b", "priority") for it in evictions)


def test_an_eviction_says_whose_share_was_higher_and_a_refusal_what_is_full():
    text = """
        queue top   deserved=4
        queue a     parent=top deserved=1
        queue b     parent=top deserved=1
        node  n0    | a1 a2 a3 a4 a5 a6
        job   b1    tasks=1
        job   b2    tasks=5
    """
    ran = draw(text).builder().run(shard=SHARD)
    (sentence,) = {each.reason for each in ran.result.evictions}
    assert sentence == (
        "reclaimed for default/b1 (queue b: share 0)"
        " from queue a: share 0.8333 to 0.6667 (gpu: 4 of 6 borrowed)"
    )
    (record,) = [each for each in ran.result.records if each.pod_group == "default/b2"]
    assert record.reason == "QuotaExhausted"
    assert record.message.startswith("queue top: gpu 6 of 6 held, 5 asked; 0 left for queue b")


def test_shares_are_told_as_figures():
    text = """
        queue top   deserved=2
        queue a     parent=top deserved=1 weight=2
        queue b     parent=top deserved=1 weight=0
        node  n0    | a1 a2 a3 b1
    """
    ran = draw(text).builder().run(shard=SHARD)
    told = {each.name: each.figures for each in ran.result.shares}
    assert told["a"] == {"share": 0.25, "borrowed_part": 0.5, "weight": 2.0}
    assert told["top"] == {"share": 0.0, "borrowed_part": 0.0, "weight": 1.0}
    assert told["b"]["share"] == 0.0


def test_the_quota_of_an_inner_queue_is_told_with_what_is_lent_below_it():
    """So CPU that a cohort says nothing of is not told to be unlimited."""
    made = ClusterBuilder().node("n0", gpu=8).queue("top", deserved={"gpu": 1})
    made.queue("a", parent="top", deserved={"gpu": 2, "cpu": 4})
    made.queue("b", parent="top", deserved={"gpu": 3, "cpu": 8}, lending={"gpu": 1, "cpu": 6})
    made.job("x", queue="a")
    told = {each.name: each.deserved for each in made.run(shard=SHARD).result.shares}
    assert {name: (it["gpu"], it["cpu"], it["memory"]) for name, it in told.items()} == {
        "top": (4 * 1000, 10 * 1000, -1),
        "a": (2 * 1000, 4 * 1000, -1),
        "b": (3 * 1000, 8 * 1000, -1),
    }


@pytest.mark.parametrize(("is_on", "held"), [(True, {"a": 4, "b": 4}), (False, {"a": 6, "b": 2})])
def test_a_tree_may_take_back_by_quota_alone(is_on, held):
    made = ClusterBuilder().node("n0", gpu=8)
    made.queue("top", deserved=4, sharing=Sharing(is_on=is_on))
    made.queue("a", parent="top", deserved=2).queue("b", parent="top", deserved=2)
    for at in range(8):
        made.job(f"a{at}", queue="a", running={"n0": 1}).job(f"b{at}", queue="b")
    ran = made.run(shard=SHARD)
    assert len(ran.evicted) == 8 - held["a"]
    assert len(ran.promised) == held["b"]


def test_who_has_used_more_lately_counts_for_less():
    made = ClusterBuilder().node("n0", gpu=8).queue("top", deserved=8)
    made.queue("a", parent="top").queue("b", parent="top")
    for at in range(8):
        made.job(f"a{at}", queue="a").job(f"b{at}", queue="b")
    shard = {"plugins": {**SHARD["plugins"], "time-based-fairshare": {"enabled": True}}}
    held = [
        Counter(name[0] for name in made.run(shard=plugins, usage={"a": 0.6, "b": 0.2}).placed)
        for plugins in (SHARD, shard)
    ]
    assert held[0] == {"a": 4, "b": 4}
    assert held[1]["b"] > held[1]["a"] > 0
    alone = made.run(shard=shard, usage={"a": 0.3, "b": 0.3})
    assert Counter(name[0] for name in alone.placed) == held[0]
