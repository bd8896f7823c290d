"""How often a gang of unequal pods is placed that fills all nodes to the last GPU and core.

``python -m tests.laws.filled_nodes`` draws, for so many nodes, gangs of two or three kinds of pods
and the nodes that just hold them, one to four pods each, and counts those that allocate starts.
"""

import argparse
from collections import Counter
from dataclasses import replace
from random import Random

from kaisched.testing import ClusterBuilder
from tests.laws.fewest_racks import SHAPES

NODES = (4, 8, 16, 32)


def filled(seed, nodes):
    """Draw a gang and what its nodes have, in (GPUs, cores)."""
    dice = Random(seed)
    kinds = dice.sample(SHAPES, dice.randint(2, 3))
    held = [[dice.choice(kinds) for _ in range(dice.randint(1, 4))] for _ in range(nodes)]
    pods = sorted((pod for some in held for pod in some), key=kinds.index)
    return pods, [tuple(map(sum, zip(*some, strict=True))) for some in held]


def starts(seed, nodes):
    """Run allocate in a cluster with a topology; tell whether the gang starts."""
    pods, rooms = filled(seed, nodes)
    builder = ClusterBuilder().topology("t", "rack").queue("a")
    for at, (gpu, cpu) in enumerate(rooms):
        builder.node(f"n{at:02}", gpu=gpu, cpu=cpu, labels={"rack": "r"})
    builder.job("a1", queue="a", tasks=len(pods))
    job = builder._jobs[-1]
    tasks = [
        replace(task, request={**task.request, "gpu": gpu * 1000, "cpu": cpu * 1000})
        for task, (gpu, cpu) in zip(job.tasks, pods, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return bool(builder.run("allocate").placed)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.laws.filled_nodes")
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    for nodes in NODES:
        told = Counter(starts(seed, nodes) for seed in range(asked.runs))
        print(f"{nodes} nodes: {told[True]} of {asked.runs} gangs start", flush=True)


if __name__ == "__main__":
    main()
