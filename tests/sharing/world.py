"""A cluster whose pods share GPUs, as tests build it."""

import msgspec

from kaisched.objects.labels import GPU_CONFIG_MAP as CONFIG_MAP
from kaisched_apiserver.kubelets import TOLD
from tests.sharing.containers import VISIBLE
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


def by_webhook(name, place="0"):
    """What KAI-Scheduler's webhook writes: the prefix on a pod, and parts of its container."""
    prefix = f"{name}-abc1234-shared-gpu"
    config_map = f"{prefix}-{place}"
    keys = ((VISIBLE, False), ("RUNAI_NUM_OF_GPUS", False), ("GPU_PORTION", False))
    env = [_by_key(config_map, *it) for it in (*keys, ("CUDA_DEVICE_MEMORY_LIMIT", True))]
    environment = {"configMapRef": {"name": f"{config_map}-evar", "optional": False}}
    return prefix, {"env": env, "envFrom": [environment]}


def _by_key(config_map, key, optional):
    reference = {"name": config_map, "key": key, "optional": optional}
    return {"name": key, "valueFrom": {"configMapKeyRef": reference}}


class Shared:
    """A rig with a node of two GPUs that pods may share, and its kubelet."""

    def __init__(self, rig, folder):
        self.rig, self._folder = rig, folder
        self.sharing = {}
        """What the shard says of sharing besides the image."""
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
        sharing = {"gpuSharing": SHARD["spec"]["gpuSharing"] | self.sharing}
        path.write_bytes(msgspec.json.encode(SHARD | {"spec": sharing}))
        return str(path)

    def share(self, name, part="0.5", cards=0, **spec):
        notes = {"gpu-fraction": part} if "." in part else {"gpu-memory": part}
        notes |= {"gpu-fraction-num-devices": str(cards)} if cards else {}
        container = {"name": "main", "image": "none", "env": [SEES]}
        self.rig.pod(name, "a", 0, annotations=notes, containers=[container], **spec)

    def webhooked(self, name, part="0.5", cards=0, *, container="", init=False, **spec):
        """Make a pod as KAI-Scheduler's webhook leaves it; return the name of its ConfigMap."""
        notes = {"gpu-fraction": part} if "." in part else {"gpu-memory": part}
        notes |= {"gpu-fraction-num-devices": str(cards)} if cards else {}
        notes |= {"gpu-fraction-container-name": container} if container else {}
        place = "i0" if init else "1" if container else "0"
        prefix, changed = by_webhook(name, place)
        notes[CONFIG_MAP] = prefix
        plain = {"name": "main", "image": "none"}
        containers = [plain | changed]
        if init:
            spec["initContainers"] = [{"name": container, "image": "none"} | changed]
            containers = [plain]
        elif container:
            containers = [plain, {"name": container, "image": "none"} | changed]
        config_map = f"{prefix}-{place}"
        volume = {"name": f"{config_map}-vol", "configMap": {"name": config_map}}
        spec |= {"containers": containers, "volumes": [volume]}
        self.rig.pod(name, "a", 0, annotations=notes, **spec)
        return config_map

    def config_map(self, name):
        return self.rig.must("GET", f"{self.config_maps}/{name}")

    @property
    def config_maps(self):
        return f"/api/v1/namespaces/{self.rig.namespace}/configmaps"

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
