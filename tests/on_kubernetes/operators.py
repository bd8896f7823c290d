"""Workloads of eight operators, with the pods that each of their controllers makes.

Names, labels, annotations, owners, gates and the order are those of these releases, recorded from
their running controllers: KubeRay 1.7.0, Kubeflow training operator 1.9.0, MPI operator 0.8.0,
JobSet 0.12.0, LeaderWorkerSet 0.10.0, Spark operator 2.5.2 with Spark 4.0.1, Grove 0.1.0-alpha.11
and Volcano 1.15.1, with webhooks off; of pods of a batch Job and a StatefulSet those of
kube-controller-manager 1.36. Left out is what has no part in scheduling: commands, environment,
volumes and services; and the finalizer of a Job's pods.
"""

import hashlib
import itertools

from kaisched.cluster.kubernetes.client import MERGE
from tests import objects
from tests.on_kubernetes.rig import definition
from tests.waiting import until

SERVED = {
    "RayCluster": ("ray.io", "v1", "rayclusters"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "MPIJob": ("kubeflow.org", "v2beta1", "mpijobs"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "SparkApplication": ("sparkoperator.k8s.io", "v1beta2", "sparkapplications"),
    "PodCliqueSet": ("grove.io", "v1alpha1", "podcliquesets"),
    "PodClique": ("grove.io", "v1alpha1", "podcliques"),
    "PodGang": ("scheduler.grove.io", "v1alpha1", "podgangs"),
    "Volcano": ("batch.volcano.sh", "v1alpha1", "jobs"),
}
OF_KUBERNETES = {"Job": ("batch", "v1", "jobs"), "StatefulSet": ("apps", "v1", "statefulsets")}
GATE = "grove.io/podgang-pending-creation"
PROFILE = "kai-scheduler"
"""The scheduler of Grove's pods: it makes none for a name that it does not know."""
_numbers = itertools.count(11)


def random():
    """What the server puts behind a generated name; here another one each time."""
    return f"x{next(_numbers)}"


class Operator:
    """What one operator does; ``cluster`` is a rig."""

    kinds = ()
    head = ""
    """Name of the pod that leads the others; empty without one."""
    spare = ()
    """Names of running pods above the minimum of their role, in the order of their creation."""

    def __init__(self, cluster, gpus):
        """Serve the kinds; each pod asks for so many GPUs."""
        self.cluster, self.gpus = cluster, gpus
        self.names = []
        for kind in self.kinds:
            group, version, plural = SERVED[kind]
            path = f"/apis/{group}/{version}/{plural}"
            if not cluster.ask("GET", path).is_done:
                name = "Job" if kind == "Volcano" else kind
                row = definition(group, version, plural, name, "Namespaced")
                # A real server asks for it where the group ends in k8s.io.
                row["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, tests"}
                crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                cluster.must("POST", crds, row)
                until(lambda p=path: cluster.ask("GET", p).is_done)

    def make(self, kind, name, spec, by=None, **meta):
        """Make an object, owned by another one if there is one, and return it."""
        group, version, _ = (SERVED | OF_KUBERNETES)[kind]
        body = {
            "apiVersion": f"{group}/{version}",
            "kind": "Job" if kind == "Volcano" else kind,
            "metadata": {"name": name, "ownerReferences": owned(by), **meta},
            "spec": spec,
        }
        return {**body, **self.cluster.must("POST", self.path(kind), body)}

    def path(self, kind, name=""):
        group, version, plural = (SERVED | OF_KUBERNETES)[kind]
        space = self.cluster.namespace
        return f"/apis/{group}/{version}/namespaces/{space}/{plural}" + (name and f"/{name}")

    def change(self, kind, name, spec):
        self.cluster.must("PATCH", self.path(kind, name), {"spec": spec}, MERGE)

    def drop(self, kind, name):
        """Delete an object; what it owns is left to the caller."""
        body = {"propagationPolicy": "Background"}
        self.cluster.must("DELETE", self.path(kind, name), body)

    def pod(self, name, by, labels, annotations=None, beside=(), **spec):
        """Make a pod and return it; it belongs to what is ``beside``, too."""
        body = objects.pod(name, "a", self.gpus, labels=labels, annotations=annotations, **spec)
        body["metadata"]["ownerReferences"] = [*map(named, beside), *owned(by)]
        self.names.append(name)
        return {**body, **self.cluster.must("POST", self.cluster.pods_path, body)}

    def end(self, name):
        """Let a pod be gone."""
        self.names.remove(name)
        self.cluster.delete_pod(name)

    def job_pod(self, job, index, labels, annotations=None, **spec):
        """Make a pod of an indexed batch Job, or of a plain one where the index is None."""
        made, uid = job["metadata"]["name"], job["metadata"]["uid"]
        own = {
            "batch.kubernetes.io/controller-uid": uid,
            "controller-uid": uid,
            "batch.kubernetes.io/job-name": made,
            "job-name": made,
        }
        if index is None:
            return self.pod(f"{made}-{random()}", job, {**labels, **own}, annotations)
        key = "batch.kubernetes.io/job-completion-index"
        noted = {**(annotations or {}), key: str(index)}
        name = f"{made}-{index}-{random()}"
        labels = {**labels, **own, key: str(index)}
        return self.pod(name, job, labels, noted, hostname=f"{made}-{index}", **spec)

    def set_pod(self, stateful_set, index, labels, annotations):
        """Make a pod of a StatefulSet."""
        made = stateful_set["metadata"]["name"]
        name = f"{made}-{index}"
        own = {
            "apps.kubernetes.io/pod-index": str(index),
            "controller-revision-hash": f"{made}-7d9f",
            "statefulset.kubernetes.io/pod-name": name,
        }
        return self.pod(name, stateful_set, {**labels, **own}, annotations, hostname=name)

    def job(self, name, by, pods, labels=None, annotations=None):
        """Make an indexed batch Job of so many pods."""
        template = {
            "metadata": {"labels": labels or {}, "annotations": annotations or {}},
            "spec": {"containers": [{"name": "m", "image": "none"}], "restartPolicy": "Never"},
        }
        counts = {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}
        spec = {**counts, "backoffLimit": 0, "suspend": False, "template": template}
        return self.make("Job", name, spec, by, labels=labels or {}, annotations=annotations or {})

    def stateful_set(self, name, by, replicas, selector, labels, annotations, start=0):
        template = {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "m", "image": "none"}]},
        }
        spec = {
            "replicas": replicas,
            "serviceName": "serve",
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": start},
            "selector": {"matchLabels": selector},
            "template": template,
        }
        return self.make("StatefulSet", name, spec, by, labels=labels)

    # -- what each operator does in its own way ---------------------------------------------------

    def start(self):
        """Make a workload and its pods: three that are needed, and those of ``spare``."""
        raise NotImplementedError

    def restart(self):
        """Replace the head, or what goes with it; return the names of the new pods."""
        raise NotImplementedError

    def grow(self):
        """Make one pod more, or one more group; return the names of the new pods."""
        raise NotImplementedError

    def shrink(self):
        """Take away what came last."""
        self.end(self.names[-1])


def of_container(name):
    """A template of pods of one container."""
    return {"spec": {"containers": [{"name": name, "image": "none"}]}}


def owned(by):
    return [{**named(by), "controller": True, "blockOwnerDeletion": True}] if by else []


def named(by):
    meta = by["metadata"]
    kind = {it: by[it] for it in ("apiVersion", "kind")}
    return {**kind, "name": meta["name"], "uid": meta["uid"]}


class KubeRay(Operator):
    """A RayCluster: the head first, then each group of workers."""

    kinds = ("RayCluster",)

    def start(self, spare=0):
        group = {"groupName": "small", "replicas": 2 + spare, "minReplicas": 2, "maxReplicas": 9}
        template = {"spec": {"containers": [{"name": "ray", "image": "none"}]}}
        spec = {
            "rayVersion": "2.50.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [{**group, "rayStartParams": {}, "template": template}],
        }
        self.group = group
        self.ray = self.make("RayCluster", "ray", spec)
        self.head = self._head()
        made = [self._worker(at) for at in range(2 + spare)]
        self.spare = made[2:]

    def _labels(self, kind, group):
        return {
            "ray.io/is-ray-node": "yes",
            "ray.io/cluster": "ray",
            "ray.io/node-type": kind,
            "ray.io/group": group,
            "ray.io/identifier": f"ray-{kind}",
            "app.kubernetes.io/name": "kuberay",
            "app.kubernetes.io/created-by": "kuberay-operator",
        }

    def _head(self):
        name, labels = f"ray-head-{random()}", self._labels("head", "headgroup")
        noted = {
            "ray.io/ft-enabled": "false",
            "ray.io/kuberay-version": "v1.7.0",
            "ray.io/upgrade-strategy-recreate-hash": "KT8NNB7L4IIUE359K32N3DJOOV8RFOJ4",
        }
        return self.pod(name, self.ray, labels, noted) and name

    def _worker(self, index):
        name, labels = f"ray-small-worker-{random()}", self._labels("worker", "small")
        labels["ray.io/worker-group-replica-index"] = str(index)
        return self.pod(name, self.ray, labels) and name

    def restart(self):
        self.end(self.head)
        self.head = self._head()
        return [self.head]

    def _scale(self, replicas):
        self.change(
            "RayCluster", "ray", {"workerGroupSpecs": [{**self.group, "replicas": replicas}]}
        )

    def grow(self):
        self._scale(3)
        return [self._worker(2)]

    def shrink(self):
        self._scale(2)
        super().shrink()


class Training(Operator):
    """An elastic PyTorchJob: a master and workers."""

    kinds = ("PyTorchJob",)

    def start(self, spare=0):
        self.replicas = 2 + spare
        same = {"restartPolicy": "OnFailure", "template": of_container("pytorch")}
        spec = {
            "elasticPolicy": {"minReplicas": 2, "maxReplicas": 9},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **same},
                "Worker": {"replicas": self.replicas, **same},
            },
        }
        self.torch = self.make("PyTorchJob", "torch", spec)
        self.head = self._pod("master", 0)
        made = [self._pod("worker", at) for at in range(self.replicas)]
        self.spare = made[2:]

    def _pod(self, role, index):
        labels = {
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/job-name": "torch",
            "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": str(index),
        }
        if role == "master":
            labels["training.kubeflow.org/job-role"] = "master"
        name = f"torch-{role}-{index}"
        return self.pod(name, self.torch, labels, restartPolicy="OnFailure") and name

    def restart(self):
        self.end(self.head)
        return [self._pod("master", 0)]

    def _scale(self, replicas):
        spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas}}}
        self.change("PyTorchJob", "torch", spec)

    def grow(self):
        self._scale(3)
        return [self._pod("worker", 2)]

    def shrink(self):
        self._scale(2)
        super().shrink()


class Mpi(Operator):
    """An MPIJob: workers, and then a batch Job of the launcher."""

    kinds = ("MPIJob",)

    def start(self, spare=0):
        self.replicas = 2 + spare
        spec = {
            "slotsPerWorker": 1,
            "runPolicy": {"schedulingPolicy": {"minAvailable": 3}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1},
                "Worker": {"replicas": self.replicas},
            },
        }
        self.mpi = self.make("MPIJob", "mpi", spec)
        made = [self._worker(at) for at in range(self.replicas)]
        self.spare = made[2:]
        self.launcher = self.make(
            "Job",
            "mpi-launcher",
            {
                "backoffLimit": 6,
                "podReplacementPolicy": "Failed",
                "template": {
                    "metadata": {"labels": self._labels("launcher")},
                    "spec": {
                        "containers": [{"name": "m", "image": "none"}],
                        "restartPolicy": "Never",
                    },
                },
            },
            self.mpi,
            labels={"app": "mpi"},
        )
        self.head = self._launched()

    def _labels(self, role):
        return {
            "training.kubeflow.org/operator-name": "mpi-operator",
            "training.kubeflow.org/job-name": "mpi",
            "training.kubeflow.org/job-role": role,
        }

    def _worker(self, index):
        labels = {**self._labels("worker"), "training.kubeflow.org/replica-index": str(index)}
        name = f"mpi-worker-{index}"
        return self.pod(name, self.mpi, labels, hostname=name, subdomain="mpi") and name

    def _launched(self):
        return self.job_pod(self.launcher, None, self._labels("launcher"))["metadata"]["name"]

    def restart(self):
        """The batch Job replaces a launcher once it has failed."""
        status = {"status": {"phase": "Failed"}}
        self.cluster.must("PATCH", f"{self.cluster.pods_path}/{self.head}/status", status, MERGE)
        self.names.remove(self.head)
        self.head = self._launched()
        return [self.head]

    def _scale(self, replicas):
        self.change("MPIJob", "mpi", {"mpiReplicaSpecs": {"Worker": {"replicas": replicas}}})

    def grow(self):
        self._scale(3)
        return [self._worker(2)]

    def shrink(self):
        self._scale(2)
        super().shrink()


class JobSets(Operator):
    """A JobSet: a batch Job of a leader, and one of two workers; a restart replaces all Jobs."""

    kinds = ("JobSet",)
    parts = (("leader", 1), ("work", 2))
    exclusive = ""
    """Label of nodes of which each Job has a value of its own."""

    def start(self, spare=0):
        assert not spare, "its pods are all needed"
        jobs = [
            {"name": name, "replicas": 1, "template": {"spec": counted(pods)}}
            for name, pods in self.parts
        ]
        self.attempt = 0
        noted = {EXCLUSIVE: self.exclusive} if self.exclusive else {}
        self.set = self.make("JobSet", "set", {"replicatedJobs": jobs}, annotations=noted)
        self._jobs()

    def _first(self, job, labels, noted):
        """Make the first pod of a Job, which is to have its own domain; return its name."""
        own = {"key": KEY, "operator": "In", "values": [labels[KEY]]}
        others = {"key": KEY, "operator": "NotIn", "values": [labels[KEY]]}
        any_of = {"topologyKey": self.exclusive, "namespaceSelector": {}}
        near = {**any_of, "labelSelector": {"matchExpressions": [own]}}
        there = [{"key": KEY, "operator": "Exists"}, others]
        away = {**any_of, "labelSelector": {"matchExpressions": there}}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity = {"podAffinity": {required: [near]}, "podAntiAffinity": {required: [away]}}
        pod = self.job_pod(job, 0, labels, noted, affinity=affinity)
        return pod["metadata"]["name"]

    def follow(self, domains):
        """Make the other pods of each Job, which go where its first pod is; return their names."""
        before = set(self.names)
        for job, labels, noted, pods in self.made:
            for index in range(1, pods):
                selector = {self.exclusive: domains[labels[PART]]}
                self.job_pod(job, index, labels, noted, nodeSelector=selector)
        return [it for it in self.names if it not in before]

    def _jobs(self):
        self.made = []
        for at, (part, pods) in enumerate(self.parts):
            name = f"set-{part}-0"
            noted = {
                "jobset.sigs.k8s.io/jobset-name": "set",
                "jobset.sigs.k8s.io/jobset-uid": self.set["metadata"]["uid"],
                "jobset.sigs.k8s.io/replicatedjob-name": part,
                "jobset.sigs.k8s.io/replicatedjob-replicas": "1",
                "jobset.sigs.k8s.io/restart-attempt": str(self.attempt),
                "jobset.sigs.k8s.io/global-replicas": str(len(self.parts)),
                "jobset.sigs.k8s.io/job-index": "0",
                "jobset.sigs.k8s.io/job-key": hashed(f"{self.cluster.namespace}/{name}"),
                "jobset.sigs.k8s.io/job-global-index": str(at),
                "jobset.sigs.k8s.io/group-name": "default",
                "jobset.sigs.k8s.io/group-replicas": str(len(self.parts)),
                "jobset.sigs.k8s.io/job-group-index": str(at),
            }
            labels = dict(noted)
            if self.exclusive:
                noted |= {EXCLUSIVE: self.exclusive}
            job = self.job(name, self.set, pods, labels, noted)
            if self.exclusive:
                self.made.append((job, labels, noted, pods))
                self._first(job, labels | {"jobset.sigs.k8s.io/priority": "0"}, noted)
                continue
            made = [self.job_pod(job, index, labels, noted) for index in range(pods)]
            if part == "leader":
                self.head = made[0]["metadata"]["name"]

    def restart(self):
        before = list(self.names)
        for part, _ in self.parts:
            self.drop("Job", f"set-{part}-0")
        for name in before:
            self.end(name)
        self.attempt += 1
        self._jobs()
        return self.names

    def grow(self):
        """An elastic Job of it gets one more pod; a JobSet itself may not be changed."""
        return []

    def shrink(self):
        pass


EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
KEY, PART = "jobset.sigs.k8s.io/job-key", "jobset.sigs.k8s.io/replicatedjob-name"


def counted(pods):
    return {"parallelism": pods, "completions": pods, "completionMode": "Indexed"}


def hashed(text):
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


LWS = "leaderworkerset.sigs.k8s.io/"


class LeaderWorkerSets(Operator):
    """A LeaderWorkerSet: a StatefulSet of leaders, each of which owns one of its workers."""

    kinds = ("LeaderWorkerSet",)
    size = 3

    def start(self, spare=0):
        assert not spare, "the pods of a group are all needed"
        spec = {
            "replicas": 1,
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {
                "size": self.size,
                "restartPolicy": "RecreateGroupOnPodRestart",
            },
        }
        self.lws = self.make("LeaderWorkerSet", "lws", spec)
        labels = {f"{LWS}worker-index": "0", f"{LWS}name": "lws", f"{LWS}{REVISION}": "5d9"}
        selector = {f"{LWS}name": "lws", f"{LWS}worker-index": "0"}
        noted = {f"{LWS}size": str(self.size)}
        self.leaders = self.stateful_set("lws", self.lws, 1, selector, labels, noted)
        self.labels, self.noted = labels, noted
        self._group(0)

    def _group(self, index):
        name = f"lws-{index}"
        key = {
            f"{LWS}group-index": str(index),
            f"{LWS}group-key": hashed(f"{self.cluster.namespace}/{name}"),
        }
        leader = self.set_pod(self.leaders, index, {**self.labels, **key}, self.noted)
        self.head = self.head or name
        labels = {f"{LWS}name": "lws", f"{LWS}{REVISION}": "5d9", **key}
        selector = {f"{LWS}name": "lws", **key}
        noted = {**self.noted, f"{LWS}leader-name": name}
        workers = self.size - 1
        of_workers = self.stateful_set(name, leader, workers, selector, labels, noted, start=1)
        for at in range(1, self.size):
            self.set_pod(of_workers, at, {**labels, f"{LWS}worker-index": str(at)}, noted)
        return [it for it in self.names if it == name or it.startswith(f"{name}-")]

    def _drop(self, index):
        self.drop("StatefulSet", f"lws-{index}")
        for name in [it for it in self.names if f"{it}-".startswith(f"lws-{index}-")]:
            self.end(name)

    def restart(self):
        self._drop(0)
        return self._group(0)

    def grow(self):
        self.change("LeaderWorkerSet", "lws", {"replicas": 2})
        return self._group(1)

    def shrink(self):
        self.change("LeaderWorkerSet", "lws", {"replicas": 1})
        self._drop(1)


REVISION = "template-revision-hash"


class Spark(Operator):
    """A SparkApplication: the driver, which makes the executors once it runs."""

    kinds = ("SparkApplication",)
    attempt = 0

    def start(self, spare=2):
        spec = {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": "4.0.1",
            "mainApplicationFile": "local:///pi.py",
            "driver": {},
            "executor": {"instances": spare},
        }
        self.app = self.make("SparkApplication", "pi", spec)
        self._driver()
        self.spare = [self._executor() for _ in range(spare)]

    def _labels(self, role):
        return {
            "spark-app-selector": f"spark-{self.attempt}f0",
            "spark-app-name": "pi",
            "spark-role": role,
            "spark-version": "4.0.1",
            "sparkoperator.k8s.io/app-name": "pi",
            "sparkoperator.k8s.io/launched-by-spark-operator": "true",
            "sparkoperator.k8s.io/mutated-by-spark-operator": "true",
            "sparkoperator.k8s.io/submission-id": f"0b{self.attempt}",
        }

    def _driver(self):
        self.count = 0
        self.head = "pi-driver"
        self.driver = self.pod("pi-driver", self.app, self._labels("driver"))

    def _executor(self):
        self.count += 1
        name = f"pi-{self.attempt}a-exec-{self.count}"
        labels = {**self._labels("executor"), "spark-exec-id": str(self.count)}
        labels["spark-exec-resourceprofile-id"] = "0"
        return self.pod(name, self.driver, labels, beside=[self.app]) and name

    def restart(self):
        """The application is submitted again, under another selector; its executors end."""
        for name in list(self.names):
            self.end(name)
        self.attempt += 1
        self._driver()
        return [self.head, self._executor()]

    def grow(self):
        return [self._executor()]


class Grove(Operator):
    """A PodCliqueSet of two cliques.

    The PodGang is made beside the first pods, which have a gate, and names no pod before all are
    there; then the gates go one by one.
    """

    kinds = ("PodCliqueSet", "PodClique", "PodGang")
    least = (("lead", 1), ("work", 2))

    def start(self, spare=0):
        self.made = {"lead": [], "work": []}
        self.replicas = {"lead": 1, "work": 2 + spare}
        cliques = [{"name": it, "spec": self._spec(it)} for it in self.made]
        spec = {"replicas": 1, "template": {"cliques": cliques}}
        self.whole = self.make("PodCliqueSet", "pcs", spec)
        self.cliques = {it: self._clique(it) for it in self.made}
        self._pod("lead")
        labels = self._labels("podgang") | {"grove.io/scheduler-name": PROFILE}
        self.gang = self.make(
            "PodGang", "pcs-0", {"podgroups": self._groups()}, self.whole, labels=labels
        )
        for _ in range(self.replicas["work"]):
            self._pod("work")
        self._sync()
        for name in self.names:
            self._open(name)
        self.head, self.spare = self.made["lead"][0], self.made["work"][2:]

    def _spec(self, clique):
        container = {"name": "m", "image": "none"}
        return {
            "roleName": clique,
            "replicas": self.replicas[clique],
            "minAvailable": dict(self.least)[clique],
            "podSpec": {"schedulerName": PROFILE, "containers": [container]},
        }

    def _clique(self, clique):
        labels = self._of_clique(clique)
        return self.make(
            "PodClique", f"pcs-0-{clique}", self._spec(clique), self.whole, labels=labels
        )

    def _labels(self, component):
        return {
            "app.kubernetes.io/component": component,
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "pcs",
        }

    def _of_clique(self, clique):
        return self._labels("pcs-podclique") | {
            "app.kubernetes.io/name": f"pcs-0-{clique}",
            "grove.io/pod-template-hash": "b56444684686c6cfcf9",
            "grove.io/podcliqueset-replica-index": "0",
            "grove.io/podgang": "pcs-0",
        }

    def _groups(self):
        full = all(len(self.made[it]) >= pods for it, pods in self.replicas.items())
        space = self.cluster.namespace
        return [
            {
                "name": f"pcs-0-{clique}",
                "podReferences": [
                    {"namespace": space, "name": it} for it in sorted(self.made[clique]) if full
                ],
                "minReplicas": least,
            }
            for clique, least in self.least
        ]

    def _pod(self, clique):
        name, index = f"pcs-0-{clique}-{random()}", len(self.made[clique])
        labels = self._of_clique(clique) | {
            "grove.io/podclique": f"pcs-0-{clique}",
            "grove.io/podclique-pod-index": str(index),
        }
        self.pod(
            name,
            self.cliques[clique],
            labels,
            schedulerName=PROFILE,
            schedulingGates=[{"name": GATE}],
            hostname=f"pcs-0-{clique}-{index}",
            subdomain="pcs-0",
        )
        self.made[clique].append(name)
        return name

    def _open(self, name):
        path = f"{self.cluster.pods_path}/{name}"
        self.cluster.must("PATCH", path, {"spec": {"schedulingGates": None}}, MERGE)

    def _sync(self):
        self.change("PodGang", "pcs-0", {"podgroups": self._groups()})

    def _scale(self, replicas):
        self.replicas["work"] = replicas
        self.change("PodClique", "pcs-0-work", {"replicas": replicas})

    def restart(self):
        self.end(self.head)
        self.made["lead"].clear()
        self.head = self._pod("lead")
        self._sync()
        self._open(self.head)
        return [self.head]

    def grow(self):
        self._scale(3)
        name = self._pod("work")
        self._sync()
        self._open(name)
        return [name]

    def shrink(self):
        self._scale(2)
        self.made["work"].pop()
        super().shrink()
        self._sync()


class Volcano(Operator):
    """A Job of Volcano with two tasks."""

    kinds = ("Volcano",)

    def start(self, spare=0):
        self.replicas = 2 + spare
        self.vcjob = self.make("Volcano", "vc", self._spec())
        self.head = self._pod("lead", 0)
        made = [self._pod("work", at) for at in range(self.replicas)]
        self.spare = made[2:]

    def _spec(self):
        same = {"template": of_container("m")}
        return {
            "schedulerName": "kaisched",
            "minAvailable": 3,
            "queue": "default",
            "tasks": [
                {"name": "lead", "replicas": 1, "minAvailable": 1, **same},
                {"name": "work", "replicas": self.replicas, "minAvailable": 2, **same},
            ],
        }

    def _pod(self, task, index):
        name, uid = f"vc-{task}-{index}", self.vcjob["metadata"]["uid"]
        both = {
            "volcano.sh/task-index": str(index),
            "volcano.sh/task-spec": task,
            "volcano.sh/job-name": "vc",
            "volcano.sh/queue-name": "default",
        }
        labels = {**both, "volcano.sh/job-namespace": self.cluster.namespace}
        noted = {
            **both,
            "scheduling.k8s.io/group-name": f"vc-{uid}",
            "volcano.sh/job-version": "0",
            "volcano.sh/template-uid": f"vc-{task}",
            "volcano.sh/job-retry-count": "0",
        }
        return self.pod(name, self.vcjob, labels, noted) and name

    def restart(self):
        self.end(self.head)
        return [self._pod("lead", 0)]

    def grow(self):
        self.replicas = 3
        self.change("Volcano", "vc", self._spec())
        return [self._pod("work", 2)]

    def shrink(self):
        self.replicas = 2
        self.change("Volcano", "vc", self._spec())
        super().shrink()


OPERATORS = (KubeRay, Training, Mpi, JobSets, LeaderWorkerSets, Spark, Grove, Volcano)
