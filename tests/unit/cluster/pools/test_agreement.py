"""Whether the queues of projects and their lists of pools go together (P12, P14)."""

from kaisched.cluster.pools.projects import different_lists, lacking_queues
from tests.unit.cluster.pools.worlds import queue_in


def test_different_lists_of_one_project_are_told():
    found = different_lists(
        [
            queue_in("h100", "a", 8, project="t", nodePools=["h100", "a100"]),
            queue_in("a100", "b", 8, project="t", nodePools=["a100"]),
            queue_in("default", "c", 8, project="t"),
            queue_in("h100", "u-h100", 8, nodePools=["h100"]),
            queue_in("a100", "u-a100", 8, nodePools=["h100"]),
        ]
    )
    assert [it.text for it in found] == [
        "queues of project t list different node pools: a (h100, a100), b (a100)"
    ]


def test_the_list_of_a_department_is_that_of_its_projects():
    found = different_lists(
        [
            queue_in("h100", "dept-h100", 8, nodePools=["h100", "default"]),
            queue_in("default", "dept", 8, nodePools=["default"]),
            queue_in("h100", "t-h100", 8, parent="dept-h100"),
            queue_in("default", "t-default", 8, parent="dept"),
        ]
    )
    assert [it.text for it in found] == [
        "queues of project t list different node pools: t-default (default), t-h100 (h100, default)"
    ]


def test_pools_of_a_list_where_the_project_has_no_queue_are_told():
    queues = [
        queue_in("h100", "a", 8, project="t", nodePools=["h100", "a100", "default", "gone"]),
        queue_in("a100", "b", 8, project="t"),
        queue_in("h100", "u-h100", 8),
    ]
    assert lacking_queues(queues, {"h100": False, "a100": False, "": False}) == [("t", "default")]
    assert lacking_queues(queues, {"h100": False, "a100": False, "": True}) == []
