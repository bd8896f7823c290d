"""The state store against the truth: sums from scratch, any order of events, frozen snapshots."""

import copy
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.cluster import rowstore
from kaisched.cluster.store import StateStore, update
from kaisched.objects.workloads import PriorityClass
from tests.contract.clusters import histories, node, pod, queue
from tests.oracles.accounts import arrays, assert_adds_up, content


@pytest.fixture(autouse=True)
def compacts_early(monkeypatch):
    monkeypatch.setattr(rowstore, "_SLACK", 2)


def feed(store, history, each=lambda: None):
    """Let the store hear a history and return what is there at its end."""
    there = {}
    for obj, comes in history:
        # An owner is known by its UID, which a newcomer of another kind takes over.
        is_owner = obj.metadata.uid.startswith("uid-")
        key = obj.metadata.uid if is_owner else (obj.KIND, obj.key)
        if comes:
            there[key] = obj
            update(store, obj)
        elif key in there:
            update(store, there.pop(key), is_gone=True)
        each()
    return there


@given(histories())
def test_every_amount_equals_the_sum_over_the_tasks(history):
    store = StateStore()
    feed(store, history, lambda: assert_adds_up(store.snapshot()))


@pytest.mark.fault("A14")
@given(histories(), st.builds(random.Random, st.integers(0, 1 << 16)))
def test_only_what_is_there_matters_not_how_it_came(history, dice):
    store = StateStore()
    there = list(feed(store, history, lambda: dice.random() < 0.3 and store.snapshot()).values())
    expected = content(store.snapshot())
    problems = store.problems()
    for _ in range(2):
        dice.shuffle(there)
        again = StateStore()
        for obj in there:
            update(again, obj)
            if dice.random() < 0.2:
                again.snapshot()
        assert_adds_up(again.snapshot())
        assert content(again.snapshot()) == expected
        assert again.problems() == problems


@pytest.mark.fault("A14")
@given(histories())
def test_hearing_something_twice_changes_nothing(history):
    store = StateStore()
    there = feed(store, history)
    before = content(store.snapshot())
    for obj in there.values():
        update(store, obj)
    assert content(store.snapshot()) == before
    assert_adds_up(store.snapshot())


@given(histories())
def test_a_snapshot_stays_as_it_was(history):
    store = StateStore()
    kept = []

    def keep():
        snapshot = store.snapshot()
        frozen = {name: column.copy() for name, column in arrays(snapshot).items()}
        kept.append((snapshot, frozen, list(snapshot.tasks.name), copy.deepcopy(content(snapshot))))

    feed(store, history, keep)
    for snapshot, frozen, names, before in kept:
        for name, column in arrays(snapshot).items():
            assert not column.flags.writeable, name
            assert np.array_equal(column, frozen[name], equal_nan=column.dtype.kind == "f"), name
        assert list(snapshot.tasks.name) == names
        assert content(snapshot) == before


@given(histories())
def test_the_tables_have_one_row_each(history):
    store = StateStore()
    feed(store, history)
    s = store.snapshot()
    for table, size in (("jobs", len(s.jobs.name)), ("tasks", len(s.tasks.name))):
        for (of, name), column in arrays(s).items():
            if of == table:
                assert len(column) == size, name
    assert len(s.jobs.tasks) == len(s.jobs.name)
    assert list(s.nodes.name) == sorted(s.nodes.name)
    assert s.shapes.request.shape == (len(s.axis), len(s.shapes.constraints))


def test_nothing_new_means_the_same_snapshot():
    store = StateStore()
    for obj in (node("n0"), queue("a"), pod("p")):
        update(store, obj)
    assert store.snapshot() is store.snapshot()


def test_what_did_not_change_is_handed_out_again():
    store = StateStore()
    for obj in (node("n0"), queue("a"), pod("p")):
        update(store, obj)
    before = store.snapshot()
    update(store, pod("q"))
    after = store.snapshot()
    assert after.queues is before.queues
    assert after.nodes is before.nodes
    assert after.nodes.statics is before.nodes.statics
    assert after.shapes is before.shapes
    assert after.generation == before.generation


@given(histories())
def test_equal_rows_within_one_generation_mean_the_same(history):
    store = StateStore()
    last = [store.snapshot()]

    def compare():
        now, before = store.snapshot(), last[0]
        if now.generation == before.generation:
            assert list(now.tasks.name)[: len(before.tasks.name)] == list(before.tasks.name)
            assert list(now.jobs.name)[: len(before.jobs.name)] == list(before.jobs.name)
            assert now.nodes.name == before.nodes.name
            assert now.queues.name == before.queues.name
            assert now.axis == before.axis
            assert (now.nodes.version >= before.nodes.version).all()
            changed = (now.nodes.idle != before.nodes.idle).any(axis=0)
            changed |= (now.nodes.releasing != before.nodes.releasing).any(axis=0)
            assert (now.nodes.version > before.nodes.version)[changed].all()
        assert now.revision >= before.revision
        last[0] = now

    feed(store, history, compare)


def test_a_priority_class_is_no_owner():
    store = StateStore()
    update(store, PriorityClass(metadata=queue("x").metadata, value=5))
    assert store.snapshot().jobs.name == []
