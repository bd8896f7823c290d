"""What idle nodes leave for gangs in single racks, with ``packUnconstrained`` and without.

``python -m tests.laws.packed_racks --days 14`` runs config/scenarios/topology-on.yaml for so long,
four times: with nodes whose names follow their racks, as the file has them, and with racks dealt
out to the nodes, as where names come from elsewhere. Counted are the gangs of whole nodes that idle
nodes could take, each in one rack, against those if all racks were one; the mean over time.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from kaisched.core.axis import GPU
from kaisched.sim.output.files import result_of
from kaisched.sim.running import run_scenario
from kaisched.sim.scenario.load import read_scenario
from kaisched.testing.builder import policy_of

FILE = Path(__file__).parents[2] / "config" / "scenarios" / "topology-on.yaml"
SIZES = (4, 8, 16)
PACKED = {"plugins": {"topology": {"arguments": {"packUnconstrained": True}}}}


class Measured(NamedTuple):
    """What a run left for gangs of each size, and what became of its own."""

    reached: np.ndarray
    """Gangs of each size in single racks, mean."""
    in_all: np.ndarray
    """The same if all racks were one."""
    domains: float
    """Racks of a gang when it starts, mean."""
    wait_s: float
    """Of the first queue, mean."""
    evictions: int


def measured(scenario, *, is_packed, is_scattered):
    """Run a scenario whose last level is the rack."""
    nodes, seen = list(scenario.nodes), []
    if is_scattered:
        dealt = Random(7).sample(nodes, len(nodes))
        nodes = [
            replace(node, labels=other.labels) for node, other in zip(nodes, dealt, strict=True)
        ]
    of_node = [node.labels[scenario.levels[-1].label] for node in nodes]
    racks = np.unique(of_node, return_inverse=True)[1]

    def shown(cycle):
        def decide(snapshot, now_s):
            result = cycle(snapshot, now_s)
            idle = snapshot.nodes.idle[GPU] == snapshot.nodes.allocatable[GPU]
            idle[result.bind_nodes] = False
            free = np.bincount(racks, idle)
            whole = [int(free.sum()) // size for size in SIZES]
            seen.append((now_s, [int((free // size).sum()) for size in SIZES], whole))
            return result

        return decide

    policy = policy_of(PACKED if is_packed else None, (), ())
    run = run_scenario(replace(scenario, nodes=nodes), policy, shown=shown)
    times, reached, in_all = map(np.array, zip(*seen, strict=True))
    lasts = np.diff(times, append=times[-1] + 1.0)[:, None] / (times[-1] + 1.0 - times[0])
    outcome = result_of(run).outcome
    wait = outcome.queues[0].wait
    return Measured(
        (reached * lasts).sum(axis=0),
        (in_all * lasts).sum(axis=0),
        outcome.levels[-1].domains,
        0.0 if wait is None else wait.mean_s,
        outcome.evictions,
    )


def read(days, file=FILE):
    """Return the scenario, cut to so many days."""
    text = file.read_text(encoding="utf-8").replace("duration: 30d", f"duration: {days}d")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file.name
        path.write_text(text, encoding="utf-8")
        return read_scenario(path)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.laws.packed_racks")
    parser.add_argument("--days", type=int, default=14)
    scenario = read(parser.parse_args().days)
    for is_scattered in (False, True):
        for is_packed in (False, True):
            found = measured(scenario, is_packed=is_packed, is_scattered=is_scattered)
            names = "dealt out" if is_scattered else "in order"
            shares = zip(SIZES, found.reached, found.in_all, strict=True)
            print(
                f"racks {names}, {'packed' if is_packed else 'as ever'}:",
                *(f"{size} nodes {it:.2f} of {most:.2f};" for size, it, most in shares),
                f"{found.domains:.2f} racks of a gang, wait {found.wait_s / 60:.1f} min,",
                f"{found.evictions} evictions",
                flush=True,
            )


if __name__ == "__main__":
    main()
