"""Room that was promised: who gets it once the victims have gone, and when the promise is void."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from tests.laws.clusters import Cluster
from tests.laws.crowded import carried_out, moves_of
from tests.unit.actions.test_search import decide, evicted, job, node, promised, queue

RECLAIMED = Cluster(
    (node("n0", 2), node("n1", 1)),
    (queue("q", 0), queue("r", 3)),
    (job("g", "q", (2, 1, "n0")), job("x", "r", (1, 1, "n1")), job("w", "r", (2, 1))),
)


def binds(result):
    return {each.pod.partition("/")[2]: each.node for each in result.binds}


def after_reclaim():
    result, broken = decide(RECLAIMED)
    assert (evicted(result), promised(result), broken) == (["g-0"], {"w-0": "n0"}, [])
    return carried_out(RECLAIMED, result)


@pytest.mark.fault("F95")
def test_the_beneficiary_gets_its_room_although_an_older_job_deserves_more():
    cluster = after_reclaim()
    first = replace(queue("a", 3), priority=300)
    older = job("a", "a", (2, 1), created_s=-9.0, priority=90)
    cluster = replace(cluster, queues=(*cluster.queues, first), jobs=(*cluster.jobs, older))
    result, broken = decide(
        cluster, replace(default_policy(), actions=default_policy().actions[:1])
    )
    assert (binds(result), broken) == ({"w-0": "n0"}, [])


@pytest.mark.fault("F95")
def test_what_was_evicted_does_not_get_its_place_back():
    result, broken = decide(after_reclaim())
    assert (moves_of(result), broken) == (["bind default/w-0 to n0"], [])


def test_a_promise_is_void_when_its_node_is_cordoned():
    cluster = after_reclaim()
    closed = replace(cluster.nodes[0], is_unschedulable=True)
    result, broken = decide(replace(cluster, nodes=(closed, node("n2", 2), cluster.nodes[1])))
    assert (binds(result), broken) == ({"w-0": "n2"}, [])


def broken_off(**more):
    """A gang of four was promised a node of which half is free; others have more right to it."""
    made = job("w", "r", *4 * [(1, 1)], minimum=4)
    tasks = tuple(replace(task, nominated="n0") for task in made.tasks)
    return Cluster(
        (node("n0", 4),),
        (queue("q", 0), queue("r", 4), replace(queue("a", 2), priority=300)),
        (
            job("v", "q", (1, 1, "n0"), (1, 1, "n0"), **more),
            job("a", "a", (1, 1)),
            job("b", "a", (1, 1)),
            replace(made, tasks=tasks),
        ),
    )


ALLOCATE_ONLY = replace(default_policy(), actions=default_policy().actions[:1])


@pytest.mark.fault("I124")
def test_what_is_there_of_a_promise_is_kept_while_the_gang_may_claim_the_rest():
    """The queue of the others comes first, but the room was freed for the gang."""
    cluster = broken_off()
    cluster = replace(cluster, queues=(*cluster.queues[:2], queue("a", 0)))
    result, broken = decide(cluster)
    assert (evicted(result), broken) == (["v-0", "v-1"], [])
    assert promised(result) == {f"w-{number}": "n0" for number in range(4)}
    assert binds(result) == {}


@pytest.mark.fault("I124")
def test_a_broken_promise_is_kept_from_others_for_one_cycle_only():
    cluster = broken_off(is_preemptible=False)
    snapshot, memory = cluster.store().snapshot(), Memory()
    result, memory = run_cycle(snapshot, None, ALLOCATE_ONLY, 1000.0, memory)
    assert (binds(result), promised(result)) == ({}, {})
    assert memory.facts["promises"] == {"default/w": 1000.0}
    result, memory = run_cycle(snapshot, None, ALLOCATE_ONLY, 1001.0, memory)
    assert (binds(result), promised(result)) == ({"a-0": "n0", "b-0": "n0"}, {})
    assert memory.facts["promises"] == {"default/w": 1000.0}


@pytest.mark.parametrize("actions", [1, None], ids=["its victim ends by itself", "reclaim"])
def test_a_void_promise_does_not_come_back_when_room_is_made_there(actions):
    """The pod of z still names n0, which others hold; z deserves nothing, and is the oldest."""
    made = job("z", "q", (1, 1), created_s=-99.0)
    holds, waits = job("v", "q", (1, 1, "n0")), job("w", "r", (1, 1))
    cluster = Cluster(
        (node("n0", 1),),
        (queue("q", 0), queue("r", 1)),
        (holds, waits, replace(made, tasks=(replace(made.tasks[0], nominated="n0"),))),
    )
    policy = replace(default_policy(), actions=default_policy().actions[:actions])
    result, memory = run_cycle(cluster.store().snapshot(), None, policy, 1000.0, Memory())
    assert memory.facts["promises"] == {"default/z": 1000.0}
    assert evicted(result) == ([] if actions else ["v-0"])
    cluster = replace(cluster, jobs=tuple(it for it in cluster.jobs if it.name != "v"))
    if not actions:
        w = replace(waits, tasks=(replace(waits.tasks[0], nominated="n0"),))
        cluster = replace(cluster, jobs=tuple(w if it is waits else it for it in cluster.jobs))
    result, memory = run_cycle(cluster.store().snapshot(), None, policy, 1001.0, memory)
    assert binds(result) == {"w-0": "n0"}


def test_who_claims_the_rest_of_broken_promises_is_promised_room_anew():
    cluster = broken_off()
    cluster = replace(cluster, queues=(*cluster.queues[:2], queue("a", 0)))
    snapshot = cluster.store().snapshot()
    result, memory = run_cycle(snapshot, None, default_policy(), 1000.0, Memory())
    assert set(promised(result).values()) == {"n0"}
    assert "promises" not in memory.facts
    after = carried_out(cluster, result).store().snapshot()
    result, _ = run_cycle(after, None, default_policy(), 1001.0, memory)
    assert set(binds(result)) == {"w-0", "w-1", "w-2", "w-3"}


def messages(result):
    return {
        each.pod_group.partition("/")[2]: (each.reason, each.message) for each in result.records
    }


HELD = "held in this cycle for default/w, which lacks the rest of what it was promised"


@pytest.mark.fault("I124")
def test_who_waits_for_room_that_is_held_for_one_cycle_hears_for_whom():
    """Half of n0 is idle when all has been decided: nothing else keeps a and b from it."""
    cluster = broken_off(is_preemptible=False)
    snapshot, memory = cluster.store().snapshot(), Memory()
    result, memory = run_cycle(snapshot, None, ALLOCATE_ONLY, 1000.0, memory)
    assert violations(snapshot, result, ALLOCATE_ONLY, with_records=True) == []
    told = messages(result)
    assert told["a"] == told["b"] == ("RoomHeld", f"room that it could have is {HELD}")
    assert told["w"][0] == "GangNoRoom"
    assert result.records.counts() == {"GangNoRoom": 1, "RoomHeld": 2}
    promised_none = np.full_like(snapshot.tasks.nominated_node, -1)
    without = replace(snapshot, tasks=replace(snapshot.tasks, nominated_node=promised_none))
    assert violations(without, result, ALLOCATE_ONLY, with_records=True) == [
        f"I21 job default/{name} waits for room that is held, but nothing was promised"
        for name in "ab"
    ]
    result, _ = run_cycle(snapshot, None, ALLOCATE_ONLY, 1001.0, memory)
    assert set(messages(result)) == {"w"}


@pytest.mark.fault("I124")
def test_a_queue_that_was_full_of_held_room_is_not_said_to_have_gained_room_by_evictions():
    """Pod w-0 is held on n0, and w-1 has no place. Together with w-0 x is over the limit of r."""
    made = job("w", "r", (1, 8), (1, 8), minimum=2)
    tasks = (replace(made.tasks[0], nominated="n0"), replace(made.tasks[1], nominated="n1"))
    cluster = Cluster(
        (node("n0", 1), node("n1", 1), node("n2", 2, cpu=2)),
        (queue("q", 1), queue("r", 2, limit=2)),
        (
            job("v", "q", (1, 1, "n1"), is_preemptible=False),
            job("x", "r", (2, 1)),
            replace(made, tasks=tasks),
        ),
    )
    result, broken = decide(cluster)
    assert (moves_of(result), broken) == ([], [])
    assert messages(result)["x"] == ("RoomHeld", f"room that it could have is {HELD}")


@pytest.mark.fault("I124")
def test_a_gang_of_unequal_pods_hears_that_room_was_held_too():
    cluster = broken_off(is_preemptible=False)
    more = job("c", "a", (1, 1), (1, 2), minimum=2)
    cluster = replace(cluster, jobs=(*cluster.jobs, more))
    snapshot = cluster.store().snapshot()
    result, _ = run_cycle(snapshot, None, ALLOCATE_ONLY, 1000.0, Memory())
    assert violations(snapshot, result, ALLOCATE_ONLY, with_records=True) == []
    assert messages(result)["c"] == (
        "GangNoRoom",
        f"each of its 2 pods has room now, and room was {HELD}",
    )


@pytest.mark.fault("I124")
@pytest.mark.parametrize(("idle", "places"), [(1, {"w-0": "n0", "w-1": "n2"}), (0, {})])
def test_a_gang_whose_promise_is_kept_in_part_starts_whole_or_not_at_all(idle, places):
    """The pod whose place is free counts as placed while others are tried, not for its own gang."""
    made = job("w", "r", (1, 1), (1, 1), minimum=2)
    tasks = (
        replace(made.tasks[0], nominated="n0"),
        replace(made.tasks[1], nominated="n1"),
    )
    stays = job("v", "q", (1, 1, "n1"), is_preemptible=False)
    fills = job("f", "q", (1, 1, "n2"), is_preemptible=False)
    cluster = Cluster(
        (node("n0", 1), node("n1", 1), node("n2", 1)),
        (queue("q", 2), queue("r", 2)),
        (stays, *[fills] * (1 - idle), replace(made, tasks=tasks)),
    )
    result, broken = decide(cluster)
    assert (binds(result), promised(result), broken) == (places, {}, [])


@pytest.mark.fault("I124")
def test_what_was_kept_from_others_leaves_no_trace_in_hints():
    """The next cycle is the same with and without what only saves time."""
    snapshot = broken_off(is_preemptible=False).store().snapshot()
    _, memory = run_cycle(snapshot, None, ALLOCATE_ONLY, 1000.0, Memory())
    results = [
        run_cycle(snapshot, None, ALLOCATE_ONLY, 1001.0, Memory(memory.facts, hints))[0]
        for hints in (memory.hints, {})
    ]
    assert binds(results[0]) == binds(results[1]) == {"a-0": "n0", "b-0": "n0"}


def test_a_promise_to_an_elastic_pod_is_kept_before_its_job_grows_otherwise():
    """So it is after a pod of the same job was moved away to make the room."""
    made = job("j", "q", (0, 3), (1, 1), (1, 1, "n1"))
    tasks = (made.tasks[0], replace(made.tasks[1], nominated="n0"), made.tasks[2])
    cluster = Cluster(
        (node("n0", 1, cpu=3), node("n1", 1, cpu=1)),
        (queue("q", 2),),
        (replace(made, tasks=tasks),),
    )
    result, broken = decide(cluster)
    assert (binds(result), broken) == ({"j-1": "n0"}, [])
