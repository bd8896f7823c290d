"""Pods that the anti-affinity of others tells apart are of different classes."""

import pytest

from kaisched.cluster.store import StateStore
from tests.contract.clusters import pod


def averse(name="guard", key="zone", app="x", operator="In", **more):
    selector = {"matchExpressions": [{"key": "app", "operator": operator, "values": [app]}]}
    term = {"topologyKey": key, "labelSelector": selector}
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod(name, spec={"affinity": {"podAntiAffinity": {hard: [term]}}}, **more)


def shapes(store, *names):
    """The classes of some pods, numbered as they come."""
    tasks = store.snapshot().tasks
    of = {tasks.name[row].partition("/")[2]: row for row in range(len(tasks.name))}
    found = [int(tasks.shape_of_task[of[name]]) for name in names]
    return [found.index(it) for it in found]


def three(store):
    for name, app in (("p", "x"), ("q", "x"), ("r", "y")):
        store.upsert_pod(pod(name, labels={"app": app, "job": name}))


@pytest.mark.parametrize("first", ["term", "pods"])
def test_pods_that_a_term_selects_are_of_a_class_of_their_own(first):
    store = StateStore()
    for what in ("term", "pods") if first == "term" else ("pods", "term"):
        if what == "pods":
            three(store)
            shapes(store, "p")  # they were seen without the term
        else:
            store.upsert_pod(averse())
    assert shapes(store, "p", "q", "r") == [0, 0, 2]


def test_without_terms_labels_tell_no_pods_apart():
    store = StateStore()
    three(store)
    assert shapes(store, "p", "q", "r") == [0, 0, 0]


def test_a_term_that_names_no_value_selects_too():
    store = StateStore()
    three(store)
    store.upsert_pod(averse(operator="NotIn", app="y"))
    assert shapes(store, "p", "q", "r") == [0, 0, 2]


def test_a_term_that_is_gone_tells_new_pods_apart_no_more():
    store = StateStore()
    store.upsert_pod(averse())
    store.upsert_pod(averse("second", key="rack"))
    store.remove_pod("ns/guard")
    three(store)
    assert shapes(store, "p", "q", "r") == [0, 0, 2]
    store.remove_pod("ns/second")
    for name, app in (("s", "x"), ("t", "y")):
        store.upsert_pod(pod(name, labels={"app": app}))
    assert shapes(store, "r", "s", "t") == [0, 0, 0]
