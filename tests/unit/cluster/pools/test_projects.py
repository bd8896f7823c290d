"""Queues of one project in several node pools: which is found, and which is made up."""

from kaisched.cluster.pools.projects import Projects
from tests.unit.cluster.pools.worlds import queue_in


def projects(*queues):
    found = Projects()
    for it in queues:
        found.put(it)
    return found


def test_a_queue_with_the_pools_name_comes_before_one_with_the_projects():
    both = [queue_in("b", "t"), queue_in("b", "t-b")]
    found = projects(queue_in("a", "t-a"), *both)
    assert found.queue_in("b", "t-a") == "t-b"
    found.drop("t-b")
    assert found.queue_in("b", "t-a") == "t"
    found.drop("t")
    assert found.queue_in("b", "t-a") == ""
    assert found.name_in("b", "t-a") == "t-b"


def test_of_queues_with_the_label_of_a_project_the_first_by_name_counts():
    labelled = [queue_in("b", name, project="t") for name in ("z", "m", "q")]
    found = projects(queue_in("a", "x", project="t"), *labelled)
    assert found.queue_in("b", "x") == "m"
    found.drop("m")
    assert found.queue_in("b", "x") == "q"
    found.put(queue_in("b", "c", project="t"))
    assert found.queue_in("b", "x") == "c"


def test_what_is_made_up_hangs_below_the_queue_that_is_there():
    found = projects(
        queue_in("a", "top-a"),
        queue_in("b", "top-b"),
        queue_in("a", "dept-a", parent="top-a"),
        queue_in("a", "t-a", parent="dept-a"),
    )
    made = found.made_up("b", "t-a")
    assert [(it.name, it.parent) for it in made] == [("dept-b", "top-b"), ("t-b", "dept-b")]
    assert [it.name for it in found.made_up("c", "t-a")] == ["top-c", "dept-c", "t-c"]
    assert found.made_up("a", "t-a") == []


def test_a_queue_that_is_gone_lists_no_pools():
    found = projects(queue_in("a", "t", nodePools=["a", "b"]))
    assert found.has_lists
    assert found.drop("t")
    assert not found.has_lists
    assert not found.drop("t")
