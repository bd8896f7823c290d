"""The victim search against every set of units: complete, short, and nothing for idle room.

``python -m tests.laws.test_victim_search_laws 1000`` looks at so many refused claims of every
policy and action, and prints how often a claim is refused though an allowed set of units would
make room, and how often a plan takes what it need not. ``... 1000 default consolidate`` looks at
one policy and action, ``... show default consolidate 24`` tells one cluster of those.
"""

import sys
from collections import Counter
from dataclasses import replace
from itertools import combinations, islice

from hypothesis import event, given, note
from hypothesis import strategies as st

from kaisched.cluster.nodes import NodeRow
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, told
from tests.laws.contests import KINDS, UNITS, make_contest, policy, some_contests
from tests.oracles.victims_by_force import Force, changed, protecting

MOST = 16
"""Jobs that one claim may move, by default."""
FEW = 6
"""Of many units so many on one node are tried."""
SMALL = 8
"""Of a plan of so many units every part is tried."""


def decided(cluster, name, action):
    """Return the snapshot of a cluster and what a cycle decides on it."""
    snapshot = cluster.store().snapshot()
    return snapshot, run_cycle(snapshot, None, policy(name, action), NOW_S, Memory())[0]


def is_served(result):
    """Tell whether the waiting gang has a place or the promise of one."""
    named = {each.pod_group for each in (*result.binds, *result.nominations)}
    return "default/w" in named


class Contest:
    """A cluster, what was decided on it, and what could have been."""

    def __init__(self, cluster, name, action):
        self.cluster, self.name, self.action = cluster, name, action
        self.snapshot, self.result = decided(cluster, name, action)
        self.force = Force(cluster, policy(name, action), action)
        self.is_served = is_served(self.result)
        self.gone = set(self.result.evict_tasks.tolist())
        units = enumerate(self.force.units)
        self.ours = tuple(at for at, unit in units if set(unit.tasks) <= self.gone)
        self.moves_others = any("make way" in each.reason for each in self.result.evictions)
        """Whether pods move that nobody may evict: sets of victims say nothing of such a plan."""

    def __repr__(self):
        return f"a contest of {self.name}, {self.action}: see the note"

    @property
    def told(self):
        """Tell all in a few lines."""
        gone = sorted(self.force.names[it] for it in self.gone)
        return f"{self.name} {self.action}: evicted {gone}\n{told(self.cluster)}"

    def possible(self):
        """Return a set of units that would do, as their pods; None where there is none."""
        force = self.force
        if self.action == "consolidate":
            places = force.moves(MOST)
        else:
            found = force.first()
            places = None if found is None else found[1]
        if places is None:
            return None
        return sorted(force.names[it] for at in places for it in force.units[at].tasks)

    def pass_number(self):
        """Return the pass that allows the plan; None where pods move that may not be evicted."""
        if self.moves_others or self.action == "consolidate":
            return None
        return next((number for number in (0, 1) if self.force.works(self.ours, number)), None)

    def spare(self):
        """Return a part of the plan that its pass allows as well; None without.

        A unit that goes along with another is not left out alone.
        """
        number = self.pass_number()
        if number is None:
            return None
        sizes = range(1, len(self.ours)) if len(self.ours) <= SMALL else [len(self.ours) - 1]
        for size in sizes:
            for part in combinations(self.ours, size):
                if self.force.works(part, number):
                    return part
        return None

    def cheaper(self):
        """Return a set that its pass allows as well and that costs less, as its pods, or None."""
        number = self.pass_number()
        if number is None:
            return None
        force = self.force
        best = min(force.sets(number), key=lambda it: force.cost(it, number))
        if force.cost(best, number) >= force.cost(self.ours, number):
            return None
        return sorted(force.names[it] for at in best for it in force.units[at].tasks)

    def served_by_protecting(self):
        """Return the running jobs by whose protection alone the claim is served."""
        return [
            job.name
            for job in self.cluster.jobs[:-1]
            if job.is_preemptible
            and is_served(decided(protecting(self.cluster, job.name), self.name, self.action)[1])
        ]

    def more_than_the_least(self):
        """Return how many pods go beyond the fewest that would do.

        None of a plan that moves, or where the order of victims counts before their number.
        """
        by_policy = self.force.session.ask.orders_victims
        if self.moves_others or by_policy or self.action == "consolidate":
            return None
        found = self.force.first()
        if found is None:
            return "no set is allowed"
        return max(len(self.gone) - self.force.pods_of(found[1]), 0)

    def still_says(self, remove, *, reason=None, words=None):
        """Tell whether the claim waits for the same reason once what it names is removed."""
        result = decided(remove(self.cluster), self.name, self.action)[1]
        if is_served(result):
            return False
        (record,) = result.records
        said = " ".join(record.eviction_refusals.values())
        return record.reason == reason or (words is not None and words in said)

    @property
    def kind(self):
        if self.force.fits_idle():
            return "idle"
        return "plan" if self.is_served else "refused"

    def wrong(self):
        """Yield what is not right, by kind; nothing or 0 where it is."""
        rules = policy(self.name, self.action)
        yield "failure", self.result.failures
        yield "broken rules", violations(self.snapshot, self.result, rules, with_records=True)
        if self.kind == "idle":
            yield "evicts beside idle room", sorted(self.gone) or not self.is_served
        elif self.kind == "refused":
            yield "miss", self.possible()
            yield "served by protecting", self.served_by_protecting()
        else:
            yield "spare units", self.spare() is not None
            yield "not the cheapest", self.cheaper()
            yield "more than the least", self.more_than_the_least()

    def possible_on_a_node(self):
        """Return a set of a few units of one node that would do, as their pods, or None."""
        for node in self.cluster.nodes:
            self.force.look_at(node.name, FEW)
            if (found := self.possible()) is not None:
                return found
        return None


def contest_of(seed, kind, nodes, jobs, most=UNITS):
    return Contest(make_contest(seed, *kind, nodes, jobs, most), *kind)


contests = st.builds(
    contest_of,
    st.integers(0, 1 << 32),
    st.sampled_from(KINDS),
    st.sampled_from([2, 1, 3, 4, 5]),
    st.sampled_from([6, 2, 4, 8, 12]),
)

large_contests = st.builds(
    contest_of,
    st.integers(0, 1 << 32),
    st.sampled_from([kind for kind in KINDS if kind[1] != "consolidate"]),
    st.sampled_from([5, 3, 8]),
    st.sampled_from([30, 20, 50]),
    st.just(60),
)


@given(contests)
def test_a_claim_is_refused_only_where_no_allowed_set_makes_room(contest):
    note(contest.told)
    assert contest.is_served or contest.possible() is None


@given(large_contests)
def test_among_many_units_those_of_one_node_are_found(contest):
    note(contest.told)
    assert contest.is_served or contest.possible_on_a_node() is None


@given(contests)
def test_no_unit_of_a_plan_can_be_left_out(contest):
    note(contest.told)
    assert not contest.gone or contest.spare() is None


@given(contests)
def test_the_cheapest_set_goes(contest):
    note(contest.told)
    assert not contest.gone or contest.cheaper() is None


@given(contests)
def test_nobody_goes_for_room_that_is_idle(contest):
    note(contest.told)
    if contest.force.fits_idle():
        assert contest.is_served
        assert not contest.gone


@given(contests)
def test_protecting_a_running_job_serves_no_refused_claim(contest):
    note(contest.told)
    assert contest.is_served or contest.served_by_protecting() == []


# -- what a refusal names --------------------------------------------------------------------------

LARGE = {"cpu": 64_000, "gpu": 64_000, "pods": 110}


def with_nodes(cluster):
    """Add an empty node in each zone."""
    more = tuple(NodeRow(f"new-{zone}", LARGE, {"zone": zone}) for zone in "ab")
    return replace(cluster, nodes=(*cluster.nodes, *more))


def with_queues(cluster, change):
    return replace(cluster, queues=tuple(change(queue) for queue in cluster.queues))


def with_quota(cluster):
    """Give the queue that asks a quota of all it could ask for."""
    most = {"gpu": 1_000_000, "cpu": 1_000_000}
    return with_queues(
        cluster, lambda it: replace(it, quota={**it.quota, **most}) if it.name == "own" else it
    )


def all_borrow(cluster):
    """Let all that other queues hold be borrowed, and be taken by anybody entitled to it."""
    anybody = {"within": "Any", "across": "Any"}
    free = with_queues(cluster, lambda it: replace(it, sharing=replace(it.sharing, **anybody)))
    return with_queues(
        with_quota(free),
        lambda it: it if it.name == "own" else replace(it, quota={"gpu": 0, "cpu": 0}),
    )


def without_limits(cluster):
    return with_queues(cluster, lambda it: replace(it, limit={}))


def with_priority(cluster):
    return with_queues(cluster, lambda it: replace(it, priority=1000) if it.name == "own" else it)


def preemptible(cluster):
    return changed(cluster, lambda job: replace(job, is_preemptible=True))


def long_started(cluster):
    return changed(cluster, lambda job: replace(job, started_s=0.0))


OF_REASONS = {
    "OverLimit": without_limits,
    "OverQueueLimit": without_limits,
    "AboveLimit": without_limits,
    "NonPreemptibleOverQuota": preemptible,
    "NonPreemptibleBorrows": preemptible,
    "QuotaExhausted": with_quota,
    "NoRoom": with_nodes,
    "GangNoRoom": with_nodes,
    "ExceedsAnyNode": with_nodes,
    "NoNodeAllowed": with_nodes,
}
"""By the reason of a waiting job, how to remove what is in its way."""
OF_SENTENCES = {
    "it has not run for its minimum runtime": long_started,
    "over its fair share": with_quota,
    "more than its fair share": with_quota,
    "what its share lets it take": with_quota,
    "queue own would have a share": with_quota,
    "what quota and priority let it take": with_quota,
    "no queue that borrows": all_borrow,
    "no work of a lower one": with_priority,
    "no work that may be evicted": with_nodes,
}
"""By words of the sentence about evictions, likewise."""


@given(contests)
def test_the_obstacle_that_is_named_is_what_stands_in_the_way(contest):
    note(contest.told)
    if contest.is_served:
        return
    (record,) = contest.result.records
    said = " ".join(record.eviction_refusals.values())
    note(f"{record.reason}: {said}")
    remove = OF_REASONS.get(record.reason)
    event(record.reason)
    if remove is not None:
        assert not contest.still_says(remove, reason=record.reason)
    for words, remove in OF_SENTENCES.items():
        if words in said:
            event(words)
            assert not contest.still_says(remove, words=words)


# -- how often -------------------------------------------------------------------------------------


def rates(name, action, count):
    """Count what becomes of claims until so many are refused, and name what is not right."""
    found, wrong = Counter(), []
    for seed, cluster in enumerate(some_contests(0, name, action)):
        contest = Contest(cluster, name, action)
        told = {kind: it for kind, it in contest.wrong() if it}
        found.update([contest.kind, *told])
        wrong += [f"{name} {action} {seed}: {kind} {it}" for kind, it in told.items()]
        if found["refused"] >= count:
            return found, wrong
    return found, wrong


def test_at_most_three_in_a_hundred_plans_disturb_more_than_the_least():
    for action in ("reclaim", "preempt"):
        some = islice(some_contests(0, "default", action), 120)
        plans = [it for cluster in some if (it := Contest(cluster, "default", action)).gone]
        more = sum(bool(plan.more_than_the_least()) for plan in plans)
        assert more <= 0.03 * len(plans)


def main(count, words):
    for name, action in [kind for kind in KINDS if set(words) <= set(kind)]:
        found, wrong = rates(name, action, count)
        print("\n".join([*wrong, f"{name} {action} {dict(sorted(found.items()))}"]), flush=True)


def show(name, action, seed):
    contest = Contest(next(some_contests(seed, name, action)), name, action)
    print(contest.told)
    for each in (*contest.result.nominations, *contest.result.records):
        print(each)
    print(dict(contest.wrong()))


if __name__ == "__main__":
    if sys.argv[1] == "show":
        show(*sys.argv[2:4], int(sys.argv[4]))
    else:
        main(int(sys.argv[1]), sys.argv[2:])
