"""Worked examples X21 and X22: departments divide first, or all projects divide as siblings."""

import pytest

from kaisched.testing import draw

pytestmark = pytest.mark.proportion

HIERARCHY = {"fairness": "hierarchy"}
PROJECTS = {"fairness": "projects"}


def asking(*leaves, each=20):
    """Jobs of one GPU, a column of them for each queue."""
    return "\n".join(
        f"        job   {leaf}-{at:02} queue={leaf}" for leaf in leaves for at in range(each)
    )


def shares(world, shard):
    ran = world.builder().run(shard=shard)
    return {it.name: it.fair_share["gpu"] // 1000 for it in ran.result.shares}


X21 = """
        queue x   deserved=8
        queue y   deserved=8
        queue x1  parent=x deserved=6
        queue x2  parent=x deserved=6
        queue y1  parent=y deserved=2
        node  n0  | . . . . . . . .
        node  n1  | . . . . . . . .
        node  n2  | . . . . . . . .
""" + asking("x1", "x2", "y1")


def test_departments_divide_first():
    """X21: what the department has goes to its projects."""
    found = shares(draw(X21), HIERARCHY)
    assert found == {"x": 12, "x1": 6, "x2": 6, "y": 12, "y1": 12}


def test_projects_divide_as_siblings():
    """X21: 14 are deserved, 10 are left, and the odd one goes to the oldest."""
    found = shares(draw(X21), PROJECTS)
    assert found == {"x1": 10, "x2": 9, "y1": 5, "x": 19, "y": 5}


X22 = """
        queue x   deserved=8
        queue y   deserved=8
        queue x1  parent=x deserved=6
        queue x2  parent=x deserved=6
        queue y1  parent=y deserved=8
        node  n0  | x1-00 x1-01 x1-02 x1-03 x1-04 x1-05 x2-00 x2-01
        node  n1  | x2-02 x2-03 x2-04 x2-05 y1-00 y1-01 y1-02 y1-03
        job   y1-z  queue=y1 tasks=4
""" + "\n".join((asking("x1", "x2", each=6), asking("y1", each=4)))


def victims(shard):
    return draw(X22).builder().run(shard=shard).result.evictions


def test_a_project_within_its_quota_loses_where_its_department_is_over_its_own():
    """X22: the department holds 12 of 8, and 4 go to the other."""
    assert len(victims(HIERARCHY)) == 4


def test_a_project_within_its_quota_loses_nothing_where_projects_divide():
    """X22: nobody is over quota, whatever the department holds."""
    assert victims(PROJECTS) == ()


def test_a_department_keeps_its_limit():
    before = """
        queue x   deserved=8 limit=3
        queue x1  parent=x deserved=8
        queue x2  parent=x deserved=8
        node  n0  | . . . . . . . .
        """ + asking("x1", "x2", each=4)
    ran = draw(before).builder().run(shard=PROJECTS)
    assert len(ran.result.binds) == 3


def test_a_department_keeps_its_bound_for_work_that_is_not_preemptible():
    before = """
        queue x   deserved=3
        queue x1  parent=x deserved=8
        queue x2  parent=x deserved=8
        node  n0  | . . . . . . . .
        """ + "\n".join(
        f"        job x{1 + at % 2}-{at} queue=x{1 + at % 2} priority=100" for at in range(8)
    )
    ran = draw(before).builder().run(shard=PROJECTS)
    assert len(ran.result.binds) == 3
