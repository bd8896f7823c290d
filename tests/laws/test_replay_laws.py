"""A recorded cycle gives the same bytes when it is run again from its file, names or none."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.clock import ManualClock
from kaisched.core.usage import Usage, UsageState
from kaisched.daemon.loop import Loop
from kaisched.daemon.recordings import Recordings, _Request
from kaisched.engine.planning import open_cluster
from kaisched.engine.policy import build_policy, default_shard
from kaisched.engine.recording import digest, encoded, parsed, replay
from kaisched.engine.redaction import redacted
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.telemetry.metrics import CycleCollector
from tests.cycling import objects_of

NODE = """
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {zone: z%d}}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "%d", pods: "20", x.io/fpga: "2"}}
---"""
QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec: {parentQueue: "%s", priority: %d, resources: {gpu: {quota: %d, overQuotaWeight: %d}}}
---"""
GROUP = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: %s, namespace: team}
spec: {queue: %s, minMember: %d, priorityClassName: %s}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata:
  {name: %s, namespace: team, labels: {kai.scheduler/queue: %s}, annotations: {%s}}
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "%d"%s}}}]
---"""
CLASSES = ("train", "build-preemptible", "build")


class History:
    """Usage that changes with time, as a store might tell it."""

    def usage(self, snapshot, now_s):
        shape = (len(snapshot.axis), len(snapshot.queues))
        parts = (np.arange(shape[0] * shape[1]).reshape(shape) * 7_000_003) % 300_000_000
        return Usage(parts, 3.25, 0.75, UsageState.PARTIAL, ("a gap",))

    def is_ready(self):
        return True


class Recorded:
    """A daemon's loop on a cluster in memory that records every cycle."""

    def __init__(self, texts, shard=None, history=None):
        shard = shard or default_shard()
        policy, _ = build_policy(shard)
        self.cluster = open_cluster(shard, policy, ManualClock(1_800_000_000.125))
        self.load(*texts)
        self.recordings = Recordings(self.cluster, shard, ("kaisched",))
        self.turns = []
        self.loop = Loop(
            self.cluster,
            self.cluster,
            policy,
            self.cluster.clock,
            CycleCollector(),
            period_s=1.0,
            usage_source=history,
            recordings=self.recordings,
            after=self.turns.append,
        )

    def load(self, *texts):
        self.cluster.load(objects_of(*texts))

    def cycle(self):
        """Run a cycle and return the bytes of its result and its recording as a file."""
        waiting = _Request()
        self.recordings._requests.append(waiting)
        self.loop.cycle()
        return self.turns[-1].result.encode(), encoded(waiting.recording)

    def later(self, seconds):
        self.cluster.advance_to(self.cluster.clock.now_s() + seconds)


@st.composite
def stories(draw):
    """Draw a small cluster, and what happens to it between turns."""
    start = [
        NODE % (f"n{at}", at % 2, draw(st.integers(1, 4))) for at in range(draw(st.integers(1, 3)))
    ]
    start += [QUEUE % ("root", "", 100, -1, 1)]
    queues = ("a", "b", "c")[: draw(st.integers(1, 3))]
    for name in queues:
        priority, quota = draw(st.sampled_from([100, 200])), draw(st.integers(0, 4))
        start.append(QUEUE % (name, "root", priority, quota, draw(st.integers(0, 3))))
    steps = []
    for number in range(draw(st.integers(1, 5))):
        texts = []
        for job in range(draw(st.integers(0, 3))):
            name, queue = f"j{number}-{job}", draw(st.sampled_from(queues))
            pods = draw(st.integers(1, 3))
            is_gang = draw(st.booleans())
            if is_gang:
                texts.append(
                    GROUP
                    % (name, queue, draw(st.integers(1, pods)), draw(st.sampled_from(CLASSES)))
                )
            note = f"pod-group-name: {name}" if is_gang else ""
            extra = draw(st.sampled_from(["", ', x.io/fpga: "1"']))
            gpus = draw(st.integers(0, 3))
            texts += [POD % (f"{name}-{at}", queue, note, gpus, extra) for at in range(pods)]
        gone = draw(st.none() | st.integers(0, 20))
        steps.append((texts, gone, draw(st.sampled_from([0.0, 0.5, 3.0, 70.0]))))
    return start, steps


@pytest.mark.slow
@settings(max_examples=6)
@given(stories())
def test_every_turn_of_a_story_is_replayed_byte_for_byte(story):
    start, steps = story
    running = Recorded(start)
    for texts, gone, seconds in steps:
        running.load(*texts)
        pods = running.cluster.pods()
        if gone is not None and pods:
            running.cluster.delete(pods[gone % len(pods)])
        result, data = running.cycle()
        recording = parsed(data, "file")
        again = replay(recording)
        assert again.problems == []
        assert again.result.encode() == result
        assert recording.result == digest(again.result)
        running.later(seconds)


@pytest.mark.slow
@settings(max_examples=6)
@given(stories())
def test_without_names_the_same_is_decided(story):
    start, steps = story
    running = Recorded(start)
    for texts, _, seconds in steps:
        running.load(*texts)
        _, data = running.cycle()
        recording = parsed(data, "file")
        bare, warnings = redacted(recording)
        assert warnings == []
        again = replay(parsed(encoded(bare), "file"))
        assert bare.result == digest(again.result)
        assert vars_of(again.result) == vars_of(replay(recording).result)
        running.later(seconds)


def vars_of(result):
    """What a result tells that has no names in it."""
    shares = sorted(tuple(sorted(share.fair_share.items())) for share in result.shares)
    return result.stats.tasks_bound, result.stats.tasks_evicted, shares


def test_usage_history_and_what_plugins_remember_are_part_of_it():
    shard, _ = decode_object(
        {
            "metadata": {"name": "gpus"},
            "spec": {
                "kValue": 1.5,
                "usageDBConfig": {
                    "clientType": "prometheus",
                    "connectionString": "http://me:secret@prometheus",
                    "usageParams": {"windowSize": "1w", "extraParams": {"caFile": "/secret"}},
                },
            },
        },
        SchedulingShard,
    )
    start = [NODE % ("n0", 0, 4), QUEUE % ("root", "", 100, -1, 1)]
    start += [QUEUE % (name, "root", 100, 0, 1) for name in "ab"]
    start += [POD % (f"{name}{at}", name, "", 2, "") for name in "ab" for at in range(3)]
    running = Recorded(start, shard, History())
    for _ in range(4):
        result, data = running.cycle()
        recording = parsed(data, "file")
        assert b"secret" not in data
        assert recording.usage.state == "partial"
        assert replay(recording).result.encode() == result
        running.later(30.0)


def test_a_usage_without_any_sample_is_kept_as_such():
    class Nothing(History):
        def usage(self, snapshot, now_s):
            shape = (len(snapshot.axis), len(snapshot.queues))
            return Usage(np.zeros(shape, np.int64), math.inf, 0.0, UsageState.ABSENT)

    running = Recorded([NODE % ("n0", 0, 4), QUEUE % ("a", "", 100, 0, 1)], history=Nothing())
    result, data = running.cycle()
    recording = parsed(data, "file")
    assert recording.usage.age_s is None
    assert replay(recording).result.encode() == result


def test_a_stale_gang_is_evicted_in_the_replay_too():
    """Since when it is stale stands in no object, only in what the action remembers."""
    start = [NODE % ("n0", 0, 4), QUEUE % ("a", "", 100, -1, 1), GROUP % ("g", "a", 2, "train")]
    start += [POD % (f"g-{at}", "a", "pod-group-name: g", 1, "") for at in range(2)]
    running = Recorded(start)
    running.cluster._is_recreating = False
    running.cycle()
    running.later(5.0)
    running.cluster.delete(running.cluster.pod("team/g-0"))
    running.later(10.0)
    running.cycle()
    running.later(61.0)
    result, data = running.cycle()
    recording = parsed(data, "file")
    assert b"stalegang" in data
    assert [it.action for it in replay(recording).result.evictions] == ["stalegang"]
    assert replay(recording).result.encode() == result
