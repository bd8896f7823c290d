"""Model of the hand-over of jobs between processes that serve one pool each, step by step.

``python -m tests.laws.pool_marks --runs 10000`` plays so many runs. Each process reads the marks on
pods from a watch of its own, which is late. Requests arrive late, or not, or their answers are
lost. Processes end, and what they have sent may arrive long after another one leads their shard.
"""

from msgspec.structs import replace

from kaisched.cluster.pools.handover import PoolTurns
from kaisched.cluster.pools.owners import MarkedOwners
from kaisched.cluster.store import StateStore, update
from kaisched.objects.labels import IN_POOL
from kaisched.objects.wire import Condition
from tests.laws.pool_hand_over import POOLS, Model, search

STEPS = 400


class Process:
    """One process: the store of its shard, what its watch has not brought, and what it sends."""

    def __init__(self, pool):
        self.pool = pool
        self.watch, self.sending = [], []
        served = dict.fromkeys(POOLS, True)
        self.owners = MarkedOwners(pool, served, self.sending.append)
        self.store = StateStore(node_pool=pool, owners=self.owners)
        self.turns = PoolTurns(self.store)


class MarkModel(Model):
    """The same with a process for each pool; binds carry the version of the pod."""

    def __init__(self, seed):
        self.version = 0
        self.late = []
        """Requests of processes that have ended."""
        super().__init__(seed)

    def put(self, obj):
        self.version += 1
        super().put(
            replace(obj, metadata=replace(obj.metadata, resource_version=str(self.version)))
        )

    def begin(self):
        self.shards = [self.started(pool) for pool in POOLS]

    def started(self, pool):
        """Return a process that has listed everything."""
        process = Process(pool)
        listed = list(self.objects.values())
        self.dice.shuffle(listed)
        for obj in listed:
            update(process.store, obj)
        return process

    def owner(self, shard, job):
        return shard.owners.owner(job)

    def send_bind(self, shard, key, uid):
        version = shard.store.pods.version_of(key)[1]
        shard.sending.append((key, uid, version, f"n-{shard.pool}"))

    def bring(self, shard, count):
        for _ in range(min(count, len(shard.watch))):
            news = shard.watch.pop(0)
            if callable(news):
                news()
            else:
                shard.watch.insert(0, news)
                super().bring(shard, 1)

    def bind_is_sent(self):
        if self.late and self.dice.random() < 0.3:
            self.arrives(self.late.pop(self.dice.randrange(len(self.late))))
            return
        shard = self.dice.choice(self.shards)
        if not shard.sending:
            return
        request = shard.sending[self.dice.randrange(len(shard.sending))]
        if self.dice.random() < 0.1:
            return  # it did not arrive, and is sent again
        is_done = self.arrives(request)
        if self.dice.random() < 0.1:
            return  # its answer was lost: it is sent again, and refused then
        shard.sending.remove(request)
        # What the answer says is taken in after the object as it is now.
        if isinstance(request, tuple) and not hasattr(request, "moves"):
            if not is_done:
                key, uid = request[:2]
                shard.watch.append(lambda: shard.store.refute_bind(key, uid))
        else:
            shard.watch.append(lambda: shard.owners.settled(request))

    def arrives(self, request):
        """Do what a request asks for, if its pod is as the sender has seen it."""
        if not hasattr(request, "moves"):
            key, uid, version, where = request
            found = self.objects.get(("Pod", key))
            if found is None or found.metadata.resource_version != version:
                return found is not None and found.spec.node_name == where
            return self.bind(key, uid, where)
        found = self.objects.get(("Pod", request.pod))
        seen = None if found is None else (found.metadata.uid, found.metadata.resource_version)
        if seen != (request.uid, request.version):
            return False
        condition = Condition(type=IN_POOL, status="True", message=request.text)
        self.put(replace(found, status=replace(found.status, conditions=[condition])))
        return True

    def process_dies(self):
        at = self.dice.randrange(len(self.shards))
        self.late += self.shards[at].sending
        self.shards[at] = self.started(self.shards[at].pool)

    def check_owners(self):
        """Who reads late may take a job for its own that is another's: its binds are refused."""

    def settle(self):
        self.late.clear()
        return super().settle()


if __name__ == "__main__":
    search("tests.laws.pool_marks", MarkModel, STEPS, "no gang was in two pools")
