"""The objects that the churn makes, and the cluster it begins with."""

import time
from dataclasses import dataclass

import msgspec

from kaisched.errors import ClusterUnavailable
from tests import objects
from tests.chaos.facts import GPU, RUN_SECONDS
from tests.deploy.manifests import DEPLOY, KUSTOMIZE, documents

NAMESPACE = "chaos"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{NAMESPACE}/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
NODES = "/api/v1/nodes"
GPUS = 8
SHIPPED = (
    DEPLOY / "crds",
    KUSTOMIZE / "base" / "namespace.yaml",
    KUSTOMIZE / "base" / "service-account.yaml",
    KUSTOMIZE / "base" / "read-role.yaml",
    KUSTOMIZE / "components" / "write",
    KUSTOMIZE / "components" / "delete",
    KUSTOMIZE / "components" / "fence",
    KUSTOMIZE / "components" / "defaults",
)
"""What is deployed with the scheduler; the fence counts where the server evaluates it."""
_FIRST = ("Namespace", "CustomResourceDefinition")
# Half the GPUs are owed in each department; some queues may not hold more than so much.
TREE = {
    "dept-a": ("", 0.5, None),
    "a-big": ("dept-a", 0.25, None),
    "a-mid": ("dept-a", 0.15, 0.4),
    "a-low": ("dept-a", 0.1, None),
    "dept-b": ("", 0.5, 0.75),
    "b-big": ("dept-b", 0.3, None),
    "b-mid": ("dept-b", 0.2, 0.3),
    "b-none": ("dept-b", 0.0, None),
}
"""Queue to its parent, and its quota and limit as parts of all GPUs."""
LEAVES = ("a-big", "a-mid", "a-low", "b-big", "b-mid", "b-none")


class Refused(Exception):  # noqa: N818 - it says what happened
    """The server did not do what was asked."""


def insist(act, seconds=120.0):
    """Do something once the server does it: the kinds it needs may not be served yet."""
    end_s = time.monotonic() + seconds
    while True:
        try:
            return act()
        except (Refused, ClusterUnavailable, KeyError):
            if time.monotonic() > end_s:
                raise
            time.sleep(0.2)


class Asking:
    """Requests of people, repeated while the server is in trouble."""

    def __init__(self, client):
        self.client = client
        self._plurals = {}

    def must(self, method, path, body=None, content_type="application/json"):
        answer = self.client.call(method, path, body=body, content_type=content_type)
        if not answer.is_done:
            raise Refused(f"{method} {path}: {answer.text()}")
        return msgspec.json.decode(answer.data) if answer.data else {}

    def path(self, obj):
        version, kind = obj["apiVersion"], obj["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for each in self.must("GET", root)["resources"]:
                if "/" not in each["name"]:
                    self._plurals[version, each["kind"]] = each["name"], each["namespaced"]
        plural, is_namespaced = self._plurals[version, kind]
        namespace = obj["metadata"].get("namespace", NAMESPACE)
        return f"{root}/namespaces/{namespace}/{plural}" if is_namespaced else f"{root}/{plural}"

    def apply(self, obj):
        """Create an object; one that is there stays as it is."""
        answer = self.client.call("POST", self.path(obj), body=obj)
        if not answer.is_done and "AlreadyExists" not in answer.text():
            raise Refused(f"{obj['kind']} {obj['metadata']['name']}: {answer.text()}")


def shipped():
    """Return what is deployed, namespaces and definitions first, with usage history on."""
    found = []
    for place in SHIPPED:
        for file in sorted(place.rglob("*.yaml")) if place.is_dir() else [place]:
            found += documents(file.read_text(encoding="utf-8"))
    found = [it for it in found if "metadata" in it and "kustomize" not in it["apiVersion"]]
    for obj in found:
        if obj["kind"] == "SchedulingShard":
            obj["spec"]["usageDBConfig"] = {
                "clientType": "sqlite",
                # A window so short that the file is to stay as large as it is after five minutes.
                "usageParams": {"fetchInterval": "10s", "windowSize": "5m"},
            }
    return sorted(found, key=lambda it: _FIRST.index(it["kind"]) if it["kind"] in _FIRST else 9)


def queue(name, gpus):
    """Return a queue of the tree for a cluster of so many GPUs."""
    parent, quota, limit = TREE[name]
    at_most = -1 if limit is None else round(limit * gpus)
    return objects.queue(name, round(quota * gpus), parent, limit=at_most)


def make_node(asking, name):
    """Make a node that is ready; one that is there is made ready."""
    answer = asking.client.call("POST", NODES, body={"metadata": {"name": name}})
    if not answer.is_done and "AlreadyExists" not in answer.text():
        raise Refused(answer.text())
    objects.make_ready(asking.must, name, GPUS)


@dataclass(slots=True)
class Job:
    """What a user wants: so many pods, each for so long, and what is made of it so far."""

    name: str
    queue: str
    pods: int
    gpus: int
    run_s: tuple
    """How long each pod runs."""
    minimum: int = 0
    """0 for no pod group."""
    priority: str = "train"
    grace: str = ""
    is_tended: bool = True
    """Whether somebody makes pods anew that are lost."""
    grace_s: int = 5
    names: list = None
    """The pod that now stands for each place."""
    made: int = 0
    placed_s: float = 0.0
    """When one of its pods was last seen on a node; when it was made, before that."""
    is_ended: bool = False

    @property
    def group_key(self):
        return f"{NAMESPACE}/{self.name}"


def group_of(job):
    grace = {"stalenessGracePeriod": job.grace} if job.grace else {}
    return objects.group(job.name, job.queue, job.minimum, priorityClassName=job.priority, **grace)


def pod_of(job, place, name):
    return objects.pod(
        name,
        job.queue,
        group=job.name if job.minimum else "",
        limits={GPU: str(job.gpus), "cpu": "500m", "memory": "1Gi"},
        annotations={RUN_SECONDS: f"{job.run_s[place]:.1f}"},
        priorityClassName=job.priority,
        terminationGracePeriodSeconds=job.grace_s,
    )
