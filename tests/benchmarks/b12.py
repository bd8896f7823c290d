"""B12: gangs with a required and a preferred level of a topology of four levels.

One gang is chosen a domain for, placed and refused; and many gangs of several shapes are placed in
one cycle, beside the same cycle without constraints. Targets are of processor time.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from kaisched import TopologyConstraint, TopologyLevel
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.tables import SubGroup
from kaisched.engine.policy import build_policy, default_shard
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.probe import NULL
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.framework.session.node_sets import node_sets
from kaisched.framework.session.session import Session
from tests.benchmarks.harness import (
    GPUS_OF_NODE,
    NODE,
    ONE_GPU,
    WHOLE_NODE,
    Daemon,
    Measured,
    Watch,
    check_fits,
    expect,
)

LEVELS: Final = ("zone", "block", "rack", "leaf")
_INSIDE: Final = (4, 8, 4)
"""Leaves in a rack, racks in a block, blocks in a zone."""
_LEAF: Final = 10
"""Nodes of a leaf."""
_REQUIRED: Final = TopologyConstraint("dc", "zone", "rack")
_TIGHT: Final = TopologyConstraint("dc", "rack", "leaf")


def make_store(nodes: int) -> RowStore:
    """Return idle nodes with the labels of all levels."""
    store = RowStore()
    store.nodes.put_topology("dc", tuple(TopologyLevel(level, "") for level in LEVELS))
    for at in range(nodes):
        domain, labels = at // _LEAF, {}
        for level, inside in zip(reversed(LEVELS), (*_INSIDE, 0), strict=True):
            labels[level] = f"{level}{domain:04}"
            domain = domain // inside if inside else 0
        store.put_node(NodeRow(f"n{at:05}", NODE, labels=labels))
    store.put_queue(QueueRow("team"))
    store.settle()
    return store


def add_gang(
    store: RowStore, name: str, pods: int, ask: Mapping[str, int], wish: TopologyConstraint | None
) -> int:
    shape = store.intern_shape(ask)
    row = store.add_job(
        f"default/{name}",
        "team",
        priority=50,
        is_preemptible=True,
        created_s=0.0,
        tasks=[(f"default/{name}-{pod}", shape) for pod in range(pods)],
        minimum=pods,
    )
    if wish is not None:
        first = int(store.jobs.first_podset.data[row])
        store.jobs.structure.set(row, SubGroup("default", first, 0, topology=wish))
    return row


def policy() -> Policy:
    return build_policy(default_shard(), actions=["allocate"])[0]


def run(
    repeat: int, store: RowStore, pods: int, check: Callable[[Daemon, CycleResult], None]
) -> Measured:
    """Let a gang come, decide, let it go: as often with a constraint as without."""
    daemon, watch, free = Daemon(store, policy()), Watch(), Watch()
    for turn in range(1 + repeat):
        for wish, timed in ((_REQUIRED, watch), (None, free)):
            add_gang(store, "gang", pods, WHOLE_NODE, wish)
            result = daemon.cycle(timed if turn else None)
            if wish is not None:
                check(daemon, result)
            store.remove_job(store.row_of_job("default/gang"))
            daemon.cycle()
    added = np.median(watch.cpu) - np.median(free.cpu)
    return Measured(watch, {"free": free.summary(), "added_cpu_s": float(added)})


def place(repeat: int, nodes: int, pods: int) -> Measured:
    def check(daemon: Daemon, result: CycleResult) -> None:
        expect(result.bind_tasks.size == pods, f"{result.bind_tasks.size} of {pods} pods bound")
        snapshot = daemon.store.snapshot()
        zones = {snapshot.nodes.labels[node]["zone"] for node in result.bind_nodes.tolist()}
        expect(len(zones) == 1, f"{len(zones)} zones")
        check_fits(snapshot, result)

    return run(repeat, make_store(nodes), pods, check)


def refuse(repeat: int, nodes: int, pods: int) -> Measured:
    def check(daemon: Daemon, result: CycleResult) -> None:
        expect(result.bind_tasks.size == 0, f"{result.bind_tasks.size} pods of the gang bound")
        said = [record.reason for record in result.records]
        expect(said == ["NoDomainIsLargeEnough"], f"the records say {said}")
        del daemon

    return run(repeat, make_store(nodes), pods, check)


def choose(repeat: int, nodes: int, pods: int) -> Measured:
    """Ask for the domains of a gang, in a session that knows the room of its shape."""
    store, watch, made = make_store(nodes), Watch(), policy()
    add_gang(store, "gang", pods, WHOLE_NODE, _REQUIRED)
    memory, ask_of = Memory(), made.questions.probed(NULL)
    for turn in range(1 + repeat):
        session = Session(store.snapshot(), None, made, 1e6, memory, ask_of)
        ask_of.open(session)
        shape = int(session.tasks.shape_of_task[0])
        session.placement.free_capacity(shape)
        ask = session.shapes.charge[:, shape] * pods

        def chosen(session: Session = session, ask: Any = ask, shape: int = shape) -> Any:
            sets = node_sets(session, "allocate", 0, ask, [(shape, pods)])
            return None if sets is None else sets[0]

        first = watch.time(chosen) if turn else chosen()
        expect(first is not None and first.nodes.sum() >= pods, "no domain is chosen")
    return Measured(watch, {})


def many(repeat: int, nodes: int, gangs: int, shapes: int) -> Measured:
    """Place many gangs in one cycle; the figure is what their constraints add."""
    watch, free = Watch(), Watch()
    daemons = [
        (wish, timed, Daemon(make_store(nodes), policy()))
        for wish, timed in ((_TIGHT, watch), (None, free))
    ]
    for turn in range(1 + repeat):
        for wish, timed, daemon in daemons:
            for at in range(gangs):
                ask = {**ONE_GPU, "cpu": ONE_GPU["cpu"] - 100 * (at % shapes)}
                add_gang(daemon.store, f"g{at:04}", GPUS_OF_NODE, ask, wish)
            result = daemon.cycle(timed if turn else None)
            expect(result.bind_tasks.size == gangs * GPUS_OF_NODE, "a gang was not placed")
            for at in range(gangs):
                daemon.store.remove_job(daemon.store.row_of_job(f"default/g{at:04}"))
            daemon.cycle()
    added = float(np.median(watch.cpu) - np.median(free.cpu))
    return Measured(watch, {"free": free.summary(), "added_cpu_s": added})
