"""What fits: now, once everything is released, and without some of the pods that run."""

import re
from pathlib import Path

import numpy as np
import pytest

from kaisched.core.axis import GPU, TaskState
from kaisched.testing.builder import Job, Task
from tests.unit.framework.fakes import job, session, store

ROOT = Path(__file__).resolve().parents[3]
SMALL, LARGE = 0, 1
RUNS = 4


def opened():
    """Two nodes of 4 and 2 GPUs; shapes of 1 and 3 GPUs; a pod of 2 GPUs runs on the first."""
    task = Task("r-0", {"gpu": 2000}, state=TaskState.RUNNING, node="n0")
    jobs = (job("small", pods=3, gpu=1), job("large", gpu=3), Job("r", "q", (task,)))
    return session(store(*jobs, nodes=(4, 2)).snapshot())


def test_nothing_is_copied_until_something_moves():
    at = opened()
    nodes = at.snapshot.nodes
    assert at.capacity.idle is nodes.idle
    at.statement().allocate(0, 0)
    assert at.capacity.idle is not nodes.idle
    assert nodes.idle[GPU].tolist() == [2000, 2000]
    assert at.capacity.idle[GPU].tolist() == [1000, 2000]
    assert at.capacity.touched == [0]


def test_what_is_released_is_room_for_promises_and_not_for_binds():
    at = opened()
    assert not at.capacity.has_releasing
    at.statement().evict(RUNS)
    assert at.capacity.has_releasing
    assert at.room(SMALL).tolist() == [2, 2]
    assert at.capacity.room(SMALL).tolist() == [4, 2]
    assert at.capacity.room(SMALL, np.array([True, False])).tolist() == [4, 0]
    assert at.free(GPU, np.array([1, 0])).tolist() == [2000, 4000]


def test_what_is_promised_is_room_for_nobody_else():
    at = opened()
    statement = at.statement()
    statement.promise(np.array([0, 1]), np.array([0, 0]), SMALL)
    assert at.capacity.idle[GPU].tolist() == [2000, 2000]
    assert at.room(SMALL).tolist() == at.capacity.room(SMALL).tolist() == [0, 2]
    statement.rollback()
    assert at.room(SMALL).tolist() == [2, 2]


def test_room_without_pods_is_counted_and_nothing_moves():
    at = opened()
    running = at.ledger.holding(np.array([RUNS]))
    assert at.capacity.room(LARGE, without=running).tolist() == [1, 0]
    left = at.capacity.without()
    assert left.room(LARGE).tolist() == [0, 0]
    left.give_back(running)
    assert left.room(LARGE).tolist() == [1, 0]
    assert at.capacity.room(LARGE).tolist() == [0, 0]
    asked = [(GPU, 3000)]
    assert left.lack(asked, np.array([2, 1])).tolist() == [[2000, 1000]]
    assert left.lack(asked, np.array([1]), np.array([1])).tolist() == [[1000]]


def test_one_node_is_counted_as_all_of_them_are():
    at = opened()
    asked = at.capacity.asked(LARGE)
    here = at.capacity.on(0)
    assert (here.pods(asked), at.capacity.fits(LARGE, 0)) == (0, False)
    assert dict(here.lack(asked, 1))[GPU] == 1000
    held = at.capacity.asked(int(at.tasks.shape_of_task[RUNS]))
    here.shift(held, 1)
    assert here.pods(asked) == 1
    here.shift(held, -1)
    assert here.pods(asked) == 0


def test_an_overdrawn_node_takes_nothing_from_the_others():
    at = opened()
    at.ledger.set_state(3, TaskState.ALLOCATED, 1)
    assert at.capacity.idle[GPU].tolist() == [2000, -1000]
    assert at.capacity.total()[GPU] == 2000
    assert at.capacity.room(SMALL).tolist() == [2, 0]
    assert not at.capacity.fits(SMALL, 1)


@pytest.mark.parametrize("folder", ["kaisched/actions", "plugins/kaisched_plugins"])
def test_only_the_capacity_knows_how_amounts_become_room(folder):
    """Nobody else adds what is released to what is idle."""
    told = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "tests" not in path.parts
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"\.(idle|releasing)\b", line)
    ]
    assert told == []
