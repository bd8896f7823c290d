"""Stand-ins that know claims on devices, for any API server: slices, controller and kubelet.

They go by the API, with one look after the other at all pods and claims of a namespace.
"""

import threading
import time
from collections import Counter

import msgspec

from kaisched.cluster.kubernetes.client import MERGE, STRATEGIC
from kaisched.errors import ClusterUnavailable

FINALIZER = "resource.kubernetes.io/delete-protection"
RESOURCE = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
RUN_SECONDS = "kaisched.io/run-seconds"
LOOK_S = 0.15
_ENDED = ("Succeeded", "Failed")


def device_class():
    cel = {"expression": f'device.driver == "{DRIVER}"'}
    return {"metadata": {"name": CLASS}, "spec": {"selectors": [{"cel": cel}]}}


def slice_of(node, devices):
    """What a driver publishes for a node: GPUs of two sizes, in two halves of the machine."""
    listed = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "uuid": {"string": f"GPU-{node}-{number}"},
                "half": {"int": number * 2 // devices},
            },
            "capacity": {"memory": {"value": "80Gi" if number % 2 else "40Gi"}},
        }
        for number in range(devices)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed},
    }


def delete_claims(rig):
    """Delete all claims: a server that outlives a test would keep their devices taken."""
    path = f"{RESOURCE}/namespaces/{rig.namespace}/resourceclaims"
    for claim in rig.must("GET", path)["items"]:
        one = f"{path}/{claim['metadata']['name']}"
        rig.ask("PATCH", one, {"metadata": {"finalizers": None}}, MERGE)
        rig.ask("DELETE", one)


class ClaimParts:
    """The controller of claims and the kubelets of all nodes, in one thread."""

    def __init__(self, client, namespace, end):
        self.waits = Counter()
        """Why bound pods did not start at once, and how often that was seen."""
        self.breaches = []
        self._client, self._namespace, self._end = client, namespace, end
        self._started, self._numbers = {}, Counter()
        self._thread = threading.Thread(target=self._run, name="claim-parts", daemon=True)

    def start(self):
        self._thread.start()
        return self

    def join(self):
        self._thread.join(10)

    def _run(self):
        while not self._end.wait(LOOK_S):
            try:
                self.look()
            except ClusterUnavailable:
                self._end.wait(0.3)

    def _list(self, path):
        answer = self._client.call("GET", path)
        if not answer.is_done:
            raise ClusterUnavailable(answer.text())
        return msgspec.json.decode(answer.data)["items"]

    def look(self):
        pods = self._list(self._pods_path)
        claims = {it["metadata"]["name"]: it for it in self._list(self._claims_path)}
        templates = {
            it["metadata"]["name"]: it
            for it in self._list(f"{RESOURCE}/namespaces/{self._namespace}/resourceclaimtemplates")
        }
        for pod in pods:
            self._make(pod, templates)
            self._tend_pod(pod, claims)
        alive = {it["metadata"]["uid"]: it for it in pods}
        for claim in claims.values():
            self._tend_claim(claim, alive)

    @property
    def _pods_path(self):
        return f"/api/v1/namespaces/{self._namespace}/pods"

    @property
    def _claims_path(self):
        return f"{RESOURCE}/namespaces/{self._namespace}/resourceclaims"

    def _call(self, method, path, body=None, content_type="application/json"):
        return self._client.call(method, path, body=body, content_type=content_type)

    # -- the controller --------------------------------------------------------------------------

    def _make(self, pod, templates):
        """Make the claims of a pod from their templates, and say in its status what they are."""
        meta = pod["metadata"]
        statuses = pod["status"].get("resourceClaimStatuses") or []
        made = {it["name"] for it in statuses}
        for ref in pod["spec"].get("resourceClaims") or ():
            template = templates.get(ref.get("resourceClaimTemplateName"))
            if template is None or ref["name"] in made or "deletionTimestamp" in meta:
                continue
            owner = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
            }
            name = f"{meta['name']}-{ref['name']}-{meta['uid'][:5]}"
            claim = {
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": template["spec"]["spec"],
            }
            self._call("POST", self._claims_path, claim)
            statuses = [*statuses, {"name": ref["name"], "resourceClaimName": name}]
            body = {"metadata": {"uid": meta["uid"]}, "status": {"resourceClaimStatuses": statuses}}
            self._call("PATCH", f"{self._pods_path}/{meta['name']}/status", body, MERGE)

    def _tend_claim(self, claim, alive):
        meta, status = claim["metadata"], claim.get("status") or {}
        path = f"{self._claims_path}/{meta['name']}"
        owners = [it["uid"] for it in meta.get("ownerReferences") or ()]
        is_leaving = "deletionTimestamp" in meta
        if owners and not is_leaving and not any(self._is_using(alive, it) for it in owners):
            self._call("DELETE", path, {"preconditions": {"uid": meta["uid"]}})
            return
        users = status.get("reservedFor") or []
        left = [it for it in users if self._is_using(alive, it["uid"])]
        if left != users:
            new = {key: it for key, it in status.items() if key != "reservedFor"}
            new = {**new, "reservedFor": left} if left else {}
            self._call("PUT", f"{path}/status", {**claim, "status": new})
        elif is_leaving and not users and "allocation" in status:
            self._call("PUT", f"{path}/status", {**claim, "status": {}})
        elif is_leaving and "allocation" not in status and FINALIZER in meta.get("finalizers", ()):
            self._unprotect(path, meta)

    def _unprotect(self, path, meta):
        kept = [it for it in meta["finalizers"] if it != FINALIZER]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": kept}}
        self._call("PATCH", path, body, MERGE)

    @staticmethod
    def _is_using(alive, uid):
        pod = alive.get(uid)
        return pod is not None and pod["status"].get("phase") not in _ENDED

    # -- the kubelets ----------------------------------------------------------------------------

    def _tend_pod(self, pod, claims):
        meta, phase = pod["metadata"], pod["status"].get("phase")
        path = f"{self._pods_path}/{meta['name']}"
        if "deletionTimestamp" in meta:
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            self._call("DELETE", path, body)
        elif pod["spec"].get("nodeName") and phase == "Pending":
            why = why_not_prepared(pod, claims)
            if why:
                self.waits[why.partition(":")[0]] += 1
                return
            self._started[meta["uid"]] = time.monotonic()
            self._set(path, meta, "Running")
        elif phase == "Running":
            run_s = float((meta.get("annotations") or {}).get(RUN_SECONDS, "inf"))
            if time.monotonic() - self._started.get(meta["uid"], 0.0) > run_s:
                self._set(path, meta, "Succeeded")

    def _set(self, path, meta, phase):
        body = {"metadata": {"uid": meta["uid"]}, "status": {"phase": phase}}
        self._call("PATCH", f"{path}/status", body, STRATEGIC)


def why_not_prepared(pod, claims):
    """Why a kubelet does not start a pod with claims, by what it checks; empty if it does."""
    meta = pod["metadata"]
    made = {
        it["name"]: it.get("resourceClaimName", "")
        for it in pod["status"].get("resourceClaimStatuses") or ()
    }
    for ref in pod["spec"].get("resourceClaims") or ():
        name = ref.get("resourceClaimName") or made.get(ref["name"], "")
        claim = claims.get(name)
        if claim is None:
            return f"no claim: {name}"
        if "resourceClaimTemplateName" in ref and meta["uid"] not in [
            it["uid"] for it in claim["metadata"].get("ownerReferences") or ()
        ]:
            return f"not its own claim: {name}"
        status = claim.get("status") or {}
        if meta["uid"] not in [it["uid"] for it in status.get("reservedFor") or ()]:
            return f"not reserved: {name}"
        if "allocation" not in status:
            return f"not allocated: {name}"
    return ""
