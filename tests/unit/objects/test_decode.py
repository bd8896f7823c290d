"""Objects from an API server and from plain values, and back."""

import json
from functools import cache

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kaisched.errors import ObjectError
from kaisched.objects.decode import (
    KINDS,
    BadObject,
    decode_event,
    decode_json,
    decode_list,
    decode_object,
    encode,
)
from kaisched.objects.faults import explain
from kaisched.objects.load import load_text
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.workloads import PriorityClass

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "ml",
        "uid": "u-1",
        "creationTimestamp": None,
        "managedFields": [{"manager": "kubectl"}],
        "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u-0", "controller": True}],
    },
    "spec": {
        "schedulerName": "kaisched",
        "containers": [
            {
                "name": "c",
                "image": "x",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 8080}],
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "z", "operator": "In", "values": ["a"]}]}
                    ]
                }
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "h"}]
            },
        },
        "tolerations": [{"operator": "Exists"}],
        "priority": 50,
        "enableServiceLinks": True,
    },
    "status": {"phase": "Running", "qosClass": "BestEffort", "conditions": None},
}


def test_a_pod_of_an_api_server_is_read_leniently():
    pod = decode_json(json.dumps(POD).encode(), Pod)
    assert pod.key == "ml/p"
    assert pod.spec.priority == 50
    assert pod.spec.containers[0].ports[0].host_port == 8080
    assert pod.status.conditions == []
    assert pod.metadata.owner_references[0].controller
    affinity = pod.spec.affinity
    assert affinity.node_affinity.required.node_selector_terms[0].match_expressions[0].key == "z"
    assert affinity.pod_anti_affinity.required[0].label_selector is None


def test_both_ways_in_mean_the_same():
    assert decode_json(json.dumps(POD).encode(), Pod) == decode_object(POD, Pod)[0]


def test_an_object_reads_back_as_it_was_written():
    pod = decode_object(POD, Pod)[0]
    assert encode(pod)["kind"] == "Pod"
    assert decode_object(encode(pod), Pod)[0] == pod


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"metadata": {"name": "q"}, "spec": {"prio": 1}}', "spec.prio"),
        (b'{"metadata": {"name": "q"}, "spec": null}', "spec"),
        (b'{"metadata": {"name": "q"}, "spec": {"parentQueue": "q"}}', "spec.parentQueue"),
        (
            b'{"metadata": {"name": "q"}, "spec": {"resources": {"a/b": {"quota": "x"}}}}',
            "spec.resources['a/b'].quota",
        ),
        (b'{"metadata": {"name": "q"}, "spec": {}', ""),
        (b"\xff", ""),
        (b"3", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_bad_answer_is_one_error_with_its_path(data, path):
    with pytest.raises(ObjectError) as caught:
        decode_json(data, Queue)
    assert caught.value.path == path


def test_all_faults_of_an_object_are_told_at_once():
    with pytest.raises(BadObject) as caught:
        decode_object({"metadata": {"name": "q"}, "spec": {"a": 1, "b": 2, "priority": "x"}}, Queue)
    assert [error.path for error in caught.value.errors] == ["spec.a", "spec.b", "spec.priority"]


def test_faults_without_number_are_cut_short():
    spec = {f"k{number}": 1 for number in range(10_000)}
    with pytest.raises(BadObject) as caught:
        decode_object({"metadata": {"name": "q"}, "spec": spec}, Queue)
    assert len(caught.value.errors) == 20


def test_one_bad_item_does_not_spoil_a_list():
    items = [{"metadata": {"name": "a"}, "spec": {}}, {"metadata": {"name": "b"}, "spec": 3}]
    answer = decode_list(
        json.dumps(
            {"metadata": {"resourceVersion": "7", "continue": "t"}, "items": items}
        ).encode(),
        Queue,
    )
    assert [queue.name for queue in answer.objects] == ["a"]
    assert [error.path for error in answer.problems] == ["spec"]
    assert (answer.resource_version, answer.next_page) == ("7", "t")
    assert decode_list(b'{"items": null}', Queue).objects == []


@pytest.mark.fault("D64")
@pytest.mark.parametrize("minimum", [-1, 2**31])
def test_a_pod_group_that_cannot_be_is_read_with_what_is_wrong(minimum):
    """The object is kept so that its pods can get a reason; one without its kind's form is not."""
    group = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": minimum}}
    event = decode_event(msgspec.json.encode({"type": "ADDED", "object": group}), PodGroup)
    assert (event.object.key, event.doubt.path) == ("ns/g", "spec.minMember")
    answer = decode_list(msgspec.json.encode({"items": [group, {"spec": 7}]}), PodGroup)
    assert [obj.key for obj in answer.objects] == ["ns/g"]
    assert [problem.name for problem in answer.problems] == [""]
    assert [doubt.name for doubt in answer.doubts] == ["g"]


@pytest.mark.fault("B38")
def test_what_a_later_version_wrote_is_read_without_what_is_new():
    """A null, which takes the slow way, changes nothing."""
    queue = {
        "metadata": {"name": "q"},
        "spec": {"colour": 1, "priority": 7, "resources": {"gpu": {"quota": 2, "burst": 3}}},
        "status": {"mood": "good"},
    }
    event = decode_event(msgspec.json.encode({"type": "ADDED", "object": queue}), Queue)
    assert (event.object.spec.priority, event.object.spec.resources["gpu"].quota) == (7, 2)
    assert event.doubt.path == "spec.colour"
    assert "unknown key" in str(event.doubt)
    group = {
        "metadata": {"name": "g"},
        "spec": {"minMember": None, "subGroups": [{"name": "x", "minMember": 1, "colour": 1}]},
    }
    (read,) = decode_list(msgspec.json.encode({"items": [group]}), PodGroup).objects
    assert [sub.min_member for sub in read.spec.sub_groups] == [1]
    for obj, type_ in ((queue, Queue), (group, PodGroup)):
        with pytest.raises(ObjectError, match="unknown key"):
            decode_json(msgspec.json.encode(obj), type_)


def test_watch_events():
    event = decode_event(
        b'{"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "8"}}}', Node
    )
    assert (event.type, event.object.name, event.resource_version) == ("ADDED", "a", "8")
    event = decode_event(
        b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}', Node
    )
    assert event == ("BOOKMARK", None, "9", {}, None)
    event = decode_event(b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}', Node)
    assert event.status["code"] == 410


@pytest.mark.fault("A17")
@given(st.binary())
@example(b'"\x80"')
def test_no_bytes_can_surprise_the_decoders(data):
    for type_ in KINDS:
        for read in (decode_json, decode_list, decode_event):
            with pytest.raises(ObjectError):
                read(data or b"x", type_)


@pytest.mark.fault("A17")
def test_a_text_that_is_no_utf_8_is_a_fault():
    bad = b'{"metadata": {"name": "\x80"}}'
    for read, data in (
        (decode_json, bad),
        (decode_event, b'{"type": "ADDED", "object": %s}' % bad),
    ):
        with pytest.raises(ObjectError, match="utf-8"):
            read(data, Node)
    (problem,) = decode_list(b'{"items": [%s]}' % bad, Node).problems
    assert "utf-8" in str(problem)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def names_in(type_, found):
    for field in msgspec.structs.fields(type_):
        found.add(field.encode_name)
        for part in msgspec.inspect.multi_type_info([field.type]):
            if isinstance(part, msgspec.inspect.StructType):
                names_in(part.cls, found)
    return found


@cache
def values_of(type_):
    """Plain values with the keys of a kind, as a strategy; to make it costs as much as examples."""
    keys = st.sampled_from(sorted(names_in(type_, {"spec", "name", "gpu", "quota", "enabled"})))
    inner = st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans(),
        lambda it: st.lists(it, max_size=3) | st.dictionaries(keys, it, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(keys, inner)


@pytest.mark.parametrize("type_", KINDS, ids=lambda it: it.KIND)
@given(data=st.data())
def test_any_plain_value_is_an_object_or_errors(type_, data):
    raw = {"metadata": {"name": "x"}, "value": 1, **data.draw(values_of(type_))}
    try:
        obj, _ = decode_object(raw, type_)
    except BadObject as bad:
        for error in bad.errors:
            str(error).encode()
    else:
        assert decode_object(encode(obj), type_)[0] is not None


@given(value=PLAIN)
def test_explaining_finds_a_fault_wherever_decoding_does(value):
    for type_ in KINDS:
        try:
            msgspec.convert(value, type_)
        except msgspec.ValidationError:
            assert list(explain(value, type_))


def test_every_field_of_the_specs_we_know_is_read():
    text = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: q}
spec:
  displayName: Q
  parentQueue: p
  priority: 1
  preemptMinRuntime: 1m
  reclaimMinRuntime: 1h
  resources:
    gpu: {quota: 0.5, limit: -1, overQuotaWeight: High}
    cpu: {quota: 1000}
    memory: {quota: 1000}
    rdma/hca: {quota: 1}
---
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: g, namespace: ml}
spec:
  minSubGroup: 1
  queue: q
  priorityClassName: train
  preemptibility: preemptible
  topologyConstraint: {topology: t, requiredTopologyLevel: rack, preferredTopologyLevel: host}
  markUnschedulable: false
  schedulingBackoff: 1
  preemptionDelay: 1m
  stalenessGracePeriod: -1s
  subGroups:
    - {name: all, minSubGroup: 1}
    - {name: leaf, parent: all, minMember: 0}
status:
  schedulingConditions: [{type: UnschedulableOnNodePool, nodePool: default, transitionID: "3"}]
  resourcesStatus: {requested: {}}
---
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: s}
spec:
  partitionLabelValue: h100
  placementStrategy: {gpu: spread, cpu: binpack}
  args: {verbosity: "5"}
  queueDepthPerAction: {allocate: 10, consolidation: 5}
  minRuntime: {preemptMinRuntime: 1m, reclaimMinRuntime: 0s}
  kValue: 0.5
  usageDBConfig:
    clientType: prometheus
    connectionString: http://prometheus:9090
    usageParams:
      halfLifePeriod: 24h
      windowSize: 1w
      windowType: cron
      tumblingWindowStartTime: 2026-07-01T00:00:00Z
      cronString: 0 0 * * 1
      fetchInterval: 1m
      stalenessPeriod: 5m
      waitTimeout: 1m
      whenStale: ignore
      extraParams:
        usageQueryTimeout: 10s
        queryResolution: 1m
        gpuAllocationMetric: kai_queue_allocated_gpus
        cpuAllocationMetric: kai_queue_allocated_cpu_cores
        memoryAllocationMetric: kai_queue_allocated_memory_bytes
        gpuCapacityMetric: sum(kube_node_status_capacity{resource="nvidia_com_gpu"})
        cpuCapacityMetric: sum(kube_node_status_capacity{resource="cpu"})
        memoryCapacityMetric: sum(kube_node_status_capacity{resource="memory"})
        replicaLabel: prometheus_replica
        bearerTokenFile: /var/run/token
        caFile: /var/run/ca.crt
  scenarioSearchBudgets:
    maxActionSearchDuration: {reclaim: 5m, preempt: 0}
    maxJobSearchDuration: 4m
    minJobSearchDuration: 0s
    maxGeneratorSearchDuration: {NodeLocalGreedy: 30s}
  goMemLimitRatio: 0.9
  plugins:
    binpack: {enabled: true, priority: 1, weight: 2, arguments: {gpu: spread}}
  actions:
    consolidation: {enabled: false, priority: 3}
  overQuotaWeights: quota
  gpuResources: [amd.com/gpu]
---
apiVersion: kai.scheduler/v1alpha1
kind: Topology
metadata: {name: t}
spec: {levels: [{nodeLabel: rack, alias: r}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: train}
value: 50
globalDefault: true
"""
    loaded = load_text(text)
    assert [str(it) for it in loaded.problems] == []
    kinds = [type(it) for it in loaded.objects]
    assert kinds == [Queue, PodGroup, SchedulingShard, Topology, PriorityClass]
    assert {warning.path for warning in loaded.warnings} == {
        "spec.args",
        "spec.goMemLimitRatio",
        "spec.scenarioSearchBudgets",
        "spec.usageDBConfig.usageParams.tumblingWindowStartTime",
    }
