"""Who says in which node pools a job may run, and where nodes and pods are."""

from types import SimpleNamespace

import pytest

from kaisched.cluster.pools.book import Lists, Whereabouts
from kaisched.cluster.pools.projects import Projects
from kaisched.core.axis import TaskState
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import ObjectMeta
from tests.contract.clusters import make
from tests.unit.cluster.pools.worlds import LIST, POOL, node_in, queue_in

QUEUE = "kai.scheduler/queue"


def group(pools="", queue="", **labels):
    notes = {LIST: pools} if pools else {}
    return make(
        PodGroup, "g", namespace="ns", annotations=notes, labels=labels, spec={"queue": queue}
    )


def member(pools="", queue="", *, is_declared=True, **labels):
    notes = {LIST: pools} if pools else {}
    meta = ObjectMeta(name="p", annotations=notes, labels={QUEUE: queue, **labels})
    return SimpleNamespace(job="ns/g", is_declared=is_declared, metas=(meta,))


@pytest.fixture
def lists():
    projects = Projects()
    projects.put(queue_in("a", "with", nodePools=["a", "b"]))
    projects.put(queue_in("a", "without"))
    return Lists(projects)


def test_a_group_says_it_before_its_pods_and_these_before_the_queue(lists):
    lists.put(group("c,d", queue="with"))
    assert lists.of(member("e", "without")) == (("c", "d"), "with")
    lists.put(group(queue="with"))
    assert lists.of(member("e", "without")) == (("e",), "with")
    assert lists.of(member(queue="without")) == (("a", "b"), "with")
    lists.put(group())
    assert lists.of(member(queue="with")) == (("a", "b"), "with")
    assert lists.of(member(queue="without")) is None


def test_a_group_counts_for_pods_that_name_it_alone(lists):
    lists.put(group("c", queue="with"))
    stranger = member("e", "without", is_declared=False)
    assert lists.of(stranger) == (("e",), "without")
    assert (lists.queue_of(member(queue="without")), lists.queue_of(stranger)) == (
        "with",
        "without",
    )
    lists.put(group("c"))
    assert lists.queue_of(member(queue="without")) == "without"


def test_a_fault_or_the_label_of_one_pool_ends_the_search(lists):
    assert lists.of(member("a,,b", "with", is_declared=False)) is None
    assert lists.of(member(queue="with", is_declared=False, **{POOL: "a"})) is None
    lists.put(group(**{POOL: "a"}))
    assert lists.of(member(queue="with")) is None
    lists.put(group("a,,b"))
    assert lists.of(member("c", "with")) is None


def test_a_group_is_news_if_its_list_or_its_queue_is_another(lists):
    assert lists.put(group("c", queue="with"))
    assert not lists.put(group("c", queue="with", extra="label"))
    assert lists.put(group("d", queue="with"))
    assert lists.put(group("d", queue="without"))
    assert lists.of_group(lists.group("ns/g")) == (("d",), "without")
    assert lists.drop("ns/g")
    assert not lists.drop("ns/g")
    assert lists.put(group("d", queue="without"))


def test_a_node_that_comes_again_as_it_was_makes_room_again():
    found = Whereabouts()
    assert found.record_node(node_in("a", "n"))
    assert not found.record_node(node_in("a", "n"))
    assert not found.record_node(node_in("a", "n", 9))
    assert found.changes == {"a": 2}
    assert found.record_node(node_in("b", "n", 9))
    found.forget_node("n")
    assert found.pool_of_node == {}
    assert found.record_node(node_in("b", "n", 9))
    assert found.changes == {"a": 2, "b": 2}


@pytest.mark.parametrize("state", [TaskState.GONE, TaskState.RUNNING])
def test_a_pod_makes_room_once_where_it_was(state):
    def pod(node="n", state=TaskState.RUNNING):
        return SimpleNamespace(key="ns/x", node=node, state=state)

    found = Whereabouts()
    found.record_pod(pod())
    found.forget_pod("ns/x")
    assert found.changes == {}, "nobody knows the node"
    found.record_node(node_in("a", "n"))
    found.record_pod(pod())
    found.record_pod(pod(state=state))
    assert found.changes["a"] == 1 + (state == TaskState.GONE)
    found.record_pod(pod(node=""))
    found.forget_pod("ns/x")
    assert found.changes["a"] == 2
