"""Memory by jobs handled, far faster than jobs really come: ``python -m tests.chaos.accelerated``.

The loop, the store and the reporter of a leader, on a sink that counts, and the store of a process
that stands by. Jobs come under ever new names, run, wait, are evicted and go; after every 5,000
all of them are gone, queues have other names, and memory is read.
"""

import argparse
import sys
from pathlib import Path

import msgspec
import structlog

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.store import StateStore
from kaisched.objects.queue import Queue
from tests.benchmarks import b14
from tests.chaos.soak import slope

ROUND, PER_TURN = 5_000, 10
"""Jobs between two looks at memory, and in a turn."""
MOST_WAITING, ENDING = 120, 16
SIZES, QUEUES = (1, 1, 2, 4, 8), (0, 0, 0, 1, 2, 3)
_PAGE_MB = 4096 / 2**20


class Cluster(b14.Cluster):
    """Evicts as well as it binds, and lets a standby hear everything."""

    def __init__(self):
        super().__init__()
        self.standby = KubernetesCluster(None, Leadership(), None, ManualClock(1e9), StateStore())

    def apply(self, binds, evictions, nominations):
        del nominations
        for bind in binds:
            self.run(self.waiting.pop(bind.pod), bind.node)
        for evict in evictions:
            self.remove(self.running, [evict.pod])

    def take_in(self, pod):
        super().take_in(pod)
        self.standby.tell(Change(pod))

    def remove(self, among, keys):
        for key in keys:
            change = Change(among.pop(key), is_gone=True)
            self.store.remove_pod(key)
            self.tell(change)
            self.standby.tell(change)

    def put_queue(self, name):
        spec = {"resources": {"gpu": {"quota": 20}}}
        queue = msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": spec}, Queue)
        self.store.upsert_queue(queue)
        self.tell(Change(queue))
        return queue

    def remove_queue(self, queue):
        self.store.remove_queue(queue.name)
        self.tell(Change(queue, is_gone=True))


def pod_of(number, queue):
    """Every tenth may not be evicted, and evicts others."""
    pod = b14.pod_of(f"job-{number}", queue, SIZES[number % len(SIZES)], 1, number % 80_000)
    labels = {"kai.scheduler/queue": queue, "job": pod.metadata.name}
    labels |= {"priorityClassName": "build"} if number % 10 == 0 else {}
    return msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels)
    )


def rounds(jobs):
    """Handle so many jobs; yield (jobs so far, MB, blocks) whenever all of them are gone."""
    b14.Cluster = Cluster
    bench = b14.Bench(12, 4, 0)
    cluster = bench.cluster
    for first in range(0, jobs, ROUND):
        queues = [cluster.put_queue(f"queue-{first}-{at}") for at in range(4)]
        for number in range(first, first + ROUND):
            cluster.come(pod_of(number, queues[QUEUES[number * 7 % 13 % len(QUEUES)]].name))
            if number % PER_TURN:
                continue
            bench.now_s += 1.0
            cluster.remove(cluster.running, list(cluster.running)[:ENDING])
            cluster.remove(cluster.waiting, list(cluster.waiting)[:-MOST_WAITING])
            assert bench.loop.cycle() is not None
            for _ in range(b14.PER_SECOND):
                bench.reporter.step()
            cluster.standby.catch_up()
        for among in (cluster.running, cluster.waiting):
            cluster.remove(among, list(among))
        for queue in queues:
            cluster.remove_queue(queue)
        bench.loop.cycle()
        cluster.standby.catch_up()
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        yield first + ROUND, pages * _PAGE_MB, sys.getallocatedblocks()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.accelerated")
    parser.add_argument("--jobs", type=int, default=100_000)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    found = []
    for row in rounds(parser.parse_args().jobs):
        found.append(row)
        print(f"{row[0]} jobs: {row[1]:.2f} MB, {row[2]} blocks", flush=True)
    counted = found[len(found) // 2 :]  # what fills up at first is no growth
    for at, unit in ((1, "MB"), (2, "blocks")):
        # A slope by the hour, of jobs in place of seconds: 3,600 of them count as 10,000.
        rise, error = slope([it[0] * 0.36 for it in counted], [it[at] for it in counted])
        print(f"{rise:+.3f} ± {error:.3f} {unit} in 10,000 jobs of the last half")


if __name__ == "__main__":
    main()
