"""Gangs with shares of GPUs start whenever some choice of GPUs lets all of their pods start."""

import random
from dataclasses import replace
from itertools import combinations

import pytest

from kaisched.core.constraints import Constraints
from kaisched.core.devices import DeviceDemand
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group, Job, Task

WHOLE = 1000


class Cluster(ClusterBuilder):
    """A cluster with gangs of unequal pods."""

    def gang(self, name, *pods, **more):
        """Add a gang of pods, each given as thousandths of a GPU, GPUs and cores of CPU."""
        tasks = [self._pod(f"{name}-{at}", *pod) for at, pod in enumerate(pods)]
        job = Job(name, "q", tasks, root=Group("default", len(pods)), **more)
        self._jobs.append(replace(job, created_s=float(len(self._jobs))))
        return self

    @staticmethod
    def _pod(name, milli, cards=1, cores=1):
        request = {"cpu": 1000 * cores}
        if milli == WHOLE:
            return Task(name, {**request, "gpu": WHOLE * cards})
        share = Constraints(devices=DeviceDemand(milli * 1000, 0, cards))
        return Task(name, request, share)


def cluster(*gpus, **more):
    made = Cluster().queue("q", deserved=99)
    for number, count in enumerate(gpus):
        made.node(f"n{number}", gpu=count, **more)
    return made


def holding(made, node, *milli):
    """Let pods run with shares of single GPUs, each on a GPU of its own."""
    for slot, share in enumerate(milli):
        if share:
            name = f"r-{node}-{slot}"
            on = [(f"{node}-{slot}",)]
            made.job(name, queue="q", gpu=share / 1000, running={node: 1}, on_cards=on)
    return made


def bound(ran, name="g"):
    return sorted(pod for pod in ran.placed if pod.startswith(f"{name}-"))


def slots_of(ran):
    names = ran.snapshot.tasks.name
    return {names[task].rpartition("/")[2]: it for task, it in ran.result.bind_cards.items()}


def test_three_pods_with_halves_of_two_gpus_start_on_three():
    """They fit on the GPUs (A, B), (B, C) and (A, C)."""
    ran = cluster(3).gang("g", *[(500, 2)] * 3).run()
    assert bound(ran) == ["g-0", "g-1", "g-2"]
    pairs = sorted(map(sorted, slots_of(ran).values()))
    assert pairs == [[0, 1], [0, 2], [1, 2]]


def test_two_pods_that_fit_one_by_one_keep_a_gpu_whole():
    ran = cluster(3).gang("g", *[(500, 2)] * 2).run()
    assert sorted(slots_of(ran).values()) == [(0, 1), (0, 1)]


def test_unequal_pods_fill_two_gpus_that_the_least_left_would_not():
    """0.7 and 0.5 are left for 0.4, 0.3, 0.3 and 0.2: 0.4 and 0.3, and 0.3 and 0.2."""
    made = holding(cluster(2), "n0", 300, 500)
    ran = made.gang("g", (400,), (300,), (300,), (200,)).run()
    assert len(bound(ran)) == 4


def test_the_gpu_of_a_whole_pod_and_shares_of_two_gpus_are_chosen_together():
    made = holding(cluster(3), "n0", 600)
    ran = made.gang("g", (400, 2), (400, 2), (WHOLE,)).run()
    assert bound(ran) == []  # 0.4 is left on one GPU: two pairs and a whole GPU need four
    ran = holding(cluster(4), "n0", 600).gang("g", (400, 2), (400, 2), (WHOLE,)).run()
    assert len(bound(ran)) == 3


def test_a_gang_that_does_not_fit_waits_whole():
    ran = cluster(3).gang("g", *[(500, 2)] * 4).run()
    assert bound(ran) == []
    assert ran.reasons["g"] == "GangNoRoom"


def test_a_gang_waits_whole_for_gpus_that_are_being_released():
    made = cluster(3)
    made.job("old", queue="q", gpu=1, leaving={"n0": 1})
    ran = made.gang("g", *[(500, 2)] * 3).run()
    assert bound(ran) == []
    assert sorted(ran.promised) == ["g-0", "g-1", "g-2"]


def test_reclaim_frees_what_a_gang_with_shares_of_several_gpus_needs():
    """Queue q has a quota of 3: the three GPUs of b's jobs go to its gang of three pods."""
    made = cluster(3).queue("b", deserved=0)
    for number in range(3):
        made.job(f"old{number}", queue="b", gpu=1, running={"n0": 1})
    ran = made.gang("g", *[(500, 2)] * 3).run()
    assert sorted(ran.evicted) == ["old0-0", "old1-0", "old2-0"]
    assert sorted(ran.promised) == ["g-0", "g-1", "g-2"]


def test_a_nominated_gang_gets_the_gpus_that_let_all_of_it_start():
    made = cluster(3, 3).job("g", queue="q", gpu=0.5, cards=2, tasks=3, promised={"n1": 3})
    assert made.run().placed == {"g-0": "n1", "g-1": "n1", "g-2": "n1"}


def drawn(rng):
    """Return GPUs of nodes with what is held of them, cores of a node, pod slots, and a gang."""
    shares = [0, 0, 200, 250, 300, 400, 500, 600, 750]
    nodes = [
        [rng.choice(shares) for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 2))
    ]
    kinds = [
        (
            rng.choice([200, 250, 300, 400, 500, 600, 700]),
            rng.choice([1, 1, 2, 2, 3]),
            rng.choice([1, 1, 2]),
        )
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.2:
        kinds.append((WHOLE, 1, 1))
    pods = [rng.choice(kinds) for _ in range(rng.randint(2, 4))]
    return nodes, rng.choice([3, 4, 6, 1000]), rng.choice([110, 110, 4, 6, 8]), pods


def fits(nodes, cores, slots, pods):
    """Tell by trying everything whether pods fit; nodes are lists of what is held of each GPU."""
    state = [(tuple(held), cores - used(held), slots - used(held)) for held in nodes]
    return any_way(state, sorted(pods, key=lambda it: -it[0] * it[1]))


def used(held):
    """Return the cores, and the pod slots, of what runs: one for each share."""
    return sum(1 for it in held if it)


def any_way(state, pods):
    if not pods:
        return True
    (milli, cards, cores), rest = pods[0], pods[1:]
    for at, (held, cpu, slots) in enumerate(state):
        if cpu < cores:
            continue
        tried = set()
        for some in combinations(range(len(held)), cards):
            if any(held[it] + milli > WHOLE for it in some):
                continue
            after = tuple(has + milli * (it in some) for it, has in enumerate(held))
            opened = sum(not held[it] for it in some) if milli < WHOLE else 0
            look = tuple(sorted(after)), opened
            if slots < 1 + opened or look in tried:
                continue
            tried.add(look)
            new = [*state[:at], (after, cpu - cores, slots - 1 - opened), *state[at + 1 :]]
            if any_way(new, rest):
                return True
    return False


@pytest.mark.parametrize("seed", range(80))
def test_a_gang_starts_just_if_trying_everything_finds_a_way(seed):
    nodes, cores, slots, pods = drawn(random.Random(seed))
    made = Cluster().queue("q", deserved=99)
    for number, held in enumerate(nodes):
        made.node(f"n{number}", gpu=len(held), cpu=cores, pods=slots)
        holding(made, f"n{number}", *held)
    ran = made.gang("g", *pods).run("allocate")
    expected = len(pods) if fits(nodes, cores, slots, pods) else 0
    assert len(bound(ran)) == expected


def planted(rng):
    """Return what is held of the GPUs of nodes, and a gang that takes all that is left of most."""
    nodes = [[0] * rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
    pods = []
    for _ in range(rng.randint(2, 4)):
        node = rng.choice(nodes)
        some = rng.sample(range(len(node)), rng.randint(1, min(3, len(node))))
        most = WHOLE - max(node[it] for it in some)
        if most >= 100:
            milli = min(rng.choice([100, 200, 250, 300, 400, 500, 600]), most)
            pods.append((milli, len(some)))
            for it in some:
                node[it] += milli
    held = [[WHOLE - it if it and rng.random() < 0.8 else 0 for it in node] for node in nodes]
    rng.shuffle(pods)
    return held, pods


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_finds_the_way_to_fill_gpus_to_the_last_part(seed):
    nodes, pods = planted(random.Random(seed))
    made = cluster()
    for number, held in enumerate(nodes):
        made.node(f"n{number}", gpu=len(held))
        holding(made, f"n{number}", *held)
    assert len(bound(made.gang("g", *pods).run("allocate"))) == len(pods)
