"""B13: parts of GPUs, and claims on devices, by the ten thousand in one cycle."""

from typing import Any, Final

import numpy as np

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.constraints import Constraints
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.benchmarks.harness import Daemon, Measured, Watch, add_nodes, expect
from tests.claimed import make_claimed

_QUEUE: Final = "team"
_PARTS: Final = (0.1, 0.2, 0.3, 0.4, 0.5)


def make_store(nodes: int, pods: int) -> RowStore:
    """An idle cluster, and jobs of one pod that each ask for a part of a GPU."""
    store = RowStore()
    add_nodes(store, nodes)
    store.put_queue(QueueRow(_QUEUE, quota={"gpu": -1}))
    store.settle()
    shapes = [
        store.intern_shape({"cpu": 100}, Constraints(devices=DeviceDemand(int(part * CARD))))
        for part in _PARTS
    ]
    for at in range(pods):
        store.add_job(
            f"w/p-{at:06}",
            _QUEUE,
            priority=50,
            is_preemptible=True,
            created_s=float(at),
            tasks=[(f"w/p-{at:06}-0", shapes[at % len(shapes)])],
        )
    return store


def shares(repeat: int, **size: Any) -> Measured:
    """Place all of them in one cycle."""
    daemon, watch = Daemon(make_store(size["nodes"], size["pods"])), Watch()
    for _ in range(repeat):
        result = daemon.cold_cycle(watch)
    expect(len(result.bind_tasks) == size["pods"], f"{len(result.bind_tasks)} bound")
    expect(len(result.bind_cards) == size["pods"], f"{len(result.bind_cards)} have a card")
    held = np.bincount(result.bind_nodes)
    return Measured(watch, {"most_on_a_node": int(held.max())})


def claims(repeat: int, **size: Any) -> Measured:
    """Place pods with a claim each in one cycle; nobody has asked about the devices before."""
    policy, watch = default_policy(), Watch()
    for _ in range(repeat):
        snapshot = make_claimed(size["nodes"], size["pods"], size["profiles"])
        result, _ = watch.time(lambda it=snapshot: run_cycle(it, None, policy, 1e6, Memory()))
        expect(len(result.bind_tasks) == size["pods"], f"{len(result.bind_tasks)} bound")
        devices = [
            one.device.identity
            for bind in result.binds
            for grant in bind.claims
            for one in grant.allocation.results
        ]
        expect(len(devices) == size["pods"], f"{len(devices)} devices are allocated")
        expect(len(set(devices)) == len(devices), "a device was allocated twice")
    return Measured(watch, {"profiles": size["profiles"]})
