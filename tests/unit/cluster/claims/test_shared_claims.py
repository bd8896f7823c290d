"""A ResourceClaim that several pods name counts once: with the first pod that gets it."""

import random
from itertools import count

import pytest

from kaisched.core.axis import GPU
from tests.unit.cluster.claims.worlds import World


def allocated(world):
    """Return by queue the GPUs that it has in thousandths, as the last cycle says."""
    return {it.name: it.allocated["gpu"] for it in world.result.shares}


def test_pods_of_two_queues_get_a_claim_in_one_cycle_and_leave_quota_to_others():
    """Four devices: two of the claim, counted for a, and two of d for b within its quota of 2."""
    world = World(a=2, b=2)
    world.node("n1", *["H100"] * 4)
    world.claim("c", 2)
    world.claim("d", 2)
    world.pod("p0", "a", claim="c")
    world.pod("p1", "b", claim="c")
    world.pod("p2", "b", claim="d")
    world.cycle()
    assert world.nodes == {"p0": "n1", "p1": "n1", "p2": "n1"}
    assert allocated(world) == {"a": 2000, "b": 2000}
    world.cycle()
    assert allocated(world) == {"a": 2000, "b": 2000}


def test_a_node_without_other_devices_takes_all_users_of_a_claim():
    """One device: the pods of three jobs start in one cycle, as the claim has it once."""
    world = World(a=4)
    world.node("n1", "H100")
    world.claim("c")
    for name in "xyz":
        world.pod(name, "a", claim="c")
    world.cycle()
    assert set(world.nodes.values()) == {"n1"}
    assert allocated(world) == {"a": 1000}


def limited(world, queue, limit):
    """Give a queue a limit of GPUs, and no quota."""
    world.put("Queue", queue, spec={"resources": {"gpu": {"quota": 0, "limit": limit}}})


def test_a_queue_at_its_limit_joins_a_claim_that_counts_elsewhere():
    """Queue b may hold no GPU; a pays for the claim, so that b's older pod never counts."""
    world = World(a=2)
    limited(world, "b", 0)
    world.node("n1", "H100")
    world.claim("c")
    world.pod("late", "b", claim="c")
    world.pod("payer", "a", claim="c")
    world.cycle()
    assert world.nodes == {"late": "n1", "payer": "n1"}
    assert allocated(world) == {"a": 1000, "b": 0}
    world.cycle()
    assert allocated(world) == {"a": 1000, "b": 0}


def test_the_count_goes_on_to_the_next_user_when_the_first_leaves():
    world = World(a=2, b=2)
    world.node("n1", "H100")
    world.claim("c")
    world.pod("first", "a", claim="c")
    world.cycle()
    world.pod("next", "b", claim="c")
    world.cycle()
    assert allocated(world) == {"a": 1000, "b": 0}
    world.delete("first")
    world.cycle()
    assert allocated(world) == {"a": 0, "b": 1000}


def test_a_gang_that_does_not_start_counts_no_claim():
    """The gang of a needs a third pod's room in vain; b's pod gets and pays the claim."""
    world = World(a=2, b=2)
    world.node("n1", "H100")
    world.claim("c")
    world.put("PodGroup", "pg", "team", spec={"minMember": 3, "queue": "a"})
    world.pod("g0", "a", claim="c", group="pg")
    world.pod("g1", "a", claim="c", group="pg")
    world.claim("more", 2)
    world.pod("g2", "a", claim="more", group="pg")
    world.pod("single", "b", claim="c")
    world.cycle()
    assert world.nodes == {"g0": "", "g1": "", "g2": "", "single": "n1"}
    assert allocated(world) == {"a": 0, "b": 1000}


def add_pods(rng, world, names, queues, claims):
    """Add single pods, gangs and elastic groups whose pods name one or two claims."""
    for _ in range(rng.randint(1, 4)):
        queue, name = rng.choice(queues), f"p{next(names)}"
        size = rng.choice((1, 1, 2, 3))
        if size > 1:
            minimum = rng.randint(1, size)
            world.put("PodGroup", name, "team", spec={"minMember": minimum, "queue": queue})
        for at in range(size):
            some = rng.sample(claims, min(len(claims), rng.choice((1, 1, 2))))
            world.pod(f"{name}-{at}", queue, claim=some, group=name if size > 1 else "")


@pytest.mark.parametrize("seed", range(15))
def test_shared_claims_count_once_in_every_cycle(seed):
    """What queues hold after a cycle is what the next one begins with, and each device once."""
    rng = random.Random(seed)
    queues, names = ["a", "b", "c"], count()
    world = World(**{it: rng.randint(0, 4) for it in queues})
    for node in range(rng.randint(1, 3)):
        world.node(f"n{node}", *["H100"] * rng.randint(1, 4))
    claims = [f"c{at}" for at in range(rng.randint(1, 4))]
    for claim in claims:
        world.claim(claim, rng.randint(1, 2))
    for _ in range(4):
        add_pods(rng, world, names, queues, claims)
        if rng.random() < 0.5 and world.nodes:
            world.delete(rng.choice(sorted(world.nodes)))
        before = world.cluster.snapshot()
        result = world.cycle(for_s=0.0)
        after = world.cluster.snapshot()
        begun = dict(zip(after.queues.name, after.allocated[GPU].tolist(), strict=True))
        for queue, gpus in promised(result.counted or before, result):
            begun[queue] += gpus
        assert begun == {it.name: it.allocated["gpu"] for it in result.shares}
        if result.nominations or result.evictions:
            world.cluster.advance_to(world.cluster.clock.now_s() + 2)
            continue
        assert sum(begun.values()) == 1000 * sum(len(world.devices(it)) for it in claims)
        again = world.decide(after)
        assert again.evictions or not again.binds  # nothing is left for later


def promised(snapshot, result):
    """Yield queue and thousandths of GPUs of each pod that is nominated."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    for task in result.nominate_tasks.tolist():
        queue = snapshot.queues.name[jobs.queue_of_job[tasks.job_of_task[task]]]
        yield queue, int(snapshot.shapes.charge[GPU, tasks.shape_of_task[task]])
        yield queue, sum(int(it.charge[GPU]) for it in result.heirs if it.task == task)


def test_a_pod_waits_for_devices_that_are_promised_to_its_claim():
    """The claim of `new` waits for the devices of `old`: a pod that shares it is not bound yet."""
    world = World(a=1, b=0)
    world.node("n1", "H100")
    world.template("one")
    world.pod("old", "b", "one")
    world.cycle()
    world.claim("c")
    world.pod("new", "a", claim="c")
    world.pod("newer", "a", claim="c")
    result = world.cycle(for_s=0)
    assert [it.pod for it in result.evictions] == ["team/old"]
    assert not result.binds
    world.cycle()
    world.cycle()
    assert world.nodes == {"old": "", "new": "n1", "newer": "n1"}


def test_nobody_is_evicted_for_a_claim_that_needs_the_devices_of_another_claim_of_the_pod():
    """One node, two devices: the pod keeps `c` there, which has one, and `d` asks for both."""
    world = World(a=3, b=0)
    world.node("n1", "H100", "H100")
    world.claim("c")
    world.pod("old", "b", claim="c")
    world.cycle()
    world.claim("d", 2)
    world.pod("new", "a", claim=["c", "d"])
    result = world.cycle()
    assert not result.evictions
    assert not result.nominations


def test_the_count_goes_on_to_the_next_user_when_the_first_is_evicted():
    """Pods of a and b use c, which counts with a's; team lacks the CPUs of a's pod."""
    world = World(team=1, a=0, b=1)
    world.put("Queue", "team", spec={"resources": {"cpu": {"quota": 64000}, "gpu": {"quota": 1}}})
    world.put("Queue", "a", spec={"resources": {"cpu": {"quota": 0}, "gpu": {"quota": 0}}})
    world.put("Queue", "b", spec={"resources": {"cpu": {"quota": 1000}, "gpu": {"quota": 1}}})
    world.node("n1", "H100")
    world.claim("c")
    world.pod("first", "a", claim="c")
    world.cycle()
    world.pod("next", "b", claim="c")
    world.cycle()
    assert allocated(world) == {"team": 0, "a": 1000, "b": 0}
    spec = {
        "schedulerName": "kaisched",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": 63}}}],
    }
    labels = {"kai.scheduler/queue": "team"}
    world.put("Pod", "large", "team", metadata={"labels": labels}, spec=spec)
    result = world.cycle()
    assert [it.pod for it in result.evictions] == ["team/first"]
    assert allocated(world) == {"team": 0, "a": 0, "b": 1000}
    world.cycle()
    assert allocated(world) == {"team": 0, "a": 0, "b": 1000}
