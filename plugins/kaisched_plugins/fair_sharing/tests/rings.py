"""Random clusters in which queues contend, run until nothing is decided: for rings of evictions.

Run as a module, with two numbers, it looks at the clusters from the first seed to the second and
prints those that do not come to rest. The host's own rule against rings (R33) is off.
"""

import random
import sys

from kaisched import UNLIMITED
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.tables import Sharing
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.framework.report.result import CycleResult
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of
from kaisched_plugins.fair_sharing.quotas import Quotas
from kaisched_plugins.fair_sharing.tests.lending import some_tree
from kaisched_plugins.fair_sharing.work import ANY, LOWER, LOWER_OR_NEWER, NEVER

SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
POLICY = policy_of(SHARD)
MOST = 40
"""Cycles after which a cluster does not come to rest."""
_RING_FACT = "turns"


def contended(rng: random.Random, *, depth: int, resources: int) -> ClusterBuilder:
    """Return a cluster of up to two nodes, mostly full, with few and mostly large jobs."""
    quotas = some_tree(rng, depth=depth, rows=resources)
    names = ("gpu", "cpu")[:resources]
    made = ClusterBuilder()
    whole = quotas.subtree[:, quotas.parent < 0].sum(axis=1)
    whole = [int(it) if rng.random() < 0.7 else rng.randint(4, 16) for it in whole]
    nodes = rng.choice((1, 1, 2))
    for at in range(nodes):
        part = [it // nodes + (at < it % nodes) for it in whole]
        made.node(f"n{at}", gpu=part[0], cpu=part[1] if resources > 1 else 1000)
    leaves = _queues(made, rng, quotas, names)
    idle = [dict(zip(names, whole, strict=True))]
    for at in range(rng.randint(2, 9)):
        tasks = rng.choice((1, 1, 2))
        gpu = rng.randint(0 if resources > 1 else 1, 4) // tasks or 1
        cpu = rng.randint(0, 4) // tasks if resources > 1 else 0
        ask = {"gpu": gpu * tasks, "cpu": cpu * tasks}
        runs = nodes == 1 and rng.random() < 0.6
        runs = runs and all(ask[name] <= idle[0][name] for name in names)
        if runs:
            idle[0] = {name: idle[0][name] - ask[name] for name in names}
        made.job(
            f"w{at}",
            queue=rng.choice(leaves),
            tasks=tasks,
            min_tasks=tasks,
            gpu=gpu,
            cpu=cpu,
            priority=50 + rng.randint(0, 2),
            running={"n0": tasks} if runs else None,
        )
    return made


def _queues(
    made: ClusterBuilder, rng: random.Random, quotas: Quotas, names: tuple[str, ...]
) -> list[str]:
    """Add the queues of a tree; return the names of the leaves."""
    for row in range(len(quotas)):
        above = quotas.rows.parent[row]

        def bounds(columns, row=row):
            amounts = [int(it) for it in columns[:, row]]
            told = {name: it for name, it in zip(names, amounts, strict=True) if it < UNLIMITED}
            return told or None

        made.queue(
            f"q{row}",
            parent=f"q{above}" if above >= 0 else "",
            deserved=bounds(quotas.nominal),
            borrowing=bounds(quotas.borrowing_limit),
            lending=bounds(quotas.lending_limit),
            sharing=Sharing(
                weight=quotas.weight[row],
                within=rng.choice((LOWER, LOWER, LOWER_OR_NEWER, NEVER)),
                across=rng.choice((ANY, ANY, ANY, LOWER, LOWER_OR_NEWER, NEVER)),
            ),
        )
    return [f"q{row}" for row, below in enumerate(quotas.rows.children) if not below]


def until_rest(store: RowStore, policy: Policy = POLICY, most: int = MOST) -> list[CycleResult]:
    """Run cycles without memory of evictions, each obeyed at once, until nothing is decided."""
    memory, results = Memory(), []
    for turn in range(most):
        facts = {name: it for name, it in memory.facts.items() if name != _RING_FACT}
        memory = Memory(facts, memory.hints)
        result, memory = run_cycle(store.snapshot(), None, policy, 1e6 + turn, memory)
        results.append(result)
        if not (len(result.bind_tasks) or len(result.nominate_tasks) or len(result.evict_tasks)):
            break
        obey(store, result, 1e6 + turn)
    return results


def obey(store: RowStore, result: CycleResult, now_s: float) -> None:
    """Do what a cycle decided: all evicted pods end at once and wait again."""
    for task in result.evict_tasks.tolist():
        store.set_state(task, TaskState.PENDING)
        store.nominate(task, -1)
    for task, node in zip(result.bind_tasks.tolist(), result.bind_nodes.tolist(), strict=True):
        store.set_state(task, TaskState.RUNNING, node, now_s)
        store.nominate(task, -1)
    nominated = zip(result.nominate_tasks.tolist(), result.nominate_nodes.tolist(), strict=True)
    for task, node in nominated:
        store.nominate(task, node)


def some_contended(seed: int) -> ClusterBuilder:
    """Return the cluster of a seed: depths of 1 to 4, one or two resources."""
    rng = random.Random(seed)
    return contended(rng, depth=rng.randint(1, 4), resources=rng.randint(1, 2))


def main(first: int, last: int) -> None:
    """Print the clusters that do not rest, and how long the slowest took of those that do."""
    slowest = restless = 0
    for seed in range(first, last):
        cycles = len(until_rest(some_contended(seed).store()))
        if cycles == MOST:
            restless += 1
            print(f"cluster {seed} does not come to rest", flush=True)
        else:
            slowest = max(slowest, cycles)
    print(f"{last - first} clusters: {restless} without rest, the others after {slowest} cycles")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
