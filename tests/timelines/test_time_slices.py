"""Work that cannot be divided, over time and through the real cycle: everybody gets their part.

The five user stories of time-aware fairness. A step is a cycle; the half-life is 64 steps, so that
the shortest time slice of an average queue is 19, 12, 6 and 3 steps at k = 0.3, 0.5, 1 and 2.
"""

import pytest

from tests.timelines.virtual import STEP_S, VirtualCluster, Work

STRENGTHS = [0.3, 0.5, 1, 2]
STEPS = {0.3: 1500, 0.5: 1000, 1: 600, 2: 400}
"""Enough for some 20 hand-overs of each of three queues; two of them need two thirds of it."""
SLICE = {0.3: 19, 0.5: 11, 1: 5, 2: 2}
"""Whole steps of the shortest time slice."""
HALF_LIFE = 64


def shard_of(k=1.0, hand_over="timeSlices", half_life=HALF_LIFE, **more):
    arguments = {"kValue": k, "handOver": hand_over, "halfLifePeriod": f"{half_life * STEP_S:.0f}s"}
    plugin = {"enabled": True, "arguments": arguments | more}
    return {"plugins": {"time-based-fairshare": plugin}}


def weighted(weights):
    return {name: {"weight": {"gpu": float(weight)}} for name, weight in weights.items()}


def cluster(gpus, queues, work, shard, half_life=HALF_LIFE):
    return VirtualCluster(gpus, queues, work, shard, half_life=half_life)


def of_queue(events, queue):
    return [event for event in events if event[1].rstrip("0123456789-") == queue]


# -- story 1: time sharing -----------------------------------------------------------------------


@pytest.mark.parametrize(("names", "k"), [("ab", 0.5), *(("abc", k) for k in STRENGTHS)])
def test_queues_of_whole_cluster_jobs_take_turns(names, k):
    weights = dict.fromkeys(names, 1)
    ran = cluster([16], weighted(weights), [Work(name, 16) for name in names], shard_of(k))
    ran.run(STEPS[k] * len(names) // 3)
    spans = 20 * len(names)
    assert len(ran.handovers(names)) > spans
    assert ran.worst(weights, spans) <= 0.05
    assert min(age for _, _, age in ran.evicted) >= SLICE[k]


@pytest.mark.parametrize(
    ("weights", "k"),
    [({"a": 3, "b": 1}, 0.5), ({"a": 4, "b": 2, "c": 1}, 1), ({"a": 4, "b": 2, "c": 1}, 2)],
)
def test_weights_are_kept(weights, k):
    ran = cluster([16], weighted(weights), [Work(name, 16) for name in weights], shard_of(k))
    ran.run(STEPS[k] * len(weights) // 3)
    spans = 20 * len(weights)
    assert len(ran.handovers(weights)) > spans
    assert ran.worst(weights, spans) <= 0.10


def test_without_time_slices_three_such_queues_never_change_hands():
    """What KAI's rule does, and why there is another."""
    queues = weighted(dict.fromkeys("abc", 1))
    ran = cluster([16], queues, [Work(name, 16) for name in "abc"], shard_of(10, "none"))
    assert len(ran.run(300).handovers("abc")) == 1


def by_weights(k, half_life):
    """KAI's example: two queues on 16 GPUs, a window of 256 samples, evictions in no time."""
    work = [Work(name, 16) for name in "ab"]
    queues, shard = {"a": {}, "b": {}}, shard_of(k, "none")
    return VirtualCluster([16], queues, work, shard, half_life, sliding=256, is_instant=True)


@pytest.mark.parametrize(
    ("half_life", "published"),
    [(128, [1, 30, 270, 510, 750, 990]), (0, [1, 32, 281, 529, 778])],
)
def test_by_weights_alone_two_queues_switch_as_published(half_life, published):
    assert by_weights(1, half_life).run(1024).handovers("ab") == [0, *published]


def test_the_published_parts_of_two_queues():
    assert by_weights(1, 128).run(1024).parts() == pytest.approx({"a": 0.503, "b": 0.497}, abs=5e-4)


@pytest.mark.parametrize(("k", "hold"), [(1.5, 174), (2, 148), (5, 49), (10, 27)])
def test_the_published_times_between_switches(k, hold):
    marks = by_weights(k, 128).run(700).handovers("ab")
    assert marks[-1] - marks[-2] == pytest.approx(hold, abs=1)


def test_below_the_published_k_they_never_switch():
    assert by_weights(0.93, 128).run(600).handovers("ab") == [0]


def test_jobs_that_end_take_turns_too():
    queues = weighted(dict.fromkeys("abc", 1))
    ran = cluster([16], queues, [Work(name, 16, steps=4) for name in "abc"], shard_of(1)).run(400)
    assert ran.parts() == pytest.approx(dict.fromkeys("abc", 1 / 3), abs=0.02)
    assert not ran.evicted


def test_gangs_over_nodes_take_turns():
    queues = weighted(dict.fromkeys("abc", 1))
    work = [Work(name, 8, pods=3) for name in "abc"]
    ran = cluster([8, 8, 8, 8], queues, work, shard_of(1)).run(500)
    assert len(ran.handovers("abc")) > 60
    assert ran.worst(dict.fromkeys("abc", 1), 60) <= 0.05


# -- story 2: bursts -----------------------------------------------------------------------------

SMALL = {"a": {}, "b": {}}


def burst(k=1.0, **queue):
    work = [Work("a", 1, waiting=20), Work("b", 1, waiting=20), Work("x", 12, first=1)]
    return cluster([16], {**SMALL, "x": queue}, work, shard_of(k))


@pytest.mark.parametrize("k", [0.5, 2])
def test_a_burst_queue_gets_its_job_in(k):
    ran = burst(k).run(STEPS[k] // 3)
    assert of_queue(ran.starts, "x")[0][0] <= 5
    assert min(age for _, _, age in of_queue(ran.evicted, "x")) >= SLICE[k]
    assert ran.parts() == pytest.approx({"a": 1 / 3, "b": 1 / 3, "x": 1 / 3}, abs=0.04)


def test_without_time_slices_a_burst_queue_never_does():
    ran = cluster([16], {**SMALL, "x": {}}, burst().work, shard_of(1, "none")).run(200)
    assert of_queue(ran.starts, "x") == []


def test_its_minimum_runtime_holds():
    ran = burst(2, reclaim_min_runtime_s=30 * STEP_S).run(400)
    assert min(age for _, _, age in of_queue(ran.evicted, "x")) >= 30


# -- story 3: guaranteed work --------------------------------------------------------------------

GUARANTEED = {"a": {}, "b": {}, "d": {"quota": {"gpu": 4000}, "weight": {"gpu": 0.0}}}


@pytest.mark.parametrize("k", [0.3, 2])
def test_guaranteed_and_interactive_work_is_never_interrupted(k):
    work = [
        Work("a", 12),
        Work("b", 12),
        Work("d", 1, steps=7, waiting=3, first=10, until=200, priority=100),
        Work("d", 4, steps=30, waiting=1, first=220, until=400),
    ]
    ran = cluster([16], GUARANTEED, work, shard_of(k)).run(450)
    assert of_queue(ran.evicted, "d") == []
    # Full within a cycle and the step in which victims leave.
    assert all(row["d"] >= 3 for row in ran.held[14:200])
    assert min(age for _, _, age in ran.evicted) >= SLICE[k]


def test_what_is_deserved_ends_a_time_slice_at_once():
    """Only surplus is handed over: a young job makes way for a quota."""
    work = [Work("a", 16), Work("b", 16), Work("d", 4, first=3, count=1)]
    ran = cluster([16], GUARANTEED, work, shard_of(0.3)).run(8)
    assert of_queue(ran.starts, "d") == [(4, "d2-0")]
    assert ran.evicted == [(3, "a0-0", 3)]


# -- story 4: queues within their share ----------------------------------------------------------


@pytest.mark.parametrize("k", [0.3, 2])
def test_a_queue_within_its_share_is_not_starved(k):
    queues = {"a": {}, "b": {}, "v": {"limit": {"gpu": 2000}}}
    work = [Work("a", 16), Work("b", 16), Work("v", 1, steps=5, waiting=2, first=5)]
    ran = cluster([16], queues, work, shard_of(k)).run(300)
    mean = sum(row["v"] for row in ran.held) / len(ran.held)
    assert mean > 1, "half of what it asks for, where it uses an eighth of the cluster"
    assert ran.parts()["a"] == pytest.approx(ran.parts()["b"], rel=0.4)


# -- story 5: budgets ----------------------------------------------------------------------------

MONTH = 720


@pytest.mark.parametrize("budgets", [(50, 30, 20), (70, 20, 10)])
def test_a_month_of_budgets_is_met(budgets):
    shard = shard_of(
        hand_over="budgets",
        half_life=0,
        windowSize=f"{MONTH * STEP_S:.0f}s",
        windowType="tumbling",
        tumblingWindowStartTime="1970-01-01T00:00:00Z",
    )
    queues = weighted(dict(zip("abc", budgets, strict=True)))
    work = [Work(name, 16) for name in "abc"]
    ran = VirtualCluster([16], queues, work, shard, half_life=0, window=MONTH).run(2 * MONTH)
    for month in (0, 1):
        parts = ran.parts(month * MONTH, (month + 1) * MONTH)
        for name, budget in zip("abc", budgets, strict=True):
            assert parts[name] == pytest.approx(budget / 100, rel=0.05)
        evicted = [at for at, _, _ in ran.evicted if at // MONTH == month]
        assert len(evicted) == 2, "a job goes on until its queue's budget is used"


# -- every level, several resources, restarts ----------------------------------------------------


def test_departments_take_turns_and_so_do_the_queues_in_them():
    queues = {"D": {}, "d": {"parent": "D"}, "e": {"parent": "D"}, "F": {}, "f": {"parent": "F"}}
    work = [Work(name, 16) for name in "def"]
    ran = cluster([16], queues, work, shard_of(1)).run(600)
    parts = ran.parts()
    assert parts["f"] == pytest.approx(0.5, abs=0.02)
    assert parts["d"] == pytest.approx(0.25, abs=0.02)


def test_a_job_that_needs_much_of_two_resources_takes_both():
    both = {"gpu": 0, "cpu": 0}
    weight = {"gpu": 1.0, "cpu": 1.0}
    queues = {name: {"quota": both, "weight": weight} for name in "abc"}
    work = [
        Work("a", 12, extra={"cpu": 70_000}),
        Work("b", 12, extra={"cpu": 70_000}),
        Work("c", 0, extra={"cpu": 5_000}, waiting=20),
    ]
    ran = cluster([16], queues, work, shard_of(1)).run(500)
    assert len(ran.handovers("ab")) > 20
    assert ran.parts() == pytest.approx({"a": 0.5, "b": 0.5, "c": 0}, abs=0.05)
    assert sum(name[0] == "c" for name in ran.started) >= 6, "the CPUs that are left"


def test_a_restart_forgets_nothing_that_matters():
    queues = weighted(dict.fromkeys("ab", 1))
    kept = cluster([16], queues, [Work(name, 16) for name in "ab"], shard_of(1))
    restarted = cluster([16], queues, [Work(name, 16) for name in "ab"], shard_of(1))
    for _ in range(100):
        kept.step()
        restarted.memory = type(restarted.memory)()
        restarted.step()
    assert kept.starts == restarted.starts
    assert len(kept.starts) > 10


def test_a_job_that_can_never_start_does_not_hold_up_the_others():
    """It needs more on one node than any node has, and its queue has used nothing."""
    queues = weighted(dict.fromkeys("abx", 1))
    work = [Work("a", 8, pods=2), Work("b", 8, pods=2), Work("x", 12, waiting=1)]
    ran = cluster([8, 8], queues, work, shard_of(1)).run(400)
    parts = ran.parts()
    assert len(ran.handovers("ab")) > 10
    assert parts["a"] == pytest.approx(0.5, abs=0.05)
