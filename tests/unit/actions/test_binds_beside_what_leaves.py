"""Binds that wait for what leaves: parts of GPUs, pods that do not end, steps of claims."""

import numpy as np
import pytest

from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.session.outcome import Outcome
from kaisched.testing import ClusterBuilder

pytestmark = pytest.mark.proportion


def test_a_part_of_a_gpu_waits_on_its_card():
    made = ClusterBuilder().queue("q", limit=1).node("n", gpu=2)
    made.job("old", queue="q", leaving={"n": 1}).job("new", queue="q", gpu=0.5)
    ran = made.run()
    assert (ran.placed, ran.promised) == ({}, {"new-0": "n"})
    assert ran.result.nominations[0].cards == ()


def test_memory_of_a_gpu_counts_by_the_card_that_it_leaves():
    """40 MiB are a whole GPU of the small node, and a half of one of the large node."""
    half = Constraints(devices=DeviceDemand(0, 40, 1))
    made = ClusterBuilder().queue("q", limit=1)
    made.node("small", gpu=1, card_mib=40).node("large", gpu=2, card_mib=80)
    made.job("old", queue="q", gpu=0, leaving={"large": 1}, constraints=half)
    made.job("new", queue="q", gpu=0.5).job("next", queue="q", gpu=0.5)
    ran = made.run()
    assert len(ran.placed) == len(ran.promised) == 1


def test_a_job_says_which_queue_it_waits_for():
    made = ClusterBuilder().queue("top", limit=2).queue("q", parent="top").node("n", gpu=4)
    made.job("old", queue="q", tasks=2, leaving={"n": 2}).job("new", queue="q")
    (record,) = made.run().result.records
    assert record.reason == "WaitingForRelease"
    assert record.message == (
        "its room is kept for it until pods that leave are gone: queue top is full"
    )


def test_pods_that_come_to_no_end_count_for_limits_and_nobody_keeps_a_node_for_them():
    made = ClusterBuilder().queue("q", limit=2).node("n", gpu=4)
    made.job("old", queue="q", tasks=2, leaving={"n": 2})
    made.job("new", queue="q").job("none", queue="q", gpu=0)
    store = made.store()
    for number in range(2):
        store.set_state(
            store.row_of_task(f"default/old-{number}"), TaskState.STUCK, store.row_of_node("n")
        )
    result, _ = run_cycle(store.snapshot(), None, default_policy(), 1e9, Memory())
    assert [it.pod for it in result.binds] == ["default/none-0"]
    assert not result.nominations
    (record,) = result.records
    assert record.reason == "OverLimit"
    assert record.message.startswith("queue q: gpu 2 held + 1 asked is over its limit of 2")


def test_what_is_postponed_stays_in_its_step():
    outcome = Outcome(3)
    for task in (0, 1):
        outcome.bind(np.array([task]), np.array([0]))
    outcome.commit()
    start = outcome.counts()
    outcome.nominate(5, 1)
    outcome.bind(np.array([2, 3]), np.array([0, 0]))
    outcome.end_step("preempt", "j", start)
    outcome.commit()
    assert outcome.bind_starts().tolist() == [0, 2]
    outcome.postpone(np.array([False, True, True, False]))
    assert outcome.nominations == [(1, 0), (2, 0), (5, 1)]
    assert outcome.binds()[0].tolist() == [0, 3]
    (step,) = outcome.steps
    assert (step.binds, step.nominations) == ((1, 2), (1, 3))
