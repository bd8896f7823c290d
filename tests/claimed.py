"""Clusters of nodes with equal devices, and jobs of one pod whose claims ask for some of them."""

from dataclasses import replace

from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.claims.model import Ask, Claim, Device, Place, Request, Slice
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.claims.table import ClaimTable
from kaisched.core.constraints import ClaimUse, Constraints
from tests.benchmarks.harness import add_nodes

DRIVER = "gpu.example.com"


def slice_of(node, devices):
    """Return the slice of a node, whose devices are numbered."""
    listed = tuple(
        Device(DRIVER, node, f"gpu-{at}", {"index": ("int", at), "serial": ("int", 1000)})
        for at in range(devices)
    )
    return Slice(node, DRIVER, node, 1, 1, Place(node), listed)


def make_claimed(nodes, pods, profiles, devices=lambda _: 8, counts=(1,)):
    """Return a snapshot: pods ask in turns for devices of each profile, with a claim of their own.

    ``devices`` says how many a node has, by its row; ``counts`` how many a claim asks for, by its
    profile.
    """
    store = RowStore()
    add_nodes(store, nodes)
    store.put_queue(QueueRow("team", quota={"gpu": -1}))
    store.settle()
    shapes = [
        store.intern_shape({"cpu": 100}, Constraints(claims=(ClaimUse(at),)))
        for at in range(profiles)
    ]
    for at in range(pods):
        store.add_job(
            f"w/p-{at:06}",
            "team",
            priority=50,
            is_preemptible=True,
            created_s=float(at),
            tasks=[(f"w/p-{at:06}-0", shapes[at % profiles])],
        )
    texts = [
        f'device.attributes["{DRIVER}"].index >= {at % 8 if at < 8 else 0}'
        f' && device.attributes["{DRIVER}"].serial >= {at}'
        for at in range(profiles)
    ]
    asks = [Ask("r", "gpu", (text,), counts[at % len(counts)]) for at, text in enumerate(texts)]
    snapshot = store.snapshot()
    slices = [slice_of(name, devices(row)) for row, name in enumerate(snapshot.nodes.statics.name)]
    classes = {"gpu": DeviceClass("gpu", (CelSelector(f'device.driver == "{DRIVER}"'),))}
    table = ClaimTable(
        offer=Offer(slices, classes),
        specs=[Claim((Request("r", (ask,)),)) for ask in asks],
        selectors={text: CelSelector(text) for text in texts},
        held={},
        consumers={},
        claims_of_task={task: (f"w/c-{task}",) for task in range(pods)},
        users={},
    )
    return replace(snapshot, claims=table)
