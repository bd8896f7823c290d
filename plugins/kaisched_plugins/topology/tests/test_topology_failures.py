"""What becomes of a gang in one rack when a node of it fails (T32, T41)."""

import pytest

from kaisched import TopologyConstraint
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import NOW_S, Ran

GRACE_S = 60.0
"""The default of the shard."""
ACTIONS = ("allocate", "stalegang")
HOSTS = ("A1", "A2", "A4")


def racks(spare: bool, other: int = 8) -> ClusterBuilder:
    """Build rack A of hosts with one GPU each, of which A3 has failed, and the free rack B."""
    builder = ClusterBuilder().topology("t", "rack", "host").queue("a")
    for name in (*HOSTS, *(["A5"] if spare else [])):
        builder.node(name, gpu=1, labels={"rack": "A", "host": name})
    return builder.node("B1", gpu=other, labels={"rack": "B", "host": "B1"})


def gang(builder: ClusterBuilder, *hosts: str, minimum: int = 4) -> ClusterBuilder:
    """Add the gang of four, of which one pod runs on each host."""
    return builder.job(
        "a1",
        queue="a",
        tasks=4,
        min_tasks=minimum,
        running=dict.fromkeys(hosts, 1),
        topology=TopologyConstraint("t", "rack"),
    )


def cycle(builder: ClusterBuilder, after_s: float, memory: Memory | None = None) -> Ran:
    return builder.run(*ACTIONS, memory=memory, now_s=NOW_S + after_s)


def test_the_pod_of_a_failed_node_goes_to_free_room_of_the_rack_and_no_other_moves():
    ran = cycle(gang(racks(spare=True), *HOSTS), 0)
    assert (ran.placed, ran.evicted) == ({"a1-3": "A5"}, {})


@pytest.mark.parametrize("room", [4, 8])
def test_after_the_grace_a_gang_whose_node_failed_goes_whole_and_starts_elsewhere(
    room: int,
) -> None:
    """Worked example X10, with room in rack B for the gang and no more, and X11 with room for 8."""
    broken = gang(racks(spare=False, other=room), *HOSTS)
    first = cycle(broken, 0)
    assert (first.placed, first.evicted) == ({}, {})
    assert "pods of it run in rack A" in next(iter(first.result.records)).message
    late = cycle(broken, GRACE_S - 1, first.memory)
    assert (late.placed, late.evicted) == ({}, {})
    over = cycle(broken, GRACE_S, late.memory)
    assert over.placed == {}, "rack B is not used for one pod of the gang"
    assert over.evicted == {"a1-0": "A1", "a1-1": "A2", "a1-2": "A4"}
    anew = cycle(gang(racks(spare=False, other=room)), GRACE_S + 1, over.memory)
    assert anew.placed == dict.fromkeys(("a1-0", "a1-1", "a1-2", "a1-3"), "B1")


def test_a_gang_that_can_do_without_the_lost_pod_goes_on_and_the_pod_waits():
    enough = gang(racks(spare=False, other=4), *HOSTS, minimum=3)
    first = cycle(enough, 0)
    later = cycle(enough, 10 * GRACE_S, first.memory)
    assert (later.placed, later.evicted) == ({}, {})
    assert later.reasons == {"a1": "NoDomainHasRoom"}
