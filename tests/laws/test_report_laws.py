"""The law of reports: two seconds after the last change, what is written is what is so.

Whatever was lost, refused, late or overwritten before. The cycle of that time is the last one with
news, and as many writes are allowed as are needed.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.reported import BUSY, GROUPS, LOST, NEVER, QUEUES, TEAM, Cluster

# Slow: every example is a small cluster with an API server, lived through in steps.
pytestmark = [pytest.mark.fault("I130"), pytest.mark.slow]
FALSE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "old"}
_pods = st.tuples(st.just("pod"), st.sampled_from("ab"), st.sampled_from([1, 4, 8]))
_gangs = st.tuples(st.just("gang"), st.sampled_from("ab"), st.integers(2, 4), st.integers(0, 4))
_events = st.one_of(
    st.just(("nothing",)),
    _pods,
    _gangs,
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("trouble"), st.sampled_from([BUSY, LOST, NEVER])),
    st.tuples(st.just("overwrite"), st.sampled_from(["pod", "queue", "group"])),
)
_many = st.sampled_from([0, 1, 3, 100, 100])
_steps = st.tuples(_events, _many, st.booleans(), _many, _many, st.sampled_from([0.1, 0.6, 3.0]))
"""What happens, how much of it the watch tells, whether a cycle comes, how many binds and reports
are sent before the next step, and how long that takes."""


class Play:
    """Steps on a cluster; each object is overwritten by somebody else at most once."""

    def __init__(self):
        self.cluster, self.names, self.groups, self.spoiled = Cluster(), [], [], set()

    def step(self, event, told, is_loop, bound, written, seconds):
        cluster = self.cluster
        self.do(*event)
        cluster.deliver(told)
        if is_loop:
            cluster.next_cycle()
        cluster.bind(bound)
        cluster.write(written)
        cluster.now_s += seconds

    def do(self, what, *given):
        cluster = self.cluster
        match what:
            case "nothing":
                pass
            case "trouble":
                cluster.server.trouble.append(given[0])
            case "delete":
                if given[0] < len(self.names):
                    cluster.delete(self.names.pop(given[0]))
            case "overwrite":
                self.overwrite(*given)
            case _:
                self.come(what, *given)

    def come(self, what, queue, size, members=0):
        name = f"j{next(self.cluster.numbers)}"
        if what == "pod":
            self.cluster.pod(name, queue, size)
            self.names.append(name)
            return
        self.cluster.group(name, queue, size)
        self.groups.append(name)
        for member in range(members):
            self.cluster.pod(f"{name}-{member}", queue, 2, name)
            self.names.append(f"{name}-{member}")

    def overwrite(self, what):
        pods = [f"{TEAM}/pods/{name}" for name in self.names]
        groups = [f"{GROUPS}/{name}" for name in self.groups]
        paths = {"pod": pods, "queue": [f"{QUEUES}/a"], "group": groups}[what]
        path = next((it for it in paths if it not in self.spoiled), None)
        if path is not None:
            self.spoiled.add(path)
            theirs = {"resourcesStatus": {"allocated": {"cpu": "7"}}}
            status = {"pod": {"conditions": [FALSE]}, "queue": {"allocated": {"cpu": "7"}}}
            self.cluster.overwrite(path, status.get(what, theirs))


@settings(max_examples=25)
@given(st.lists(_steps, max_size=15))
def test_two_seconds_after_the_last_change_what_is_written_is_so(steps):
    play = Play()
    for step in steps:
        play.step(*step)
    cluster = play.cluster
    cluster.server.trouble.clear()
    cluster.pass_time(0.5)
    while cluster.late or cluster.cycle.has_intents:  # until all is bound that will be
        cluster.pass_time(0.5)
    cluster.pass_time(2.0)
    assert list(cluster.wrong()) == []
    assert cluster.write() == 0
