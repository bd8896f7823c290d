"""B8: time-based fairness in virtual time. Two queues of whole-cluster jobs, a cycle a step."""

from typing import Any

from tests.benchmarks.harness import Measured, Watch, expect
from tests.timelines.virtual import STEP_S, VirtualCluster, Work

GPUS = 16
HALF_LIFE = 128
BY_WEIGHTS = [0, 1, 30, 270, 510, 750, 990]
"""Published for KAI-Scheduler's rule at k = 1."""


def cluster(hand_over: str) -> VirtualCluster:
    arguments = {"handOver": hand_over, "halfLifePeriod": f"{HALF_LIFE * STEP_S:.0f}s"}
    shard = {"plugins": {"time-based-fairshare": {"enabled": True, "arguments": arguments}}}
    work = [Work(name, GPUS) for name in "ab"]
    queues: dict[str, dict[str, Any]] = {"a": {}, "b": {}}
    return VirtualCluster([GPUS], queues, work, shard, HALF_LIFE, sliding=256, is_instant=True)


def oscillate(repeat: int, cycles: int, hand_over: str) -> Measured:
    """Run all cycles, the clockwork around them included."""
    watch = Watch()
    for _ in range(repeat):
        ran = cluster(hand_over)
        watch.time(lambda ran=ran: ran.run(cycles))
    marks = ran.handovers("ab")
    if hand_over == "none":
        expect(marks == [at for at in BY_WEIGHTS if at < cycles], f"hand-overs at {marks}")
    else:
        expect(cycles // 14 < len(marks) <= 1 + cycles // 11, f"{len(marks)} hand-overs")
    expect(all(sum(row.values()) <= GPUS for row in ran.held), "more was held than there is")
    return Measured(watch, {"handovers": len(marks)})
