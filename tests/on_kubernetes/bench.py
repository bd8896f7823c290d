"""How fast a cluster is scheduled end to end: ``python -m tests.on_kubernetes.bench``.

The API server is a process of its own; daemon and clients that create pods share this one.
Nothing is timed before everything was really placed.
"""

import argparse
import multiprocessing
import resource
import statistics
import threading
import time

import msgspec

from kaisched.cluster.embedded.apiserver import ApiServer
from tests.on_kubernetes import rig as rigs
from tests.on_kubernetes.rig import Rig, until

CREATORS = 4


def serve(pipe):
    with ApiServer() as server:
        pipe.send(server.url)
        pipe.recv()


class Elsewhere:
    """A server in another process, as the rig sees it."""

    def __init__(self, url):
        self.url = url

    def start(self):
        return self

    def stop(self):
        pass


def create(rig, names, **options):
    """Create pods of one GPU, with a few clients at a time."""

    def work(part):
        for name in part:
            rig.pod(name, "a", **options)

    threads = [threading.Thread(target=work, args=(names[at::CREATORS],)) for at in range(CREATORS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def bound(rig):
    answer = rig.client.call("GET", f"{rig.pods_path}?fieldSelector=spec.nodeName!=")
    return len(msgspec.json.decode(answer.data)["items"])


def wait_bound(rig, pods):
    def is_done():
        time.sleep(0.1)
        return bound(rig) >= pods

    until(is_done, 300)


def clear(rig, names):
    for name in names:
        rig.delete_pod(name)


def run(rig, sizes):
    for number in range(sizes.nodes):
        rig.node(f"n{number}", 8)
    rig.queue("root", -1)
    rig.queue("a", -1, "root")
    rig.start(schedulePeriod="1s", kubernetes={"reportsPerSecond": 20}).wait_leading()

    names = [f"j{number}" for number in range(sizes.jobs)]
    start_s, cpu_s = time.monotonic(), time.process_time()
    create(rig, names)
    created_s = time.monotonic() - start_s
    wait_bound(rig, sizes.jobs)
    print(
        f"{sizes.jobs} jobs of one GPU on {sizes.nodes} nodes: created in {created_s:.1f} s, all"
        f" bound after {time.monotonic() - start_s:.1f} s;"
        f" {time.process_time() - cpu_s:.1f} s of CPU here"
    )
    clear(rig, names)
    names = [f"g-{number}" for number in range(sizes.gang)]
    start_s = time.monotonic()
    rig.group("g", "a", sizes.gang)
    create(rig, names, group="g")
    created_s = time.monotonic() - start_s
    wait_bound(rig, sizes.gang)
    took_s = time.monotonic() - start_s
    print(f"a gang of {sizes.gang}: created in {created_s:.1f} s, bound after {took_s:.1f} s")
    clear(rig, names)
    taken = []
    for number in range(sizes.single):
        time.sleep(0.3)
        start_s = time.monotonic()
        rig.pod(f"s{number}", "a")
        until(lambda name=f"s{number}": name in rig.placed())
        taken.append(time.monotonic() - start_s)
    print(
        f"a pod on an idle cluster: bound after {statistics.median(taken) * 1000:.0f} ms (median)"
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process: {peak:.0f} MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 500), ("jobs", 4000), ("gang", 512), ("single", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    process.start()
    url = here.recv()
    rigs.ApiServer = lambda: Elsewhere(url)
    try:
        rig = Rig()
        try:
            run(rig, parser.parse_args())
        finally:
            rig.close()
    finally:
        here.send("end")
        process.join()


if __name__ == "__main__":
    main()
