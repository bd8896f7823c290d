"""Proportion: what may be taken together, against the rules said once more."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kaisched import CPU, GPU, UNLIMITED, roll_up, shares, worth
from kaisched_plugins.proportion.tests.reclaim_world import NOT_OVER, ORDER, UNDER, World, amounts

GPUS = st.integers(0, 6)
RUNS = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))


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
            "cpu_deserved": draw(st.sampled_from([0, 2, UNLIMITED])),
            "runs": [] if name + "1" in names else draw(st.lists(RUNS, max_size=3)),
        }
        for name in names
    }
    world = World(queues, draw(st.sampled_from([1.0, 1.0, 1.25, 7.5])))
    leaves = [name for name in names if world.tree.is_leaf[world.row[name]]]
    held = np.zeros((4, len(world.tree)), np.int64)
    for leaf in leaves:
        held[:, world.row[leaf]] = amounts(draw(GPUS), draw(st.integers(0, 3)))
    world.session.held = world.session.held_now = roll_up(held, world.tree)
    cpu = st.integers(0, 2)
    units = draw(st.lists(st.tuples(st.sampled_from(leaves), GPUS, cpu), max_size=6))
    claim = world.claim(draw(st.sampled_from(leaves)), draw(GPUS), draw(cpu), draw(st.booleans()))
    return world, claim, units


def worths(world, known=None, top=-1):
    """Return what quotas and shares are worth (R34), which has laws of its own."""
    session = world.session
    quota, share = known or (session.queues.deserved, session.fair_share)
    columns = (quota, share, session.held_not_evictable, session.queues.priority)
    return worth(world.tree, session.axis.unit, columns, top)


def covered(world, top):
    """Return the GPUs that quotas cover at each queue from ``top`` down, counted pod by pod.

    No running job has any CPU here.
    """
    session, jobs = world.session, world.session.jobs
    deserved, _ = worths(world, worths(world), top)
    total = [0] * len(world.tree)
    rest = {job: int(jobs.active[job]) for job in np.flatnonzero(jobs.active).tolist()}
    for without in range(2):  # first with the leaves' quotas, then without
        for job, count in rest.items():
            path = world.tree.path(jobs.queue_of_job[job]).tolist()
            if top not in path:
                continue
            path = path[without : path.index(top) + 1]
            pod = int(session.shapes.charge[GPU, jobs.shape_of_job[job]])
            room = [deserved[GPU, queue] - total[queue] for queue in path]
            pods = next(n for n in range(count, -1, -1) if all(n * pod <= has for has in room))
            is_started = count < jobs.active[job]
            if path and (is_started or pods >= min(session.podsets.minimum[job], count)):
                rest[job] -= pods
                for queue in path:
                    total[queue] += pods * pod
    return total


def is_over_quota(world, claim, queue, left):
    """Tell whether a queue has its limited quotas of all that is asked for, and more than one."""
    deserved = worths(world)[0][:, queue]
    asked = [row for row in (CPU, GPU) if claim.ask[row] > 0 and deserved[row] < UNLIMITED]
    has, quota = left[asked, queue], deserved[asked]
    return (has > quota).any() and (has >= quota).all()


def falls_short(world, path, left, amount):
    """Tell whether a queue is left with less than quotas cover of what the unit holds."""
    deserved, keeps = worths(world)[0], {GPU: covered(world, path[-1])}
    return any(
        0 < deserved[row, queue] < UNLIMITED
        and amount[row] > 0
        and left[row, queue] < (keeps[row][queue] if row in keeps else 0)
        for row in (CPU, GPU)
        for queue in path
    )


def plainly(world, claim, units):
    """Judge units by the rules as written, with the arrays of core.shares."""
    session, tree, rows = world.session, world.tree, [CPU, GPU]
    queues, left, mine_held = session.queues, session.held, session.held
    per_mille = round(world.plugin.arguments.reclaimer_utilization_multiplier * 1000)
    deserved, share = worths(world)
    due = shares.allocatable_share(deserved, queues.limit, share)
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
        is_taker_over = (after > share[:, mine])[rows].any()
        over = any(
            due[row, other] < UNLIMITED
            and int(left[row, other]) * 1000 > int(due[row, other]) * per_mille
            and (amount[row] > 0 or not (is_taker_over or claim.ask[row] > 0))
            for row in rows
        )
        within = (after <= deserved[:, mine])[rows].all()
        if not over and not (within and is_over_quota(world, claim, other, left)):
            codes.append(NOT_OVER)
            continue
        then = left - np.where(np.isin(np.arange(len(tree)), path), amount[:, None], 0)
        # Units are drawn at random: one may be of more than its queue holds.
        falls = (left >= deserved) & (then < deserved) & (deserved > 0)
        if not claim.pass_number and falls[np.ix_(rows, path)].any():
            codes.append(UNDER)
            continue
        if falls_short(world, path, then, amount):
            codes.append(UNDER)
            continue
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
