"""Forecasts: against the cluster in memory, against hand-made clusters, and the same every time."""

import math
from dataclasses import replace

import numpy as np
import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.embedded import EmbeddedCluster
from kaisched.core.tables import (
    NO_DISRUPTION_BUDGETS,
    UNPROTECTED,
    DisruptionBudgets,
)
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import next_cycle, run_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.gangs import KNOWN
from kaisched.objects.labels import time_of
from kaisched.objects.load import load_text, workloads_among
from kaisched.sim.forecast.course import NewJob, World, with_jobs
from kaisched.sim.forecast.forecast import Forecast, forecasts, world_of
from kaisched.sim.forecast.past import Lengths, Past, RunTimes, past_of, upcoming
from kaisched.testing import ClusterBuilder
from tests.benchmarks.forecasts import holds
from tests.unit.cli.conftest import NODE, POD, QUEUE

POLICY = default_policy()
NOW_S = 1_000_000.0


GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team}
spec: {minMember: 1, queue: %s}
---"""


def forecast(world, job, past, **more):
    return forecasts(world, [job], past, **more)[job]


def pod(name, queue, gpus, run_s):
    """A job of one pod that ends after so many seconds."""
    notes = f'kaisched.io/run-seconds: "{run_s}", pod-group-name: {name}'
    named = (POD % (name, queue, "kaisched", gpus)).replace(
        f"name: {name}", f"name: {name}, annotations: {{{notes}}}", 1
    )
    return GROUP % (name, queue) + named


def cluster_of(text):
    cluster = EmbeddedCluster(ManualClock(NOW_S), start_delay_s=0.0, grace_s=30.0)
    cluster.load(load_text(text, "test").objects)
    return cluster


def starts_of(cluster, until_s):
    """Run the daemon's turns in virtual time; return when each pod is bound first."""
    memory, starts = Memory(), {}
    while cluster.clock.now_s() < until_s:
        cycle = next_cycle(cluster, cluster, POLICY, None, cluster.clock, memory)
        memory = cycle.memory
        for bind in cycle.result.binds:
            starts.setdefault(bind.pod, cluster.clock.now_s() - NOW_S)
        cluster.advance_to(cluster.next_event_s() or until_s)
    return starts


@pytest.fixture(scope="module")
def line():
    """Twelve jobs of three queues on two nodes, with declared run times."""
    pods = [
        pod(f"p{at:02d}", "abc"[at % 3], (8, 4, 2)[at % 3 - at % 2], 300 + 137 * at)
        for at in range(12)
    ]
    queues = [QUEUE % (name, "", 4, -1) for name in "abc"]
    return "".join([NODE % "n0", NODE % "n1", *queues, *pods])


def test_with_declared_run_times_a_job_starts_when_it_is_said_to(line):
    began = starts_of(cluster_of(line), NOW_S + 20_000)
    assert len(began) == 12
    snapshot = cluster_of(line).snapshot()
    world = World(snapshot, None, POLICY, Memory(), NOW_S)
    past = past_of(load_text(line, "test").objects, snapshot, NOW_S, ("kaisched",))
    late = {name: at_s for name, at_s in began.items() if at_s > 0}
    assert len(late) > 4
    for name, at_s in late.items():
        job = int(snapshot.tasks.job_of_task[snapshot.tasks.name.index(name)])
        seen = forecast(world, job, past)
        assert (seen.courses, seen.is_cut) == (1, False)  # nothing is left to chance
        # A cycle follows another a second later, or a little more where much time has passed.
        assert at_s <= seen.median_s <= at_s + 5 + 0.02 * at_s, name


def waiting():
    """A node full of a job that runs, and a job that waits; returns (world, its row)."""
    ran = (
        ClusterBuilder()
        .node("n0", gpu=8)
        .queue("a", deserved=8)
        .job("old", queue="a", gpu=8, running={"n0": 1}, started_s=NOW_S - 1000)
        .job("new", queue="a", gpu=8)
        .run(now_s=NOW_S)
    )
    return world_of(ran.result), 1


def test_without_any_known_run_time_it_is_said_that_jobs_run_for_ever():
    world, job = waiting()
    seen = forecast(world, job, Past())
    assert (seen.started, seen.latest_s) == (0, math.inf)
    assert seen.looked_s > 86_400
    assert "2 jobs for ever, since no run that has ended is known" in seen.assumptions[0]


def test_a_band_comes_from_the_runs_of_the_queue_else_of_the_shard():
    world, job = waiting()
    ended = [1200.0 + 100 * at for at in range(20)]
    own = forecast(world, job, Past({"a": ended, "b": [1e6] * 50}))
    assert 200 <= own.earliest_s < own.median_s < own.latest_s <= 2100
    assert "2 jobs like the ended runs of the queue, 10 or more" in own.assumptions[0]
    few = forecast(world, job, Past({"a": ended[:9]}))
    assert "2 jobs like the 9 ended runs of the shard" in few.assumptions[0]
    assert few.latest_s <= 1000


def test_an_equal_forecast_every_time_and_fewer_courses_when_time_is_up():
    world, job = waiting()
    past = Past({"a": [1200.0 + 100 * at for at in range(20)]})
    seen = forecast(world, job, past)
    assert seen == forecast(world, job, past)
    cut = forecast(world, job, past, is_late=lambda: True)
    assert (cut.courses, cut.is_cut) == (1, True)
    assert (seen.courses, seen.is_cut) == (10, False)


def test_what_depends_on_time_alone_is_seen():
    """A job that may be preempted only after a while starts then, though nothing ends."""
    builder = (
        ClusterBuilder()
        .node("n0", gpu=8)
        .queue("a", deserved=8)
        .job("old", queue="a", gpu=8, running={"n0": 1}, started_s=NOW_S - 100)
        .job("new", queue="a", gpu=8, priority=90, is_preemptible=True)
    )
    shard = {"minRuntime": {"preemptMinRuntime": "30m"}}
    ran = builder.run(shard=shard, now_s=NOW_S)
    assert not ran.evicted
    seen = forecast(world_of(ran.result), 1, Past())
    assert 1700 <= seen.median_s <= 1700 * 1.1 + 60


def test_a_declared_time_that_is_over_or_no_time_is_not_used():
    world, job = waiting()
    # The old job is 1,000 s old, and its pods are the first rows.
    times = RunTimes(world.snapshot, NOW_S, Past(), np.array([900.0, 0.0]))
    seen = forecast(world, job, Past(), run_times=times)
    assert seen.started == 0
    assert seen.assumptions[1] == (
        "the declared run time of 2 jobs is no time, or is over: not used"
    )


def test_new_jobs_come_again_as_they_came():
    world, job = waiting()
    came_s = np.array([NOW_S - 3600, NOW_S - 600])
    jobs = replace(world.snapshot.jobs, created_s=came_s)
    world = world._replace(snapshot=replace(world.snapshot, jobs=jobs))
    past = past_of([], world.snapshot, NOW_S, ("kaisched",))
    assert [it.at_s for it in past.came] == [NOW_S - 3600, NOW_S - 600]
    new = upcoming(past, NOW_S, 3 * 3600, np.random.default_rng(0))
    assert len(new) == 2  # nothing is known of more than an hour
    assert all(NOW_S <= it.at_s < NOW_S + 3600 for it in new)
    assert (
        "new jobs come for 1h as 2 came in the last 1h"
        in forecast(world, job, past, draws=1).assumptions[1]
    )


def test_new_jobs_come_for_as_long_as_those_before_are_known():
    """Three days are known, and the forecast looks a week ahead; a day has eight jobs."""
    came = [
        NewJob(NOW_S - 3 * 86_400 + 10_800 * at, 0, 0, 1, 1, 50, True, 60.0) for at in range(24)
    ]
    past = Past(came=came, since_s=came[0].at_s)
    new = upcoming(past, NOW_S, 7 * 86_400, np.random.default_rng(0))
    assert len(new) == 24
    assert max(it.at_s for it in new) < NOW_S + 3 * 86_400
    assert {it.run_s for it in new} == {60.0}


def test_what_came_within_a_minute_says_nothing_of_how_often_jobs_come():
    world, job = waiting()
    came_s = np.array([NOW_S - 60, NOW_S - 59])
    jobs = replace(world.snapshot.jobs, created_s=came_s)
    world = world._replace(snapshot=replace(world.snapshot, jobs=jobs))
    past = past_of([], world.snapshot, NOW_S, ("kaisched",))
    assert upcoming(past, NOW_S, 3 * 3600, np.random.default_rng(0)) == []
    seen = forecast(world, job, past)
    assert seen.courses == 1
    assert seen.assumptions[1] == "no new jobs come: how often they do is not known"


@pytest.mark.parametrize(
    ("gaps_s", "reach_s"),
    [
        ([12.0] * 10, 120.0),  # one in each tenth of two minutes
        ([12.0] * 9, 0.0),  # nine jobs are too few
        ([0.3] * 9 + [117.3], 0.0),  # applied at once, two minutes ago
        ([0.3] * 6 + [30.0] * 3 + [14.1] * 2, 120.0),  # six at once, then in five more tenths
    ],
)
def test_of_a_short_past_jobs_come_again_only_if_they_came_all_along(gaps_s, reach_s):
    """``gaps_s`` has the time after each job until the next one, and after the last until now."""
    at_s = NOW_S - np.cumsum(gaps_s[::-1])[::-1]
    came = [NewJob(float(it), 0, 0, 1, 1, 50, True, 60.0) for it in at_s]
    assert Past(came=came, since_s=came[0].at_s).reach_s(NOW_S) == pytest.approx(reach_s)


BATCH = """
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: team, uid: %s, creationTimestamp: "%s"}
spec: {completions: %d, parallelism: %d}
---"""
OWNED = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  labels: {kai.scheduler/queue: a}
  annotations: {kaisched.io/run-seconds: "%d"}
  creationTimestamp: "%s"
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: %s, uid: %s, controller: true}]
spec:
  schedulerName: kaisched
  %s
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "%d"}}}]
status: {phase: %s, %s}
---"""
AT = "2026-07-01T10:%02d:00Z"


def owned(name, job, gpus, run_s, *, created, started=None):
    """A pod of a batch Job, whose UID is its name; minutes after ten o'clock."""
    node, phase, more = "", "Pending", "conditions: []"
    if started is not None:
        node, phase, more = "nodeName: n0", "Running", f'startTime: "{AT % started}"'
    return OWNED % (name, run_s, AT % created, job, job, node, gpus, phase, more)


def foreseen(text, pod_name, minute):
    """Forecast the start of a pod's job, so many minutes after ten o'clock."""
    documents = load_text(NODE % "n0" + QUEUE % ("a", "", 4, -1) + text, "test")
    objects = [*documents.objects, *workloads_among(documents.others, KNOWN).objects]
    cluster = EmbeddedCluster(ManualClock(time_of(AT % minute)))
    cluster.load(objects)
    result, _ = run_cycle(cluster.snapshot(), None, POLICY, cluster.clock.now_s(), Memory())
    world = world_of(result)
    row = int(world.snapshot.tasks.job_of_task[world.snapshot.tasks.name.index(pod_name)])
    return forecast(world, row, past_of(objects, world.snapshot, world.now_s, ("kaisched",)))


@pytest.mark.parametrize("pods", [2, 5])
def test_what_a_parallel_job_has_done_counts(pods):
    """Its first pod has run for half of its ten minutes; the others are surplus, and wait."""
    text = BATCH % ("p", "p", AT % 0, pods, pods)
    text += owned("p-0", "p", 8, 600, created=0, started=0)
    text += "".join(owned(f"p-{at}", "p", 8, 600, created=0) for at in range(1, pods))
    text += BATCH % ("b", "b", AT % 1, 1, 1) + owned("b-0", "b", 8, 600, created=1)
    seen = foreseen(text, "team/b-0", 5)
    assert seen.started == 10
    assert 300 <= seen.earliest_s <= seen.latest_s <= 301  # its pods end within a second
    # The rest of the parallel job goes behind it.
    rest = foreseen(text, "team/p-0", 5)
    assert 900 <= rest.earliest_s <= rest.latest_s <= 902  # a cycle comes after each end


def test_the_pods_that_follow_in_a_job_hold_the_next_one_up():
    """Two pods of 4 GPUs at a time, four in all, ten minutes each; the next job needs all 8.

    They started at 10:00 and 10:04, so others follow at 10:10 and 10:14, and end at 10:24.
    """
    text = BATCH % ("p", "p", AT % 0, 4, 2)
    text += owned("p-0", "p", 4, 600, created=0, started=0)
    text += owned("p-1", "p", 4, 600, created=0, started=4)
    text += BATCH % ("b", "b", AT % 5, 1, 1) + owned("b-0", "b", 8, 600, created=5)
    seen = foreseen(text, "team/b-0", 5)
    assert 19 * 60 <= seen.earliest_s <= seen.latest_s <= 19 * 60 + 3
    assert "2 pods follow those of batch Jobs that end, up to the completions of each" in (
        seen.assumptions
    )


def test_a_pod_that_followed_is_as_old_as_itself_and_not_as_its_job():
    """The Job runs since ten o'clock, its present pod since 10:20, for ten minutes."""
    text = BATCH % ("p", "p", AT % 0, 3, 1)
    text += owned("p-2", "p", 8, 600, created=20, started=20)
    text += owned("b-0", "b", 8, 600, created=21)
    gone = ENDED % ("p-0", "kaisched", AT % 10) + ENDED % ("p-1", "kaisched", AT % 20)
    reference = "ownerReferences: [{apiVersion: batch/v1, kind: Job, name: p, uid: p, "
    gone = gone.replace(
        "  creationTimestamp", f"  {reference}controller: true}}]\n  creationTimestamp"
    )
    seen = foreseen(text + gone, "team/b-0", 25)
    assert (seen.started, seen.median_s) == (seen.courses, 300)
    assert seen.assumptions[0] == "run times: 2 jobs as declared"


def test_new_jobs_are_under_no_disruption_budget():
    world, _ = waiting()
    budgets = DisruptionBudgets(("team/b",), np.array([0]), np.array([0, 0]))
    snapshot = replace(world.snapshot, disruption_budgets=budgets)
    new = NewJob(NOW_S + 5, 0, 0, pods=3, minimum=3, priority=50, is_preemptible=True)
    longer, rows = with_jobs(snapshot, [new])
    assert longer.disruption_budgets.of_task.tolist() == [0, 0, *[UNPROTECTED] * 3]
    assert (list(rows), len(longer.tasks.name)) == ([2], 5)
    assert with_jobs(world.snapshot, [new])[0].disruption_budgets is NO_DISRUPTION_BUDGETS


@pytest.mark.parametrize(
    ("chance", "age_s", "length_s"),
    [(0.0, 0, 10), (0.24, 0, 10), (0.3, 0, 20), (0.7, 0, 40), (0.0, 10, 20), (0.6, 20, 40)],
)
def test_lengths_are_the_product_limit_estimate(chance, age_s, length_s):
    """Ends at 10, 20, 40 and one that still runs at 30: 3/4, 1/2, 1/2, 0 are left."""
    assert Lengths([10, 20, 40], [30]).draw(chance, age_s) == length_s


def test_a_run_longer_than_all_known_goes_on_for_as_long_as_it_has_lasted():
    lengths = Lengths([10, 20], [1000])
    assert lengths.draw(0.5, 4000) == pytest.approx(8000)
    assert lengths.draw(0.999, 0) <= 100_000
    assert Lengths([], [5]).draw(0.5) == math.inf


ENDED = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  labels: {kai.scheduler/queue: a}
  creationTimestamp: "2026-07-01T10:00:00Z"
spec:
  schedulerName: %s
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "4"}}}]
status:
  phase: Succeeded
  startTime: "2026-07-01T11:00:00Z"
  conditions: [{type: Ready, status: "False", lastTransitionTime: "%s"}]
---"""


def test_ended_pods_tell_how_long_they_ran_and_when_they_came():
    text = (
        NODE % "n0"
        + QUEUE % ("a", "", 4, -1)
        + ENDED % ("one", "kaisched", "2026-07-01T11:10:00Z")
        + ENDED % ("stranger", "default-scheduler", "2026-07-01T11:20:00Z")
        + ENDED % ("backwards", "kaisched", "2026-07-01T10:00:00Z")
        + ENDED % ("silent", "kaisched", "")
        + POD % ("waits", "a", "kaisched", 4)
    )
    objects = load_text(text, "test").objects
    cluster = EmbeddedCluster(ManualClock(1_782_910_000.0))
    cluster.load(objects)
    now_s = cluster.clock.now_s()
    past = past_of(objects, cluster.snapshot(), now_s, ("kaisched",))
    assert past.ended_s == {"a": [600.0]}
    assert sorted(it.pods for it in past.came) == [1, 1]
    result, _ = run_cycle(cluster.snapshot(), None, POLICY, now_s, Memory())
    assert forecast(world_of(result), 0, past).latest_s == 0


@pytest.mark.parametrize(
    ("band", "actual_s", "is_held"),
    [
        ((600, 1200), 600, True),
        ((600, 1200), 1260, True),  # to the minute of the simulation
        ((600, 1200), 500, False),
        ((600, 1200), 1300, False),
        ((600, math.inf), 1e9, True),
        ((math.inf, math.inf), math.inf, True),
        ((math.inf, math.inf), 100, False),
    ],
)
def test_what_the_measured_error_counts_as_held(band, actual_s, is_held):
    first_s, last_s = band
    started = 10 if first_s < math.inf else 0
    seen = Forecast(first_s, first_s, last_s, 10, started, 7200.0, 90, False, ())
    assert holds(seen, actual_s) is is_held


def test_jobs_that_are_foreseen_together_are_foreseen_as_alone(line):
    snapshot = cluster_of(line).snapshot()
    world = World(snapshot, None, POLICY, Memory(), NOW_S)
    past = past_of(load_text(line, "test").objects, snapshot, NOW_S, ("kaisched",))
    rows = range(len(snapshot.jobs.name))
    together = forecasts(world, rows, past)
    bands = {row: (it.earliest_s, it.latest_s, it.started) for row, it in together.items()}
    alone = {row: forecast(world, row, past) for row in rows}
    assert bands == {row: (it.earliest_s, it.latest_s, it.started) for row, it in alone.items()}
    assert len(set(bands.values())) > 4


@pytest.mark.parametrize(
    ("grace", "wait_s"), [("", 30.0), ("\n  terminationGracePeriodSeconds: 5", 5.0)]
)
def test_an_evicted_pod_holds_its_room_for_its_grace_period(grace, wait_s):
    """Queue b deserves the whole node: a's job goes, and b's starts when it is gone."""
    held = pod("a", "a", 8, 10_000).replace(": kaisched", f": kaisched\n  nodeName: n0{grace}")
    text = NODE % "n0" + QUEUE % ("a", "", 0, -1) + QUEUE % ("b", "", 8, -1)
    cluster = cluster_of(text + held + pod("b", "b", 8, 100))
    cycle = next_cycle(cluster, cluster, POLICY, None, cluster.clock, Memory())
    objects = load_text(text + held, "test").objects
    world = world_of(cycle.result)
    past = past_of(objects, world.snapshot, NOW_S, ("kaisched",))
    job = world.snapshot.jobs.name.index("team/b")
    assert forecast(world, job, past).median_s == wait_s


def test_what_a_gang_leaves_first_goes_to_a_smaller_job():
    """A gang of 8 GPUs ends; an older job waits for all of them, and a younger one for 2.

    The pods of the gang end within a second of each other, so the younger job finds its 2 GPUs
    first, and the older one waits for its end as well.
    """
    gang = "".join(owned(f"g-{at}", "g", 1, 600, created=0, started=0) for at in range(8))
    text = BATCH % ("g", "g", AT % 0, 8, 8) + gang
    text += BATCH % ("old", "old", AT % 1, 1, 1) + owned("old-0", "old", 8, 60, created=1)
    text += BATCH % ("young", "young", AT % 2, 1, 1) + owned("young-0", "young", 2, 300, created=2)
    seen = foreseen(text, "team/old-0", 5)
    assert 600 <= seen.latest_s <= 602
    assert "the pods of a job end within a second of each other" in seen.assumptions
