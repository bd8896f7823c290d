"""Workloads: a shard says how the pods of further kinds are grouped."""

import pytest

from kaisched import Gang, Workload
from kaisched.testing import check_plugin
from kaisched_plugins.workloads import MOST, SumOf, Workloads

WIDGET = {"apiVersion": "example.com/v1", "plural": "widgets", "kind": "Widget"}


def rows(*kinds):
    return Workloads(Workloads.Arguments.model_validate({"kinds": kinds})).workloads()


def test_a_kind_becomes_a_row():
    assert rows(WIDGET) == [Workload("example.com/v1", "widgets", "Widget")]
    said = {"pods": "each", "priorityClass": "inference", "indexLabel": "x.io/part"}
    assert rows(WIDGET | said) == [
        Workload(
            "example.com/v1",
            "widgets",
            "Widget",
            "each",
            priority_class="inference",
            index_label="x.io/part",
        )
    ]


def test_rows_of_the_same_arguments_are_equal():
    """Two shards of one process may both list a kind."""
    kind = WIDGET | {"minimum": ["spec.size"]}
    assert rows(kind) == rows(kind)
    assert rows(kind) != rows(WIDGET | {"minimum": ["spec.replicas"]})


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        ({"a": 2, "b": {"c": 3}}, 5),
        ({"a": 2}, 3),
        ({"a": 0, "b": {"c": 0}}, 1),
        ({"a": -4, "b": {"c": True}}, 2),
        ({"a": "2", "b": [3]}, 2),
        ({"a": MOST, "b": {"c": MOST}}, MOST),
        ({}, 2),
    ],
)
def test_the_minimum_is_a_sum_of_numbers_in_the_spec(spec, minimum):
    assert SumOf(("spec.a", "b.c"))(spec, {}) == Gang(minimum=minimum)


def test_it_keeps_the_contract_of_plugins():
    check_plugin(Workloads, {"kinds": [WIDGET | {"minimum": ["spec.size"]}]})
