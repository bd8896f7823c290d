"""A cluster whose driver lets claims have parts of devices, as tests build it."""

import threading
from collections import Counter
from fractions import Fraction

import msgspec

from kaisched.core.claims.model import nanos_of
from tests.chaos.claim_parts import RESOURCE, ClaimParts, delete_claims
from tests.waiting import until

DRIVER = CLASS = "shared-gpu.example.com"
TEMPLATES = "resourceclaimtemplates"
MIB = 1 << 20


def shard(**more):
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": "default"},
        "spec": {"resourceClaims": True, "gpuSharing": {"deviceClass": CLASS}, **more},
    }


def slice_of(node, sizes):
    """What a driver publishes for a node with devices of so many GiB that claims may share."""
    devices = [
        {
            "name": f"gpu-{number}",
            "allowMultipleAllocations": True,
            "capacity": {
                "memory": {
                    "value": f"{size}Gi",
                    "requestPolicy": {
                        "default": f"{size}Gi",
                        "validRange": {"min": "1Mi", "max": f"{size}Gi", "step": "1Mi"},
                    },
                }
            },
        }
        for number, size in enumerate(sizes)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


class Claimed:
    """A rig with a node of two devices that claims may share; a controller and kubelets run."""

    def __init__(self, rig, folder):
        self.rig, self._folder = rig, folder
        self._slices, self._sizes, self.overfull = [], {}, []
        cel = {"expression": f'device.driver == "{DRIVER}"'}
        self._remove("deviceclasses", CLASS)
        self._make(
            "deviceclasses", {"metadata": {"name": CLASS}, "spec": {"selectors": [{"cel": cel}]}}
        )
        rig.queue("a", 16)
        self.node("n0", 80, 80)
        self._end = threading.Event()
        self.parts = ClaimParts(rig.client, rig.namespace, self._end).start()

    def close(self):
        self.rig.stop()
        self._end.set()
        self.parts.join()
        for name in self._slices:
            self._remove("resourceslices", name)
        self._remove("deviceclasses", CLASS)
        delete_claims(self.rig)

    def _make(self, plural, body):
        self.rig.must("POST", f"{RESOURCE}/{plural}", body)

    def _remove(self, plural, name):
        self.rig.ask("DELETE", f"{RESOURCE}/{plural}/{name}")

    def node(self, name, *sizes):
        """Add a node with devices of so many GiB."""
        made = slice_of(name, sizes)
        self._slices.append(made["metadata"]["name"])
        self._sizes.update({(name, f"gpu-{at}"): size << 30 for at, size in enumerate(sizes)})
        self._make("resourceslices", made)
        self.rig.node(name, 0)

    def shard_file(self, **more):
        path = self._folder / "shard.yaml"
        path.write_bytes(msgspec.json.encode(shard(**more)))
        return str(path)

    def start(self, **settings):
        """Start a daemon whose shard has shares as claims, and return it once it leads."""
        return self.rig.start([self.shard_file()], **settings).wait_leading()

    # -- pods ------------------------------------------------------------------------------------

    def share(self, name, part="0.5", cards=0, *, group="", is_named=True, annotations=None):
        """Add a pod with a share, and with its claim as the policy of the manifests writes it."""
        kind = "fraction" if "." in part else "memory"
        template = f"kaisched-gpu-{kind}-{part}" + (f"-x{cards}" if cards else "")
        notes = {f"gpu-{kind}": part} | ({"gpu-fraction-num-devices": str(cards)} if cards else {})
        container = {"name": "main", "image": "none"}
        spec = {}
        if is_named:
            container["resources"] = {"claims": [{"name": "gpu-share"}]}
            spec = {
                "resourceClaims": [{"name": "gpu-share", "resourceClaimTemplateName": template}]
            }
        notes |= annotations or {}
        self.rig.pod(name, "a", 0, group=group, annotations=notes, containers=[container], **spec)

    def template(self, name):
        """Return a template; None if there is none."""
        path = f"{RESOURCE}/namespaces/{self.rig.namespace}/{TEMPLATES}/{name}"
        answer = self.rig.ask("GET", path)
        return msgspec.json.decode(answer.data) if answer.is_done else None

    def make_template(self, name, memory):
        exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": memory}}}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        path = f"{RESOURCE}/namespaces/{self.rig.namespace}/{TEMPLATES}"
        self.rig.must("POST", path, {"metadata": {"name": name}, "spec": {"spec": spec}})

    def delete_template(self, name):
        self.rig.must("DELETE", f"{RESOURCE}/namespaces/{self.rig.namespace}/{TEMPLATES}/{name}")

    # -- looking ---------------------------------------------------------------------------------

    def results(self):
        """What claims have: (node, device), and bytes."""
        path = f"{RESOURCE}/namespaces/{self.rig.namespace}/resourceclaims"
        for claim in self.rig.must("GET", path)["items"]:
            given = (claim.get("status") or {}).get("allocation") or {}
            for it in (given.get("devices") or {}).get("results") or ():
                nanos = nanos_of(it["consumedCapacity"]["memory"])
                yield (it["pool"], it["device"]), Fraction(nanos, 10**9)

    def fullness(self):
        """Return which part of each device claims have together, and note any above all of it."""
        full = Counter()
        for device, taken in self.results():
            full[device] += taken / self._sizes[device]
        self.overfull += [it for it in full.items() if it[1] > 1]
        return full

    def wait_running(self, number, *, of=""):
        """Wait until so many pods run, whose names begin so; look at all devices meanwhile."""

        def running():
            self.fullness()
            pods = self.rig.pods().items()
            found = [it for it, pod in pods if it.startswith(of) and is_running(pod)]
            return len(found) == number and sorted(found)

        return until(running, what=f"{number} pods running") if number else []


def is_running(pod):
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
