"""Gangs of unequal pods, and of subgroups, use the fewest racks that can hold them.

The least is hard to find for such gangs, and the plugin does not try all choices: it is to be found
in at least 97 of 100. Gangs of equal pods always get it, see the laws of the plugin.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import combinations, product
from random import Random
from typing import NamedTuple

import pytest

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

SHAPES = ((1, 1), (2, 1), (0, 3), (1, 3))
"""(GPUs, cores) of a pod."""
WISH = TopologyConstraint("t", "zone", "rack")
IN_A_RACK = TopologyConstraint("t", "rack")
KINDS = ("mixed", "nested", "mixed in one zone", "nested in one zone")
ENOUGH = 0.97


class Case(NamedTuple):
    """Idle nodes and one gang."""

    free_nodes: dict
    """What is free on each node of a rack, such as A1."""
    parts: tuple
    """The pods of each subgroup, which is in one rack if the gang is nested."""
    is_nested: bool


def drawn(seed, kind):
    """Draw at most 12 nodes in at most 6 racks, and a gang of at most 8 pods."""
    dice = Random(seed)
    racks = (
        [f"A{at}" for at in range(6)]
        if "one zone" in kind
        else ["A1", "A2", "A3", "B1", "B2", "B3"]
    )
    free_nodes = {}
    for _ in range(dice.randint(3, 12)):
        rack = dice.choice(racks)
        free_nodes[rack] = (*free_nodes.get(rack, ()), (dice.randint(0, 4), dice.randint(2, 8)))
    if kind.startswith("nested"):
        pods = [dice.choice(SHAPES) for _ in range(dice.randint(2, 4))]
        return Case(free_nodes, tuple((pod,) * dice.randint(1, 2) for pod in pods), is_nested=True)
    pods = [(pod,) for pod in dice.sample(SHAPES, 2) for _ in range(dice.randint(1, 4))]
    return Case(free_nodes, tuple(pods), is_nested=False)


def placed(case, wish=WISH, of_parts=IN_A_RACK):
    """Run allocate; return the racks of the pods."""
    builder = ClusterBuilder().topology("t", "zone", "rack").queue("a")
    for rack, free_nodes in case.free_nodes.items():
        for at, (gpu, cpu) in enumerate(free_nodes):
            builder.node(f"{rack}-{at}", gpu=gpu, cpu=cpu, labels={"zone": rack[0], "rack": rack})
    pods = [pod for part in case.parts for pod in part]
    nested = {}
    if case.is_nested:
        leaves = [Group(f"g{at}", len(it), topology=of_parts) for at, it in enumerate(case.parts)]
        podsets = [f"g{at}" for at, part in enumerate(case.parts) for _ in part]
        nested = {"groups": Group("", None, tuple(leaves)), "podsets": podsets}
    builder.job("a1", queue="a", tasks=len(pods), topology=wish, **nested)
    job = builder._jobs[-1]
    tasks = [
        replace(task, request={**task.request, "gpu": gpu * 1000, "cpu": cpu * 1000})
        for task, (gpu, cpu) in zip(job.tasks, pods, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return [node.partition("-")[0] for node in builder.run("allocate").placed.values()]


@lru_cache(maxsize=1 << 16)
def fits(free_nodes, pods):
    """Tell whether pods fit on nodes, by trying each node for the first pod."""
    if not pods:
        return True
    (gpu, cpu), rest = pods[0], pods[1:]
    for at, (gpus, cpus) in enumerate(free_nodes):
        if gpus >= gpu and cpus >= cpu:
            left = (*free_nodes[:at], *free_nodes[at + 1 :], (gpus - gpu, cpus - cpu))
            if fits(tuple(sorted(left)), rest):
                return True
    return False


def holds(case, racks):
    """Tell whether a gang fits in some racks, by trying each rack for each part of a nested one."""
    if not case.is_nested:
        nodes = (node for rack in racks for node in case.free_nodes[rack])
        return fits(tuple(sorted(nodes)), pods_of(case.parts))
    return any(
        all(
            fits(
                tuple(sorted(case.free_nodes[rack])),
                pods_of(part for part, of in zip(case.parts, chosen, strict=True) if of == rack),
            )
            for rack in racks
        )
        for chosen in product(racks, repeat=len(case.parts))
    )


def pods_of(parts):
    return tuple(sorted((pod for part in parts for pod in part), reverse=True))


def least(case, zones):
    """Return the fewest racks of one of these zones that hold a gang; 0 if none do."""
    for count in range(1, 7):
        for zone in zones:
            racks = sorted(rack for rack in case.free_nodes if rack[0] == zone)
            if any(holds(case, some) for some in combinations(racks, count)):
                return count
    return 0


def verdict(case):
    """Return how many racks a gang uses, and the least in its zone; 0 for a gang that waits."""
    used = set(placed(case))
    return len(used), least(case, {rack[0] for rack in used} or {"A", "B"})


def counted(kind, seeds):
    """Return how often a gang could start, and the seeds with more than the fewest racks."""
    fit, missed = 0, []
    for seed in seeds:
        used, fewest = verdict(drawn(seed, kind))
        fit += fewest > 0
        if used != fewest:
            missed.append((seed, used, fewest))
    return fit, missed


DRAWN = 24


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_gangs_use_the_fewest_racks(kind):
    fit, missed = counted(kind, range(1000, 1000 + DRAWN))
    assert fit > DRAWN / 2
    assert len(missed) <= (1 - ENOUGH) * fit, missed


@pytest.mark.parametrize(
    ("kind", "seed", "fewest"),
    [
        ("mixed", 42, 2),
        ("mixed", 51, 2),
        ("mixed", 62, 1),
        ("nested", 3, 2),
        ("nested", 41, 2),
        ("nested", 51, 2),
        ("mixed in one zone", 14, 3),
        ("nested in one zone", 60, 2),
    ],
)
def test_gangs_that_the_first_choice_of_each_pod_would_spread(kind, seed, fewest):
    """Pods placed one after the other, each in the best rack for itself, use more or do not fit."""
    assert verdict(drawn(seed, kind)) == (fewest, fewest)
