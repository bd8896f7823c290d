"""Laws of time slices, on random clusters through the real cycle: no ping-pong, nobody left out."""

from dataclasses import dataclass
from math import log

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.timelines.virtual import STEP_S, VirtualCluster, Work

GPUS = 16
HALF_LIFE = 32
HISTORY = HALF_LIFE / log(2)
STEPS = 120


@dataclass(frozen=True)
class Case:
    """Endless work in each queue: its weight, and the GPUs of each of its jobs."""

    weights: tuple[int, ...]
    sizes: tuple[int, ...]
    k: float
    guaranteed: int

    @property
    def names(self) -> str:
        return "abcd"[: len(self.weights)]

    def part(self, at: int) -> float:
        return self.weights[at] / sum(self.weights)

    def shortest(self, queue: str) -> float:
        """Steps of the shortest slice of a queue's indivisible jobs; 0 where its jobs are none."""
        at = self.names.index(queue)
        if self.sizes[at] <= self.part(at) * GPUS:
            return 0.0
        return HISTORY / 16 / self.k * len(self.weights) * self.part(at)

    def run(self) -> VirtualCluster:
        queues = {
            name: {"weight": {"gpu": float(weight)}}
            for name, weight in zip(self.names, self.weights, strict=True)
        }
        work = [
            Work(name, size, waiting=1 + GPUS // size)
            for name, size in zip(self.names, self.sizes, strict=True)
        ]
        if self.guaranteed:
            quota = {"gpu": self.guaranteed * 1000}
            queues["g"] = {"quota": quota, "limit": quota, "weight": {"gpu": 0.0}}
            work.append(Work("g", 1, steps=9, waiting=2, first=5))
        arguments = {
            "kValue": self.k,
            "handOver": "timeSlices",
            "halfLifePeriod": f"{HALF_LIFE * STEP_S:.0f}s",
        }
        shard = {"plugins": {"time-based-fairshare": {"enabled": True, "arguments": arguments}}}
        return VirtualCluster([GPUS], queues, work, shard, half_life=HALF_LIFE).run(STEPS)


NOTHING = st.just(0)


@st.composite
def cases(draw, guaranteed=NOTHING):
    count = draw(st.integers(2, 4))
    return Case(
        tuple(draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))),
        tuple(
            draw(st.lists(st.sampled_from([1, 2, 6, 9, 12, 16]), min_size=count, max_size=count))
        ),
        draw(st.sampled_from([0.5, 1.0, 2.0])),
        draw(guaranteed),
    )


@given(cases())
@example(Case((1, 1, 1), (1, 6, 6), 2.0, 0))
@example(Case((2, 2, 2), (9, 1, 6), 2.0, 0))
@settings(max_examples=4)
def test_no_indivisible_is_taken_from_before_the_shortest_time_slice(case):
    for _, job, age in case.run().evicted:
        assert age >= case.shortest(job[0])


@given(cases())
@settings(max_examples=4)
def test_nobody_is_left_out(case):
    ran = case.run()
    assert {job[0] for _, job in ran.starts} == set(case.names)


@given(cases(guaranteed=st.integers(1, 4)))
@settings(max_examples=4)
def test_what_is_deserved_is_full_within_a_cycle_and_stays(case):
    ran = case.run()
    assert [job for _, job, _ in ran.evicted if job[0] == "g"] == []
    # Two come in each step; victims take a step to leave.
    full = 5 + 1 + (case.guaranteed + 1) // 2 + 1
    assert all(row["g"] >= case.guaranteed - 2 for row in ran.held[full:])
