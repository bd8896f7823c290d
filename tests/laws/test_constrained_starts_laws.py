"""A constraint makes no gang start that would not start without it.

To find out whether such a gang fits at all is hard in general: without a constraint all choices are
tried as far as the steps go. For the gangs drawn here they suffice, so none that starts with a
constraint may wait without, and none that fits.
"""

from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from kaisched import TopologyConstraint
from kaisched.actions.room import placing
from kaisched.testing import ClusterBuilder
from tests.laws.test_fewest_racks_laws import IN_A_RACK, KINDS, drawn, fits, placed, pods_of

LEVELS = (("zone", ""), ("rack", ""), ("", "rack"), ("zone", "rack"), ("", "zone"))
"""(required, preferred) of the whole gang."""


class Tried(NamedTuple):
    """One gang, placed in two ways."""

    with_it: bool
    without: bool
    fits: bool
    """By trying all choices, without a constraint."""


def tried(seed, kind):
    """Place a gang with a constraint and without."""
    case = drawn(seed, kind)
    wish = TopologyConstraint("t", *Random(seed).choice(LEVELS))
    free_nodes = (node for nodes in case.free_nodes.values() for node in nodes)
    return Tried(
        bool(placed(case, wish, IN_A_RACK)),
        bool(placed(case, None, None)),
        fits(tuple(sorted(free_nodes)), pods_of(case.parts)),
    )


def counted(kind, seeds):
    """Return how many gangs start with a constraint, and the seeds of those that wait without.

    And the same of gangs that fit by trying all choices.
    """
    found = {seed: tried(seed, kind) for seed in seeds}
    return (
        sum(it.with_it for it in found.values()),
        [seed for seed, it in found.items() if it.with_it and not it.without],
        sum(it.fits for it in found.values()),
        [seed for seed, it in found.items() if it.fits and not it.without],
    )


DRAWN = 24


@pytest.mark.parametrize("kind", KINDS)
def test_what_starts_with_a_constraint_starts_without_it(kind):
    starts, only, fit, missed = counted(kind, range(2000, 2000 + DRAWN))
    assert fit >= starts > DRAWN / 2
    assert (only, missed) == ([], [])


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("mixed", 42),
        ("mixed", 159),
        ("mixed", 190),
        ("mixed", 626),
        ("nested", 358),
        ("nested", 544),
        ("nested", 824),
        ("mixed in one zone", 167),
        ("nested in one zone", 7),
    ],
)
def test_gangs_that_fit_in_another_order_than_their_own_start_without_a_constraint(kind, seed):
    assert tried(seed, kind).without


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("mixed", 5095),
        ("mixed", 5438),
        ("mixed", 5492),
        ("mixed", 6991),
        ("nested", 326),
        ("nested", 6453),
        ("nested", 7062),
        ("nested in one zone", 326),
    ],
)
def test_gangs_that_fit_in_no_order_start_without_a_constraint(kind, seed):
    assert tried(seed, kind).without


@pytest.mark.parametrize(("taken", "tries"), [(0, 2), (3, 1)])
def test_other_orders_are_tried_only_where_each_kind_of_pods_has_room(taken, tries, monkeypatch):
    """Four pods of a GPU and a core, and two of two cores: enough in sum, and yet they fit not."""
    calls = []
    place = placing._place_idle
    monkeypatch.setattr(placing, "_place_idle", lambda *args: calls.append(1) or place(*args))
    builder = ClusterBuilder().queue("a").node("n0", gpu=4, cpu=5 + taken)
    for at in range(3):
        builder.node(f"m{at}", gpu=0, cpu=1)
    if taken:
        builder.job("a0", queue="a", gpu=0, cpu=taken + 2)  # leaves three cores
    builder.job("a1", queue="a", tasks=6, gpu=1, cpu=1)
    job = builder._jobs[-1]
    wide = [replace(it, request={**it.request, "gpu": 0, "cpu": 2000}) for it in job.tasks[4:]]
    builder._jobs[-1] = replace(job, tasks=[*job.tasks[:4], *wide])
    assert sorted(builder.run("allocate").placed) == (["a0-0"] if taken else [])
    assert len(calls) == tries
