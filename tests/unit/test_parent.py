"""A child that was told to ends with its parent."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from kaisched.sim import tuning
from tests.waiting import until

CHILD = "from kaisched.parent import end_with; import os, time; end_with({}); time.sleep(60)"
PARENT = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}.format(os.getpid())])
print(child.pid, flush=True)
time.sleep(60)
"""


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_a_child_ends_with_a_parent_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not is_alive(child))


def test_a_child_whose_parent_has_gone_already_ends():
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(1 << 22)])
    assert child.wait(60) < 0


def test_workers_of_a_tuning_end_with_it(monkeypatch):
    made = []

    def pool(*arguments, **more):
        made.append((arguments, more))
        return ProcessPoolExecutor(1, get_context("spawn"))

    monkeypatch.setattr(tuning, "ProcessPoolExecutor", pool)
    monkeypatch.setattr(tuning, "_try", len)
    assert list(tuning._tried(["a", "bc"], 2)) == [1, 2]
    assert made[0][0][2] is tuning.end_with
