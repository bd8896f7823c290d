"""What holds of every cluster with topology constraints."""

from collections import Counter
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched import Moves, TopologyConstraint
from kaisched.testing import ClusterBuilder, draw
from kaisched.testing.builder import Group
from kaisched_plugins.topology.invariants import broken

SEEDS = st.integers(0, 1 << 32)
LEVELS = ("zone", "rack", "host")


def nodes_of(rng: Random, most: int, *, is_busy: bool) -> list[str]:
    """Return the lines of some nodes; in a busy cluster small jobs run on them."""
    lines, number = [], 0
    for at in range(rng.randint(2, most)):
        cells = []
        for _ in range(rng.randint(0, 4)):
            runs = is_busy and rng.random() < 0.4
            number += runs
            cells.append(f"v{number}" if runs else ".")
        where = f"zone=z{rng.randint(1, 2)} rack=r{rng.randint(1, 3)}"
        unlabelled = is_busy and rng.random() < 0.1
        lines.append(f"node n{at:02} {'' if unlabelled else where} | {' '.join(cells)}")
    return lines


def wish(rng: Random) -> str:
    """Return a constraint, often none."""
    required, preferred = rng.choice(["", *LEVELS]), rng.choice(["", "", *LEVELS])
    return (f" required={required}" if required else "") + (
        f" preferred={preferred}" if preferred else ""
    )


def busy(seed: int) -> str:
    """Draw a cluster in which jobs run and others, elastic ones too, wait with constraints."""
    rng = Random(seed)
    lines = ["queue v", "queue a deserved=6", "queue b deserved=3"]
    lines += nodes_of(rng, 8, is_busy=True)
    for number in range(1, rng.randint(2, 7)):
        tasks = rng.randint(1, 5)
        size = f"tasks={tasks} min={rng.randint(1, tasks)} gpu={rng.choice([1, 1, 2])}"
        priority = rng.choice([50, 50, 60])
        lines.append(f"job {rng.choice('ab')}{number} {size} priority={priority}{wish(rng)}")
    return "\n".join(lines)


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_required_levels_hold_in_every_cycle(seed):
    """Each cycle is checked against all invariants, those of the plugin among them."""
    world = draw(busy(seed))
    for _ in range(3):
        world = world.after().settled()


def in_parts(seed: int) -> ClusterBuilder:
    """Build a cluster of gangs with subgroups, some of whose pods run."""
    rng = Random(seed)
    builder = ClusterBuilder().topology("t", *LEVELS).queue("v").queue("a", deserved=8)
    nodes = [f"n{at}" for at in range(rng.randint(3, 8))]
    left = {}
    for name in nodes:
        left[name] = rng.randint(1, 5)
        place = {"zone": f"z{rng.randint(1, 2)}", "rack": f"r{rng.randint(1, 2)}", "host": name}
        builder.node(name, gpu=left[name], labels=place)
    for number in range(rng.randint(1, 5)):
        wishes = [TopologyConstraint("t", rng.choice(["", *LEVELS]), "rack") for _ in range(4)]
        parts = tuple(
            Group(f"g{at}", rng.randint(1, 2), topology=rng.choice([None, wishes[at]]))
            for at in range(rng.randint(2, 3))
        )
        podsets = [part.name for part in parts for _ in range((part.minimum or 0) + at_most(rng))]
        running: dict[str, int] = {}
        for _ in range(rng.choice([0, 0, len(podsets)])):
            if free := [name for name in nodes if left[name]]:
                left[chosen := rng.choice(free)] -= 1
                running[chosen] = running.get(chosen, 0) + 1
        builder.job(
            f"j{number}",
            queue=rng.choice("va"),
            tasks=len(podsets),
            running=running,
            groups=Group("", None, parts),
            podsets=podsets,
            topology=rng.choice([None, wishes[3]]),
        )
    return builder


def at_most(rng: Random) -> int:
    """Return how many elastic pods a subgroup has."""
    return rng.choice([0, 0, 1])


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_required_levels_of_subgroups_hold(seed):
    """As above, every result is checked by the rules of the plugin."""
    in_parts(seed).run()


def alone(seed: int, constraint: str) -> tuple[str, int]:
    """Draw idle nodes and one gang; return its size, too."""
    rng = Random(seed)
    pods = rng.randint(1, 10)
    lines = ["queue a", *nodes_of(rng, 12, is_busy=False), f"job a1 tasks={pods} {constraint}"]
    return "\n".join(lines), pods


def domains(text: str) -> dict[str, Counter[tuple[str, str]]]:
    """Return the idle GPUs of each zone, by rack."""
    free: dict[str, Counter[tuple[str, str]]] = {}
    for line in text.splitlines():
        if line.startswith("node"):
            _, _, zone, rack, *_ = line.split()
            free.setdefault(zone, Counter())[zone, rack] += line.count(".")
    return free


def placed(text: str) -> dict[str, str]:
    ran: Any = draw(text).after("allocate").ran
    found: dict[str, str] = ran.placed
    return found


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_gang_starts_if_and_only_if_one_domain_holds_it(seed):
    text, pods = alone(seed, "required=rack")
    holds = any(free >= pods for racks in domains(text).values() for free in racks.values())
    assert len(placed(text)) == (pods if holds else 0)


@given(SEEDS, st.sampled_from(LEVELS), st.sampled_from(["", *LEVELS]))
@settings(max_examples=15, deadline=None)
def test_a_constraint_starts_nothing_that_would_not_start_without_it(seed, required, preferred):
    bound, _ = alone(seed, f"required={required}" + f" preferred={preferred}" * bool(preferred))
    free, pods = alone(seed, "")
    assert len(placed(free)) == pods or not placed(bound)


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_gang_uses_as_few_racks_as_its_zone_allows(seed):
    text, pods = alone(seed, "required=zone preferred=rack")
    rack_of = {
        line.split()[1]: tuple(line.split()[2:4])
        for line in text.splitlines()
        if line.startswith("node")
    }
    used = {rack_of[node] for node in placed(text).values()}
    free = domains(text)
    if not used:
        assert all(sum(racks.values()) < pods for racks in free.values())
        return
    (zone,) = {zone for zone, _ in used}
    assert len(used) == least(list(free[zone].values()), pods)
    if len(used) > 1:
        assert all(room < pods for racks in free.values() for room in racks.values())


def least(free: list[int], pods: int) -> int:
    """Return the least number of domains that hold so many pods, by trying all choices."""
    return next(
        count
        for count in range(len(free) + 1)
        if any(sum(chosen) >= pods for chosen in combinations(free, count))
    )


SPREAD = """
    queue a
    node A1 rack=A | {cell}
    node B1 rack=B | .
    job a1 tasks=2 min={least} {constraint}
"""


@pytest.mark.parametrize(
    ("cell", "least", "told"),
    [
        (".", 2, ["topology default/a1, default: placed outside of one domain of rack"]),
        ("a1", 1, ["topology default/a1, default: placed outside of one domain of rack"]),
    ],
)
def test_the_rule_sees_a_gang_in_two_racks(cell, least, told):
    free: Any = draw(SPREAD.format(cell=cell, least=least, constraint="")).after("allocate").ran
    bound = draw(SPREAD.format(cell=cell, least=least, constraint="required=rack"))
    snapshot = bound.builder().store().snapshot()
    assert list(broken(Moves(snapshot, free.result))) == told
    assert list(broken(Moves(free.snapshot, free.result))) == []


@pytest.mark.parametrize(
    ("node", "told"),
    [
        ("node n0 | . .", "placed on a node without all labels of drawn"),
        ("node n0 rack=A | . .", "placed although level zone of drawn does not exist"),
    ],
)
def test_the_rule_sees_what_has_no_domain(node, told):
    text = "queue a\n" + node + "\nnode n1 rack=A |\njob a1 tasks=2"
    free: Any = draw(text).after("allocate").ran
    level = "zone" if "level zone" in told else "rack"
    snapshot = draw(f"{text} required={level}").builder().store().snapshot()
    assert list(broken(Moves(snapshot, free.result))) == [f"topology default/a1, default: {told}"]


def blocks_and_racks(chosen: dict[str, str]) -> tuple[int, int]:
    """Return how many blocks and racks hold the pods."""
    racks = {node.rpartition("-")[0] for node in chosen.values()}
    return len({rack.partition("-")[0] for rack in racks}), len(racks)


def least_of_both(free: list[list[int]], pods: int) -> tuple[int, int]:
    """Return the fewest blocks, and of these the fewest racks, by trying all choices of racks."""
    racks = [(block, room) for block, some in enumerate(free) for room in some]
    found = []
    for count in range(1, len(racks) + 1):
        for some in combinations(racks, count):
            if sum(room for _, room in some) >= pods:
                found.append((len({block for block, _ in some}), count))  # noqa: PERF401
    return min(found)


def in_blocks(free: list[list[int]], pods: int) -> dict[str, str]:
    """Place a gang with a preferred block; each rack is a node."""
    builder = ClusterBuilder().topology("t", "block", "rack", "host").queue("a")
    for block, some in enumerate(free):
        for rack, room in enumerate(some):
            name = f"b{block}-r{rack}-h"
            place = {"block": f"b{block}", "rack": f"b{block}-r{rack}", "host": name}
            builder.node(name, gpu=room, labels=place)
    builder.job("a1", queue="a", tasks=pods, topology=TopologyConstraint("t", "", "block"))
    placed: dict[str, str] = builder.run("allocate").placed
    return placed


def test_few_blocks_and_then_few_racks():
    """Blocks 9, 8 and 7: 10 pods go to 7 in one rack and 3 in another, not to four racks."""
    free = [[3, 3, 3], [3, 3, 2], [7]]
    assert blocks_and_racks(in_blocks(free, 10)) == (2, 2)


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_a_gang_over_several_blocks_uses_as_few_blocks_and_racks_as_possible(seed):
    rng = Random(seed)
    free = [[rng.randint(1, 5) for _ in range(rng.randint(1, 3))] for _ in range(3)]
    total, largest = sum(map(sum, free)), max(map(sum, free))
    pods = rng.randint(largest + 1, total)
    if largest < total:
        assert blocks_and_racks(in_blocks(free, pods)) == least_of_both(free, pods)
