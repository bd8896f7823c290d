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


def opened():
    """Two nodes of 4 and 2 GPUs; shapes of 1 and 3 GPUs; a pod of 2 GPUs runs on the first."""
    task = Task("r-0", {"gpu": 2000}, state=TaskState.RUNNING, node="n0")
    jobs = (job("small", pods=3, gpu=1), job("large", gpu=3), Job("r", "q", (task,)))
    return session(store(*jobs, nodes=(4, 2)).snapshot())


def test_what_is_promised_is_room_for_nobody_else():
    at = opened()
    statement = at.statement()
    statement.promise(np.array([0, 1]), np.array([0, 0]), SMALL)
    assert at.capacity.idle[GPU].tolist() == [2000, 2000]
    assert at.room(SMALL).tolist() == at.capacity.room(SMALL).tolist() == [0, 2]
    statement.rollback()
    assert at.room(SMALL).tolist() == [2, 2]


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
