"""Topology objects in the store: taken in, left out, dropped, written down."""

import pytest

from kaisched.cluster.state import Kept, restored
from kaisched.cluster.store import StateStore, update
from kaisched.objects.node import Topology, TopologyLevel, TopologySpec
from kaisched.objects.wire import ObjectMeta


def topology(*levels: tuple[str, str], name: str = "dc") -> Topology:
    made = [TopologyLevel(node_label=key, alias=alias) for key, alias in levels]
    return Topology(metadata=ObjectMeta(name=name), spec=TopologySpec(levels=made))


RACKS = topology(("example.com/zone", ""), ("example.com/rack", "rack"))


def levels_of(store: StateStore):
    return dict(store.snapshot().nodes.topologies)


def test_a_topology_is_there_until_it_is_dropped():
    store = StateStore()
    update(store, RACKS)
    assert levels_of(store) == {"dc": (("example.com/zone", ""), ("example.com/rack", "rack"))}
    update(store, RACKS, is_gone=True)
    assert levels_of(store) == {}


def test_nothing_is_new_if_a_topology_comes_again():
    store = StateStore()
    update(store, RACKS)
    before = store.snapshot()
    update(store, RACKS)
    assert store.snapshot() is before


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (topology(("a", ""), ("a", "")), "spec.levels[1].nodeLabel: given twice"),
        (topology(("a", "b"), ("b", "b")), "spec.levels[0].alias: already names a level"),
        (topology(), "spec.levels: 0 levels"),
    ],
)
def test_a_topology_with_a_fault_is_left_out_and_told(wrong, text):
    store = StateStore()
    update(store, RACKS)
    update(store, wrong)
    assert levels_of(store) == {}
    (problem,) = store.problems()
    assert (problem.kind, problem.name) == ("Topology", "dc")
    assert problem.text.startswith(text)
    update(store, RACKS)
    assert store.problems() == []


def test_a_recorded_state_has_its_topologies():
    store, kept = StateStore(), Kept()
    update(store, RACKS)
    kept.put(RACKS)
    state = kept.state_of(store)
    assert len(state.objects) == 1
    again = restored([RACKS], state, ["kai-scheduler"], "", ())
    assert levels_of(again) == levels_of(store)
