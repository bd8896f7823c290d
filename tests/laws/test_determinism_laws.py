"""The same bytes in every process: whatever its hash seed and whatever its processor can do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.laws.digest import digest

ROOT = Path(__file__).parents[2]
CASES = [
    {"seed": seed, "gpu": gpu, "cpu": cpu}
    for seed in range(20)
    for gpu, cpu in (("binpack", "binpack"), ("spread", "spread"))
]


def digests_elsewhere(**environment):
    """Return what another process answers, started with these variables."""
    lines = "\n".join(json.dumps(case) for case in CASES)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = os.pathsep.join(filter(None, [str(ROOT), str(ROOT / "plugins"), *inherited]))
    finished = subprocess.run(
        [sys.executable, "-m", "tests.laws.digest"],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    assert finished.stderr == ""
    return finished.stdout.split()


@pytest.fixture(scope="module")
def here():
    return [digest(**case) for case in CASES]


def features():
    """Return the processor features that this numpy may use and that can be switched off."""
    return np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])


@pytest.mark.fault("F102")
@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_the_hash_seed_does_not_matter(here, hash_seed):
    assert digests_elsewhere(PYTHONHASHSEED=hash_seed) == here


@pytest.mark.fault("F102")
def test_the_processor_does_not_matter(here):
    """With all of numpy's optional instructions switched off, so that its plain loops run."""
    assert digests_elsewhere(NPY_DISABLE_CPU_FEATURES=" ".join(features())) == here
