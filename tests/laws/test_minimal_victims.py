"""How little is given up for one claim, against every set of victims allowed by the same rules.

Units go in order, so what lies before the one that settles it comes before fewer GPUs behind it.
Measured on 2,286 made claims that could be met with victims: 71.2 % cost the fewest GPUs there
are, 27.5 % cost more because the order comes first, 0.9 % were refused although a set exists, and
0.4 % took the last resort although a gentle set exists. Without a look at each node by itself,
1.4 % were refused and 0.7 % took the last resort.
"""

import random
from dataclasses import replace

from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.states import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants_reclaim import UNDERSHOOTS
from kaisched.framework.memory import Memory
from kaisched.testing.rows import Group, Job, Task
from tests.laws.clusters import NOW_S, Cluster, told
from tests.oracles.exhaustive_victims import Exhaustive

POLICIES = {
    action.name: replace(default_policy(), actions=(action,), allows_consolidating_reclaim=False)
    for action in (Reclaim(), Preempt())
}
_MOST = 8


def equal_pods(name, count, gpus):
    return tuple(Task(f"{name}-{at}", {"cpu": 1000, "gpu": 1000 * gpus}) for at in range(count))


def make_nodes(rng, count):
    pick = rng.choice
    return tuple(
        NodeRow(f"n{at}", {"cpu": 64_000, "gpu": 1000 * pick([2, 4, 8]), "pods": 110})
        for at in range(count)
    )


def make_queues(rng, names):
    return tuple(
        QueueRow(
            name,
            created_s=float(at),
            quota={"gpu": 1000 * rng.choice([0, 1, 2, 4])},
            limit={"gpu": 1000 * rng.choice([4, 6])} if rng.random() < 0.1 else {},
            weight={"gpu": 1.0},
        )
        for at, name in enumerate(names)
    )


def make_running(rng, name, queue, free):
    """Make a gang that runs, as far as there is room."""
    tasks = []
    gpus = rng.choice([1, 1, 2, 4])
    for task in equal_pods(name, rng.choice([1, 1, 1, 2]), gpus):
        able = [node for node, left in sorted(free.items()) if left >= gpus]
        if able:
            node = rng.choice(able)
            free[node] -= gpus
            tasks.append(replace(task, state=TaskState.RUNNING, node=node))
    return Job(
        name,
        queue,
        tuple(tasks),
        priority=rng.choice([40, 50]),
        created_s=float(rng.randrange(4)),
        started_s=0.0,
        root=Group("default", len(tasks)),
    )


def make_contest(seed, action, nodes, queues):
    """Make nearly full nodes and one waiting job of the first queue, the most important one."""
    rng = random.Random(seed)
    rows, names = make_nodes(rng, nodes), "abcd"[:queues]
    tree = make_queues(rng, names)
    free = {row.name: row.allocatable["gpu"] // 1000 for row in rows}
    others = names[1:] if action == "reclaim" else names[:1]
    running = [
        make_running(rng, f"r{at}", rng.choice(others), free) for at in range(rng.randint(3, _MOST))
    ]
    pods = rng.choice([1, 1, 2, 3])
    tasks = equal_pods("w", pods, rng.choice([1, 2, 2, 4]))
    waits = Job("w", "a", tasks, priority=90, created_s=9.0, root=Group("default", pods))
    return Cluster(rows, tree, (*(job for job in running if job.tasks), waits))


class Contest:
    """A cluster, what was decided on it and what could have been."""

    def __init__(self, seed, action, nodes, queues):
        cluster = make_contest(seed, action, nodes, queues)
        self.told = told(cluster)
        snapshot, rules = cluster.store().snapshot(), POLICIES[action]
        result, _ = run_cycle(snapshot, None, rules, NOW_S, Memory())
        self.all = Exhaustive(snapshot, rules, action, NOW_S)
        self.best = self.all.best()
        self.is_placed = bool(len(result.binds) + len(result.nominations))
        self.is_last_resort = any(UNDERSHOOTS in each.reason for each in result.evictions)
        gone = set(result.evict_tasks.tolist())
        units = enumerate(self.all.units)
        self.ours = tuple(place for place, unit in units if set(unit.tasks) <= gone)
        self.gpus = sum(self.all.gpus[place] for place in self.ours)


contests = st.builds(
    Contest,
    st.integers(0, 1 << 32),
    st.sampled_from(["reclaim", "preempt"]),
    st.sampled_from([2, 1, 3, 4, 5]),
    st.sampled_from([2, 3, 4]),
)


@given(contests)
def test_what_is_given_up_is_allowed_and_none_of_it_can_be_put_back(contest):
    note(contest.told)
    assume(contest.is_placed)
    found = contest.all
    assert found.works(contest.ours, is_last_resort=contest.is_last_resort)
    for place in contest.ours:
        less = tuple(each for each in contest.ours if each != place)
        assert not found.works(less, is_last_resort=contest.is_last_resort)


@given(contests)
def test_of_the_shortest_sufficient_prefix_the_least_important_go(contest):
    """Of all sets in it that do, ours spares the most important unit that can be spared."""
    note(contest.told)
    assume(contest.is_placed)
    found, last = contest.all, contest.is_last_resort
    prefix = found.prefix(is_last_resort=last)
    event("node by node" if prefix is None else "in order")
    assume(prefix is not None)
    assert set(contest.ours) <= set(prefix)
    able = [
        each.places
        for each in found.choices(is_last_resort=last)
        if set(each.places) <= set(prefix)
    ]
    assert contest.ours == min(able, key=lambda places: sorted(places, reverse=True))


@given(contests)
def test_more_goes_only_where_the_order_says_so(contest):
    note(contest.told)
    best, found = contest.best, contest.all
    assume(contest.is_placed and best is not None)
    assert contest.gpus >= best.gpus or contest.is_last_resort != best.is_last_resort
    event("more GPUs than needed" if contest.gpus > best.gpus else "the fewest GPUs")
    if contest.gpus > best.gpus and contest.is_last_resort == best.is_last_resort:
        prefix = found.prefix(is_last_resort=contest.is_last_resort)
        if prefix is None:
            event("more GPUs than needed, node by node")
            return
        # One behind the prefix; or inside it a more important unit, which ours lets be.
        assert max(best.places) > max(prefix) or max(set(best.places) ^ set(contest.ours)) in (
            best.places
        )


@given(contests)
def test_a_claim_is_refused_only_when_units_in_order_do_not_suffice(contest):
    note(contest.told)
    best, found = contest.best, contest.all
    assume(best is not None and best.places)
    if not contest.is_placed:
        event("refused although some set would do")
        assert found.prefix(is_last_resort=False) is None
        assert found.prefix(is_last_resort=True) is None
