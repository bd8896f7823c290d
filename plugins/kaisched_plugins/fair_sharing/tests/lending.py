"""Random trees of queues that lend, and cycles of the policy `fair-sharing` on quotas alone."""

import random
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from kaisched import UNLIMITED
from kaisched.cluster.rowstore import RowStore
from kaisched.core.states import TaskState
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.records import CycleResult
from kaisched_plugins.fair_sharing.decide import decide
from kaisched_plugins.fair_sharing.holdings import Holdings
from kaisched_plugins.fair_sharing.order import KnockOut
from kaisched_plugins.fair_sharing.quotas import Quotas
from kaisched_plugins.fair_sharing.targets import STRATEGIES
from kaisched_plugins.fair_sharing.work import (
    ANY,
    LOWER,
    LOWER_OR_NEWER,
    NEVER,
    Work,
    line_key,
    may_take,
)

POLICIES = (NEVER, LOWER, LOWER_OR_NEWER, ANY)


def some_tree(rng: random.Random, *, depth: int, rows: int = 2, flavors: int = 1) -> Quotas:
    """Return a tree of up to so many levels below its root; ``rows`` are resources by flavors."""
    parent, level = [-1], [0]
    for _ in range(rng.randint(2, 9)):
        above = rng.choice([row for row in range(len(parent)) if level[row] < depth])
        parent.append(above)
        level.append(level[above] + 1)
    order = _preorder(parent)
    place = {row: at for at, row in enumerate(order)}
    parents = np.array([place.get(parent[row], -1) for row in order], np.int64)
    count, shape = len(order), (rows, len(order))

    def limits(often: float) -> np.ndarray:
        amounts = np.full(shape, UNLIMITED)
        for at in np.ndindex(*shape):
            if rng.random() < often:
                amounts[at] = rng.randint(0, 4)
        return amounts

    nominal = np.array([[rng.randint(0, 4) for _ in range(count)] for _ in range(rows)], np.int64)
    often = rng.choice((0.0, 0.0, 0.3))
    return Quotas(
        parents,
        nominal.reshape(shape),
        limits(often),
        limits(rng.choice((0.0, often))),
        [Fraction(rng.choice(("1", "1", "1", "2", "0.5", "3", "0"))) for _ in range(count)],
        np.arange(rows) // flavors,
    )


def _preorder(parent: list[int]) -> list[int]:
    children: dict[int, list[int]] = {}
    for row, above in enumerate(parent):
        children.setdefault(above, []).append(row)
    order, stack = [], list(reversed(children[-1]))
    while stack:
        row = stack.pop()
        order.append(row)
        stack.extend(reversed(children.get(row, [])))
    return order


@dataclass
class Cluster:
    """Workloads under a tree; what does not run waits in its queue."""

    quotas: Quotas
    work: list[Work]
    within: dict[int, str]
    across: dict[int, str]
    strategies: tuple[str, ...] = STRATEGIES
    is_guarded: bool = True
    by_size: bool = True
    running: set[int] = field(default_factory=set)
    since: dict[int, int] = field(default_factory=dict)
    now: int = 0
    evictions: int = 0

    def holdings(self) -> Holdings:
        held = Holdings(self.quotas, np.zeros_like(self.quotas.nominal))
        for row in sorted(self.running):
            held.add(self.work[row].queue, self.work[row].ask)
        return held

    def waiting(self, queue: int) -> list[Work]:
        """Return the waiting work of a queue, the first to go first."""
        some = [it for it in self.work if it.queue == queue and it.row not in self.running]
        return sorted(some, key=lambda it: (-it.priority, it.created_s, it.row))

    def line(self, incoming: Work, holdings: Holdings, lacks: list[int]) -> dict[int, list[Work]]:
        """Return the victims that policies allow, by queue."""
        rows = self.quotas.rows
        lines: dict[int, list[Work]] = {}
        root = rows.path(incoming.queue)[-1]
        for row in sorted(self.running):
            it = self.work[row]._replace(since_s=float(self.since[row]))
            is_own = it.queue == incoming.queue
            policy = (self.within if is_own else self.across)[incoming.queue]
            if (
                may_take(policy, incoming, it)
                and any(at in lacks for at, _ in it.ask)
                and rows.path(it.queue)[-1] == root
                and (is_own or holdings.is_over(it.queue, lacks))
            ):
                lines.setdefault(it.queue, []).append(it)
        for line in lines.values():
            line.sort(key=lambda it: line_key(rows, incoming.queue, it, by_size=self.by_size))
        return lines

    def victims(self, incoming: Work, holdings: Holdings) -> list[Work]:
        """Return who would go for incoming work."""
        lacks = [at for at, it in incoming.ask if it > holdings.available(incoming.queue, at)]
        lines = self.line(incoming, holdings, lacks)
        found = decide(
            holdings,
            incoming,
            lines,
            lacks,
            self.strategies,
            is_guarded=self.is_guarded,
            by_size=self.by_size,
        )
        return [target.work for target in found]

    def start(self, work: Work) -> None:
        self.running.add(work.row)
        self.since[work.row] = self.now

    def cycle(self) -> list[tuple[Work, list[Work]]]:
        """Serve every queue until nothing more goes; return who came, and who went for it."""
        self.now += 1
        done: list[tuple[Work, list[Work]]] = []
        heads = {}
        for queue in sorted({it.queue for it in self.work}):
            line = self.waiting(queue)
            if line:
                heads[queue] = line
        order = KnockOut(self.holdings(), [line[0] for line in heads.values()])
        gone: set[int] = set()
        while (head := order.pop()) is not None:
            heads[head.queue].pop(0)
            follower = next(iter(heads[head.queue]), None)
            holdings = self.holdings()
            fits = holdings.fits(head.queue, head.ask)
            taken = [] if fits else self.victims(head, holdings)
            if taken and any(it.row in gone for it in taken):
                taken = []
            if fits or taken:
                for it in taken:
                    self.running.discard(it.row)
                self.evictions += len(taken)
                self.start(head)
                gone.add(head.row)
                done.append((head, taken))
                order = KnockOut(self.holdings(), [line[0] for line in heads.values() if line])
            else:
                order.passed(head, is_admitted=False, follower=follower)
        return done


def until_rest(
    store: RowStore, policy: Policy, most: int, *, quiet: int = 1
) -> list[CycleResult]:
    """Run cycles, each obeyed at once, until nothing is decided any more in ``quiet`` of them."""
    memory, results, still = Memory(), [], 0
    for turn in range(most):
        result, memory = run_cycle(store.snapshot(), None, policy, 1e6 + turn, memory)
        results.append(result)
        moved = len(result.bind_tasks) + len(result.nominate_tasks) + len(result.evict_tasks)
        still = 0 if moved else still + 1
        if still == quiet:
            break
        for task in result.evict_tasks.tolist():
            store.set_state(task, TaskState.PENDING)
            store.nominate(task, -1)
        for tasks, nodes in (
            (result.bind_tasks, result.bind_nodes),
            (result.nominate_tasks, result.nominate_nodes),
        ):
            for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
                if tasks is result.bind_tasks:
                    store.set_state(task, TaskState.RUNNING, node, 1e6 + turn)
                store.nominate(task, -1 if tasks is result.bind_tasks else node)
    return results


def some_cluster(rng: random.Random, *, depth: int = 3, **options: object) -> Cluster:
    """Return a random cluster in which most of the work runs."""
    rows = rng.choice((1, 2, 4))
    quotas = some_tree(rng, depth=depth, rows=rows, flavors=2 if rows == 4 else 1)
    parents = set(quotas.parent.tolist())
    leaves = [row for row in range(len(quotas)) if row not in parents]
    work = []
    for row in range(rng.randint(2, 14)):
        amounts = [rng.randint(0, 3) for _ in range(rows)]
        amounts[rng.randrange(rows)] += 1
        ask = [(at, it) for at, it in enumerate(amounts) if it]
        queue = rng.choice(leaves)
        work.append(Work(row, queue, ask, rng.randint(0, 2), float(row), name=f"w{row}"))
    across = {leaf: rng.choice((ANY, ANY, LOWER, NEVER)) for leaf in leaves}
    within = {leaf: rng.choice((LOWER, LOWER_OR_NEWER, NEVER)) for leaf in leaves}
    made = Cluster(quotas, work, within, across, **options)  # type: ignore[arg-type]
    for it in rng.sample(work, len(work)):
        if rng.random() < 0.7 and made.holdings().fits(it.queue, it.ask):
            made.start(it)
            made.now += 1
    return made
