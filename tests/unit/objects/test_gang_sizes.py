"""Sizes of gangs: how many pods must start together by the specs of the known workloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.objects.gangs import WORKLOADS, gang_api_row, gang_of
from kaisched.objects.workloads import MOST, MOST_SUBGROUPS, Gang, Workload, table_of

ROWS = (*WORKLOADS, gang_api_row({"v1alpha2"}))
VOLCANO = "Job of Volcano"
READ = {VOLCANO if row.api_group == "batch.volcano.sh" else row.kind: row.read for row in ROWS}
SIZED = sorted(kind for kind, read in READ.items() if read)


def read(kind, spec, annotations=()):
    return gang_of(READ[kind], spec, dict(annotations))


def kubeflow(key, **more):
    return {key: {"Master": {"replicas": 1}, "Worker": {"replicas": 3}}, **more}


@pytest.mark.parametrize(
    ("kind", "spec", "minimum"),
    [
        ("JAXJob", {"jaxReplicaSpecs": {"Worker": {}}}, 1),
        ("JAXJob", {"jaxReplicaSpecs": {"Worker": {"replicas": 4}}}, 4),
        (
            "PyTorchJob",
            {
                "pytorchReplicaSpecs": {"Worker": {"replicas": 8}},
                "elasticPolicy": {"minReplicas": 2},
            },
            2,
        ),
        ("MPIJob", {}, 1),
        ("RayCluster", {}, 1),
        (VOLCANO, {"tasks": [{"name": "w", "replicas": 4}]}, 4),
        (VOLCANO, {"tasks": [{"name": "w", "replicas": 4}], "minAvailable": 3}, 3),
        (VOLCANO, {}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 4}, "replicas": 9}, 4),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {}}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 0}}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": -4}}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": MOST + 1}}, 1),
        ("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": "4"}}, 1),
        ("PodGroup", {"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
        ("Job", {"parallelism": 9}, 1),
        ("PyTorchJob", None, 1),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": -3}}}, 1),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 10**12}}}, 1),
        ("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": True}}}, 1),
    ],
)
def test_minimums_of_workloads(kind, spec, minimum):
    assert read(kind, spec) == Gang(minimum=minimum)


def available(pods):
    return {"runPolicy": {"schedulingPolicy": {"minAvailable": pods}}}


def mpi(**spec):
    return {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 4}}, **spec}


TF = {"tfReplicaSpecs": {"Worker": {"replicas": 4}, "PS": {"replicas": 2}, "Chief": {}}}


def ray(*groups, **spec):
    return {"workerGroupSpecs": list(groups), **spec}


def group(name="w", replicas=None, least=None, **more):
    said = {"replicas": replicas, "minReplicas": least}
    return {"groupName": name, **{key: it for key, it in said.items() if it is not None}, **more}


def tasks(*least, **spec):
    """Tasks a, b and so on of four pods, with these minimums."""
    made = [
        {"name": "abc"[at], "replicas": 4} | ({} if it is None else {"minAvailable": it})
        for at, it in enumerate(least)
    ]
    return {"tasks": made, **spec}


@pytest.mark.parametrize(
    ("kind", "spec", "roles"),
    [
        ("PyTorchJob", kubeflow("pytorchReplicaSpecs"), {"master": 1, "worker": 3}),
        (
            "PyTorchJob",
            kubeflow("pytorchReplicaSpecs", elasticPolicy={"minReplicas": 2}),
            {"master": 1, "worker": 2},
        ),
        (
            "PyTorchJob",  # scaled down below its minimum: what there is of it has to start
            kubeflow("pytorchReplicaSpecs", elasticPolicy={"minReplicas": 5}),
            {"master": 1, "worker": 3},
        ),
        (
            "PyTorchJob",
            kubeflow("pytorchReplicaSpecs", elasticPolicy={"minReplicas": 1}, **available(3)),
            {"master": 1, "worker": 2},
        ),
        ("XGBoostJob", kubeflow("xgbReplicaSpecs"), {"master": 1, "worker": 3}),
        ("TFJob", TF, {"chief": 1, "ps": 2, "worker": 4}),
        ("TFJob", TF | available(5), {"chief": 1, "ps": 2, "worker": 2}),
        ("TFJob", TF | available(3), {"chief": 1, "ps": 1, "worker": 1}),
        ("TFJob", TF | available(1), {"chief": 1, "ps": 0, "worker": 0}),
        ("TFJob", TF | available(9), {"chief": 1, "ps": 2, "worker": 6}),
        (
            "TFJob",
            {"tfReplicaSpecs": {"Chief": {}, "Evaluator": {}, "Worker": {"replicas": 0}}},
            {"chief": 1, "worker": 0, "evaluator": 1},
        ),
        ("MPIJob", mpi(), {"launcher": 1, "worker": 4}),
        ("MPIJob", mpi(**available(3)), {"launcher": 1, "worker": 2}),
        (
            "MPIJob",
            mpi(launcherCreationPolicy="WaitForWorkersReady"),
            {"launcher": 1, "worker": 4},
        ),
        ("RayCluster", ray(group(replicas=3, least=1)), {"headgroup": 1, "w": 1}),
        ("RayCluster", ray(group(replicas=3, least=0)), {"headgroup": 1, "w": 3}),
        ("RayCluster", ray(group(replicas=3)), {"headgroup": 1, "w": 3}),
        ("RayCluster", ray(group(replicas=9, maxReplicas=4)), {"headgroup": 1, "w": 4}),
        ("RayCluster", ray(group(least=2)), {"headgroup": 1, "w": 2}),
        ("RayCluster", ray(group(replicas=2, numOfHosts=4)), {"headgroup": 1, "w": 8}),
        ("RayCluster", ray(group(replicas=2, suspend=True)), {"headgroup": 1, "w": 0}),
        (
            "RayCluster",
            ray(group("a", 3, 0), group("b", 3, 2, numOfHosts=2), enableInTreeAutoscaling=True),
            {"headgroup": 1, "a": 0, "b": 4},
        ),
        ("RayCluster", ray({"replicas": 2}), {"headgroup": 1, "worker-group-0": 2}),
        (VOLCANO, tasks(None, 2), {"a": 4, "b": 2}),
        (VOLCANO, tasks(1, None, minAvailable=5), {"a": 1, "b": 4}),
        (VOLCANO, tasks(1, 2, minAvailable=6), {"a": 4, "b": 2}),
        (VOLCANO, tasks(None, None, minAvailable=3), {"a": 2, "b": 1}),
        (VOLCANO, tasks(0, 2), {"a": 0, "b": 2}),
        (
            VOLCANO,
            {"tasks": [{"name": "b", "replicas": 2, "dependsOn": {"name": ["a"]}}, {"name": "a"}]},
            {"a": 0, "b": 2},
        ),
        (
            VOLCANO,
            {"tasks": [{"replicas": 1}, {"replicas": 2, "minAvailable": 1}]},
            {"default0": 1, "default1": 1},
        ),
    ],
)
def test_each_role_has_its_minimum(kind, spec, roles):
    gang = read(kind, spec)
    assert {part.name: part.min_member for part in gang.sub_groups} == roles
    assert gang.min_sub_group is None
    assert gang.minimum == max(
        sum(pods for name, pods in roles.items() if name not in gang.later), 1
    )
    assert gang.unsupported == ""


def test_which_roles_are_created_when_others_run():
    assert read("MPIJob", mpi()).later == ()
    assert read("MPIJob", mpi(launcherCreationPolicy="WaitForWorkersReady")).later == ("launcher",)
    after = {"name": "b", "replicas": 2, "dependsOn": {"name": ["a"], "iteration": "any"}}
    assert read(VOLCANO, {"tasks": [after, {"name": "a", "replicas": 1}]}).later == ("b",)


def test_kueues_annotations_of_a_role_are_about_its_pods():
    note = {"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}}
    spec = {"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 3, "template": note}}}
    sets = read("PyTorchJob", spec).pod_sets
    assert {name: it.required for name, it in sets.items()} == {"worker": "rack"}
    note["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"] = "zone"
    assert "template of a role" in read("PyTorchJob", spec).unsupported


def replicated(name, replicas=None, parallelism=None, completions=None, **more):
    said = {"parallelism": parallelism, "completions": completions}
    job = {key: value for key, value in said.items() if value is not None}
    counted = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **counted, "template": {"spec": job}, **more}


def shown(gang):
    """(name, minimum) of each subgroup; None if its own subgroups count."""
    return [(part.name, part.min_member) for part in gang.sub_groups]


IN_ORDER = {"startupPolicyOrder": "InOrder"}
AFTER = [{"name": "a", "status": "Ready"}]


@pytest.mark.parametrize(
    ("spec", "parts", "needed"),
    [
        (
            {"replicatedJobs": [replicated("a", 2, 3), replicated("b")]},
            [("a", None), ("a/0", 3), ("a/1", 3), ("b", None), ("b/0", 1)],
            None,
        ),
        (
            {
                "replicatedJobs": [replicated("a"), replicated("b", 1, 2)],
                "startupPolicy": IN_ORDER,
            },
            [("a", None), ("a/0", 1), ("b", None), ("b/0", 2)],
            1,
        ),
        (
            {"replicatedJobs": [*map(replicated, "ab"), replicated("c", dependsOn=AFTER)]},
            [("a", None), ("a/0", 1), ("b", None), ("b/0", 1), ("c", None), ("c/0", 1)],
            1,
        ),
        ({"replicatedJobs": [replicated("a", 1, 8, 2)]}, [("a", None), ("a/0", 2)], None),
        ({"replicatedJobs": [replicated("a", 1, 2, 8)]}, [("a", None), ("a/0", 2)], None),
        (
            {"replicatedJobs": [replicated("a", 0), replicated("b", -1)]},
            [("b", None), ("b/0", 1)],
            None,
        ),
        ({"replicatedJobs": [replicated("a", MOST_SUBGROUPS + 1)]}, [], None),
        ({"replicatedJobs": [replicated("a", 2, MOST)]}, [], None),
        ({"replicatedJobs": [{"replicas": 4}]}, [], None),
        ({"replicatedJobs": "none"}, [], None),
        ({}, [], None),
    ],
)
def test_the_subgroups_of_a_job_set(spec, parts, needed):
    gang = read("JobSet", spec)
    assert (shown(gang), gang.min_sub_group, gang.minimum) == (parts, needed, 1)
    assert {part.parent for part in gang.sub_groups if part.min_member is not None} == {
        name for name, minimum in parts if minimum is None
    }


@pytest.mark.parametrize(
    ("spec", "annotations", "is_leader_first"),
    [
        ({}, {}, False),
        ({"startupPolicy": "LeaderCreated"}, {}, False),
        ({"startupPolicy": "LeaderReady"}, {}, True),
        ({}, {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}, True),
    ],
)
def test_when_the_workers_of_a_leader_are_made(spec, annotations, is_leader_first):
    found = read("LeaderWorkerSet", {"leaderWorkerTemplate": {"size": 2}, **spec}, annotations)
    assert found == Gang(minimum=2, is_leader_first=is_leader_first)


EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
BY_SELECTOR = {**EXCLUSIVE, "alpha.jobset.sigs.k8s.io/node-selector": "true"}


@pytest.mark.parametrize(
    ("annotations", "template", "first"),
    [
        ({}, {}, ()),
        (EXCLUSIVE, {}, ("a/0", "a/1", "b/0")),
        ({}, EXCLUSIVE, ("a/0", "a/1")),
        (BY_SELECTOR, {}, ()),
        ({}, BY_SELECTOR, ()),
    ],
)
def test_the_jobs_of_a_job_set_whose_other_pods_follow_the_first(annotations, template, first):
    parts = [replicated("a", 2, 3), replicated("b", 1, 2)]
    parts[0]["template"]["metadata"] = {"annotations": template}
    assert read("JobSet", {"replicatedJobs": parts}, annotations).leader_first == first


POLICY = "spec.schedulingPolicy"
COUNT = "write how many pods must start together, from 1 to 100000"
TOPOLOGY = "spec.schedulingConstraints.topology"
LABEL = "write a label of nodes; its value will be the same for all pods"
PARENT = "spec.parentCompositePodGroupName: groups of groups"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({}, f"{POLICY}: no such policy (value ''); write gang or basic"),
        (
            {"schedulingPolicy": {"rings": {}}},
            f"{POLICY}: no such policy (value 'rings'); write gang or basic",
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 0}}},
            f"{POLICY}.gang.minCount: out of range (value 0); {COUNT}",
        ),
        (
            {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]},
            },
            f"{TOPOLOGY}: more than one constraint (value 'rack, zone'); keep one of them",
        ),
        (
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"key": ""}]},
            },
            f"{TOPOLOGY}[0].key: no label of nodes (value ''); {LABEL}",
        ),
        (
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"level": "rack"}]},
            },
            f"{TOPOLOGY}[0].key: no label of nodes (value None); {LABEL}",
        ),
        (
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"key": "a b"}]},
            },
            f"{TOPOLOGY}[0].key: no label of nodes (value 'a b'); {LABEL}",
        ),
        (
            {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "all"},
            f"{PARENT} are not offered (value 'all'); leave it out",
        ),
    ],
)
def test_what_a_group_of_kubernetes_may_not_ask_for(spec, text):
    assert read("PodGroup", spec) == Gang(unsupported=text)


def test_a_group_of_kubernetes_with_the_basic_policy_is_no_gang():
    spec = {"schedulingPolicy": {"basic": {}}, "priorityClassName": "build"}
    assert read("PodGroup", spec) == Gang(is_each=True, priority_class="build")


@pytest.mark.parametrize(
    ("policy", "gang"),
    [
        ({"gang": {"minCount": 3}}, Gang(minimum=3, node_label="rack")),
        ({"basic": {}}, Gang(minimum=1, node_label="rack")),
    ],
)
def test_a_constraint_of_kubernetes_makes_one_job_of_its_pods(policy, gang):
    constraints = {"topology": [{"key": "rack"}]}
    spec = {"schedulingPolicy": policy, "schedulingConstraints": constraints}
    assert read("PodGroup", spec) == gang


@pytest.mark.parametrize("topology", [[], None, "rack"])
def test_a_group_of_kubernetes_without_a_constraint(topology):
    constraints = {"topology": topology}
    spec = {"schedulingPolicy": {"basic": {}}, "schedulingConstraints": constraints}
    assert read("PodGroup", spec) == Gang(is_each=True)


@pytest.mark.parametrize(
    ("served", "api_version"),
    [
        (("v1alpha2",), "scheduling.k8s.io/v1alpha2"),
        (("v1beta1", "v1alpha3"), "scheduling.k8s.io/v1beta1"),
        (("v1alpha3", "v1alpha2"), "scheduling.k8s.io/v1alpha3"),
        (("v1", "v1alpha1"), None),
        ((), None),
    ],
)
def test_which_version_of_kubernetes_gang_api_is_read(served, api_version):
    row = gang_api_row(served)
    assert (row and row.api_version) == api_version


def test_of_two_rows_for_a_kind_the_first_counts():
    mine = Workload("apps/v2", "statefulsets", "StatefulSet", "each")
    table = table_of((mine, *WORKLOADS))
    assert table["apps", "StatefulSet"] is mine
    assert table["batch", "Job"].pods == "together"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "replicas",
                    "Worker",
                    "replicatedJobs",
                    "tasks",
                    "minAvailable",
                    "minReplicas",
                    "elasticPolicy",
                    "Launcher",
                    "template",
                    "spec",
                    "name",
                    "workerGroupSpecs",
                    "pytorchReplicaSpecs",
                    "mpiReplicaSpecs",
                    "gang",
                    "leaderWorkerTemplate",
                    "size",
                    "schedulingPolicy",
                    "minCount",
                    "key",
                    "schedulingConstraints",
                    "topology",
                    "parallelism",
                ]
            ),
            inner,
        )
    ),
)


@given(st.sampled_from(SIZED), ANYTHING)
def test_no_spec_is_too_strange(kind, spec):
    gang = read(kind, spec)
    assert 1 <= gang.minimum <= MOST
    assert len(gang.sub_groups) <= 2 * MOST_SUBGROUPS
