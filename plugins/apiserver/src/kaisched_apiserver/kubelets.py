"""A stand-in for the kubelets: bound pods run, end when they said so, and leave when told to."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Any, Final

from kaisched.objects.labels import RUN_SECONDS
from kaisched_apiserver.kinds import why_not_prepared
from kaisched_apiserver.pods import set_condition
from kaisched_apiserver.server import ApiServer
from kaisched_apiserver.statuses import ApiError
from kaisched_apiserver.storage import Change, Collection, Record

# Addresses of pods and nodes that are not there: each has its own as long as it exists.


NODES: Final = IPv4Network("10.0.0.0/9")
PODS: Final = IPv4Network("10.128.0.0/9")


class Addresses:
    """Gives out the addresses of a network, the next free one each time."""

    def __init__(self, network: IPv4Network) -> None:
        """Begin with the first address for hosts."""
        self._network = network
        self._of_owner: dict[str, int] = {}
        self._taken: set[int] = set()
        self._next = 1

    def of(self, owner: str) -> str:
        """Return the address of an owner, which gets one if it has none."""
        number = self._of_owner.get(owner)
        if number is None:
            number = self._of_owner[owner] = self._free()
            self._taken.add(number)
        return str(self._network[number])

    def release(self, owner: str) -> None:
        """Take an address back."""
        number = self._of_owner.pop(owner, None)
        if number is not None:
            self._taken.discard(number)

    def _free(self) -> int:
        most = self._network.num_addresses - 2
        while self._next in self._taken:
            self._next = self._next % most + 1
        found, self._next = self._next, self._next % most + 1
        return found


# A stand-in for device plugins: which GPUs a pod gets.


GPU: Final = "nvidia.com/gpu"
REFUSED: Final = "UnexpectedAdmissionError"
"""The reason of a pod that a kubelet has no GPU for."""
AGENT: Final = "kai-resource-reservation"
"""Namespace, and label ``app``, of pods in which the agent runs."""
TOLD: Final = "run.ai/reserve_for_gpu_index"
"""The annotation in which the agent tells the UUID of its GPU."""


class DevicePlugin:
    """The GPUs of all nodes. Of those that are free a pod may get any: nobody can know which."""

    def __init__(self) -> None:
        """Start with all GPUs free."""
        self._given: dict[str, tuple[str, ...]] = {}
        """Pod UID to its GPUs."""
        self._holder: dict[str, str] = {}
        """GPU to the UID of its pod."""
        self.order: Callable[[str, str], Any] = _any_order
        """The key, by pod UID and GPU, of the order in which free GPUs are given."""

    def admit(self, pod: dict[str, Any], node: dict[str, Any]) -> tuple[str, ...] | None:
        """Return the GPUs of a pod that starts on a node; None if too few are free."""
        uid = pod["metadata"]["uid"]
        if uid in self._given:
            return self._given[uid]
        wanted = gpus_asked(pod)
        free = [gpu for gpu in gpus_of(node) if gpu not in self._holder]
        if len(free) < wanted:
            return None
        free.sort(key=lambda gpu: self.order(uid, gpu))
        self._given[uid] = tuple(free[:wanted])
        self._holder.update(dict.fromkeys(free[:wanted], uid))
        return self._given[uid]

    def release(self, uid: str) -> None:
        """Free the GPUs of a pod that has ended."""
        for gpu in self._given.pop(uid, ()):
            del self._holder[gpu]

    def of(self, uid: str) -> tuple[str, ...]:
        """Return the GPUs that were given to a pod."""
        return self._given.get(uid, ())

    def given(self) -> dict[str, tuple[str, ...]]:
        """Return the GPUs of all pods, by UID."""
        return {uid: gpus for uid, gpus in self._given.items() if gpus}


def _any_order(uid: str, gpu: str) -> bytes:
    return hashlib.sha256(f"{uid}{gpu}".encode()).digest()


def gpus_of(node: dict[str, Any]) -> list[str]:
    """Return the UUIDs of a node's GPUs: the same whenever they are asked for."""
    name, count = node["metadata"]["name"], node["status"].get("capacity", {}).get(GPU, "0")
    return [f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{name}/{it}')}" for it in range(int(count))]


def gpus_asked(pod: dict[str, Any]) -> int:
    """Return how many whole GPUs a pod asks for."""
    resources = (it.get("resources") or {} for it in pod["spec"]["containers"])
    return sum(int((it.get("limits") or {}).get(GPU, 0)) for it in resources)


def is_agent(pod: dict[str, Any]) -> bool:
    """Tell whether an agent runs in a pod, which tells the UUID of its GPU."""
    meta = pod["metadata"]
    return meta["namespace"] == AGENT and (meta.get("labels") or {}).get("app") == AGENT


# A stand-in for the kubelets: bound pods run, end when they said so, and leave when told to.


_PODS: Final = ("", "pods")
_NODES: Final = ("", "nodes")
_ENDED: Final = ("Succeeded", "Failed")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_AGAIN_S: Final = 0.2
"""A pod whose claims are not ready is looked at again after so long."""
_VERSION: Final = "v1.36.0+playground"


class Kubelets:
    """Plays the kubelet of every node, in the server's thread.

    A new node becomes ready. A pod that is bound to a node that exists runs after
    ``start_delay_s``, and succeeds after the seconds in its annotation ``kaisched.io/run-seconds``,
    if it has one. A pod that is deleted is gone after ``stop_delay_s``, or its grace if that is
    shorter. Pods go with their node. A pod with claims on devices only starts once they are
    allocated and reserved for it. A pod that asks for GPUs gets them from the device plugin, or
    fails; if it is a reservation pod, an agent in it tells which GPU it got.
    """

    def __init__(
        self, server: ApiServer, *, start_delay_s: float = 1.0, stop_delay_s: float = 1.0
    ) -> None:
        """Begin at once, also for the pods and nodes that are there already."""
        self._server = server
        self._api = server.api
        self._start_delay_s = start_delay_s
        self._stop_delay_s = stop_delay_s
        self._node_addresses, self._pod_addresses = Addresses(NODES), Addresses(PODS)
        self.plugin = DevicePlugin()
        self._planned: set[tuple[str, str]] = set()
        """What is under way: the pod's identity and the step."""
        server.call(self._begin)

    def _begin(self) -> None:
        storage = self._api.storage
        storage.listeners.append(self._handle)
        for key in (_NODES, _PODS):
            collection = storage.collection(key)
            for record in list(collection.records.values()):
                self._handle(collection, Change("ADDED", record.version, record, None))

    def _handle(self, collection: Collection, change: Change) -> None:
        """Plan what follows from a change; nothing is written while it is being told."""
        if collection.key == _PODS:
            if change.type == "DELETED":
                self._forget(change.record)
            elif change.record.fields["spec.nodeName"]:
                self._plan_for(change.record)
        elif collection.key == _NODES and change.type == "ADDED":
            self._server.later(0, lambda: self._welcome(change.record.key))
        elif collection.key == _NODES and change.type == "DELETED":
            self._server.later(0, lambda: self._lose(change.record.key))

    def _forget(self, record: Record) -> None:
        self._pod_addresses.release(record.uid)
        self.plugin.release(record.uid)
        for step in ("start", "end", "stop"):
            self._planned.discard((record.uid, step))

    def _plan_for(self, record: Record) -> None:
        phase = record.fields["status.phase"]
        if b'"deletionTimestamp"' in record.body:
            meta = record.object()["metadata"]
            if "deletionTimestamp" in meta:
                grace_s = float(meta.get("deletionGracePeriodSeconds", 0))
                self._plan(record, "stop", min(self._stop_delay_s, grace_s))
                return
        if phase == "Pending":
            self._plan(record, "start", self._start_delay_s)
        elif phase == "Running":
            run_s = self._run_s(record)
            if math.isfinite(run_s):
                self._plan(record, "end", run_s)

    def _plan(self, record: Record, step: str, delay_s: float) -> None:
        if (record.uid, step) not in self._planned:
            self._planned.add((record.uid, step))
            self._server.later(delay_s, lambda: self._take(record.key, record.uid, step))

    def _take(self, key: str, uid: str, step: str) -> None:
        """Take a step, if the pod is still the same and still there for it."""
        record = self._api.storage.get(_PODS, key)
        if record is None or record.uid != uid:
            return
        pod = record.object()
        if step == "stop":
            self._remove(record)
        elif "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") in _ENDED:
            return
        elif step == "end":
            self._end(pod)
        elif (node := self._api.storage.get(_NODES, pod["spec"]["nodeName"])) is None:
            self._planned.discard((uid, step))  # the node may come yet
        elif why_not_prepared(self._api.storage, pod):
            self._server.later(_AGAIN_S, lambda: self._take(key, uid, step))
        elif self._gets_gpus(pod, node.object()):
            self._start(pod)
        else:
            self._refuse(pod)

    # -- pods ------------------------------------------------------------------------------------

    def _gets_gpus(self, pod: dict[str, Any], node: dict[str, Any]) -> bool:
        """Take the GPUs that a pod asks for; tell whether there were enough."""
        if not gpus_asked(pod):
            return True
        gpus = self.plugin.admit(pod, node)
        if gpus and is_agent(pod):
            notes = pod["metadata"].get("annotations") or {}
            pod["metadata"]["annotations"] = {**notes, TOLD: gpus[0]}
        return gpus is not None

    def _refuse(self, pod: dict[str, Any]) -> None:
        pod["status"] |= {"phase": "Failed", "reason": REFUSED, "message": "no GPU is free"}
        self._api.storage.put(_PODS, pod)

    def _start(self, pod: dict[str, Any]) -> None:
        now = self._api.writer.now()
        status = pod["status"]
        host = self._node_addresses.of(pod["spec"]["nodeName"])
        is_on_host = pod["spec"].get("hostNetwork") is True
        own = host if is_on_host else self._pod_addresses.of(pod["metadata"]["uid"])
        status |= {"phase": "Running", "startTime": now}
        status |= {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": own, "podIPs": [{"ip": own}]}
        for type_ in ("Initialized", "ContainersReady", "Ready"):
            set_condition(pod, {"type": type_, "status": "True"}, now)
        status["containerStatuses"] = [
            _container_status(it, {"running": {"startedAt": now}}, is_ready=True)
            for it in pod["spec"]["containers"]
        ]
        self._api.storage.put(_PODS, pod)

    def _end(self, pod: dict[str, Any]) -> None:
        now = self._api.writer.now()
        self.plugin.release(pod["metadata"]["uid"])
        pod["status"]["phase"] = "Succeeded"
        for type_ in ("ContainersReady", "Ready"):
            done = {"type": type_, "status": "False", "reason": "PodCompleted"}
            set_condition(pod, done, now)
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
        pod["status"]["containerStatuses"] = [
            _container_status(it, ended, is_ready=False) for it in pod["spec"]["containers"]
        ]
        self._api.storage.put(_PODS, pod)

    def _run_s(self, record: Record) -> float:
        """Return how long a pod runs; for ever also if it does not say it as a number."""
        if RUN_SECONDS.encode() not in record.body:
            return math.inf
        text = (record.object()["metadata"].get("annotations") or {}).get(RUN_SECONDS, "inf")
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if seconds >= 0:
            return seconds
        if (record.uid, "end") not in self._planned:
            self._planned.add((record.uid, "end"))
            self._server.later(0, lambda: self._complain(record, text))
        return math.inf

    def _complain(self, record: Record, text: str) -> None:
        event = {
            "metadata": {"generateName": f"{record.name}-", "namespace": record.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": record.name,
                "namespace": record.namespace,
                "uid": record.uid,
            },
            "type": "Warning",
            "reason": "NoRunSeconds",
            "message": f"{RUN_SECONDS} is {text!r}, no number of seconds: the pod runs for ever",
            "reportingComponent": "kubelet",
            "firstTimestamp": self._api.writer.now(),
            "lastTimestamp": self._api.writer.now(),
            "count": 1,
        }
        try:
            self._api.create("", "events", event)
        except ApiError:
            return  # its namespace is about to go

    # -- nodes -----------------------------------------------------------------------------------

    def _welcome(self, name: str) -> None:
        """Make a new node ready, and start what is bound to it already."""
        storage = self._api.storage
        record = storage.get(_NODES, name)
        if record is None:
            return
        node = record.object()
        status = node["status"]
        if not any(it.get("type") == "Ready" for it in status.get("conditions") or []):
            now = self._api.writer.now()
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "the kubelet stand-in is ready",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
            status["conditions"] = [*(status.get("conditions") or []), ready]
            status["nodeInfo"]["kubeletVersion"] = _VERSION
            address = {"type": "InternalIP", "address": self._node_addresses.of(name)}
            status["addresses"] = [*(status.get("addresses") or []), address]
            taints = [it for it in node["spec"].get("taints") or [] if it["key"] != _NOT_READY]
            node["spec"]["taints"] = taints
            if not taints:
                del node["spec"]["taints"]
            storage.put(_NODES, node)
        for pod in list(storage.collection(_PODS).records.values()):
            if pod.fields["spec.nodeName"] == name:
                self._plan_for(pod)

    def _lose(self, name: str) -> None:
        """Remove the pods of a node that is gone."""
        storage = self._api.storage
        if storage.get(_NODES, name) is not None:
            return
        self._node_addresses.release(name)
        for pod in list(storage.collection(_PODS).records.values()):
            if pod.fields["spec.nodeName"] == name:
                self._remove(pod)

    def _remove(self, record: Record) -> None:
        """Let a pod go now; one with finalizers stays until they are off."""
        pods = self._api.registry.must("", "pods")
        self._api.writer.let_go(pods, record, {"gracePeriodSeconds": 0}, is_dry_run=False)


def _container_status(
    container: dict[str, Any], state: dict[str, Any], *, is_ready: bool
) -> dict[str, Any]:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }
