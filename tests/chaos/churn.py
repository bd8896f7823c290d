"""Users: jobs of all sorts come and go, and what is lost of them is made anew."""

import math
import threading
import time

from kaisched.errors import ClusterUnavailable
from tests.chaos.facts import ENDED
from tests.chaos.objects import GROUPS, LEAVES, NAMESPACE, PODS, Job, Refused, group_of, pod_of

TICK_S = 0.25
WAVE_S = 150.0
"""How long it takes from much work to little and back."""
SORTS = (("single", 45), ("gang", 25), ("elastic", 15), ("build", 10), ("inference", 5))
PATIENCE_S = 180.0
"""So long after the last pod of a job was on a node its user gives it up: some could never run."""
GRACES = ("", "20s", "20s", "10s", "-1s")


class Churn:
    """Makes jobs until there is as much as it wants, and looks after them."""

    def __init__(self, asking, world, size, chance, end):
        self.jobs = {}
        self.gpus = size.gpus
        self.made = {name: 0 for name, _ in SORTS}
        self.is_making = True
        self._asking, self._world, self._size, self._chance = asking, world, size, chance
        self._end, self._begun_s = end, time.monotonic()
        self._number, self._lock = 0, threading.RLock()
        self._due = {}
        """(job, place) to when its pod is made anew."""
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)

    def start(self):
        self._thread.start()

    def _run(self):
        while not self._end.wait(TICK_S):
            try:
                self._tick()
            except (ClusterUnavailable, Refused):
                self._end.wait(0.5)

    def _tick(self):
        with self._lock:
            jobs = list(self.jobs.values())
        for job in jobs:
            self._tend(job)
        if not self.is_making:
            return
        asked = sum(job.gpus * job.pods for job in self.jobs.values())
        for _ in range(self._size.burst):
            if asked >= self._wanted():
                return
            job = self._new()
            with self._lock:
                self.jobs[job.name] = job
            asked += job.gpus * job.pods
            self._tend(job)

    def _wanted(self):
        """Return how many GPUs the jobs should ask for now, in a wave about the capacity."""
        phase = (time.monotonic() - self._begun_s) / WAVE_S * 2 * math.pi
        low, high = self._size.load
        return self._size.gpus * (low + (high - low) * (1 + math.sin(phase)) / 2)

    def _new(self):
        chance = self._chance
        sort = chance.choices([it for it, _ in SORTS], [it for _, it in SORTS])[0]
        self._number += 1
        self.made[sort] += 1
        gpus, pods, minimum, priority = chance.choice((1, 1, 1, 2, 4, 8)), 1, 0, "train"
        if sort == "gang":
            pods = minimum = chance.choice((2, 3, 4, 8, self._size.gang))
        elif sort == "elastic":
            pods, minimum = chance.randint(3, 8), chance.randint(1, 2)
            gpus = min(gpus, 4)
        elif sort in {"build", "inference"}:
            pods = minimum = chance.choice((0, 2, 3)) or 0
            pods, gpus, priority = max(pods, 1), min(gpus, 4), sort
        low, high = self._size.run_s
        run_s = chance.uniform(low, high)
        # Some pods of a job are done long before the others.
        runs = tuple(run_s * chance.choice((1.0, 1.0, 1.0, 0.5)) for _ in range(pods))
        return Job(
            f"{sort}-{self._number}",
            chance.choice(LEAVES),
            pods,
            gpus,
            runs,
            minimum,
            chance.choice((priority, priority, "build-preemptible"))
            if priority == "train"
            else priority,
            grace=chance.choice(GRACES) if minimum else "",
            is_tended=chance.random() > 0.15,
            grace_s=chance.choice((1, 3, 8)),
            names=[""] * pods,
        )

    # -- a job's life ----------------------------------------------------------------------------

    def _tend(self, job):
        """Make what is missing of a job; when all of it is done or given up, remove it."""
        if job.is_ended:
            self._remove(job)
            return
        if job.minimum and job.made == 0:
            self._post(GROUPS, group_of(job))
        now_s, is_done, is_placed = time.monotonic(), True, job.made == 0
        for place in range(job.pods):
            name = job.names[place]
            if name == "-":
                continue  # given up
            pod = self._world.get("pods", f"{NAMESPACE}/{name}") if name else None
            if pod is not None:
                self._due.pop((job.name, place), None)
                is_done = is_done and pod.phase in ENDED
                is_placed = is_placed or bool(pod.node)
                continue
            is_done = False
            if not name:
                self._make(job, place)
            elif self._is_lost(job, place, now_s):
                self._make_anew(job, place)
        if is_placed:
            job.placed_s = now_s
        is_hopeless = self.is_making and now_s - job.placed_s > PATIENCE_S
        job.is_ended = is_done or is_hopeless

    def _is_lost(self, job, place, now_s):
        """Tell whether a pod has been missing for so long that it is made anew now."""
        due_s = self._due.setdefault((job.name, place), now_s + 1.0 + self._chance.expovariate(1.0))
        if now_s < due_s:
            return False
        del self._due[job.name, place]
        # What was just made may not have been heard of yet.
        answer = self._asking.client.call("GET", f"{PODS}/{job.names[place]}")
        return answer.code == 404

    def _make_anew(self, job, place):
        if not job.is_tended:
            job.names[place] = "-"
            return
        if job.minimum and self._world.get("podgroups", job.group_key) is None:
            self._post(GROUPS, group_of(job))
        self._make(job, place)

    def _make(self, job, place):
        job.made += 1
        name = f"{job.name}-{place}-{job.made}"
        self._post(PODS, pod_of(job, place, name))
        job.names[place] = name

    def _post(self, path, obj):
        """Create, whatever became of an earlier try."""
        answer = self._asking.client.call("POST", path, body=obj)
        if not answer.is_done and "AlreadyExists" not in answer.text():
            raise Refused(answer.text())

    def _remove(self, job):
        for name in job.names:
            if name not in {"", "-"}:
                self._asking.client.call("DELETE", f"{PODS}/{name}", body={})
        if job.minimum:
            self._asking.client.call("DELETE", f"{GROUPS}/{job.name}")
        with self._lock:
            self.jobs.pop(job.name, None)

    def give_up(self, key):
        """Delete the whole job that a pod or pod group belongs to; return whether there is one."""
        name = key.partition("/")[2]
        with self._lock:
            job = self.jobs.get(name) or next(
                (it for it in self.jobs.values() if name in it.names), None
            )
        if job is not None:
            job.is_ended = True
        return job is not None
