"""Time-based fairness: what only history justifies must be worth what it destroys (R35)."""

from dataclasses import replace

import pytest

from kaisched.framework.advising import Adviser
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of, usage_of

HOUR_S = 3600.0


def decided(queues, used, weighed_s, pods=16, **arguments):
    """Run a cycle of 16 GPUs; queues by name as (one-GPU pods that run, that wait)."""
    builder = ClusterBuilder().node("n0", gpu=pods)
    for name, (runs, waits) in queues.items():
        builder.queue(name)
        for at in range(runs + waits):
            running = {"n0": 1} if at < runs else None
            builder.job(f"{name}{at}", queue=name, running=running)
    snapshot = builder.store().snapshot()
    usage = replace(usage_of(snapshot, used), weighed_s=weighed_s)
    asked = {"kValue": 1, "evictionCost": "30m", **arguments}
    plugin = {"enabled": True, "arguments": asked}
    policy = policy_of({"plugins": {"time-based-fairshare": plugin}})
    return run_cycle(snapshot, usage, policy, 1e6, Memory())[0]


def cycle(*args, **arguments):
    """Return how many were evicted, and what the jobs of b that wait are told."""
    result = decided(*args, **arguments)
    messages = " ".join(
        record.message for record in result.records if record.pod_group.startswith("default/b")
    )
    return len(result.evictions), messages


# b has used 0.032 of 16 GPUs less than its half, so that its share is 9: after an hour it is owed
# 0.51 GPU-hours, after two 1.02.
LITTLE = {"a": 0.532, "b": 0.468}
AT_PART = {"a": (8, 4), "b": (8, 4)}


@pytest.mark.parametrize(
    ("hours", "more", "evicted"),
    [
        (0.9, {}, 0),
        (1, {}, 1),
        (1, {"evictionCost": "1h"}, 0),
        (2, {"evictionCost": "1h"}, 1),
        (0.1, {"evictionCost": "0s"}, 1),
        pytest.param(0.9, {"windowSize": "4h"}, 1, id="no more than a sixteenth of the history"),
    ],
)
def test_a_gpu_more_than_by_weight_is_taken_when_so_much_is_owed(hours, more, evicted):
    count, messages = cycle(AT_PART, LITTLE, hours * HOUR_S, **more)
    assert count == evicted
    assert ("owes its queue less" in messages) == (not evicted)


def test_who_is_owed_too_little_hears_what_quota_needs_no_debt():
    records = Adviser(decided(AT_PART, LITTLE, 0.9 * HOUR_S)).records()
    found = next(it for it in records if it.pod_group == "default/b8")
    assert found.untaken["reclaim"] == "past usage owes its queue less than an eviction would cost"
    assert "would help: a quota of gpu 9 for queue b" in found.message


def test_what_the_division_without_history_gives_needs_no_debt():
    assert cycle({"a": (10, 4), "b": (6, 4)}, LITTLE, 60.0)[0] == 2


def test_a_gpu_that_cannot_be_divided_is_nobodys_without_a_debt():
    # Of 15 GPUs the older queue has 8 by the largest remainder, of which half a GPU is not its own.
    queues = {"a": (8, 4), "b": (7, 4)}
    assert cycle(queues, {"a": 0.51, "b": 0.49}, HOUR_S, pods=15)[0] == 0
    assert cycle(queues, {"a": 0.51, "b": 0.49}, 24 * HOUR_S, pods=15)[0] == 1
