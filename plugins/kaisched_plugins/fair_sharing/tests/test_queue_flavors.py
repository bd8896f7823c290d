"""Quotas by flavor, in small clusters: which nodes work gets, who gives way, and what is said."""

import pytest

from kaisched.core.constraints import Constraints, Requirement
from kaisched.core.tables import Flavor, FlavorQuota, Sharing
from kaisched.testing import ClusterBuilder

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
GPU = 1000


def flavor(name, gpus, *, labels=True, **limits):
    """Return a flavor of nodes of this type, with a quota of so many GPUs."""
    bounds = {key: amount * GPU for key, amount in limits.items()}
    quota = FlavorQuota("gpu", gpus * GPU, **bounds)
    return Flavor(name, (quota,), (("type", name),) if labels else ())


def of(*flavors, **said):
    return Sharing(flavors=flavors, **said)


def cluster(*, olds=4, news=4):
    """Return a cluster with a node of old GPUs and a node of new ones."""
    return (
        ClusterBuilder()
        .node("old", gpu=olds, labels={"type": "old"})
        .node("new", gpu=news, labels={"type": "new"})
    )


def two_teams(built, first=None, second=None):
    """Add two teams with 2 GPUs of each flavor."""
    both = of(flavor("old", 2), flavor("new", 2))
    return (
        built.queue("top", deserved=None)
        .queue("a", parent="top", deserved=4, sharing=first or both)
        .queue("b", parent="top", deserved=4, sharing=second or both)
    )


def why(ran, job):
    (record,) = [each for each in ran.result.records if each.pod_group.endswith(f"/{job}")]
    return record.message


def test_work_gets_the_first_flavor_of_its_queue_that_fits():
    built = two_teams(cluster(), second=of(flavor("new", 2), flavor("old", 2)))
    ran = built.job("x", queue="a").job("y", queue="b").run(shard=SHARD)
    assert ran.placed == {"x-0": "old", "y-0": "new"}


@pytest.mark.parametrize(("rule", "node"), [("MayStopSearch", "old"), ("TryNextFlavor", "new")])
def test_whether_work_borrows_a_flavor_or_takes_the_next_is_its_queue_s_choice(rule, node):
    choice = of(flavor("old", 2), flavor("new", 2), when_can_borrow=rule)
    ran = (
        two_teams(cluster(), first=choice)
        .job("x", queue="a", running={"old": 2}, tasks=2)
        .job("y", queue="a")
        .run(shard=SHARD)
    )
    assert ran.placed == {"y-0": node}


def test_full_nodes_of_the_first_flavor_are_passed_over():
    ran = two_teams(cluster(olds=1)).job("x", queue="a", tasks=2).run(shard=SHARD)
    assert ran.placed == {"x-0": "new", "x-1": "new"}


def test_a_job_is_in_one_flavor_as_a_whole():
    ran = two_teams(cluster(olds=2, news=2)).job("x", queue="a", tasks=3).run(shard=SHARD)
    assert not ran.placed
    assert why(ran, "x") == ("flavor old: 2 of 3 pods fit now; flavor new: 2 of 3 pods fit now")


def test_no_more_is_held_of_a_flavor_than_its_quotas_allow():
    closed = of(flavor("old", 1, borrowing_limit=0), flavor("new", 2, borrowing_limit=0))
    ran = (
        two_teams(cluster(), first=closed, second=closed)
        .job("x", queue="a", tasks=5, min_tasks=1)
        .run(shard=SHARD)
    )
    assert sorted(ran.placed.values()) == ["old"]
    ran = (
        two_teams(cluster(), first=closed, second=closed)
        .job("x1", queue="a")
        .job("x2", queue="a")
        .job("x3", queue="a")
        .job("x4", queue="a")
        .run(shard=SHARD)
    )
    assert sorted(ran.placed.values()) == ["new", "new", "old"]
    assert why(ran, "x4").startswith("queue a: gpu in flavor old 1 of 1 held, 1 asked")
    assert ran.reasons == {"x4": "QuotaExhausted"}


def test_pods_that_grow_a_job_stay_in_its_flavor():
    ran = (
        two_teams(cluster())
        .job("x", queue="a", tasks=2, min_tasks=1, running={"new": 1})
        .run(shard=SHARD)
    )
    assert ran.placed == {"x-1": "new"}


def test_flavors_that_pods_do_not_select_are_no_choice():
    only = Constraints(node_selector=(("type", "new"),))
    other = Constraints(node_selector=(("type", "ancient"),))
    ran = (
        two_teams(cluster())
        .job("x", queue="a", constraints=only)
        .job("y", queue="a", constraints=other)
        .run(shard=SHARD)
    )
    assert ran.placed == {"x-0": "new"}
    assert ran.reasons == {"y": "NoMatchingFlavor"}


@pytest.mark.parametrize("isCompatible", [False, True])
def test_a_flavor_whose_labels_no_node_has_is_what_is_told(isCompatible):  # noqa: N803
    arguments = {"enabled": True, "arguments": {"isCompatible": isCompatible}}
    shard = {"plugins": {**SHARD["plugins"], "fair-sharing": arguments}}
    nowhere = of(flavor("ancient", 2), flavor("future", 2))
    ran = two_teams(cluster(), first=nowhere).job("x", queue="a").run(shard=shard)
    assert ran.reasons == {"x": "NoNodeOfFlavor"}
    assert why(ran, "x") == (
        "flavor ancient: no node has type=ancient; flavor future: no node has type=future"
    )


def test_no_evictions_are_awaited_in_a_flavor_without_nodes():
    """Its quota is held by nobody and has room, so that it would be chosen again and again."""
    first = of(flavor("ancient", 4), flavor("old", 2), when_can_preempt="MayStopSearch")
    ran = two_teams(cluster(), first=first).job("x", queue="a").run(shard=SHARD)
    assert ran.placed == {"x-0": "old"}


def test_flavors_of_which_no_node_has_the_labels_of_both_are_told_so():
    cpu = Flavor("intel", (FlavorQuota("cpu", 8000),), (("cpu", "intel"),))
    built = cluster().node("cpus", gpu=0, labels={"cpu": "intel"})
    ran = two_teams(built, first=of(flavor("old", 2), cpu)).job("x", queue="a").run(shard=SHARD)
    assert ran.reasons == {"x": "NoNodeOfFlavor"}
    assert why(ran, "x") == "no node is of flavor old and of flavor intel"


def test_each_flavor_has_its_own_obstacle():
    """One is full, one too small, one without nodes, and one that the pods do not select."""
    limits = {"borrowing_limit": 0}
    first = of(
        flavor("old", 3, **limits),
        flavor("new", 1, **limits),
        flavor("ancient", 8),
        flavor("odd", 8),
    )
    nodes = cluster().node("odd", gpu=4, labels={"type": "odd"})
    some = Constraints(
        node_terms=(((Requirement("type", "NotIn", ("odd",)),), ()),),
    )
    built = two_teams(nodes, first=first).job("w", queue="a", running={"old": 3}, tasks=3)
    ran = built.job("x", queue="a", tasks=2, constraints=some).run(shard=SHARD)
    assert ran.reasons == {"x": "QuotaExhausted"}
    assert why(ran, "x").startswith(
        "queue a: gpu in flavor old 3 of 3 held, 2 asked; 0 left for queue a;"
        " queue a: gpu in flavor new 0 of 1 held, 2 asked; 1 left for queue a;"
        " flavor ancient: no node has type=ancient; flavor odd: its pods do not select its nodes"
    )


def test_what_is_larger_than_all_quotas_is_no_matter_of_labels():
    small = of(flavor("old", 1, borrowing_limit=0), flavor("new", 2, borrowing_limit=0))
    ran = two_teams(cluster(), first=small).job("x", queue="a", tasks=3).run(shard=SHARD)
    assert ran.reasons == {"x": "FlavorQuotaTooSmall"}
    assert why(ran, "x").startswith("queue a: gpu in flavor old 0 of 1 held, 3 asked")


def test_work_of_the_same_flavor_gives_way_and_no_other():
    ran = (
        two_teams(
            cluster(olds=2, news=2),
            first=of(flavor("old", 2), flavor("new", 0)),
            second=of(flavor("new", 2)),
        )
        .job("x1", queue="a", running={"old": 2}, tasks=2)
        .job("x2", queue="a", running={"new": 1})
        .job("x3", queue="a", running={"new": 1})
        .job("y", queue="b")
        .run(shard=SHARD)
    )
    assert set(ran.evicted.values()) == {"new"}
    assert len(ran.evicted) == 1
    assert ran.promised == {"y-0": "new"}


def test_quota_of_one_flavor_does_not_entitle_to_another():
    # b has quota of old nodes only; those are not full.
    ran = (
        two_teams(
            cluster(), first=of(flavor("new", 4)), second=of(flavor("old", 0), flavor("new", 0))
        )
        .job("x", queue="a", running={"new": 4}, tasks=4)
        .job("y", queue="b")
        .run(shard=SHARD)
    )
    assert not ran.evicted
    assert not ran.placed
    assert ran.reasons == {"y": "QuotaExhausted"}


@pytest.mark.parametrize(
    ("rule", "placed", "evicted"),
    [("TryNextFlavor", {"y-0": "new"}, {}), ("MayStopSearch", {}, {"x2-0": "old"})],
)
def test_whether_work_evicts_in_a_flavor_or_takes_the_next(rule, placed, evicted):
    choice = of(flavor("old", 2), flavor("new", 2), when_can_preempt=rule)
    ran = (
        two_teams(cluster(olds=4), first=of(flavor("old", 2)), second=choice)
        .job("x1", queue="a", running={"old": 2}, tasks=2)
        .job("x2", queue="a", running={"old": 1})
        .job("x3", queue="a", running={"old": 1}, priority=60)
        .job("y", queue="b")
        .run(shard=SHARD)
    )
    assert ran.placed == placed
    assert ran.evicted == evicted


def test_where_evictions_do_not_help_the_next_flavor_is_taken_after_all():
    # By quota the end of z would be enough, but no node of old GPUs would have two free.
    choice = of(flavor("old", 2), flavor("new", 2), when_can_preempt="MayStopSearch")
    nodes = cluster().node("older", gpu=1, labels={"type": "old"})
    built = (
        two_teams(nodes, first=of(flavor("old", 3)), second=choice)
        .job("x", queue="a", running={"old": 3}, tasks=3)
        .job("y", queue="b", gpu=2)
        .job("z", queue="b", running={"older": 1}, priority=40)
    )
    ran = built.run(shard=SHARD)
    assert (ran.placed, list(ran.evicted)) == ({"y-0": "new"}, [])


def test_work_that_may_not_be_evicted_is_no_reason_to_wait():
    choice = of(flavor("old", 1), flavor("new", 2), when_can_preempt="MayStopSearch")
    ran = (
        two_teams(cluster(), first=of(flavor("old", 3)), second=choice)
        .job("x", queue="a", running={"old": 3}, tasks=3)
        .job("y", queue="b")
        .job("z", queue="b", running={"old": 1}, priority=90)
        .run(shard=SHARD)
    )
    assert ran.placed == {"y-0": "new"}


def test_in_the_compatible_mode_a_job_has_one_flavor_for_the_whole_cycle():
    shard = {
        "plugins": {
            "proportion": {"enabled": False},
            "fair-sharing": {"enabled": True, "arguments": {"isCompatible": True}},
        }
    }
    built = two_teams(cluster(olds=1)).job("x", queue="a").job("y", queue="a")
    assert built.run(shard=SHARD).placed == {"x-0": "old", "y-0": "new"}
    assert built.run(shard=shard).placed == {"x-0": "old"}


def test_strict_work_borrows_no_flavor():
    ran = (
        two_teams(cluster(), first=of(flavor("old", 1), flavor("new", 0)))
        .job("x1", queue="a", is_preemptible=False)
        .job("x2", queue="a", is_preemptible=False)
        .run(shard=SHARD)
    )
    assert ran.placed == {"x1-0": "old"}
    assert ran.reasons == {"x2": "NonPreemptibleBorrows"}


def test_a_flavor_without_labels_has_the_nodes_that_no_other_has():
    rest = Flavor("rest", (FlavorQuota("gpu", 2 * GPU),))
    ran = (
        two_teams(cluster().node("plain", gpu=4), first=of(rest, flavor("old", 2)))
        .job("x", queue="a")
        .run(shard=SHARD)
    )
    assert ran.placed["x-0"] in {"plain", "new"}


def test_labels_are_those_that_a_queue_above_states():
    above = of(flavor("old", 0), flavor("new", 0))
    team = of(flavor("new", 2, labels=False))
    ran = (
        cluster()
        .queue("top", deserved=0, sharing=above)
        .queue("a", parent="top", deserved=2, sharing=team)
        .job("x", queue="a")
        .run(shard=SHARD)
    )
    assert ran.placed == {"x-0": "new"}


def test_a_promise_in_a_flavor_is_kept():
    ran = (
        two_teams(cluster())
        .job("z", queue="a", leaving={"old": 4}, tasks=4)
        .job("x", queue="a", promised={"old": 1})
        .run(shard=SHARD)
    )
    assert ran.promised == {"x-0": "old"}


def fair_share(ran, queue):
    (share,) = [each for each in ran.result.shares if each.name == queue]
    return share.fair_share["gpu"]


def many_flavors(*, of_a):
    """Return two teams, a node of each of 20 flavors, and what a has of each as its quota."""
    numbers = range(20)
    built = ClusterBuilder()
    for number in numbers:
        built.node(f"n{number}", gpu=1, labels={"type": f"f{number}"})
    own = [flavor(f"f{number}", int(of_a(number))) for number in numbers]
    rest = [flavor(f"f{number}", 1 - int(of_a(number))) for number in numbers]
    built.queue("top", deserved=None)
    built.queue("a", parent="top", deserved=None, sharing=of(*own))
    built.queue("b", parent="top", deserved=None, sharing=of(*rest))
    return built


def test_the_last_of_many_flavors_is_tried_when_the_nodes_of_all_others_are_full():
    built = many_flavors(of_a=lambda _: True).queue("other", deserved=20)
    for number in range(19):
        built.job(f"o{number}", queue="other", running={f"n{number}": 1})
    assert built.job("x", queue="a").run(shard=SHARD).placed == {"x-0": "n19"}


def test_work_that_may_not_borrow_takes_back_the_last_of_many_flavors():
    built = many_flavors(of_a=lambda number: number == 19)
    for number in range(20):
        built.job(f"b{number}", queue="b", running={f"n{number}": 1})
    ran = built.job("x", queue="a", is_preemptible=False).run(shard=SHARD)
    assert ran.evicted == {"b19-0": "n19"}


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [
        pytest.param([flavor("old", 2, borrowing_limit=0)], [flavor("new", 4)], 2, id="borrowing"),
        pytest.param(
            [flavor("old", 2), flavor("new", 0)],
            [flavor("old", 1, lending_limit=0)],
            2,
            id="lending",
        ),
        pytest.param([flavor("old", 2)], [flavor("old", 1), flavor("new", 4)], 3, id="not offered"),
    ],
)
def test_the_fair_share_counts_what_may_be_borrowed_of_the_flavors_of_the_queue(
    first, second, share
):
    built = two_teams(cluster(), first=of(*first), second=of(*second))
    ran = built.job("x", queue="a", tasks=8, min_tasks=1).run(shard=SHARD)
    assert fair_share(ran, "a") == share * GPU


def test_flavors_of_another_tree_leave_a_fair_share_as_it_is():
    built = two_teams(cluster()).queue("tree", deserved=None)
    built.queue("u", parent="tree", deserved=2, borrowing=1)
    built.queue("v", parent="tree", deserved=4)
    ran = built.job("x", queue="u", tasks=8, min_tasks=1).run(shard=SHARD)
    assert fair_share(ran, "u") == 3 * GPU


def test_what_a_queue_would_borrow_for_is_told_of_the_flavor_it_would_get():
    """Without fair sharing b takes nothing to borrow (F22); spot GPUs are no concern of it."""
    built = (
        ClusterBuilder()
        .node("spot", gpu=2, labels={"type": "spot"})
        .node("old", gpu=4, labels={"type": "old"})
        .queue("top", deserved=None, sharing=of(is_on=False))
        .queue("a", parent="top", deserved=4, sharing=of(flavor("spot", 2), flavor("old", 3)))
        .queue("b", parent="top", deserved=4, sharing=of(flavor("old", 1)))
        .job("x", queue="a", running={"spot": 2}, tasks=2)
        .job("z", queue="a", running={"old": 4}, tasks=4)
    )
    ran = built.job("y", queue="b", tasks=2).run(shard=SHARD)
    assert not ran.result.evictions
    assert why(ran, "y").endswith("gpu in flavor old 2 asked, queue b has a quota of 1")
