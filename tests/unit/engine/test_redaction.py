"""Redacted recordings: no names are left, and the cycle decides as before."""

import json

import msgspec
import numpy as np
import pytest

from kaisched.clock import ManualClock
from kaisched.core.refusals import Refusal
from kaisched.engine.planning import fill, open_cluster
from kaisched.engine.policy import build_policy
from kaisched.engine.recording import encoded, record, replay, sealed
from kaisched.engine.redaction import Aliases, redacted
from kaisched.objects.decode import decode_object
from kaisched.objects.load import load_text
from kaisched.objects.node import NodeSpec, NodeStatus, TopologyLevel
from kaisched.objects.pod import (
    ClaimReference,
    ClaimSpec,
    ClaimStatus,
    Container,
    ContainerStatus,
    DisruptionBudgetSpec,
    DisruptionBudgetStatus,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PodVolume,
    StorageClass,
    TopologySpreadConstraint,
    VolumeSpec,
)
from kaisched.objects.podgroup import TopologyConstraint
from kaisched.objects.queue import QueueSpec
from kaisched.objects.shard import SchedulingShard

NOW_S = 1_800_000_000.0
MANIFESTS = """
apiVersion: v1
kind: Node
metadata:
  name: acme-node-1
  labels:
    {kubernetes.io/hostname: acme-node-1, acme.com/rack: acme-r7, acme.com/unused: acme-secret,
     nvidia.com/gpu.product: acme-x100, kai.scheduler/node-pool: acme-pool}
  annotations: {acme.com/owner: acme-jane}
spec: {taints: [{key: acme.com/team, value: acme-vision, effect: NoSchedule}]}
status:
  allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}
  conditions: [{type: Ready, status: "True", reason: acme-reason, message: acme-message}]
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: acme-dept, labels: {kai.scheduler/node-pool: acme-pool}}
spec: {displayName: acme-display, resources: {gpu: {quota: 8}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: acme-vision, labels: {kai.scheduler/node-pool: acme-pool}}
spec:
  parentQueue: acme-dept
  resources: {gpu: {limit: 6}}
  flavors:
  - {name: acme-flavor, nodeLabels: {acme-kind: acme-old}, resources: {gpu: {quota: 4}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: acme-class}
value: 70
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: acme-dc}
spec: {levels: [{nodeLabel: acme.com/rack, alias: acme-near}]}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  {name: acme-gang, namespace: acme-ns, labels: {kai.scheduler/node-pool: acme-pool}}
spec:
  queue: acme-vision
  minSubGroup: 2
  priorityClassName: acme-class
  topologyConstraint: {topology: acme-dc, requiredTopologyLevel: acme-near}
  subGroups: [{name: acme-lead, minMember: 1}, {name: acme-work, minMember: 1}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: acme-job, namespace: acme-ns, uid: acme-uid, labels: {project: acme-old}}
spec: {parallelism: 1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: acme-data
  namespace: acme-ns
  annotations: {volume.kubernetes.io/selected-node: acme-node-1}
spec: {volumeName: acme-volume, storageClassName: acme-disks, accessModes: [ReadWriteMany]}
status: {phase: Bound}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: acme-volume}
spec:
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: acme.com/rack, operator: In, values: [acme-r7]}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: acme-disks}
provisioner: acme.com/disks
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: acme.com/rack, values: [acme-r7]}]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: acme-zbudget, namespace: acme-ns}
spec:
  selector:
    matchLabels: {app: acme-app}
    matchExpressions: [{key: acme.com/person, operator: In, values: [acme-jane]}]
status: {disruptionsAllowed: 2, disruptedPods: {acme-zgone: "2026-07-01T12:00:00Z"}}
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: acme-ns
  labels: {{kai.scheduler/queue: acme-vision, kai.scheduler/subgroup-name: {subgroup},
    kai.scheduler/node-pool: acme-pool, app: acme-app, acme.com/person: acme-jane}}
  annotations: {{{note} acme.com/cost: acme-cost}}
  ownerReferences: [{{apiVersion: batch/v1, kind: Job, name: acme-job, uid: acme-uid,
    controller: true}}]
spec:
  schedulerName: kaisched
  nodeSelector: {{acme.com/rack: acme-r7}}
  tolerations: [{{key: acme.com/team, operator: Equal, value: acme-vision}}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: [{{key: nvidia.com/gpu.product, operator: In, values: [acme-x100]}}]
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        namespaces: [acme-ns]
        labelSelector: {{matchLabels: {{app: acme-none}}}}
  volumes:
  - name: acme-scratch
    emptyDir: {{}}
  - name: acme-store
    persistentVolumeClaim: {{claimName: acme-data}}
  containers:
  - name: acme-main
    ports: [{{containerPort: 80, hostPort: {port}, hostIP: 10.1.2.3}}]
    resources: {{limits: {{nvidia.com/gpu: "1"}}}}
"""


@pytest.fixture
def recording():
    """One node that takes a gang; everything that can have a name has a name."""
    return recorded()


def recorded(change=lambda text: text, problems=0):
    pods = [
        POD.format(
            name=f"acme-{part}",
            subgroup=f"acme-{part}",
            note="pod-group-name: acme-gang,",
            port=8000 + number,
        )
        for number, part in enumerate(("lead", "work"))
    ]
    pods.append(POD.format(name="acme-alone", subgroup="", note="", port=8002))
    shard, _ = decode_object(
        {"metadata": {"name": "acme-shard"}, "spec": {"partitionLabelValue": "acme-pool"}},
        SchedulingShard,
    )
    loaded = load_text(MANIFESTS + change("".join(pods)))
    policy, _ = build_policy(shard)
    cluster = open_cluster(shard, policy, ManualClock(NOW_S))
    assert len([*loaded.problems, *fill(cluster, loaded)]) == problems
    cluster.snapshot()
    made = record(
        "manifests",
        cluster.state(),
        shard,
        policy,
        schedulers=["kaisched"],
        now_s=NOW_S,
        facts={
            "stalegang": {"acme-ns/acme-gang": 5.0, "acme-ns/acme-gone": 7.0},
            "acme-plugin": {"acme": 1},
            "turns": [[1, 2, NOW_S]],
        },
    )
    return sealed(made, replay(made).result)


def test_no_name_is_left(recording):
    assert encoded(recording).count(b"acme") > 50
    text = encoded(redacted(recording).recording).decode()
    assert "acme" not in text
    assert "10.1.2.3" not in text
    assert json.loads(text)["redacted"] is True


def test_the_same_pods_are_bound(recording):
    bare, warnings = redacted(recording)
    before, after = replay(recording).result, replay(bare).result
    assert [it.pod.removeprefix("acme-ns/acme-") for it in before.binds] == [
        "lead",
        "work",
        "alone",
    ]
    assert [it.pod for it in after.binds] == [
        "namespace-1/pod-2",
        "namespace-1/pod-3",
        "namespace-1/pod-1",
    ]
    assert {it.node for it in after.binds} == {"node-1"}
    assert warnings == ["what plugin acme-plugin remembers is left out: it may hold names"]


def test_disruption_budgets_protect_the_same_pods():
    on_node = "status: {phase: Running}\nspec:\n  nodeName: acme-node-1\n"
    running = recorded(lambda text: text.replace("spec:\n", on_node))
    found = []
    for each in (running, redacted(running).recording):
        snapshot = replay(each).snapshot
        budgets = snapshot.disruption_budgets
        found.append((budgets.allowed.tolist(), sorted(budgets.of_task.tolist())))
    assert found[0] == found[1] == ([2], [0, 0, 0])


def test_the_type_of_a_workload_is_kept():
    label = "app: acme-app, kaisched.io/workload-type: inference"
    typed = recorded(lambda text: text.replace("app: acme-app", label))
    found = [
        sorted(jobs.workload_of(np.arange(len(jobs.name))).tolist())
        for each in (typed, redacted(typed).recording)
        for jobs in [replay(each).snapshot.jobs]
    ]
    assert found[0] == found[1] == [0, 2]


def test_pods_go_where_the_same_volumes_are_and_wait_for_the_same_claims(recording):
    def wishes(each):
        snapshot = replay(each).snapshot
        return sorted(
            (len(it.volume_terms), it.wait and it.wait[0]) for it in snapshot.shapes.constraints
        )

    away = [it for it in recording.objects if b'"PersistentVolumeClaim"' not in bytes(it)]
    without = msgspec.structs.replace(recording, objects=away)
    for each, said in ((recording, (1, None)), (without, (0, int(Refusal.VOLUME_CLAIM)))):
        assert set(wishes(each)) == {said}
        assert wishes(redacted(each).recording) == wishes(each)
    assert "acme" not in encoded(redacted(without).recording).decode()


def test_who_was_evicted_at_the_cost_of_a_budget_has_another_name(recording):
    told = msgspec.structs.replace(recording, disrupted=["acme-ns/acme-lead"])
    assert redacted(told).recording.disrupted == ["namespace-1/pod-2"]


@pytest.mark.parametrize("what", ["stuck", "without_owner"])
def test_who_does_not_end_or_waits_for_its_owner_has_another_name(recording, what):
    told = msgspec.structs.replace(recording, **{what: ["acme-ns/acme-lead"]})
    assert getattr(redacted(told).recording, what) == ["namespace-1/pod-2"]


def test_what_is_remembered_follows_the_new_names(recording):
    facts = redacted(recording).recording.facts
    assert facts == {"stalegang": {"namespace-1/job-1": 5.0}}


def test_redacting_twice_gives_the_same_bytes(recording):
    once = redacted(recording).recording
    assert encoded(redacted(once).recording) == encoded(once)


def test_aliases_keep_the_order_of_names():
    names = ["b", "a", "a-1", "a.b", "c10", "c9"]
    alias = Aliases(frozenset())
    for name in names:
        alias("pod", name)
        alias("namespace", name)
    alias.settle()
    assert sorted(names) == sorted(names, key=lambda name: alias("pod", name))
    keys = [f"{one}/{two}" for one in names for two in names]

    def new(key):
        namespace, _, name = key.partition("/")
        return f"{alias('namespace', namespace)}/{alias('pod', name)}"

    assert sorted(keys) == sorted(keys, key=new)


def test_one_name_has_one_alias_whatever_it_is_used_for():
    alias = Aliases(frozenset({"default"}))
    for use in ("value", "queue", "pod"):
        alias(use, "research")
    alias("queue", "default")
    alias.settle()
    assert {alias(use, "research") for use in ("value", "queue", "pod")} == {"queue-1"}
    assert alias("queue", "default") == "default"
    assert alias("value", "12") == "12"
    assert alias("key", "topology.kubernetes.io/zone") == "topology.kubernetes.io/zone"
    assert alias.known("pod", "never met") is None


SPREAD = """spec:
  topologySpreadConstraints:
  - {topologyKey: acme.com/rack, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway,
     labelSelector: {matchLabels: {app: acme-app}}, matchLabelKeys: [acme.com/revision]}
"""
NEAR = """  affinity:
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 7
        podAffinityTerm:
          topologyKey: acme.com/rack
          labelSelector: {matchLabels: {app: acme-app}}
          mismatchLabelKeys: [acme.com/tenant]
"""


def test_what_pods_prefer_is_kept_under_other_names():
    own = "app: acme-app, acme.com/revision: acme-1, acme.com/tenant: acme-me"
    asks = recorded(
        lambda text: (
            text.replace("app: acme-app", own)
            .replace("spec:\n", SPREAD)
            .replace("  affinity:\n", NEAR)
        )
    )
    found = []
    for each in (asks, redacted(asks).recording):
        assert each is asks or b"acme" not in encoded(each)
        (wishes,) = {it.preferences for it in replay(each).snapshot.shapes.constraints}
        ((weight, near),), (rule,) = wishes.pods, wishes.spread
        terms = [sorted(one.operator for one in it.selector) for it in (near, rule.pods)]
        found.append((weight, terms))
    assert found[0] == found[1] == (7, [["In", "NotIn"], ["In", "In"]])


@pytest.mark.parametrize("disk", ["iscsi: {iqn: acme-iqn}", "rbd: {image: acme-image}"])
def test_a_disk_of_a_pod_is_kept_without_its_name(disk):
    asks = recorded(lambda text: text.replace("emptyDir: {}", disk), problems=3)
    for each in (asks, redacted(asks).recording):
        assert b"acme-i" not in encoded(each)
        assert {it.reason for it in replay(each).result.records} == {"Unsupported"}


KNOWN = {
    QueueSpec: """displayName parentQueue resources priority preemptMinRuntime reclaimMinRuntime
        fairSharing preemption flavors flavorFungibility admissionScope stopPolicy nodePools
        maxRunTime nodeAffinity""",
    NodeSpec: "unschedulable taints",
    NodeStatus: "allocatable capacity conditions",
    DisruptionBudgetSpec: "selector unhealthyPodEvictionPolicy",
    DisruptionBudgetStatus: """disruptionsAllowed currentHealthy desiredHealthy observedGeneration
        disruptedPods""",
    PodStatus: """phase nominatedNodeName conditions startTime reason resourceClaimStatuses
        containerStatuses initContainerStatuses allocatedResources resources resize""",
    ContainerStatus: "name allocatedResources resources",
    PodSpec: """schedulerName nodeName nodeSelector affinity tolerations priority priorityClassName
        preemptionPolicy containers initContainers resources overhead hostNetwork hostUsers
        schedulingGates
        resourceClaims schedulingGroup volumes
        topologySpreadConstraints terminationGracePeriodSeconds""",
    Container: "name resources ports restartPolicy restartPolicyRules",
    PodAffinityTerm: """topologyKey labelSelector namespaces namespaceSelector matchLabelKeys
        mismatchLabelKeys""",
    TopologySpreadConstraint: """maxSkew topologyKey whenUnsatisfiable labelSelector matchLabelKeys
        minDomains nodeAffinityPolicy nodeTaintsPolicy""",
    PodVolume: """name persistentVolumeClaim ephemeral awsElasticBlockStore gcePersistentDisk iscsi
        rbd""",
    ClaimSpec: (
        "volumeName storageClassName accessModes resources selector volumeMode"
        " volumeAttributesClassName"
    ),
    ClaimReference: "namespace name uid",
    ClaimStatus: "phase",
    VolumeSpec: (
        "nodeAffinity storageClassName accessModes capacity claimRef volumeMode"
        " volumeAttributesClassName"
    ),
    TopologyLevel: "nodeLabel alias",
    TopologyConstraint: "topology requiredTopologyLevel preferredTopologyLevel",
    StorageClass: "metadata provisioner volumeBindingMode allowedTopologies",
}


@pytest.mark.parametrize("struct", KNOWN)
def test_every_field_was_looked_at(struct):
    """A new field may hold a name: handle it in redacted_objects, then add it here."""
    fields = {it.encode_name for it in msgspec.structs.fields(struct)}
    assert fields == set(KNOWN[struct].split())
