"""Which pods of which workload are one gang: one entry for each row of the table of workloads."""

from dataclasses import dataclass, field

import pytest

from kaisched.cluster.store import update
from kaisched.core.refusals import Refusal
from kaisched.objects.gangs import WORKLOADS, gang_api_row, gang_of
from kaisched.objects.wire import ObjectMeta, OwnerReference
from kaisched.objects.workloads import PartialObject
from tests.contract.clusters import group, pod
from tests.oracles.accounts import content
from tests.unit.cluster.test_groups import job, jobs, store_of

VOLCANO = "Job of Volcano"
ROWS = {
    VOLCANO if row.api_group == "batch.volcano.sh" else row.kind: row
    for row in (*WORKLOADS, gang_api_row({"v1beta1"}))
}
API_OF = {kind: row.api_version for kind, row in ROWS.items()} | {"Pod": "v1", "Widget": "x.io/v1"}
LWS = "leaderworkerset.sigs.k8s.io/"
SET = "jobset.sigs.k8s.io/"


def reference(kind, name, uid=""):
    return {
        "apiVersion": API_OF[kind],
        "kind": kind.partition(" ")[0],
        "name": name,
        "uid": uid or f"uid-{name}",
        "controller": True,
    }


def owner(kind, name, *, by=None, spec=None, uid="", namespace="ns", **meta):
    """A workload as a reflector reads it; ``by`` is the (kind, name) of its own owner."""
    row = ROWS.get(kind)
    made_by = [OwnerReference(**snake(reference(*by)))] if by else []
    return PartialObject(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            owner_references=made_by,
            **meta,
        ),
        api_version=API_OF[kind],
        kind=kind.partition(" ")[0],
        gang=gang_of(row.read if row else None, spec, meta.get("annotations", {})),
    )


def snake(said):
    return {"api_version": said["apiVersion"], **{k: said[k] for k in said if k != "apiVersion"}}


def owned(name, by=None, *, labels=None, annotations=None, uid="", **rest):
    metadata = {"ownerReferences": [reference(*by)]} if by else {}
    return pod(
        name,
        uid=uid or f"uid-{name}",
        labels=labels or {},
        annotations=annotations or {},
        metadata=metadata,
        **rest,
    )


def group_labels(index, worker):
    return {
        f"{LWS}name": "serve",
        f"{LWS}group-index": str(index),
        f"{LWS}worker-index": str(worker),
    }


def leader_worker_set(size=3, groups=2, **spec):
    """All that the controllers make of a LeaderWorkerSet."""
    notes = {f"{LWS}size": str(size)}
    found = [
        owner(
            "LeaderWorkerSet",
            "serve",
            spec={"leaderWorkerTemplate": {"size": size}, "replicas": groups, **spec},
        ),
        owner("StatefulSet", "serve", uid="uid-set", by=("LeaderWorkerSet", "serve")),
    ]
    for at in range(groups):
        leader = f"serve-{at}"
        found.append(
            owned(
                leader,
                ("StatefulSet", "serve", "uid-set"),
                labels=group_labels(at, 0),
                annotations=notes,
                uid=f"uid-{leader}",
            )
        )
        found.append(
            owner("StatefulSet", leader, uid=f"uid-set-{at}", by=("Pod", leader, f"uid-{leader}"))
        )
        found += [
            owned(
                f"{leader}-{worker}",
                ("StatefulSet", leader, f"uid-set-{at}"),
                labels=group_labels(at, worker),
                annotations=notes,
            )
            for worker in range(1, size)
        ]
    return found


SET_SPEC = {
    "replicatedJobs": [
        {"name": "driver", "template": {"spec": {}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"parallelism": 2}}},
    ]
}


def job_set(name="s", by=None, startup="AnyOrder"):
    """A JobSet of a driver and two workers of two pods, and what the controllers make of it."""
    spec = {"startupPolicy": {"startupPolicyOrder": startup}, **SET_SPEC}
    found = [owner("JobSet", name, spec=spec, by=by)]
    for part, index, pods in (("driver", 0, 1), ("workers", 0, 2), ("workers", 1, 2)):
        made = f"{name}-{part}-{index}"
        found.append(owner("Job", made, by=("JobSet", name)))
        labels = {f"{SET}replicatedjob-name": part, f"{SET}job-index": str(index)}
        found += [owned(f"{made}-{at}", ("Job", made), labels=labels) for at in range(pods)]
    return found


SET_PODS = ["s-driver-0-0", "s-workers-0-0", "s-workers-0-1", "s-workers-1-0", "s-workers-1-1"]
SET_PARTS = [("driver/0", 1), ("workers/0", 2), ("workers/1", 2)]


def two(*by):
    return [owned(name, by) for name in "pq"]


def deployment(by=None):
    """A Deployment, and what its controllers make of it."""
    return [
        owner("Deployment", "d", by=by),
        owner("ReplicaSet", "r", by=("Deployment", "d")),
        *two("ReplicaSet", "r"),
    ]


@dataclass
class Row:
    """Objects, and the jobs they are to make: the pods and the minimum of each."""

    objects: list
    jobs: dict
    minimum: int = 1
    podsets: list = field(default_factory=list)


def kubeflow(kind, key, **roles):
    """All that the training operator makes of a job with so many pods of each role."""
    spec = {key: {role: {"replicas": pods} for role, pods in roles.items()}}
    pods = [
        owned(f"t-{role.lower()}-{at}", (kind, "t"), labels=training(kind, role, at, roles))
        for role, pods in roles.items()
        for at in range(pods)
    ]
    parts = [(role.lower(), pods) for role, pods in roles.items()]
    names = sorted(it.metadata.name for it in pods)
    found = [owner(kind, "t", spec=spec), *pods]
    if len(parts) == 1:
        return Row(found, {"pg-t-uid-t": names}, len(pods))
    return Row(found, {"pg-t-uid-t": names}, podsets=parts)


def training(kind, role, at, roles):
    """Labels of a pod of a job called t, as the training operator 1.9.0 wrote them."""
    prefix = "training.kubeflow.org/"
    said = {f"{prefix}operator-name": f"{kind.lower()}-controller", f"{prefix}job-name": "t"}
    said |= {f"{prefix}replica-type": role.lower(), f"{prefix}replica-index": str(at)}
    is_first = role in ("Master", "Chief") or (at == 0 and not {"Master", "Chief"} & set(roles))
    return said | ({f"{prefix}job-role": "master"} if is_first else {})


def launched(job, role):
    """Labels of a pod, as the MPI operator writes them."""
    prefix = "training.kubeflow.org/"
    return {
        f"{prefix}operator-name": "mpi-operator",
        f"{prefix}job-name": job,
        f"{prefix}job-role": role,
    }


def ray_node(cluster, group):
    """Labels of a pod, as KubeRay writes them."""
    return {
        "ray.io/cluster": cluster,
        "ray.io/group": group,
        "ray.io/identifier": f"{cluster}-{group}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": "head" if group == "headgroup" else "worker",
    }


def ray_cluster(by=None):
    """A RayCluster of a head and groups of one pod and of two hosts, and all its pods."""
    spec = {
        "workerGroupSpecs": [
            {"groupName": "small", "replicas": 1, "minReplicas": 1},
            {"groupName": "large", "replicas": 1, "minReplicas": 0, "numOfHosts": 2},
        ]
    }
    nodes = {"r-head": "headgroup", "r-large-0": "large", "r-large-1": "large", "r-small": "small"}
    pods = [
        owned(name, ("RayCluster", "r"), labels=ray_node("r", group))
        for name, group in nodes.items()
    ]
    return [owner("RayCluster", "r", spec=spec, by=by), *pods]


RAY_PODS = ["r-head", "r-large-0", "r-large-1", "r-small"]
RAY_PARTS = [("headgroup", 1), ("small", 1), ("large", 2)]


def spark(name, role, *by):
    labels = {"spark-app-selector": "spark-7", "spark-role": role}
    return owned(name, by or None, labels=labels)


ALONE = {"pg-p-uid-p": ["p"], "pg-q-uid-q": ["q"]}
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def named(name, to="g"):
    return owned(name, spec={"schedulingGroup": {"podGroupName": to}})


TABLE = {
    "bare pod": Row(two(), ALONE),
    "unknown owner": Row([*two("Widget", "w")], ALONE),
    "Job": Row([owner("Job", "j"), *two("Job", "j")], {"pg-j-uid-j": ["p", "q"]}),
    "Job that says its minimum": Row(
        [owner("Job", "j", annotations={"kai.scheduler/batch-min-member": "2"}), *two("Job", "j")],
        {"pg-j-uid-j": ["p", "q"]},
        2,
    ),
    "CronJob": Row(
        [
            owner("CronJob", "c"),
            owner("Job", "c-1", by=("CronJob", "c")),
            owner("Job", "c-2", by=("CronJob", "c")),
            owned("p", ("Job", "c-1")),
            owned("q", ("Job", "c-2")),
        ],
        {"pg-c-1-uid-c-1": ["p"], "pg-c-2-uid-c-2": ["q"]},
    ),
    "ReplicaSet": Row([owner("ReplicaSet", "r"), *two("ReplicaSet", "r")], ALONE),
    "Deployment": Row(deployment(), ALONE),
    "StatefulSet": Row(
        [owner("StatefulSet", "s"), *two("StatefulSet", "s")], {"pg-s-uid-s": ["p", "q"]}
    ),
    "JobSet": Row(job_set(), {"pg-s-uid-s": SET_PODS}, podsets=SET_PARTS),
    "LeaderWorkerSet": Row(
        leader_worker_set(),
        {
            "pg-serve-uid-serve-0": ["serve-0", "serve-0-1", "serve-0-2"],
            "pg-serve-uid-serve-1": ["serve-1", "serve-1-1", "serve-1-2"],
        },
        3,
    ),
    "PyTorchJob": kubeflow("PyTorchJob", "pytorchReplicaSpecs", Master=1, Worker=2),
    "PyTorchJob of workers": kubeflow("PyTorchJob", "pytorchReplicaSpecs", Worker=2),
    "TFJob": kubeflow("TFJob", "tfReplicaSpecs", Chief=1, PS=2, Worker=2, Evaluator=1),
    "TFJob of workers": kubeflow("TFJob", "tfReplicaSpecs", Worker=2),
    "XGBoostJob": kubeflow("XGBoostJob", "xgbReplicaSpecs", Master=1, Worker=2),
    "JAXJob": kubeflow("JAXJob", "jaxReplicaSpecs", Worker=2),
    "MPIJob": Row(
        [
            owner("MPIJob", "m", spec={"mpiReplicaSpecs": {"Launcher": {}, "Worker": {}}}),
            owner("Job", "m-launcher", by=("MPIJob", "m")),
            owned("m-launcher-x2k4", ("Job", "m-launcher"), labels=launched("m", "launcher")),
            owned("m-worker-0", ("MPIJob", "m"), labels=launched("m", "worker")),
        ],
        {"pg-m-uid-m": ["m-launcher-x2k4", "m-worker-0"]},
        podsets=[("launcher", 1), ("worker", 1)],
    ),
    "roles that no label names": Row(
        [
            owner("MPIJob", "m", spec={"mpiReplicaSpecs": {"Launcher": {}, "Worker": {}}}),
            *two("MPIJob", "m"),
        ],
        {"pg-m-uid-m": ["p", "q"]},
        2,
    ),
    VOLCANO: Row(
        [
            owner(
                VOLCANO,
                "v",
                spec={
                    "minAvailable": 2,
                    "tasks": [
                        {"name": "ps", "replicas": 1, "minAvailable": 1},
                        {"name": "worker", "replicas": 2, "minAvailable": 1},
                    ],
                },
            ),
            *(
                owned(f"v-{task}", (VOLCANO, "v"), labels={"volcano.sh/task-spec": task[:-2]})
                for task in ("ps-0", "worker-0", "worker-1")
            ),
        ],
        {"pg-v-uid-v": ["v-ps-0", "v-worker-0", "v-worker-1"]},
        podsets=[("ps", 1), ("worker", 1)],
    ),
    "TrainJob": Row(
        [owner("TrainJob", "t"), *job_set(by=("TrainJob", "t"))],
        {"pg-s-uid-s": SET_PODS},
        podsets=SET_PARTS,
    ),
    "RayCluster": Row(ray_cluster(), {"pg-r-uid-r": RAY_PODS}, podsets=RAY_PARTS),
    **{
        kind: Row(
            [
                owner(kind, "x"),
                *ray_cluster(by=(kind, "x")),
                owner("Job", "x-submitter", by=(kind, "x")),
                owned("submitter", ("Job", "x-submitter")),
            ],
            {"pg-r-uid-r": RAY_PODS, "pg-x-submitter-uid-x-submitter": ["submitter"]},
            podsets=[],
        )
        for kind in ("RayJob", "RayService")
    },
    **{
        kind: Row([owner(kind, "w"), *two(kind, "w")], ALONE)
        for kind in ("Workflow", "TaskRun", "PipelineRun")
    },
    "Workflow of a job": Row(
        [
            owner("Workflow", "w"),
            owner(
                "PyTorchJob",
                "t",
                by=("Workflow", "w"),
                spec={"pytorchReplicaSpecs": {"Worker": {"replicas": 2}}},
            ),
            *two("PyTorchJob", "t"),
        ],
        {"pg-t-uid-t": ["p", "q"]},
        2,
    ),
    "DynamoGraphDeployment": Row(
        [
            owner("DynamoGraphDeployment", "g"),
            owner("DynamoComponentDeployment", "c", by=("DynamoGraphDeployment", "g")),
            owner("StatefulSet", "s", by=("DynamoComponentDeployment", "c")),
            *two("StatefulSet", "s"),
        ],
        {"pg-s-uid-s": ["p", "q"]},
    ),
    "Notebook": Row(
        [
            owner("Notebook", "n"),
            owner("StatefulSet", "s", by=("Notebook", "n")),
            *two("StatefulSet", "s"),
        ],
        {"pg-n-uid-n": ["p", "q"]},
    ),
    **{
        kind: Row(
            [owner(kind, "x"), *deployment(by=(kind, "x"))],
            {"pg-x-uid-x": ["p", "q"]},
        )
        for kind in ("SeldonDeployment", "DevWorkspace")
    },
    **{
        kind: Row([owner(kind, "x"), *two(kind, "x")], {"pg-x-uid-x": ["p", "q"]})
        for kind in ("VirtualMachineInstance", "SPOTRequest")
    },
    "RunaiJob": Row([owner("RunaiJob", "r"), *two("RunaiJob", "r")], ALONE),
    "AmlJob": Row(
        [
            owner("AmlJob", "a", spec={"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 2}}}}),
            *two("AmlJob", "a"),
        ],
        {"pg-a-uid-a": ["p", "q"]},
        2,
    ),
    "Service": Row(
        [
            owner("Service", "web"),
            owner("Configuration", "web", uid="uid-conf", by=("Service", "web")),
            owner(
                "Revision",
                "web-1",
                by=("Configuration", "web", "uid-conf"),
                spec={},
                annotations={"autoscaling.knative.dev/min-scale": "2"},
            ),
            *deployment(by=("Revision", "web-1")),
        ],
        {"pg-web-1-uid-web-1": ["p", "q"]},
        2,
    ),
    "ScheduledWorkflow": Row(
        [
            owner("ScheduledWorkflow", "s"),
            owner("Workflow", "w", by=("ScheduledWorkflow", "s")),
            *two("Workflow", "w"),
        ],
        ALONE,
    ),
    "Spark": Row(
        [
            spark("driver", "driver"),
            spark("exec-1", "executor", "Pod", "driver"),
            spark("exec-2", "executor", "Pod", "driver"),
            owned("p"),
        ],
        {"pg-spark-app-spark-7": ["driver", "exec-1", "exec-2"], "pg-p-uid-p": ["p"]},
    ),
    "Spark whose driver is no pod": Row(
        [spark("exec-1", "executor"), spark("exec-2", "executor")],
        {"pg-spark-app-spark-7": ["exec-1", "exec-2"]},
        podsets=[("default", 1)],
    ),
    "Spark started in a pod": Row(
        [owned("p"), *(spark(f"exec-{at}", "executor", "Pod", "p") for at in (1, 2))],
        {"pg-spark-app-spark-7": ["exec-1", "exec-2"], "pg-p-uid-p": ["p"]},
    ),
    "pod-group-name": Row(
        [
            group("g", minMember=2),
            *(owned(name, annotations={"pod-group-name": "g"}) for name in "pq"),
        ],
        {"g": ["p", "q"]},
        2,
    ),
    "PodGang": Row(
        [
            owner("PodGang", "g", spec={"podgroups": [{"name": "c", "minReplicas": 2}]}),
            *(
                owned(name, labels={"grove.io/podgang": "g", "grove.io/podclique": "c"})
                for name in "pq"
            ),
        ],
        {"pg-g-uid-g": ["p", "q"]},
        podsets=[("c", 2)],
    ),
    "PodCliqueSet": Row(
        [
            owner("PodCliqueSet", "s"),
            owner("PodGang", "g", spec={"podgroups": [{"name": "c", "minReplicas": 2}]}),
            owner("PodClique", "c", by=("PodCliqueSet", "s")),
            *(
                owned(
                    name,
                    ("PodClique", "c"),
                    labels={"grove.io/podgang": "g", "grove.io/podclique": "c"},
                )
                for name in "pq"
            ),
        ],
        {"pg-g-uid-g": ["p", "q"]},
        podsets=[("c", 2)],
    ),
    "PodGroup": Row(
        [owner("PodGroup", "g", spec=GANG), named("p"), named("q")],
        {"pg-g-uid-g": ["p", "q"]},
        2,
    ),
    "PodGroup without a gang, of a gang": Row(
        [
            owner("PodGroup", "g", spec={"schedulingPolicy": {"basic": {}}}),
            owner("Job", "j", annotations={"kai.scheduler/batch-min-member": "2"}),
            *(
                owned(name, ("Job", "j"), spec={"schedulingGroup": {"podGroupName": "g"}})
                for name in "pq"
            ),
        ],
        {"pg-j-uid-j": ["p", "q"]},
        2,
    ),
    "PodGroup without a gang": Row(
        [
            owner("PodGroup", "g", spec={"schedulingPolicy": {"basic": {}}}),
            named("p"),
            named("q"),
        ],
        ALONE,
    ),
}


def test_every_row_of_the_table_is_here():
    inside = {
        "DynamoComponentDeployment",
        "Configuration",
        "Revision",
        "PodClique",
        "PodCliqueScalingGroup",
    }
    assert {*ROWS} <= {*TABLE, *inside}


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_the_pods_of_a_workload(row, is_reversed):
    """Whatever is seen first, the jobs are the same."""
    store = store_of(*(reversed(row.objects) if is_reversed else row.objects))
    assert jobs(store) == {f"ns/{name}": pods for name, pods in row.jobs.items()}
    for name in row.jobs:
        found = job(store, f"ns/{name}")
        assert found["refusal"] == Refusal.NONE
        if row.podsets:
            assert [(part, minimum) for part, minimum, _ in found["podsets"]] == row.podsets
        elif name in row.jobs:
            assert found["minimum"] == (1 if name == "pg-p-uid-p" else row.minimum)


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_owners_that_go_and_come_again_leave_the_same(row):
    store = store_of(*row.objects)
    before = content(store.snapshot())
    owners = [obj for obj in row.objects if isinstance(obj, PartialObject)]
    for obj in owners:
        update(store, obj, is_gone=True)
    for obj in reversed(owners):
        update(store, obj)
    assert content(store.snapshot()) == before


# -- Grove --------------------------------------------------------------------------------------


def clique(name, gang, by, base=""):
    """A PodClique of one pod, and the pod, as Grove 0.1.0-alpha.11 made them."""
    said = {"grove.io/podcliqueset-replica-index": "0", "grove.io/podgang": gang}
    said |= {"grove.io/base-podgang": base} if base else {}
    named = {**said, "grove.io/podclique": name, "grove.io/podclique-pod-index": "0"}
    return [
        owner("PodClique", name, by=by, labels=said),
        owned(f"{name}-x", ("PodClique", name), labels=named),
    ]


def scaling_group():
    """A PodCliqueSet of a clique and a scaling group of two replicas, of which one is needed."""
    base = [{"name": it, "minReplicas": 1} for it in ("s-0-front", "s-0-g-0-leaf")]
    more = [{"name": "s-0-g-1-leaf", "minReplicas": 1}]
    made_by, of_group = ("PodCliqueSet", "s"), ("PodCliqueScalingGroup", "s-0-g")
    return [
        owner("PodCliqueSet", "s"),
        owner("PodCliqueScalingGroup", "s-0-g", by=made_by),
        owner("PodGang", "s-0", by=made_by, spec={"podgroups": base}),
        owner("PodGang", "s-0-g-0", by=made_by, spec={"podgroups": more}),
        *clique("s-0-front", "s-0", made_by),
        *clique("s-0-g-0-leaf", "s-0", of_group),
        *clique("s-0-g-1-leaf", "s-0-g-0", of_group, "s-0"),
    ]


def test_a_further_replica_of_a_scaling_group_is_a_gang_of_its_own():
    store = store_of(*scaling_group())
    gangs = {"ns/pg-s-0-uid-s-0": ["front", "g-0-leaf"], "ns/pg-s-0-g-0-uid-s-0-g-0": ["g-1-leaf"]}
    assert jobs(store) == {
        name: [f"s-0-{it}-x" for it in cliques] for name, cliques in gangs.items()
    }
    for name, cliques in gangs.items():
        assert job(store, name)["podsets"] == [(f"s-0-{it}", 1, 1) for it in cliques]


# -- LeaderWorkerSet ----------------------------------------------------------------------------


def test_the_leader_of_a_set_that_waits_for_it_starts_alone():
    objects = leader_worker_set(groups=1, startupPolicy="LeaderReady")
    leader = [obj for obj in objects if obj.metadata.name != "serve-0" or obj.metadata.labels]
    first, workers = leader[:3], objects[3:]
    store = store_of(*first)
    assert job(store)["podsets"] == [("default", 1, 1)]
    for obj in workers:
        update(store, obj)
    assert job(store, "ns/pg-serve-uid-serve-0")["podsets"] == [("default", 3, 3)]
    for name in ("serve-0-1", "serve-0-2"):
        store.remove_pod(f"ns/{name}")
    assert job(store, "ns/pg-serve-uid-serve-0")["podsets"] == [("default", 1, 1)]


def test_the_leader_of_another_set_waits_for_its_workers():
    store = store_of(*leader_worker_set(groups=1)[:3])
    assert job(store)["podsets"] == [("default", 3, 1)]


def test_a_group_keeps_its_own_size_when_the_set_says_another():
    """Groups are changed one after the other; each has the size it was made with."""
    objects = leader_worker_set(size=3, groups=1)
    store = store_of(*objects)
    update(store, owner("LeaderWorkerSet", "serve", spec={"leaderWorkerTemplate": {"size": 5}}))
    assert job(store, "ns/pg-serve-uid-serve-0")["minimum"] == 3


@pytest.mark.parametrize("size", ["0", "-1", "many", "1e3", "99999999999"])
def test_a_size_that_makes_no_sense_is_told(size):
    objects = leader_worker_set(groups=1)
    objects[2].metadata.annotations[f"{LWS}size"] = size
    store = store_of(*objects)
    assert job(store, "ns/pg-serve-uid-serve-0")["refusal"] == Refusal.INVALID_GROUP
    assert f"metadata.annotations['{LWS}size']" in store.problems()[0].text


@pytest.mark.parametrize("index", ["-1", "x", "", "99999999999", None])
def test_a_group_index_that_makes_no_sense_is_told(index):
    """And the pod is in nobody's group."""
    objects = leader_worker_set()
    objects[2].metadata.labels[f"{LWS}group-index"] = index
    if index is None:
        del objects[2].metadata.labels[f"{LWS}group-index"]
    store = store_of(*objects)
    assert jobs(store)["ns/pg-serve-uid-serve-serve-0"] == ["serve-0"]
    assert job(store, "ns/pg-serve-uid-serve-serve-0")["refusal"] == Refusal.INVALID_GROUP
    assert job(store, "ns/pg-serve-uid-serve-1")["refusal"] == Refusal.NONE
    assert f"{LWS}group-index" in store.problems()[0].text


def test_the_workers_of_another_leader_of_that_name_are_not_in_its_group():
    """The leader is made anew: the workers of the old one do not count."""
    objects = leader_worker_set(groups=1)
    objects[2] = owned(
        "serve-0",
        ("StatefulSet", "serve", "uid-set"),
        uid="uid-new",
        labels=group_labels(0, 0),
        annotations={f"{LWS}size": "3"},
    )
    found = jobs(store_of(*objects))
    assert found["ns/pg-serve-uid-serve-0"] == ["serve-0"]
    assert sorted(map(len, found.values())) == [1, 2]


# -- JobSet -------------------------------------------------------------------------------------


def test_the_tree_of_a_job_set():
    tree = job(store_of(*job_set()))["tree"]
    assert (tree.min_subgroup, [it.name for it in tree.children]) == (2, ["driver", "workers"])
    driver, workers = tree.children
    assert (workers.min_subgroup, [it.podset for it in workers.children]) == (2, [1, 2])
    assert (driver.min_subgroup, [it.podset for it in driver.children]) == (1, [0])


def test_a_job_set_in_order_needs_its_first_jobs_only():
    assert job(store_of(*job_set(startup="InOrder")))["tree"].min_subgroup == 1


def test_the_pods_of_a_job_set_are_counted_in_their_subgroup():
    assert job(store_of(*job_set()))["podsets"] == [
        ("driver/0", 1, 1),
        ("workers/0", 2, 2),
        ("workers/1", 2, 2),
    ]


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}


def test_the_first_pods_of_exclusive_jobs_start_before_the_others_are_there():
    # The controller makes the others once the first has a node.
    made = job_set()
    made[0] = owner("JobSet", "s", spec=SET_SPEC, annotations=EXCLUSIVE)
    *there, late = made
    store = store_of(*(it for it in there if it.metadata.name != "s-workers-0-1"))
    first = [("driver/0", 1, 1), ("workers/0", 1, 1), ("workers/1", 1, 1)]
    assert job(store)["podsets"] == first
    assert job(store)["refusal"] == Refusal.NONE
    update(store, late)
    assert job(store)["podsets"] == [*first[:2], ("workers/1", 2, 2)]


def test_a_job_set_that_says_its_minimum_is_not_divided():
    objects = job_set()
    objects[0].metadata.annotations["kai.scheduler/batch-min-member"] = "4"
    found = job(store_of(*objects))
    assert (found["podsets"], found["tree"]) == ([("default", 4, 5)], None)
    assert found["refusal"] == Refusal.NONE


@pytest.mark.parametrize("index", ["2", "-1", "00", "", None])
def test_a_pod_of_a_job_set_must_be_in_one_of_its_jobs(index):
    objects = job_set()
    objects[-1].metadata.labels[f"{SET}job-index"] = index
    if index is None:
        del objects[-1].metadata.labels[f"{SET}job-index"]
    store = store_of(*objects)
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    (problem,) = store.problems()
    assert problem.name == "ns/s-workers-1-1"
    assert f"({SET}replicatedjob-name, {SET}job-index)" in problem.text
    assert "driver/0, workers/0, workers/1" in problem.text


def test_a_job_set_may_grow():
    objects = job_set()
    store = store_of(*objects)
    spec = {
        "replicatedJobs": [
            {"name": "driver"},
            {"name": "workers", "replicas": 3, "template": {"spec": {"parallelism": 2}}},
        ]
    }
    update(store, owner("JobSet", "s", spec=spec))
    assert job(store)["podsets"] == [
        ("driver/0", 1, 1),
        ("workers/0", 2, 2),
        ("workers/1", 2, 2),
        ("workers/2", 2, 0),
    ]


# -- Spark --------------------------------------------------------------------------------------


def test_spark_executors_have_the_queue_of_their_driver():
    driver = spark("z-driver", "driver")
    driver.metadata.labels["kai.scheduler/queue"] = "b"
    executor = spark("exec-1", "executor", "Pod", "z-driver")
    executor.metadata.labels["kai.scheduler/queue"] = "a"
    for order in ([driver, executor], [executor, driver]):
        assert job(store_of(*order), "ns/pg-spark-app-spark-7")["queue"] == "b"


def test_spark_applications_of_other_namespaces_are_others():
    there = spark("exec-1", "executor")
    there.metadata.labels["kai.scheduler/queue"] = "a"
    store = store_of(
        spark("driver", "driver"),
        pod("e", namespace="else", uid="uid-e", labels={"spark-app-selector": "spark-7"}),
    )
    assert set(jobs(store)) == {"ns/pg-spark-app-spark-7", "else/pg-spark-app-spark-7"}


def test_a_pod_of_a_known_workload_does_not_leave_it_by_a_label():
    labelled = owned("p", ("Job", "j"), labels={"spark-app-selector": "spark-7"})
    store = store_of(owner("Job", "j"), labelled, owned("q", ("Job", "j")))
    assert jobs(store) == {"ns/pg-j-uid-j": ["p", "q"]}


# -- Kubernetes' own gang API -------------------------------------------------------------------


def test_a_pod_waits_for_the_group_it_names():
    store = store_of(named("p"), named("q"))
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert (
        "spec.schedulingGroup.podGroupName: PodGroup ns/g of scheduling.k8s.io does not exist"
        in (store.problems()[0].text)
    )
    update(store, owner("PodGroup", "g", spec=GANG))
    assert jobs(store) == {"ns/pg-g-uid-g": ["p", "q"]}
    assert store.problems() == []
    update(store, owner("PodGroup", "g", spec=GANG), is_gone=True)
    assert [it.kind for it in store.problems()] == ["PodGroup"]


@pytest.mark.fault("H116")
def test_a_group_of_another_namespace_is_another():
    there = owner("PodGroup", "g", spec=GANG, namespace="else")
    assert job(store_of(there, named("p")))["refusal"] == Refusal.INVALID_GROUP


def test_a_group_that_is_made_anew_counts_from_then():
    store = store_of(owner("PodGroup", "g", spec=GANG), named("p"))
    new = {"schedulingPolicy": {"gang": {"minCount": 5}}}
    update(store, owner("PodGroup", "g", spec=new, uid="uid-new"))
    update(store, owner("PodGroup", "g", spec=GANG), is_gone=True)
    assert jobs(store) == {"ns/pg-g-uid-new": ["p"]}
    assert job(store, "ns/pg-g-uid-new")["minimum"] == 5


def test_the_minimum_of_a_group_may_change():
    store = store_of(owner("PodGroup", "g", spec=GANG), named("p"))
    update(store, owner("PodGroup", "g", spec={"schedulingPolicy": {"gang": {"minCount": 7}}}))
    assert job(store)["minimum"] == 7


def test_a_group_says_queue_and_priority_of_its_pods():
    spec = {**GANG, "priorityClassName": "build"}
    store = store_of(
        owner("PodGroup", "g", spec=spec, labels={"kai.scheduler/queue": "b"}), named("p")
    )
    found = job(store)
    assert (found["queue"], found["priority"], found["preemptible"]) == ("b", 100, False)


def test_a_group_that_asks_for_two_labels_is_refused():
    constraints = {"topology": [{"key": "rack"}, {"key": "zone"}]}
    spec = {**GANG, "schedulingConstraints": constraints}
    store = store_of(owner("PodGroup", "g", spec=spec), named("p"))
    assert job(store)["refusal"] == Refusal.UNSUPPORTED
    assert "spec.schedulingConstraints.topology: more than one" in store.problems()[0].text


def test_a_group_comes_before_the_workload_and_after_the_annotation():
    mine = owned("p", ("Job", "j"), spec={"schedulingGroup": {"podGroupName": "g"}})
    parts = [owner("Job", "j"), owner("PodGroup", "g", spec=GANG), group("g", minMember=4)]
    assert jobs(store_of(*parts, mine)) == {"ns/pg-g-uid-g": ["p"]}
    both = owned(
        "p",
        ("Job", "j"),
        spec={"schedulingGroup": {"podGroupName": "g"}},
        annotations={"pod-group-name": "g"},
    )
    assert jobs(store_of(*parts, both)) == {"ns/g": ["p"]}


def test_a_pod_left_out_of_grouping_may_name_a_group_of_kubernetes():
    mine = owned(
        "p",
        spec={"schedulingGroup": {"podGroupName": "g"}},
        labels={"kai.scheduler/skip-podgrouper": "true"},
    )
    assert job(store_of(owner("PodGroup", "g", spec=GANG), mine))["refusal"] == Refusal.NONE


# -- guards -------------------------------------------------------------------------------------


def chained(length, top="PyTorchJob"):
    """A pod below ``length`` owners of which the last makes gangs of four."""
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}}
    found = [owner(top, f"w{length}", spec=spec)]
    kinds = dict.fromkeys(range(1, length), "Workflow") | {length: top}
    found += [
        owner("Workflow", f"w{at}", by=(kinds[at + 1], f"w{at + 1}")) for at in range(1, length)
    ]
    return [*found, owned("p", (kinds[1], "w1"))]


@pytest.mark.fault("D67")
@pytest.mark.parametrize(("length", "minimum"), [(1, 4), (10, 4), (11, 1), (40, 1)])
def test_ten_owners_are_looked_at(length, minimum):
    store = store_of(*chained(length))
    assert job(store)["minimum"] == minimum


@pytest.mark.fault("D67")
def test_owners_in_a_circle_are_left():
    store = store_of(
        owner("Workflow", "v", by=("Workflow", "w")),
        owner("Workflow", "w", by=("Workflow", "v")),
        *two("Workflow", "v"),
    )
    assert jobs(store) == {"ns/pg-p-uid-p": ["p"], "ns/pg-q-uid-q": ["q"]}


@pytest.mark.fault("D67")
def test_pods_that_own_each_other_stand_alone():
    store = store_of(owned("p", ("Pod", "q")), owned("q", ("Pod", "p")), owned("r", ("Pod", "r")))
    assert sorted(map(len, jobs(store).values())) == [1, 1, 1]
    store.remove_pod("ns/p")
    assert sorted(map(len, jobs(store).values())) == [1, 1]


@pytest.mark.fault("H116")
@pytest.mark.parametrize("kind", sorted({row.kind for row in WORKLOADS if row.pods == "together"}))
def test_nobody_joins_a_gang_by_a_stale_uid_or_from_another_namespace(kind):
    labels = group_labels(0, 0) | {f"{SET}replicatedjob-name": "x", f"{SET}job-index": "0"}
    intruder = owned("q", (kind, "t", "uid-old"), labels=labels)
    store = store_of(
        owner(kind, "t"),
        owner(kind, "t", uid="uid-else", namespace="else"),
        owned("p", (kind, "t"), labels=labels),
        intruder,
        owned("r", (kind, "t", "uid-else"), labels=labels),
    )
    assert sorted(map(len, jobs(store).values())) == [1, 1, 1]


def test_names_may_be_as_long_as_kubernetes_allows():
    long = "n" * 253
    objects = [owner("Job", long, uid="uid-long"), owned("p", ("Job", long, "uid-long"))]
    store = store_of(*objects)
    assert jobs(store) == {f"ns/pg-{long}-uid-long": ["p"]}
    assert job(store)["refusal"] == Refusal.NONE


def test_ray_names_its_priority_class_in_a_label_of_its_own():
    cluster = owner("RayCluster", "r", labels={"ray.io/priority-class-name": "build"})
    assert job(store_of(cluster, owned("p", ("RayCluster", "r"))))["priority"] == 100
