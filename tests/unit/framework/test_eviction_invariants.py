"""Results made by hand that break one invariant each, and sound ones beside them."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.intents import Evict
from kaisched.framework.invariants.violations import violations
from kaisched.framework.report.records import CycleStats, QueueShare, Step
from kaisched.framework.report.result import CycleResult
from kaisched.testing.builder import Group, Job, Task
from tests.unit.framework.fakes import store

QUEUES = (
    QueueRow("a", quota={"gpu": 2000}, created_s=0.0),
    QueueRow("b", quota={"gpu": 2000}, created_s=1.0),
)
SHARES = {"a": 4000, "b": 4000}


def runs(name, queue="a", nodes=("n0",), gpu=1, minimum=None, **more):
    """Return a job with one running pod on each of the nodes."""
    tasks = tuple(
        Task(f"{name}-{at}", {"gpu": 1000 * gpu}, state=TaskState.RUNNING, node=node)
        for at, node in enumerate(nodes)
    )
    root = Group("default", len(nodes) if minimum is None else minimum)
    return Job(name, queue, tasks, root=root, **more)


def waits(name, queue="b", pods=1, gpu=1, minimum=None, **more):
    tasks = tuple(Task(f"{name}-{at}", {"gpu": 1000 * gpu}) for at in range(pods))
    return Job(name, queue, tasks, root=Group("default", minimum or pods), **more)


def opened(*jobs, queues=QUEUES, nodes=(4, 4)):
    return store(*jobs, queues=queues, nodes=nodes).snapshot()


def evict(action, beneficiary, *pods, reason="because"):
    return [(pod, action, f"default/{beneficiary}", reason) for pod in pods]


def steps_of(evicts, binds, promises):
    """Return a step for each beneficiary, whose evictions and pods stand side by side."""

    def span(found):
        return (min(found), max(found) + 1) if found else (0, 0)

    made = []
    for action, name in dict.fromkeys((action, name) for _, action, name, _ in evicts):
        gone = {pod for pod, *said in evicts if said[:2] == [action, name]}
        job = name.partition("/")[2]

        def places(rows, job=job, gone=gone):
            pods = enumerate(pod for pod, *_ in rows)
            return [at for at, pod in pods if pod in gone or pod.rpartition("-")[0] == job]

        which = (
            places(binds),
            places(promises),
            [at for at, row in enumerate(evicts) if row[0] in gone],
        )
        made.append(Step(action, name, *map(span, which)))
    return tuple(made)


def result(snapshot, *, binds=(), evicts=(), promises=(), shares=None):
    """Return a result of (pod, node), (pod, action, beneficiary, reason) and (pod, node)."""
    tasks = snapshot.tasks

    def rows(names):
        return np.array([tasks.name.index(f"default/{name}") for name in names], np.int64)

    def nodes(names):
        return np.array([snapshot.nodes.name.index(name) for name in names], np.int64)

    gone = rows([pod for pod, *_ in evicts])
    fair = SHARES if shares is None else shares
    queue_rows = [
        QueueShare(name, None, {"gpu": fair.get(name, -1)}, {}, {}, {})
        for name in snapshot.queues.name
    ]
    return CycleResult(
        binds=(),
        evictions=[
            Evict(f"default/{pod}", "", "", "", *said, task=row, node_row=-1)
            for (pod, *said), row in zip(evicts, gone.tolist(), strict=True)
        ],
        nominations=(),
        records=(),
        shares=queue_rows,
        stats=CycleStats(0, 0, 0, 0, 0),
        failures=(),
        bind_tasks=rows([pod for pod, _ in binds]),
        bind_nodes=nodes([node for _, node in binds]),
        evict_tasks=gone,
        nominate_tasks=rows([pod for pod, _ in promises]),
        nominate_nodes=nodes([node for _, node in promises]),
        steps=steps_of(evicts, binds, promises),
    )


def broken(snapshot, **moves):
    return violations(snapshot, result(snapshot, **moves), default_policy())


FULL = tuple(runs(f"r{at}", nodes=(f"n{at // 4}",)) for at in range(8))
"""Queue a holds all 8 GPUs: fair share 4, quota 2."""


def test_a_sound_reclaim_breaks_nothing():
    snapshot = opened(*FULL, waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "promises": [("w-0", "n0")]}
    assert broken(snapshot, **moves) == []


def test_i1_room_is_freed_where_pods_were_and_taken_where_they_go():
    snapshot = opened(*FULL, waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "promises": [("w-0", "n1")]}
    assert broken(snapshot, **moves) == ["I1 node n1: more gpu is promised than there is"]


def test_i1_a_moved_pod_takes_room_at_its_new_place():
    snapshot = opened(runs("m", nodes=("n0",), gpu=2), waits("w", gpu=4))
    moved = {"evicts": evict("consolidate", "w", "m-0")}
    assert broken(snapshot, **moved, promises=[("m-0", "n1"), ("w-0", "n0")]) == []
    assert broken(snapshot, **moved, promises=[("m-0", "n1"), ("w-0", "n1")]) == [
        "I1 node n1: more gpu is promised than there is"
    ]


def test_i1_what_is_bound_does_not_wait_for_what_is_released():
    snapshot = opened(*FULL, waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "binds": [("w-0", "n0")]}
    assert broken(snapshot, **moves) == ["I1 node n0: more gpu is bound than there is"]


def test_i6_a_running_pod_is_promised_a_node_only_when_it_is_evicted():
    snapshot = opened(runs("m"))
    assert broken(snapshot, promises=[("m-0", "n1")]) == ["I6 pod default/m-0 is RUNNING"]


def test_i13_what_does_not_run_is_not_evicted():
    snapshot = opened(waits("w"), waits("x"))
    moves = {"evicts": evict("reclaim", "w", "x-0"), "promises": [("w-0", "n0")]}
    assert broken(snapshot, **moves) == ["I13 pod default/x-0 is evicted but does not run"]


def test_i13_nothing_is_evicted_twice():
    snapshot = opened(*FULL, waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0", "r0-0"), "promises": [("w-0", "n0")]}
    assert broken(snapshot, **moves) == ["I13 pod default/r0-0 is evicted more than once"]


def test_i13_only_a_stale_gang_is_evicted_although_it_is_not_preemptible():
    strict = runs("s", nodes=("n0",), minimum=2, is_preemptible=False)
    snapshot = opened(*FULL[1:], strict, waits("w"))
    assert broken(snapshot, evicts=evict("stalegang", "", "s-0")) == []
    moves = {"evicts": evict("reclaim", "w", "s-0"), "promises": [("w-0", "n0")]}
    assert broken(snapshot, **moves) == ["I13 pod default/s-0 is evicted but is not preemptible"]


def test_i13_the_intents_say_what_the_column_says():
    snapshot = opened(*FULL, waits("w"))
    made = result(snapshot, evicts=evict("reclaim", "w", "r0-0"), promises=[("w-0", "n0")])
    assert violations(snapshot, replace(made, evictions=[]), default_policy()) == [
        "I13 the evictions and their column differ"
    ]


def test_i12_evictions_are_for_a_job_that_is_placed():
    snapshot = opened(*FULL, waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0")}
    assert broken(snapshot, **moves) == [
        "I12 reclaim evicts for job default/w, which is not placed"
    ]
    assert broken(snapshot, evicts=evict("reclaim", "nobody", "r0-0")) == [
        'I12 reclaim evicts for "default/nobody", which is no job'
    ]


def test_i12_a_gang_is_placed_only_when_all_that_it_needs_is():
    snapshot = opened(*FULL, waits("w", pods=2))
    evicts = evict("reclaim", "w", "r0-0", "r1-0")
    assert broken(snapshot, evicts=evicts, promises=[("w-0", "n0")]) == [
        "I12 reclaim evicts for job default/w, which is not placed"
    ]
    assert broken(snapshot, evicts=evicts, promises=[("w-0", "n0"), ("w-1", "n0")]) == []


def test_i14_consolidate_gives_each_pod_another_node():
    snapshot = opened(runs("m", gpu=2), waits("w", gpu=4))
    moves = {"evicts": evict("consolidate", "w", "m-0")}
    assert broken(snapshot, **moves, promises=[("w-0", "n0")]) == [
        "I14 pod default/m-0 is evicted to be moved, but gets no node"
    ]
    small = opened(runs("m", gpu=2), waits("w", gpu=2))
    assert broken(small, **moves, promises=[("m-0", "n0"), ("w-0", "n0")]) == [
        "I14 pod default/m-0 is moved to the node it is on"
    ]


def preempting(victim, taker=None):
    snapshot = opened(*FULL[1:], victim, taker or waits("w", "a", priority=60))
    return broken(snapshot, evicts=evict("preempt", "w", "v-0"), promises=[("w-0", "n0")])


def test_i11_preempt_takes_from_lower_priority_in_the_same_queue():
    assert preempting(runs("v")) == []
    assert preempting(runs("v", priority=60)) == [
        "I11 pod default/v-0 of priority 60 is preempted by job default/w of priority 60"
    ]
    assert preempting(runs("v", "b")) == [
        "I11 pod default/v-0 is preempted by job default/w of another queue"
    ]


def test_i4_a_gang_that_loses_a_pod_it_needs_loses_them_all():
    gang = runs("g", nodes=("n0", "n0", "n1"), minimum=2)
    snapshot = opened(*FULL[2:7], gang, waits("w", pods=2))
    two = {"promises": [("w-0", "n0"), ("w-1", "n1")]}
    assert broken(snapshot, evicts=evict("reclaim", "w", "g-1", "g-2"), **two) == [
        "I4 job default/g, pod set default: 1 of a gang are left"
    ]
    assert broken(snapshot, evicts=evict("reclaim", "w", "g-0", "g-1", "g-2"), **two) == []
    one = opened(*FULL[2:7], gang, waits("w"))
    surplus = {"evicts": evict("reclaim", "w", "g-2"), "promises": [("w-0", "n1")]}
    assert broken(one, **surplus) == []


def test_i4_a_pod_that_moves_still_counts_for_its_gang():
    gang = runs("g", nodes=("n0", "n0"))
    snapshot = opened(gang, waits("w", gpu=3))
    moves = {"evicts": evict("consolidate", "w", "g-0")}
    assert broken(snapshot, **moves, promises=[("g-0", "n1"), ("w-0", "n0")]) == []


def test_i4_a_job_with_subgroups_keeps_what_it_needs_or_nothing():
    tasks = tuple(
        Task(f"g-{name}", {"gpu": 1000}, podset=name, state=TaskState.RUNNING, node="n0")
        for name in "xyz"
    )
    root = Group("root", 2, tuple(Group(name, 1) for name in "xyz"))
    snapshot = opened(Job("g", "a", tasks, root=root), *FULL[3:], waits("w"), waits("v"))
    both = [("w-0", "n0"), ("v-0", "n0")]
    one = evict("reclaim", "w", "g-x")
    assert broken(snapshot, evicts=one, promises=both[:1]) == []
    assert broken(snapshot, evicts=[*one, *evict("reclaim", "v", "g-y")], promises=both) == [
        "I4 job default/g: it keeps pods, but not all that it needs"
    ]


def test_i4_a_stale_gang_lacks_pods_and_ends_whole():
    stale = opened(runs("g", nodes=("n0", "n1"), minimum=3))
    assert broken(stale, evicts=evict("stalegang", "", "g-0", "g-1")) == []
    assert broken(stale, evicts=evict("stalegang", "", "g-0")) == [
        "I4 job default/g is ended as stale, but keeps pods"
    ]
    whole = opened(runs("g", nodes=("n0", "n1")))
    assert broken(whole, evicts=evict("stalegang", "", "g-0", "g-1")) == [
        "I4 job default/g is ended as stale, but is whole"
    ]


@pytest.mark.proportion
def test_i7_growth_is_counted_after_what_goes():
    """Queue a is over a limit that was lowered: it may change, but not grow."""
    queues = (replace(QUEUES[0], limit={"gpu": 6000}), QUEUES[1])
    snapshot = opened(*FULL, waits("w", "a", pods=2, priority=60), queues=queues)
    two = {"promises": [("w-0", "n0"), ("w-1", "n0")]}
    assert broken(snapshot, evicts=evict("preempt", "w", "r0-0", "r1-0"), **two) == []
    smaller = opened(*FULL[1:], waits("w", "a", pods=2, priority=60), queues=queues)
    assert broken(smaller, evicts=evict("preempt", "w", "r1-0"), **two) == [
        "I7 queue a: gpu 8 is over its limit of 6"
    ]


@pytest.mark.proportion
def test_i9_a_queue_that_holds_no_more_than_its_share_gives_nothing():
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "promises": [("w-0", "n0")]}
    within = opened(*FULL[:2], waits("w"))
    assert broken(within, **moves, shares={"a": 2000, "b": 4000}) == [
        "I9 queue a gives, but holds no more than its share",
        "I9 queue a is left with gpu 1 of a quota of 2, and no eviction says so",
    ]


@pytest.mark.proportion
def test_i9_queues_are_compared_where_their_paths_meet():
    queues = (
        QueueRow("x", quota={"gpu": 8000}),
        QueueRow("a", parent="x", quota={"gpu": 0}),
        QueueRow("y", quota={"gpu": 0}, created_s=1.0),
        QueueRow("b", parent="y", quota={"gpu": 0}),
    )
    snapshot = opened(*FULL, waits("w"), queues=queues)
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "promises": [("w-0", "n0")]}
    shares = {"x": 8000, "a": 0, "y": 4000, "b": 4000}
    assert broken(snapshot, **moves, shares=shares) == [
        "I9 queue x gives, but holds no more than its share",
        "I9 queue x is left with gpu 7 of a quota of 8, and no eviction says so",
    ]


@pytest.mark.proportion
def test_i9_an_eviction_that_undershoots_says_so():
    """A gang of 6 takes queue a from 7 to 1, below its quota of 2."""
    gang = runs("g", nodes=("n0",) * 4 + ("n1",) * 2)
    snapshot = opened(gang, runs("r", nodes=("n1",)), waits("w"))
    pods = [f"g-{at}" for at in range(6)]
    promises = [("w-0", "n0")]
    assert broken(snapshot, evicts=evict("reclaim", "w", *pods), promises=promises) == [
        "I9 queue a is left with gpu 1 of a quota of 2, and no eviction says so"
    ]
    reason = "so its queue is left below its quota"
    said = evict("reclaim", "w", *pods, reason=reason)
    assert broken(snapshot, evicts=said, promises=promises) == []


@pytest.mark.proportion
@pytest.mark.parametrize(("share", "is_sound"), [(1000, False), (2000, True)])
def test_i9_a_claim_stays_within_fair_share_or_quota(share, is_sound):
    queues = (QUEUES[0], replace(QUEUES[1], quota={"gpu": 1000}))
    snapshot = opened(*FULL, waits("w", pods=2), queues=queues)
    moves = {
        "evicts": evict("reclaim", "w", "r0-0", "r1-0"),
        "promises": [("w-0", "n0"), ("w-1", "n0")],
    }
    said = [
        "I9 queue b reclaims up to gpu 2, past its fair share and quota of 1",
        "I10 queue b takes up to gpu 2 of a fair share of 1 from queue a, which keeps 6 of 4",
    ]
    assert broken(snapshot, **moves, shares={"a": 4000, "b": share}) == ([] if is_sound else said)


@pytest.mark.proportion
def test_i9_a_queue_does_not_reclaim_from_itself():
    snapshot = opened(*FULL, waits("w", "a"))
    moves = {"evicts": evict("reclaim", "w", "r0-0"), "promises": [("w-0", "n0")]}
    assert "I9 queue a reclaims from itself" in broken(snapshot, **moves)
    snapshot = opened(*FULL[:7], runs("m", "b", ("n1",)), waits("w"))
    moves = {"evicts": evict("reclaim", "w", "r0-0", "m-0"), "promises": [("w-0", "n1")]}
    assert "I9 queue b reclaims from itself" in broken(snapshot, **moves)


DEPARTMENTS = (
    QueueRow("x", quota={"gpu": 0}, created_s=0.0),
    QueueRow("a", parent="x", quota={"gpu": 0}),
    QueueRow("y", quota={"gpu": 0}, created_s=1.0),
    QueueRow("b", parent="y", quota={"gpu": 0}),
)


@pytest.mark.proportion
@pytest.mark.parametrize(("share", "is_sound"), [(3000, True), (4000, False)])
def test_i10_who_takes_is_not_as_saturated_as_who_gives(share, is_sound):
    """Department y holds 3 of 2 then; x, which holds 7, keeps 6 of its share."""
    snapshot = opened(
        *FULL[1:],
        *(runs(f"s{at}", "b") for at in range(2)),
        waits("w"),
        queues=DEPARTMENTS,
        nodes=(6, 4),
    )
    moves = {"evicts": evict("reclaim", "w", "r1-0"), "promises": [("w-0", "n0")]}
    shares = {"x": share, "a": share, "y": 2000, "b": 4000}
    said = "I10 queue y takes up to gpu 3 of a fair share of 2 from queue x, which keeps 6 of 4"
    assert broken(snapshot, **moves, shares=shares) == ([] if is_sound else [said])


@pytest.mark.proportion
def test_i9_each_claim_is_judged_when_its_turn_has_come():
    """Queue a is over its share of 4 at first, and no more when v takes from it."""
    snapshot = opened(*FULL[:5], waits("w"), waits("v"))
    evicts = [*evict("reclaim", "w", "r0-0"), *evict("reclaim", "v", "r1-0")]
    promises = [("w-0", "n0"), ("v-0", "n0")]
    shares = {"a": 4000, "b": 1000}
    assert broken(snapshot, evicts=evicts[:1], promises=promises[:1], shares=shares) == []
    assert broken(snapshot, evicts=evicts, promises=promises, shares={"a": 4000, "b": 2000}) == []
    queues = (QUEUES[0], replace(QUEUES[1], quota={"gpu": 1000}))
    snapshot = opened(*FULL[:5], waits("w"), waits("v"), queues=queues)
    assert broken(snapshot, evicts=evicts, promises=promises, shares={"a": 4000, "b": 2000}) == [
        "I9 queue a gives, but holds no more than its share"
    ]


@pytest.mark.proportion
def test_i9_what_preempt_does_afterwards_is_no_matter_of_reclaim():
    """Reclaim takes queue a from 3 to its quota of 2; preempt then ends a job of 2 for one of 1."""
    snapshot = opened(
        runs("r"), runs("g", gpu=2), waits("w"), waits("p", "a", priority=60), nodes=(3, 0)
    )
    moves = {
        "evicts": [*evict("reclaim", "w", "r-0"), *evict("preempt", "p", "g-0")],
        "promises": [("w-0", "n0"), ("p-0", "n0")],
    }
    assert broken(snapshot, **moves, shares={"a": 2000, "b": 1000}) == []


@pytest.mark.proportion
def test_i9_evictions_of_reclaim_belong_to_a_claim():
    snapshot = opened(*FULL, waits("w"))
    made = result(snapshot, evicts=evict("reclaim", "w", "r0-0"), promises=[("w-0", "n0")])
    assert violations(snapshot, replace(made, steps=()), default_policy()) == [
        "I9 evictions of reclaim belong to no claim, or to more than one"
    ]


@pytest.mark.parametrize("priority", [50, 75])
def test_i11_and_i14_who_makes_way_in_the_own_queue_moves_and_is_no_more_important(priority):
    mine = runs("m", "b", ("n1",), priority=priority)
    snapshot = opened(*FULL[:7], mine, waits("w", priority=50))
    moves = {"evicts": evict("reclaim", "w", "r0-0", "m-0")}
    said = [
        f"I11 pod default/m-0 of priority {priority} makes way for job default/w of priority 50"
    ]
    above = said if priority > 50 else []
    promises = [("w-0", "n1"), ("m-0", "n0")]
    assert broken(snapshot, **moves, promises=promises) == above
    found = set(broken(snapshot, **moves, promises=promises[:1]))
    assert {each for each in found if not each.startswith("I9 ")} == {
        "I14 pod default/m-0 makes way in its own queue, but gets no node",
        *above,
    }
