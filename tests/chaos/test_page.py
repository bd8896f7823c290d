"""The page of the chaos test names every fault, and every fault can be played."""

import re
from pathlib import Path

import pytest

from tests.chaos.faults import FIXED, LANES, Faults

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "chaos.md"


@pytest.mark.parametrize("lane", LANES)
def test_the_page_lists_the_faults_of_each_lane(lane):
    text = PAGE.read_text(encoding="utf-8")
    row = re.search(rf"^- {lane}: (.*)$", text, re.MULTILINE)[1]
    assert tuple(re.findall(r"`(\w+)`", row)) == LANES[lane]


@pytest.mark.parametrize("kind", [kind for kinds in LANES.values() for kind in kinds])
def test_every_fault_can_be_played(kind):
    assert callable(getattr(Faults, f"_{kind}"))


def test_the_fixed_list_has_every_fault_but_the_orderly_end():
    listed = {kind for kinds in FIXED.values() for kind in kinds}
    assert listed == {kind for kinds in LANES.values() for kind in kinds} - {"leader_terminated"}
    assert all(set(FIXED[lane]) <= set(LANES[lane]) for lane in LANES)
