"""A shard on an API server with claims on devices; everything happens when it is told to."""

import msgspec

from kaisched.clock import ManualClock, monotonic_s
from kaisched.cluster.claims.device_claims import ON
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.device_claims import ClaimBackend
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.kubernetes.resources import DEVICES, NODES, PODS
from kaisched.cluster.store import StateStore
from kaisched.engine.policy import build_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import installed_plugins
from kaisched.objects.decode import decode_object
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from tests.chaos.claim_parts import CLASS, RESOURCE, ClaimParts, device_class, slice_of

NAMESPACE = "default"
CLAIMS = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims"
POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


class FakeWriteQueue:
    """Writes that wait to be sent."""

    def __init__(self):
        self.works = []

    def put(self, rank, work, delay_s=0.0):
        self.works.append(work)
        return True


class Shard:
    """The state of one process: a restart makes another."""

    def __init__(self, client, holder="us", epoch=1):
        leadership = Leadership()
        leadership.renew(1e9, holder, epoch, "kaisched-default")
        self.client, self.write_queue, self.store = client, FakeWriteQueue(), StateStore()
        self.store.device_claims.set_reading(ON)
        self.cluster = KubernetesCluster(
            client,
            leadership,
            self.write_queue,
            ManualClock(1e9),
            self.store,
            backends=[ClaimBackend()],
        )
        shard, _ = decode_object({"metadata": {"name": "s"}, "spec": {}}, SchedulingShard)
        self._policy, _ = build_policy(shard, installed_plugins())
        self._memory, self._known, self.result = Memory(), {}, None
        spec = {"resources": {"gpu": {"quota": 100}}}
        queue, _ = decode_object({"metadata": {"name": "a"}, "spec": spec}, Queue)
        self.cluster.handle(Change(queue))

    def handle(self, *kinds):
        """Take in what is new at the server, of some kinds or of all."""
        for kind in kinds or (*DEVICES, NODES, PODS):
            page = kind.read_list(self.client.call("GET", kind.path).data)
            there = {(kind.kind, it.metadata.namespace, it.name): it for it in page.objects}
            for key, obj in there.items():
                if self._known.get(key) != obj:
                    self.cluster.handle(Change(obj))
            for key in [it for it in self._known if it[0] == kind.kind and it not in there]:
                self.cluster.handle(Change(self._known.pop(key), is_gone=True))
            self._known.update(there)

    def decide(self):
        """Run a cycle on what was heard; what it decided waits in the write queue."""
        self.store.let_go(monotonic_s() + 1e6)
        snapshot = self.cluster.snapshot()
        result, self._memory = run_cycle(snapshot, None, self._policy, 1e9, self._memory)
        assert not result.failures
        assert not violations(snapshot, result, self._policy, with_records=True)
        self.cluster.apply(result.binds, result.evictions, result.nominations)
        self.result = result
        return {it.pod.partition("/")[2]: it.node for it in result.binds}

    def send(self, most=30):
        """Send what waits, each until it is done; pauses are not waited for."""
        works, self.write_queue.works = self.write_queue.works, []
        for work in works:
            for _ in range(most):
                if work.send() is None:
                    break
            else:
                self.write_queue.works.append(work)

    def cycle(self):
        """Hear, decide and send."""
        self.handle()
        bound = self.decide()
        self.send()
        return bound

    def reason(self, pod):
        """Why the job of a pod waits."""
        assert self.result is not None
        return next(it.message for it in self.result.records if f"-{pod}-" in it.pod_group)


class LiveWorld:
    """The server's side."""

    def __init__(self, client):
        self.client = client
        self.parts = ClaimParts(client, NAMESPACE, None)
        self.must("POST", f"{RESOURCE}/deviceclasses", device_class())

    def must(self, method, path, body=None, content_type="application/json"):
        answer = self.client.call(method, path, body=body, content_type=content_type)
        assert answer.is_done, answer.text()
        return msgspec.json.decode(answer.data)

    def back(self, resource):
        """Let the device class back an extended resource, which :meth:`asking_pod` asks for."""
        of_class = self.must("GET", f"{RESOURCE}/deviceclasses/{CLASS}")
        of_class["spec"]["extendedResourceName"] = self.resource = resource
        self.must("PUT", f"{RESOURCE}/deviceclasses/{CLASS}", of_class)

    def bare_node(self, name, **more):
        """A node without devices, with more amounts."""
        room = {"cpu": "64", "memory": "256Gi", "pods": "110", **more}
        status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
        self.must("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
        node = self.must("GET", f"/api/v1/nodes/{name}")
        node["spec"].pop("taints", None)
        self.must("PUT", f"/api/v1/nodes/{name}", node)

    def node(self, name, devices, listed=None):
        self.bare_node(name)
        published = slice_of(name, devices)
        published["spec"]["devices"] = listed or published["spec"]["devices"]
        self.must("POST", f"{RESOURCE}/resourceslices", published)

    def cordon(self, name, *, is_cordoned=True):
        node = self.must("GET", f"/api/v1/nodes/{name}")
        node["spec"]["unschedulable"] = is_cordoned
        self.must("PUT", f"/api/v1/nodes/{name}", node)

    def claims(self):
        return self.must("GET", CLAIMS)["items"]

    def asking_pod(self, name):
        """Make a pod that asks for one of the resource that the device class backs."""
        limits = {"limits": {self.resource: "1"}, "requests": {self.resource: "1"}}
        body = {
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "a"}},
            "spec": {
                "schedulerName": "kaisched",
                "containers": [{"name": "main", "image": "none", "resources": limits}],
            },
        }
        return self.must("POST", POD_PATH, body)

    def claim(self, name, count=1, **more):
        return self.must(
            "POST", CLAIMS, {"metadata": {"name": name}, "spec": asking(count, **more)}
        )

    def template(self, name, count=1, **more):
        body = {"metadata": {"name": name}, "spec": {"spec": asking(count, **more)}}
        self.must("POST", f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaimtemplates", body)

    def pod(self, name, *claims, template=""):
        refs = [{"name": it, "resourceClaimName": it} for it in claims]
        refs += [{"name": "own", "resourceClaimTemplateName": template}] if template else []
        body = {
            "metadata": {"name": name, "labels": {"kai.scheduler/queue": "a"}},
            "spec": {
                "schedulerName": "kaisched",
                "containers": [{"name": "main", "image": "none"}],
                "resourceClaims": refs,
            },
        }
        return self.must("POST", POD_PATH, body)

    def delete_pod(self, name):
        self.must("DELETE", f"{POD_PATH}/{name}", {"gracePeriodSeconds": 0})

    def get_claim(self, name):
        return self.must("GET", f"{CLAIMS}/{name}")

    def node_of(self, pod):
        return self.must("GET", f"{POD_PATH}/{pod}")["spec"].get("nodeName", "")

    def devices(self, claim):
        status = self.get_claim(claim).get("status") or {}
        results = (status.get("allocation") or {}).get("devices", {}).get("results", [])
        return [f"{it['pool']}/{it['device']}" for it in results]

    def users(self, claim):
        return [
            it["name"] for it in (self.get_claim(claim).get("status") or {}).get("reservedFor", [])
        ]

    def allocate(self, claim, node, device, *pods):
        """Give a claim a device, as another scheduler would."""
        raw = self.get_claim(claim)
        result = {"request": "gpu", "driver": CLASS, "pool": node, "device": device}
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        }
        users = [
            {"resource": "pods", "name": it["metadata"]["name"], "uid": it["metadata"]["uid"]}
            for it in pods
        ]
        raw["status"] = {"allocation": allocation, **({"reservedFor": users} if users else {})}
        self.must("PUT", f"{CLAIMS}/{claim}/status", raw)


def asking(count=1, **more):
    exactly = {"deviceClassName": CLASS, "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}
