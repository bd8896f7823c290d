"""Laws of the hand-over between node pools: one owner, one pool, nothing waits for ever.

A model of the shards of a process, and one of processes that serve one pool each, step by step at
random. The stores are the real ones; the API server, the watches, the writers and the decisions are
played here. Watches are late, each by itself; answers to binds are lost; processes die with
requests under way, and what they have sent may arrive long after another one leads their shard.
"""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kaisched.cluster.pools.handover import PoolTurns
from kaisched.cluster.pools.owners import OwnersByCondition, SharedOwners
from kaisched.cluster.store import StateStore, update
from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.objects.labels import IN_POOL
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.wire import Condition
from tests.contract.clusters import make, node, pod

POOLS = ("", "one", "two")
SEEDS = st.integers(0, 1 << 32)
LABEL, LIST = "kai.scheduler/node-pool", "kaisched.io/node-pools"


class Shard:
    """One shard of the process: a store, what its watch has not brought yet, and what it sends."""

    def __init__(self, pool, owners):
        self.pool = pool
        self.store = StateStore(node_pool=pool, owners=owners.for_shard(pool))
        self.turns = PoolTurns(self.store)
        self.watch = []
        self.sending = []


class Model:
    """An API server and one process with a shard for each pool."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.objects = {}
        self.uids = 0
        self.names = {}
        self.binds = Counter()
        for pool in POOLS:
            labels = {LABEL: pool} if pool else {}
            self.put(node(f"n-{pool}", 64, labels=labels))
            spec = {"resources": {"gpu": {"quota": 64}}}
            mine = {**labels, "kaisched.io/project": "team"}
            self.put(make(Queue, f"team-{pool}", labels=mine, spec=spec))
        self.begin()

    # -- the server ------------------------------------------------------------------------------

    def put(self, obj):
        self.objects[obj.KIND, obj.key] = obj
        for shard in getattr(self, "shards", ()):
            shard.watch.append((obj, False))

    def drop(self, obj):
        del self.objects[obj.KIND, obj.key]
        for shard in self.shards:
            shard.watch.append((obj, True))

    def pods(self):
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "Pod"]

    def begin(self):
        """Start a process: it lists everything, kind by kind in any order, before it decides."""
        self.owners = SharedOwners()
        self.shards = [Shard(pool, self.owners) for pool in POOLS]
        for shard in self.shards:
            listed = list(self.objects.values())
            self.dice.shuffle(listed)
            for obj in listed:
                update(shard.store, obj)

    # -- what may happen -------------------------------------------------------------------------

    def new_job(self):
        name = f"g{self.dice.randrange(3)}"
        if ("PodGroup", f"ns/{name}") in self.objects:
            return
        pools = self.dice.sample(["default", "one", "two"], self.dice.randint(1, 3))
        size = self.dice.randint(1, 4)
        spec = {"queue": "team-", "minMember": self.dice.randint(1, size)}
        group = make(PodGroup, name, annotations={LIST: ",".join(pools)}, spec=spec)
        if self.dice.random() < 0.5:
            self.put(group)
        for number in range(size):
            self.new_pod(name, number)
        if ("PodGroup", group.key) not in self.objects:
            self.put(group)

    def new_pod(self, job, number):
        self.uids += 1
        notes = {"pod-group-name": job}
        self.put(pod(f"{job}-{number}", "team-", annotations=notes, uid=f"u{self.uids}"))

    def pod_goes(self):
        """A pod ends or is evicted; another may come in its place."""
        pods = self.pods()
        if pods:
            one = self.dice.choice(pods)
            self.drop(one)
            if self.dice.random() < 0.7:
                job, _, number = one.name.partition("-")
                self.new_pod(job, number)

    def job_goes(self):
        groups = [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "PodGroup"]
        if groups:
            group = self.dice.choice(groups)
            gone = [it for it in self.pods() if it.name.startswith(f"{group.name}-")] + [group]
            self.dice.shuffle(gone)
            for obj in gone:
                self.drop(obj)

    def list_changes(self):
        groups = [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "PodGroup"]
        if groups:
            group = self.dice.choice(groups)
            pools = self.dice.sample(["default", "one", "two"], self.dice.randint(1, 3))
            meta = replace(group.metadata, annotations={LIST: ",".join(pools)})
            self.put(replace(group, metadata=meta))

    def watch_brings(self):
        shard = self.dice.choice(self.shards)
        self.bring(shard, self.dice.randint(1, 5))

    def bring(self, shard, count):
        for _ in range(min(count, len(shard.watch))):
            obj, is_gone = shard.watch.pop(0)
            update(shard.store, obj, is_gone=is_gone)

    def cycle(self):
        """A shard decides: it binds whole gangs, or gives jobs up, by the rules of the stays."""
        shard = self.dice.choice(self.shards)
        snapshot = shard.store.snapshot()
        self.check_owners()
        jobs, tasks = snapshot.jobs, snapshot.tasks
        for row, name in enumerate(jobs.name):
            waiting = [it for it in jobs.tasks[row] if tasks.state[it] == TaskState.PENDING]
            active = sum(bool(ACTIVE_STATES[tasks.state[it]]) for it in jobs.tasks[row])
            if not waiting or jobs.refusal[row] or name not in shard.store.pools.jobs:
                continue
            assert self.owner(shard, name) == shard.pool, (name, shard.pool)
            first = int(jobs.first_podset[row])
            is_whole = active + len(waiting) >= snapshot.podsets.minimum[first]
            if is_whole and self.dice.random() < 0.4:
                for task in waiting:
                    shard.store.assume_bound(tasks.name[task], f"n-{shard.pool}")
                    self.send_bind(shard, tasks.name[task], tasks.uid[task])
            elif not active and shard.turns.is_free(shard.store.pools.jobs[name]):
                others = [it for it in POOLS if it != shard.pool]
                if self.dice.random() < 0.5:
                    shard.store.hand_over(name, self.dice.choice(others))

    def owner(self, shard, job):
        return self.owners.owner(job)

    def send_bind(self, shard, key, uid):
        shard.sending.append((key, uid, f"n-{shard.pool}"))

    def bind_is_sent(self):
        """The server gets a bind; its answer may be lost: then the pod is read some time later."""
        shard = self.dice.choice(self.shards)
        if not shard.sending:
            return
        at = self.dice.randrange(len(shard.sending))
        key, uid, where = shard.sending[at]
        is_done = self.bind(key, uid, where) if self.dice.random() < 0.9 else None
        if is_done is None and self.dice.random() < 0.5:
            return  # it did not arrive, and is sent again
        del shard.sending[at]
        if not is_done:
            shard.store.refute_bind(key, uid)

    def bind(self, key, uid, where):
        found = self.objects.get(("Pod", key))
        if found is None or found.metadata.uid != uid or found.spec.node_name:
            return False
        self.binds[uid] += 1
        self.put(replace(found, spec=replace(found.spec, node_name=where)))
        return True

    def process_dies(self):
        """Requests under way arrive or not; then another process lists and leads."""
        for shard in self.shards:
            for key, uid, where in shard.sending:
                if self.dice.random() < 0.5:
                    self.bind(key, uid, where)
        self.begin()

    # -- what must hold --------------------------------------------------------------------------

    def check_owners(self):
        """No job is in two stores."""
        held = Counter()
        for shard in self.shards:
            members = shard.store.members
            held.update(it for it in shard.store.pools.jobs if members.pods_of(it))
        assert max(held.values(), default=0) <= 1, held

    def check_pools(self):
        """No gang is in two pools, and no pod was bound twice."""
        where = {}
        for one in self.pods():
            if one.spec.node_name:
                where.setdefault(one.name.partition("-")[0], set()).add(one.spec.node_name)
        assert all(len(nodes) == 1 for nodes in where.values()), where
        assert max(self.binds.values(), default=0) <= 1

    def step(self):
        acts = (
            (self.watch_brings, 8),
            (self.cycle, 6),
            (self.bind_is_sent, 6),
            (self.new_job, 2),
            (self.pod_goes, 1),
            (self.job_goes, 0.3),
            (self.list_changes, 0.5),
            (self.process_dies, 0.3),
        )
        act = self.dice.choices([it for it, _ in acts], [weight for _, weight in acts])[0]
        act()
        self.check_owners()
        self.check_pools()

    def settle(self):
        """Let all watches catch up and everything be decided; return the pods that wait."""
        for _ in range(200):
            for shard in self.shards:
                self.bring(shard, len(shard.watch))
            for _ in range(3):
                self.cycle()
                self.bind_is_sent()
            self.check_owners()
            self.check_pools()
        return [it.key for it in self.pods() if not it.spec.node_name and self.is_whole(it)]

    def is_whole(self, one):
        job = one.name.partition("-")[0]
        group = self.objects.get(("PodGroup", f"ns/{job}"))
        pods = [it for it in self.pods() if it.name.startswith(f"{job}-")]
        return group is not None and len(pods) >= group.spec.min_member


class Process:
    """One process: the store of its shard, what its watch has not brought, and what it sends."""

    def __init__(self, pool):
        self.pool = pool
        self.watch, self.sending = [], []
        served = dict.fromkeys(POOLS, True)
        self.owners = OwnersByCondition(pool, served, self.sending.append)
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


def play(model, steps, *, is_settled):
    """Play one run; with ``is_settled`` also that nothing waits for ever."""
    for _ in range(steps):
        model.step()
    if is_settled:
        assert model.settle() == []


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([False, False, False, True]))
def test_no_job_has_two_owners_and_no_gang_two_pools(seed, is_settled):
    play(Model(seed), 120, is_settled=is_settled)


@settings(max_examples=6)
@given(SEEDS, st.sampled_from([False, False, True]))
def test_no_gang_is_in_two_pools_of_two_processes(seed, is_settled):
    play(MarkModel(seed), 200, is_settled=is_settled)
