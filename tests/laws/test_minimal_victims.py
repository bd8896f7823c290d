"""How little is given up for one claim, against every set of victims allowed by the same rules.

A set costs the pods that are disturbed, evicted or moved, and of as many pods the GPUs they hold.
``python -m tests.laws.test_minimal_victims 2000`` measures how often a plan costs more than the
least. Of 2,000 made claims that could be met with victims 99.75 % cost the least there is, 0.1 %
cost more, 0.1 % were refused although a set exists, and 0.05 % took the last resort although a
gentle set exists. In victim order alone 35 % cost more.
"""

import random
import sys
from collections import Counter
from dataclasses import replace

from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from kaisched.actions.preempt import Preempt
from kaisched.actions.reclaim import Reclaim
from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import Group, Job, Task
from tests.laws.clusters import NOW_S, Cluster, told
from tests.oracles.exhaustive_victims import Exhaustive

POLICIES = {
    action.name: replace(default_policy(), actions=(action,)) for action in (Reclaim(), Preempt())
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
        self.is_last_resort = any("below its quota" in each.reason for each in result.evictions)
        self.makes_way = any("make way for it" in each.reason for each in result.evictions)
        """Whether pods move that nobody may evict, which the search by force knows nothing of."""
        gone = set(result.evict_tasks.tolist())
        units = enumerate(self.all.units)
        self.ours = tuple(place for place, unit in units if set(unit.tasks) <= gone)
        self.cost = self.all.cost(self.ours)

    @property
    def verdict(self):
        """What became of a claim that victims could serve; empty for any other."""
        best = self.best
        if best is None or not best.places:
            return ""
        if not self.is_placed:
            return "refused"
        if self.is_last_resort != best.is_last_resort:
            return "last resort"
        return "least" if self.cost == (best.pods, best.gpus) else "more than the least"


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
    assume(contest.is_placed and not contest.makes_way)
    found = contest.all
    assert found.works(contest.ours, is_last_resort=contest.is_last_resort)
    for place in contest.ours:
        less = tuple(each for each in contest.ours if each != place)
        assert not found.works(less, is_last_resort=contest.is_last_resort)


@given(contests)
def test_of_plans_that_cost_the_same_the_most_important_units_stay(contest):
    note(contest.told)
    assume(contest.is_placed and contest.best is not None)
    event(contest.verdict or "without victims")
    if contest.verdict == "least":
        assert contest.ours == contest.best.places


@given(contests)
def test_a_claim_is_refused_only_when_units_in_order_do_not_suffice(contest):
    note(contest.told)
    best, found = contest.best, contest.all
    assume(best is not None and best.places)
    if not contest.is_placed:
        event("refused although some set would do")
        assert found.prefix(is_last_resort=False) is None
        assert found.prefix(is_last_resort=True) is None


def rates(count):
    """Count what becomes of so many claims that victims could serve."""
    rng, found, seed = random.Random(0), Counter(), 0
    while found.total() < count:
        seed += 1
        action = rng.choice(["reclaim", "preempt"])
        verdict = Contest(seed, action, rng.randint(1, 5), rng.randint(2, 4)).verdict
        if verdict:
            found[verdict] += 1
    return found


def shown(found):
    total = found.total()
    return "; ".join(f"{name} {count / total:.2%}" for name, count in found.most_common())


def test_at_most_three_in_a_hundred_plans_disturb_more_than_the_least():
    found = rates(66)
    print(shown(found))
    assert found["least"] >= 0.97 * found.total()


if __name__ == "__main__":
    print(shown(rates(int(sys.argv[1]))))
