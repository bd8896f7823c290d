"""What has succeeded need not be done again: it counts towards what a gang needs."""

import pytest

from kaisched.cluster.store import StateStore, update
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.objects.workloads import Gang, PartialObject
from tests.contract.clusters import API_OF, group, pod
from tests.faults.deciding import decide, placed, reasons, store_of, told
from tests.oracles.accounts import content

IN_G = {"pod-group-name": "g"}


def member(at, **rest):
    return pod(f"p{at}", annotations=IN_G, uid=rest.pop("uid", f"uid{at}"), **rest)


def done(at, **rest):
    return member(at, where="n0", phase="Succeeded", **rest)


def running(at, **rest):
    return member(at, where="n0", phase="Running", **rest)


def minimums(store):
    podsets = store.snapshot().podsets
    return dict(zip(podsets.name, podsets.minimum.tolist(), strict=True))


def of_kind(kind, name, gang):
    meta = ObjectMeta(name=name, namespace="ns", uid=f"uid-{name}")
    return PartialObject(metadata=meta, api_version=API_OF[kind], kind=kind, gang=gang)


@pytest.mark.fault("I125")
def test_an_evicted_pod_of_a_gang_whose_others_succeeded_runs_again():
    """Its controller has made it anew; a process that starts now does the same."""
    store = store_of(group("g", minMember=8), *(running(at) for at in range(8)))
    for at in range(7):
        update(store, done(at))
    update(store, running(7), is_gone=True)
    update(store, member(7, uid="anew"))
    objects = [group("g", minMember=8), *(done(at) for at in range(7)), member(7, uid="anew")]
    for known in (store, store_of(*objects), store_of(*objects[::-1])):
        assert minimums(known) == {"default": 1}
        assert placed(decide(known)) == {"p7": "n0"}


@pytest.mark.fault("I125")
def test_what_is_left_of_a_gang_still_goes_together():
    store = store_of(group("g", minMember=4), done(0), member(1), member(2))
    result = decide(store)
    assert placed(result) == {}
    (record,) = result.records
    assert record.reason == "GangIncomplete"
    assert record.message.startswith(
        "2 of the 3 pods it still needs exist and are not gated; 1 has"
    )
    update(store, member(3))
    assert set(placed(decide(store))) == {"p1", "p2", "p3"}


@pytest.mark.fault("I125")
def test_a_gang_that_lost_what_it_had_left_to_do_ends_though_one_of_it_succeeded():
    objects = [group("g", minMember=4, stalenessGracePeriod="0s"), done(0), running(1), running(2)]
    assert decide(store_of(*objects, running(3))).evictions == ()
    evictions = decide(store_of(*objects)).evictions
    assert [each.pod for each in evictions] == ["ns/p1", "ns/p2"]
    assert evictions[0].reason.startswith("only 2 of the 3 pods needed run, for 0s")


def test_pods_that_failed_or_are_gone_have_to_run_again():
    store = store_of(group("g", minMember=3), done(0), done(1), member(2))
    assert minimums(store) == {"default": 1}
    update(store, member(0, where="n0", phase="Failed", uid="another"))
    assert minimums(store) == {"default": 2}
    update(store, done(1), is_gone=True)
    assert minimums(store) == {"default": 3}
    assert list(reasons(decide(store))) == ["g"]


def test_more_than_a_gang_needs_leaves_every_pod_to_itself():
    store = store_of(group("g", minMember=2), done(0), done(1), done(2), member(3), member(4))
    assert minimums(store) == {"default": 0}
    assert set(placed(decide(store))) == {"p3", "p4"}


def test_each_subgroup_counts_its_own():
    parts = [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 2}]
    x, y = ({"labels": {"kai.scheduler/subgroup-name": name}} for name in "xy")
    objects = [group("g", subGroups=parts), done(0, **x), done(1, **x), done(2, **y)]
    store = store_of(*objects, member(3, **y))
    assert minimums(store) == {"x": 0, "y": 1}
    assert placed(decide(store)) == {"p3": "n0"}
    told(store, group("g", subGroups=[*parts, {"name": "z", "minMember": 1}]))
    assert {name: minimums(store)[name] for name in "xyz"} == {"x": 0, "y": 1, "z": 1}


def test_a_workload_s_own_size_counts_the_same():
    kind = "LeaderWorkerSet"
    workload = of_kind(kind, "o2", Gang(minimum=3))
    owner = {
        "apiVersion": API_OF[kind],
        "kind": kind,
        "name": "o2",
        "uid": "uid-o2",
        "controller": True,
    }

    def worker(at, **rest):
        labels = {"leaderworkerset.sigs.k8s.io/group-index": "0"}
        return pod(f"w{at}", metadata={"ownerReferences": [owner]}, labels=labels, **rest)

    ended = [worker(at, where="n0", phase="Succeeded") for at in range(2)]
    store = store_of(workload, *ended, worker(2))
    assert minimums(store) == {"default": 1}
    assert placed(decide(store)) == {"w2": "n0"}


def test_a_group_that_is_declared_late_or_again_knows_what_is_done():
    objects = [done(0), member(1), group("g", minMember=2)]
    store = told(StateStore(), *objects)
    assert minimums(store) == {"default": 1}
    before = content(store.snapshot())
    store.remove_pod_group("ns/g")
    update(store, objects[2])
    assert content(store.snapshot()) == before
    assert minimums(store) == {"default": 1}


def test_what_was_done_before_its_group_was_declared_counts_once_it_is():
    """A group of Kubernetes' own gang API; without it a pod is in no job."""
    in_g = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    over = {"where": "n0", "phase": "Succeeded"}
    ended = [pod(f"p{at}", uid=f"uid{at}", **over, **in_g) for at in (0, 1)]
    waiting = pod("p2", uid="uid2", **in_g)
    meta = ObjectMeta(name="g", namespace="ns", uid="uid-g")
    api = "scheduling.k8s.io/v1alpha2"
    gang = Gang(minimum=3)
    declared = PartialObject(metadata=meta, api_version=api, kind="PodGroup", gang=gang)
    objects = [*ended, waiting, declared]
    for order in (objects, objects[::-1]):
        store = told(StateStore(), *order)
        assert minimums(store) == {"default": 1}
        before = content(store.snapshot())
        store.remove_owner("uid-g")
        update(store, declared)
        assert content(store.snapshot()) == before
        update(store, ended[0], is_gone=True)
        assert minimums(store) == {"default": 2}
        update(store, pod("p1", uid="another", **in_g))
        store.remove_owner("uid-g")
        update(store, declared)
        assert minimums(store) == {"default": 3}


def test_subgroups_of_a_kind_are_counted_by_its_labels():
    parts = [
        SubGroupSpec(name="x"),
        SubGroupSpec(name="x/0", min_member=1, parent="x"),
        SubGroupSpec(name="x/1", min_member=2, parent="x"),
    ]
    workload = of_kind("JobSet", "o3", Gang(sub_groups=parts))
    owner = {
        "apiVersion": API_OF["JobSet"],
        "kind": "JobSet",
        "name": "o3",
        "uid": "uid-o3",
        "controller": True,
    }

    def child(name, index, **rest):
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "x",
            "jobset.sigs.k8s.io/job-index": index,
        }
        return pod(name, metadata={"ownerReferences": [owner]}, labels=labels, **rest)

    store = store_of(
        workload,
        child("a", "0", where="n0", phase="Succeeded"),
        child("b", "1", where="n0", phase="Succeeded"),
        child("c", "1"),
    )
    assert minimums(store) == {"x/0": 0, "x/1": 1}
    assert placed(decide(store)) == {"c": "n0"}
