"""A cluster in memory that is filled from texts, and whose cycles a test runs one by one."""

from kaisched.clock import ManualClock
from kaisched.engine.planning import open_cluster
from kaisched.engine.policy import build_policy
from kaisched.framework.cycle import next_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta


def objects_of(*texts):
    """Return the objects of YAML texts, in which nothing is wrong."""
    loaded = load_text("".join(texts))
    assert loaded.problems == []
    return loaded.objects


class Cycling:
    """A cluster, the policy of a shard, and what is remembered between cycles."""

    def __init__(self, now_s, **spec):
        shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec(**spec))
        self.policy, _ = build_policy(shard)
        self.cluster = open_cluster(shard, self.policy, ManualClock(now_s))
        self.memory = Memory()

    def load(self, *texts):
        self.cluster.load(objects_of(*texts))

    def cycle(self, seconds=1.0):
        """Run a cycle, let what was decided happen, and return the cycle."""
        cycle = next_cycle(
            self.cluster, self.cluster, self.policy, None, self.cluster.clock, self.memory
        )
        self.memory = cycle.memory
        assert not violations(cycle.snapshot, cycle.result, self.policy)
        self.cluster.advance_to(self.cluster.clock.now_s() + seconds)
        return cycle
