"""Hints save time and nothing else: a shard that forgets them all decides the same to the byte."""

from hypothesis import given, note
from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.core.axis import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group, Job, Task, add_job
from kaisched.units import MEBIBYTE
from tests.laws.clusters import NOW_S, clusters, policies, told

PENDING, RUNNING, RELEASING = TaskState.PENDING, TaskState.RUNNING, TaskState.RELEASING
changes = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "bind",
                "bind some",
                "finish",
                "delete",
                "released",
                "job",
                "node",
                "cordon",
                "nothing",
            ]
        ),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=6,
)


class World:
    """A store in which time goes by."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.store = cluster.store()
        self.made = 0

    def tasks_in(self, state):
        rows = self.store.tasks
        return [
            row
            for row in range(rows.size)
            if rows.state.data[row] == state and rows.job_of_task.data[row] >= 0
        ]

    def change(self, what, number, result):
        """Let one thing happen."""
        store = self.store
        if what == "bind":
            store.place(result.bind_tasks, result.bind_nodes, TaskState.BINDING)
        elif what == "bind some":
            count = number % (len(result.bind_tasks) + 1)
            store.place(result.bind_tasks[:count], result.bind_nodes[:count], TaskState.BINDING)
        elif what in ("finish", "delete", "released"):
            state, to = {
                "finish": (RUNNING, TaskState.GONE),
                "delete": (TaskState.BINDING, RELEASING),
                "released": (RELEASING, TaskState.GONE),
            }[what]
            if rows := self.tasks_in(state):
                store.set_state(rows[number % len(rows)], to)
        elif what == "job":
            self.made += 1
            name, amount = f"new{self.made}", 1000 * (1 + number % 3)
            tasks = tuple(Task(f"{name}-{at}", {"gpu": amount}) for at in range(2))
            queue = self.cluster.queues[number % len(self.cluster.queues)].name
            add_job(store, Job(name, queue, tasks, root=Group("default", 1 + number % 2)))
        elif what == "node":
            amounts = {"cpu": 8000, "memory": 64 * MEBIBYTE, "gpu": 2000, "pods": 110}
            store.put_node(NodeRow(f"m{number % 3}", amounts))
        elif what == "cordon":
            node = self.cluster.nodes[number % len(self.cluster.nodes)]
            store.put_node(NodeRow(node.name, node.allocatable, is_unschedulable=bool(number % 2)))


@given(clusters, policies, changes)
def test_dropping_hints_changes_no_byte(cluster, policy, happenings):
    note(told(cluster))
    world, memory = World(cluster), Memory()
    late, expected = [], []
    for what, number in happenings:
        snapshot = world.store.snapshot()
        fresh, _ = run_cycle(snapshot, None, policy, NOW_S, memory.without_hints())
        result, memory = run_cycle(snapshot, None, policy, NOW_S, memory)
        expected.append(fresh.encode())
        if number % 2:  # records of the others are read when everything is over
            assert result.encode() == expected[-1]
        late.append(result)
        world.change(what, number, result)
    assert [result.encode() for result in late] == expected


@given(clusters, policies)
def test_the_same_snapshot_again_gives_the_same_bytes(cluster, policy):
    """Nothing that a cycle tried, and nobody did, is taken for granted by the next."""
    note(told(cluster))
    snapshot = cluster.store().snapshot()
    memory, bytes_of = Memory(), []
    for _ in range(3):
        result, memory = run_cycle(snapshot, None, policy, NOW_S, memory)
        bytes_of.append(result.encode())
    assert bytes_of[1:] == bytes_of[:1] * 2
