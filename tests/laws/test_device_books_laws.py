"""Laws of the books of devices: whatever is moved and undone in a cycle, they say who has which."""

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.axis import ACTIVE_STATES, TaskState
from kaisched.core.claims.model import NANOS
from kaisched.core.claims.table import Holdings, held_by
from tests.laws.test_card_laws import move, session_of
from tests.unit.cluster.claims.test_shared_devices import shared_node, template
from tests.unit.cluster.claims.worlds import World

ALLOCATED, PIPELINED = TaskState.ALLOCATED, TaskState.PIPELINED
RELEASING = TaskState.RELEASING
COMMON = ("c0", "c1", "c2")
"""Claims that several pods use."""
SIZE = 80 * NANOS << 30
"""Of a device that is shared: 80 GiB."""


def make_world(random):
    """Return a cluster where pods with claims, of their own or in common, run, leave and wait."""
    world = World(a=random.randint(0, 3), b=random.randint(0, 3))
    for at in range(random.randint(1, 3)):
        count = random.randint(1, 4)
        if random.random() < 0.4:
            shared_node(world, f"n{at}", *[80] * count)
        else:
            world.node(f"n{at}", *["H100"] * count)
    world.template("one")
    world.template("two", 2)
    template(world, "part", "30Gi")
    for name in COMMON:
        world.claim(name)
    for number in range(14):
        name, queue = f"p{number}", random.choice("ab")
        common = COMMON[:2] if number <= 8 else COMMON[1:]  # the last one has no devices yet
        what = random.choice(["one", "one", "two", "part", *common])
        if what in COMMON:
            world.pod(name, queue, claim=what)
        else:
            world.pod(name, queue, what)
        if number in (5, 8):
            world.cycle()
    for name, node in world.nodes.items():
        if node and random.random() < 0.3:
            world.cluster.delete(world.cluster.pod(f"team/{name}"))
    return world


def books(session):
    """Return what is taken now and later, and how many claims are in one of the books only."""
    devices = session.devices
    both = [(it.taken.devices.copy(), parts(it)) for it in (devices._now, devices._later)]
    return both, devices._apart


def parts(book):
    return {name: dict(amounts) for name, amounts in book.taken.consumed.items()}


def check_nobody_shares(session):
    """Expect that no device is given twice, and no more parts of one than it has.

    This is about now: promises may rest on the same device, and the next cycle finds out.
    """
    book = session.devices._now
    assert all(book._times[it] == 1 for it in book.taken.devices)
    assert all(it["memory"] <= SIZE for it in book.taken.consumed.values())


def by_hand(session):
    """Return the same by the states of the tasks, and by what they were granted."""
    table, state, begun = session.snapshot.claims, session.ledger.state, session.tasks.state
    granted = session.devices.granted
    now, later, apart = Holdings(), Holdings(), 0
    for key, held in table.held.items():
        users = table.users.get(key, ())
        is_others = table.consumers.get(key, 0) > len(users) or not any(
            ACTIVE_STATES[begun[it]] or begun[it] == RELEASING for it in users
        )
        stays = any(
            ACTIVE_STATES[state[it]] and all(one.key != key for one in granted.get(it, ()))
            for it in users
        )
        now.add(held.portions)
        if is_others or stays:
            later.add(held.portions)
        else:
            apart += 1
    for task, grants in granted.items():
        for grant in grants:
            later.add(held_by(grant.allocation).portions)
            if state[task] == ALLOCATED:
                now.add(held_by(grant.allocation).portions)
            else:
                apart += 1
    return [(it.taken.devices, parts(it)) for it in (now, later)], apart


def check(seed, moves):
    """Make moves and undo some; return how many of each kind were looked at."""
    random, seen = Random(seed), Counter()
    session = session_of(make_world(random).cluster.snapshot())
    if session.devices is None:
        return seen
    statement, marks = session.statement(), []
    begun = books(session)
    assert begun == by_hand(session)
    for _ in range(moves):
        marks.append((statement.checkpoint(), books(session)))
        move(session, statement, random)
        if random.random() < 0.2:
            at = random.randrange(len(marks))
            mark, before = marks[at]
            del marks[at:]
            statement.rollback(mark)
            assert books(session) == before
        assert books(session) == by_hand(session)
        check_nobody_shares(session)
        state, begin = session.ledger.state, session.tasks.state
        seen.update(state[state != begin].tolist())
        seen["relocated"] += int((ACTIVE_STATES[begin] & (state == PIPELINED)).sum())
    statement.rollback()
    assert books(session) == begun
    return seen


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.integers(1, 30))
def test_the_books_are_what_tasks_have_and_undoing_restores_them(seed, moves):
    check(seed, moves)


def test_the_law_has_moves_of_all_kinds():
    seen = sum((check(seed, 30) for seed in range(8)), Counter())
    kinds = (ALLOCATED, PIPELINED, RELEASING, "relocated")
    assert all(seen[it] > 5 for it in kinds), seen
