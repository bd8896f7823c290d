"""ClusterQueues and Cohorts as queues: K1 to K5 and K10 of docs/reference/kueue-objects.md."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.objects.kueue import (
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    CohortSpec,
    FairSharing,
    FlavorFungibility,
    FlavorQuotas,
    FlavorResource,
    LocalQueue,
    LocalQueueSpec,
    Preemption,
    ResourceFlavor,
    ResourceFlavorSpec,
    ResourceGroup,
)
from kaisched.objects.kueue_queues import amount_of, tree_of
from kaisched.objects.load import check_queues
from kaisched.objects.queue import (
    BY_USAGE,
    BorrowWithinCohort,
    Queue,
    QueueAdmissionScope,
    QueueFlavorResource,
    QueueResource,
    QueueSpec,
    queue_shares,
)
from kaisched.objects.wire import ObjectMeta
from kaisched.units import MAX_QUOTA, MEMORY_UNIT

GPU = "nvidia.com/gpu"


def group(resource=GPU, **quota_of_flavor):
    flavors = [
        FlavorQuotas(
            name=name.replace("_", "-"),
            resources=[FlavorResource(name=resource, nominal_quota=quota)],
        )
        for name, quota in quota_of_flavor.items()
    ]
    return ResourceGroup(covered_resources=[resource], flavors=flavors)


def leaf(name, cohort="", *groups, **spec):
    meta = ObjectMeta(name=name)
    return ClusterQueue(
        metadata=meta,
        spec=ClusterQueueSpec(cohort_name=cohort, resource_groups=list(groups), **spec),
    )


def inner(name, parent="", *groups):
    spec = CohortSpec(parent_name=parent, resource_groups=list(groups))
    return Cohort(metadata=ObjectMeta(name=name), spec=spec)


def by_name(tree):
    return {queue.name: queue.spec for queue in tree.queues}


def test_a_tree_has_the_names_and_the_order_of_its_cohorts():
    queues = [leaf("a", "team"), leaf("b", "named-only"), leaf("alone")]
    tree = tree_of(queues, [inner("team", "top", group(f=4)), inner("top")])
    assert {name: spec.parent_queue for name, spec in by_name(tree).items()} == {
        "team": "top",
        "top": "",
        "named-only": "",
        "a": "team",
        "b": "named-only",
        "alone": "",
    }
    assert by_name(tree)["team"].resources == {"gpu": QueueResource(quota=4)}
    assert by_name(tree)["top"].resources == {}
    valid, problems = check_queues(tree.queues)
    assert (len(valid), problems, tree.problems) == (6, [], [])
    assert tree.made_of["a"] == ("ClusterQueue", "a")


def test_a_cohort_gives_way_where_a_name_is_taken():
    tree = tree_of([leaf("x", "x"), leaf("b", "mine")], [inner("mine")], taken=["mine"])
    assert {name: spec.parent_queue for name, spec in by_name(tree).items()} == {
        "cohort/x": "",
        "cohort/mine": "",
        "x": "cohort/x",
        "b": "cohort/mine",
    }


def test_a_cluster_queue_of_the_name_of_a_queue_is_an_error():
    tree = tree_of([leaf("a")], [], taken=["a"])
    assert tree.queues == []
    assert [(it.kind, it.name, it.path) for it in tree.problems] == [
        ("ClusterQueue", "a", "metadata.name")
    ]


def test_a_cycle_takes_its_tree_out_and_no_other():
    queues = [leaf("a", "x"), leaf("b", "below"), leaf("c", "fine")]
    cohorts = [inner("x", "y"), inner("y", "x"), inner("below", "x")]
    tree = tree_of(queues, cohorts)
    assert sorted(by_name(tree)) == ["c", "fine"]
    assert sorted((it.kind, it.name) for it in tree.problems) == [
        ("ClusterQueue", "a"),
        ("ClusterQueue", "b"),
        ("Cohort", "below"),
        ("Cohort", "x"),
        ("Cohort", "y"),
    ]
    assert "x -> y -> x" in tree.problems[0].message


def test_all_that_a_cluster_queue_says_is_carried_over():
    resources = [
        FlavorResource(name=GPU, nominal_quota=8, borrowing_limit=4, lending_limit=0),
        FlavorResource(name="cpu", nominal_quota="1500m"),
        FlavorResource(name="memory", nominal_quota="64Gi"),
        FlavorResource(name="rdma/hca", nominal_quota="2"),
    ]
    covered = [it.name for it in resources]
    flavors = [FlavorQuotas(name="f", resources=resources)]
    queue = leaf(
        "a",
        "c",
        ResourceGroup(covered_resources=covered, flavors=flavors),
        stop_policy="Hold",
        preemption=Preemption(
            reclaim_within_cohort="LowerPriority",
            borrow_within_cohort=BorrowWithinCohort(policy="LowerPriority"),
        ),
    )
    tree = tree_of([queue], [])
    spec = by_name(tree)["a"]
    assert spec.resources == {
        "gpu": QueueResource(quota=8, borrowing_limit=4, lending_limit=0),
        "cpu": QueueResource(quota=1500),
        "memory": QueueResource(quota=68719.476736),
        "rdma/hca": QueueResource(quota=2),
    }
    assert spec.stop_policy == "Hold"
    assert spec.preemption.within_cluster_queue == "Never"
    assert spec.preemption.reclaim_within_cohort == "LowerPriority"
    assert spec.preemption.borrow_within_cohort == BorrowWithinCohort(policy="LowerPriority")
    assert tree.warnings == []


def test_what_a_cluster_queue_does_not_cover_it_never_takes():
    tree = tree_of([leaf("a", "c", group(f=8)), leaf("b", "c", group("x/y", f=1))], [])
    closed = QueueResource(quota=0, limit=0)
    assert by_name(tree)["a"].resources == {
        "gpu": QueueResource(quota=8),
        "cpu": closed,
        "memory": closed,
        "x/y": closed,
    }
    assert {(it.name, it.message) for it in tree.warnings} == {
        ("a", "no quota of cpu and memory: jobs that ask for some wait"),
        ("b", "no quota of cpu and memory: jobs that ask for some wait"),
    }


def test_one_flavor_of_a_resource_counts_in_a_tree_and_the_rest_is_named():
    queues = [
        leaf("a", "c", group(spot=4, on_demand=8)),
        leaf("b", "c", group(spot=2)),
        leaf("alone", "", group(spot=3)),
    ]
    tree = tree_of(queues, [])
    found = by_name(tree)
    assert found["a"].resources["gpu"].quota == 8
    assert found["b"].resources["gpu"] == QueueResource(quota=0, limit=0)
    assert found["alone"].resources["gpu"].quota == 3
    told = [it for it in tree.warnings if "is not counted" in it.message]
    assert [(it.name, it.path, it.value) for it in told] == [
        ("a", "spec.resourceGroups[0].flavors[0].resources[0]", 4),
        ("b", "spec.resourceGroups[0].flavors[0].resources[0]", 2),
    ]
    assert told[0].message == "quota of nvidia.com/gpu in flavor spot is not counted"
    assert "on-demand of nvidia.com/gpu" in told[0].fix


def test_all_flavors_count_in_a_tree_with_a_choice_if_their_nodes_are_known():
    fungibility = FlavorFungibility(when_can_borrow="TryNextFlavor", when_can_preempt="Preempt")
    chooser = leaf("a", "c", group(spot=4, on_demand=8))
    spec = msgspec.structs.replace(chooser.spec, flavor_fungibility=fungibility)
    queues = [
        msgspec.structs.replace(chooser, spec=spec),
        leaf("b", "c", group("cpu", spot=2)),
        leaf("alone", "", group(spot=3)),
    ]
    nodes = ResourceFlavorSpec(node_labels={"kind": "spot"})
    flavors = [ResourceFlavor(metadata=ObjectMeta(name="spot"), spec=nodes)]
    tree = tree_of(queues, [], flavors=flavors)
    found = by_name(tree)
    spot, on_demand = found["a"].flavors
    assert (spot.name, spot.node_labels) == ("spot", {"kind": "spot"})
    assert (on_demand.name, on_demand.node_labels) == ("on-demand", {})
    assert on_demand.resources == {"gpu": QueueFlavorResource(quota=8)}
    assert found["a"].flavor_fungibility.when_can_borrow == "TryNextFlavor"
    assert found["a"].flavor_fungibility.when_can_preempt == "MayStopSearch"
    assert found["b"].resources["gpu"] == QueueResource(quota=0, limit=0)
    assert found["alone"].resources["gpu"].quota == 3
    assert not found["alone"].flavors
    assert tree.flavors_of == {"c": (), "a": ("spot", "on-demand"), "b": ("spot",)}
    assert not [it for it in tree.warnings if "is not counted" in it.message]


@pytest.mark.parametrize("resource", ["pods", "amd.com/gpu", "credits"])
def test_a_resource_that_queues_do_not_share_out_is_named(resource):
    queue = leaf("a", "", group(resource, f=5), group(g=1))
    tree = tree_of([queue], [], gpu_resources=[GPU])
    (told,) = [it for it in tree.warnings if "is not counted" in it.message]
    assert told.message == f"quota of {resource} in flavor f is not counted"
    assert set(by_name(tree)["a"].resources) == {"gpu", "cpu", "memory"}


def test_an_implicit_cohort_is_in_the_pool_of_who_names_it():
    meta = ObjectMeta(name="a", labels={"kai.scheduler/node-pool": "gold", "x": "y"})
    queue = ClusterQueue(metadata=meta, spec=ClusterQueueSpec(cohort="c"))
    labels = {it.name: it.metadata.labels for it in tree_of([queue], []).queues}
    assert labels == {"c": {"kai.scheduler/node-pool": "gold"}, "a": meta.labels}


def read_back(name, number):
    spec = QueueSpec(resources={name: QueueResource(quota=number)})
    return queue_shares(Queue(metadata=ObjectMeta(name="q"), spec=spec))[name].quota


@given(st.integers(0, 1 << 62))
def test_bytes_survive_to_the_last_unit(amount):
    units = min(amount // MEMORY_UNIT, MAX_QUOTA - 1)
    assert read_back("memory", amount_of("memory", amount)) == units


@given(st.fractions(0, 10**9, max_denominator=10**6))
def test_cpu_is_counted_in_thousandths_rounded_up(cores):
    nanos = -(-cores.numerator * 10**9 // cores.denominator)
    assert read_back("cpu", amount_of("cpu", f"{nanos}n")) == -(-nanos // 10**6)
    assert Fraction(nanos, 10**9) >= cores


def test_amounts_beyond_any_cluster_are_the_most_there_is():
    for name in ("gpu", "cpu", "memory", "rdma/hca"):
        assert 0 < read_back(name, amount_of(name, "9E")) < MAX_QUOTA


def local(name, queue, weight=1, **spec):
    meta = ObjectMeta(name=name, namespace="team")
    sharing = FairSharing(weight=weight)
    return LocalQueue(
        metadata=meta, spec=LocalQueueSpec(cluster_queue=queue, fair_sharing=sharing, **spec)
    )


def test_local_queues_that_are_served_by_usage_are_queues_below_their_cluster_queue():
    queues = [
        leaf("a", "c", group(f=4), admission_scope=QueueAdmissionScope(admission_mode=BY_USAGE)),
        leaf("b", "c", group(f=4)),
    ]
    some = [
        local("x", "a", "0.5", stop_policy="Hold"),
        local("y", "a"),
        local("z", "b"),
        local("lost", "none"),
    ]
    tree = tree_of(queues, [], some)
    found = by_name(tree)
    assert list(found) == ["c", "a", "b", "team/x", "team/y"]
    assert found["a"].admission_scope.admission_mode == BY_USAGE
    assert found["b"].admission_scope == QueueAdmissionScope()
    x, y = found["team/x"], found["team/y"]
    assert (x.parent_queue, x.fair_sharing.weight, x.stop_policy) == ("a", "0.5", "Hold")
    assert (y.parent_queue, y.fair_sharing.weight, y.stop_policy) == ("a", 1, "None")
    assert tree.local_queues == {"team/x", "team/y"}
    assert tree.flavor_of["team/x"] == tree.flavor_of["a"] == {"gpu": "f"}
    assert tree.made_of["team/x"] == ("LocalQueue", "team/x")
    assert check_queues(tree.queues)[1] == []


def test_a_weight_among_local_queues_that_are_not_told_apart_is_reported():
    tree = tree_of(
        [leaf("b", "", group("cpu", f=4), group("memory", f=4))], [], [local("z", "b", 2)]
    )
    (warning,) = tree.warnings
    assert "LocalQueue team/z" in str(warning)
    assert "spec.fairSharing.weight" in str(warning)
    assert tree.local_queues == set()
