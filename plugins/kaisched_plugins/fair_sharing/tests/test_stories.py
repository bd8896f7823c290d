"""The three stories of KEP-1714, the first as docs/explanation/fair-sharing.md draws it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from kaisched.testing import draw

PAGE = Path(__file__).resolve().parents[4] / "docs" / "explanation" / "fair-sharing.md"
SHARD = {"plugins": {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}}
SECTION = PAGE.read_text(encoding="utf-8").partition("## A story, drawn")[2]
EQUAL_EXTRA_ROOM = re.findall(r"```\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL)
DEPARTMENT_FIRST = """
queue company
queue d1     parent=company
queue d2     parent=company
queue 1a     parent=d1 deserved=2
queue 1b     parent=d1 deserved=2
queue 1c     parent=d1 deserved=2
queue 2a     parent=d2 deserved=2
queue 2b     parent=d2 deserved=2
queue 2c     parent=d2 deserved=2
node  n0     | 1b1 1b1 1c1 1c1 2a1 2a1
node  n1     | 2a2 2b1 2b1 2b2 2c1 2c1
job   1b2
job   1c2
job   2c2
# after
node  n0       | 1b1     1b1     1c1     1c1     2a1     2a1
node  n1       | 2a2>1b2 2b1     2b1     2b2>1c2 2c1     2c1
"""
"""1b and 1c take what 2a and 2b have borrowed from their department; 2c gets none."""
DEPARTMENT_WITHOUT_NEED = """
queue company
queue d1     parent=company
queue d2     parent=company
queue 1a     parent=d1 deserved=3
queue 1b     parent=d1 deserved=2
queue 1c     parent=d1 deserved=2
queue 2a     parent=d2 deserved=2
queue 2b     parent=d2 deserved=2
queue 2c     parent=d2 deserved=2
node  n0     | 1b1 1b1 1c1 1c1 2a1 2a1 .
node  n1     | 2b1 2b1 2c1 2c1 . .
job   1b2    tasks=4
job   2a2
job   2b2
job   2c2
job   2a3
# after
node  n0       | 1b1  1b1  1c1  1c1  2a1  2a1  +2a2
node  n1       | 2b1  2b1  2c1  2c1  +2b2 +2c2
"""
"""1c needs none, and the job of 1b is too large: then 2a, 2b and 2c get the same."""
BY_WEIGHT = """
queue company
queue cs       parent=company
queue c1       parent=company
queue c2       parent=company
queue lender   parent=cs deserved=30
queue 1a       parent=c1
queue 1b       parent=c1
queue 1c       parent=c1 weight=3
queue 2a       parent=c2
node  n0       | 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1
node  n1       | 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1
node  n2       | 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1 2a1
job   2a1      tasks=32 min=1
job   1a1      tasks=3
job   1b1      tasks=3
job   1c1      tasks=9
job   1a2
job   1b2
job   1c2
# after
node  n0       | 2a1     2a1     2a1     2a1>1a1 2a1>1a1 2a1>1a1 2a1>1b1 2a1>1b1 2a1>1b1 2a1>1c1
node  n1       | 2a1     2a1     2a1     2a1     2a1     2a1     2a1     2a1     2a1     2a1
node  n2       | 2a1     2a1     2a1>1c1 2a1>1c1 2a1>1c1 2a1>1c1 2a1>1c1 2a1>1c1 2a1>1c1 2a1>1c1
"""
"""The lender's 30 GPUs go to c1 and c2 in equal parts, and in c1 as 1 : 1 : 3."""
DRAWINGS = (*EQUAL_EXTRA_ROOM, DEPARTMENT_FIRST, DEPARTMENT_WITHOUT_NEED, BY_WEIGHT)
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
