"""The search for victims where the laws seldom reach; what is known to be wrong is marked so."""

from dataclasses import replace
from weakref import WeakSet

import pytest

from kaisched.actions.eviction import evicting
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import Cluster
from tests.laws.crowded import carried_out

POLICY = default_policy()
IN_PLACE = replace(POLICY, allows_consolidating_reclaim=False)


def node(name, gpu, cpu=64):
    return NodeRow(name, {"cpu": 1000 * cpu, "gpu": 1000 * gpu, "pods": 110})


def queue(name, gpu, *, limit=None, created_s=0.0):
    capped = {} if limit is None else {"gpu": 1000 * limit}
    return QueueRow(
        name, created_s=created_s, quota={"gpu": 1000 * gpu}, limit=capped, weight={"gpu": 0.0}
    )


def job(name, where, *pods, minimum=1, **more):
    """Return a job; a pod is (GPUs, CPUs) or (GPUs, CPUs, the node it runs on)."""
    tasks = tuple(
        Task(
            f"{name}-{at}",
            {"gpu": 1000 * pod[0], "cpu": 1000 * pod[1]},
            state=TaskState.RUNNING if len(pod) == 3 else TaskState.PENDING,
            node=pod[2] if len(pod) == 3 else "",
        )
        for at, pod in enumerate(pods)
    )
    return Job(name, where, tasks, root=Group("default", minimum), started_s=0.0, **more)


def decide(cluster, policy=POLICY):
    snapshot = cluster.store().snapshot()
    result, _ = run_cycle(snapshot, None, policy, 1000.0, Memory())
    return result, violations(snapshot, result, policy, with_records=True)


def evicted(result):
    return sorted(each.pod.partition("/")[2] for each in result.evictions)


def promised(result):
    return {each.pod.partition("/")[2]: each.node for each in result.nominations}


def over_share(far, near):
    """Return 8 GPUs that two queues without quota hold, in pods of some GPUs; a third is due 3."""
    due = {"far": 0, "near": 0, "own": 3}
    queues = [QueueRow(name, quota={"gpu": 1000 * gpu}) for name, gpu in due.items()]
    return Cluster(
        (node("n0", 8),),
        tuple(queues),
        (
            *(job(f"far{at}", "far", (gpu, 1, "n0")) for at, gpu in enumerate(far)),
            *(job(f"near{at}", "near", (gpu, 1, "n0")) for at, gpu in enumerate(near)),
            job("w", "own", (3, 1)),
        ),
    )


def test_the_queue_furthest_above_its_share_gives_first():
    """Of 8 GPUs 3 are claimed and 2 are all that one queue wants: the other has 3 above its 3."""
    result, broken = decide(over_share(far=(1, 1, 1, 3), near=(1, 1)), IN_PLACE)
    assert (evicted(result), broken) == (["far3-0"], [])
    result, broken = decide(over_share(far=(1, 1, 1, 1, 1, 1), near=(2,)), IN_PLACE)
    assert (evicted(result), broken) == (["far3-0", "far4-0", "far5-0"], [])


def test_what_stands_within_a_share_gives_by_the_fewest_pods():
    """Three pods of one queue would leave it with 2 of its 2.5 GPUs: it would take them back."""
    result, broken = decide(over_share(far=(1, 1, 1, 1, 1), near=(3,)), IN_PLACE)
    assert (evicted(result), broken) == (["near0-0"], [])


def gang_with_an_elastic_pod():
    return Cluster(
        (node("n0", 4),),
        (queue("q", 0), queue("r", 4)),
        (
            job("g", "q", (2, 1, "n0"), (2, 1, "n0"), (0, 1, "n0"), minimum=2),
            job("w", "r", (4, 1)),
        ),
    )


def test_the_core_of_a_gang_does_not_go_without_its_elastic_pods():
    result, broken = decide(gang_with_an_elastic_pod(), IN_PLACE)
    assert (evicted(result), broken) == (["g-0", "g-1", "g-2"], [])


def test_nor_does_it_when_victims_may_find_another_place():
    result, broken = decide(gang_with_an_elastic_pod())
    assert (evicted(result), broken) == (["g-0", "g-1", "g-2"], [])


def test_a_limit_can_need_victims_although_there_is_room():
    cluster = Cluster(
        (node("n0", 8),),
        (queue("q", 8, limit=2),),
        (job("v", "q", (2, 1, "n0")), job("w", "q", (1, 1), priority=90)),
    )
    result, broken = decide(cluster)
    assert (evicted(result), promised(result), broken) == (["v-0"], {"w-0": "n0"}, [])


def test_a_unit_is_not_spared_past_the_limit():
    """The waiting pods differ, so that the claim is placed before what it needs is known."""
    cluster = Cluster(
        (node("n0", 8),),
        (queue("q", 8, limit=2),),
        (
            job("u", "q", (1, 1, "n0")),
            job("v", "q", (1, 1, "n0"), created_s=1.0),
            job("w", "q", (0, 1), (1, 1), minimum=2, priority=90),
        ),
    )
    result, broken = decide(cluster, IN_PLACE)
    assert (evicted(result), broken) == (["v-0"], [])


def test_at_a_limit_the_claim_goes_where_the_room_is():
    cluster = Cluster(
        (node("n0", 4, cpu=3), node("n1", 4)),
        (queue("q", 8, limit=4),),
        (
            job("c", "q", (0, 3, "n0"), created_s=1.0),
            job("g", "q", (4, 1, "n1")),
            job("w", "q", (2, 1), priority=90),
        ),
    )
    result, broken = decide(cluster)
    assert (evicted(result), promised(result), broken) == (["g-0"], {"w-0": "n1"}, [])


def test_a_unit_that_does_not_help_keeps_none_from_helping():
    """On n1, where v runs, there would still be only one GPU."""
    cluster = Cluster(
        (node("n0", 2), node("n1", 2)),
        (queue("a", 2), queue("b", 1), queue("c", 1)),
        (
            job("u", "b", (1, 1, "n0")),
            job("v", "b", (1, 1, "n1"), created_s=1.0),
            job("x", "c", (1, 1, "n1"), is_preemptible=False),
            job("w", "a", (2, 1)),
        ),
    )
    result, broken = decide(cluster, IN_PLACE)
    assert (evicted(result), promised(result), broken) == (["u-0"], {"w-0": "n0"}, [])


@pytest.mark.proportion
@pytest.mark.fault("F99")
def test_the_last_resort_leaves_a_queue_below_its_quota_and_says_so():
    cluster = Cluster(
        (node("n0", 5),),
        (queue("q", 3), queue("r", 2)),
        (job("g", "q", *[(1, 1, "n0")] * 5, minimum=5), job("w", "r", (2, 1))),
    )
    result, broken = decide(cluster)
    assert (len(evicted(result)), broken) == (5, [])
    assert all("below its quota" in each.reason for each in result.evictions)


@pytest.mark.fault("F94")
def test_two_queues_over_in_gpus_do_not_take_cpu_from_each_other_in_turns():
    cluster = Cluster(
        (node("n0", 4, cpu=3),),
        (queue("a", 1), queue("b", 1, created_s=1.0)),
        (
            job("ga", "a", (2, 0, "n0")),
            job("gb", "b", (2, 0, "n0")),
            job("cb", "b", (0, 3, "n0")),
            job("ca", "a", (0, 3)),
        ),
    )
    moves = []
    for _ in range(10):
        result, broken = decide(cluster)
        assert broken == []
        moves.append(evicted(result))
        cluster = carried_out(cluster, result)
    assert not any(moves[4:])


def test_of_the_classes_that_are_refused_only_the_last_keeps_its_victims_in_line(monkeypatch):
    """Each queue has what it may have, wants more, and is refused; there may be thousands."""
    names = [f"q{at}" for at in range(8)]
    holding = [job(f"{name}-{at}", name, (1, 1, f"n{at}")) for name in names for at in range(2)]
    waiting = [job(f"{name}-w", name, (1, 1)) for name in names]
    cluster = Cluster(
        (node("n0", 8), node("n1", 8)),
        tuple(QueueRow(name) for name in names),
        (*holding, *waiting),
    )
    alive, most = WeakSet(), []

    class Line(evicting.VictimList):
        def __init__(self, *words):
            super().__init__(*words)
            alive.add(self)
            most.append(len(alive))

    monkeypatch.setattr(evicting, "VictimList", Line)
    result, broken = decide(cluster)
    assert (evicted(result), broken) == ([], [])
    assert len(most) == len(names)
    assert max(most) <= 3  # the last, the one before it, and the one that is being made


@pytest.mark.parametrize("pods", [1, 2])
def test_pods_that_free_nothing_for_a_claim_do_not_use_up_what_their_queue_may_lose(pods):
    """The younger ones have instances of another profile; their queue may lose 0.4 GPUs."""
    small, large = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"
    builder = ClusterBuilder().queue("a", deserved=3).queue("b", deserved=1)
    for node in ("n0", "n1"):
        builder.node(node)
        row = builder._nodes[-1]
        builder._nodes[-1] = replace(row, allocatable={**row.allocatable, small: 4, large: 4})

    def instances(name, profile, **job):
        builder.job(name, gpu=0, **job)
        job = builder._jobs[-1]
        tasks = [replace(task, request={**task.request, profile: 1}) for task in job.tasks]
        builder._jobs[-1] = replace(job, tasks=tasks)

    for profile, name in ((small, "old"), (large, "young")):
        for at in range(8):
            instances(f"{name}{at}", profile, queue="a", running={f"n{at // 4}": 1})
    instances("claim", small, queue="b", tasks=pods)
    ran = builder.run("reclaim")
    assert len(ran.evicted) == len(ran.promised) == pods
    assert all(name.startswith("old") for name in ran.evicted)
