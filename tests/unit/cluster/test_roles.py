"""Gangs whose pods have roles: started whole or not at all, and never left without their head."""

import pytest

from kaisched.cluster.store import update
from tests.contract.clusters import group, node, pod, queue
from tests.faults.deciding import decide, placed, reasons, store_of, told
from tests.unit.cluster.test_grouping_table import (
    VOLCANO,
    launched,
    owned,
    owner,
    ray_node,
    spark,
    training,
)
from tests.unit.cluster.test_groups import job

GRACE = {"kai.scheduler/staleness-grace-period": "0s"}


def ray(replicas=3, least=0, name="r", **spec):
    group = {"groupName": "w", "replicas": replicas, "minReplicas": least, "maxReplicas": 9}
    said = {"headGroupSpec": {"template": {}}, "workerGroupSpecs": [group], **spec}
    return owner("RayCluster", name, spec=said, annotations=GRACE)


def head(name="r-head", of="r", **rest):
    return owned(name, ("RayCluster", of), labels=ray_node(of, "headgroup"), **rest)


def worker(at, of="r", group="w", **rest):
    return owned(f"{of}-{group}-{at}", ("RayCluster", of), labels=ray_node(of, group), **rest)


def mpi(policy="AtStartup", workers=2, **more):
    spec = {
        "launcherCreationPolicy": policy,
        "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": workers}},
        **more,
    }
    return owner("MPIJob", "m", spec=spec, annotations=GRACE)


def launcher(name="m-launcher-1", **rest):
    made_by = owner("Job", "m-launcher", by=("MPIJob", "m"))
    return [
        made_by,
        owned(name, ("Job", "m-launcher"), labels=launched("m", "launcher"), **rest),
    ]


def mpi_worker(at, **rest):
    return owned(f"m-worker-{at}", ("MPIJob", "m"), labels=launched("m", "worker"), **rest)


IN_G = {"pod-group-name": "g"}
SPARK = {"spark-app-selector": "spark-7", "spark-role": "executor"}
RUNNING = {"where": "n0", "phase": "Running"}
DONE = {"where": "n0", "phase": "Succeeded"}
TOO_LARGE = {"gpus": 9}


def minimums(store, name):
    return {part: minimum for part, minimum, _ in job(store, name)["podsets"]}


def evicted(result):
    return sorted(it.pod.partition("/")[2] for it in result.evictions)


# -- whole or not at all --------------------------------------------------------------------------

PYTORCH = owner(
    "PyTorchJob",
    "t",
    spec={
        "elasticPolicy": {"minReplicas": 1, "maxReplicas": 3},
        "pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 3}},
    },
)
TF = owner(
    "TFJob",
    "t",
    spec={
        "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
        "tfReplicaSpecs": {"Chief": {"replicas": 1}, "Worker": {"replicas": 3}},
    },
)
VOLCANO_JOB = owner(
    VOLCANO,
    "t",
    spec={
        "minAvailable": 2,
        "tasks": [
            {"name": "ps", "replicas": 1, "minAvailable": 1},
            {"name": "worker", "replicas": 3, "minAvailable": 1},
        ],
    },
)


def training_pods(kind, first, **rest):
    roles = (first.title(), "Worker")
    return [
        owned(f"z-{first}-0", (kind, "t"), labels=training(kind, roles[0], 0, roles), **rest),
        *(
            owned(f"t-worker-{at}", (kind, "t"), labels=training(kind, "Worker", at, roles))
            for at in range(3)
        ),
    ]


def volcano_pods(**rest):
    def labels(task):
        return {"volcano.sh/task-spec": task, "volcano.sh/job-name": "t"}

    return [
        owned("z-ps-0", (VOLCANO, "t"), labels=labels("ps"), **rest),
        *(owned(f"t-worker-{at}", (VOLCANO, "t"), labels=labels("worker")) for at in range(3)),
    ]


@pytest.mark.parametrize(
    "objects",
    [
        [ray(3, 1), head(**TOO_LARGE), *map(worker, range(3))],
        [ray(3, 1), head(), *(worker(at, **TOO_LARGE) for at in range(3))],
        [PYTORCH, *training_pods("PyTorchJob", "master", **TOO_LARGE)],
        [TF, *training_pods("TFJob", "chief", **TOO_LARGE)],
        [VOLCANO_JOB, *volcano_pods(**TOO_LARGE)],
        [mpi(), *launcher(**TOO_LARGE), mpi_worker(0), mpi_worker(1)],
        [spark("z", "driver"), spark("e-1", "executor", "Pod", "z")],
    ],
    ids=["head", "workers", "master", "chief", "task", "launcher", "driver"],
)
def test_nothing_starts_without_a_pod_of_each_role(objects):
    if len(objects) == 2:
        objects[0] = spark("z", "driver")
        objects[0].spec.containers[0].resources.requests["nvidia.com/gpu"] = 9
    result = decide(store_of(*objects))
    assert placed(result) == {}
    assert set(reasons(result).values()) == {"ExceedsAnyNode"}


@pytest.mark.parametrize(
    ("objects", "bound"),
    [
        ([ray(3, 1), head(), *map(worker, range(3))], 4),
        ([PYTORCH, *training_pods("PyTorchJob", "master")], 4),
        ([TF, *training_pods("TFJob", "chief")], 4),
        ([VOLCANO_JOB, *volcano_pods()], 4),
        ([mpi(), *launcher(), mpi_worker(0), mpi_worker(1)], 3),
        ([spark("z", "driver"), spark("e-1", "executor", "Pod", "z")], 2),
    ],
)
def test_all_roles_start_together_and_the_elastic_part_follows(objects, bound):
    assert len(placed(decide(store_of(*objects)))) == bound


def test_two_clusters_of_fixed_size_do_not_wait_for_each_other():
    """KubeRay fills in 0 as the minimum of a group of fixed size."""
    pods = [make(at, of) for of in "rs" for make in (worker,) for at in range(5)]
    heads = [head(f"{of}-head", of) for of in "rs"]
    result = decide(store_of(ray(5), ray(5, name="s"), *pods, *heads))
    assert len(placed(result)) == 6
    assert {it[0] for it in placed(result)} == {"r"}


def test_what_waits_names_the_group_that_lacks_pods():
    groups = [{"groupName": name, "replicas": 2, "minReplicas": 2} for name in ("w", "x")]
    cluster = ray(workerGroupSpecs=groups)
    result = decide(store_of(cluster, head(), worker(0), worker(1), worker(0, group="x")))
    (record,) = result.records
    assert record.reason == "GangIncomplete"
    assert "subgroup x: 1 of the 2 pods it needs exist" in record.message


# -- what goes first ------------------------------------------------------------------------------

OLD, NEW = {"created": "2026-01-01T00:00:00Z"}, {"created": "2026-06-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("objects", "gone"),
    [
        (
            [ray(3, 1), head(**RUNNING, **NEW), *(worker(at, **RUNNING, **OLD) for at in range(3))],
            ["r-w-1", "r-w-2"],
        ),
        (
            [
                mpi(workers=3, runPolicy={"schedulingPolicy": {"minAvailable": 2}}),
                *launcher(**RUNNING, **NEW),
                *(mpi_worker(at, **RUNNING, **OLD) for at in range(3)),
            ],
            ["m-worker-1", "m-worker-2"],
        ),
        (
            [
                spark("z", "driver"),
                *(spark(f"e-{at}", "executor", "Pod", "z") for at in range(3)),
            ],
            ["e-1", "e-2"],
        ),
    ],
    ids=["head", "launcher", "driver"],
)
def test_surplus_is_what_a_role_has_above_its_minimum(objects, gone):
    """The head was restarted and is the youngest pod; it stays all the same."""
    store = store_of(node("n0", gpus=4), queue("a", gpu=0), queue("b", gpu=2))
    told(store, *objects)
    if gone[0] == "e-1":
        told(store, *(as_running(it) for it in objects))
    told(store, owned("claim", queue_name="b", gpus=2))
    assert evicted(decide(store)) == gone


def as_running(pod):
    role = pod.metadata.labels["spark-role"]
    by = () if role == "driver" else ("Pod", "z")
    labels = pod.metadata.labels
    return owned(pod.metadata.name, by or None, labels=labels, **RUNNING)


# -- workers without a head -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "gone"),
    [
        ([ray(2, 1), worker(0, **RUNNING), worker(1, **RUNNING)], ["r-w-0", "r-w-1"]),
        ([mpi(), mpi_worker(0, **RUNNING), mpi_worker(1, **RUNNING)], ["m-worker-0", "m-worker-1"]),
    ],
)
def test_workers_without_a_head_are_stale(objects, gone):
    assert evicted(decide(store_of(*objects))) == gone


def test_executors_whose_driver_is_gone_are_stale():
    driver = {"kai.scheduler/staleness-grace-period": "0s"}
    executors = [
        owned(f"e-{at}", ("Pod", "z"), labels=SPARK, annotations=driver, **RUNNING)
        for at in range(2)
    ]
    assert evicted(decide(store_of(*executors))) == ["e-0", "e-1"]


def test_a_new_head_takes_the_place_of_the_old_one():
    store = store_of(ray(2), head(uid="old", **RUNNING), *(worker(at, **RUNNING) for at in (0, 1)))
    assert decide(store).evictions == ()
    update(store, head(uid="old", **RUNNING), is_gone=True)
    update(store, head("r-head-new", uid="new"))
    result = decide(store)
    assert placed(result) == {"r-head-new": "n0"}
    assert evicted(result) == []


# -- what is done, and what comes later -----------------------------------------------------------


def test_a_launcher_that_has_succeeded_is_not_missed():
    store = store_of(mpi(), *launcher(**RUNNING), *(mpi_worker(at, **RUNNING) for at in (0, 1)))
    for obj in launcher(**DONE):
        update(store, obj)
    assert minimums(store, "ns/pg-m-uid-m") == {"launcher": 0, "worker": 2}
    assert decide(store).evictions == ()


def test_a_driver_that_has_succeeded_is_not_missed():
    done = owned("z", labels=spark("z", "driver").metadata.labels, **DONE)
    store = store_of(done, as_running(spark("e-1", "executor", "Pod", "z")))
    assert minimums(store, "ns/pg-spark-app-spark-7") == {"driver": 0, "executor": 0}


def test_a_launcher_that_is_created_once_the_workers_run():
    """The workers do not wait for it; when it is there, they are nothing without it."""
    store = store_of(mpi("WaitForWorkersReady"), mpi_worker(0), mpi_worker(1))
    assert minimums(store, "ns/pg-m-uid-m") == {"launcher": 0, "worker": 2}
    assert set(placed(decide(store))) == {"m-worker-0", "m-worker-1"}
    for at in (0, 1):
        update(store, mpi_worker(at, **RUNNING))
    told(store, *launcher())
    assert minimums(store, "ns/pg-m-uid-m") == {"launcher": 1, "worker": 2}
    assert placed(decide(store)) == {"m-launcher-1": "n0"}
    store.remove_pod("ns/m-launcher-1")
    assert minimums(store, "ns/pg-m-uid-m") == {"launcher": 0, "worker": 2}


# -- scaled ---------------------------------------------------------------------------------------


def test_a_cluster_that_scales_itself_grows_pod_by_pod_and_shrinks_to_its_minimum():
    scaling = {"enableInTreeAutoscaling": True}
    store = store_of(ray(0, 0, **scaling), head())
    assert placed(decide(store)) == {"r-head": "n0"}
    told(store, ray(2, 0, **scaling), head(**RUNNING), worker(0), worker(1, **TOO_LARGE))
    assert placed(decide(store)) == {"r-w-0": "n0"}
    told(store, ray(1, 1, **scaling), worker(0, **RUNNING))
    store.remove_pod("ns/r-w-1")
    assert minimums(store, "ns/pg-r-uid-r") == {"headgroup": 1, "w": 1}
    assert decide(store).evictions == ()


def test_a_group_that_is_scaled_down_is_not_stale():
    running = [head(**RUNNING), *(worker(at, **RUNNING) for at in range(3))]
    store = store_of(ray(3), *running)
    update(store, ray(1))
    for at in (1, 2):
        store.remove_pod(f"ns/r-w-{at}")
    assert minimums(store, "ns/pg-r-uid-r") == {"headgroup": 1, "w": 1}
    assert decide(store).evictions == ()


def test_a_suspended_group_is_not_waited_for():
    group = {"groupName": "w", "replicas": 3, "minReplicas": 3, "suspend": True}
    store = store_of(ray(workerGroupSpecs=[group]), head())
    assert placed(decide(store)) == {"r-head": "n0"}


def test_a_suspended_job_is_whole_again_when_it_resumes():
    """Its pods are deleted and made anew."""
    pods = [*launcher(**RUNNING), *(mpi_worker(at, **RUNNING) for at in (0, 1))]
    store = store_of(mpi(), *pods)
    for obj in pods[1:]:
        update(store, obj, is_gone=True)
    told(store, *launcher("m-launcher-2", uid="u2"), mpi_worker(0, uid="u0"))
    assert placed(decide(store)) == {}
    update(store, mpi_worker(1, uid="u1"))
    assert len(placed(decide(store))) == 3


# -- pods of no role ------------------------------------------------------------------------------


def test_pods_of_no_role_stand_for_those_that_a_role_lacks():
    """Whatever is wrong with its label, the gang is as large as its object says."""
    strange = [owned(f"p-{at}", ("RayCluster", "r")) for at in range(2)]
    store = store_of(ray(3), head(), worker(0), strange[0])
    assert minimums(store, "ns/pg-r-uid-r") == {"default": 4}
    assert placed(decide(store)) == {}
    update(store, strange[1])
    assert len(placed(decide(store))) == 4


def test_pods_of_no_role_beside_a_whole_gang_are_not_needed():
    old = worker(0, group="gone")
    store = store_of(ray(1), head(), worker(0), old)
    assert minimums(store, "ns/pg-r-uid-r") == {"headgroup": 1, "w": 1, "default": 0}
    assert len(placed(decide(store))) == 3
    store.remove_pod("ns/r-gone-0")
    assert minimums(store, "ns/pg-r-uid-r") == {"headgroup": 1, "w": 1}


@pytest.mark.parametrize("is_reversed", [False, True])
def test_whatever_comes_first_the_roles_are_the_same(is_reversed):
    objects = [ray(2), worker(0, group="gone"), worker(0), worker(1), head()]
    store = store_of(*(reversed(objects) if is_reversed else objects))
    assert minimums(store, "ns/pg-r-uid-r") == {"headgroup": 1, "w": 2, "default": 0}


# -- Kubernetes' own gang API ---------------------------------------------------------------------


def grouped(at, gang=None, **rest):
    return owned(
        f"p-{at}", ("Job", "j"), spec={"schedulingGroup": {"podGroupName": "j"}}, gpus=3, **rest
    )


def basic(**spec):
    said = {"schedulingPolicy": {"basic": {}}, **spec}
    return owner("PodGroup", "j", uid="uid-of-group", spec=said)


@pytest.mark.parametrize("least", [0, 4])
def test_a_group_that_says_nothing_of_a_gang_changes_nothing(least):
    """Kubernetes makes one for every Job; two of four pods have room."""
    notes = {"kai.scheduler/batch-min-member": str(least)} if least else {}
    objects = [owner("Job", "j", annotations=notes), *map(grouped, range(4))]
    alone = [owned(f"p-{at}", ("Job", "j"), gpus=3) for at in range(4)]
    with_group = decide(store_of(basic(), *objects))
    assert placed(with_group) == placed(decide(store_of(objects[0], *alone)))
    assert len(placed(with_group)) == (0 if least else 2)


def test_pods_wait_for_the_job_that_a_group_says_nothing_about():
    """What comes late may say that they are a gang."""
    store = store_of(basic(), grouped(0))
    store.let_go(0.0)
    assert set(reasons(decide(store)).values()) == {"OwnerNotRead"}
    update(store, owner("Job", "j", annotations={"kai.scheduler/batch-min-member": "4"}))
    store.let_go(1.0)
    assert set(reasons(decide(store)).values()) == {"GangIncomplete"}


def gang_of_api(pods, **spec):
    said = {"schedulingPolicy": {"gang": {"minCount": pods}}, **spec}
    return owner("PodGroup", "j", uid="uid-of-group", spec=said)


@pytest.mark.parametrize(
    ("of_group", "of_owner", "needed"), [(2, 4, 4), (4, 2, 4), (4, 4, 4), (3, 0, 3), (1, 3, 3)]
)
def test_of_a_group_and_its_owners_the_larger_gang_counts(of_group, of_owner, needed):
    notes = {"kai.scheduler/batch-min-member": str(of_owner)} if of_owner else {}
    objects = [owner("Job", "j", annotations=notes), *map(grouped, range(4))]
    store = store_of(gang_of_api(of_group), *objects)
    name = "ns/pg-j-uid-j" if of_owner >= of_group else "ns/pg-j-uid-of-group"
    assert list(store.snapshot().jobs.name) == [name]
    assert minimums(store, name) == {"default": needed}


def test_a_group_of_some_pods_of_a_gang_with_roles_does_not_tear_it():
    """The head and two workers start together or not at all, whatever group a worker names."""
    some = {"spec": {"schedulingGroup": {"podGroupName": "j"}}}
    workers = [worker(at, gpus=3, **some) for at in range(2)]
    objects = [gang_of_api(2), ray(2, least=2), *workers]
    assert placed(decide(store_of(*objects))) == {}
    assert len(placed(decide(store_of(*objects, head(gpus=1))))) == 3


def test_a_domain_that_a_group_asks_for_holds_beside_a_gang_of_its_owner():
    wish = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    notes = {"kai.scheduler/batch-min-member": "4"}
    store = store_of(gang_of_api(2, **wish), owner("Job", "j", annotations=notes), grouped(0))
    assert list(store.snapshot().jobs.name) == ["ns/pg-j-uid-of-group"]


def test_the_class_of_a_group_counts_where_its_owners_name_none():
    named = basic(priorityClassName="build")
    assert job(store_of(named, owner("Job", "j"), grouped(0)))["priority"] == 100
    train = owner("Job", "j", labels={"priorityClassName": "train"})
    assert job(store_of(named, train, grouped(0)))["priority"] == 50


def test_a_group_that_is_missing_lets_nothing_start():
    result = decide(store_of(owner("Job", "j"), grouped(0)))
    assert placed(result) == {}
    assert set(reasons(result).values()) == {"InvalidPodGroup"}


# -- what is told ---------------------------------------------------------------------------------


def test_what_waits_of_a_subgroup_that_lacks_pods_is_told_so():
    """The job runs all the same: one of its subgroups is enough."""
    parts = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]
    pods = [
        pod(name, labels={"kai.scheduler/subgroup-name": name[0]}, annotations=IN_G)
        for name in ("a0", "b0")
    ]
    result = decide(store_of(group("g", subGroups=parts, minSubGroup=1), *pods))
    assert placed(result) == {"b0": "n0"}
    assert reasons(result) == {"g": "GangIncomplete"}
    assert "subgroup a: 1 of the 2 pods it needs exist" in result.records[0].message


def test_a_group_that_has_no_room_now_keeps_the_rest_waiting():
    """Nobody may be moved for it: what holds the room is not preemptible."""
    build = {"kai.scheduler/preemptibility": "non-preemptible"}
    other = pod("x", gpus=6, labels=build, where="n0", phase="Running")
    groups = [{"groupName": name, "replicas": 1, "minReplicas": 1} for name in ("w", "x")]
    cluster = ray(workerGroupSpecs=groups)
    result = decide(store_of(cluster, other, head(), worker(0), worker(0, group="x", gpus=6)))
    assert placed(result) == {}
    assert reasons(result) == {"r-uid-r": "GangNoRoom"}
