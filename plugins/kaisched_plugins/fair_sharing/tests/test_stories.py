"""The three stories of KEP-1714 as docs/explanation/fair-sharing.md draws them."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kaisched.testing import draw

PAGE = Path(__file__).resolve().parents[4] / "docs" / "explanation" / "fair-sharing.md"
SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
SECTION = PAGE.read_text(encoding="utf-8").partition("## The three stories, drawn")[2]
DRAWINGS = re.findall(r"```\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL)
HELD = (
    {"east": 4, "west": 3},
    {"1b": 3, "1c": 3, "2a": 2, "2b": 2, "2c": 2},
    {"1b": 2, "1c": 2, "2a": 3, "2b": 3, "2c": 3},
    {"1a": 3, "1b": 3, "1c": 9, "2a": 15},
)
"""What each queue holds in the end."""


def with_nodes(text, nodes):
    lines = [line for line in text.splitlines() if not line.startswith("node")]
    return draw("\n".join([*lines, nodes]))


@pytest.mark.parametrize(
    ("text", "held"),
    list(zip(DRAWINGS, HELD, strict=True)),
    ids=("extra", "inside", "outside", "weight"),
)
def test_a_story_ends_as_it_is_drawn(text, held):
    before, _, after = text.partition("# after\n")
    drawn = with_nodes(before, after)
    assert draw(before).after(shard=SHARD) == drawn
    queue_of = {job.name: job.queue for job in drawn.drawing.jobs}
    cells = [cell for node in drawn.drawing.nodes for cell in node.cells]
    names = [cell.promised or cell.holder for cell in cells]
    assert Counter(queue_of[name] for name in names) == held
