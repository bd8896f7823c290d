"""Jobs that wait for a better place, as long as they say (W1 to W5)."""

from dataclasses import replace
from typing import Any

import pytest

from kaisched import TopologyConstraint
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import NOW_S, Group, Ran

PATIENT = "WaitsForDomain"
WISH = TopologyConstraint("t", "", "rack", patience_s=60.0)


def world(
    *nodes: tuple[str, int, int], wish: TopologyConstraint = WISH, **job: Any
) -> ClusterBuilder:
    """Build nodes of racks A, B and so on, with GPUs, of which some are in use, and a gang."""
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("v").queue("a", deserved=4)
    for name, gpus, busy in nodes:
        builder.node(name, gpu=gpus, labels={"zone": "z", "rack": name[0]})
        for number in range(busy):
            builder.job(f"v{name}{number}", queue="v", running={name: 1})
    builder.job("a1", queue="a", **{"tasks": 4, "topology": wish, **job})
    builder._jobs[-1] = replace(builder._jobs[-1], created_s=NOW_S)
    return builder


def cycle(builder: ClusterBuilder, after_s: float, *actions: str, memory: Any = None) -> Ran:
    return builder.run("allocate", *actions, memory=memory or Memory(), now_s=NOW_S + after_s)


UNTIL = "1970-01-12T13:47:40Z"
SPLIT = (("A1", 4, 2), ("B1", 4, 2))
"""Two GPUs are idle in each of two racks that could hold the gang."""


def test_it_waits_for_one_rack_until_its_patience_ends_and_then_any_will_do():
    waits = cycle(world(*SPLIT), 59)
    assert (waits.placed, waits.promised) == ({}, {})
    (record,) = waits.result.records
    assert record.reason == PATIENT
    assert record.message == (
        "no rack has room for its 4 pods together: best is rack A, short by 2 pods;"
        f" it waits until {UNTIL} for one rack, then any place will do"
    )
    assert len(cycle(world(*SPLIT), 60, memory=waits.memory).placed) == 4


def test_room_in_one_rack_is_taken_at_once():
    assert set(cycle(world(("A1", 4, 2), ("B1", 4, 0)), 1).placed.values()) == {"B1"}


def test_without_patience_nobody_waits_for_a_wish():
    wish = WISH._replace(patience_s=0.0)
    assert len(cycle(world(*SPLIT, wish=wish), 1).placed) == 4


def test_a_required_level_holds_before_and_after():
    wish = WISH._replace(required="zone")
    (record,) = cycle(world(*SPLIT, wish=wish), 1).result.records
    assert record.message.endswith("for one rack, then any place in one zone will do")
    assert len(cycle(world(*SPLIT, wish=wish), 60).placed) == 4


@pytest.mark.parametrize("preferred", ["zone", "rack"])
def test_a_wish_that_is_not_inside_of_what_is_required_changes_nothing(preferred):
    """It requires one rack: its patience neither lets it into two nor keeps it from evicting."""
    wish = WISH._replace(required="rack", preferred=preferred)
    (record,) = cycle(world(*SPLIT, wish=wish), 1).result.records
    assert record.reason == "NoDomainHasRoom"
    full = (("A1", 4, 4), ("B1", 4, 3))
    assert len(cycle(world(*full, wish=wish), 1, "reclaim").evicted) == 3


@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidate"])
def test_nothing_is_evicted_or_moved_while_it_is_patient(action):
    """Its queue may take what the other holds, but not for a wish."""
    full = (("A1", 4, 2), ("B1", 4, 3), ("C1", 1, 0))
    waits = cycle(world(*full, priority=60), 59, action)
    assert waits.evicted == {}
    (record,) = waits.result.records
    assert record.eviction_refusals in (
        {},
        {action: f"nothing is evicted for a wish: it waits until {UNTIL} for one rack"},
    )
    over = cycle(world(*full, priority=60), 60, action)
    assert (len(over.placed), over.evicted) == (4, {})


def test_after_its_patience_it_may_evict_as_others_do():
    full = (("A1", 4, 3), ("B1", 4, 4))
    assert cycle(world(*full), 59, "reclaim").evicted == {}
    assert len(cycle(world(*full), 60, "reclaim").evicted) == 3


def test_who_no_rack_could_ever_hold_does_not_wait_in_vain():
    assert len(cycle(world(("A1", 2, 0), ("B1", 3, 0)), 1).placed) == 4


def test_the_time_begins_anew_with_an_eviction():
    again = world(*SPLIT, last_evicted_s=NOW_S + 100)
    assert cycle(again, 159).reasons == {"a1": PATIENT}
    assert len(cycle(again, 160).placed) == 4


def test_who_was_moved_keeps_the_room_that_it_was_promised_in_two_racks():
    """Its pods ran in both, and have been evicted to make room: it does not wait for one rack."""
    moved = world(*SPLIT, promised={"A1": 2, "B1": 2}, last_evicted_s=NOW_S)
    assert sorted(cycle(moved, 1).placed.values()) == ["A1", "A1", "B1", "B1"]


def test_who_was_promised_room_in_one_rack_waits_for_that():
    waits = world(("A1", 4, 2), ("B1", 4, 2), promised={"A1": 4})
    assert cycle(waits, 1).reasons == {"a1": PATIENT}


def test_more_pods_of_a_job_that_runs_do_not_wait():
    builder = world(("A1", 4, 2), ("B1", 4, 0), tasks=3, min_tasks=1, running={"A1": 2})
    assert cycle(builder, 1).placed == {"a1-2": "B1"}


def test_more_pods_of_a_job_that_starts_in_the_same_cycle_do_not_wait():
    placed = cycle(world(*SPLIT, min_tasks=1), 1).placed
    assert sorted(placed.values()) == ["A1", "A1", "B1", "B1"]


def test_a_subgroup_does_not_wait_for_its_wish():
    parts = Group("all", None, (Group("x", 4, topology=WISH), Group("y", 1)))
    more: dict[str, Any] = {
        "tasks": 5,
        "podsets": ["x", "x", "x", "x", "y"],
        "groups": parts,
        "topology": None,
    }
    assert len(cycle(world(*SPLIT, ("C1", 1, 0), **more), 1).placed) == 5


def test_a_pod_set_is_patient_too():
    wish = TopologyConstraint("", "", "rack", is_pod_set=True, patience_s=60.0)
    (record,) = cycle(world(*SPLIT, wish=wish), 1).result.records
    assert record.reason == PATIENT
    assert "best is rack A, short by 2 pods; it waits until" in record.message
    assert len(cycle(world(*SPLIT, wish=wish), 60).placed) == 4
    assert set(cycle(world(*SPLIT, ("C1", 4, 0), wish=wish), 1).placed.values()) == {"C1"}


def test_room_for_each_of_its_pods_in_the_domain_and_not_for_all_tells_of_the_wait_too():
    """Zone z has four GPUs; of two subgroups that are each in one rack it holds one."""
    wish, rack = WISH._replace(preferred="zone"), TopologyConstraint("t", "rack")
    parts = (Group("x", 2, topology=rack), Group("y", 2, topology=rack))
    builder = world(
        ("A1", 3, 0),
        ("B1", 1, 0),
        groups=Group("all", None, parts, topology=wish),
        podsets=["x", "x", "y", "y"],
        topology=None,
    ).node("C1", gpu=2, labels={"zone": "y", "rack": "C"})
    waits = cycle(builder, 1)
    (record,) = waits.result.records
    assert record.message == (
        f"zone z, for which it waits until {UNTIL}:"
        " each of its 4 pods has room, but its subgroups do not fit together, each on one set of"
        " nodes"
    )
    assert len(cycle(builder, 60, memory=waits.memory).placed) == 4
