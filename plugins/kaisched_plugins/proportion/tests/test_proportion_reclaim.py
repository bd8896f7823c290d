"""Proportion: who may reclaim, from whom, and what may be taken together."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched import CPU, GPU, PODS, UNLIMITED, Claim, Refusal, Units, roll_up, shares
from kaisched.core.tree import build_tree
from kaisched_plugins.proportion import Proportion

OVER_SHARE = int(Refusal.OVER_FAIR_SHARE)
OVER_QUOTA = int(Refusal.NON_PREEMPTIBLE_OVER_QUOTA)
NOT_OVER = int(Refusal.NOT_OVER_SHARE)
UNDER = int(Refusal.UNDERSHOOTS)
ORDER = int(Refusal.SATURATION_ORDER)
TRAIN, BUILD = 0, 1


class QueueColumns(SimpleNamespace):
    def __len__(self):
        return len(self.tree)


class World:
    """Queues in whole GPUs, ``cpu_...`` in milli-CPU; the CPU quota is 0 and its share endless."""

    def __init__(self, queues, multiplier=1.0):
        names = list(queues)
        self.tree = build_tree(names, [queues[name].get("parent", "") for name in names])
        given = [queues[self.tree.names[at]] for at in range(len(names))]
        self.row = {name: at for at, name in enumerate(self.tree.names)}
        self.plugin = Proportion(
            Proportion.Arguments.model_validate({"reclaimerUtilizationMultiplier": multiplier})
        )
        count = len(names)
        session: Any = SimpleNamespace(
            queues=QueueColumns(
                tree=self.tree,
                deserved=columns(given, "deserved", cpu=UNLIMITED, pods=UNLIMITED),
                limit=columns(given, "limit", UNLIMITED, cpu=UNLIMITED, pods=UNLIMITED),
                priority=np.zeros(count, np.int64),
            ),
            # One preemptible and one non-preemptible job in each queue.
            jobs=SimpleNamespace(
                queue_of_job=np.repeat(np.arange(count), 2),
                is_preemptible=np.tile([True, False], count),
            ),
            fair_share=columns(given, "share", cpu=UNLIMITED, pods=1),
            held=columns(given, "held", pods=9),
            held_non_preemptible=columns(given, "strict", pods=9),
            has_moved=False,
            snapshot=SimpleNamespace(total=np.array([100, 100, 100, 1]) * 1000),
            hints={},
            state={},
        )
        session.state["proportion"] = self.plugin.session_open(session)
        self.session = session

    def job(self, queue, kind=TRAIN):
        return self.row[queue] * 2 + kind

    def gate(self, queue, gpus=0, cpu=0, kind=TRAIN, action="reclaim"):
        """Return the code for one job."""
        job = np.array([self.job(queue, kind)])
        said = self.plugin.claim_gate(self.session, action, job, amounts(gpus, cpu)[:, None])
        return 0 if said is None else int(said[0])

    def claim(self, queue, gpus, cpu=0, last=False, action="reclaim"):
        return Claim(action, self.job(queue), self.row[queue], amounts(gpus, cpu), last)

    def victims(self, claim):
        """Return the names of leaf queues whose jobs may be taken."""
        leaves = [name for name, at in self.row.items() if self.tree.is_leaf[at]]
        job = np.array([self.job(name) for name in leaves])
        said = self.plugin.victim_filter(self.session, claim, job)
        codes = [0] * len(leaves) if said is None else said.tolist()
        return {name for name, code in zip(leaves, codes, strict=True) if not code}

    def take(self, claim, *given, taken=None):
        """Return the codes of units: (queue, GPUs) or (queue, GPUs, milli-CPU)."""
        units = units_of([(self.row[queue], amounts(*rest)) for queue, *rest in given])
        which = np.ones(len(given), np.bool_) if taken is None else np.array(taken, np.bool_)
        codes = self.plugin.scenario_gate(self.session, claim, units, which)
        return [0] * len(given) if codes is None else codes.tolist()


def amounts(gpus, cpu=0):
    """Return ``(R,)``; every unit and claim has some pods, which must never matter."""
    column = np.zeros(4, np.int64)
    column[GPU], column[CPU], column[PODS] = round(gpus * 1000), cpu, 5
    return column


def columns(given, name, missing=0, cpu=0, pods=0):
    table = np.zeros((4, len(given)), np.int64)
    table[GPU] = [min(round(each.get(name, missing) * 1000), UNLIMITED) for each in given]
    table[CPU] = [each.get(f"cpu_{name}", cpu) for each in given]
    table[PODS] = pods
    return table


def units_of(pairs):
    count = len(pairs)
    return Units(
        job=np.arange(count),
        queue=np.array([queue for queue, _ in pairs], np.int64),
        amounts=np.array([each for _, each in pairs], np.int64).reshape(count, 4).T,
        is_core=np.ones(count, np.bool_),
        tasks=tuple((at,) for at in range(count)),
    )


def two(multiplier=1.0, **mine):
    """``b`` holds 6 where 4 are its due; ``a`` may have 4 and holds nothing unless said."""
    a = {"deserved": 2, "share": 4} | mine
    return World({"a": a, "b": {"deserved": 2, "share": 4, "held": 6}}, multiplier)


# -- who may claim -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "gpus", "code"), [(0, 4, 0), (3, 1, 0), (3, 2, OVER_SHARE), (5, 1, OVER_SHARE)]
)
def test_a_queue_may_reclaim_up_to_its_fair_share(held, gpus, code):
    assert two(held=held).gate("a", gpus) == code


def test_a_resource_not_asked_for_stops_no_reclaim():
    world = two(cpu_share=1000, cpu_held=9000)
    assert world.gate("a", 1) == 0
    assert world.gate("a", 1, cpu=1) == OVER_SHARE


@pytest.mark.parametrize("action", ["preempt", "consolidate"])
def test_only_reclaim_asks_for_the_fair_share(action):
    assert two(held=9).gate("a", 1, action=action) == 0


@pytest.mark.parametrize("action", ["reclaim", "preempt", "consolidate"])
def test_non_preemptible_jobs_keep_to_the_quotas_of_their_whole_path(action):
    parent = {"deserved": 3, "share": 9, "strict": 2}
    world = World({"d": parent, "a": {"parent": "d", "deserved": 5, "share": 5, "strict": 1}})
    assert world.gate("a", 1, kind=BUILD, action=action) == 0
    assert world.gate("a", 2, kind=BUILD, action=action) == OVER_QUOTA
    assert world.gate("a", 2, kind=TRAIN, action=action) == 0


def test_the_fair_share_is_that_of_the_leaf_alone():
    world = World({"d": {"share": 0, "held": 5}, "a": {"parent": "d", "share": 2}})
    assert world.gate("a", 2) == 0


# -- from whom -----------------------------------------------------------------------------------


def test_a_queue_over_its_share_gives_way():
    assert two().victims(two().claim("a", 3)) == {"b"}


def test_a_queue_within_its_share_is_spared_by_who_exceeds_its_quota():
    world = two()
    world.session.held[GPU, world.row["b"]] = 4000
    assert world.victims(world.claim("a", 3)) == set()
    assert world.victims(world.claim("a", 2)) == {"b"}


@pytest.mark.parametrize(
    ("held", "names"),
    [
        pytest.param({"held": 2, "cpu_held": 50}, {"b"}, id="exactly at its quota: may be moved"),
        pytest.param({"held": 1, "cpu_held": 50}, set(), id="below in one, over in none"),
        pytest.param({"held": 1, "cpu_held": 60}, {"b"}, id="over in one"),
    ],
)
def test_within_quota_only_resources_asked_for_count(held, names):
    b = {"deserved": 2, "share": 9, "cpu_deserved": 50, "cpu_share": 99}
    world = World({"a": {"deserved": 2, "share": 2}, "b": b | held})
    assert world.victims(world.claim("a", 1, cpu=10)) == names
    # Without the GPUs, b is within its quota of all that is asked for, or over it.
    assert world.victims(world.claim("a", 0, cpu=10)) == {"b"}


def test_queues_are_compared_where_their_paths_part():
    x = {"x": {"share": 4, "held": 4}, "x1": {"parent": "x", "share": 2}}
    x["x2"] = {"parent": "x", "share": 2, "held": 4}
    y = {"y": {"share": 4, "held": 5}, "y1": {"parent": "y", "share": 9, "held": 5}}
    z = {"z": {"share": 4, "held": 4}, "z1": {"parent": "z", "share": 1, "held": 4}}
    world = World(x | y | z)
    assert world.victims(world.claim("x1", 1)) == {"x2", "y1"}


def test_other_actions_are_none_of_its_business():
    world, claim = two(), two().claim("a", 3, action="preempt")
    assert world.plugin.victim_filter(world.session, claim, np.array([0])) is None
    assert world.take(claim, ("a", 9), ("b", 9)) == [0, 0]


# -- what may be taken ---------------------------------------------------------------------------


def test_a_queue_loses_only_while_it_has_more_than_its_share():
    world = two()
    assert world.take(world.claim("a", 4), *[("b", 1)] * 4) == [0, 0, NOT_OVER, NOT_OVER]


def test_within_its_quota_a_claim_takes_down_to_the_others_quota():
    world = two()
    assert world.take(world.claim("a", 2), *[("b", 1)] * 5) == [0, 0, 0, 0, NOT_OVER]


def test_a_unit_that_leaves_its_queue_less_than_it_deserves_is_the_last_resort():
    world = two()
    assert world.take(world.claim("a", 4), ("b", 5)) == [UNDER]
    assert world.take(world.claim("a", 4, last=True), ("b", 5)) == [0]
    assert world.take(world.claim("a", 4), ("b", 4)) == [0]


def test_a_whole_gang_may_go_when_its_queue_is_over_its_share():
    """Example L of the facts about KAI: judged before it is taken away."""
    world = World({"a": {"share": 4}, "b": {"deserved": 4, "share": 4, "held": 5}})
    assert world.take(world.claim("a", 4, last=True), ("b", 5)) == [0]


def test_a_resource_that_was_below_its_quota_already_may_fall_further():
    """Else a queue that never used its CPU quota could lose no GPU."""
    b = {"deserved": 2, "share": 4, "held": 6, "cpu_deserved": 5000, "cpu_held": 100}
    world = World({"a": {"share": 4}, "b": b | {"cpu_share": 5000}})
    assert world.take(world.claim("a", 4), ("b", 1, 100)) == [0]


@pytest.mark.parametrize(
    ("mine", "unit", "codes"),
    [
        pytest.param(
            4, ("b", 0, 10), [0], id="who is over nothing takes from who is over anything"
        ),
        pytest.param(
            5, ("b", 0, 10), [NOT_OVER], id="both are over in GPUs, which nobody asks for"
        ),
        pytest.param(
            5, ("b", 1, 10), [ORDER], id="the unit holds some, and the taker is no better"
        ),
    ],
)
def test_what_neither_asks_for_counts_only_for_who_is_over_nothing(mine, unit, codes):
    """Else two queues over in GPUs would take CPU from each other in turns for ever."""
    world = World({"a": {"share": 4, "held": mine}, "b": {"share": 4, "held": 5, "cpu_held": 99}})
    assert world.take(world.claim("a", 0, cpu=10), unit) == codes


def test_what_is_asked_for_counts_although_the_unit_holds_none_of_it():
    a = {"share": 4, "cpu_share": 1, "cpu_held": 9}
    world = World({"a": a, "b": {"share": 4, "held": 5, "cpu_held": 99}})
    assert world.take(world.claim("a", 1), ("b", 0)) == [0]


def test_what_is_refused_or_not_asked_about_is_not_taken():
    world = two()
    claim = world.claim("a", 4)
    assert world.take(claim, ("b", 5), ("b", 1), ("b", 1)) == [UNDER, 0, 0]
    taken = [True, False, True, True]
    assert world.take(claim, *[("b", 1)] * 4, taken=taken) == [0, 0, 0, NOT_OVER]


def test_a_queue_does_not_reclaim_from_itself():
    world = two(held=9)
    assert world.take(world.claim("a", 1), ("a", 1)) == [NOT_OVER]
    assert "a" not in world.victims(world.claim("a", 1))


def test_every_queue_between_the_leaf_and_the_branch_keeps_what_it_deserves():
    y1 = {"parent": "y", "deserved": 3, "share": 3, "held": 4}
    y2 = {"parent": "y", "deserved": 1, "share": 1, "held": 4}
    world = World({"x": {"share": 4}, "y": {"share": 4, "held": 8}, "y1": y1, "y2": y2})
    claim = world.claim("x", 4)
    assert world.take(claim, ("y1", 2), ("y2", 3), ("y1", 1)) == [UNDER, 0, 0]
    # What y2 lost, y has lost: nothing is left above its share.
    assert world.take(claim, ("y2", 3), ("y1", 1), ("y2", 1)) == [0, 0, NOT_OVER]


@pytest.mark.parametrize(
    ("held", "multiplier", "codes"),
    [
        pytest.param(6, 1.0, [ORDER], id="J: 5/4 against 5/4"),
        pytest.param(7, 1.0, [0], id="J: 5/4 against 6/4"),
        pytest.param(7, 1.3, [ORDER], id="J: 1.3 times 5/4 against 6/4"),
    ],
)
def test_the_order_of_saturation_is_kept(held, multiplier, codes):
    """The branch of the claim is over its share, though its leaf is not."""
    x = {"x": {"share": 4, "held": 4}, "x1": {"parent": "x", "share": 1}}
    world = World(x | {"y": {"share": 4, "held": held}}, multiplier)
    assert world.take(world.claim("x1", 1), ("y", 1)) == codes


def test_saturation_counts_only_in_resources_asked_for_or_taken():
    """Example of the facts about KAI: CPU is over the share, but nobody touches it."""
    x = {"share": 4, "cpu_share": 1000, "cpu_held": 3000}
    y = {"share": 3, "held": 7, "cpu_share": 1000, "cpu_held": 1000}
    world = World({"x": x, "y": y})
    assert world.take(world.claim("x", 1), ("y", 1)) == [0]
    assert world.take(world.claim("x", 1), ("y", 1, 10)) == [ORDER]


@pytest.mark.parametrize(("multiplier", "codes"), [(1.0, [0, 0]), (1.4, [0, NOT_OVER])])
def test_with_a_multiplier_a_queue_loses_only_what_exceeds_its_share_by_it(multiplier, codes):
    world = two(multiplier)
    assert world.take(world.claim("a", 4), ("b", 1), ("b", 1)) == codes
    world.session.held[GPU, world.row["b"]] = 5000
    assert bool(world.victims(world.claim("a", 4))) is (multiplier == 1.0)


def test_nothing_unlimited_is_ever_exceeded():
    world = World({"a": {"share": 4}, "b": {"deserved": UNLIMITED, "share": 4, "held": 9}}, 1.7)
    assert world.take(world.claim("a", 4), ("b", 1)) == [NOT_OVER]
    assert world.victims(world.claim("a", 4)) == set()


# -- against the rules said once more ------------------------------------------------------------

GPUS = st.integers(0, 6)


@st.composite
def worlds(draw):
    """Return a tree of two branches with two leaves each, or two leaves alone, and units."""
    names = ["a", "b"]
    if draw(st.booleans()):
        names += ["a1", "a2", "b1", "b2"]
    queues = {
        name: {
            "parent": name[:-1],
            "deserved": draw(st.one_of(GPUS, st.just(UNLIMITED))),
            "share": draw(GPUS),
            "limit": draw(st.sampled_from([3, UNLIMITED])),
            "cpu_share": draw(st.sampled_from([1, 3, UNLIMITED])),
            "cpu_deserved": draw(st.sampled_from([0, 2])),
        }
        for name in names
    }
    world = World(queues, draw(st.sampled_from([1.0, 1.0, 1.25, 7.5])))
    leaves = [name for name in names if world.tree.is_leaf[world.row[name]]]
    held = np.zeros((4, len(world.tree)), np.int64)
    for leaf in leaves:
        held[:, world.row[leaf]] = amounts(draw(GPUS), draw(st.integers(0, 3)))
    world.session.held = roll_up(held, world.tree)
    cpu = st.integers(0, 2)
    units = draw(st.lists(st.tuples(st.sampled_from(leaves), GPUS, cpu), max_size=6))
    claim = world.claim(draw(st.sampled_from(leaves)), draw(GPUS), draw(cpu), draw(st.booleans()))
    return world, claim, units


def plainly(world, claim, units):
    """Judge units by the rules as written, with the arrays of core.shares."""
    session, tree, rows = world.session, world.tree, [CPU, GPU]
    queues, left, mine_held = session.queues, session.held, session.held
    per_mille = round(world.plugin.arguments.reclaimer_utilization_multiplier * 1000)
    due = shares.allocatable_share(queues.deserved, queues.limit, session.fair_share)
    codes = []
    for name, *rest in units:
        leaf, amount = world.row[name], amounts(*rest)
        if leaf == claim.queue:
            codes.append(NOT_OVER)
            continue
        ours, theirs = tree.path(claim.queue).tolist(), tree.path(leaf).tolist()
        parting = -next(at for at in (1, 2) if ours[-at] != theirs[-at])
        mine, other, path = ours[parting], theirs[parting], theirs[: len(theirs) + parting + 1]
        after = mine_held[:, mine] + claim.ask
        is_taker_over = (after > session.fair_share[:, mine])[rows].any()
        over = any(
            due[row, other] < UNLIMITED
            and int(left[row, other]) * 1000 > int(due[row, other]) * per_mille
            and (not is_taker_over or claim.ask[row] > 0 or amount[row] > 0)
            for row in rows
        )
        within = (after <= queues.deserved[:, mine])[rows].all()
        if not over and not (within and (left > queues.deserved)[rows, other].any()):
            codes.append(NOT_OVER)
            continue
        then = left - np.where(np.isin(np.arange(len(tree)), path), amount[:, None], 0)
        # Units are drawn at random: one may be of more than its queue holds.
        falls = (left >= queues.deserved) & (then < queues.deserved) & (queues.deserved > 0)
        if not claim.is_last_resort and falls[np.ix_(rows, path)].any():
            codes.append(UNDER)
            continue
        share = session.fair_share
        breaks = shares.breaks_saturation_order(
            after, share[:, mine], then[:, other], share[:, other], per_mille
        )
        if (breaks & ((claim.ask > 0) | (amount > 0)))[rows].any():
            codes.append(ORDER)
            continue
        left = then
        codes.append(0)
    return codes


@given(worlds())
def test_units_are_judged_by_the_rules_as_written(case):
    world, claim, units = case
    assert world.take(claim, *units) == plainly(world, claim, units)


@given(worlds(), st.data())
def test_to_take_fewer_is_never_refused_where_more_may_be_taken(case, data):
    world, claim, units = case
    codes = world.take(claim, *units)
    allowed = [unit for unit, code in zip(units, codes, strict=True) if not code]
    assert not any(world.take(claim, *allowed))
    fewer = [unit for unit in allowed if data.draw(st.booleans())]
    assert not any(world.take(claim, *fewer))


@given(worlds())
def test_whoever_the_filter_spares_could_not_be_taken_from_for_what_is_asked(case):
    """Where a claim asks for every resource, what may be taken passes the filter, limits aside."""
    world, claim, units = case
    claim.ask[[CPU, GPU]] += 1
    world.session.queues.limit[GPU] = UNLIMITED
    codes = world.take(claim, *units)
    taken = {name for (name, *_), code in zip(units, codes, strict=True) if not code}
    assert taken <= world.victims(claim)
