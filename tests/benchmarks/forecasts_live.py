"""The error of forecasts of starts, on a playground to which jobs are sent.

``python -m tests.benchmarks.forecasts_live gangs`` starts ``kaisched playground``, sends jobs of a
kind at instants by chance, asks ``kaisched why --when`` about jobs that wait, and compares with
when they start. All jobs declare how long they run. It takes eight minutes, in which they are sent.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from kaisched.cluster.kubernetes.access import find_access
from kaisched.cluster.kubernetes.client import Client

Manifest = dict[str, Any]

NODES, GPUS = 4, 8
LOAD = 1.15
"""GPU-seconds that are sent, as a multiple of what the cluster has: so jobs wait."""
ASK_S = 4.0
TIMEOUT_S = 60.0
PATHS = {
    "Queue": "/apis/scheduling.run.ai/v2/queues",
    "PodGroup": "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "Pod": "/api/v1/namespaces/default/pods",
}
QUEUES = (("lab", "", 32), ("speech", "lab", 20), ("vision", "lab", 12))


@dataclass(frozen=True)
class Work:
    """One job that is sent."""

    manifests: list[Manifest]
    gpu_seconds: float


def job(name: str, queue: str, gpus: int, run_s: int, pods: int = 1, at_once: int = 1) -> Work:
    """Return a batch Job of so many pods."""
    spec = {"completions": pods, "parallelism": at_once, "template": _template(queue, gpus, run_s)}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return Work([manifest], float(gpus * run_s * pods))


def gang(name: str, queue: str, gpus: int, run_s: int, pods: int) -> Work:
    """Return a pod group, and as many pods as it needs."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": pods, "queue": queue},
    }
    made: list[Manifest] = [group]
    for number in range(pods):
        template = _template(queue, gpus, run_s)
        template["metadata"] |= {"name": f"{name}-{number}"}
        template["metadata"]["annotations"] |= {"pod-group-name": name}
        made.append({"apiVersion": "v1", "kind": "Pod", **template})
    return Work(made, float(gpus * run_s * pods))


def _template(queue: str, gpus: int, run_s: int) -> Manifest:
    resources = {kind: {"nvidia.com/gpu": str(gpus)} for kind in ("requests", "limits")}
    container = {"name": "main", "image": "example.com/train", "resources": resources}
    return {
        "metadata": {
            "labels": {"kai.scheduler/queue": queue},
            "annotations": {"kaisched.io/run-seconds": str(run_s)},
        },
        "spec": {
            "schedulerName": "kaisched",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,  # as long as the kubelets of the playground take
            "containers": [container],
        },
    }


def single_jobs(name: str, dice: random.Random) -> Work:
    """Return a job of one pod."""
    return job(name, "speech", dice.choice([1, 2, 4, 8]), _run_s(dice))


def parallel_jobs(name: str, dice: random.Random) -> Work:
    """Return a Job that runs several pods one after the other and beside each other."""
    pods, gpus = dice.choice([4, 6, 8]), dice.choice([1, 2, 4])
    return job(name, "speech", gpus, _run_s(dice) // 2, pods, 2)


def gangs(name: str, dice: random.Random) -> Work:
    """Return a gang."""
    pods = dice.choice([2, 4, 8])
    return gang(name, "speech", dice.choice([1, 2]), _run_s(dice), pods)


def mixed(name: str, dice: random.Random) -> Work:
    """Return a job of any kind: one queue sends for a while, then the other takes back."""
    work = dice.choice([single_jobs, parallel_jobs, gangs])(name, dice)
    if int(name.removeprefix("j")) // 8 % 2:
        return work
    return Work(
        json.loads(json.dumps(work.manifests).replace('"speech"', '"vision"')), work.gpu_seconds
    )


def _run_s(dice: random.Random) -> int:
    return dice.randint(20, 80)


LOADS: dict[str, Callable[[str, random.Random], Work]] = {
    "single": single_jobs,
    "parallel": parallel_jobs,
    "gangs": gangs,
    "mixed": mixed,
}


@dataclass
class Asked:
    """What was said of a job that waits, and what came of it."""

    name: str
    at_s: float
    seen: Manifest
    started_s: float = math.inf


@dataclass
class Course:
    """A playground with one kind of load."""

    client: Client
    kubeconfig: Path
    asked: list[Asked] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    """Pod to its node; empty while it waits."""
    evictions: int = 0

    def put(self, manifest: Manifest) -> None:
        """Create an object."""
        answer = self.client.call("POST", PATHS[manifest["kind"]], body=manifest)
        if not answer.is_done:
            raise SystemExit(f"{manifest['kind']}: {answer.text()}")

    def look(self) -> None:
        """Note which pods have got a node since the last look."""
        answer = self.client.call("GET", PATHS["Pod"])
        now_s = time.monotonic()
        there: dict[str, str] = {}
        for pod in msgspec.json.decode(answer.data)["items"]:
            name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
            there[name] = node
            if pod.get("status", {}).get("phase") == "Succeeded":
                there[name] = node or "gone"
            if node and not self.nodes.get(name):
                for each in self.asked:
                    if math.isinf(each.started_s) and _is_of(name, each.name):
                        each.started_s = now_s
            if pod["metadata"].get("deletionTimestamp") and self.nodes.get(name) != "leaving":
                self.evictions += 1
                there[name] = "leaving"
        self.nodes = there

    def ask(self, name: str) -> None:
        """Ask when a waiting pod's job starts."""
        line = [sys.executable, "-m", "kaisched", "why", name, "-n", "default", "--when"]
        line += ["--kubeconfig", str(self.kubeconfig), "-o", "json"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode == 0 and (seen := json.loads(done.stdout).get("when")):
            read_s = datetime.fromisoformat(seen["time"]).timestamp() - time.time()
            self.asked.append(Asked(name, time.monotonic() + read_s, seen))
            self.look()

    def waiting(self) -> list[str]:
        """Return a waiting pod of each job that has none on a node."""
        jobs: dict[str, list[str]] = {}
        for name in self.nodes:
            jobs.setdefault(name.rpartition("-")[0], []).append(name)
        return [pods[0] for pods in jobs.values() if all(not self.nodes[pod] for pod in pods)]


def _is_of(pod: str, asked: str) -> bool:
    return pod.rpartition("-")[0] == asked.rpartition("-")[0]


def arrivals(dice: random.Random, load: str) -> Iterator[tuple[float, Work]]:
    """Yield the times in seconds, and the jobs that are sent then."""
    at_s, number = 0.0, 0
    while True:
        work = LOADS[load](f"j{number}", dice)
        yield at_s, work
        at_s += dice.expovariate(1.0) * work.gpu_seconds / (LOAD * NODES * GPUS)
        number += 1


def run(load: str, seed: int, minutes: float, course: Course) -> None:
    """Send jobs for a while and ask; then wait for those that were asked about."""
    dice = random.Random(seed)
    for name, parent, quota in QUEUES:
        resources = {"gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1}}
        spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
        head = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
        course.put({**head, "metadata": {"name": name}, "spec": spec})
    begun_s = time.monotonic()
    sent, ask_s = arrivals(dice, load), begun_s + 30
    at_s, work = next(sent)
    while (now_s := time.monotonic()) < begun_s + 60 * minutes:
        while at_s <= now_s - begun_s:
            for manifest in work.manifests:
                course.put(manifest)
            at_s, work = next(sent)
        course.look()
        waiting = course.waiting()
        if now_s >= ask_s and waiting:
            course.ask(dice.choice(sorted(waiting)))
            ask_s = time.monotonic() + ASK_S
        time.sleep(0.2)
    end_s = time.monotonic() + 60 * minutes
    while any(math.isinf(it.started_s) for it in course.asked) and time.monotonic() < end_s:
        course.look()
        time.sleep(0.2)


def row_of(load: str, course: Course) -> str:
    """Return a line of the table."""
    rows = [(it, it.started_s - it.at_s) for it in course.asked if math.isfinite(it.started_s)]
    slack_s = 5.0  # a cycle, the start of a pod, the command itself

    def holds(seen: Manifest, actual_s: float) -> bool:
        latest_s = seen["latestSeconds"]
        first_s = seen["earliestSeconds"] if seen["started"] else seen["lookedAheadSeconds"]
        return (
            first_s - slack_s <= actual_s <= (math.inf if latest_s is None else latest_s) + slack_s
        )

    exact = [(it.seen["medianSeconds"], actual_s) for it, actual_s in rows]
    errors = [abs(seen_s - actual_s) for seen_s, actual_s in exact if seen_s is not None]
    factors = [
        abs(math.log((seen_s + slack_s) / (actual_s + slack_s)))
        for seen_s, actual_s in exact
        if seen_s is not None
    ]
    held = sum(holds(it.seen, actual_s) for it, actual_s in rows)
    cells = (
        load,
        f"{len(rows)} of {len(course.asked)}",
        f"{course.evictions}",
        f"{median([actual_s for _, actual_s in rows] or [math.nan]):.0f} s",
        f"{median(errors or [math.nan]):.0f} s",
        f"{math.exp(median(factors or [math.nan])):.2f}",
        f"{100 * held / max(len(rows), 1):.0f} %",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure one kind of load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8.0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        line = [sys.executable, "-m", "kaisched", "playground", "--kubeconfig", str(kubeconfig)]
        line += ["--nodes", str(NODES), "--gpus-per-node", str(GPUS)]
        log = Path(folder) / "log"
        with log.open("w") as told, subprocess.Popen(line, stdout=told, stderr=told) as served:
            try:
                end_s = time.monotonic() + TIMEOUT_S
                while not kubeconfig.exists() and time.monotonic() < end_s:
                    time.sleep(0.2)
                time.sleep(3.0)
                access = find_access(kubeconfig)
                course = Course(Client(access, connections=2, timeout_s=TIMEOUT_S), kubeconfig)
                run(chosen.load, chosen.seed, chosen.minutes, course)
            finally:
                served.terminate()
        names = ("load", "jobs", "evictions", "median wait", "error", "factor", "band holds")
        print(f"| {' | '.join(names)} |")
        print(row_of(chosen.load, course))


if __name__ == "__main__":
    main()
