"""Clusters on the way from a device plugin to a driver decide as if all nodes had the plugin.

Pods ask for GPUs as an extended resource. Whether a node gives them by its plugin or by claims must
not matter to who runs where, who is evicted and what queues hold, for any history. Claims are there
for the pods on nodes without the plugin, and for no others.
"""

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


@st.composite
def histories(draw):
    """Draw nodes as (GPUs, whether by claims), quotas, and what happens before each cycle."""
    nodes = draw(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=2, max_size=5))
    quotas = {name: draw(st.integers(0, 4)) for name in QUEUES}
    steps = draw(
        st.lists(
            st.lists(
                st.one_of(
                    st.tuples(
                        st.just("pod"), st.sampled_from(QUEUES), st.integers(1, 3),
                        st.sampled_from(["train", "build"]), st.integers(1, 3),
                    ),
                    st.tuples(st.just("end"), st.integers(0, 20)),
                ),
                max_size=4,
            ),
            min_size=2, max_size=5,
        )
    )  # fmt: skip
    return nodes, quotas, steps


def happen(world, step, serial, resource):
    """Let pods come and go."""
    for kind, *what in step:
        if kind == "end":
            placed = sorted(it for it, node in world.nodes.items() if node)
            if placed:
                world.delete(placed[what[0] % len(placed)])
            continue
        queue, gpus, priority, size = what
        name = f"w{next(serial)}"
        labels = {"kai.scheduler/queue": queue, "priorityClassName": priority}
        if size > 1:
            spec = {"minMember": size, "priorityClassName": priority, "queue": queue}
            world.put("PodGroup", name, "team", metadata={"labels": labels}, spec=spec)
        for at in range(size):
            group = name if size > 1 else ""
            asking_pod(
                world, f"{name}-{at}", gpus, resource, queue=queue, group=group, labels=labels
            )


def run(nodes, quotas, steps, resource, *, is_bridged):
    """Yield what is decided in each cycle, and what queues hold of what after it."""
    world = backed(resource, **quotas)
    for at, (gpus, by_claim) in enumerate(nodes):
        if is_bridged and by_claim:
            world.node(f"n{at}", *["H100"] * gpus)
        else:
            plugin_node(world, f"n{at}", gpus, resource)
    claimed = {f"n{at}" for at, (_, by_claim) in enumerate(nodes) if is_bridged and by_claim}
    serial = iter(range(1000))
    for step in steps:
        happen(world, step, serial, resource)
        result = world.cycle()
        with_claim = sorted(it for it, node in world.nodes.items() if node in claimed)
        assert users(world) == with_claim
        devices = [
            (it.pool, it.device)
            for claim in world.claims()
            for it in claim.status.allocation.devices.results
        ]
        assert len(devices) == len(set(devices))
        snapshot = world.cluster.snapshot()
        yield (
            world.nodes,
            [(it.pod, it.node) for it in result.binds],
            [(it.pod, it.action) for it in result.evictions],
            [(it.pod, it.node) for it in result.nominations],
            [(it.pod_group.partition("-uid-")[0], it.reason) for it in result.records],
            snapshot.total[GPU] if resource == NVIDIA else 0,
            snapshot.allocated[GPU].tolist() if resource == NVIDIA else 0,
        )


@settings(max_examples=25)
@given(histories())
def test_gpus_by_claim_are_decided_about_as_gpus_by_plugin(history):
    nodes, quotas, steps = history
    nodes = [(nodes[0][0], False), (nodes[1][0], True), *nodes[2:]]
    bridged = run(nodes, quotas, steps, NVIDIA, is_bridged=True)
    for one, other in zip(
        bridged, run(nodes, quotas, steps, NVIDIA, is_bridged=False), strict=True
    ):
        assert one == other


@settings(max_examples=10)
@given(histories())
def test_a_resource_that_only_the_class_makes_gpus_is_counted_as_gpus_are(history):
    nodes, quotas, steps = history
    nodes = [(nodes[0][0], False), (nodes[1][0], True), *nodes[2:]]
    bridged = run(nodes, quotas, steps, OTHER, is_bridged=True)
    for one, other in zip(
        bridged, run(nodes, quotas, steps, NVIDIA, is_bridged=False), strict=True
    ):
        assert one[:5] == other[:5]
