"""What history evicts for is worth it, and nobody is refused for ever (R35).

Full clusters of equal queues without quotas, so that all who wait claim, and no other rule decides.
"""

import random
from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of, usage_of
from tests.oracles.water_filling import fill

WEEK_S = 7 * 24 * 3600.0
SEEDS = st.integers(0, 1 << 30)
COUNTS = st.integers(2, 6)
STRENGTHS = st.sampled_from([0.3, 1.0, 2.0])


class FullCluster:
    """Nodes of 8 GPUs; jobs of up to ``most`` GPUs that are named after their queues."""

    def __init__(self, seed, count, most):
        dice = random.Random(seed)
        nodes = dice.randint(1, 3)
        names = [f"q{at}" for at in range(count)]
        self.gpus = 8 * nodes
        self.builder, self.held = ClusterBuilder(), dict.fromkeys(names, 0)
        for name in names:
            self.builder.queue(name)
        for node in range(nodes):
            self.builder.node(f"n{node}", gpu=8)
            free = 8
            while free:
                gpus, queue = min(dice.randint(1, most), free), dice.choice([names[0], *names])
                name = f"{queue}.r{node}{free}"
                self.builder.job(name, queue=queue, gpu=gpus, running={f"n{node}": 1})
                self.held[queue] += gpus
                free -= gpus
        self.asked = dict(self.held)
        for name in names:
            for at in range(dice.choice([0, 1, 4])):
                gpus = dice.randint(1, most)
                self.builder.job(f"{name}.w{at}", queue=name, gpu=gpus)
                self.asked[name] += gpus
        self.used = {name: dice.random() / count for name in names}

    def decided(self, used, weighed_s, **arguments):
        """Return (queue, pod) of the pods that a cycle evicts, and of those that it promises."""
        snapshot = self.builder.store().snapshot()
        usage = replace(usage_of(snapshot, used), weighed_s=weighed_s)
        plugin = {"enabled": True, "arguments": arguments}
        policy = policy_of({"plugins": {"time-based-fairshare": plugin}})
        result, _ = run_cycle(snapshot, usage, policy, 1e6, Memory())
        assert not result.failures
        return [
            sorted(each.pod.removeprefix("default/").split(".", 1) for each in intents)
            for intents in (result.evictions, result.nominations)
        ]


@settings(max_examples=8)
@given(SEEDS, COUNTS, STRENGTHS)
def test_who_stood_still_for_a_whole_history_is_refused_nothing(seed, count, k):
    """What one queue owes another grows for as long as it holds more: in the end it is enough."""
    cluster = FullCluster(seed, count, most=4)
    used = {name: held / cluster.gpus for name, held in cluster.held.items()}
    free = cluster.decided(used, WEEK_S, kValue=k, evictionCost="0s")
    event("evicts" if free[0] else "evicts nothing")
    assert cluster.decided(used, WEEK_S, kValue=k) == free


@settings(max_examples=8)
@given(SEEDS, COUNTS, STRENGTHS)
def test_where_nothing_is_owed_history_evicts_nobody(seed, count, k):
    """Who loses held more than its part without history, and who gains stays within it."""
    cluster = FullCluster(seed, count, most=1)
    evicted, promised = cluster.decided(cluster.used, 0.0, kValue=k)
    parts = dict(
        zip(
            cluster.asked,
            fill(cluster.gpus, list(cluster.asked.values()), [1] * count),
            strict=True,
        )
    )
    event("evicts" if evicted else "evicts nothing")
    for name, part in parts.items():
        lost = sum(queue == name for queue, _ in evicted)
        gained = sum(queue == name for queue, _ in promised)
        assert not lost or cluster.held[name] - lost > part - 1
        assert not gained or cluster.held[name] + gained <= part


@settings(max_examples=12)
@given(SEEDS, COUNTS, STRENGTHS)
def test_nothing_is_taken_for_a_queue_that_owes_it(seed, count, k):
    """Up to what history may grant at most: a share and k times a share."""
    cluster = FullCluster(seed, count, most=3)
    evicted, promised = cluster.decided(cluster.used, WEEK_S, kValue=k)
    takers = {queue for queue, _ in promised}
    event("evicts" if evicted and len(takers) == 1 else "evicts nothing, or for several")
    if len(takers) != 1:
        return
    (taker,) = takers
    parts = fill(cluster.gpus, list(cluster.asked.values()), [1] * count)
    for name, part in zip(cluster.asked, parts, strict=True):
        if any(queue == name for queue, _ in evicted) and cluster.held[name] <= part * (1 + k):
            assert cluster.used[taker] <= cluster.used[name]
