"""Requests of pods and capacities of nodes."""

import pytest

from kaisched.errors import ObjectError
from kaisched.objects.decode import decode_object
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.requests import legacy_mig_slices, node_allocatable, pod_requests, unsupported
from kaisched.units import MAX_AMOUNT, MEBIBYTE, MEGABYTE


def pod(annotations=None, **spec):
    meta = {"name": "p", "annotations": annotations or {}}
    return decode_object({"metadata": meta, "spec": spec}, Pod)[0]


def container(limits=None, restart=None, **requests):
    resources = {"requests": requests, "limits": limits or {}}
    return {"resources": resources, **({"restartPolicy": restart} if restart else {})}


def test_containers_are_added_up_and_rounded_up_one_by_one():
    asked = pod_requests(pod(containers=[container(cpu="100m"), container(cpu="1.5", memory="1M")]))
    assert asked == {"cpu": 1600, "memory": MEGABYTE, "pods": 1}


def test_a_pod_that_asks_for_nothing_takes_a_slot():
    assert pod_requests(pod(containers=[{}])) == {"pods": 1}
    assert pod_requests(pod()) == {"pods": 1}


def test_the_largest_init_container_counts_if_it_is_more():
    spec = {
        "containers": [container(cpu="1"), container(cpu="1")],
        "initContainers": [container(cpu="3"), container(cpu="2", memory="1Gi")],
    }
    assert pod_requests(pod(**spec)) == {"cpu": 3000, "memory": 1024 * MEBIBYTE, "pods": 1}


def test_sidecars_run_beside_everything_that_starts_after_them():
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [
            container(cpu="5"),
            container(cpu="1", restart="Always"),
            container(cpu="5"),
        ],
    }
    assert pod_requests(pod(**spec))["cpu"] == 6000


def resized(status=None, **spec):
    made = {"metadata": {"name": "p"}, "spec": spec, "status": status or {}}
    return pod_requests(decode_object(made, Pod)[0])


def said(name, allocated=None, actual=None):
    resources = None if actual is None else {"requests": actual}
    return {"name": name, "allocatedResources": allocated or {}, "resources": resources}


INFEASIBLE = {
    "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


@pytest.mark.parametrize(
    ("spec", "allocated", "actual", "more", "cpu"),
    [
        ("1", "3", "3", {}, 3000),  # made smaller; not carried out yet
        ("1", "1", "3", {}, 3000),  # allocated already, but not actual
        ("3", "1", "1", {}, 3000),  # made larger: the room is kept
        ("3", "1", "1", DEFERRED, 3000),  # likewise where the kubelet waits for room
        ("3", "1", "1", {"resize": "Deferred"}, 3000),
        ("3", "3", "1", {"conditions": [{"type": "PodResizeInProgress", "status": "True"}]}, 3000),
        ("100", "1", "1", INFEASIBLE, 1000),
        ("100", "1", "2", INFEASIBLE, 2000),
        ("100", "1", "1", {"resize": "Infeasible"}, 1000),  # before Kubernetes 1.33
        ("100", None, None, INFEASIBLE, 100_000),  # nothing says what it has
        ("100", None, {}, INFEASIBLE, 0),  # it runs without a request, and goes on so
        ("100", None, {}, DEFERRED, 100_000),
    ],
)
def test_a_pod_asks_for_what_it_has_where_that_is_more(spec, allocated, actual, more, cpu):
    status = said("main", allocated and {"cpu": allocated}, {"cpu": actual} if actual else actual)
    asked = resized(
        {"containerStatuses": [status], **more},
        containers=[{"name": "main", **container(cpu=spec)}],
    )
    assert asked == ({"cpu": cpu, "pods": 1} if cpu else {"pods": 1})


def test_each_container_has_its_own_status_sidecars_and_init_containers_too():
    asked = resized(
        {
            # In another order than in the spec; one of a container that is no more.
            "containerStatuses": [said("b", actual={"cpu": "4"}), said("a", {"cpu": "1"})],
            "initContainerStatuses": [
                said("side", {"cpu": "2", "memory": "2Mi"}),
                said("init", {"cpu": "9"}),
                said("other", {"cpu": "99"}),
            ],
        },
        containers=[{"name": "a", **container(cpu="2")}, {"name": "b", **container(cpu="1")}],
        initContainers=[
            {"name": "side", **container(cpu="1", restart="Always")},
            {"name": "init", **container(cpu="1")},
        ],
    )
    # a 2, b 4 and the sidecar 2 are less than the sidecar 2 and the init container 9.
    assert asked == {"cpu": 11_000, "memory": 2 * MEBIBYTE, "pods": 1}


def test_what_cannot_be_resized_counts_whatever_became_of_a_resize():
    asked = resized(
        {"containerStatuses": [said("main", {"cpu": "1"})], **INFEASIBLE},
        containers=[
            {"name": "main", **container(cpu="9", memory="1Gi", **{"nvidia.com/gpu": "2"})}
        ],
    )
    assert asked == {"cpu": 1000, "gpu": 2000, "pods": 1}


@pytest.mark.parametrize(
    ("asks", "more", "cpu"), [("1", {}, 3250), ("9", {}, 9250), ("9", INFEASIBLE, 3250)]
)
def test_a_pod_as_a_whole_is_resized_likewise(asks, more, cpu):
    status = {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}, **more}
    asked = resized(
        {"containerStatuses": [said("main", {"cpu": "7"})], **status},
        containers=[{"name": "main", **container(cpu="7")}],
        resources={"requests": {"cpu": asks}},
        overhead={"cpu": "250m"},
    )
    assert asked == {"cpu": cpu, "pods": 1}


def test_what_a_status_says_of_the_pod_as_a_whole_counts_for_what_is_asked_of_it_as_a_whole():
    """A kubelet of 1.36 says of every pod what it has, with its overhead and every resource."""
    has = {"cpu": "3250m", "memory": "5Gi", "nvidia.com/gpu": "2"}
    main = {"name": "main", **container(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "2"})}
    status = {"allocatedResources": has, "resources": {"requests": has}}
    asks = {"containers": [main], "overhead": {"memory": "4Gi"}}
    plain = {"memory": 5 * 1024 * MEBIBYTE, "gpu": 2000, "pods": 1}
    assert resized(status, **asks) == {"cpu": 1000, **plain}
    assert resized(status, **asks, resources={"requests": {"cpu": "3"}}) == {"cpu": 3250, **plain}


def test_a_limit_of_the_pod_as_a_whole_is_its_request_where_no_container_has_one():
    asked = pod_requests(
        pod(containers=[container(cpu="1")], resources={"limits": {"cpu": "4", "memory": "4Gi"}})
    )
    assert asked == {"cpu": 1000, "memory": 4096 * MEBIBYTE, "pods": 1}


def test_overhead_comes_on_top_and_pod_level_requests_stand_instead_of_the_sum():
    spec = {
        "containers": [container(cpu="1", memory="1Gi")],
        "resources": {"requests": {"cpu": "4"}},
        "overhead": {"cpu": "250m"},
    }
    assert pod_requests(pod(**spec)) == {"cpu": 4250, "memory": 1024 * MEBIBYTE, "pods": 1}


def test_gpus_of_all_vendors_are_one_resource_and_limits_are_enough():
    spec = {
        "containers": [
            container(limits={"nvidia.com/gpu": "2"}),
            container(limits={"amd.com/gpu": 1}, **{"amd.com/gpu": 1}),
        ]
    }
    assert pod_requests(pod(**spec))["gpu"] == 3000
    assert pod_requests(pod(**spec), ["amd.com/gpu"]) == {
        "gpu": 1000,
        "nvidia.com/gpu": 2,
        "pods": 1,
    }


def test_other_resources_are_counted_under_their_own_name():
    asked = pod_requests(pod(containers=[container(**{"rdma/hca": "2", "hugepages-2Mi": "4Mi"})]))
    assert asked == {"rdma/hca": 2, "hugepages-2Mi": 4 * MEBIBYTE, "pods": 1}


@pytest.mark.fault("D59")
@pytest.mark.parametrize("amount", ["1e2000000", "1e400", 2**63, "16Ei"])
def test_huge_requests_saturate_even_added_up(amount):
    asked = pod_requests(pod(containers=[container(memory=amount)] * 3))
    assert asked["memory"] <= MAX_AMOUNT
    assert asked["memory"] >= 2**43


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"containers": [{}, container(cpu="x")]},
            "spec.containers[1].resources.requests.cpu",
        ),
        (
            {"initContainers": [container(limits={"memory": "-1"})]},
            "spec.initContainers[0].resources.limits.memory",
        ),
        (
            {"containers": [container(**{"nvidia.com/gpu": "500m"})]},
            "spec.containers[0].resources.requests['nvidia.com/gpu']",
        ),
        ({"overhead": {"cpu": "NaN"}}, "spec.overhead.cpu"),
    ],
)
def test_a_bad_amount_is_an_error_with_its_path(spec, path):
    with pytest.raises(ObjectError) as caught:
        pod_requests(pod(**spec))
    assert caught.value.path == path
    assert caught.value.fix


@pytest.mark.parametrize(
    ("made", "word"),
    [
        (pod({"gpu-fraction": "0.5"}), "this shard does not share GPUs"),
        (pod({"gpu-memory": "2000Mi"}), "MiB without a suffix"),
        (pod({"gpu-fraction-num-devices": "2"}), "gpu-fraction-num-devices"),
        (pod({"nvidia.com/mig-1g.5gb": "1"}), "nvidia.com/mig-1g.5gb"),
        (pod(containers=[container(limits={"nvidia.com/mig-big": 1})]), "write one such as"),
    ],
)
def test_what_is_not_offered_is_said(made, word):
    assert word in unsupported(made)


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_a_pod_that_asks_for_resources_is_supported(name):
    assert not unsupported(pod(containers=[container(**{name: 1})]))


def test_gpus_of_two_names_in_one_pod_are_refused_since_they_are_counted_as_one_amount():
    both = [container(**{"nvidia.com/gpu": 1}), container(limits={"amd.com/gpu": "1"})]
    said = "nvidia.com/gpu and amd.com/gpu: a pod may ask for GPUs of one name; "
    assert unsupported(pod(containers=both)).startswith(said)
    assert said in unsupported(pod(initContainers=both[:1], containers=both[1:]))
    assert not unsupported(pod(containers=both), ["amd.com/gpu"])


def test_none_of_another_name_is_no_request_for_it():
    none = container(limits={"amd.com/gpu": "0", "nvidia.com/gpu": 2})
    assert not unsupported(pod(containers=[none]))
    assert not unsupported(pod(containers=[container(**{"nvidia.com/gpu": 1}), container()]))


def test_mig_instances_are_counted_in_pieces_by_profile():
    made = pod(containers=[container(limits={"nvidia.com/mig-3g.20gb": "2"})])
    assert pod_requests(made) == {"nvidia.com/mig-3g.20gb": 2, "pods": 1}


@pytest.mark.parametrize(
    ("annotations", "slices"),
    [
        ({}, 0),
        ({"nvidia.com/mig-3g.20gb": "2", "nvidia.com/mig-1g.5gb": "1"}, 7),
        ({"nvidia.com/mig-2g.10gb": "many"}, 2),
    ],
)
def test_instances_taken_by_annotation_are_counted_where_they_run(annotations, slices):
    assert legacy_mig_slices(pod(annotations)) == slices


def node(**status):
    return decode_object({"metadata": {"name": "n"}, "status": status}, Node)[0]


def test_a_node_offers_what_is_allocatable_rounded_down():
    made = node(
        allocatable={"cpu": "7910m", "memory": "1025Ki", "nvidia.com/gpu": "8", "pods": "110"},
        capacity={"cpu": "8"},
    )
    assert node_allocatable(made) == {"cpu": 7910, "memory": 1025 * 16, "gpu": 8000, "pods": 110}


def test_capacity_stands_in_for_what_is_allocatable():
    assert node_allocatable(node(capacity={"cpu": 8})) == {"cpu": 8000}


@pytest.mark.fault("E87")
@pytest.mark.parametrize("amount", ["garbage", "1e400", "-1"])
def test_a_node_that_reports_nonsense_is_an_error(amount):
    with pytest.raises(ObjectError) as caught:
        node_allocatable(node(allocatable={"memory": amount}))
    assert caught.value.path.startswith("status.allocatable")
