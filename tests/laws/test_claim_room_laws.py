"""Law: devices that changed hands on some nodes are judged there as if all nodes were."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from tests.claimed import make_claimed

POLICY = default_policy()


def session_of(snapshot):
    session = Session(snapshot, None, POLICY, 1000.0, Memory(), POLICY.questions)
    session.ask.open(session)
    return session


def check(seed):
    """Make equal moves in two cycles, one of which judges all nodes anew; return pods placed."""
    random = Random(seed)
    snapshot = make_claimed(
        random.randint(1, 5),
        random.randint(1, 40),
        5,
        devices=lambda _: random.randint(0, 4),
        counts=(1, 1, 2),
    )
    quick, anew = session_of(snapshot), session_of(snapshot)
    anew.devices.judge_moved = lambda _plan: False
    statements, placed = [quick.statement(), anew.statement()], 0
    marks = [0]
    for _ in range(40):
        shape = random.randrange(5)
        both = [each.placement.free_capacity(shape) for each in (quick, anew)]
        assert both[0].room.tolist() == both[1].room.tolist()
        codes = [None if it.plan.codes is None else it.plan.codes.tolist() for it in both]
        assert codes[0] == codes[1]
        pending = quick.ledger.state == TaskState.PENDING
        waiting = (pending & (snapshot.tasks.shape_of_task == shape)).nonzero()[0]
        count = min(random.randint(1, 3), waiting.size, both[0].total)
        if count and random.random() < 0.8:
            nodes = [
                each.placement.choose(free, count)
                for each, free in zip((quick, anew), both, strict=True)
            ]
            assert np.array_equal(*nodes)
            marks.append(statements[0].checkpoint())
            for statement in statements:
                statement.place(waiting[:count], nodes[0], shape)
            placed += count
        elif len(marks) > 1 and random.random() < 0.5:
            mark = marks.pop(random.randrange(1, len(marks)))
            marks = [it for it in marks if it < mark] or [0]
            for statement in statements:
                statement.rollback(mark)
    return placed


@settings(max_examples=8)
@given(st.integers(0, 2**31))
def test_judging_nodes_with_moves_is_as_good_as_judging_all(seed):
    check(seed)


def test_nodes_that_look_alike_are_counted_together(monkeypatch):
    found = []
    for many in (0, 1 << 30):
        monkeypatch.setattr("kaisched.framework.session.devices._MANY", many)
        snapshot = make_claimed(9, 4, 4, devices=lambda row: row % 4, counts=(1, 2))
        session = session_of(snapshot)
        pods_on_node = [session.placement.free_capacity(0).room.tolist()]
        session.statement().place(np.array([0]), np.array([3]), 0)  # a device of node 3 is taken
        pods_on_node += [session.placement.free_capacity(shape).room.tolist() for shape in range(4)]
        found.append(pods_on_node)
    assert found[0] == found[1]
    assert found[0][0] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert found[0][1] == [0, 1, 2, 2, 0, 1, 2, 3, 0]
