"""A plugin that orders queues, jobs and nodes by what their objects say, in a plan and a daemon."""

import numpy as np
import pytest

from kaisched import Plugin, hookimpl
from kaisched.clock import ManualClock
from kaisched.daemon.loop import Loop
from kaisched.engine.planning import PlanInput, plan, planned_cluster
from kaisched.engine.policy import default_shard
from kaisched.objects.load import load_text
from kaisched.telemetry.metrics import CycleCollector
from kaisched.testing import check_plugin
from tests.unit.framework.fakes import PluginSetting, with_default

RANK, QUIET = "example.com/rank", "example.com/quiet"
NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}, annotations: {{{notes}}}}}
status: {{allocatable: {{cpu: 8, nvidia.com/gpu: {gpus}, pods: 110}}}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}, annotations: {{{notes}}}}}
spec: {{resources: {{gpu: {{quota: 0}}}}}}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: team
  labels: {{kai.scheduler/queue: {queue}}}
  annotations: {{{notes}}}
spec:
  schedulerName: kaisched
  containers: [{{name: main, resources: {{requests: {{cpu: 1, nvidia.com/gpu: 1}}}}}}]
---"""


class ByAnnotation(Plugin):
    """Queues and jobs by their rank, the lowest first; quiet nodes before all others."""

    name = "by-annotation"

    @hookimpl
    def queue_order(self, session, queue, held, ask):
        return (ranks(session.queues.annotations, queue),)

    @hookimpl
    def job_order(self, session, job):
        return (ranks(session.jobs.annotations, job),)

    @hookimpl
    def node_score(self, session, shape, rows, extra):
        notes = session.nodes.annotations
        return np.array([float(QUIET in notes[row]) for row in rows.tolist()])


def ranks(annotations, rows):
    return np.array([int(annotations[row].get(RANK, "0")) for row in rows.tolist()], np.int64)


POLICY = with_default(PluginSetting(ByAnnotation(ByAnnotation.Arguments()), 10_000.0))


def ranked(template, name, rank, **more):
    return template.format(name=name, notes=f'{RANK}: "{rank}"', **more)


def objects(*documents, gpus=1):
    node = NODE.format(name="n0", notes="", gpus=gpus)
    return load_text("\n".join((node, *documents)), "test")


def planned(loaded):
    assert not loaded.problems
    return PlanInput(loaded, default_shard(), POLICY, [])


def two_queues(first, second):
    return objects(
        ranked(QUEUE, "a", first),
        ranked(QUEUE, "b", second),
        POD.format(name="in-a", queue="a", notes=""),
        POD.format(name="in-b", queue="b", notes=""),
    )


def bound(result):
    return [(bind.pod, bind.node) for bind in result.binds]


@pytest.mark.parametrize(("first", "second", "served"), [(1, 2, "in-a"), (2, 1, "in-b")])
def test_a_plan_serves_the_queue_first_whose_annotation_says_so(first, second, served):
    (result,) = plan(planned(two_queues(first, second))).cycles
    assert bound(result) == [(f"team/{served}", "n0")]
    assert not result.failures


def test_jobs_and_nodes_are_chosen_by_their_annotations():
    quiet = NODE.format(name="n1", notes=f'{QUIET}: ""', gpus=1)
    pods = [ranked(POD, f"p{rank}", rank, queue="a") for rank in (3, 1, 2)]
    (result,) = plan(planned(objects(quiet, QUEUE.format(name="a", notes=""), *pods))).cycles
    assert bound(result) == [("team/p1", "n1"), ("team/p2", "n0")]


def test_a_daemon_hears_of_annotations_that_change():
    """Also of those of jobs that wait, of which it has kept the order."""
    loaded = objects(
        QUEUE.format(name="a", notes=""),
        *[ranked(POD, f"p{rank:02}", rank, queue="a") for rank in range(1, 31)],
    )
    cluster, problems = planned_cluster(planned(loaded))
    assert not problems
    done = []

    class Sink:
        def apply(self, binds, evictions, nominations):
            done.append([bind.pod for bind in binds])

    loop = Loop(cluster, Sink(), POLICY, ManualClock(1.0), CycleCollector(), period_s=1.0)
    loop.cycle()
    loop.cycle()
    pod = load_text(ranked(POD, "p30", -1, queue="a"), "test").objects
    cluster.load(pod)
    loop.cycle()
    assert done == [["team/p01"], ["team/p01"], ["team/p30"]]
    assert (
        cluster.snapshot().jobs.annotations[cluster.store.rows.row_of_job("team/p30")][RANK] == "-1"
    )


def test_such_a_plugin_keeps_to_what_plugins_may_touch():
    check_plugin(ByAnnotation)
