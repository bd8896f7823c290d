"""Searches for garbage stay short however many objects live, and turns import nothing late."""

import gc
import subprocess
import sys

import pytest

from kaisched.daemon import garbage


@pytest.fixture
def searched():
    """Search as a daemon does, until the test ends."""
    garbage.begin()
    yield
    garbage.end()
    gc.unfreeze()


@pytest.mark.usefixtures("searched")
def test_many_new_objects_are_excluded_from_the_next_searches():
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(100_000)]
    garbage.tend()
    assert gc.get_freeze_count() > frozen + len(kept) // 2
    assert len(gc.get_objects()) < len(kept) // 2


@pytest.mark.usefixtures("searched")
def test_what_one_turn_makes_is_never_searched_as_a_whole():
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(400_000)]
    assert gc.get_freeze_count() > frozen + len(kept) // 2
    assert len(gc.get_objects()) < len(kept) // 4


@pytest.mark.usefixtures("searched")
def test_rings_among_new_objects_are_freed_before_the_rest_is_excluded():
    frozen = gc.get_freeze_count()
    for _ in range(100_000):
        ring = []
        ring.append(ring)
        garbage.tend()
    assert gc.get_freeze_count() < frozen + 1_000


def test_nothing_happens_in_a_process_that_is_no_daemon():
    frozen = gc.get_freeze_count()
    kept = [[] for _ in range(100_000)]
    garbage.tend()
    assert gc.get_freeze_count() == frozen
    assert kept


_FIRST = """
import sys
import kaisched.daemon.loop
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.crowded import make_crowded
policy = default_policy()
clusters = [make_crowded(seed, nodes=6, pending=12).store() for seed in (6, 14, 39, 57)]
before = set(sys.modules)
for cluster in clusters:
    run_cycle(cluster.snapshot(), None, policy, 1e6, Memory())
print(sorted(set(sys.modules) - before))
"""


def test_the_first_cycle_of_a_daemon_imports_nothing():
    done = subprocess.run(
        [sys.executable, "-c", _FIRST], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
