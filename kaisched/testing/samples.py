"""Varied sample clusters for the plugin kit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kaisched.cluster.rowstore import RowStore
from kaisched.core.constraints import Constraints, PodTerm, Requirement, Taint
from kaisched.testing.builder import ClusterBuilder
from kaisched.testing.rows import Group

_ZONE: Final = "topology.kubernetes.io/zone"


def samples() -> dict[str, Callable[[], RowStore]]:
    """Return makers of stores by name; each call makes a new, equal store."""
    return {"empty": _empty, "idle": _idle, "busy": _busy}


def _empty() -> RowStore:
    """Make a cluster with nothing but a queue."""
    return ClusterBuilder().queue("a").store()


def _idle() -> RowStore:
    """Make a cluster with room for all jobs."""
    return (
        ClusterBuilder()
        .node("n0", gpu=8)
        .node("n1", gpu=4)
        .node("cpu", cpu=64)
        .queue("a", deserved=2)
        .queue("b", deserved=2, weight=3)
        .job("a1", queue="a", tasks=3, min_tasks=2)
        .job("b1", queue="b", gpu=0, cpu=4)
        .store()
    )


def _busy() -> RowStore:
    """Make queues at their bounds, pods in every state, constraints and subgroups."""
    builder = (
        ClusterBuilder()
        .node("n0", gpu=4, labels={_ZONE: "east"})
        .node("n1", gpu=4, labels={_ZONE: "west"}, taints=[Taint("gpu", "yes", "NoSchedule")])
        .node("n2", gpu=2, is_unschedulable=True)
        .node("n3", cpu=8, memory=16, labels={_ZONE: "east"})
        .queue("top", deserved=6, limit=8)
        .queue("a", parent="top", deserved=2, limit={"gpu": 3, "cpu": 12})
        .queue("b", parent="top", deserved=0, weight=2, priority=200)
        .queue("c", deserved=None)
        .job("a1", queue="a", tasks=4, min_tasks=2, running={"n0": 2})
        .job("a2", queue="a", gpu=2, priority=100, tasks=2)
        .job("b1", queue="b", tasks=3, min_tasks=1, running={"n1": 1}, leaving={"n0": 1})
        .job("b2", queue="b", tasks=2, priority=75, on=["n0", "n1"])
        .job("c1", queue="c", gpu=0, tasks=2, running={"n3": 1}, labels={"app": "db"})
        .job("lost", queue="nowhere")
    )
    tree = Group("", None, (Group("lead", 1), Group("work", 2)))
    podsets = ["lead", "work", "work", "work"]
    builder.job("c2", queue="c", tasks=4, groups=tree, podsets=podsets, running={"n0": 1})
    store = builder.store()
    label_set = store.labels.intern("default", {"app": "db"})
    near = PodTerm(_ZONE, ("default",), False, (Requirement("app", "In", ("db",)),))
    apart = Constraints(pod_affinity=(near,), pod_anti_affinity=(near,), label_set=label_set)
    store.intern_shape({"gpu": 1000, "cpu": 1000}, apart)
    store.intern_shape({"cpu": 500}, Constraints(host_ports=(("TCP", "0.0.0.0", 80),)))  # noqa: S104
    return store
