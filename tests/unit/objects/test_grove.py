"""Grove's PodGangs, read: groups of pods, and where they are to be near each other."""

import pytest

from kaisched.objects.gangs import TOPOLOGY_NAME, gang_of, pod_gang
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.wire import TopologyConstraint
from kaisched.objects.workloads import Gang

NAMED = {TOPOLOGY_NAME: "dc"}


def packed(required="", preferred=""):
    levels = {"required": required, "preferred": preferred}
    return {"topologyConstraint": {"packConstraint": {k: v for k, v in levels.items() if v}}}


def wish(required="", preferred=""):
    return TopologyConstraint(
        topology="dc", required_topology_level=required, preferred_topology_level=preferred
    )


def groups(*names, **of_each):
    return [{"name": name, "minReplicas": 2, **of_each.get(name, {})} for name in names]


def test_every_group_is_a_subgroup_that_needs_its_replicas():
    gang = pod_gang({"podgroups": groups("a", "b"), "priorityClassName": "train"}, {})
    parts = [SubGroupSpec(name=name, min_member=2) for name in "ab"]
    assert gang == Gang(sub_groups=parts, priority_class="train")


def test_levels_of_the_gang_of_some_groups_and_of_one_group():
    spec = {
        **packed("zone", "block"),
        "topologyConstraintGroupConfigs": [
            {"name": "pair", "podGroupNames": ["a", "b"], **packed("rack")}
        ],
        "podgroups": groups("a", "b", "c", a=packed(preferred="host")),
    }
    gang = pod_gang(spec, NAMED)
    assert gang.topology_constraint == wish("zone", "block")
    assert gang.sub_groups == [
        SubGroupSpec(name="pair", topology_constraint=wish("rack")),
        SubGroupSpec(
            name="a", min_member=2, parent="pair", topology_constraint=wish(preferred="host")
        ),
        SubGroupSpec(name="b", min_member=2, parent="pair"),
        SubGroupSpec(name="c", min_member=2),
    ]


def test_a_config_of_no_group_that_there_is_has_no_effect():
    configs = [{"name": "x"}, {"name": "y", "podGroupNames": ["gone"], **packed("rack")}]
    spec = {"podgroups": groups("a"), "topologyConstraintGroupConfigs": configs}
    assert [it.name for it in pod_gang(spec, NAMED).sub_groups] == ["a"]


@pytest.mark.parametrize(
    ("notes", "topology"),
    [
        (NAMED, "dc"),
        ({"kai.scheduler/topology": "kai"}, "kai"),
        ({**NAMED, "kai.scheduler/topology": "kai"}, "dc"),
    ],
)
def test_an_annotation_names_the_topology(notes, topology):
    found = pod_gang(packed("zone"), notes).topology_constraint
    assert found is not None
    assert found.topology == topology


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (packed("rack"), "spec.topologyConstraint"),
        ({"podgroups": groups("a", a=packed("rack"))}, "spec.podgroups[0].topologyConstraint"),
        (
            {
                "podgroups": groups("a"),
                "topologyConstraintGroupConfigs": [
                    {"name": "x", "podGroupNames": ["a"], **packed("rack")}
                ],
            },
            "spec.topologyConstraintGroupConfigs[0].topologyConstraint",
        ),
    ],
)
def test_a_required_level_of_no_topology_is_refused_with_its_path_and_the_fix(spec, path):
    assert pod_gang(spec, {}).unsupported == (
        f"{path}.packConstraint.required: 'rack': a level of no topology;"
        f" name it in the annotation {TOPOLOGY_NAME}"
    )


def test_a_wish_without_a_topology_has_no_effect():
    assert pod_gang(packed(preferred="rack"), {}) == Gang()


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"podgroups": "x"},
        {"podgroups": [3, {"name": 4, "topologyConstraint": 5}]},
        {"topologyConstraintGroupConfigs": [{"podGroupNames": [[], 3]}, None]},
    ],
)
def test_no_spec_is_too_strange(spec):
    assert gang_of(pod_gang, spec, {}).unsupported == ""


@pytest.mark.parametrize(("number", "told"), [(10_000, ""), (10_001, "10001 groups of pods")])
def test_a_gang_has_at_most_ten_thousand_groups(number, told):
    gang = pod_gang({"podgroups": groups(*map(str, range(number)))}, {})
    assert gang.unsupported == (told and f"{told}; 10000 are the most")


def test_two_groups_of_one_name_are_refused():
    assert (
        "two subgroups of one name"
        in gang_of(pod_gang, {"podgroups": groups("a", "a")}, {}).unsupported
    )
