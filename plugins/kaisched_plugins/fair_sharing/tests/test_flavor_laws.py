"""Laws of quotas by flavor, in random trees with two flavors and one or two resources."""

import random
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched import UNLIMITED
from kaisched.core.tables import Flavor, FlavorQuota, Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of
from kaisched_plugins.fair_sharing.quotas import Holdings
from kaisched_plugins.fair_sharing.tests.lending import some_tree, until_rest
from kaisched_plugins.fair_sharing.work import ANY, LOWER, LOWER_OR_NEWER, NEVER

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
POLICY = policy_of(SHARD)
POLICIES = (NEVER, LOWER, LOWER_OR_NEWER, ANY)
NAMES = ("old", "new")
RESOURCES = ("gpu", "cpu")
UNIT = 1000
"""Of both resources, GPUs and cores."""
seeds = st.integers(0, 2**32).map(random.Random)


def quotas_by_flavor(quotas, queue, resources, order):
    """Return the flavors of a queue in the order in which it lists them."""
    columns = quotas.nominal, quotas.borrowing_limit, quotas.lending_limit
    made = []
    for flavor in order:
        parts = tuple(
            FlavorQuota(resource, *(int(column[2 * at + flavor, queue]) for column in columns))
            for at, resource in enumerate(resources)
        )
        made.append(Flavor(NAMES[flavor], parts, (("type", NAMES[flavor]),)))
    return tuple(made)


def some_nodes(made, rng):
    """Add nodes of both flavors; return what each has, by node and flavor."""
    room = {}
    for at in range(rng.randint(2, 5)):
        flavor = rng.randrange(2)
        room[f"n{at}", flavor] = [rng.randint(1, 8), rng.randint(4, 12)]
        gpus, cores = room[f"n{at}", flavor]
        made.node(f"n{at}", gpu=gpus, cpu=cores, labels={"type": NAMES[flavor]})
    return room


def some_queues(made, rng, quotas, resources):
    """Add the queues of a tree; return the flavors that each lists."""
    listed = {}
    for row in range(len(quotas)):
        above = quotas.rows.parent[row]
        order = rng.sample(range(2), 2)
        if not quotas.rows.children[row] and above >= 0 and rng.random() < 0.2:
            order = order[:1]
        listed[row] = order
        sharing = Sharing(
            weight=Fraction(quotas.weight[row]),
            within=rng.choice(POLICIES[:3]),
            across=rng.choice(POLICIES),
            flavors=quotas_by_flavor(quotas, row, resources, order),
            when_can_borrow=rng.choice(("MayStopSearch", "TryNextFlavor")),
            when_can_preempt=rng.choice(("TryNextFlavor", "TryNextFlavor", "MayStopSearch")),
            flavor_preference=rng.choice(("BorrowingOverPreemption", "PreemptionOverBorrowing")),
        )
        parent = f"q{above}" if above >= 0 else ""
        made.queue(f"q{row}", parent=parent, deserved=None, sharing=sharing)
    return listed


def some_world(rng):
    """Return nodes of two flavors, a tree with quotas of each, and work of which some runs."""
    resources = RESOURCES[: rng.randint(1, 2)]
    quotas = some_tree(rng, depth=rng.randint(1, 4), rows=2 * len(resources))
    quotas = replace(
        quotas,
        nominal=quotas.nominal * UNIT,
        borrowing_limit=np.where(
            quotas.borrowing_limit < UNLIMITED, quotas.borrowing_limit * UNIT, UNLIMITED
        ),
        lending_limit=np.where(
            quotas.lending_limit < UNLIMITED, quotas.lending_limit * UNIT, UNLIMITED
        ),
        resource=np.arange(2 * len(resources)) // 2,
    )
    made = ClusterBuilder()
    room = some_nodes(made, rng)
    listed = some_queues(made, rng, quotas, resources)
    leaves = [row for row, below in enumerate(quotas.rows.children) if not below]
    held = Holdings(quotas, np.zeros_like(quotas.nominal))
    for at in range(rng.randint(2, 14)):
        queue = rng.choice(leaves)
        asked = [rng.randint(1, 4), rng.randint(1, 3)]
        node, flavor = rng.choice(sorted(room))
        ask = [(2 * row + flavor, asked[row] * UNIT) for row in range(len(resources))]
        left = [free - it for free, it in zip(room[node, flavor], asked, strict=True)]
        is_free = min(left) >= 0 and flavor in listed[queue] and held.fits(queue, ask)
        runs = rng.random() < 0.7 and is_free
        if runs:
            held.add(queue, ask)
            room[node, flavor] = left
        made.job(
            f"w{at}",
            queue=f"q{queue}",
            gpu=asked[0],
            cpu=asked[1],
            priority=50 + rng.randint(0, 2),
            running={node: 1} if runs else None,
        )
    return made


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_a_cycle_breaks_no_rule_of_the_policy_or_of_the_host(rng):
    """The builder checks every result: room and limits at every level, pair by pair."""
    some_world(rng).run(shard=SHARD)


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_a_cluster_with_flavors_comes_to_rest(rng):
    assert len(until_rest(some_world(rng).store(), POLICY, 60, quiet=2)) < 60


def look_at(count):
    """Tell which of many clusters break a rule or do not come to rest; return the most cycles."""
    worst = 0
    for seed in range(count):
        store = some_world(random.Random(seed)).store()
        snapshot = store.snapshot()
        result, _ = run_cycle(snapshot, None, POLICY, 1e6, Memory())
        broken = violations(snapshot, result, POLICY, with_records=True)
        if broken or result.failures:
            print(f"cluster {seed}: {broken} {result.failures}")
        cycles = len(until_rest(store, POLICY, 60, quiet=2))
        worst = max(worst, cycles)
        if cycles == 60:
            print(f"cluster {seed} does not come to rest")
    return worst


if __name__ == "__main__":
    print(look_at(int(sys.argv[1])))
