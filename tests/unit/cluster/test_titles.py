"""What a job is called where people read: the topmost owner of its pods, by kind and name."""

import pytest

from kaisched.cluster.store import update
from kaisched.core.titles import TopOwner
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.wire import OwnerReference
from tests.contract.clusters import group, make
from tests.unit.cluster.test_grouping_table import (
    leader_worker_set,
    owned,
    owner,
    reference,
    snake,
)
from tests.unit.cluster.test_groups import store_of


def titles(store):
    s = store.snapshot()
    return {s.jobs.title[row] for row, tasks in enumerate(s.jobs.tasks) if tasks}


def test_a_bare_pod_is_a_pod():
    assert titles(store_of(owned("p"))) == {"Pod ns/p"}


def test_the_pods_of_a_job_are_that_job():
    store = store_of(
        owner("Job", "exp"), owned("exp-0", ("Job", "exp")), owned("exp-1", ("Job", "exp"))
    )
    assert titles(store) == {"Job ns/exp"}


def test_of_several_owners_the_topmost_counts_and_the_job_is_named_where_it_is_one_of_many():
    """A person wrote the CronJob; each run of it is a job of its own."""
    store = store_of(
        owner("CronJob", "nightly"),
        owner("Job", "nightly-1", by=("CronJob", "nightly")),
        owner("Job", "nightly-2", by=("CronJob", "nightly")),
        owned("p", ("Job", "nightly-1")),
        owned("q", ("Job", "nightly-2")),
    )
    assert titles(store) == {"CronJob ns/nightly (nightly-1)", "CronJob ns/nightly (nightly-2)"}


def test_a_ray_job_makes_one_cluster_and_is_named_alone():
    store = store_of(
        owner("RayJob", "fit"),
        owner("RayCluster", "fit-raycluster-x7k2p", by=("RayJob", "fit")),
        owned("head", ("RayCluster", "fit-raycluster-x7k2p")),
    )
    assert titles(store) == {"RayJob ns/fit"}


def test_replicas_are_told_apart_by_their_pods():
    store = store_of(
        owner("Deployment", "web"),
        owner("ReplicaSet", "web-7f", by=("Deployment", "web")),
        owned("web-7f-a", ("ReplicaSet", "web-7f")),
        owned("web-7f-b", ("ReplicaSet", "web-7f")),
    )
    assert titles(store) == {"Deployment ns/web (web-7f-a)", "Deployment ns/web (web-7f-b)"}


def test_groups_of_a_leader_worker_set_are_told_apart_by_their_index():
    found = titles(store_of(*leader_worker_set(groups=2)))
    assert found == {"LeaderWorkerSet ns/serve (serve-0)", "LeaderWorkerSet ns/serve (serve-1)"}


def test_an_owner_of_an_unknown_kind_is_named_by_what_its_pods_say():
    store = store_of(owned("p", ("Widget", "w")))
    assert titles(store) == {"Widget ns/w (p)"}


def test_a_pod_group_that_a_person_wrote_is_that():
    store = store_of(
        group("train"), owner("Job", "x"), owned("p", ("Job", "x"), annotations=member_of("train"))
    )
    assert titles(store) == {"PodGroup ns/train"}


def test_a_pod_group_that_a_controller_made_is_what_owns_it():
    """KAI's pod grouper names the topmost owner of the pods, without ``controller: true``."""
    said = reference("Job", "exp")
    above = {"ownerReferences": [{**said, "controller": False}]}
    made = make(PodGroup, "pg-exp-16b15436", spec={"queue": "a"}, metadata=above)
    pods = owned("p", ("Job", "exp"), annotations=member_of("pg-exp-16b15436"))
    assert titles(store_of(made, pods)) == {"Job ns/exp"}


def test_a_pod_group_that_is_missing_is_named():
    assert titles(store_of(owned("p", annotations=member_of("gone")))) == {"PodGroup ns/gone"}


def test_an_owner_that_comes_later_changes_the_title():
    store = store_of(owner("Job", "run"), owned("p", ("Job", "run")))
    assert titles(store) == {"Job ns/run"}
    update(store, owner("CronJob", "c"))
    above = OwnerReference(**snake(reference("CronJob", "c")))
    made = owner("Job", "run")
    made.metadata.owner_references.append(above)
    update(store, made)
    assert titles(store) == {"CronJob ns/c (run)"}


def member_of(name):
    return {"pod-group-name": name}


# -- who submitted it ------------------------------------------------------------------------------


def users(store):
    s = store.snapshot()
    return {s.jobs.top_owner[row].user for row, tasks in enumerate(s.jobs.tasks) if tasks}


@pytest.mark.parametrize(
    ("said", "user"),
    [
        ({}, ""),
        ({"annotations": {"kaisched.io/user": "ann@example.org"}}, "ann@example.org"),
        ({"annotations": {"user": "ann"}}, "ann"),
        ({"labels": {"user": "ann"}}, "ann"),
        ({"annotations": {"kaisched.io/user": "ann", "user": "bob"}}, "ann"),
        ({"labels": {"hub.jupyter.org/username": "ann"}}, "ann"),
        ({"annotations": {"hub.jupyter.org/username": "Ann B"}}, "Ann B"),
        (
            {"annotations": {"yunikorn.apache.org/user.info": '{"user": "ann", "groups": []}'}},
            "ann",
        ),
        ({"annotations": {"yunikorn.apache.org/user.info": "nonsense"}}, ""),
        ({"annotations": {"kaisched.io/user": "x" * 300}}, ""),
        ({"annotations": {"kaisched.io/user": "a\nb"}}, ""),
    ],
)
def test_who_submitted_it_is_what_the_objects_say(said, user):
    assert users(store_of(owned("p", **said))) == {user}


def test_the_outermost_owner_that_names_a_user_counts():
    top = owner("Job", "exp", annotations={"kaisched.io/user": "ann"})
    pods = owned("p", ("Job", "exp"), annotations={"kaisched.io/user": "controller"})
    assert users(store_of(top, pods)) == {"ann"}


def test_a_pod_group_says_it_or_else_its_first_pod():
    mine = make(PodGroup, "train", spec={"queue": "a"}, annotations={"kaisched.io/user": "ann"})
    pods = owned("p", annotations={**member_of("train"), "user": "bob"})
    assert users(store_of(mine, pods)) == {"ann"}
    assert users(store_of(group("train"), pods)) == {"bob"}


def test_rows_without_an_object_are_called_by_their_own_name():
    assert str(TopOwner("Job", "ns", "exp")) == "Job ns/exp"
    store = store_of()
    store.rows.add_job("ns/j", "a", priority=0, is_preemptible=True, created_s=0.0, tasks=())
    assert list(store.snapshot().jobs.title) == ["ns/j"]
