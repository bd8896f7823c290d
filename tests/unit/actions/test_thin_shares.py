"""Parts of GPUs count at least so much, and give way to whole GPUs within quota (V2, R37)."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import GPU, TaskState
from kaisched.core.constraints import Constraints
from kaisched.core.devices import CARD, DeviceDemand
from kaisched.core.tables import UNPROTECTED, DisruptionBudgets
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import Cluster
from tests.unit.actions.test_search import POLICY, evicted, job, promised

pytestmark = pytest.mark.proportion
GROUPS = tuple(f"card-{at}" for at in range(8))


def node(name="n0", gpus=8):
    amounts = {"cpu": 64_000, "gpu": 1000 * gpus, "pods": 110}
    return NodeRow(name, amounts, can_share=True, card_mib=81_920)


def queue(name, gpus, parent="", **more):
    return QueueRow(
        name, parent=parent, quota={"gpu": round(1000 * gpus)}, weight={"gpu": 1.0}, **more
    )


def share(name, where, part, *cards, **more):
    """A running job of one pod with a part of some cards of n0."""
    demand = Constraints(devices=DeviceDemand(round(part * CARD), 0, len(cards)))
    task = Task(
        f"{name}-0",
        {"gpu": 0, "cpu": 1000},
        demand,
        state=TaskState.RUNNING,
        node="n0",
        cards=cards,
    )
    return Job(name, where, (task,), root=Group("default", 1), started_s=0.0, **more)


def decide(*jobs, queues, budget=()):
    """Return the result of a cycle that broke nothing; a budget allows no eviction of some pods."""
    snapshot = Cluster((node(),), queues, jobs).store().snapshot()
    of_task = np.full(len(snapshot.tasks.name), UNPROTECTED)
    for row, name in enumerate(snapshot.tasks.name):
        of_task[row] = 0 if name.partition("/")[2] in budget else UNPROTECTED
    if budget:
        budgets = DisruptionBudgets(("default/keep",), np.array([0]), of_task)
        snapshot = replace(snapshot, disruption_budgets=budgets)
    result, _ = run_cycle(snapshot, None, POLICY, 1000.0, Memory())
    assert violations(snapshot, result, POLICY, with_records=True) == []
    return result


def wants(gpus, **more):
    return job("v", "team", (gpus, 1), **more)


FLAT = (queue("mine", 0), queue("team", 7))
DEPARTMENTS = (
    queue("d1", 1),
    queue("d2", 7),
    queue("mine", 0, "d1"),
    queue("team", 7, "d2"),
)


def test_a_hundredth_of_each_of_eight_gpus_counts_as_two_fifths_of_one():
    store = Cluster((node(),), FLAT, (share("thin", "mine", 0.01, *GROUPS),)).store()
    assert store.snapshot().allocated[GPU].tolist() == [400, 0]


@pytest.mark.parametrize("queues", [FLAT, DEPARTMENTS], ids=["flat", "departments"])
@pytest.mark.parametrize("budget", [(), ("thin-0",)], ids=["", "budget"])
def test_a_thin_share_above_its_quota_gives_way_to_a_gpu_within_quota(queues, budget):
    """The department of the share has a quota; the share's own queue has none."""
    result = decide(share("thin", "mine", 0.01, *GROUPS), wants(1), queues=queues, budget=budget)
    assert (evicted(result), promised(result)) == (["thin-0"], {"v-0": "n0"})


def test_shares_on_a_card_each_move_together():
    shares = [share(f"s{at}", "mine", 0.1, GROUPS[at], created_s=at) for at in range(8)]
    result = decide(*shares, wants(7), queues=FLAT)
    assert promised(result).keys() == {"v-0", *(f"s{at}-0" for at in range(1, 8))}
    assert evicted(result) == [f"s{at}-0" for at in range(1, 8)]


@pytest.mark.parametrize("budget", [(), ("thin-0",)], ids=["", "budget"])
def test_a_share_within_its_quota_stays(budget):
    thin = share("thin", "mine", 0.01, *GROUPS)
    queues = (queue("mine", 0.4), queue("team", 7))
    assert evicted(decide(thin, wants(1), queues=queues, budget=budget)) == []


@pytest.mark.parametrize("quota", [0, 0.5])
def test_a_claim_that_is_not_within_its_quota_takes_no_share_of_a_department_that_is(quota):
    thin = share("thin", "mine", 0.01, *GROUPS)
    queues = (*DEPARTMENTS[:3], queue("team", quota, "d2"))
    assert evicted(decide(thin, wants(1), queues=queues)) == []


def test_what_is_borrowed_goes_before_a_share_of_a_department_within_its_quota():
    """Of eight GPUs a guest without quota holds seven, each with a job of its own."""
    guests = [job(f"g{at}", "guest", (1, 1, "n0"), created_s=at) for at in range(7)]
    thin = share("thin", "mine", 0.5, GROUPS[0], created_s=9.0)
    result = decide(*guests, thin, wants(1), queues=(*DEPARTMENTS, queue("guest", 0)))
    assert evicted(result) == ["g6-0"]


def test_a_share_does_not_go_for_another_share():
    demand = Constraints(devices=DeviceDemand(CARD // 2))
    task = Task("v-0", {"gpu": 0, "cpu": 1000}, demand)
    claim = Job("v", "team", (task,), root=Group("default", 1))
    thick = [share(f"s{at}", "mine", 0.6, GROUPS[at], created_s=at) for at in range(8)]
    queues = (queue("d1", 5), queue("d2", 3), queue("mine", 0, "d1"), queue("team", 3, "d2"))
    assert evicted(decide(*thick, claim, queues=queues)) == []
