"""Disruption budgets in the search for victims: nothing is planned that they would refuse."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.axis import TaskState
from kaisched.core.tables import SEVERAL, UNPROTECTED, DisruptionBudgets
from kaisched.engine.policy import build_policy, default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.testing.builder import Group
from tests.laws.clusters import NOW_S, Cluster
from tests.laws.crowded import crowded
from tests.unit.actions.test_search import IN_PLACE, POLICY, evicted, job, node, promised, queue


def protected(snapshot, budgets):
    """Return a snapshot with budgets, each (allowed, its pods)."""
    of_task = np.full(len(snapshot.tasks.name), UNPROTECTED)
    short = [name.partition("/")[2] for name in snapshot.tasks.name]
    for row, (_, pods) in enumerate(budgets):
        for pod in pods:
            at = short.index(pod)
            of_task[at] = SEVERAL if of_task[at] != UNPROTECTED else row
    allowed = np.array([allowed for allowed, _ in budgets], np.int64)
    names = tuple(f"default/b{row}" for row in range(len(budgets)))
    return replace(snapshot, disruption_budgets=DisruptionBudgets(names, allowed, of_task))


ALWAYS = replace(IN_PLACE, disruption_budgets="always")


def decide(cluster, *budgets, policy=ALWAYS):
    """Return the result of a cycle that broke nothing, with budgets (allowed, pods...)."""
    found = [(allowed, pods) for allowed, *pods in budgets]
    snapshot = protected(cluster.store().snapshot(), found)
    result, _ = run_cycle(snapshot, None, policy, 1000.0, Memory())
    assert violations(snapshot, result, policy, with_records=True) == []
    assert result.failures == ()
    return result


def refusals(result):
    return {
        each.pod_group.partition("/")[2]: " ".join(each.eviction_refusals.values())
        for each in result.records
    }


def full(*jobs, nodes=(4,), deserved=(2, 2)):
    """Nodes of so many GPUs, queues q and r, and jobs that run or wait."""
    rows = tuple(node(f"n{at}", gpus) for at, gpus in enumerate(nodes))
    return Cluster(rows, (queue("q", deserved[0]), queue("r", deserved[1])), tuple(jobs))


def ones(count, where="q", at="n0", **more):
    """Jobs of one pod with one GPU each, the oldest first."""
    return [
        job(f"{where}{number}", where, (1, 1, at), created_s=float(number), **more)
        for number in range(count)
    ]


WANTS = job("w", "r", (1, 1))
WORDS = "protected by a disruption budget"


def test_reclaim_takes_the_youngest_where_nothing_is_protected():
    assert evicted(decide(full(*ones(4), WANTS))) == ["q3-0"]


def test_reclaim_takes_another_victim_rather_than_a_protected_one():
    assert evicted(decide(full(*ones(4), WANTS), (0, "q3-0"))) == ["q2-0"]


def test_what_stays_is_not_counted_as_lost_when_others_are_judged():
    """Queue q deserves two of its four: both that may go are behind two that may not."""
    wants = job("w", "r", (1, 1), (1, 1), minimum=2)
    assert evicted(decide(full(*ones(4), wants), (0, "q3-0", "q2-0"))) == ["q0-0", "q1-0"]


def test_a_pod_of_two_budgets_is_taken_by_nobody():
    result = decide(full(*ones(4), WANTS), (9, "q3-0"), (9, "q3-0", "q2-0"))
    assert evicted(result) == ["q2-0"]


def test_a_claim_that_only_budgets_stand_in_the_way_of_is_told_so():
    result = decide(full(*ones(4), WANTS), (0, "q0-0", "q1-0", "q2-0", "q3-0"))
    assert evicted(result) == []
    assert WORDS in refusals(result)["w"]


def test_a_claim_that_nothing_running_would_make_room_for_is_not():
    wants = job("w", "r", (8, 1))
    result = decide(full(*ones(4), wants, deserved=(0, 8)), (0, "q0-0"))
    assert WORDS not in refusals(result)["w"]


def gang(pods, *, at="n0", minimum=None, **more):
    return job("g", "q", *[(1, 1, at)] * pods, minimum=minimum or pods, **more)


def test_a_gang_goes_whole_only_if_its_budget_lets_all_of_it_go():
    cluster = full(*ones(2), gang(2, created_s=9.0), job("w", "r", (2, 1)))
    assert evicted(decide(cluster, (2, "g-0", "g-1"))) == ["g-0", "g-1"]
    assert evicted(decide(cluster, (1, "g-0", "g-1"))) == ["q0-0", "q1-0"]


def test_a_gang_alone_stays_and_its_budget_is_named():
    result = decide(full(gang(4), WANTS, deserved=(0, 4)), (3, "g-0", "g-1", "g-2", "g-3"))
    assert (evicted(result), WORDS in refusals(result)["w"]) == ([], True)


def test_elastic_pods_go_as_far_as_their_budget_allows():
    cluster = full(gang(4, minimum=1), *ones(0), job("w", "r", (1, 1), (1, 1), minimum=2))
    pods = [f"g-{at}" for at in range(4)]
    assert len(evicted(decide(cluster, (2, *pods)))) == 2
    assert evicted(decide(cluster, (1, *pods))) == []


def test_a_core_does_not_go_when_a_budget_keeps_one_of_its_elastic_pods():
    cluster = full(gang(4, minimum=2), job("w", "r", (4, 1)), deserved=(0, 4))
    assert len(evicted(decide(cluster))) == 4
    assert evicted(decide(cluster, (0, "g-3"))) == []


def test_a_spare_subgroup_does_not_go_when_a_budget_keeps_one_of_its_elastic_pods():
    """The job needs one of two subgroups. The pod g-3 is beyond the minimum of the second."""
    tree = Group("root", 1, (Group("x", 1), Group("y", 2)))
    some = gang(4, minimum=1)
    tasks = [replace(it, podset=name) for it, name in zip(some.tasks, "xyyy", strict=True)]
    some = replace(some, root=tree, tasks=tuple(tasks))
    cluster = full(some, job("w", "r", (3, 1)), deserved=(0, 4))
    assert evicted(decide(cluster)) == ["g-1", "g-2", "g-3"]
    assert evicted(decide(cluster, (0, "g-3"))) == []


def test_one_plan_takes_no_more_of_a_budget_than_it_allows():
    """The two youngest share a budget that lets one go."""
    wants = job("w", "r", (1, 1), (1, 1), minimum=2)
    result = decide(full(*ones(4), wants), (1, "q3-0", "q2-0"))
    assert evicted(result) == ["q1-0", "q3-0"]


def test_one_cycle_takes_no_more_of_a_budget_than_it_allows():
    """Two claims, two searches."""
    claims = [job(f"w{at}", "r", (1, 1), created_s=float(at)) for at in range(2)]
    result = decide(full(*ones(4), *claims), (1, "q3-0", "q2-0"))
    assert evicted(result) == ["q1-0", "q3-0"]
    assert promised(result) == {"w0-0": "n0", "w1-0": "n0"}


def test_the_second_claim_of_a_cycle_waits_when_the_budget_is_used_up():
    claims = [job(f"w{at}", "r", (1, 1), created_s=float(at)) for at in range(2)]
    result = decide(full(*ones(4), *claims), (1, "q3-0", "q2-0", "q1-0", "q0-0"))
    assert (len(evicted(result)), list(promised(result))) == (1, ["w0-0"])
    assert WORDS in refusals(result)["w1"]


def test_a_search_that_fails_costs_no_budget():
    """The first claim is too large for all that may go; the second needs what it had tried."""
    claims = [job("w0", "r", (3, 1)), job("w1", "r", (1, 1), created_s=1.0)]
    cluster = full(*ones(4), *claims, deserved=(1, 3))
    budget = (1, "q3-0", "q2-0", "q1-0", "q0-0")
    assert list(promised(decide(cluster, budget))) == ["w1-0"]


def test_a_budget_spent_on_one_node_does_not_hide_the_node_where_it_is_enough():
    """By order the youngest goes, on n0, where more would have to; on n1 one is enough."""
    jobs = [
        job("u", "q", (1, 1, "n1")),
        job("v0", "q", (1, 1, "n0"), created_s=1.0),
        job("v1", "q", (1, 1, "n0"), created_s=2.0),
    ]
    cluster = Cluster(
        (node("n0", 2), node("n1", 2)),
        (queue("q", 0), queue("r", 4)),
        (*jobs, job("w", "r", (2, 1))),
    )
    result = decide(cluster, (1, "u-0", "v0-0", "v1-0"))
    assert (evicted(result), promised(result)) == (["u-0"], {"w-0": "n1"})


def test_preempt_keeps_to_budgets():
    jobs = [*ones(4, priority=50), job("w", "q", (1, 1), priority=90)]
    cluster = full(*jobs, deserved=(4, 0))
    assert evicted(decide(cluster, (0, "q3-0", "q2-0"))) == ["q1-0"]


def scattered():
    """Two nodes of two GPUs, a pod of one on each; a pod of two waits in the same queue."""
    return Cluster(
        (node("n0", 2), node("n1", 2)),
        (queue("q", 4),),
        (job("a", "q", (1, 1, "n0")), job("b", "q", (1, 1, "n1")), job("w", "q", (2, 1))),
    )


def test_consolidate_moves_what_budgets_let_it():
    (one,) = evicted(decide(scattered(), policy=POLICY))
    other = {"a-0": "b-0", "b-0": "a-0"}[one]
    assert evicted(decide(scattered(), (0, one), policy=POLICY)) == [other]


def test_consolidate_moves_nothing_that_is_protected_and_says_so():
    result = decide(scattered(), (0, "a-0", "b-0"), policy=POLICY)
    assert (evicted(result), WORDS in refusals(result)["w"]) == ([], True)


def test_consolidate_counts_all_that_one_claim_moves():
    """A gang of two needs two nodes cleared; their pods share a budget."""
    rows = tuple(node(f"n{at}", 2) for at in range(4))
    runs = [job(f"a{at}", "q", (1, 1, f"n{at}")) for at in range(4)]
    cluster = Cluster(rows, (queue("q", 8),), (*runs, job("w", "q", (2, 1), (2, 1), minimum=2)))
    pods = [f"a{at}-0" for at in range(4)]
    assert len(evicted(decide(cluster, (2, *pods), policy=POLICY))) == 2
    assert evicted(decide(cluster, (1, *pods), policy=POLICY)) == []


def test_a_stale_gang_stays_until_its_budget_lets_all_of_it_go():
    cluster = full(gang(2, minimum=3, staleness_grace_s=0.0))
    assert evicted(decide(cluster, (2, "g-0", "g-1"))) == ["g-0", "g-1"]
    assert evicted(decide(cluster, (1, "g-0", "g-1"))) == []


def test_drained_jobs_go_as_budgets_let_them():
    shard = SchedulingShard(metadata=ObjectMeta(name="s"), spec=ShardSpec())
    policy, _ = build_policy(shard, actions=["drain"])
    drained = replace(queue("q", 4), stop=2)
    cluster = Cluster((node("n0", 4),), (drained,), tuple(ones(3)))
    result = decide(cluster, (1, "q0-0", "q1-0"), policy=policy)
    assert evicted(result) == ["q0-0", "q2-0"]


# -- budgets protect what is a queue's own ---------------------------------------------------------
# Queues have an over-quota weight of 0: their fair share is their quota.

QUOTA = replace(IN_PLACE, disruption_budgets="withinQuota")
TEN_MINUTES = replace(IN_PLACE, disruption_budgets=600.0)


def ignoring(result):
    return sorted(it.pod.partition("/")[2] for it in result.evictions if it.ignores_budget)


def wanting(count, **more):
    return [job(f"w{at}", "r", (1, 1), created_s=float(at), **more) for at in range(count)]


@pytest.mark.fault("I135")
@pytest.mark.proportion
def test_a_budget_keeps_no_more_than_the_fair_share():
    """Queue q deserves two of its four."""
    cluster = full(*ones(4), *wanting(4))
    result = decide(cluster, (0, "q0-0", "q1-0", "q2-0", "q3-0"), policy=IN_PLACE)
    assert evicted(result) == ignoring(result) == ["q2-0", "q3-0"]
    assert "its disruption budget does not hold" in result.evictions[0].reason


@pytest.mark.proportion
def test_two_budgets_keep_no_more_than_one():
    budgets = (9, "q3-0", "q2-0"), (9, "q3-0", "q2-0", "q1-0")
    result = decide(full(*ones(4), WANTS), *budgets, policy=IN_PLACE)
    assert evicted(result) == ignoring(result) == ["q3-0"]


@pytest.mark.proportion
def test_a_budget_that_allows_an_eviction_is_not_ignored():
    result = decide(full(*ones(4), *wanting(2)), (1, "q3-0", "q2-0"), policy=IN_PLACE)
    assert (evicted(result), len(ignoring(result))) == (["q2-0", "q3-0"], 1)


@pytest.mark.proportion
def test_of_a_plan_only_what_is_above_the_share_goes_past_a_budget():
    """Gang and pods hold 2 each, deserved are 2: the claim of 4 would take what is q's own."""
    cluster = full(gang(2), *ones(2), job("w", "r", (4, 1)), deserved=(2, 4))
    result = decide(cluster, (0, "g-0", "g-1", "q0-0", "q1-0"), policy=IN_PLACE)
    assert (evicted(result), WORDS in refusals(result)["w"]) == ([], True)


def beside_a_node_without_cpu():
    """Work of q (quota 0) is on the one node that fits r's job; its fair share is all it asks."""
    return Cluster(
        (node("n0", 4), node("n1", 4, cpu=1)),
        (replace(queue("q", 0), weight={"gpu": 1.0}), queue("r", 4)),
        (job("g", "q", (4, 1, "n0")), job("w", "r", (4, 2))),
    )


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("policy", "gone"),
    [(ALWAYS, []), (IN_PLACE, []), (QUOTA, ["g-0"]), (TEN_MINUTES, ["g-0"])],
)
def test_how_far_budgets_hold_is_a_setting(policy, gone):
    assert evicted(decide(beside_a_node_without_cpu(), (0, "g-0"), policy=policy)) == gone


@pytest.mark.proportion
def test_budgets_hold_until_a_job_has_waited_for_long_enough():
    """It is 1,000 s: the important job waits for 100 s, the other for 900 s."""
    jobs = [
        job("w0", "r", (1, 1), created_s=900.0, priority=90),
        job("w1", "r", (1, 1), created_s=100.0),
    ]
    pods = [f"q{at}-0" for at in range(4)]
    result = decide(full(*ones(4), *jobs), (0, *pods), policy=TEN_MINUTES)
    assert promised(result) == {"w1-0": "n0"}
    assert WORDS in refusals(result)["w0"]


@pytest.mark.proportion
@pytest.mark.parametrize(("deserved", "gone"), [((4, 0), []), ((2, 2), ["q3-0"])])
def test_preempt_goes_past_budgets_of_what_is_above_the_share(deserved, gone):
    cluster = full(*ones(4, priority=50), job("w", "q", (1, 1), priority=90), deserved=deserved)
    pods = [f"q{at}-0" for at in range(4)]
    assert evicted(decide(cluster, (0, *pods), policy=IN_PLACE)) == gone


def test_what_evicts_for_nobody_keeps_to_budgets():
    cluster = full(gang(2, minimum=3, staleness_grace_s=0.0), deserved=(0, 0))
    assert evicted(decide(cluster, (1, "g-0", "g-1"), policy=IN_PLACE)) == []
    assert evicted(decide(scattered(), (0, "a-0", "b-0"), policy=POLICY)) == []


# -- laws ------------------------------------------------------------------------------------------


@st.composite
def guarded(draw):
    """A crowded cluster, and budgets over the pods that run there."""
    cluster = draw(crowded)
    running = [
        task.name for each in cluster.jobs for task in each.tasks if task.state == TaskState.RUNNING
    ]
    pods = st.lists(st.sampled_from(running), unique=True) if running else st.just([])
    budgets = draw(st.lists(st.tuples(st.integers(0, 3), pods), max_size=3))
    return cluster, budgets


@given(guarded())
def test_nothing_is_evicted_beyond_a_budget(found):
    cluster, budgets = found
    snapshot = protected(cluster.store().snapshot(), budgets)
    result, _ = run_cycle(snapshot, None, default_policy(), NOW_S, Memory())
    assert not result.failures
    assert violations(snapshot, result, default_policy(), with_records=True) == []


@settings(max_examples=20)
@given(crowded)
def test_budgets_with_enough_to_give_change_nothing(cluster):
    bare = cluster.store().snapshot()
    pods = [name.partition("/")[2] for name in bare.tasks.name]
    rich = protected(bare, [(99, pods)])
    results = [run_cycle(it, None, POLICY, NOW_S, Memory())[0].encode() for it in (bare, rich)]
    assert results[0] == results[1]
