"""Both policies in one process on the playground: ``python -m tests.chaos.two_shards``.

One shard divides half of the nodes by the default policy, the other lends the other half by
`fair-sharing`. Jobs come and end in the queues of both. At the end it prints what was decided, what
failed, and the lines of the log at warning or above.
"""

import argparse
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import yaml

from kaisched.cluster.kubernetes.access import find_access
from kaisched.cluster.kubernetes.client import MERGE, Client
from tests.chaos.facts import GPU, OURS, QUEUE_LABEL, RUN_SECONDS
from tests.chaos.objects import Asking

LENDS = Path(__file__).resolve().parents[2] / "config" / "shards" / "kueue.yaml"
POOL = "kai.scheduler/node-pool"
NODES, GPUS = 16, 8
HALF = NODES * GPUS // 2
NAMESPACE = "both"
JOB_S = 1.0
"""Seconds between two jobs: what they ask for is one and a half times what there is."""
TREES = {
    "": {"top": ("", HALF), "a": ("top", 32), "b": ("top", 16), "c": ("top", 16)},
    "lending": {
        "campus": ("", 16),
        "d": ("campus", 0),
        "e": ("campus", 16),
        "da": ("d", 16),
        "db": ("d", 16),
    },
}
LEAVES = {"": ("a", "b", "c"), "lending": ("e", "da", "db")}
COUNTED = ("cycles", "binds", "evictions", "nominations", "plugin_failures", "watch_errors")


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def named(name, pool, kind="Queue", version="scheduling.run.ai/v2", **rest):
    labels = {POOL: pool} if pool else {}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        **rest,
    }


def objects():
    """Yield the shards, queues and priorities of both halves."""
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    shard = "kai.scheduler/v1"
    yield named("default", "", "SchedulingShard", shard, spec={})
    lends = yaml.safe_load(LENDS.read_text(encoding="utf-8"))["spec"]
    spec = {"partitionLabelValue": "lending", **lends}
    yield named("lending", "", "SchedulingShard", shard, spec=spec)
    for pool, tree in TREES.items():
        for name, (parent, quota) in tree.items():
            spec = {"resources": {"gpu": {"quota": quota}}}
            yield named(name, pool, spec={**spec, **({"parentQueue": parent} if parent else {})})
    for name, value in (("low", 40), ("high", 60)):
        yield named(name, "", "PriorityClass", "scheduling.k8s.io/v1", value=value)


def job(number, rng):
    """Return a job of a few equal pods, in a queue of either half."""
    pool = rng.choice(list(LEAVES))
    gpus, pods = rng.choice((1, 1, 2, 4)), rng.choice((1, 1, 2, 4))
    labels = {QUEUE_LABEL: rng.choice(LEAVES[pool]), **({POOL: pool} if pool else {})}
    container = {"name": "main", "image": "example.com/x:1", "resources": {"limits": {GPU: gpus}}}
    pod = {
        "schedulerName": OURS,
        "priorityClassName": rng.choice(("low", "low", "high")),
        "restartPolicy": "Never",
        "containers": [container],
    }
    seconds = {RUN_SECONDS: str(rng.randint(20, 80))}
    template = {"metadata": {"labels": labels, "annotations": seconds}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"j{number}", "namespace": NAMESPACE, "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


@contextmanager
def process(*words, log):
    """Run kaisched until the block ends."""
    with log.open("w", encoding="utf-8") as out:
        line = [sys.executable, "-m", "kaisched", *map(str, words)]
        run = subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT)
        try:
            yield run
        finally:
            run.terminate()
            run.wait(30)


def furnish(asking):
    for obj in objects():
        asking.apply(obj)
    nodes = asking.must("GET", "/api/v1/nodes")["items"]
    for node in nodes[: NODES // 2]:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        asking.must("PATCH", path, {"metadata": {"labels": {POOL: "lending"}}}, MERGE)


def crowded(asking):
    """Return the nodes on which pods hold more GPUs than there are, and what runs elsewhere."""
    pool_of = {
        node["metadata"]["name"]: node["metadata"].get("labels", {}).get(POOL, "")
        for node in asking.must("GET", "/api/v1/nodes")["items"]
    }
    held, wrong = Counter(), []
    for pod in asking.must("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]:
        node = pod["spec"].get("nodeName")
        if node is None or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        held[node] += int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
        if pod["metadata"]["labels"].get(POOL, "") != pool_of[node]:
            wrong.append(pod["metadata"]["name"])
    return [node for node, gpus in held.items() if gpus > GPUS], wrong, sum(held.values())


def churn(asking, minutes, rng, run):
    """Make jobs for so long; return how many, the GPUs held on average, and what was wrong."""
    end_s = time.monotonic() + minutes * 60
    number, samples, wrong = 0, [], []
    while time.monotonic() < end_s and run.poll() is None:
        asking.must("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", job(number, rng))
        number += 1
        if number % 20 == 0:
            full, elsewhere, held = crowded(asking)
            wrong += full + elsewhere
            samples.append(held)
        time.sleep(JOB_S)
    return number, sum(samples) / max(len(samples), 1), wrong


def told(port, log):
    """Yield what the process counted, shard by shard, and the events of its log."""
    for shard in ("default", "lending"):
        url = f"http://127.0.0.1:{port}/metrics?shard={shard}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        counts = Counter()
        for line in lines:
            name, _, value = line.rpartition(" ")
            counts[name.partition("{")[0]] += float(value) if name[:1] not in {"", "#"} else 0
        some = (f"{it} {counts[f'kaisched_{it}_total']:.0f}" for it in COUNTED)
        yield f"{shard}: " + ", ".join(some)
    events, severe = Counter(), []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            severe.append(line)
            continue
        events[entry.get("level"), entry.get("event")] += 1
        if entry.get("level") not in ("info", "debug"):
            severe.append(line)
    yield "log: " + ", ".join(f"{level} {name} {n}" for (level, name), n in events.most_common())
    yield f"lines at warning or above: {len(severe)}"
    yield from severe[:20]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.two_shards", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng, port = random.Random(asked.seed), free_port()
    with tempfile.TemporaryDirectory(prefix="two-shards-") as kept:
        folder = Path(kept)
        access = folder / "kubeconfig"
        words = ("playground", "--no-scheduler", "--nodes", NODES, "--kubeconfig", access)
        with process(*words, "--gpus-per-node", GPUS, log=folder / "server.log"):
            while not access.exists():
                time.sleep(0.2)
            asking = Asking(Client(find_access(access), connections=4, timeout_s=60.0))
            furnish(asking)
            log = folder / "run.log"
            words = (
                "run",
                "--cluster",
                "kubernetes",
                "--kubeconfig",
                access,
                "--metrics-port",
                port,
            )
            with process(
                *words, "--health-port", free_port(), "--log-format", "json", log=log
            ) as run:
                number, held, wrong = churn(asking, asked.minutes, rng, run)
                print(f"{asked.minutes:g} minutes, seed {asked.seed}: {number} jobs")
                print(
                    f"GPUs held on average: {held:.0f} of {NODES * GPUS}; misplaced: {len(wrong)}"
                )
                if run.poll() is not None:
                    sys.exit("the process ended:\n" + log.read_text(encoding="utf-8")[-2000:])
                for line in told(port, log):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
