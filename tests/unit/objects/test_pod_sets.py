"""Kueue's topology annotations of a pod set, read."""

import pytest

from kaisched.errors import ObjectError
from kaisched.objects.gangs import job_set
from kaisched.objects.workloads import PodSetTopology, pod_set_of

RACK = "example.com/rack"


def notes(**given: str) -> dict[str, str]:
    return {f"kueue.x-k8s.io/podset-{key.replace('_', '-')}": text for key, text in given.items()}


@pytest.mark.parametrize(
    ("given", "wish"),
    [
        ({}, None),
        ({"required_topology": RACK}, PodSetTopology(required=RACK)),
        ({"preferred_topology": RACK}, PodSetTopology(preferred=RACK)),
        ({"unconstrained_topology": "true"}, PodSetTopology()),
        ({"unconstrained_topology": "false"}, None),
        (
            {"required_topology": "zone", "group_name": "pair"},
            PodSetTopology(required="zone", group="pair"),
        ),
        ({"slice_size": "4"}, None),
        (
            {"slice_required_topology": RACK, "slice_size": "4"},
            PodSetTopology(slices=[(RACK, 4)]),
        ),
        (
            {
                "slice_required_topology_constraints": '[{"topology": "block", "size": 8},'
                ' {"topology": "host", "size": 2}]'
            },
            PodSetTopology(slices=[("block", 8), ("host", 2)]),
        ),
    ],
)
def test_what_annotations_ask_for(given, wish):
    assert pod_set_of(notes(**given)) == wish


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"required_topology": "a", "preferred_topology": "b"},
            "'b': beside kueue.x-k8s.io/podset-required-topology",
        ),
        ({"unconstrained_topology": "yes"}, "neither true nor false"),
        ({"slice_required_topology": RACK}, "slices without a size"),
        ({"slice_required_topology": RACK, "slice_size": "-2"}, "no number of pods"),
        ({"slice_required_topology_constraints": "[{"}, "no layers of slices"),
        ({"slice_required_topology_constraints": "[]"}, "0 layers of slices"),
        ({"slice_required_topology_constraints": '[{"topology": "a"}]'}, "no layers of slices"),
        (
            {
                "slice_required_topology_constraints": '[{"topology": "a", "size": 8},'
                ' {"topology": "b", "size": 3}]'
            },
            "3 does not divide 8",
        ),
        (
            {"slice_required_topology": "a", "slice_required_topology_constraints": "[]"},
            "write one of them",
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_told_with_its_key(given, told):
    with pytest.raises(ObjectError) as error:
        pod_set_of(notes(**given))
    assert told in f"{error.value} {error.value.fix}"
    assert "metadata.annotations" in str(error.value.path)


def replicated(name: str, pods: int, **given: str) -> dict[str, object]:
    template = {"metadata": {"annotations": notes(**given)}}
    return {"name": name, "template": {"spec": {"parallelism": pods, "template": template}}}


def test_replicated_jobs_have_the_annotations_of_their_pods():
    """A slice is a whole job if nothing else is written."""
    jobs = [replicated("lead", 1), replicated("work", 4, slice_required_topology=RACK)]
    gang = job_set({"replicatedJobs": jobs}, {})
    assert gang.pod_sets == {"work": PodSetTopology(slices=[(RACK, 4)])}


def test_a_replicated_job_with_a_wrong_annotation_is_refused():
    gang = job_set({"replicatedJobs": [replicated("work", 4, unconstrained_topology="no")]}, {})
    assert gang.unsupported.startswith("replicated job work: ")
