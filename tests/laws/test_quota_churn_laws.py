"""The law of deserved quota under churn: it is held as soon as the victims of its claim have ended.

Whatever arrives elsewhere. Everything that runs elsewhere may be evicted here: no other queue has a
quota, and nothing is protected by a minimum run time, a budget or a delay.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.timelines.virtual import VirtualCluster, Work

FIRST = 6
"""The step in which the queue with the quota begins to ask."""
STEPS = 12
LENDING = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
OTHERS = "abc"


@dataclass(frozen=True)
class Churn:
    """Work of others: pods of so many GPUs in gangs, each for so many steps, endless."""

    gpus: int
    pods: int
    steps: int
    waiting: int
    priority: int


@dataclass(frozen=True)
class Case:
    nodes: int
    size: int
    """GPUs of each node."""
    gpus: int
    """GPUs of each pod that the quota covers."""
    pods: int
    """How many of these pods the quota covers."""
    is_gang: bool
    has_department: bool
    churn: tuple[Churn, ...]
    grace: int

    def run(self, shard):
        quota = {"gpu": self.gpus * self.pods * 1000}
        whole = {"gpu": self.nodes * self.size * 1000}
        queues = {name: {"parent": "all"} for name in OTHERS[: len(self.churn)]}
        queues["q"] = {"quota": quota, "parent": "all"}
        if self.has_department:
            queues["q"]["parent"], queues["a"]["parent"] = "d", "e"
            queues = {"d": {"quota": quota, "parent": "all"}, "e": {"parent": "all"}, **queues}
        queues = {"all": {"quota": whole}, **queues}
        work = [
            Work(name, it.gpus, it.pods, it.steps, it.waiting, priority=it.priority)
            for name, it in zip(OTHERS, self.churn, strict=False)
        ]
        own = (
            {"count": 1, "pods": self.pods} if self.is_gang else {"waiting": self.pods, "steps": 4}
        )
        work.append(Work("q", self.gpus, first=FIRST, **own))
        gpus = [self.size] * self.nodes
        return VirtualCluster(gpus, queues, work, shard, grace=self.grace).run(
            STEPS + 2 * self.grace
        )


@st.composite
def cases(draw):
    nodes, size = draw(st.integers(1, 3)), draw(st.sampled_from([2, 4, 8]))
    gpus = draw(st.integers(1, size))
    pods = draw(st.integers(1, nodes * (size // gpus)))
    churn = draw(
        st.lists(
            st.builds(
                Churn,
                gpus=st.integers(1, max(1, size // 2)),
                pods=st.integers(1, 2),
                steps=st.integers(1, 4),
                waiting=st.integers(1, 12),
                priority=st.sampled_from([25, 50, 75]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    flags = draw(st.booleans()), draw(st.booleans())
    return Case(nodes, size, gpus, pods, *flags, tuple(churn), draw(st.integers(1, 3)))


def holds(case, shard):
    """Check the law; what others were promised before has to start before it can be evicted."""
    ran = case.run(shard)
    ended = FIRST + case.grace * (1 if len(case.churn) == 1 else 2)
    held = [row["q"] for row in ran.held[ended:]]
    assert min(held) >= case.gpus * case.pods, held


@given(cases())
@settings(max_examples=10)
def test_a_deserved_quota_is_held_once_its_victims_have_ended(case):
    holds(case, {})


@pytest.mark.proportion
@given(cases())
@settings(max_examples=10)
def test_a_lending_policy_keeps_the_law_as_well(case):
    holds(case, LENDING)
