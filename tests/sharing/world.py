"""A cluster whose pods share GPUs, as tests build it."""

import msgspec

from kaisched_apiserver.device_plugin import TOLD, VISIBLE
from tests.sharing.kubelet import Kubelet
from tests.waiting import until

NAMESPACE = "kai-resource-reservation"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SHARD = {
    "apiVersion": "kai.scheduler/v1",
    "kind": "SchedulingShard",
    "metadata": {"name": "default"},
    "spec": {"gpuSharing": {"image": "example.com/agent:1"}},
}
_GPUS = "metadata.annotations['kaisched.io/gpu-uuids']"
SEES = {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": _GPUS}}}


class Shared:
    """A rig with a node of two GPUs that pods may share, and its kubelet."""

    def __init__(self, rig, folder):
        self.rig, self._folder = rig, folder
        rig.queue("a", 16)
        self.node("n0")
        rig.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = {"metadata": {"name": NAMESPACE}}
        rig.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", account)
        self.kubelet = Kubelet(rig.access)

    def close(self):
        self.rig.stop()
        if self.kubelet.is_running:
            self.kubelet.stop()
        self.rig.ask("DELETE", f"{PODS}?gracePeriodSeconds=0")

    def node(self, name, gpus=2):
        memory = {"nvidia.com/gpu.memory": "80000", "nvidia.com/gpu.count": str(gpus)}
        self.rig.node(name, gpus, memory)

    def start(self, **settings):
        """Start a daemon whose shard lets pods share GPUs, and return it once it leads."""
        return self.rig.start([self.shard_file()], **settings).wait_leading()

    def shard_file(self):
        path = self._folder / "shard.yaml"
        path.write_bytes(msgspec.json.encode(SHARD))
        return str(path)

    def share(self, name, part="0.5", cards=0, **spec):
        notes = {"gpu-fraction": part} if "." in part else {"gpu-memory": part}
        notes |= {"gpu-fraction-num-devices": str(cards)} if cards else {}
        container = {"name": "main", "image": "none", "env": [SEES]}
        self.rig.pod(name, "a", 0, annotations=notes, containers=[container], **spec)

    def reservations(self):
        """Name to reservation pod, of those that are not leaving."""
        pods = self.rig.must("GET", PODS)["items"]
        return {
            it["metadata"]["name"]: it for it in pods if "deletionTimestamp" not in it["metadata"]
        }

    def gpus(self):
        """The GPUs that reservation pods tell."""
        notes = (it["metadata"].get("annotations", {}) for it in self.reservations().values())
        return sorted(it[TOLD] for it in notes if TOLD in it)

    def sees(self, *names):
        """Wait until pods run, and return what each saw when it started."""

        def seen():
            pods = self.rig.pods()
            uids = [pods[name]["metadata"]["uid"] for name in names if name in pods]
            found = [self.kubelet.saw.get(uid) for uid in uids]
            return len(found) == len(names) and all(found) and found

        return until(seen, what=f"running {names}")

    def notes(self, name):
        return self.rig.pods()[name]["metadata"]["annotations"]

    def wait_unreserved(self):
        return until(lambda: not self.rig.must("GET", PODS)["items"], what="no reservations")
