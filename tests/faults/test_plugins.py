"""A plugin that writes to what it is given: row G109 of the catalogue of faults."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType

import numpy as np
import pytest

from kaisched.testing.builder import ClusterBuilder
from tests.unit.framework.fakes import cycle, job, placed, plugin, store, with_default


def reachable(value, seen):
    """Yield every array and mapping that a snapshot leads to."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray | Mapping):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from reachable(getattr(value, field.name), seen)
    elif hasattr(value, "__slots__"):
        for name in value.__slots__:
            yield from reachable(getattr(value, name, None), seen)


def shared():
    """Two pods share a GPU."""
    built = ClusterBuilder().queue("q").node("n")
    pods = {"tasks": 2, "running": {"n": 2}, "on_cards": (("x",), ("x",))}
    return built.job("a", queue="q", gpu=0.5, **pods).store()


@pytest.mark.fault("G109")
@pytest.mark.parametrize("of", [lambda: store(job("a", pods=2), job("b")), shared])
def test_nothing_of_a_snapshot_can_be_written_to(of):
    snapshot = of().snapshot()
    found = list(reachable(snapshot, {}))
    arrays = [it for it in found if isinstance(it, np.ndarray)]
    assert len(arrays) > 20
    assert not any(array.flags.writeable for array in arrays)
    mappings = [it for it in found if isinstance(it, Mapping)]
    assert mappings
    assert all(isinstance(mapping, MappingProxyType) for mapping in mappings)


def of_the_snapshot(session, rows, **_):
    session.nodes.idle[:] = 0
    return np.zeros(len(rows))


def of_its_arguments(session, rows, **_):
    rows[:] = 0
    return np.zeros(len(rows))


def of_what_is_divided(session, rows, **_):
    session.snapshot.total[:] = 0
    return np.zeros(len(rows))


@pytest.mark.fault("G109")
@pytest.mark.parametrize("writes", [of_the_snapshot, of_its_arguments, of_what_is_divided])
def test_a_plugin_that_writes_fails_and_changes_nothing(writes):
    snapshot = store(job("a", pods=2, minimum=2), job("b", gpu=3), nodes=(4, 2)).snapshot()
    result = cycle(snapshot, with_default(plugin(weight=1e6, node_score=writes)))
    assert placed(result) == placed(cycle(snapshot))
    assert {(each.plugin, each.question) for each in result.failures} == {("fake", "node_score")}
    assert "read-only" in result.failures[0].error
