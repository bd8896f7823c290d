"""Predicates: labels, taints and conditions of nodes."""

import numpy as np
import pytest

from kaisched import Constraints, NodeStatics, Refusal, Requirement, Taint, Toleration, tolerates
from kaisched_plugins.predicates.statics import StaticMasks, is_met

GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
EVERYTHING = Toleration("", "Exists", "", "")


def statics_of(*labels, taints=None, not_ready=(), cordoned=(), pressed=()):
    count = len(labels)

    def flags(rows):
        return np.isin(np.arange(count), rows)

    return NodeStatics(
        name=[f"n{row}" for row in range(count)],
        labels=labels,
        taints=taints or [()] * count,
        is_ready=~flags(not_ready),
        is_unschedulable=flags(cordoned),
        has_pressure=flags(pressed),
    )


def refusals(statics, **constraints):
    codes = StaticMasks(statics).codes(Constraints(**constraints))
    if codes is None:
        return None
    return [Refusal(code).name for code in codes.tolist()]


ZONE_A = (((Requirement("zone", "In", ("a",)),), ()),)
ON_N2 = (((), (Requirement("metadata.name", "In", ("n2",)),)),)


def test_volumes_must_all_be_within_reach_and_each_by_any_of_its_terms():
    statics = statics_of({"zone": "a"}, {"zone": "b"}, {"zone": "a"}, {})
    away = "VOLUME_AFFINITY"
    assert refusals(statics, volume_terms=(ZONE_A,)) == ["NONE", away, "NONE", away]
    assert refusals(statics, volume_terms=(ZONE_A, ON_N2)) == [away, away, "NONE", away]
    assert refusals(statics, volume_terms=(ZONE_A + ON_N2,)) == ["NONE", away, "NONE", away]
    assert refusals(statics, volume_terms=((),)) == [away] * 4


def test_what_labels_say_comes_before_what_volumes_do():
    statics = statics_of({"zone": "a"}, {"zone": "b"}, cordoned=[0])
    said = refusals(statics, volume_terms=(ZONE_A,))
    assert said == ["NODE_UNSCHEDULABLE", "VOLUME_AFFINITY"]
    assert refusals(statics) == ["NODE_UNSCHEDULABLE", "NONE"]


def test_a_claim_that_is_waited_for_keeps_its_pod_from_every_node():
    wait = (int(Refusal.VOLUME_CLAIM), "claim data does not exist")
    assert refusals(statics_of({}, {}, cordoned=[1]), wait=wait) == ["VOLUME_CLAIM"] * 2


def test_a_pod_without_constraints_on_healthy_nodes_needs_no_answer():
    assert refusals(statics_of({}, {})) is None


def test_conditions_of_nodes_in_the_order_in_which_they_are_named():
    statics = statics_of({}, {}, {}, {}, not_ready=[0, 1], cordoned=[1, 2], pressed=[3])
    assert refusals(statics) == [
        "NODE_NOT_READY",
        "NODE_NOT_READY",
        "NODE_UNSCHEDULABLE",
        "NODE_PRESSURE",
    ]


def test_a_cordon_can_be_tolerated_as_in_kubernetes():
    assert refusals(statics_of({}, cordoned=[0]), tolerations=(EVERYTHING,)) is None


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it():
    statics = statics_of({}, {}, taints=[(GPU_TAINT,), ()])
    assert refusals(statics) == ["TAINT", "NONE"]
    assert refusals(statics, tolerations=(EVERYTHING,)) is None


def test_a_preference_of_a_node_keeps_nobody_away():
    statics = statics_of({}, taints=[(Taint("slow", "", "PreferNoSchedule"),)])
    assert refusals(statics) is None


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("nvidia.com/gpu", "Exists", "", ""), True),
        (Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"), True),
        (Toleration("nvidia.com/gpu", "Exists", "", "NoExecute"), False),
        (Toleration("nvidia.com/gpu", "Equal", "present", ""), True),
        (Toleration("nvidia.com/gpu", "", "present", ""), True),
        (Toleration("nvidia.com/gpu", "Equal", "absent", ""), False),
        (Toleration("other", "Exists", "", ""), False),
        (EVERYTHING, True),
    ],
)
def test_what_a_toleration_covers(toleration, covers):
    assert tolerates(toleration, GPU_TAINT) is covers


def test_every_pair_of_a_node_selector_must_match():
    statics = statics_of({"a": "1", "b": "2"}, {"a": "1"}, {})
    selector = (("a", "1"), ("b", "2"))
    assert refusals(statics, node_selector=selector) == ["NONE", "NODE_SELECTOR", "NODE_SELECTOR"]


@pytest.mark.parametrize(
    ("operator", "values", "met_by"),
    [
        ("In", ("5", "7"), ["5"]),
        ("NotIn", ("5",), ["9", "x", None]),
        ("Exists", (), ["5", "9", "x"]),
        ("DoesNotExist", (), [None]),
        ("Gt", ("5",), ["9"]),
        ("Lt", ("9",), ["5"]),
        ("Gt", ("many",), []),
        ("Gt", (), []),
        ("Near", ("5",), []),
    ],
)
def test_the_operators(operator, values, met_by):
    requirement = Requirement("key", operator, values)
    assert [each for each in ("5", "9", "x", None) if is_met(requirement, each)] == met_by


@pytest.mark.parametrize(
    ("label", "is_number"),
    [
        ("7", True),
        ("007", True),
        ("1_0", False),
        ("7.0", False),
        (str(2**63 - 1), True),
        (str(2**63), False),
    ],
)
def test_numbers_are_those_of_64_bits_in_plain_digits(label, is_number):
    assert is_met(Requirement("key", "Gt", ("6",)), label) is is_number
    bound = Requirement("key", "Lt", (label,))
    assert is_met(bound, "6") is is_number


def test_one_term_is_enough_and_all_of_a_term_must_hold():
    zone_a = Requirement("zone", "In", ("a",))
    big = Requirement("size", "Gt", ("4",))
    statics = statics_of({"zone": "a"}, {"zone": "a", "size": "8"}, {"size": "9"}, {})
    both = (((zone_a, big), ()),)
    either = (((zone_a,), ()), ((big,), ()))
    no = "NODE_AFFINITY"
    assert refusals(statics, node_terms=both) == [no, "NONE", no, no]
    assert refusals(statics, node_terms=either) == ["NONE", "NONE", "NONE", no]


@pytest.mark.parametrize("terms", [(), (((), ()),)])
def test_no_terms_and_empty_terms_match_no_node(terms):
    assert refusals(statics_of({}), node_terms=terms) == ["NODE_AFFINITY"]


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        (Requirement("metadata.name", "In", ("n1", "n9")), ["n1"]),
        (Requirement("metadata.name", "NotIn", ("n1",)), ["n0", "n2"]),
        (Requirement("metadata.name", "Exists"), []),
        (Requirement("metadata.uid", "In", ("n1",)), []),
    ],
)
def test_a_field_names_nodes(field, allowed):
    codes = refusals(statics_of({}, {}, {}), node_terms=(((), (field,)),))
    assert codes is not None
    assert [f"n{row}" for row, code in enumerate(codes) if code == "NONE"] == allowed


def test_the_same_constraints_are_evaluated_once():
    masks = StaticMasks(statics_of({}, {}, not_ready=[0]))
    one, other = Constraints(host_ports=(("TCP", "", 80),)), Constraints()
    assert masks.codes(one) is masks.codes(other)
