"""Small clusters worked out by hand, where one rule alone decides; and what is said of them."""

from fractions import Fraction

import numpy as np
import pytest

from kaisched import UNLIMITED
from kaisched.core.tables import Sharing
from kaisched.testing import ClusterBuilder, draw
from kaisched_plugins.fair_sharing.plans import unjust
from kaisched_plugins.fair_sharing.quotas import Holdings, Quotas
from kaisched_plugins.fair_sharing.work import Work

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}


def why(ran, job):
    """Return the sentence about a pending job."""
    records = [each for each in ran.result.records if each.pod_group.endswith(f"/{job}")]
    return records[0].message


def reason_of_eviction(ran):
    """Return the first word or two of the one reason that is given."""
    (reason,) = {each.reason.partition(" for ")[0] for each in ran.result.evictions}
    return reason


@pytest.mark.parametrize(
    ("lending", "most"), [("", 1), ("lending=0", 4), ("lending=2", 4), ("lending=4", 4)]
)
def test_strict_work_has_all_of_its_queue_s_quota_whatever_is_lent(lending, most):
    # F2 and F4: above it, only what a queue holds beyond its local quota counts.
    text = f"""
        queue top   deserved=0
        queue d     parent=top
        queue a     parent=d deserved={4 if lending else 1} {lending}
        queue b     parent=top deserved=3
        node  n0    | . . . . . .
        job   a1    tasks=1 preemptible=no
        job   a2    tasks=1 preemptible=no
        job   a3    tasks=1 preemptible=no
        job   a4    tasks=1 preemptible=no
        job   a5    tasks=1 preemptible=no
        """
    ran = draw(text).builder().run(shard=SHARD)
    assert len(ran.placed) == most
    assert set(ran.reasons.values()) == {"NonPreemptibleBorrows"}


@pytest.mark.parametrize(("quota", "taken"), [(0, 0), (1, 1)])
def test_a_tree_without_fair_sharing_takes_by_quota_alone(quota, taken):
    ran = (
        ClusterBuilder()
        .node("n0", gpu=4)
        .queue("top", deserved=4 - quota, sharing=Sharing(is_on=False))
        .queue("a", parent="top")
        .queue("b", parent="top", deserved=quota)
        .job("a1", queue="a", running={"n0": 1})
        .job("a2", queue="a", tasks=3, min_tasks=1, running={"n0": 3})
        .job("b1", queue="b")
        .run(shard=SHARD)
    )
    assert len(ran.evicted) == taken
    if not taken:
        assert "its queue would borrow for it, and takes nothing for that" in why(ran, "b1")


def test_in_its_own_queue_a_claim_takes_nobody_who_is_served_before_it():
    # F16: with Any the older would take its place back, and so on for ever.
    ran = (
        ClusterBuilder()
        .node("n0", gpu=1)
        .queue("top", deserved=1)
        .queue("a", parent="top", sharing=Sharing(within="Any"))
        .job("a1", queue="a", running={"n0": 1})
        .job("a2", queue="a")
        .run(shard=SHARD)
    )
    assert not ran.evicted
    assert "would come before it again" in why(ran, "a2")


@pytest.mark.parametrize("policy", ["Any", "LowerOrNewerEqualPriority"])
def test_a_job_takes_nothing_from_itself_and_surplus_nothing_from_a_newer_job_s_minimum(policy):
    # a1 has its minimum, so that a2 comes before the rest of it.
    ran = (
        ClusterBuilder()
        .node("n0", gpu=2)
        .queue("top", deserved=2)
        .queue("a", parent="top", sharing=Sharing(within=policy))
        .job("a1", queue="a", tasks=3, min_tasks=1, running={"n0": 1})
        .job("a2", queue="a", running={"n0": 1})
        .run(shard=SHARD)
    )
    assert not ran.evicted


@pytest.mark.parametrize(("quota", "word"), [(2, "reclaimed"), (0, "fair sharing")])
def test_who_lacks_what_is_within_its_quota_reclaims_whatever_else_it_borrows(quota, word):
    # F14: only GPUs are lacking, and of those a holds its quota at most.
    builder = (
        ClusterBuilder()
        .node("n0", gpu=4)
        .queue("top", deserved={"gpu": 2 - quota, "cpu": 100})
        .queue("a", parent="top", deserved={"gpu": quota, "cpu": 0})
        .queue("b", parent="top", deserved={"gpu": 2, "cpu": 0})
    )
    for name in ("b1", "b2", "b3", "b4"):
        builder.job(name, queue="b", cpu=0, running={"n0": 1})
    ran = builder.job("a1", queue="a", cpu=10).run(shard=SHARD)
    assert len(ran.evicted) == 1
    assert reason_of_eviction(ran) == word


def test_a_department_within_its_quota_reclaims():
    # S1 at the level of the department: it is its quota that the other holds.
    ran = (
        draw("""
        queue top
        queue d1    parent=top
        queue a     parent=d1 deserved=2
        queue b     parent=d1
        queue d2    parent=top
        queue c     parent=d2
        node  n0    | c1 c2
        job   b1
        """)
        .builder()
        .run(shard=SHARD)
    )
    assert len(ran.evicted) == 1
    assert reason_of_eviction(ran) == "reclaimed"


def test_who_would_borrow_for_strict_work_is_named():
    ran = (
        draw("""
        queue top   deserved=4
        queue a     parent=top deserved=2
        node  n0    | a1 . . .
        job   a1    preemptible=no
        job   a2    tasks=2 preemptible=no
        """)
        .builder()
        .run(shard=SHARD)
    )
    assert why(ran, "a2").startswith(
        "queue a: non-preemptible work would hold gpu 3, the quota is 2"
    )


@pytest.mark.parametrize("lending", ["", "lending=0", "lending=3"])
def test_the_fair_share_has_what_a_queue_keeps_to_itself(lending):
    # F2: d would hold what a never lends, and its part of what is lent: 5 and 1, of 6 in all.
    text = f"""
        queue top   deserved=2
        queue d     parent=top
        queue a     parent=d deserved=4 {lending}
        queue c     parent=d
        queue b     parent=top deserved=2
        node  n0    | . . . . . . . .
        job   a1    tasks=8 min=1
        job   c1    tasks=8 min=1
        job   b1    tasks=2 min=1
        """
    ran = draw(text).builder().run(shard=SHARD)
    assert {each.name: each.fair_share["gpu"] / 1000 for each in ran.result.shares} == {
        "top": 8,
        "d": 6,
        "a": 5,
        "c": 1,
        "b": 2,
    }


@pytest.mark.parametrize("idle", [0, 2])
@pytest.mark.parametrize(("freed", "gone"), [(1, {"c1", "c2"}), (2, {"c1"})])
def test_a_claim_takes_nobody_if_it_fits_beside_an_earlier_claim_of_the_cycle(freed, gone, idle):
    # F15: a1 needs one GPU; whether b1 fits beside it depends on how many c1 leaves.
    # What is idle is beyond all quotas, and so not to be had before c1 has ended.
    ran = (
        ClusterBuilder()
        .node("n0", gpu=freed + 1 + idle)
        .queue("top", deserved=freed - 1)
        .queue("a", parent="top", deserved=1)
        .queue("b", parent="top", deserved=1)
        .queue("c", parent="top")
        .job("c1", queue="c", tasks=freed, running={"n0": freed})
        .job("c2", queue="c", priority=60, running={"n0": 1})
        .job("a1", queue="a")
        .job("b1", queue="b")
        .run(shard=SHARD)
    )
    assert {pod.split("-")[0] for pod in ran.evicted} == gone
    assert not ran.placed
    assert ran.reasons == {"a1": "WaitingForRelease", "b1": "WaitingForRelease"}


NOTHING = {"gpu": 0, "cpu": 0}
NOT_ENOUGH = "what its share lets it take does not make room"


@pytest.mark.parametrize(
    ("text", "is_lower"),
    [
        (  # a1 may go, but then both shares are 8/9
            """
        queue top   deserved=9
        queue a     parent=top
        queue b     parent=top
        node  n0    | a1 a2 a2 a2 a2 a2 a2 a2 a2
        job   b1    tasks=8
        """,
            True,
        ),
        (  # what a gives does not help: b may borrow no more
            """
        queue top   deserved=4
        queue a     parent=top
        queue b     parent=top borrowing=1
        node  n0    | a1 a2 a3 b2
        job   b1
        """,
            True,
        ),
        (
            """
        queue top   deserved=3
        queue a     parent=top
        queue b     parent=top
        node  n0    | a1 a2 b2
        job   b1
        """,
            False,
        ),
    ],
)
def test_a_lower_share_is_not_said_to_be_what_stands_in_the_way(text, is_lower):
    ran = draw(text).builder().run(shard=SHARD)
    assert not ran.evicted
    sentence = why(ran, "b1")
    said = "reclaim: queue b would" if not is_lower else f"reclaim: {NOT_ENOUGH}: queue b would"
    assert said in sentence


def test_a_department_that_borrows_something_else_keeps_what_is_within_its_quota():
    # F13: d2's GPUs are its own, whatever its share of CPU is; d3's are lent.
    builder = (
        ClusterBuilder()
        .node("n0", gpu=4)
        .queue("top", deserved={"gpu": 2, "cpu": 100})
        .queue("d1", parent="top", deserved=NOTHING)
        .queue("x", parent="d1", deserved=NOTHING)
        .queue("d2", parent="top", deserved=NOTHING)
        .queue("w", parent="d2", deserved={"gpu": 2, "cpu": 0})
        .queue("y", parent="d2", deserved=NOTHING)
        .queue("d3", parent="top", deserved=NOTHING)
        .queue("v", parent="d3", deserved=NOTHING)
    )
    for name, queue, cpu in (("y1", "y", 40), ("y2", "y", 40), ("v1", "v", 0), ("v2", "v", 0)):
        builder.job(name, queue=queue, cpu=cpu, running={"n0": 1})
    ran = builder.job("x1", queue="x", cpu=0).run(shard=SHARD)
    assert {pod[0] for pod in ran.evicted} == {"v"}


def test_a_pending_job_is_compared_with_those_that_borrow_what_it_lacks():
    ran = (
        ClusterBuilder()
        .node("n0", gpu=2)
        .queue("top", deserved={"gpu": 2, "cpu": 40})
        .queue("a", parent="top", deserved=NOTHING)
        .queue("b", parent="top", deserved=NOTHING)
        .queue("c", parent="top", deserved=NOTHING)
        .job("a1", queue="a", gpu=0, cpu=39, running={"n0": 1})
        .job("b1", queue="b", cpu=0, running={"n0": 1})
        .job("c1", queue="c", cpu=0, running={"n0": 1})
        .job("c2", queue="c", cpu=0)
        .run(shard=SHARD)
    )
    assert "queue b has 0.5" in why(ran, "c2")


@pytest.mark.parametrize("cpu", [0, 30])
@pytest.mark.parametrize(("asked", "gone"), [(4, 0), (1, 1)])
def test_a_quota_of_what_a_claim_lacks_is_not_taken_for_a_share_of_something_else(cpu, asked, gone):
    # F16: without y2, y1 is within the quota of GPUs, however much CPU y borrows.
    builder = (
        ClusterBuilder()
        .node("n0", gpu=5)
        .queue("top", deserved={"gpu": 2, "cpu": 100})
        .queue("x", parent="top", deserved=NOTHING, sharing=Sharing(weight=Fraction(9)))
        .queue("y", parent="top", deserved={"gpu": 3, "cpu": 0})
    )
    for name, gpu, priority in (("y1", 1, 50), ("y2", 3, 51), ("y3", 1, 52)):
        builder.job(name, queue="y", gpu=gpu, cpu=cpu, priority=priority, running={"n0": 1})
    ran = builder.job("x1", queue="x", gpu=asked, cpu=0).run(shard=SHARD)
    assert len(ran.evicted) == gone


def test_what_a_victim_s_queue_is_owed_is_of_what_the_claim_lacks():
    # F16: with y1 back y holds 2 of its 3 GPUs; the CPU that it borrows is not what x1 lacks.
    gpu, cpu = 0, 1
    quotas = Quotas(
        np.array([-1, 0, 0]),
        np.array([[2, 0, 3], [100, 0, 0]]),
        np.full((2, 3), UNLIMITED),
        np.full((2, 3), UNLIMITED),
        [Fraction(1), Fraction(9), Fraction(1)],
        np.array([gpu, cpu]),
    )
    holdings = Holdings(quotas, np.array([[0, 0, 1], [0, 0, 30]]))
    y1, x1 = Work(0, 2, [(gpu, 1), (cpu, 30)]), Work(-1, 1, [(gpu, 4)])
    assert list(unjust(holdings, x1, [y1], [gpu])) == [y1]
    assert not list(unjust(holdings, x1, [y1], [gpu, cpu]))
