"""Readers of foreign traces: the jobs they return, and the faults they report."""

import gzip
from fractions import Fraction

import pytest

from kaisched.core.axis import GPU_UNIT
from kaisched.core.devices import DeviceDemand
from kaisched.errors import ConfigError
from kaisched.sim.traces import read_nodes, read_openb, read_swf, read_table
from kaisched.sim.workload import PodKind
from kaisched.units import MEBIBYTE

SWF = """; Version: 2.2
; Computer: none
1 0 10 3600 16 -1 -1 16 -1 -1 1 3 7 1 1 -1 -1 -1
2 60 -1 -1 -1 -1 -1 16 -1 -1 0 3 7 1 1 -1 -1 -1

3 120.5 10 600 -1 -1 -1 24 -1 -1 1 4 7 1 -1 -1 -1 -1  ; asked for only
"""
PODS = (
    "pod,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_s,scheduled_s,"
    "deletion_s\n"
    "0,12000,16384,1,1000,,LS,Running,5,10,110\n"
    "1,6000,12288,1,460,V100M32|T4,BE,Running,20,30,40\n"
    "2,6000,12288,0,0,,,Pending,20,,50\n"
)
NODES = "node,cpu_milli,memory_mib,gpu,model\n0,32000,262144,0,\n11,96000,393216,8,T4\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def error_of(read, *args):
    with pytest.raises(ConfigError) as caught:
        read(*args)
    return str(caught.value).rpartition("/")[2]


def test_swf_has_processors_for_gpus_and_columns_for_queues(write):
    read = read_swf(write("t.swf", SWF), "queue", 8)
    rows = [(row.submit_s, row.duration_s, row.queue, row.gpus) for row in read.rows]
    assert rows == [(0, 3600, "queue-1", 2), (120.5, 600, "queue-unknown", 3)]
    assert read.warnings == ("1 jobs of t.swf have no run time or processors and are left out",)
    assert {row.queue for row in read_swf(write("t.swf", SWF), "user", 1).rows} == {
        "user-3",
        "user-4",
    }
    assert {row.queue for row in read_swf(write("t.swf", SWF), "group", 1).rows} == {"group-7"}


def test_swf_may_be_compressed(tmp_path):
    path = tmp_path / "t.swf.gz"
    with gzip.open(path, "wt") as file:
        file.write(SWF)
    assert len(read_swf(path, "queue", 1).rows) == 2


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("1 2 3", "t.swf:1: 3 values where the format has 18 (value '1 2 3')"),
        (SWF.splitlines()[2].replace("3600", "x"), "t.swf:1: field 4: is not a number (value 'x')"),
        (SWF.splitlines()[2].replace("1 0 10", "1 -5 10"), "t.swf:1: field 2: is out of range"),
        (SWF.splitlines()[2].replace(" 16 ", " 9999999 ", 1), "t.swf:1: asks for too much"),
    ],
)
def test_a_wrong_line_of_swf_is_named(write, line, complaint):
    assert error_of(read_swf, write("t.swf", line + "\n"), "queue", 1).startswith(complaint)


def test_openb_keeps_parts_of_gpus_and_the_models(write, tmp_path):
    write("pods.csv", PODS)
    read = read_openb(tmp_path)
    first, second = read.rows
    assert (first.submit_s, first.duration_s, first.queue, first.gpus) == (5, 100, "ls", 1)
    assert first.kind.pods == (PodKind(12_000, 16_384 * MEBIBYTE, GPU_UNIT),)
    labels = (("gpu-model", ("V100M32", "T4")),)
    part = DeviceDemand(460_000)
    assert second.kind.pods == (PodKind(6_000, 12_288 * MEBIBYTE, 0, labels, part),)
    assert (second.gpus, second.kind.pods[0].milli_gpus) == (Fraction(46, 100), 460)
    assert read.warnings[0].startswith("1 pods of ")


def test_openb_nodes_have_their_model_as_a_label(write, tmp_path):
    write("nodes.csv", NODES)
    plain, large = read_nodes(tmp_path, "n")
    assert (plain.name, plain.labels, plain.allocatable["gpu"]) == ("n-00", {}, 0)
    assert (large.name, large.labels) == ("n-11", {"gpu-model": "T4"})
    assert large.allocatable == {
        "cpu": 96_000,
        "memory": 393_216 * MEBIBYTE,
        "gpu": 8_000,
        "pods": 110,
    }


def test_pods_go_only_to_nodes_with_the_model_they_name(scenario, tmp_path, write):
    """Both pods ask for a T4; one node has one, and a larger node has none."""
    from kaisched.sim.running import policy_of, run_scenario

    write("pods.csv", PODS.replace("V100M32|T4", "T4").replace("1000,,LS", "1000,T4,LS"))
    write("nodes.csv", NODES.replace("8,T4", "1,T4") + "12,96000,393216,8,G1\n")
    read = scenario(
        tmp_path,
        nodes=[{"trace": "."}],
        queues=[],
        jobs=[],
        traces=[{"path": "."}],
        time={"duration": "10m", "step": "1s"},
    )
    run = run_scenario(read, policy_of(read)[0])
    used = dict(zip(run.node_names, run.record.nodes.means().sum(axis=1), strict=True))
    assert used["node-11"] > 0
    assert used["node-00"] == used["node-12"] == 0
    assert [log.started for log in run.record.jobs] == [5, 105]


def test_a_table_of_jobs_with_everything(write):
    text = (
        "submit_s,duration_s,gpus,queue,pods,cpu,memory,priority,preemptible\n"
        "0,60,4,a,2,1000,2048,90,false\n"
        "5,60,1,b,,,,,\n"
    )
    first, second = read_table(write("jobs.csv", text)).rows
    assert first.kind.pods == (PodKind(1000, 2048 * MEBIBYTE, 4 * GPU_UNIT),) * 2
    assert (first.gpus, first.kind.priority, first.kind.is_preemptible) == (8, 90, False)
    assert second.kind.pods == (PodKind(4000, 16_384 * MEBIBYTE, GPU_UNIT),)
    assert (second.kind.priority, second.kind.is_preemptible) == (50, True)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("0,60,1.5,a,true", "jobs.csv:2: gpus: is not whole (value '1.5')"),
        ("0,60,1,,true", "jobs.csv:2: queue: is no name (value '')"),
        ("0,60,1,a,perhaps", "jobs.csv:2: preemptible: is neither true nor false (value 'perhaps'"),
        ("0,-1,1,a,true", "jobs.csv:2: duration_s: is out of range (value '-1')"),
    ],
)
def test_a_wrong_row_of_a_table_is_named(write, row, complaint):
    path = write("jobs.csv", f"submit_s,duration_s,gpus,queue,preemptible\n{row}\n")
    assert error_of(read_table, path).startswith(complaint)


def test_a_trace_may_go_into_one_queue_from_an_instant_on(scenario, tmp_path, write):
    write("jobs.csv", "submit_s,duration_s,gpus,queue\n0,60,1,x\n3600,60,2,y\n9000,60,3,y\n")
    read = scenario(
        tmp_path, jobs=[], traces=[{"path": "jobs.csv", "queue": "b", "begin": "1h", "end": "2h"}]
    )
    assert [(job.submitted_s, job.gpus, job.queue) for job in read.planned] == [(0, 2, 1)]


def test_queues_come_from_the_trace_where_the_scenario_names_none(scenario):
    line = {"path": "philly-2017", "begin": "28d", "quota": "published"}
    read = scenario(jobs=[], queues=[], traces=[line], nodes=[{"count": 44, "gpus": 8}])
    assert len(read.leaves) == 15
    weights = [queue.weight["gpu"] for queue in read.queues]
    quotas = [queue.quota["gpu"] for queue in read.queues]
    assert sum(weights) == pytest.approx(352 + 4)
    assert sum(quotas) == 352 * GPU_UNIT
