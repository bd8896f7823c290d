"""Workloads as their controllers make them, through the API: their pods start as gangs."""

import time

import msgspec
import pytest

from kaisched.clock import SystemClock
from kaisched.cluster.kubernetes.client import MERGE
from kaisched.cluster.kubernetes.reflector import Phase
from kaisched.daemon.recordings import from_cluster
from kaisched.engine.recording import replay
from kaisched_apiserver.connection import Fault
from tests import objects
from tests.on_kubernetes.looking import events
from tests.on_kubernetes.rig import KUBECONFIG, definition
from tests.waiting import until

pytestmark = pytest.mark.slow
LWS = "leaderworkerset.sigs.k8s.io/"
SET = "jobset.sigs.k8s.io/"
KINDS = {
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "MPIJob": ("kubeflow.org", "v1", "mpijobs"),
    "PodGroup": ("scheduling.k8s.io", "v1alpha2", "podgroups"),
    "PodGang": ("scheduler.grove.io", "v1alpha1", "podgangs"),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs"),
    "Widget": ("example.com", "v1", "widgets"),
}
WIDGET = {"apiVersion": "example.com/v1", "plural": "widgets", "kind": "Widget"}
WIDGETS = [WIDGET | {"minimum": "spec.size"}]
BUILT_IN = {"StatefulSet": ("apps", "v1", "statefulsets"), "Job": ("batch", "v1", "jobs")}


def serve(cluster, *kinds):
    """Have the server serve kinds that it does not come with."""
    for kind in kinds:
        group, version, plural = KINDS[kind]
        path = f"/apis/{group}/{version}/{plural}"
        if cluster.ask("GET", path).is_done:
            continue  # a real server keeps what another test has made
        if kind == "PodGroup" and KUBECONFIG:
            pytest.skip("the server is not configured to serve its own gang API")
        cluster.must(
            "POST",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition(group, version, plural, kind, "Namespaced"),
        )
        until(lambda p=path: cluster.ask("GET", p).is_done)


def reference(obj):
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
    }


def make(cluster, kind, name, spec, by=None):
    """Make an object and return it as the server has it; ``by`` owns it."""
    group, version, plural = (KINDS | BUILT_IN)[kind]
    body = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": name, "ownerReferences": [reference(by)] if by else []},
        "spec": spec,
    }
    path = f"/apis/{group}/{version}/namespaces/{cluster.namespace}/{plural}"
    return {**body, **cluster.must("POST", path, body)}


def template(restart="Always", **labels):
    return {
        "selector": {"matchLabels": labels or {"app": "x"}},
        "template": {
            "metadata": {"labels": labels or {"app": "x"}},
            "spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": restart},
        },
    }


def pod(cluster, name, by=None, gpus=1, labels=None, annotations=None, **spec):
    """Make a pod and return it."""
    body = objects.pod(name, "a", gpus, labels=labels, annotations=annotations, **spec)
    body["metadata"]["ownerReferences"] = [reference(by)] if by else []
    return {**body, **cluster.must("POST", cluster.pods_path, body)}


def seen(daemon, plural):
    """Tell whether the daemon has seen all objects of a kind that there are."""
    (found,) = [it for it in daemon.daemon.reflectors if it.watched.plural == plural]
    return found


def nothing_starts(cluster, *names):
    """Look for some cycles; none of the pods is to be placed."""
    time.sleep(0.6)
    return not set(names) & cluster.placed().keys()


def group_labels(worker, index=0):
    return {
        f"{LWS}name": "serve",
        f"{LWS}group-index": str(index),
        f"{LWS}worker-index": str(worker),
    }


def leader_worker_set(cluster, size, **spec):
    """Make a LeaderWorkerSet of one group and return the StatefulSet of its leader."""
    serve(cluster, "LeaderWorkerSet")
    lws = make(
        cluster,
        "LeaderWorkerSet",
        "serve",
        {"replicas": 1, "leaderWorkerTemplate": {"size": size}, **spec},
    )
    return make(cluster, "StatefulSet", "serve", template(role="leader"), lws)


def make_leader(cluster, of_leaders, size, gpus=8):
    notes = {f"{LWS}size": str(size)}
    return pod(cluster, "serve-0", of_leaders, gpus, group_labels(0), notes)


def make_workers(cluster, leader, size, gpus=8):
    of_workers = make(cluster, "StatefulSet", "serve-0", template(role="worker"), leader)
    notes = {f"{LWS}size": str(size)}
    for at in range(1, size):
        pod(cluster, f"serve-0-{at}", of_workers, gpus, group_labels(at), notes)


def test_a_group_of_a_leader_worker_set_starts_whole(cluster):
    """Three pods of a node each, and two nodes: none starts before there is a third node."""
    of_leaders = leader_worker_set(cluster, 3)
    daemon = cluster.start().wait_leading()
    until(lambda: seen(daemon, "leaderworkersets").is_synced)
    leader = make_leader(cluster, of_leaders, 3)
    make_workers(cluster, leader, 3)
    names = ("serve-0", "serve-0-1", "serve-0-2")
    assert nothing_starts(cluster, *names)
    cluster.node("n2")
    assert set(cluster.wait_placed(*names).values()) == {"n0", "n1", "n2"}


def test_workers_that_wait_for_their_leader_come_after_it(cluster):
    of_leaders = leader_worker_set(cluster, 3, startupPolicy="LeaderReady")
    cluster.start().wait_leading()
    leader = make_leader(cluster, of_leaders, 3)
    cluster.wait_placed("serve-0")
    make_workers(cluster, leader, 3)
    assert nothing_starts(cluster, "serve-0-1", "serve-0-2")
    cluster.node("n2")
    cluster.wait_placed("serve-0", "serve-0-1", "serve-0-2")


def job_set_pods(cluster, job_set):
    names = []
    for part, index, count in (("driver", 0, 1), ("workers", 0, 1), ("workers", 1, 1)):
        name = f"s-{part}-{index}"
        job = make(cluster, "Job", name, {"template": template("Never")["template"]}, job_set)
        labels = {f"{SET}replicatedjob-name": part, f"{SET}job-index": str(index)}
        for at in range(count):
            pod(cluster, f"{name}-{at}", job, 8, labels)
        names += [f"{name}-{at}" for at in range(count)]
    return names


JOBS = [{"name": "driver"}, {"name": "workers", "replicas": 2}]


def test_the_jobs_of_a_job_set_start_together(cluster):
    serve(cluster, "JobSet")
    cluster.start().wait_leading()
    job_set = make(cluster, "JobSet", "s", {"replicatedJobs": JOBS})
    names = job_set_pods(cluster, job_set)
    assert nothing_starts(cluster, *names)
    cluster.node("n2")
    cluster.wait_placed(*names)


def test_a_kind_that_is_defined_after_the_start_is_seen_with_its_first_pod(cluster, server):
    """Its Job is owned by it, and the pods by the Job; else it is looked for every minute."""
    daemon = cluster.start().wait_leading()
    until(lambda: seen(daemon, "jobsets").phase is Phase.ABSENT)
    serve(cluster, "JobSet")
    names = job_set_pods(cluster, make(cluster, "JobSet", "s", {"replicatedJobs": JOBS}))
    until(lambda: seen(daemon, "jobsets").phase is Phase.SYNCED, 30.0)
    cluster.node("n2")
    cluster.wait_placed(*names)


def test_a_job_set_in_order_starts_with_its_first_jobs(cluster):
    serve(cluster, "JobSet")
    cluster.start().wait_leading()
    spec = {"replicatedJobs": JOBS, "startupPolicy": {"startupPolicyOrder": "InOrder"}}
    names = job_set_pods(cluster, make(cluster, "JobSet", "s", spec))
    placed = cluster.wait_placed(names[0])
    assert len(placed) in {1, 2}
    cluster.node("n2")
    cluster.wait_placed(*names)


def test_the_pods_of_a_pod_gang_start_when_it_is_there_and_has_room(cluster):
    serve(cluster, "PodGang")
    cluster.start().wait_leading()
    for clique, count in (("a", 1), ("b", 2)):
        labels = {"grove.io/podgang": "g", "grove.io/podclique": clique}
        for at in range(count):
            pod(cluster, f"{clique}{at}", gpus=8, labels=labels)
    until(lambda: "does not exist" in cluster.condition("a0").get("message", ""))
    groups = [{"name": "a", "minReplicas": 1}, {"name": "b", "minReplicas": 2}]
    make(cluster, "PodGang", "g", {"podgroups": groups})
    assert nothing_starts(cluster, "a0", "b0", "b1")
    cluster.node("n2")
    cluster.wait_placed("a0", "b0", "b1")


def test_workers_of_a_pytorch_job_are_in_racks_by_segments(cluster):
    """Segments of two in one rack each; the other nodes are outside of all racks."""
    serve(cluster, "PyTorchJob")
    dc = {"metadata": {"name": "dc"}, "spec": {"levels": [{"nodeLabel": "example.com/rack"}]}}
    body = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", **dc}
    cluster.must("POST", "/apis/kai.scheduler/v1alpha1/topologies", body)
    for rack, gpus in (("r1", 3), ("r2", 2)):
        cluster.node(rack, gpus, labels={"example.com/rack": rack})
    notes = {
        "kai.scheduler/topology": "dc",
        "kai.scheduler/segment-size": "2",
        "kai.scheduler/segment-topology-required-placement": "example.com/rack",
    }
    worker = {"replicas": 4, "template": {"metadata": {"annotations": notes}}}
    job = make(cluster, "PyTorchJob", "t", {"pytorchReplicaSpecs": {"Worker": worker}})
    for at in range(4):
        labels = {
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": str(at),
        }
        pod(cluster, f"w{at}", job, labels=labels, annotations=notes)
    cluster.start().wait_leading()
    cluster.wait_placed("w0", "w1", "w2", "w3")
    placed = cluster.placed()
    assert placed["w0"] == placed["w1"] != placed["w2"] == placed["w3"]
    assert {placed["w0"], placed["w2"]} == {"r1", "r2"}
    cluster.must("DELETE", "/apis/kai.scheduler/v1alpha1/topologies/dc")


def test_a_spark_application_is_one_job(cluster):
    daemon = cluster.start().wait_leading()
    labels = {"spark-app-selector": "spark-7", "spark-role": "driver"}
    driver = pod(cluster, "pi-driver", labels=labels)
    cluster.wait_placed("pi-driver")
    for at in (1, 2):
        pod(cluster, f"pi-exec-{at}", driver, labels=labels | {"spark-role": "executor"})
    cluster.wait_placed("pi-driver", "pi-exec-1", "pi-exec-2")
    (leader,) = daemon.daemon.leaders
    ours = f"{cluster.namespace}/"  # a real server has the pods of other tests too
    jobs = [it for it in leader.cluster.store.rows.jobs.row_of_name if it.startswith(ours)]
    assert jobs == [f"{ours}pg-spark-app-spark-7"]


def test_a_kind_is_found_in_another_version(cluster):
    """The training operator serves MPIJobs as v1, the MPI operator as v2beta1."""
    serve(cluster, "MPIJob")
    daemon = cluster.start().wait_leading()
    roles = {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}
    mpi = make(cluster, "MPIJob", "m", {"mpiReplicaSpecs": roles})
    assert seen(daemon, "mpijobs").watched.api_version == "kubeflow.org/v1"
    for name in ("m-launcher", "m-worker-0", "m-worker-1"):
        pod(cluster, name, mpi, 8)
    assert nothing_starts(cluster, "m-launcher", "m-worker-0", "m-worker-1")
    cluster.node("n2")
    cluster.wait_placed("m-launcher", "m-worker-0", "m-worker-1")


# -- Kubernetes' own gang API -------------------------------------------------------------------


def gang(cluster, name, minimum):
    policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return make(cluster, "PodGroup", name, policy)


def member(cluster, name, group, gpus=8):
    return pod(cluster, name, gpus=gpus, schedulingGroup={"podGroupName": group})


def test_a_group_of_kubernetes_own_api_starts_whole(cluster):
    serve(cluster, "PodGroup")
    cluster.start().wait_leading()
    assert events(cluster, "gang_api_chosen")[0]["version"] == "scheduling.k8s.io/v1alpha2"
    for at in range(3):
        member(cluster, f"p{at}", "g")
    until(lambda: "does not exist" in cluster.condition("p0").get("message", ""))
    gang(cluster, "g", 3)
    assert nothing_starts(cluster, "p0", "p1", "p2")
    cluster.node("n2")
    cluster.wait_placed("p0", "p1", "p2")


def test_a_group_of_kubernetes_own_api_may_need_fewer_from_now_on(cluster, server):
    """So from 1.37 on; 1.36 does not let it be changed."""
    serve(cluster, "PodGroup")
    made = gang(cluster, "g", 3)
    cluster.start().wait_leading()
    for at in range(3):
        member(cluster, f"p{at}", "g")
    assert nothing_starts(cluster, "p0", "p1", "p2")
    group, version, plural = KINDS["PodGroup"]
    path = f"/apis/{group}/{version}/namespaces/{cluster.namespace}/{plural}/g"
    body = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    assert cluster.must("PATCH", path, body, MERGE)["metadata"]["uid"] == made["metadata"]["uid"]
    until(lambda: len(cluster.placed()) == 2)


def test_a_group_of_kubernetes_own_api_stays_on_nodes_with_one_value_of_a_label(cluster):
    serve(cluster, "PodGroup")
    cluster.start().wait_leading()
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]},
    }
    make(cluster, "PodGroup", "g", spec)
    for at in range(2):
        member(cluster, f"p{at}", "g")
    until(lambda: "no node has the label" in cluster.condition("p0").get("message", ""))
    for name in ("r1", "r2"):
        cluster.node(name, labels={"example.com/rack": "r"})
    cluster.wait_placed("p0", "p1")
    assert set(cluster.placed().values()) == {"r1", "r2"}


def test_without_the_api_nobody_asks_for_its_groups(cluster, server):
    daemon = cluster.start().wait_leading()
    assert events(cluster, "gang_api_chosen")[0]["version"] == "none"
    assert not [
        it
        for it in daemon.daemon.reflectors
        if it.watched.qualified == "podgroups.scheduling.k8s.io"
    ]
    asked = [it.status for it in server.log if it.plural == "podgroups"]
    assert set(asked) == {200}


def test_who_is_not_known_when_asking_for_the_api_ends(cluster, server, tmp_path):
    """With its shard in a file, a process asks for nothing before this."""
    server.faults.add(Fault("status", code=401, times=None))
    daemon = cluster.start(shards=[shard_file(tmp_path)])
    until(lambda: daemon.has_ended)
    assert "does not know our account" in str(daemon.error)
    server.faults.clear()


def shard_file(folder, **spec):
    file = folder / "shard.yaml"
    kind = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
    file.write_bytes(msgspec.yaml.encode({**kind, "metadata": {"name": "default"}, "spec": spec}))
    return file


# -- a plugin's kinds ---------------------------------------------------------------------------


def test_a_shard_says_how_pods_of_a_kind_are_grouped(cluster, tmp_path):
    serve(cluster, "Widget")
    file = shard_file(tmp_path, workloads=WIDGETS)
    daemon = cluster.start(shards=[file]).wait_leading()
    widget = make(cluster, "Widget", "w", {"size": 3})
    until(lambda: seen(daemon, "widgets").is_synced)
    names = [pod(cluster, f"w-{at}", widget, 8)["metadata"]["name"] for at in range(3)]
    assert nothing_starts(cluster, *names)
    cluster.node("n2")
    cluster.wait_placed(*names)


def test_roles_of_a_declared_kind_each_have_a_minimum(cluster, tmp_path):
    """A head and two of three arms: nothing starts without the head."""
    serve(cluster, "Widget")
    roles = [{"name": "head"}, {"name": "arm", "replicas": "spec.arms", "minimum": "spec.least"}]
    declared = WIDGET | {"roleLabel": "example.com/role", "roles": roles}
    daemon = cluster.start(shards=[shard_file(tmp_path, workloads=[declared])]).wait_leading()
    widget = make(cluster, "Widget", "w", {"arms": 3, "least": 2})
    until(lambda: seen(daemon, "widgets").is_synced)
    arms = [f"arm-{at}" for at in range(3)]
    for name in arms:
        pod(cluster, name, widget, 1, {"example.com/role": "arm"})
    assert nothing_starts(cluster, *arms)
    pod(cluster, "head", widget, 1, {"example.com/role": "head"})
    cluster.wait_placed("head", *arms)


def test_a_snapshot_of_a_cluster_has_its_workloads(cluster, tmp_path):
    """Also those that a shard declares, and Kubernetes' own groups; the replay groups alike."""
    serve(cluster, "Widget", "PodGroup", "MPIJob")
    widget = make(cluster, "Widget", "w", {"size": 3})
    mpi = make(cluster, "MPIJob", "m", {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}})
    gang(cluster, "g", 4)
    member(cluster, "p", "g")
    pod(cluster, "q", widget)
    pod(cluster, "r", mpi)
    file = shard_file(tmp_path, workloads=WIDGETS)
    taken = from_cluster(cluster.client, SystemClock(), ["kaisched"], shard_files=[file])
    ours = [it for it in taken.recording.owners if it.metadata.namespace == cluster.namespace]
    assert {it.kind: it.minimum for it in ours} == {"Widget": 3, "PodGroup": 4, "MPIJob": 2}
    snapshot = replay(taken.recording).snapshot
    assert {3, 4, 2} <= set(snapshot.podsets.minimum.tolist())
