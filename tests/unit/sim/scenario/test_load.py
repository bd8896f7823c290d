"""Scenarios that are made from files."""

from fractions import Fraction

import numpy as np
import pytest

from kaisched.core.axis import GPU_UNIT
from kaisched.core.devices import DeviceDemand
from kaisched.errors import ConfigError
from kaisched.sim.scenario.load import read_scenario
from kaisched.sim.ticks import FOREVER
from kaisched.sim.workload import PodKind
from kaisched.units import MEBIBYTE, UNLIMITED

HOUR_S = 3600.0
KAI = """
Cycles: 1024
WindowSize: 256
HalfLifePeriod: 128
KValue: 1.5
Nodes:
  - GPUs: 16
    Count: 2
  - GPUs: 8
Queues:
  - Name: department
    Parent: ""
  - Name: q1
    Parent: department
    Priority: 200
    DeservedGPUs: 4
    Weight: 3
Jobs:
  q1:
    GPUs: 2
    NumPods: 3
    NumJobs: 5
"""


def read(tmp_path, text, **more):
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    return read_scenario(path, **more)


def test_the_yaml_of_kais_simulator_is_read_as_it_is(tmp_path):
    scenario = read(tmp_path, KAI)
    assert (scenario.end_tick, scenario.pace.step_s, scenario.pace.recheck) == (1024, 1, 1)
    gpus = [node.allocatable["gpu"] // GPU_UNIT for node in scenario.nodes]
    assert gpus == [16, 16, 8]
    department, queue = scenario.queues
    assert (queue.parent, queue.priority) == ("department", 200)
    assert (queue.quota["gpu"], queue.limit["gpu"], queue.weight["gpu"]) == (4000, UNLIMITED, 3)
    assert (department.quota["gpu"], scenario.leaves) == (0, ["q1"])
    assert len(scenario.planned) == 5
    job = scenario.planned[0]
    assert (job.gpus, job.ticks, len(job.kind.pods), job.submitted_s) == (6, FOREVER, 3, 0)
    assert scenario.shard.spec.k_value == 1.5
    assert (scenario.usage.window.half_life_s, scenario.usage.window.size_s) == (128, 256)


def test_kais_jobs_may_have_parts_of_gpus(tmp_path):
    (kind,) = {job.kind for job in read(tmp_path, KAI.replace("GPUs: 2", "GPUs: 0.5")).planned}
    assert [pod.devices for pod in kind.pods] == [DeviceDemand(500_000)] * 3


MEMORY = """
time: {duration: 1d}
nodes: [{count: 2, gpus: 1, gpuMemory: 40Gi}, {name: large, gpus: 2, gpuMemory: 80Gi}]
queues: [{name: q}]
jobs:
  - {queue: q, gpuMemory: 20Gi, arrivals: {every: 12h}, duration: 1h}
  - queue: q
    sizes: [{gpuMemory: 10000.5Mi, cards: 2, pods: 3, share: 1}, {gpus: 2}]
    arrivals: {backlog: endless}
    duration: 1h
"""


def test_jobs_may_ask_for_memory_of_gpus(tmp_path):
    scenario = read(tmp_path, MEMORY)
    assert [node.card_mib for node in scenario.nodes] == [40960, 40960, 81920]
    (kind,) = {job.kind for job in scenario.planned}
    assert [pod.devices for pod in kind.pods] == [DeviceDemand(0, 20480)]
    assert (kind.gpus, kind.pods[0].cpu) == (Fraction(1, 2), 2000), "half of the smallest GPU"
    (backlog,) = scenario.backlogs
    first, second = backlog.bodies.sizes
    assert [pod.devices for pod in first.kind.pods] == [DeviceDemand(0, 10000, 2)] * 3
    assert (first.gpus, second.gpus) == (Fraction(3 * 2 * 244, 1000), 2)
    assert backlog.depth == 4 * 1000 // (3 * 2 * 122) + 1, "as many as fit on the largest GPUs"
    assert scenario.warnings == ()


def test_more_memory_than_any_gpu_has_is_told(tmp_path):
    (warning,) = read(tmp_path, MEMORY.replace("20Gi", "90Gi")).warnings
    assert warning.endswith("jobs[0].gpuMemory: no GPU has 92160 MiB, so these jobs wait for ever")


def test_kais_defaults_are_kais(tmp_path):
    scenario = read(tmp_path, "Nodes: [{GPUs: 1}]\nQueues: [{Name: a}]\nJobs: {a: {GPUs: 1}}\n")
    assert (scenario.end_tick, scenario.shard.spec.k_value) == (100, 1.0)
    assert (scenario.usage.window.half_life_s, scenario.usage.window.size_s) == (None, 5)
    assert len(scenario.planned) == 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (KAI.replace("KValue", "KValeu"), 'KValeu: unknown key; did you mean "KValue"?'),
        (KAI.replace("Cycles: 1024", "Cycles: 0"), "Cycles: is out of range (value 0)"),
        (KAI.replace("GPUs: 2", "GPUs: 1.5"), "Jobs.q1.GPUs: is not whole (value 1.5)"),
        (KAI.replace("GPUs: 16", "GPUs: many"), "Nodes[0].GPUs: expected a whole number"),
    ],
)
def test_a_fault_in_kais_yaml_is_told_in_kais_words(tmp_path, text, line):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/s.yaml: {line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "s.yaml: is empty"),
        ("- a", "s.yaml: is not a mapping"),
        ("time: [", "s.yaml:2: no YAML"),
        ("seed: 1\nseed: 2", "s.yaml:2: key 'seed' is given twice"),
    ],
)
def test_a_file_that_is_no_scenario(tmp_path, text, line):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/{line}")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_scenario(tmp_path / "none.yaml")


def test_whole_queue_objects_and_short_ones_come_to_the_same(scenario):
    short = {"name": "b", "quota": 4, "limit": 8, "overQuotaWeight": 2, "reclaimMinRuntime": "5m"}
    whole = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "b"},
        "spec": {
            "resources": {"gpu": {"quota": 4, "limit": 8, "overQuotaWeight": 2}},
            "reclaimMinRuntime": "5m",
        },
    }
    one, other = (scenario(queues=[{"name": "a"}, queue]).queues[1] for queue in (short, whole))
    assert one == other
    assert one.reclaim_min_runtime_s == 300


def test_a_queue_that_is_odd_is_told_and_used(scenario):
    read = scenario(queues=[{"name": "a", "quota": 4, "limit": 2}])
    assert len(read.warnings) == 1
    assert "queues[0]" in read.warnings[0]
    assert read.leaves == ["a"]


def test_nodes_of_several_kinds_have_what_they_are_given(scenario):
    nodes = [
        {
            "name": "big",
            "count": 2,
            "gpus": 8,
            "cpu": 96,
            "memory": "1Ti",
            "labels": {"rack": "r1"},
        },
        {"name": "cpu", "cpu": "500m"},
    ]
    big, _, small = scenario(nodes=nodes).nodes
    assert big.allocatable == {"cpu": 96_000, "memory": MEBIBYTE << 20, "gpu": 8_000, "pods": 110}
    assert (big.name, big.labels) == ("big-0", {"rack": "r1"})
    assert (small.allocatable["cpu"], small.allocatable["gpu"]) == (500, 0)


def test_failures_are_drawn_for_each_node_and_last_within_reason(scenario):
    failures = {"meanTimeBetween": "10h", "meanTimeToRepair": "1h"}
    nodes = [{"count": 20, "gpus": 1, "failures": failures}]
    read = scenario(nodes=nodes, time={"duration": "1000h"})
    downs = [it for it in read.outages if not it.is_ready]
    assert len(downs) == pytest.approx(20 * 1000 / 11, rel=0.1)
    assert [it.tick for it in read.outages] == sorted(it.tick for it in read.outages)
    first = read.outages[0].node
    states = [it.is_ready for it in read.outages if it.node == first]
    assert states[:4] == [False, True, False, True]


def test_planned_outages_that_overlap_are_one(scenario):
    outages = [{"at": "1h", "until": "3h"}, {"at": "2h", "until": "4h"}, {"at": "5h"}]
    read = scenario(nodes=[{"count": 2, "gpus": 1, "outages": outages}])
    told = [(it.tick, it.node, it.is_ready) for it in read.outages]
    assert told == [(60, "node-0", False), (240, "node-0", True), (300, "node-0", False)]


def test_another_group_of_jobs_changes_nothing_about_the_first(scenario):
    job = {
        "queue": "a",
        "name": "x",
        "arrivals": {"poissonPerHour": 20},
        "duration": {"exponential": "1h"},
    }
    more = {**job, "queue": "b", "name": "y"}
    alone = scenario(jobs=[job]).planned
    beside = [it for it in scenario(jobs=[more, job]).planned if it.group == "x"]
    assert [it.submitted_s for it in alone] == [it.submitted_s for it in beside]
    assert [it.ticks for it in alone] == [it.ticks for it in beside]


def test_the_seed_decides(scenario):
    job = {"queue": "a", "arrivals": {"poissonPerHour": 20}, "duration": "1h"}
    first, again, other = (scenario(jobs=[job], seed=seed).planned for seed in (1, 1, 2))
    assert [it.submitted_s for it in first] == [it.submitted_s for it in again]
    assert [it.submitted_s for it in first] != [it.submitted_s for it in other]


def test_a_seed_and_a_shard_of_the_command_line_stand_in(tmp_path):
    shard = tmp_path / "shard.yaml"
    shard.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\n"
        "metadata: {name: s}\nspec: {kValue: 3}\n",
        encoding="utf-8",
    )
    text = (
        "time: {duration: 1h}\nnodes: [{gpus: 1}]\nqueues: [{name: a}]\nshard: {kValue: 1}\n"
        "jobs: [{queue: a, arrivals: {every: 1h}, duration: 1h}]\n"
    )
    scenario = read(tmp_path, text, seed=7, shard_file=shard)
    assert (scenario.seed, scenario.shard.spec.k_value) == (7, 3)
    assert read(tmp_path, text).shard.spec.k_value == 1


def test_arrivals_each_bring_several_up_to_a_count(scenario):
    job = {"queue": "a", "arrivals": {"at": ["2h", "1h"], "each": 3}, "count": 4, "duration": "1h"}
    instants = [it.submitted_s for it in scenario(jobs=[job]).planned]
    assert instants == [HOUR_S] * 3 + [2 * HOUR_S]


def test_jobs_ask_for_what_they_are_given(scenario):
    job = {
        "queue": "a",
        "arrivals": {"at": ["0s"]},
        "duration": "1h",
        "gpus": 2,
        "pods": 2,
        "cpu": "500m",
        "memory": "1Gi",
        "priority": 90,
        "preemptible": False,
        "checkpointEvery": "never",
    }
    kind = scenario(jobs=[job]).planned[0].kind
    assert kind.pods == (PodKind(500, 1024 * MEBIBYTE, 2 * GPU_UNIT),) * 2
    assert (kind.priority, kind.is_preemptible, kind.checkpoint_ticks) == (90, False, FOREVER)


@pytest.mark.parametrize(
    ("changes", "recheck"),
    [
        ({}, 0),
        ({"usage": {"halfLife": "1h"}}, 10),
        ({"shard": {"usageDBConfig": {"clientType": "memory"}}}, 10),
        ({"shard": {"minRuntime": {"reclaimMinRuntime": "1h"}}}, 10),
        ({"queues": [{"name": "a", "reclaimMinRuntime": "1h"}]}, 10),
        ({"time": {"duration": "1h", "recheck": "3m"}}, 3),
    ],
)
def test_cycles_run_in_between_where_time_alone_changes_decisions(scenario, changes, recheck):
    assert scenario(**changes).pace.recheck == recheck


def test_usage_of_the_scenario_stands_in_for_that_of_the_shard(scenario):
    shard = {"usageDBConfig": {"clientType": "memory", "usageParams": {"halfLifePeriod": "10m"}}}
    assert scenario(shard=shard).usage.window.half_life_s == 600
    said = scenario(shard=shard, usage={"window": "2d", "windowType": "tumbling"}).usage.window
    assert (said.half_life_s, said.size_s, said.type) == (None, 172_800, "tumbling")
    assert scenario().usage is None


def test_hours_keep_jobs_away_from_nights_and_weekends(scenario):
    job = {"queue": "a", "arrivals": {"poissonPerHour": 20}, "hours": {}, "duration": "1h"}
    planned = scenario(jobs=[job], time={"duration": "14d", "startsOn": "sun"}).planned
    instants = np.array([it.submitted_s for it in planned])
    hour, day = instants % 86_400 / 3600, instants // 86_400 % 7
    assert len(planned) == pytest.approx(20 * 8 * 10, rel=0.1)
    assert ((hour >= 9) & (hour < 17)).all()
    assert set(day.tolist()) == {1, 2, 3, 4, 5}


def test_jobs_that_fit_nowhere_are_told_of(scenario):
    job = {"queue": "a", "arrivals": {"at": ["0s"]}, "gpus": 5, "duration": "1h"}
    (warning,) = scenario(jobs=[job]).warnings
    assert warning.endswith("jobs[0].gpus: no node has 5 GPUs, so these jobs wait for ever")


def test_a_null_counts_as_absent(scenario):
    assert scenario(description=None, usage=None, time={"duration": "1h", "recheck": None}).leaves


FROM_MANIFESTS = """
time: {duration: 1h}
nodes: [{gpus: 8}]
queuesFrom: q.yaml
jobs: [{queue: a, arrivals: {at: [0s]}, duration: 1m}]
"""
MANIFESTS = """
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: z}, spec: {}}
---
{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: a},
 spec: {cohort: c, namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu],
  flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: %s}]}]}]}}
"""


def test_queues_come_from_manifests_ours_and_those_of_kueue(tmp_path):
    (tmp_path / "q.yaml").write_text(MANIFESTS % 4, encoding="utf-8")
    scenario = read(tmp_path, FROM_MANIFESTS)
    assert [(row.name, row.parent) for row in scenario.queues] == [("a", "c"), ("c", ""), ("z", "")]
    assert scenario.queues[0].quota["gpu"] == 4000
    assert any("no quota of cpu and memory" in text for text in scenario.warnings)


@pytest.mark.parametrize(
    ("manifests", "more", "told"),
    [
        (MANIFESTS % "5x", "", "q.yaml: spec.resourceGroups[0].flavors[0].resources[0]"),
        ("", "", "queuesFrom: holds no queues"),
        (MANIFESTS % 4, "queues: [{name: a}]", "queuesFrom: conflicts with queues"),
    ],
)
def test_manifests_that_cannot_be_used_are_named(tmp_path, manifests, more, told):
    (tmp_path / "q.yaml").write_text(manifests, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, FROM_MANIFESTS + more)
    assert told in str(caught.value)


def test_a_bundled_trace_is_found_by_its_name_with_its_nodes(scenario):
    read = scenario(
        nodes=[{"trace": "openb-2023"}], traces=[{"path": "openb-2023", "queue": "a"}], jobs=[]
    )
    assert len(read.nodes) == 1523
    assert read.warnings == ("897 pods of openb-2023 never ran to an end and are left out",)
