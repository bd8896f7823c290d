"""Law of lists of node pools: whatever came first, each job is where a new process would have it.

Groups and pods get and lose lists and labels, queues come and go with lists of their own, and nodes
change their pool, while the watches of shards are late. Once all have caught up, one shard has each
job; jobs without a list are in the same pool, queue and state as in a process that begins then.
"""

import pytest
from msgspec.structs import replace

from kaisched.core.axis import TaskState
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from tests.contract.clusters import make, node, pod
from tests.laws.test_node_pool_laws import LABEL, LIST, POOLS, Model

NAMES = ("default", "one", "two")


class ListModel(Model):
    """Jobs have lists or labels, and nothing is bound; see the model of the hand-over."""

    def whose(self):
        """Draw a list or a label: (annotations, labels)."""
        if self.dice.random() < 0.4:
            return {}, label_of(self.dice.choice(POOLS))
        return {LIST: ",".join(self.dice.sample(NAMES, self.dice.randint(1, 3)))}, {}

    def new_job(self):
        name = f"g{self.dice.randrange(4)}"
        if ("PodGroup", f"ns/{name}") in self.objects or self.pods_of(name):
            return
        notes, labels = self.whose()
        queue = self.dice.choice(["team-", "team-one", "team-two", "team", "typo"])
        group = make(PodGroup, name, annotations=notes, labels=labels, spec={"queue": queue})
        parts = [group, *range(self.dice.randint(1, 3))]
        self.dice.shuffle(parts)
        for part in parts:
            if part is group:
                self.put(group)
            else:
                self.new_pod(name, part, labels)

    def new_pod(self, job, number, labels=None):
        self.uids += 1
        group = self.objects.get(("PodGroup", f"ns/{job}"))
        if labels is None:
            labels = group.metadata.labels if group is not None else {}
        notes = {"pod-group-name": job}
        uid = f"u{self.uids}"
        self.put(pod(f"{job}-{number}", "team-", annotations=notes, labels=labels, uid=uid))

    def pods_of(self, job):
        return [it for it in self.pods() if it.name.startswith(f"{job}-")]

    def groups(self):
        return [obj for (kind, _), obj in sorted(self.objects.items()) if kind == "PodGroup"]

    def list_changes(self):
        if groups := self.groups():
            group = self.dice.choice(groups)
            notes, labels = self.whose()
            self.put(replace(group, metadata=renamed(group, labels, annotations=notes)))
            for one in self.pods_of(group.name):
                self.put(replace(one, metadata=renamed(one, labels)))

    def group_goes(self):
        if groups := self.groups():
            self.drop(self.dice.choice(groups))

    def queue_changes(self):
        pool = self.dice.choice(POOLS)
        key = ("Queue", f"team-{pool}")
        if key in self.objects and self.dice.random() < 0.6:
            self.drop(self.objects[key])
        else:
            lists = self.dice.sample(NAMES, 2) if self.dice.random() < 0.3 else []
            self.new_queue(pool, lists)

    def new_queue(self, pool, lists=()):
        labels = {**label_of(pool), "kaisched.io/project": "team"}
        spec = {"resources": {"gpu": {"quota": 64}}, "nodePools": list(lists)}
        self.put(make(Queue, f"team-{pool}", labels=labels, spec=spec))

    def node_moves(self):
        self.put(node(f"n-{self.dice.choice(POOLS)}", 64, labels=label_of(self.dice.choice(POOLS))))

    def a_shard_looks(self):
        self.dice.choice(self.shards).store.snapshot()

    def step(self):
        acts = (
            (self.watch_brings, 8),
            (self.a_shard_looks, 4),
            (self.new_job, 3),
            (self.pod_goes, 1),
            (self.job_goes, 0.3),
            (self.list_changes, 1),
            (self.queue_changes, 0.7),
            (self.group_goes, 0.3),
            (self.node_moves, 0.3),
        )
        self.dice.choices([it for it, _ in acts], [weight for _, weight in acts])[0]()

    def catch_up(self):
        for shard in self.shards:
            self.bring(shard, len(shard.watch))
        for _ in range(4):
            for shard in self.shards:
                shard.store.snapshot()

    def where(self):
        """Return, by pod that waits, who has it: (pool, queue, state of its job)."""
        found = {}
        for shard in self.shards:
            snapshot = shard.store.snapshot()
            jobs, tasks = snapshot.jobs, snapshot.tasks
            for name, row in shard.store.rows.jobs.row_of_name.items():
                is_listed = name in shard.store.pools.jobs
                pool = "by its list" if is_listed else shard.pool
                queue = "" if is_listed else jobs.queue_name[row]
                for task in jobs.tasks[row]:
                    if tasks.state[task] == TaskState.PENDING:
                        said = (pool, queue, int(jobs.refusal[row]))
                        found.setdefault(tasks.name[task], []).append(said)
        return found


def label_of(pool):
    return {LABEL: pool} if pool else {}


def renamed(obj, labels, **rest):
    others = {key: value for key, value in obj.metadata.labels.items() if key != LABEL}
    return replace(obj.metadata, labels={**others, **labels}, **rest)


@pytest.mark.parametrize("seed", range(8))
def test_each_job_is_where_a_new_process_would_have_it(seed):
    model = ListModel(seed)
    for _ in range(80):
        model.step()
    for pool in POOLS:  # else a job may be refused in one pool and not in another of its list
        model.new_queue(pool)
    model.catch_up()
    found = model.where()
    assert found.keys() == {it.key for it in model.pods()}
    assert all(len(each) == 1 for each in found.values())
    model.begin()
    model.catch_up()
    assert model.where() == found
