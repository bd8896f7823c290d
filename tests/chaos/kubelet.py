"""A stand-in for the kubelets, and for who removes the pods of nodes that are gone.

It goes by the API like a real one: bound pods start after a moment, end when they have run, leave
within their grace, and are removed some seconds after their node if it does not come back.
"""

import heapq
import itertools
import math
import threading
import time

from kaisched.cluster.kubernetes.client import STRATEGIC
from kaisched.errors import ClusterUnavailable
from tests.chaos.facts import ENDED

WORKERS = 4
LOST_S = 3.0
"""After so long the pods of a node that is gone are removed."""
AGAIN_S = 0.5


class Kubelet:
    def __init__(self, client, world, chance, end):
        self.is_holding = False
        """Whether running pods go on running, for as long as this is set."""
        self.failures = 0
        self._client, self._world, self._chance, self._end = client, world, chance, end
        self._due, self._numbers, self._wake = [], itertools.count(), threading.Condition()
        self._planned = set()
        self._threads = [
            threading.Thread(target=self._work, name=f"kubelet-{n}", daemon=True)
            for n in range(WORKERS)
        ]

    def start(self):
        self._world.listen(self._handle)
        for thread in self._threads:
            thread.start()

    def _handle(self, event):
        it = event.facts
        if event.kind == "nodes" and event.is_deleted:
            self._plan(LOST_S, self._lose, it.key)
        if event.kind != "pods":
            return
        if event.is_deleted:
            for step in ("start", "end", "stop", "lose"):
                self._planned.discard((it.uid, step))
        elif it.is_leaving:
            self._once(it, "stop", self._chance.uniform(0.3, 1.0) * it.grace_s, self._stop)
        elif it.node and it.phase == "Pending":
            self._once(it, "start", self._chance.uniform(0.1, 1.0), self._start)
            self._once(it, "lose", LOST_S, self._lose_one)
        elif it.phase == "Running" and math.isfinite(it.run_s):
            self._once(it, "end", it.run_s, self._finish)

    def _once(self, pod, step, delay_s, act):
        if (pod.uid, step) not in self._planned:
            self._planned.add((pod.uid, step))
            self._plan(delay_s, act, pod)

    def _plan(self, delay_s, act, it):
        with self._wake:
            heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._numbers), act, it))
            self._wake.notify()

    def _work(self):
        while not self._end.is_set():
            with self._wake:
                now_s = time.monotonic()
                if not self._due or self._due[0][0] > now_s:
                    self._wake.wait(min(0.2, self._due[0][0] - now_s) if self._due else 0.2)
                    continue
                _, _, act, it = heapq.heappop(self._due)
            try:
                again_s = act(it)
            except ClusterUnavailable:
                again_s, self.failures = AGAIN_S, self.failures + 1
            if again_s:
                self._plan(again_s, act, it)

    # -- steps: each returns after how long it is to be tried again, None if it is done ------------

    def _now(self, pod):
        """Return the pod as it is, None if it is another one."""
        found = self._world.get("pods", pod.key)
        return found if found is not None and found.uid == pod.uid else None

    def _start(self, pod):
        now = self._now(pod)
        if now is None or now.is_leaving or now.phase != "Pending":
            return None
        if self._world.get("nodes", now.node) is None:
            return AGAIN_S  # the node may come yet, or the pod be removed
        conditions = [{"type": it, "status": "True"} for it in ("ContainersReady", "Ready")]
        return self._set(pod, {"phase": "Running", "conditions": conditions})

    def _finish(self, pod):
        now = self._now(pod)
        if now is None or now.is_leaving or now.phase in ENDED:
            return None
        if self.is_holding or self._world.get("nodes", now.node) is None:
            return AGAIN_S
        conditions = [{"type": it, "status": "False"} for it in ("ContainersReady", "Ready")]
        return self._set(pod, {"phase": "Succeeded", "conditions": conditions})

    def _stop(self, pod):
        if self._now(pod) is None:
            return None
        return self._remove(pod)

    def _lose(self, name):
        if self._world.get("nodes", name) is None:
            for pod in self._world.all("pods"):
                if pod.node == name:
                    self._plan(0.0, self._lose_one, pod)

    def _lose_one(self, pod):
        now = self._now(pod)
        if now is None or self._world.get("nodes", now.node) is not None:
            return None
        return self._remove(pod)

    def _set(self, pod, status):
        body = {"metadata": {"uid": pod.uid}, "status": status}
        return self._call("PATCH", f"{self._path(pod)}/status", body, STRATEGIC)

    def _remove(self, pod):
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        return self._call("DELETE", self._path(pod), body, "application/json")

    def _call(self, method, path, body, content_type):
        answer = self._client.call(method, path, body=body, content_type=content_type)
        is_settled = answer.is_done or answer.code in {404, 409}
        return None if is_settled else AGAIN_S

    @staticmethod
    def _path(pod):
        namespace, _, name = pod.key.partition("/")
        return f"/api/v1/namespaces/{namespace}/pods/{name}"
