"""In a department that has less than it promised, who cannot give leaves less to the others."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion


def test_a_sibling_of_non_preemptible_work_keeps_only_what_that_leaves():
    # d has 4, of which p holds 3 for good: q's quota is worth 1, and r gets the 4 that e deserves.
    before = draw("""
        queue d   deserved=4
        queue e   deserved=4
        queue p   parent=d deserved=4
        queue q   parent=d deserved=4
        queue r   parent=e deserved=4
        node  n0  | p1 p1 p1 q1 q2 q3 q4 q5
        job   p1  priority=100
        job   q1
        job   q2
        job   q3
        job   q4
        job   q5
        job   r1  tasks=4
    """)
    (node,) = [line for line in str(before.after()).splitlines() if line.startswith("node")]
    assert node.split("|")[1].split() == ["p1"] * 3 + ["q1"] + [f"q{at}>r1" for at in (2, 3, 4, 5)]
