"""B17: what a tenant's objects cost the others: ``python -m tests.on_kubernetes.dos [ATTACK ...]``.

``kaisched run`` and the API server are processes of their own. Seven eighths of the GPUs are taken;
the others create a pod of one GPU ten times a second, which runs for three seconds. The same is
measured before the attacker's objects come and once they stand there.
"""

import argparse
import math
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.on_kubernetes.attacks import ATTACKS, QUEUE
from tests.on_kubernetes.bench import named, wait_bound
from tests.on_kubernetes.bench_cluster import cluster_of, daemon_on
from tests.waiting import until

NODES, GPUS = 100, 8
PODS = 150
OTHERS = ["a", "b"]
SETTLES_S, LONGEST_S = 8.0, 120.0
GLANCE_S = 3.0
CALM = 0.4
"""Of a processor: less than this the daemon takes once it has told what it has to tell."""
PATIENCE_S = 300.0


@contextmanager
def running(nodes):
    """A daemon on a cluster that is mostly busy, with queues that deserve half of it each."""
    busy = nodes * GPUS * 7 // 8
    with tempfile.TemporaryDirectory() as folder, cluster_of(nodes) as cluster:
        for queue in OTHERS:
            cluster.queue(queue, nodes * GPUS // 2)
        cluster.queue(QUEUE, 0)
        cluster.make(named("busy", busy), OTHERS)
        with daemon_on(cluster, Path(folder)) as daemon:
            until(lambda: daemon.said("loop_started"), PATIENCE_S)
            wait_bound(cluster, "busy", busy)
            time.sleep(2.0)
            yield cluster, daemon


def course(cluster, daemon, prefix, pods):
    """Let the others work for a while, and return how they fared."""
    before, cpu_s, begin_s = len(daemon.cycles()), daemon.cpu_s, time.monotonic()
    waits, unbound = cluster.course(prefix, OTHERS, pods)
    cycles = daemon.cycles()[before:]
    return {
        "p50": quantile(waits, 0.5),
        "p99": quantile(waits, 0.99),
        "unbound": unbound,
        "cycle": quantile(cycles, 0.5),
        "worst": max(cycles),
        "cpu": (daemon.cpu_s - cpu_s) / (time.monotonic() - begin_s),
        "mb": daemon.rss_mb,
    }


def settle(daemon):
    """Wait until reports on the attacker's objects are written: their arrival is over then."""
    time.sleep(SETTLES_S)
    end_s, share = time.monotonic() + LONGEST_S, 1.0
    while share > CALM and time.monotonic() < end_s:
        cpu_s = daemon.cpu_s
        time.sleep(GLANCE_S)
        share = (daemon.cpu_s - cpu_s) / GLANCE_S


def quantile(values, part):
    ordered = sorted(values)
    return ordered[math.ceil(part * len(ordered)) - 1]


def attacked(attack, nodes, pods):
    """Return how the others fare alone and under attack, and what the arrival took."""
    with running(nodes) as (cluster, daemon):
        course(cluster, daemon, "warm", 30)
        alone = course(cluster, daemon, "alone", pods)
        begin_s, before = time.monotonic(), len(daemon.cycles())
        count = cluster.attack(attack)
        cluster.make(["last"], OTHERS)
        wait_bound(cluster, "last", 1)
        came_s = time.monotonic() - begin_s
        settle(daemon)
        arrival = {"count": count, "s": came_s, "worst": max(daemon.cycles()[before:])}
        during = course(cluster, daemon, "under", pods)
        return alone, arrival, during, daemon.peak_mb


COLUMNS = f"{'p50':>7}{'p99':>7}{'cycle':>7}{'worst':>7}{'CPU':>6}{'MB':>6}"


def figures(of):
    return (
        f"{1000 * of['p50']:>7.0f}{1000 * of['p99']:>7.0f}{of['cycle']:>7.1f}{of['worst']:>7.0f}"
        f"{of['cpu']:>6.0%}{of['mb']:>6.0f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=f"of {', '.join(ATTACKS)}")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--pods", type=int, default=PODS)
    options = parser.parse_args()
    print("waits and cycles in milliseconds, alone and then with the attacker's objects")
    print(f"{'':11}{COLUMNS} |{COLUMNS} | arrival")
    for attack in options.attacks or ATTACKS:
        alone, arrival, during, peak_mb = attacked(attack, options.nodes, options.pods)
        is_met = during["p99"] <= max(2 * alone["p99"], 1.0) and not during["unbound"]
        print(
            f"{attack:11}{figures(alone)} |{figures(during)} |"
            f" {arrival['count']:,} objects in {arrival['s']:.0f} s, cycle up to"
            f" {arrival['worst']:.0f} ms; peak {peak_mb:.0f} MB;"
            f" {during['unbound']} unbound, {'ok' if is_met else 'MISSED'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
