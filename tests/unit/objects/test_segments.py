"""Segments of gangs, and constraints of templates, read from the specs of workloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.errors import ObjectError
from kaisched.objects.gangs import job_set, leader_worker_set, pytorch, ray
from kaisched.objects.wire import TopologyConstraint
from kaisched.objects.workloads import Gang, Segments, parts_of, resized, segment_of

KAI = "kai.scheduler/"
REQUIRED, SIZE = "segment-topology-required-placement", "segment-size"
RACK = TopologyConstraint(topology="dc", required_topology_level="rack")
NO_SIZE = "no size of a segment; write how many pods are a segment, at least 1"
NOTES = {"topology": "dc", "segment-size": "4", "segment-topology-required-placement": "rack"}


def notes(**changed):
    """The annotations of segments of four in one rack each, some of them changed."""
    said = {**NOTES, **{key.replace("_", "-"): value for key, value in changed.items()}}
    return {f"{KAI}{key}": value for key, value in said.items() if value is not None}


def template(annotations):
    return {"metadata": {"annotations": annotations}}


def job(workers, said, **spec):
    replicas = {"Worker": {"replicas": workers, "template": template(said)}}
    return {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, **replicas}, **spec}


def shown(gang):
    """(name, minimum) of each subgroup; None if its own subgroups count."""
    return {part.name: part.min_member for part in gang.sub_groups}


def constraints(gang):
    return {it.name: it.topology_constraint for it in gang.sub_groups if it.topology_constraint}


@pytest.mark.parametrize(
    ("pods", "minimum", "size", "least"),
    [
        (10, 8, 4, [4, 4, 0]),
        (10, 10, 4, [4, 4, 2]),
        (10, 9, 4, [4, 4, 2]),
        (10, 5, 4, [4, 4, 0]),
        (10, 4, 4, [4, 0, 0]),
        (10, 0, 4, [0, 0, 0]),
        (20, 12, 4, [4, 4, 4, 0, 0]),
        (3, 3, 4, [3]),
        (4, 4, 1, [1, 1, 1, 1]),
    ],
)
def test_segments_that_the_minimum_reaches_into_are_needed_whole(pods, minimum, size, least):
    parts = parts_of(Segments(size=size, pods=pods, minimum=minimum), "w")
    assert [part.min_member for part in parts] == [None, *least]


@pytest.mark.parametrize(
    ("pods", "size", "leader", "parts"),
    [
        (5, 2, "inside", [["0", "1", "2"], ["3", "4"]]),
        (6, 2, "inside", [["0", "1"], ["2", "3"], ["4", "5"]]),
        (6, 4, "inside", [["0", "1", "2", "3"], ["4", "5"]]),
        (5, 2, "outside", [["0"], ["1", "2"], ["3", "4"]]),
        (1, 4, "inside", [["0"]]),
        (1, 4, "outside", [["0"]]),
        (10, 4, "", [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"]]),
    ],
)
def test_which_pods_are_in_which_segment(pods, size, leader, parts):
    """A leader is an extra pod of the first segment if the others are whole segments."""
    segments = Segments(size=size, pods=pods, minimum=pods, leader=leader)
    found: dict[str, list[str]] = {}
    for index in range(pods):
        found.setdefault(segment_of(segments, "w", index), []).append(str(index))
    assert list(found.values()) == parts
    least = {part.name: part.min_member for part in parts_of(segments, "w") if part.name != "w"}
    assert least == {name: len(it) for name, it in found.items()}


@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.sampled_from(["", "inside", "outside"]),
    st.integers(0, 60),
)
def test_every_pod_has_a_segment_and_no_segment_needs_more_than_it_has(pods, size, leader, least):
    minimum = pods if leader else min(least, pods)
    segments = Segments(size=size, pods=pods, minimum=minimum, leader=leader)
    counts: dict[str, int] = {}
    for index in range(pods):
        name = segment_of(segments, "w", index)
        counts[name] = counts.get(name, 0) + 1
    leaves = {it.name: it.min_member for it in parts_of(segments, "w") if it.name != "w"}
    assert leaves.keys() == counts.keys()
    assert all(leaves[name] in (0, count) for name, count in counts.items())
    assert minimum <= sum(leaves.values()) < minimum + size + 1


def test_a_leader_outside_needs_whole_segments():
    segments = Segments(size=4, pods=9, minimum=9, leader="outside")
    assert resized(segments, 5).count == 1
    with pytest.raises(ObjectError, match="6 pods without their leader are no segments of 4"):
        resized(segments, 7)


def test_a_pytorch_job_in_segments():
    """Ten workers, the master is in no segment; the whole job needs all."""
    gang = pytorch(job(10, notes()), {})
    assert shown(gang) == {
        "master": 1,
        "worker": None,
        "worker/0": 4,
        "worker/1": 4,
        "worker/2": 2,
    }
    assert constraints(gang) == dict.fromkeys(["worker/0", "worker/1", "worker/2"], RACK)
    assert gang.segments["worker"].size == 4


def test_roles_without_pods_are_no_subgroups_and_no_workers_are_no_segments():
    spec = job(4, notes())
    spec["pytorchReplicaSpecs"]["Master"]["replicas"] = 0
    assert shown(pytorch(spec, {})) == {"worker": None, "worker/0": 4}
    assert shown(pytorch(job(0, notes()), {})) == {"master": 1, "worker": 0}


def test_an_elastic_pytorch_job_needs_whole_segments():
    gang = pytorch(job(10, notes(), elasticPolicy={"minReplicas": 8}), {})
    assert shown(gang) == {
        "master": 1,
        "worker": None,
        "worker/0": 4,
        "worker/1": 4,
        "worker/2": 0,
    }
    policy = {"schedulingPolicy": {"minAvailable": 5}}
    assert shown(pytorch(job(10, notes(), runPolicy=policy), {}))["worker/1"] == 0


def test_the_workload_may_say_what_its_template_does_not():
    """The template counts where both say it."""
    said = notes(topology="other", segment_size="5")
    gang = pytorch(job(10, notes(segment_size=None, topology=None)), said)
    assert shown(gang)["worker/0"] == 5
    assert constraints(gang)["worker/0"].topology == "other"
    gang = pytorch(job(10, notes()), said)
    assert shown(gang)["worker/0"] == 4
    assert constraints(gang)["worker/0"].topology == "dc"


@pytest.mark.parametrize(
    "said",
    [
        {},
        notes(segment_topology_required_placement=None),
        notes(segment_topology_required_placement=""),
        {f"{KAI}segment-size": "four"},
        notes(
            segment_topology_required_placement=None,
            segment_topology_preferred_placement="rack",
            topology=None,
        ),
        notes(
            segment_topology_required_placement=None,
            segment_topology_preferred_placement="rack",
            segment_size=None,
        ),
    ],
    ids=[
        "nothing",
        "no level",
        "an empty level",
        "only a size",
        "a wish without a topology",
        "a wish without a size",
    ],
)
def test_without_a_level_that_can_be_read_there_are_no_segments(said):
    gang = pytorch(job(10, said), {})
    assert (shown(gang), gang.segments) == ({"master": 1, "worker": 10}, {})


@pytest.mark.parametrize(
    ("said", "key", "told"),
    [
        (
            notes(topology=None),
            REQUIRED,
            f"'rack': a level of no topology; add {KAI}topology",
        ),
        (
            notes(segment_size=None),
            REQUIRED,
            f"'rack': without a size; add {KAI}segment-size: so many pods are a segment",
        ),
        *(
            (notes(segment_size=text), SIZE, f"{text[:80]!r}: {NO_SIZE}")
            for text in ("0", "4.5", "+4", "\N{ARABIC-INDIC DIGIT FOUR}", "1" * 10, "9" * 5000)
        ),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_annotation_and_the_fix(said, key, told):
    told = f"template of its workers: metadata.annotations['{KAI}{key}']: {told}"
    assert pytorch(job(10, said), {}).unsupported == told


@pytest.mark.parametrize(("workers", "is_refused"), [(10_000, False), (10_001, True)])
def test_there_are_at_most_ten_thousand_segments(workers, is_refused):
    gang = pytorch(job(workers, notes(segment_size="1")), {})
    assert bool(gang.unsupported) == is_refused
    assert len(gang.sub_groups) == (0 if is_refused else 10_002)
    if is_refused:
        assert "10001 segments; write a larger size: 10000 are the most" in gang.unsupported


def serve(size, said=None, **policy):
    found = {"size": size, "workerTemplate": template(notes() if said is None else said)}
    return {"leaderWorkerTemplate": {**found, **({"subGroupPolicy": policy} if policy else {})}}


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (serve(9), {"workers": None, "workers/0": 5, "workers/1": 4}),
        (serve(8), {"workers": None, "workers/0": 4, "workers/1": 4}),
        (serve(5, subGroupSize=2), {"workers": None, "workers/0": 3, "workers/1": 2}),
        (
            serve(9, subGroupPolicyType="LeaderExcluded"),
            {"leader": 1, "workers": None, "workers/0": 4, "workers/1": 4},
        ),
    ],
    ids=["the leader is extra", "the leader counts", "the size of the spec", "the leader is out"],
)
def test_the_segments_of_a_leader_worker_set(spec, parts):
    gang = leader_worker_set(spec, {})
    assert shown(gang) == parts
    assert constraints(gang) == {name: RACK for name in parts if "/" in name}


def test_a_leader_worker_set_with_subgroups_of_its_own_and_no_level_is_not_divided():
    assert leader_worker_set(serve(9, {}, subGroupSize=4), {}) == Gang(minimum=9)


def test_a_leader_that_is_left_out_needs_whole_segments():
    gang = leader_worker_set(serve(8, subGroupPolicyType="LeaderExcluded"), {})
    assert gang.unsupported == (
        "template of its workers: 7 pods without their leader are no segments of 4;"
        " write a size that divides them, or include the leader"
    )


def test_the_annotations_of_a_job_template_are_about_each_job():
    jobs = [
        {"name": "lead"},
        {
            "name": "work",
            "replicas": 2,
            "template": {
                **template({f"{KAI}topology": "dc", f"{KAI}topology-required-placement": "rack"}),
                "spec": {"parallelism": 3},
            },
        },
    ]
    gang = job_set({"replicatedJobs": jobs}, {})
    assert constraints(gang) == {"work/0": RACK, "work/1": RACK}


def replicated(of_jobs, of_pods):
    inner = {"spec": {"template": template(of_pods)}}
    return {"replicatedJobs": [{"name": "work", "template": {**template(of_jobs), **inner}}]}


def test_the_annotations_of_pods_count_where_those_of_the_job_say_nothing():
    level, name = f"{KAI}topology-required-placement", f"{KAI}topology"
    gang = job_set(replicated({}, {name: "dc", level: "rack"}), {})
    assert constraints(gang) == {"work/0": RACK}
    gang = job_set(replicated({level: "rack"}, {level: "host"}), {name: "dc"})
    assert constraints(gang) == {"work/0": RACK}
    gang = job_set(replicated({name: "dc", level: "rack"}, {}), {name: "other"})
    assert constraints(gang) == {"work/0": RACK}
    kueue = {"kueue.x-k8s.io/podset-required-topology": "host"}
    gang = job_set(replicated({name: "dc", level: "rack"}, kueue), {})
    assert (constraints(gang), gang.pod_sets) == ({"work/0": RACK}, {})


def test_a_level_of_no_topology_is_refused_in_a_job_set_and_in_a_ray_cluster():
    said = {f"{KAI}topology-required-placement": "rack"}
    told = (
        f"metadata.annotations['{KAI}topology-required-placement']:"
        f" 'rack': a level of no topology; add {KAI}topology"
    )
    found = job_set(replicated(said, {}), {})
    assert found.unsupported == f"replicated job work: {told}"
    found = ray({"headGroupSpec": {"template": template(said)}}, {})
    assert found.unsupported == f"template of group headgroup: {told}"


def cluster(head=None, small=None, large=None):
    groups = [
        {"groupName": "small", "minReplicas": 2, "template": template(small or {})},
        {
            "groupName": "large",
            "minReplicas": 1,
            "numOfHosts": 4,
            "template": template(large or {}),
        },
        {"groupName": "off", "minReplicas": 3, "suspend": True},
    ]
    return {"headGroupSpec": {"template": template(head or {})}, "workerGroupSpecs": groups}


def test_a_group_of_a_ray_cluster_asks_for_its_level():
    said = {f"{KAI}topology": "dc", f"{KAI}topology-required-placement": "rack"}
    gang = ray(cluster(large=said), {})
    assert shown(gang) == {"headgroup": 1, "small": 2, "large": 4, "off": 0}
    assert constraints(gang) == {"large": RACK}
    assert constraints(ray(cluster(head=said), {})) == {"headgroup": RACK}
    plain = ray(cluster(head={f"{KAI}topology": "dc"}), {})
    assert (shown(plain), constraints(plain), plain.minimum) == (shown(gang), {}, 7)
