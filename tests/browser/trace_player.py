"""Philly played to an API server: its jobs as pods, at so many times real time, as they came."""

import csv
import gzip
import http.client
import json
import math
import threading
import time
from collections import deque
from pathlib import Path
from urllib.parse import urlsplit

import kaisched
from kaisched.objects.labels import RUN_SECONDS
from tests.objects import QUEUES, group, pod, queue

TRACE = Path(kaisched.__file__).parent / "data/traces/philly-2017"
BEGIN_S = 28 * 86_400.0
"""The trace is sparse before its 28th day."""
SPACE = "philly"
_GPUS, _LISTS_S, _SENDERS = 8, 5.0, 3
_GROUPS = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{SPACE}/podgroups"
_PODS = f"/api/v1/namespaces/{SPACE}/pods"


def read_jobs():
    """Return of each job when it was submitted and its run time in seconds, its GPUs, its queue."""
    with gzip.open(TRACE / "jobs.csv.gz", "rt") as file:
        rows = [
            (
                float(job["submit_s"]) - BEGIN_S,
                float(job["duration_s"]),
                int(job["num_gpus"]),
                job["vc"],
            )
            for job in csv.DictReader(file)
        ]
    return [it for it in rows if it[0] >= 0]


def queues(gpus):
    """Return the queues of the trace below one of all GPUs, with parts as its nodes had."""
    with (TRACE / "vcs.csv").open() as file:
        nodes = {it["vc"]: int(it["published_nodes"] or 0) for it in csv.DictReader(file)}
    part = gpus / sum(nodes.values())
    quotas = {name: int(part * count) for name, count in nodes.items()}
    yield queue(SPACE, gpus)
    for name, quota in quotas.items():
        yield queue(name, quota, SPACE, weight=max(nodes[name], 1))


def objects(number, job, speed):
    """Return the requests that submit a job: a pod, or a group of pods of eight GPUs each."""
    _, run_s, gpus, team = job
    name, pods = f"job-{number:05d}", math.ceil(gpus / _GPUS)
    notes = {RUN_SECONDS: f"{run_s / speed:.3f}"}
    together = name if pods > 1 else ""
    if together:
        yield _GROUPS, group(name, team, pods)
    for at in range(pods):
        each = min(gpus, _GPUS)
        yield _PODS, pod(f"{name}-{at}", team, each, group=together, annotations=notes)


class Player:
    """Submits jobs when they are due, and deletes pods that have ended, as a controller would."""

    def __init__(self, url, speed):
        """Make the queues; nothing is submitted before :meth:`start`."""
        self._host, self._speed = urlsplit(url).netloc, speed
        self._jobs, self._due = read_jobs(), deque()
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self.submitted = 0
        self.faults = []
        talk = self._line()
        self._ask(talk, "POST", "/api/v1/namespaces", {"metadata": {"name": SPACE}})

    def _line(self):
        return http.client.HTTPConnection(self._host, timeout=60)

    def _ask(self, line, method, path, body=None):
        text = None if body is None else json.dumps(body)
        line.request(method, path, text, {"Content-Type": "application/json"})
        answer = line.getresponse()
        said = answer.read()
        if answer.status >= 300:
            self.faults.append(f"{method} {path}: {answer.status} {said[:200]!r}")
        return said

    def start(self, gpus):
        """Begin the trace now, on a cluster of so many GPUs."""
        line = self._line()
        for each in queues(gpus):
            self._ask(line, "POST", QUEUES, each)
        self._began_s = time.monotonic()
        targets = [self._send] * _SENDERS + [self._tidy]
        self._threads = [threading.Thread(target=it, daemon=True) for it in targets]
        for it in self._threads:
            it.start()

    def day(self):
        """Return the day of the trace of the last job that was submitted."""
        at = min(self.submitted, len(self._jobs) - 1)
        return (BEGIN_S + self._jobs[at][0]) / 86_400

    def late_s(self):
        """Return by how many seconds submitting is behind the trace."""
        at = min(self.submitted, len(self._jobs) - 1)
        return max(time.monotonic() - self._began_s - self._jobs[at][0] / self._speed, 0.0)

    def _send(self):
        line = self._line()
        while not self._stopped.is_set():
            with self._lock:
                number = self.submitted
                if number >= len(self._jobs):
                    return
                due_s = self._began_s + self._jobs[number][0] / self._speed
                if is_due := time.monotonic() >= due_s:
                    self.submitted += 1
            if not is_due:
                time.sleep(0.01)
                continue
            for path, body in objects(number, self._jobs[number], self._speed):
                self._ask(line, "POST", path, body)

    def _tidy(self):
        """Delete pods that have ended, and groups none of whose pods are left."""
        line, old = self._line(), set()
        while not self._stopped.wait(_LISTS_S):
            self._ask(line, "DELETE", f"{_PODS}?fieldSelector=status.phase%3DSucceeded")
            groups = json.loads(self._ask(line, "GET", _GROUPS))["items"]
            names = {it["metadata"]["name"] for it in groups}
            if old:
                pods = json.loads(self._ask(line, "GET", _PODS))["items"]
                live = {it["metadata"]["name"].rpartition("-")[0] for it in pods}
                for name in sorted((old & names) - live):
                    self._ask(line, "DELETE", f"{_GROUPS}/{name}")
            old = names

    def stop(self):
        """Submit nothing more."""
        self._stopped.set()
        for it in self._threads:
            it.join(10)
