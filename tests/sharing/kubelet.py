"""Kubelets, device plugin and agents of a cluster, over HTTP: they work on any API server."""

import threading
from contextlib import suppress

import msgspec

from kaisched.cluster.kubernetes.client import MERGE, STRATEGIC, Client
from kaisched.errors import ClusterUnavailable
from kaisched_apiserver.kubelets import REFUSED, TOLD, DevicePlugin, gpus_asked, is_agent
from tests.sharing.containers import visible
from tests.waiting import PATIENCE_S

_ENDED = ("Succeeded", "Failed")


class Kubelet:
    """The kubelets of all nodes: a pass looks at every pod and takes the next step of each."""

    def __init__(self, access, pause_s=0.03):
        self._client = Client(access, connections=2, timeout_s=PATIENCE_S)
        self.plugin = DevicePlugin()
        self.saw = {}
        """Pod UID to what its containers saw when they started."""
        self.waits = {}
        """Pod UID to why its containers cannot be made."""
        self.record = lambda pod, gpus: ",".join(gpus)
        """What the agent in a reservation pod tells of its GPUs; None for nothing, for now."""
        self.begins = lambda pod, gpus: None
        """Called when the containers of a pod start and see these GPUs."""
        self.ends = lambda uid: None
        """Called when the containers of a pod have ended."""
        self._end, self._pause_s = threading.Event(), pause_s
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._thread.start()
        return self

    @property
    def is_running(self):
        return self._thread.is_alive()

    def stop(self):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.wait(self._pause_s):
            with suppress(ClusterUnavailable):
                self.step()

    def step(self):
        nodes = {it["metadata"]["name"]: it for it in self._list("nodes")}
        pods = self._list("pods")
        there = {pod["metadata"]["uid"] for pod in pods}
        for uid in {*self.plugin.given(), *self.saw} - there:
            self._let_go(uid)
        for pod in pods:
            if pod["spec"].get("nodeName") in nodes:
                self._tend(pod, nodes[pod["spec"]["nodeName"]])

    def _list(self, plural):
        answer = self._client.call("GET", f"/api/v1/{plural}")
        if not answer.is_done:
            raise ClusterUnavailable(answer.text())
        return msgspec.json.decode(answer.data)["items"]

    def _let_go(self, uid):
        self.plugin.release(uid)
        if self.saw.pop(uid, None) is not None:
            self.ends(uid)

    def _tend(self, pod, node):
        meta, phase = pod["metadata"], pod["status"].get("phase")
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            self._let_go(meta["uid"])
            same = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self._client.call("DELETE", path, body=same)
        elif phase in _ENDED:
            self._let_go(meta["uid"])
        elif phase == "Pending":
            self._start(pod, node, path)
        elif is_agent(pod) and TOLD not in (meta.get("annotations") or {}):
            told = self.record(pod, self.plugin.of(meta["uid"]))
            if told is not None:
                notes = {"metadata": {"uid": meta["uid"], "annotations": {TOLD: told}}}
                self._client.call("PATCH", path, body=notes, content_type=MERGE)

    def _config_map(self, pod, name):
        space = pod["metadata"]["namespace"]
        answer = self._client.call("GET", f"/api/v1/namespaces/{space}/configmaps/{name}")
        return msgspec.json.decode(answer.data).get("data", {}) if answer.is_done else None

    def _start(self, pod, node, path):
        uid = pod["metadata"]["uid"]
        gpus = self.plugin.admit(pod, node) if gpus_asked(pod) else ()
        status = {"phase": "Running"}
        if gpus is None:
            status = {"phase": "Failed", "reason": REFUSED}
        elif uid not in self.saw:
            seen = visible(pod, gpus, lambda name: self._config_map(pod, name))
            if seen is None:
                self.waits[uid] = "CreateContainerConfigError"
                return
            self.saw[uid] = seen
            self.begins(pod, self.saw[uid])
        body = {"metadata": {"uid": uid}, "status": status}
        self._client.call("PATCH", f"{path}/status", body=body, content_type=STRATEGIC)
