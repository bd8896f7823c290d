"""Laws of pools: random trees in which leaf queues have members that share by past usage."""

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.cluster.queues import QueueRow
from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import policy_of, usage_of
from kaisched_plugins.fair_sharing.tests.lending import until_rest
from kaisched_plugins.fair_sharing.tests.test_lending_laws import some_world

OFF = {"enabled": False}
HISTORY = {"clientType": "memory", "usageParams": {"halfLifePeriod": "1d", "windowSize": "1w"}}
seeds = st.integers(0, 2**32).map(random.Random)
modes = st.sampled_from([{}, {"isCompatible": True}, {"isClassical": True}])


def shard_of(arguments):
    plugins = {
        "proportion": {"enabled": False},
        "time-based-fairshare": OFF,
        "fair-sharing": {"enabled": True, "arguments": arguments},
    }
    return {"plugins": plugins, "usageDBConfig": HISTORY}


def pooled(made, rng, most):
    """Turn each leaf queue into a pool of up to ``most`` members; return what they used lately."""
    above = {queue.parent for queue in made._queues}
    members, used = {}, {}
    for at, queue in enumerate(list(made._queues)):
        if queue.name in above:
            continue
        sharing = replace(queue.sharing, is_by_usage=True)
        made._queues[at] = replace(queue, sharing=sharing)
        members[queue.name] = [f"{queue.name}m{number}" for number in range(rng.randint(1, most))]
        for name in members[queue.name]:
            weight = Sharing(weight=rng.choice([0, 1, 1, 2]))
            made._queues.append(QueueRow(name, queue.name, queue.created_s, sharing=weight))
            used[name] = rng.choice([0.0, 0.1, 0.1, 0.3])
    made._jobs[:] = [replace(job, queue=rng.choice(members[job.queue])) for job in made._jobs]
    return used


@given(seeds, modes)
@settings(max_examples=15, deadline=None)
def test_a_cycle_breaks_no_rule_of_the_policy_or_of_the_host(rng, arguments):
    """The builder checks every result against the invariants of both."""
    made = some_world(rng)
    used = pooled(made, rng, 3)
    made.run(shard=shard_of(arguments), usage=used)


def moves_of(made, policy, used):
    snapshot = made.store().snapshot()
    usage = usage_of(snapshot, used)
    result, _ = run_cycle(snapshot, usage, policy, 1e6, Memory())
    assert not result.failures
    return (
        [bind.pod for bind in result.binds],
        [(each.pod, each.beneficiary) for each in result.evictions],
        [each.pod for each in result.nominations],
    )


@given(seeds, modes)
@settings(max_examples=15, deadline=None)
def test_a_pool_of_one_member_decides_as_a_queue(rng, arguments):
    made, policy = some_world(rng), policy_of(shard_of(arguments))
    plain = moves_of(made, policy, {})
    used = pooled(made, rng, 1)
    assert moves_of(made, policy, used) == plain


@given(seeds, modes)
@settings(max_examples=10, deadline=None)
def test_a_cluster_with_pools_comes_to_rest(rng, arguments):
    made = some_world(rng)
    pooled(made, rng, 3)
    assert len(until_rest(made.store(), policy_of(shard_of(arguments)), 40)) < 40
