"""Small random clusters whose pods share GPUs, and what must hold of their cards."""

from random import Random

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import GPU, HOLDING_STATES, PODS, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.testing.builder import Group, Job, Task, add_job

FRACTIONS = (125_000, 200_000, 333_300, 400_000, 500_000, 700_000, 999_999)
MEMORY_MIB = (1_000, 8_000, 20_000)
SIZES_MIB = (16_000, 40_000)
HUGE = 1 << 40
STATES = (TaskState.RUNNING, TaskState.RUNNING, TaskState.BOUND, TaskState.RELEASING)


def demand_of(random):
    """Return a random share, sometimes of several cards."""
    cards = random.choice((1, 1, 1, 2))
    if random.random() < 0.6:
        return DeviceDemand(random.choice(FRACTIONS), 0, cards)
    return DeviceDemand(0, random.choice(MEMORY_MIB), cards)


def request_of(random, gpus=(1, 2)):
    """Return (request, constraints) of a pod with a share, or of a whole or a plain pod."""
    kind = random.random()
    if kind < 0.6:
        return {"cpu": 100}, Constraints(devices=demand_of(random))
    return {"cpu": 100, "gpu": 1000 * random.choice(gpus) if kind < 0.9 else 0}, Constraints()


def memory_of(random):
    """Return (request, constraints) of a pod that asks for memory."""
    demand = DeviceDemand(0, random.choice(MEMORY_MIB), random.choice((1, 1, 1, 2)))
    return {"cpu": 100}, Constraints(devices=demand)


def make_shared(seed, jobs=8, pending=5, nodes=3, ask=request_of, slots=12):
    """Return a store with running jobs that fit, as its own cards say, and pending jobs."""
    random = Random(seed)
    store = RowStore()
    for number in range(random.randint(1, nodes)):
        gpus, size = random.randint(1, 4), random.choice(SIZES_MIB)
        amounts = {"cpu": 4000, "gpu": gpus * 1000, "pods": slots}
        store.put_node(NodeRow(f"n{number}", amounts, card_mib=size))
    for name in "ab":
        quota = {"gpu": 1000 * random.randint(0, 4)}
        store.put_queue(QueueRow(name, quota=quota, weight={"gpu": 1.0}))
    for number in range(jobs + pending):
        pods = random.randint(1, 2)
        request, constraints = ask(random)
        tasks = [Task(f"j{number}-{at}", request, constraints) for at in range(pods)]
        job = Job(
            f"j{number}",
            random.choice("ab"),
            tasks,
            priority=random.choice((50, 75)),
            created_s=float(number),
            started_s=0.0,
            root=Group("default", random.randint(1, pods)),
        )
        add_job(store, job)
        if number < jobs:
            start(store, random, [f"default/{task.name}" for task in tasks])
    return store


def start(store, random, names):
    """Let tasks run on random nodes that have room for them."""
    for name in names:
        task = store.row_of_task(name)
        shape = int(store.tasks.shape_of_task.data[task])
        room = room_of(store.snapshot(), shape)  # nodes have rows from the first snapshot on
        for node in random.sample(range(len(room)), len(room)):
            if room[node] > 0:
                store.set_state(task, random.choice(STATES), node, 0.0)
                break


def reserve(store):
    """Let a reservation pod hold each open card of a store that has a pod slot left for it."""
    snapshot = store.snapshot()
    free = snapshot.nodes.idle[PODS].tolist()
    if snapshot.nodes.cards is None:
        return store
    for at, (node, slot) in enumerate(np.argwhere(snapshot.nodes.cards.tasks > 0).tolist()):
        if free[node] > 0:
            free[node] -= 1
            holds = Constraints(devices=DeviceDemand(is_reservation=True))
            pod = Job(f"r{at}", "a", [Task(f"r{at}-0", {}, holds)], is_preemptible=False)
            add_job(store, pod)
            task = store.row_of_task(f"default/r{at}-0")
            store.cards.choose({task: (slot,)})
            store.set_state(task, TaskState.RUNNING, node, 0.0)
    return store


def make_reserved(seed, **more):
    """Return what :func:`make_shared` does with reservation pods, some on cards of no share."""
    store, random = reserve(make_shared(seed, **more)), Random(seed)
    snapshot = store.snapshot()
    table, tasks = snapshot.nodes.cards, snapshot.tasks
    for task in [] if table is None else list(table.slots_of_task):
        devices = snapshot.shapes.constraints[tasks.shape_of_task[task]].devices
        if not devices.is_reservation and random.random() < 0.3:
            store.set_gone(task)
    return store


def room_of(snapshot, shape):
    """``(N,)`` pods of a shape that fit now, counted by hand: amounts, then cards one by one."""
    room = []
    for node in range(len(snapshot.nodes)):
        cards, whole = cards_of(snapshot, node)
        if waits_for_open(snapshot, node, shape, cards):
            whole = 0
        free = snapshot.nodes.idle[:, node] + np.minimum(snapshot.nodes.releasing[:, node], 0)
        left = {slot: it for slot, (it, _) in cards.items()}
        by_amounts = min(fit(free, snapshot.shapes.request[:, shape]), 12)
        slots = max(int(free[PODS]), 0)
        room.append(on_cards(snapshot, node, shape, left, whole, by_amounts, slots))
    return room


def fit(free, request):
    """Return how many pods with a request fit into free amounts."""
    asked = request > 0
    return int((np.maximum(free[asked], 0) // request[asked]).min())


def waits_for_open(snapshot, node, shape, cards):
    """Tell whether more pods will fit on open cards of a node once they are vacated (V10)."""
    if snapshot.shapes.constraints[shape].devices is None:
        return False
    now, later = (
        on_cards(snapshot, node, shape, left, 0, 100)
        for left in (
            {slot: it for slot, (it, _) in cards.items()},
            {slot: it + leaving for slot, (it, leaving) in cards.items()},
        )
    )
    return later > now


def on_cards(snapshot, node, shape, left, whole, most, slots=HUGE):
    """Return how many pods of a shape, up to so many, cards of a node have room for.

    Each takes one of the free pod slots, and each card that it opens takes another.
    """
    pods, left = 0, dict(left)
    shares = snapshot.shapes.constraints[shape].devices is not None
    while pods < most:
        before = whole
        whole = fill(snapshot, node, shape, left, whole)
        if whole is None:
            break
        slots -= 1 + (before - whole) * shares
        if slots < 0:
            break
        pods += 1
    return pods


def cards_of(snapshot, node):
    """Return what each open card of a node has left, closed cards of shares left out, and whole."""
    tasks, shapes = snapshot.tasks, snapshot.shapes
    table = snapshot.nodes.cards
    left, leaving, whole = {}, {}, int(snapshot.nodes.allocatable[GPU, node]) // 1000
    for task in range(len(tasks.name)):
        if tasks.node_of_task[task] != node or not HOLDING_STATES[tasks.state[task]]:
            continue
        shape = tasks.shape_of_task[task]
        demand = shapes.constraints[shape].devices
        if demand is None:
            whole -= int(shapes.request[GPU, shape]) // 1000
            continue
        size = int(table.size[node])
        for slot in table.slots_of_task[task]:
            left[slot] = left.get(slot, size) - demand.take(size // CARD)
            is_leaving = tasks.state[task] == TaskState.RELEASING
            leaving[slot] = leaving.get(slot, 0) + demand.take(size // CARD) * is_leaving
    whole -= len(left)
    size = int(table.size[node]) if table is not None else 0
    emptying = {slot for slot, it in left.items() if leaving[slot] and leaving[slot] == size - it}
    return {slot: (it, leaving[slot]) for slot, it in left.items() if slot not in emptying}, whole


def fill(snapshot, node, shape, left, whole):
    """Put a pod of a shape on cards; return how many cards stay whole, None where it lacks room."""
    demand = snapshot.shapes.constraints[shape].devices
    if demand is None:
        rest = whole - int(snapshot.shapes.request[GPU, shape]) // 1000
        return rest if rest >= 0 else None
    size = int(snapshot.nodes.cards.size[node])
    take = demand.take(size // CARD)
    chosen = sorted((slot for slot, it in left.items() if it >= take), key=left.get)[: demand.cards]
    opened = demand.cards - len(chosen)
    if opened > whole or take > size:
        return None
    for slot in chosen:
        left[slot] -= take
    for _ in range(opened):
        left["new", len(left)] = size - take
    return whole - opened
