"""Kueue's topology annotations of pods and of templates, as the constraints of their jobs."""

import pytest

from kaisched import TopologyConstraint
from kaisched.core.refusals import Refusal
from tests.unit.cluster.test_grouping_table import SET, owned, owner
from tests.unit.cluster.test_groups import job, store_of

KEY = "kueue.x-k8s.io/podset-"
RACK = "example.com/rack"
REQUIRED = {f"{KEY}required-topology": RACK}


def wish(required="", *slices):
    return TopologyConstraint("", required, "", slices, is_pod_set=True)


def tree_of(*objects):
    (tree,) = store_of(*objects).snapshot().jobs.structure.values()
    return tree


def test_the_annotations_of_pods_are_those_of_their_job():
    notes = {**REQUIRED, f"{KEY}slice-required-topology": "host", f"{KEY}slice-size": "2"}
    pods = [owned(name, ("Job", "train"), annotations=notes) for name in "pq"]
    assert tree_of(owner("Job", "train"), *pods).topology == wish(RACK, ("host", 2))


def test_a_constraint_of_kai_scheduler_has_precedence():
    notes = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "zone"}
    top = owner("Job", "train", annotations=notes)
    tree = tree_of(top, owned("p", ("Job", "train"), annotations=REQUIRED))
    assert tree.topology == TopologyConstraint("dc", "zone")


def test_an_annotation_that_makes_no_sense_refuses_the_job():
    pod = owned("p", ("Job", "train"), annotations={f"{KEY}slice-required-topology": RACK})
    store = store_of(owner("Job", "train"), pod)
    assert job(store)["refusal"] == Refusal.INVALID_GROUP
    assert "podset-slice-required-topology" in str(store.problems())


def job_set(**notes):
    """A JobSet of a leader and two jobs of workers; ``notes`` are those of each one's pods."""
    counts = {"lead": 1, "work": 2}
    parts = [
        {
            "name": name,
            "replicas": counts[name],
            "template": {"spec": {"template": {"metadata": {"annotations": notes[name]}}}},
        }
        for name in ("lead", "work")
    ]
    found = [owner("JobSet", "s", spec={"replicatedJobs": parts})]
    for name, count in counts.items():
        for index in range(count):
            made = f"s-{name}-{index}"
            labels = {f"{SET}replicatedjob-name": name, f"{SET}job-index": str(index)}
            found.append(owner("Job", made, by=("JobSet", "s")))
            found.append(owned(f"{made}-0", ("Job", made), labels=labels, annotations=notes[name]))
    return found


def test_replicated_jobs_are_pod_sets_of_their_own():
    tree = tree_of(*job_set(lead={}, work=REQUIRED))
    assert [(it.name, it.topology) for it in tree.children] == [
        ("lead", None),
        ("work", wish(RACK)),
    ]
    assert tree.topology is None


def test_pod_sets_of_one_group_are_placed_together():
    notes = {**REQUIRED, f"{KEY}group-name": "pair"}
    (pair,) = tree_of(*job_set(lead=notes, work=notes)).children
    assert pair.topology == wish(RACK)
    assert [it.name for it in pair.children] == ["lead", "work"]
    assert [it.topology for it in pair.children] == [None, None]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_set_of_one_replicated_job(replicas):
    notes = {"annotations": REQUIRED}
    part = {
        "name": "work",
        "replicas": replicas,
        "template": {"spec": {"template": {"metadata": notes}}},
    }
    found = [owner("JobSet", "s", spec={"replicatedJobs": [part]})]
    for index in range(replicas):
        labels = {f"{SET}replicatedjob-name": "work", f"{SET}job-index": str(index)}
        found.append(owner("Job", f"s-work-{index}", by=("JobSet", "s")))
        found.append(owned(f"p{index}", ("Job", f"s-work-{index}"), labels=labels))
    tree = tree_of(*found)
    assert wish(RACK) in [tree.topology, *(it.topology for it in tree.children)]
