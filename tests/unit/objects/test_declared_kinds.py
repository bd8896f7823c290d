"""Kinds of workload that a shard declares: numbers at places of a spec, and what is refused."""

import pytest

from kaisched.objects.gangs import KNOWN, MIN_SCALE, declared
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.workloads import MOST, Gang, Workload, WorkloadKind, WorkloadRole, kind_faults

WIDGET = {"api_version": "example.com/v1", "plural": "widgets", "kind": "Widget"}
ROLE = {"role_label": "example.com/role"}


def kind(*roles, **more):
    return WorkloadKind(**WIDGET, roles=[WorkloadRole(**it) for it in roles], **more)


def gang(spec, *roles, **more):
    return declared(kind(*roles, **more)).read(spec, {})


@pytest.mark.parametrize(
    ("spec", "pods", "least"),
    [
        ({"pods": 4, "least": 2}, "spec.pods", "spec.least"),
        ({"least": 2}, "spec.pods", "spec.least"),
        ({"pods": 2, "least": 7}, "spec.pods", "spec.least"),  # no more than there are
        ({"pods": 2}, "spec.pods", "spec.least"),
        ({"pods": 2}, "spec.pods", ""),
        ({"pods": "2"}, "spec.pods", ""),  # as in environment variables
        ({"a": {"b-c": [{"pods": 1}, {"pods": 2}]}}, "spec.a.b-c[1].pods", ""),
        ({"a": [{"pods": 1}, {"pods": 1}]}, "spec.a[*].pods", ""),
        ({"a": [{"b": [1]}, {"b": []}, {"b": [0, 1]}]}, "spec.a[*].b[*]", ""),
    ],
)
def test_a_gang_of_two_is_read(spec, pods, least):
    assert gang(spec, replicas=pods, minimum=least) == Gang(minimum=2)


@pytest.mark.parametrize(
    "spec", [{}, {"n": None}, {"n": -1}, {"n": True}, {"n": 1.0}, {"n": [3]}, {"n": "x"}, {"n": {}}]
)
@pytest.mark.parametrize("path", ["spec.n", "spec.n.m", "spec.n[7]"])
def test_what_is_no_number_counts_as_one(spec, path):
    assert gang(spec, replicas=path) == Gang(minimum=1)


def test_none_may_be_needed_and_no_more_than_the_most():
    assert gang({"n": 0}, replicas="spec.n") == Gang(minimum=0)
    assert gang({"n": []}, replicas="spec.n[*].pods") == Gang(minimum=0)
    assert gang({"n": [MOST, MOST]}, replicas="spec.n[*]") == Gang(minimum=MOST)


HEAD = {"name": "head"}
ARM = {"name": "arm", "replicas": "spec.arms", "minimum": "spec.least"}
SPEC = {"arms": 5, "least": 3}


def test_roles_are_subgroups_by_the_label_of_their_pods():
    row = declared(kind(HEAD, ARM, **ROLE))
    assert row.role_labels == ("example.com/role",)
    parts = [SubGroupSpec(name="head", min_member=1), SubGroupSpec(name="arm", min_member=3)]
    assert row.read(SPEC, {}) == Gang(minimum=4, sub_groups=parts)


def test_roles_that_no_label_tells_apart_are_counted_together():
    row = declared(kind(HEAD, ARM))
    assert row.role_labels == ()
    assert row.read(SPEC, {}) == Gang(minimum=4)


def test_without_numbers_only_metadata_are_read():
    assert declared(kind()) == Workload(*WIDGET.values())
    more = {"index_label": "example.com/part", "priority_class": "build"}
    assert declared(kind(**more)) == Workload(*WIDGET.values(), **more)


def test_rows_of_the_same_declaration_are_equal():
    """Two shards of one process may both declare a kind."""
    assert declared(kind(HEAD, ARM, **ROLE)) == declared(kind(HEAD, ARM, **ROLE))
    assert declared(kind(HEAD, ARM, **ROLE)) != declared(kind(HEAD, **ROLE))


@pytest.mark.parametrize(
    ("path", "is_good"),
    [
        ("spec.a", True),
        ("spec[0].a_B-2[*]", True),
        ("spec", False),
        ("a.b", False),
        ("spec.", False),
        ("spec.a.[0]", False),
        ("spec.a[-1]", False),
        ("spec.a[name=x]", False),
        ("status.a", False),
        ("spec.a b", False),
    ],
)
def test_a_place_has_one_form(path, is_good):
    for made in (kind(replicas=path), kind(ARM | {"minimum": path}, **ROLE)):
        assert [it.path[-1] for it in kind_faults([made], ())] == (
            [] if is_good else ["replicas" if made.replicas else "minimum"]
        )


def test_a_kind_is_declared_once():
    other = WorkloadKind(**WIDGET | {"api_version": "example.com/v2"})
    (fault,) = kind_faults([kind(), other], ("spec", "workloads"))
    assert fault.path == ("spec", "workloads", 1, "kind")


# -- kinds that come with the scheduler ------------------------------------------------------------


def test_a_job_of_azure_has_as_many_pods_as_nodes():
    spec = {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 3}}}}
    assert KNOWN["amlarc.azureml.com", "AmlJob"].read(spec, {}) == Gang(minimum=3)


@pytest.mark.parametrize(("said", "minimum"), [("3", 3), ("0", 0), ("", 1), ("x", 1), ("-2", 1)])
def test_a_revision_starts_with_its_least_scale(said, minimum):
    read = KNOWN["serving.knative.dev", "Revision"].read
    assert read({}, {MIN_SCALE: said}).minimum == minimum
    assert read({}, {}).minimum == 1
