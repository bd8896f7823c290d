"""How fast a cluster is scheduled end to end: ``python -m tests.on_kubernetes.bench [ROW ...]``.

API server and daemon are processes of their own; clients that create pods are this one. Nothing is
timed before everything was really placed. The figures and what they should be are in
docs/reference/benchmarks.md.
"""

import argparse
import math
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import structlog

from kaisched.cluster.kubernetes.binder import BindWork, GangBinds
from kaisched.cluster.kubernetes.cluster import BIND
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.pods import Writers
from kaisched.cluster.kubernetes.write_queue import WriteQueue
from kaisched.framework.intents import Bind
from tests import objects
from tests.on_kubernetes.bench_cluster import NAMESPACE, PODS, cluster_of, daemon_on
from tests.waiting import until

CREATORS = 4
NODES, GPUS = 500, 8
PATIENCE_S = 300.0


def create(cluster, names, queue, group=""):
    """Create pods of one GPU, with a few clients at a time."""

    def work(part):
        for name in part:
            cluster.must("POST", PODS, objects.pod(name, queue, group=group))

    threads = [threading.Thread(target=work, args=(names[at::CREATORS],)) for at in range(CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def named(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


def wait_bound(cluster, prefix, count, glance_s=0.05):
    def is_done():
        time.sleep(glance_s)
        return cluster.bound(prefix) >= count

    until(is_done, PATIENCE_S)


@contextmanager
def running(nodes):
    """A daemon on empty nodes, with two queues: ``a`` deserves nothing, ``b`` everything."""
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster_of(nodes) as cluster,
        daemon_on(cluster, Path(folder)) as daemon,
    ):
        cluster.queue("a", 0)
        cluster.queue("b", -1)
        until(lambda: daemon.said("loop_started"), PATIENCE_S)
        yield cluster, daemon


def jobs(nodes):
    """Return seconds from the first creation to the last bind of a job for every GPU."""
    with running(nodes) as (cluster, daemon):
        start_s, cpu_s = time.monotonic(), daemon.cpu_s
        create(cluster, named("j", nodes * GPUS), "b")
        wait_bound(cluster, "j", nodes * GPUS)
        took_s = time.monotonic() - start_s
        return took_s, f"{(daemon.cpu_s - cpu_s) * 1000 / nodes / GPUS:.2f} ms of CPU a pod"


def gang(nodes):
    """Return seconds from the first creation to the last bind of a gang of 512 pods."""
    size = min(512, nodes * GPUS)
    with running(nodes) as (cluster, _):
        start_s = time.monotonic()
        cluster.group("g", "b", size)
        create(cluster, named("g", size), "b", "g")
        wait_bound(cluster, "g", size)
        return time.monotonic() - start_s, ""


def pod(nodes):
    """Return the median of the seconds that a pod waits on an idle cluster."""
    taken = []
    with running(nodes) as (cluster, _):
        for name in named("s", 20):
            time.sleep(0.3)
            start_s = time.monotonic()
            cluster.must("POST", PODS, objects.pod(name, "b"))
            wait_bound(cluster, name, 1, glance_s=0.002)
            taken.append(time.monotonic() - start_s)
            cluster.must("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    return statistics.median(taken), f"slowest {max(taken) * 1000:.0f} ms"


def reclaims(nodes):
    """Return seconds from the first creation until a queue has all GPUs, which another held."""
    count = nodes * GPUS
    with running(nodes) as (cluster, daemon):
        cluster.make(named("old", count), ["a"])
        wait_bound(cluster, "old", count)
        start_s, cpu_s = time.monotonic(), daemon.cpu_s
        create(cluster, named("new", count), "b")
        wait_bound(cluster, "new", count)
        took_s = time.monotonic() - start_s
        assert cluster.bound("old") == 0
        return took_s, f"{(daemon.cpu_s - cpu_s) * 1000 / count:.2f} ms of CPU a reclaim"


def memory(nodes):
    """Return the most memory (MB) the daemon holds while it binds pods to 8 of 10 GPUs asked for.

    A hundred queues; ten times the nodes of the other rows.
    """
    nodes *= 10
    count = nodes * GPUS
    with tempfile.TemporaryDirectory() as folder, cluster_of(nodes) as cluster:
        queues = named("q", 100)
        for queue in queues:
            cluster.queue(queue, -1)
        cluster.make(named("m", count * 5 // 4), queues)
        with daemon_on(cluster, Path(folder)) as daemon:
            until(lambda: daemon.said("loop_started"), PATIENCE_S)
            wait_bound(cluster, "m", count, glance_s=2.0)
            return daemon.peak_mb, f"{daemon.cpu_s:.0f} s of CPU"


def binder(nodes):
    """Return milliseconds of CPU that the binder alone spends on a pod."""
    count = nodes * GPUS
    with cluster_of(nodes) as cluster:
        cluster.make(named("p", count), ["b"])
        uids = cluster.uids()
        leadership = Leadership()
        leadership.renew(math.inf)
        write_queue = WriteQueue(leadership, writers=8, per_second=100_000, write_s=1.0)
        writers = Writers(cluster.client, leadership, lambda _: None, structlog.get_logger())
        start_s, cpu_s = time.monotonic(), time.process_time()
        for number, (name, uid) in enumerate(uids.items()):
            bind = Bind(f"{NAMESPACE}/{name}", uid, f"n{number % nodes}", name, 0, 0)
            write_queue.put(BIND, BindWork(writers, bind, GangBinds(name)))
        until(lambda: time.sleep(0.05) or not write_queue.waiting, PATIENCE_S)
        cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - start_s
        write_queue.close(1.0)
        assert cluster.bound("p") == count
        return cpu_s * 1000 / count, f"{count / took_s:.0f} pods/s"


ROWS = {
    "jobs": (jobs, 20.0, "s"),
    "gang": (gang, 4.0, "s"),
    "pod": (pod, 0.150, "s"),
    "reclaims": (reclaims, 40.0, "s"),
    "memory": (memory, 600.0, "MB"),
    "binder": (binder, 0.6, "ms"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all unless given"
    )
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for name in options.rows or ROWS:
        run, most, unit = ROWS[name]
        figures, notes = zip(*(run(options.nodes) for _ in range(options.repeat)), strict=True)
        shown = ", ".join(f"{figure:.3g}" for figure in figures)
        median = statistics.median(figures)
        print(
            f"{name:9} median {median:.3g} {unit} of {shown} (at most {most:g}); {notes[-1]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
