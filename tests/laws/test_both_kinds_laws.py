"""Clusters on the way from a device plugin to a driver decide as if all nodes had the plugin.

Pods ask for GPUs as an extended resource. Whether a node gives them by its plugin or by claims, and
when it changes, must not matter to who runs where, who is evicted and what queues hold, for any
history. Claims are there for the pods on nodes without the plugin, and for no others.
"""

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.axis import GPU
from tests.unit.cluster.claims.test_both_kinds import (
    NVIDIA,
    OTHER,
    asking_pod,
    backed,
    plugin_node,
    users,
)

QUEUES = ("red", "blue", "green")
EVENTS = st.one_of(
    st.tuples(
        st.just("pod"),
        st.sampled_from(QUEUES),
        st.integers(1, 3),
        st.sampled_from(["train", "build"]),
        st.integers(1, 3),
    ),
    st.tuples(st.just("end"), st.integers(0, 20)),
)
TURNS = st.tuples(st.just("turn"), st.integers(2, 4))
QUOTAS = st.fixed_dictionaries({name: st.integers(0, 4) for name in QUEUES})
NODES = st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=3, max_size=5)


def histories(events):
    """Draw nodes as (GPUs, whether by claims), quotas, and what happens before each cycle."""
    steps = st.lists(st.lists(events, max_size=4), min_size=2, max_size=5)
    return st.tuples(NODES, QUOTAS, steps)


class Run:
    """A history of a cluster with nodes of both kinds, or of one in which all have the plugin."""

    def __init__(self, nodes, quotas, resource, *, is_bridged):
        self.world = backed(resource, **quotas)
        self._resource, self._is_bridged = resource, is_bridged
        self._nodes = [nodes[0][0], nodes[1][0], *(gpus for gpus, _ in nodes[2:])]
        self._by_claim = [False, True, *(it for _, it in nodes[2:])]
        self._serial = count()
        for at in range(len(nodes)):
            self._put(at)

    def _put(self, at):
        name, gpus = f"n{at}", self._nodes[at]
        if self._by_claim[at] and self._is_bridged:
            self.world.node(name, *["H100"] * gpus)
            return
        plugin_node(self.world, name, gpus, self._resource)
        self.world.remove("ResourceSlice", f"{name}-gpus")

    def happen(self, kind, *what):
        """Let a job come, a pod end, or a node change."""
        if kind == "pod":
            self._add(*what)
        elif kind == "turn" and what[0] < len(self._nodes):
            self._by_claim[what[0]] ^= True
            self._put(what[0])
        elif kind == "end":
            placed = sorted(it for it, node in self.world.nodes.items() if node)
            if placed:
                self.world.delete(placed[what[0] % len(placed)])

    def _add(self, queue, gpus, priority, size):
        world, name = self.world, f"w{next(self._serial)}"
        labels = {"kai.scheduler/queue": queue, "priorityClassName": priority}
        if size > 1:
            spec = {"minMember": size, "priorityClassName": priority, "queue": queue}
            world.put("PodGroup", name, "team", metadata={"labels": labels}, spec=spec)
        for at in range(size):
            of = {"queue": queue, "group": name if size > 1 else "", "labels": labels}
            asking_pod(world, f"{name}-{at}", gpus, self._resource, **of)

    def cycle(self):
        """Return what a cycle decides, and what queues hold then."""
        result = self.world.cycle()
        devices = [
            (it.pool, it.device)
            for claim in self.world.claims()
            for it in claim.status.allocation.devices.results
        ]
        assert len(devices) == len(set(devices))
        snapshot = self.world.cluster.snapshot()
        is_gpu = self._resource == NVIDIA
        return (
            self.world.nodes,
            sorted((it.pod, it.node) for it in result.binds),
            sorted((it.pod, it.action) for it in result.evictions),
            sorted((it.pod, it.node) for it in result.nominations),
            sorted((it.pod_group.partition("-uid-")[0], it.reason) for it in result.records),
            snapshot.total[GPU] if is_gpu else 0,
            snapshot.allocated[GPU].tolist() if is_gpu else 0,
        )

    def with_claims(self):
        """Return the pods on nodes that give by claims now."""
        nodes = {f"n{at}" for at, it in enumerate(self._by_claim) if it and self._is_bridged}
        return sorted(it for it, node in self.world.nodes.items() if node in nodes)


def check(history, resource=NVIDIA, *, are_fixed=True):
    """Compare a history on both kinds of nodes with the same on nodes with the plugin only."""
    nodes, quotas, steps = history
    both = Run(nodes, quotas, resource, is_bridged=True)
    plugin = Run(nodes, quotas, NVIDIA, is_bridged=False)
    parts = 7 if resource == NVIDIA else 5
    for step in steps:
        for event in step:
            both.happen(*event)
            plugin.happen(*event)
        assert both.cycle()[:parts] == plugin.cycle()[:parts]
        if are_fixed:
            assert users(both.world) == both.with_claims()


@settings(max_examples=8)
@given(histories(EVENTS))
def test_gpus_by_claim_are_decided_about_as_gpus_by_plugin(history):
    check(history)


@settings(max_examples=6)
@given(histories(EVENTS))
def test_a_resource_that_only_its_class_says_is_gpus_is_decided_about_as_gpus_are(history):
    check(history, OTHER)


@settings(max_examples=12)
@given(histories(st.one_of(EVENTS, EVENTS, TURNS)))
def test_a_node_may_change_at_any_time_with_pods_on_it(history):
    check(history, are_fixed=False)
