"""Departments and their projects: quotas first, surplus at each level, and what is taken back."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion


def fair_shares(text):
    ran = draw(text).after("allocate").ran
    return {share.name: share.fair_share["gpu"] / 1000 for share in ran.result.shares}


def test_surplus_is_divided_among_departments_before_their_projects():
    """Of 24 GPUs X gets 8 + 4, which the quotas of its projects use up, and Y gets 8 + 4."""
    shares = fair_shares("""
        queue x   deserved=8
        queue y   deserved=8
        queue x1  parent=x deserved=6
        queue x2  parent=x deserved=6
        queue y1  parent=y deserved=2
        node  n0  | . . . . . . . . . . . .
        node  n1  | . . . . . . . . . . . .
        job   x1a queue=x1 tasks=20 min=1
        job   x2a queue=x2 tasks=20 min=1
        job   y1a queue=y1 tasks=20 min=1
    """)
    assert shares == {"x": 12, "y": 12, "x1": 6, "x2": 6, "y1": 12}


def test_a_department_above_its_quota_gives_back_though_its_projects_are_within_theirs():
    before = draw("""
        queue x   deserved=8
        queue y   deserved=8
        queue xa  parent=x deserved=6
        queue xb  parent=x deserved=6
        queue ya  parent=y deserved=8
        node  n0  | xa1 xa2 xa3 xa4 xa5 xa6 ya1 ya2
        node  n1  | xb1 xb2 xb3 xb4 xb5 xb6 ya3 ya4
        job   ya5 tasks=4
    """)
    ran = before.after("reclaim").ran
    assert sorted(pod[:2] for pod in ran.evicted) == ["xa", "xa", "xb", "xb"]
    assert len(ran.promised) == 4


def test_words_for_over_quota_priority_are_weights_of_none_to_three():
    """A: quota 3 and Low, B: quota 1 and High; then four projects without quota."""
    two = fair_shares("""
        queue a   deserved=3 weight=1
        queue b   deserved=1 weight=3
        node  n0  | . . . . . . . . . . . . . . . . . . . .
        job   a1  tasks=20 min=1
        job   b1  tasks=20 min=1
    """)
    assert two == {"a": 7, "b": 13}
    four = fair_shares("""
        queue a   weight=0
        queue b   weight=1
        queue c   weight=2
        queue d   weight=3
        node  n0  | . . . . . . . . . . . .
        job   a1  tasks=12 min=1
        job   b1  tasks=12 min=1
        job   c1  tasks=12 min=1
        job   d1  tasks=12 min=1
    """)
    assert four == {"a": 0, "b": 2, "c": 4, "d": 6}
