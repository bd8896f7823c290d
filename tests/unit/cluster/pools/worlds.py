"""Several shards of one process on one embedded cluster, each with a node pool."""

from functools import partial

from kaisched.clock import ManualClock
from kaisched.cluster.embedded import EmbeddedCluster, EmbeddedPool
from kaisched.cluster.pools.handover import PoolTurns
from kaisched.cluster.pools.owners import SharedOwners
from kaisched.cluster.store import StateStore
from kaisched.engine.policy import build_policy, default_shard
from kaisched.framework.cycle import next_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.queue import Queue
from tests.contract.clusters import make, node, pod, queue

POOL, LIST = "kai.scheduler/node-pool", "kaisched.io/node-pools"


class World:
    """Pools by name, ``default`` for that of nodes without a label; times in seconds."""

    def __init__(
        self, *pools, dwell_s=10.0, order="strict", admits=(), without_shares=(), patience_s=0.0
    ):
        self.owners = SharedOwners()
        values = {name: "" if name == "default" else name for name in pools}
        self._woken = set()
        seats = {
            name: self.owners.for_shard(
                value, admits_all=name in admits, wake=partial(self._woken.add, name)
            )
            for name, value in values.items()
        }
        self.clock = ManualClock()
        first, *others = pools
        self.cluster = EmbeddedCluster(
            self.clock, node_pool=values[first], owners=seats[first], is_recreating=False
        )
        self.ports = {first: EmbeddedPool(self.cluster, self.cluster.store)}
        for name in others:
            offers_shares = name not in without_shares
            store = StateStore(
                node_pool=values[name], owners=seats[name], offers_shares=offers_shares
            )
            self.ports[name] = EmbeddedPool(self.cluster, store)
        self.turns = {
            name: PoolTurns(
                port.store, dwell_s, is_idle_first=order == "idleFirst", patience_s=patience_s
            )
            for name, port in self.ports.items()
        }
        self.memory = dict.fromkeys(pools, Memory())
        self.policy, _ = build_policy(default_shard())
        self.moves = []
        """(Time, job, the pool it went to)."""
        self.is_reading = True
        """Whether why jobs wait is read after every turn: a daemon reads a few reasons only."""
        self.reasons, self.messages = {}, {}

    def load(self, *objects):
        self.cluster.load(objects)

    def delete(self, obj):
        self.cluster.delete(obj)

    def cycle(self, *pools):
        """Let each shard have a turn, in order, and then those that were woken by others."""
        self._turns(pools or self.ports)
        while self._woken:
            woken = sorted(self._woken)
            self._woken.clear()
            self._turns(woken)

    def _turns(self, pools):
        for name in pools:
            port = self.ports[name]
            cycle = next_cycle(port, port, self.policy, None, self.clock, self.memory[name])
            self.memory[name] = cycle.memory
            for record in cycle.result.records if self.is_reading else ():
                self.reasons[record.pod_group, name] = record.reason
                self.messages[record.pod_group, name] = record.message
            now_s = self.clock.now_s()
            moved = self.turns[name].after(cycle.snapshot, cycle.result, now_s)
            self.moves += [(now_s, job, to or "default") for job, to in moved]

    def run_to(self, until_s, step_s=1.0):
        """Let every shard have a turn every so often up to and including a time."""
        self.cycle()
        while self.clock.now_s() < until_s:
            self.cluster.advance_to(self.clock.now_s() + step_s)
            self.cycle()

    def node_of(self, name):
        return self.cluster.pod(f"ns/{name}").spec.node_name

    def pool_of(self, job):
        return self.owners.owner(job) or "default"


def node_in(pool, name, gpus=8, **rest):
    return node(name, gpus, labels={} if pool == "default" else {POOL: pool}, **rest)


def queue_in(pool, name, gpu=4, parent="", project="", **spec):
    labels = {} if pool == "default" else {POOL: pool}
    if project:
        labels["kaisched.io/project"] = project
    resources = {"gpu": {"quota": gpu}}
    return make(
        Queue, name, labels=labels, spec={"parentQueue": parent, "resources": resources, **spec}
    )


def listed(name, pools, gpus=1, queue_name="a", **rest):
    notes = {LIST: pools, **rest.pop("annotations", {})}
    return pod(name, queue_name, gpus, annotations=notes, uid=rest.pop("uid", name), **rest)


__all__ = ["LIST", "POOL", "World", "listed", "node_in", "queue", "queue_in"]
