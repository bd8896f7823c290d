"""Quotas, limits and weights in base units."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.errors import ObjectError
from kaisched.objects.decode import faults_of
from kaisched.objects.queue import (
    BorrowWithinCohort,
    Queue,
    QueueFairSharing,
    QueuePreemption,
    QueueResource,
    QueueSpec,
    ResourceShare,
    queue_faults,
    queue_shares,
    sharing_weight,
)
from kaisched.objects.wire import ObjectMeta
from kaisched.units import MEGABYTE, UNLIMITED


def queue(**resources):
    return Queue(metadata=ObjectMeta(name="q"), spec=QueueSpec(resources=resources))


def test_what_is_left_out_is_no_quota_no_limit_and_weight_one():
    assert queue_shares(queue()) == dict.fromkeys(
        ("gpu", "cpu", "memory"), ResourceShare(0, UNLIMITED, 1.0)
    )


def test_units_are_gpus_millicores_megabytes_and_pieces():
    shares = queue_shares(
        queue(
            gpu=QueueResource(quota=2.5, limit=8),
            cpu=QueueResource(quota=1500),
            memory=QueueResource(quota=1000),
            **{"rdma/hca": QueueResource(quota=4, limit=-1)},
        )
    )
    assert shares["gpu"] == (2500, 8000, 1.0)
    assert shares["cpu"].quota == 1500
    assert shares["memory"].quota == 1000 * MEGABYTE
    assert shares["rdma/hca"] == (4, UNLIMITED, 1.0)


def test_minus_one_is_unlimited_for_both():
    assert queue_shares(queue(gpu=QueueResource(quota=-1, limit=-1.0)))["gpu"][:2] == (
        UNLIMITED,
        UNLIMITED,
    )


@pytest.mark.parametrize(
    ("written", "weight"),
    [("None", 0.0), ("Low", 1.0), ("Medium", 2.0), ("High", 3.0), (0.5, 0.5), (0, 0.0)],
)
def test_weights_have_names(written, weight):
    shares = queue_shares(queue(gpu=QueueResource(over_quota_weight=written)))
    assert shares["gpu"].weight == weight


@pytest.mark.parametrize(
    ("written", "weight"),
    [("None", 0), ("Low", 1), ("Medium", 2), ("High", 3), ("0.5", Fraction(1, 2)), (2, 2)],
)
def test_weights_among_siblings_have_the_same_names(written, weight):
    named = Queue(
        metadata=ObjectMeta(name="q"),
        spec=QueueSpec(fair_sharing=QueueFairSharing(weight=written)),
    )
    assert list(queue_faults(named)) == []
    assert sharing_weight(named) == weight


def test_a_name_that_is_no_weight_is_refused_with_those_there_are():
    named = Queue(
        metadata=ObjectMeta(name="q"),
        spec=QueueSpec(fair_sharing=QueueFairSharing(weight="medium")),
    )
    (fault,) = queue_faults(named)
    assert "None, Low, Medium, High" in fault.fix


def test_a_bad_share_is_an_error_with_its_path():
    with pytest.raises(ObjectError) as caught:
        queue_shares(queue(cpu=QueueResource(limit=-7)))
    assert caught.value.path == "spec.resources.cpu.limit"


@pytest.mark.fault("E81")
def test_a_limit_below_the_quota_is_only_a_warning():
    odd = queue(gpu=QueueResource(quota=-1, limit=4))
    assert queue_shares(odd)["gpu"] == (UNLIMITED, 4000, 1.0)
    (warning,) = faults_of(odd)
    assert "below the quota of unlimited" in warning.message
    assert warning.is_warning


@pytest.mark.parametrize(
    ("said", "paths"),
    [
        ({"quota": 3}, ["quota"]),
        ({"quota": 3, "limit": 3}, ["quota", "limit"]),
        ({"limit": 0}, ["limit"]),
        ({"quota": -1}, []),
    ],
)
def test_what_a_queue_says_of_pods_is_told_to_have_no_effect(said, paths):
    told = list(faults_of(queue(pods=QueueResource(**said))))
    assert [it.path for it in told] == [("spec", "resources", "pods", path) for path in paths]
    assert all(it.is_warning for it in told)


def test_fair_sharing_is_switched_at_a_top_level_queue_only():
    off = QueueFairSharing(enabled=False)
    top, below = (
        Queue(metadata=ObjectMeta(name="a"), spec=QueueSpec(parent_queue=above, fair_sharing=off))
        for above in ("", "top")
    )
    assert not list(faults_of(top))
    (warning,) = faults_of(below)
    assert warning.path == ("spec", "fairSharing", "enabled")
    assert warning.is_warning
    assert "no effect below a top-level queue" in warning.message


def test_a_threshold_that_no_priority_has_is_a_fault():
    far = BorrowWithinCohort(policy="LowerPriority", max_priority_threshold=2**31)
    spec = QueueSpec(preemption=QueuePreemption(borrow_within_cohort=far))
    (fault,) = queue_faults(Queue(metadata=ObjectMeta(name="a"), spec=spec))
    assert fault.path == ("spec", "preemption", "borrowWithinCohort", "maxPriorityThreshold")


@given(
    quota=st.floats() | st.integers(),
    limit=st.floats() | st.integers(),
    weight=st.floats() | st.integers() | st.text(),
    name=st.sampled_from(["gpu", "cpu", "memory", "rdma/hca"]),
)
def test_any_numbers_are_either_faults_or_shares(quota, limit, weight, name):
    made = queue(**{name: QueueResource(quota=quota, limit=limit, over_quota_weight=weight)})
    if any(not fault.is_warning for fault in queue_faults(made)):
        with pytest.raises(ObjectError):
            queue_shares(made)
    else:
        share = queue_shares(made)[name]
        assert 0 <= share.quota <= UNLIMITED
        assert 0 <= share.limit <= UNLIMITED
        assert share.weight >= 0
