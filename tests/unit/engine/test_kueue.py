"""Manifests of Kueue: jobs of LocalQueues get queue, priority, size and nodes (K4, K6 to K9)."""

import pytest

from kaisched.engine.planning import plan, read_plan_input
from kaisched.framework.advice.search import Adviser
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue

SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: kueue}
spec: {plugins: {proportion: {enabled: false}, fair-sharing: {enabled: true}}}
---"""
pytestmark = pytest.mark.proportion  # its name is in the shard

TREE = """
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: f},
 spec: {nodeLabels: {gpu: a100}, tolerations: [{key: gpu, operator: Exists}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: cq},
 spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu, cpu, memory],
  flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 4},
   {name: cpu, nominalQuota: 100}, {name: memory, nominalQuota: 1Ti}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: lq, namespace: ns},
 spec: {clusterQueue: cq, stopPolicy: %s}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: WorkloadPriorityClass, metadata: {name: high},
 value: 500}
---"""
NODE = """
{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {gpu: %s}},
 status: {allocatable: {nvidia.com/gpu: 8, cpu: 64, memory: 512Gi, pods: 110}}}
---"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: ns, labels: {%s}}
spec:
  suspend: true
  parallelism: %s
  template:
    metadata: {labels: {app: x}}
    spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1, cpu: 1}}}]}
---"""
IN_QUEUE = "kueue.x-k8s.io/queue-name: lq"


@pytest.fixture
def planned(tmp_path):
    """Return (input, plan) of texts of manifests."""

    def planned(*texts, stop="None", shard=SHARD, tree=TREE):
        file = tmp_path / "all.yaml"
        file.write_text("\n".join([shard, tree % stop, NODE % ("n0", "a100"), *texts]), "utf-8")
        what = read_plan_input([str(file)])
        return what, plan(what)

    return planned


def bound(cycles):
    return [(bind.pod, bind.node) for bind in cycles.cycles[0].binds]


def reasons(cycles):
    return {record.queue: record.reason for record in cycles.cycles[0].records}


def pods_of(what):
    return {pod.key: pod for pod in what.loaded.of(Pod)}


def test_a_suspended_job_gets_its_pods_and_starts_whole(planned):
    what, done = planned(JOB % ("a", IN_QUEUE, 3), JOB % ("b", IN_QUEUE, 2))
    assert bound(done) == [("ns/a-0", "n0"), ("ns/a-1", "n0"), ("ns/a-2", "n0")]
    assert reasons(done) == {"cq": "QuotaExhausted"}  # b waits whole: 1 of 4 is left
    assert (done.problems, what.warnings) == ([], [])
    pod = pods_of(what)["ns/a-0"]
    assert (pod.metadata.labels["app"], pod.metadata.owner_references[0].name) == ("x", "a")


def test_a_job_of_no_local_queue_is_as_always(planned):
    what, done = planned(JOB % ("a", "app: y", 3))
    assert (bound(done), pods_of(what)) == ([], {})


def test_our_own_label_counts_instead(planned):
    what, _ = planned(JOB % ("a", f"{IN_QUEUE}, kai.scheduler/queue: other", 3))
    assert pods_of(what) == {}


@pytest.mark.parametrize(
    ("more", "pods"),
    [
        ("completions: 2", 2),
        ("completions: 9", 3),
        ("completions: 3}, status: {succeeded: 2", 1),
        ("completions: 3}, status: {conditions: [{type: Complete, status: 'True'}]", 0),
    ],
)
def test_a_job_has_as_many_pods_as_it_runs_at_once(planned, more, pods):
    job = (
        "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ns, labels: {%s}},"
        " spec: {parallelism: 3, %s}}"
    )
    what, _ = planned(job % (IN_QUEUE, more))
    assert len(pods_of(what)) == pods


POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: ns
  labels: {%s}
  %s
spec:
  schedulingGates: [{name: kueue.x-k8s.io/admission}]
  %s
  containers: [{name: c, resources: {requests: {nvidia.com/gpu: 1}}}]
---"""
OWNER = "ownerReferences: [{apiVersion: batch/v1, kind: Job, name: a, uid: u, controller: true}]"


def test_pods_that_are_there_are_used_and_no_more_are_made(planned):
    job = (JOB % ("a", IN_QUEUE, 2)).replace("name: a,", "name: a, uid: u,")
    what, done = planned(job, *(POD % (f"a-{at}", "x: y", OWNER, "") for at in "xy"))
    assert bound(done) == [("ns/a-x", "n0"), ("ns/a-y", "n0")]
    assert pods_of(what)["ns/a-x"].metadata.labels["kai.scheduler/queue"] == "cq"


def test_a_pod_alone_names_its_local_queue(planned):
    _, done = planned(POD % ("p", IN_QUEUE, "", ""))
    assert bound(done) == [("ns/p", "n0")]


def test_pods_go_to_the_nodes_of_their_flavor_and_tolerate_what_it_does(planned):
    what, done = planned(NODE % ("m0", "t4"), JOB % ("a", IN_QUEUE, 1))
    assert bound(done) == [("ns/a-0", "n0")]
    spec = pods_of(what)["ns/a-0"].spec
    assert spec.node_selector == {"gpu": "a100"}
    assert [it.key for it in spec.tolerations] == ["gpu"]


SELECTING = JOB.replace("spec: {containers", "spec: {nodeSelector: {gpu: t4}, containers")
AFFINE = JOB.replace(
    "spec: {containers",
    "spec: {nodeSelector: {gpu: t4}, affinity: {nodeAffinity: {"
    "requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["
    "{matchExpressions: [{key: gpu, operator: Exists}]}]}}}, containers",
)


@pytest.mark.parametrize("job", [SELECTING, AFFINE])
def test_a_pod_that_selects_other_nodes_than_those_of_its_flavor_fits_on_none(planned, job):
    _, done = planned(job % ("a", IN_QUEUE, 1), NODE % ("m0", "t4"))
    assert bound(done) == []
    assert reasons(done) == {"cq": "NoNodeAllowed"}


def test_where_no_node_has_the_labels_of_the_only_flavor_that_is_told(planned):
    """And not that the pods should select less, since they select nothing themselves."""
    job = JOB % ("a", IN_QUEUE, 1)
    what, done = planned(job, tree=TREE.replace("a100", "h9"))
    (warning,) = what.warnings
    assert warning.startswith("ResourceFlavor f is named by quotas, but no node among the files")
    assert warning.endswith("has gpu=h9: nothing can start in it")
    (record,) = Adviser(done.cycles[0]).records()
    assert (record.reason, record.advice) == ("NoNodeAllowed", ())
    assert record.message.endswith("; no node has gpu=h9, which the flavor of its queue asks for")


def test_jobs_get_the_first_flavor_of_their_queue_that_fits(planned):
    two = """
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: t},
 spec: {nodeLabels: {gpu: t4}}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: two},
 spec: {namespaceSelector: {}, resourceGroups: [
  {coveredResources: [nvidia.com/gpu], flavors: [
   {name: t, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]},
   {name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}]},
  {coveredResources: [cpu], flavors: [{name: d, resources: [{name: cpu, nominalQuota: 99}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: LocalQueue, metadata: {name: l2, namespace: ns},
 spec: {clusterQueue: two}}
---"""
    in_two = "kueue.x-k8s.io/queue-name: l2"
    jobs = [JOB % (name, in_two, 1) for name in "abcd"]
    what, done = planned(two, NODE % ("m0", "t4"), *jobs)
    assert sorted(node for _, node in bound(done)) == ["m0", "m0", "n0"]
    assert pods_of(what)["ns/a-0"].spec.node_selector == {}
    assert not [text for text in what.warnings if "is not counted" in text]


def test_the_class_of_a_workload_counts_before_that_of_its_pods(planned):
    high = f"{IN_QUEUE}, kueue.x-k8s.io/priority-class: high"
    by_pod = (
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: p}, value: 9}"
    )
    texts = (
        POD % ("plain", IN_QUEUE, "", ""),
        POD % ("high", high, "", "priorityClassName: p"),
        POD % ("low", IN_QUEUE, "", "priorityClassName: p"),
        by_pod,
    )
    what, _ = planned(*texts)
    classes = {key: pod.metadata.labels["priorityClassName"] for key, pod in pods_of(what).items()}
    assert classes == {
        "ns/plain": "kueue.x-k8s.io/0",
        "ns/high": "kueue.x-k8s.io/500",
        "ns/low": "kueue.x-k8s.io/9",
    }
    labels = pods_of(what)["ns/high"].metadata.labels
    assert labels["kai.scheduler/preemptibility"] == "preemptible"


def test_an_unknown_class_or_local_queue_is_named_once(planned):
    label = "kueue.x-k8s.io/queue-name: lqq, kueue.x-k8s.io/priority-class: hihg"
    what, done = planned(JOB % ("a", label, 2))
    assert bound(done) == []
    queue, cls = what.warnings
    assert "(Job ns/a): metadata.labels['kueue.x-k8s.io/queue-name']: no such LocalQueue" in queue
    assert "(value 'lqq'); did you mean \"lq\"?" in queue
    assert "'kueue.x-k8s.io/priority-class']: no such WorkloadPriorityClass" in cls
    assert 'did you mean "high"?' in cls


def test_a_local_queue_without_its_cluster_queue_is_an_error(planned):
    text = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: x}, spec: "
    _, done = planned(text + "{clusterQueue: cqq}}")
    (problem,) = done.problems
    assert (problem.kind, problem.path, problem.fix) == (
        "LocalQueue",
        "spec.clusterQueue",
        'did you mean "cq"?',
    )


def test_a_stopped_local_queue_stops_its_jobs_and_no_others(planned):
    running = POD % ("p", IN_QUEUE, "", "nodeName: n0")
    what, done = planned(JOB % ("a", IN_QUEUE, 1), running, stop="Hold")
    assert reasons(done) == {"ns/lq": "QueueOnHold"}
    assert pods_of(what)["ns/p"].metadata.labels["kai.scheduler/queue"] == "cq"
    _, done = planned(running, stop="HoldAndDrain")
    assert [it.pod for it in done.cycles[0].evictions] == ["ns/p"]


def test_queues_keep_the_place_where_they_were_written(planned):
    what, _ = planned()
    assert [it.name for it in what.loaded.of(Queue)] == ["cq"]
    assert what.loaded.sources["Queue", "cq"].document == 3


def test_a_cluster_queue_with_a_fault_is_named_to_its_jobs(planned):
    wrong = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: bad}, spec: "
    local = "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: "
    _, done = planned(
        wrong + "{x: 1}}\n---\n",
        local + "{name: l2, namespace: ns}, spec: {clusterQueue: bad}}\n---",
        JOB % ("a", "kueue.x-k8s.io/queue-name: l2", 1),
    )
    (record,) = done.cycles[0].records
    assert "spec.x: unknown key" in record.message
    assert (record.queue, record.reason) == ("bad", "QueueDoesNotExist")


def test_another_policy_is_warned_about(planned):
    what, _ = planned(shard="")
    assert [text for text in what.warnings if "enable the plugin fair-sharing;" in text]


def test_plans_without_kueue_keep_no_templates(planned):
    what, _ = planned(JOB % ("a", "app: y", 3))
    (job,) = [it for it in what.loaded.objects if getattr(it, "KIND", "") == "Job"]
    assert job.spec.template.spec.containers == []


def test_a_flavor_without_an_object_is_named(planned):
    more = TREE.replace("name: cq", "name: c2").replace("name: f", "name: gone")
    what, _ = planned(more.partition("---")[2].partition("---")[0])
    assert [text for text in what.warnings if "ResourceFlavor gone is named by quotas" in text]
    assert not [text for text in what.warnings if "ResourceFlavor f " in text]


@pytest.mark.parametrize(
    ("first", "nodes"),
    [("gone", "any node"), ("f", "the nodes that no other flavor of the queue has")],
)
def test_a_warning_says_which_nodes_a_flavor_without_an_object_has(planned, first, nodes):
    quota = "resources: [{name: cpu, nominalQuota: 4}]}"
    names = dict.fromkeys((first, "gone"))
    flavors = ", ".join(f"{{name: {name}, {quota}" for name in names)
    queue = (
        "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: q}, spec:"
        " {namespaceSelector: {},"
        f" resourceGroups: [{{coveredResources: [cpu], flavors: [{flavors}]}}]}}}}"
    )
    what, _ = planned(queue)
    (warning,) = [text for text in what.warnings if "ResourceFlavor gone" in text]
    assert warning.endswith(f"its pods may be on {nodes}")


BY_USAGE = """
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: pool},
 spec: {namespaceSelector: {}, admissionScope: {admissionMode: UsageBasedAdmissionFairSharing},
  resourceGroups: [{coveredResources: [nvidia.com/gpu, cpu, memory],
  flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 3},
   {name: cpu, nominalQuota: 100}, {name: memory, nominalQuota: 1Ti}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: one, namespace: ns},
 spec: {clusterQueue: pool}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: two, namespace: ns},
 spec: {clusterQueue: pool, fairSharing: {weight: 2}}}
---"""


def test_local_queues_that_are_served_by_usage_share_by_their_weights(planned):
    jobs = [
        JOB % (f"{name}-{at}", f"kueue.x-k8s.io/queue-name: {name}", 1)
        for name in ("one", "two")
        for at in range(3)
    ]
    what, done = planned(BY_USAGE, *jobs)
    assert sorted(pod for pod, _ in bound(done)) == ["ns/one-0-0", "ns/two-0-0", "ns/two-1-0"]
    (warning,) = what.warnings
    assert warning.startswith("ClusterQueue pool serves its LocalQueues by usage, but the shard")
    assert reasons(done) == {"ns/one": "QuotaExhausted", "ns/two": "QuotaExhausted"}
    spec = pods_of(what)["ns/two-0-0"].spec
    assert spec.node_selector == {"gpu": "a100"}


def test_a_stopped_local_queue_that_is_served_by_usage_is_stopped_in_its_place(planned):
    held = BY_USAGE.replace("clusterQueue: pool}", "clusterQueue: pool, stopPolicy: Hold}")
    label = "kueue.x-k8s.io/queue-name: one"
    running = POD % ("p", label, "", "nodeName: n0")
    what, done = planned(held, running, JOB % ("a", label, 1))
    assert reasons(done) == {"ns/one": "QueueOnHold"}
    assert pods_of(what)["ns/p"].metadata.labels["kai.scheduler/queue"] == "ns/one"


def test_local_queues_that_are_served_by_usage_share_the_quotas_of_all_flavors(planned):
    quotas = "resources: [{name: nvidia.com/gpu, nominalQuota: 3}"
    one, other = (quotas.replace("3}", f"{count}}}") for count in (1, 2))
    rest = "{name: cpu, nominalQuota: 100}, {name: memory, nominalQuota: 1Ti}]}"
    two = BY_USAGE.replace(quotas, one).replace(
        "{name: memory, nominalQuota: 1Ti}]}]", f"{rest[31:]}, {{name: g, {other}, {rest}]"
    )
    flavor = (
        "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: g},"
        " spec: {nodeLabels: {gpu: t4}}}\n---"
    )
    jobs = [
        JOB % (f"{name}-{at}", f"kueue.x-k8s.io/queue-name: {name}", 1)
        for name in ("one", "two")
        for at in range(3)
    ]
    _, done = planned(flavor, NODE % ("m0", "t4"), two, *jobs)
    assert done.problems == []
    assert sorted(pod for pod, _ in bound(done)) == ["ns/one-0-0", "ns/two-0-0", "ns/two-1-0"]
    assert sorted(node for _, node in bound(done)) == ["m0", "m0", "n0"]
    assert set(reasons(done)) == {"ns/one", "ns/two"}
