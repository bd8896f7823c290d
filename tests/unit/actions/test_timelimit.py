"""maxRunTime: whose time is over is evicted whole, and waits behind its equals."""

import math

import numpy as np
import pytest

from kaisched.actions.whole_jobs import TimeLimit
from kaisched.cluster.kubernetes.reports import EndingJobs
from kaisched.core.tables import WORKLOADS
from kaisched.framework.memory import Memory
from kaisched.framework.report.turns import Turns
from kaisched.objects.load import load_text
from kaisched.objects.wire import WORKLOAD_TYPES
from tests.cycling import Cycling

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n0}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "2", pods: "99"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", resources: {gpu: {quota: 2}}, maxRunTime: [%s]}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team, creationTimestamp: "2026-01-01T00:00:%02dZ", labels: {%s}}
spec: {queue: a, minMember: %d, preemptibility: %s, priorityClassName: "%s"}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  annotations: {pod-group-name: %s}
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "1"}}}]
---"""
START = 1_800_000_000.0
HOUR = "{workloads: [training], time: 1h}"


class World(Cycling):
    """Two GPUs, a queue below another, and the daemon's turns on it."""

    def __init__(self, leaf="", root="", **spec):
        super().__init__(START, **spec)
        self.jobs = 0
        self.load(NODE, QUEUE % ("root", "", root), QUEUE % ("a", "root", leaf))

    def job(self, name, pods=1, preemptibility="preemptible", cls="", labels=""):
        self.jobs += 1
        self.load(GROUP % (name, self.jobs, labels, pods, preemptibility, cls))
        self.load(*(POD % (f"{name}-{at}", name) for at in range(pods)))

    def evicted(self, seconds=1.0):
        return [(it.pod, it.action) for it in self.cycle(seconds).result.evictions]

    def running(self):
        jobs = self.cluster.snapshot().jobs
        return {
            name for name, active in zip(jobs.name, jobs.active.tolist(), strict=True) if active
        }


def test_a_job_is_evicted_whole_when_its_time_is_over_and_says_why():
    world = World(HOUR)
    world.job("g", pods=2)
    world.cycle(3599.0)
    assert world.evicted() == []
    result = world.cycle().result
    assert [(it.pod, it.action) for it in result.evictions] == [
        ("team/g-0", "timelimit"),
        ("team/g-1", "timelimit"),
    ]
    assert result.evictions[0].reason == (
        "it has run for 1h, and queue a lets training run for 1h at a stretch (maxRunTime)"
    )


def test_it_then_waits_behind_its_equals():
    world = World(HOUR)
    world.job("old", pods=2)
    world.job("young", pods=2)
    world.cycle(3600.0)
    assert world.running() == {"team/old"}
    world.cycle(60.0)
    world.cycle(60.0)
    assert world.running() == {"team/young"}
    world.cycle(3600.0)
    world.cycle(60.0)
    world.cycle(60.0)
    assert world.running() == {"team/old"}


def test_its_record_says_that_it_was_requeued():
    world = World(HOUR)
    for name in ("old", "young", "third"):
        world.job(name, pods=2)
    world.cycle(3600.0)
    world.cycle(60.0)
    cycle = world.cycle(60.0)
    (old,) = [row for row, name in enumerate(cycle.snapshot.jobs.name) if name == "team/old"]
    ahead = Turns(cycle.result).turn(old).ahead
    assert cycle.snapshot.jobs.name[ahead.job] == "team/third"
    assert ahead.because.text("team/old") == (
        "team/old was created later, or requeued later, when its time was over"
    )


@pytest.mark.parametrize(
    ("limit", "preemptibility", "is_evicted"),
    [
        ("{time: 1h}", "preemptible", True),
        ("{time: 1h}", "non-preemptible", False),
        ("{time: 1h, nonPreemptible: true}", "non-preemptible", True),
    ],
)
def test_non_preemptible_work_is_exempt_unless_the_queue_includes_it(
    limit, preemptibility, is_evicted
):
    world = World(limit)
    world.job("g", preemptibility=preemptibility)
    world.cycle(3600.0)
    assert bool(world.evicted()) == is_evicted


@pytest.mark.parametrize(
    ("cls", "labels", "preemptibility", "kind"),
    [
        ("train", "", "preemptible", "training"),
        ("build", "", "preemptible", "interactive"),
        ("build-preemptible", "", "preemptible", "interactive"),
        ("inference", "", "preemptible", "inference"),
        ("train", "kaisched.io/workload-type: inference", "preemptible", "training"),
        ("", "kaisched.io/workload-type: inference", "preemptible", "inference"),
        ("", "", "preemptible", "training"),
        ("", "", "non-preemptible", "interactive"),
    ],
)
def test_the_type_of_a_workload_is_that_of_its_class_or_label_or_of_its_preemptibility(
    cls, labels, preemptibility, kind
):
    world = World(f"{{workloads: [{kind}], time: 1h, nonPreemptible: true}}")
    world.job("g", preemptibility=preemptibility, cls=cls, labels=labels)
    world.cycle(3600.0)
    assert world.evicted() == [("team/g-0", "timelimit")]
    jobs = world.cluster.snapshot().jobs
    assert WORKLOADS[jobs.workload_of(np.array([0]))[0]] == kind


def test_a_type_without_a_limit_runs_on():
    world = World(HOUR)
    world.job("g", cls="inference")
    world.cycle(360000.0)
    assert world.evicted() == []


def test_the_shortest_time_on_the_path_counts_and_is_named():
    world = World("{time: 2h}", root="{time: 1h}, {time: 3h}")
    world.job("g")
    world.cycle(3600.0)
    (eviction,) = world.cycle().result.evictions
    assert "queue root lets training run for 1h" in eviction.reason


def test_the_eviction_budget_of_the_shard_counts():
    world = World(HOUR, evictions_per_hour=1)
    world.job("a")
    world.job("b")
    world.cycle(3600.0)
    assert world.evicted(60.0) == [("team/a-0", "timelimit")]
    assert world.evicted(3600.0) == []


def test_a_cluster_without_limits_is_not_looked_at():
    world = World()
    world.job("g")
    world.cycle(3600.0)
    assert world.cluster.snapshot().queues.max_run_time_s is None
    assert "timelimit" not in world.memory.facts


def test_a_warning_comes_once_ten_minutes_before():
    world, ending = World(HOUR), EndingJobs()
    world.job("g", pods=2)

    def warned(at_s):
        return ending.after(world.cluster.store, world.cluster.snapshot(), START + at_s)

    world.cycle(1.0)
    assert warned(2999.0) == []
    (note,) = warned(3000.0)
    assert (note.pod, note.reason, note.is_warning) == ("team/g-0", "RunTimeEnding", True)
    assert note.text == (
        "queue a lets training run for 1h at a stretch (maxRunTime): the job is evicted at"
        " 2027-01-15T09:00:00Z, and then waits behind its equals; save what it has done"
    )
    assert warned(3001.0) == []
    assert warned(3600.0) == []


def test_what_it_remembers_is_forgotten_with_the_job():
    world = World(HOUR)
    world.memory = Memory({"timelimit": {"team/gone": 5.0}})
    world.cycle()
    assert "timelimit" not in world.memory.facts
    assert TimeLimit().name == "timelimit"


def test_the_names_of_types_are_the_same_everywhere():
    assert WORKLOADS == WORKLOAD_TYPES


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{time: 0}", "spec.maxRunTime[0].time: no job could run"),
        ("{time: soon}", "spec.maxRunTime[0].time"),
        ("{time: 1h, workloads: [train]}", "spec.maxRunTime[0].workloads[0]"),
        ("{time: 1h, preemptible: true}", "unknown key"),
        ("{}", "spec.maxRunTime[0]"),
    ],
)
def test_a_limit_that_makes_no_sense_is_named(entry, said):
    problems = load_text(QUEUE % ("a", "", entry)).problems
    assert len(problems) == 1
    assert said in str(problems[0])


def test_a_label_that_makes_no_sense_is_a_fault_of_the_job():
    world = World(HOUR)
    world.job("g", labels="kaisched.io/workload-type: training-job")
    world.cycle()
    fault = world.cluster.store.members.fault_of("team/g")
    assert "kaisched.io/workload-type" in fault
    assert 'did you mean "training"?' in fault
    assert math.isnan(world.cluster.snapshot().jobs.last_start_s[0])
