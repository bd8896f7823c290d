"""Looking for new examples: what it finds, how it tells, and what it leaves behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAWS = """
from hypothesis import example, given, strategies as st

from tests.laws.clusters import clusters

@given(st.integers(0, 1000))
def test_numbers_are_small(number):
    assert number < 500

@given(clusters)
def test_clusters_have_few_nodes(cluster):
    assert len(cluster.nodes) < 3

@given(st.integers())
def test_what_holds(number):
    assert number + 1 > number

def test_that_is_no_law():
    raise RuntimeError
"""


def run(folder, *arguments):
    """Run a module of ours in a folder."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow  # two processes that import everything, and a second to look
def test_a_broken_law_is_told_with_a_line_that_can_be_pasted(tmp_path):
    file = tmp_path / "test_laws.py"
    file.write_text(LAWS)
    looked = run(tmp_path, "tests.fuzz", "--minutes", "0.02", "--seed", "5", "test_laws.py")
    assert looked.returncode == 1, looked.stdout + looked.stderr
    assert "3 laws, 0.02 minutes, seed 5" in looked.stdout
    assert "2 laws broken" in looked.stdout
    assert "@example(number=500)" in looked.stdout
    line = re.search(r"@example\(cluster=.*\)", looked.stdout)[0]
    needed = "from tests.laws.clusters import make_cluster"
    assert needed in looked.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["test_laws.py"]
    file.write_text(needed + LAWS.replace("@given(clusters)", f"{line}\n@given(clusters)"))
    again = run(tmp_path, "pytest", "-p", "no:cacheprovider", "-k", "few_nodes")
    assert "Failing explicit example" in again.stdout


def test_nothing_to_look_at_is_an_error(tmp_path):
    (tmp_path / "test_laws.py").write_text(LAWS)
    looked = run(tmp_path, "tests.fuzz", "-k", "nobody", "test_laws.py")
    assert looked.returncode == 2
    assert looked.stdout.splitlines()[-1] == "no law to look at: none is like 'nobody'"


def test_a_time_that_is_none_is_refused(tmp_path):
    looked = run(tmp_path, "tests.fuzz", "--minutes", "-1")
    assert looked.returncode == 2
    assert "say a number above 0" in looked.stderr
