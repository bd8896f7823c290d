"""Entries of node pools in the status of a pod group."""

import pytest

from kaisched.cluster.kubernetes.status_writer import PoolWord, due_entries, why_waiting

OURS = PoolWord("a", why_waiting("a", "NoRoom", "no room"), frozenset("a"))


@pytest.mark.parametrize(
    ("number", "ours"),
    [("7", "8"), ("", "1"), ("x", "1"), ("-3", "1"), ("٣", "1"), ("9" * 5000, "1"), (None, "1")],
)
def test_an_entry_without_a_number_that_makes_sense_is_the_oldest(number, ours):
    theirs = {"nodePool": "b", "transitionID": number}
    found = due_entries([theirs], OURS, "now")
    assert found[0] == theirs
    assert found[1]["transitionID"] == ours
    assert due_entries(found, OURS, "later") is None


def explained(reason, **numbers):
    (found,) = why_waiting("a", reason, "because", numbers)["reasons"]
    return found


@pytest.mark.parametrize(
    ("ours", "kais"),
    [
        ("NoRoom", "NoRoom"),
        ("QueueDoesNotExist", "QueueDoesNotExist"),
        ("QueueOrphan", "QueueDoesNotExist"),
        ("EvictionDelay", "PreemptionDelayNotElapsed"),
        ("OverLimit", "OverLimit"),  # of a plugin that says no numbers
    ],
)
def test_a_reason_has_the_name_that_clients_of_kai_read(ours, kais):
    assert explained(ours) == {"reason": kais, "message": "because"}


def test_details_name_the_queue_and_the_amounts_that_are_over():
    over = {"queue": "q", "resource": "gpu", "held": 500, "asked": 2000}
    details = explained("OverLimit", **over, limit=2000)["details"]
    assert details["queueDetails"] == {
        "name": "q",
        "queueAllocatedResources": {"nvidia.com/gpu": "500m"},
        "podGroupRequestedResources": {"nvidia.com/gpu": "2"},
        "queueResourceLimits": {"nvidia.com/gpu": "2"},
    }
    details = explained("NonPreemptibleOverQuota", **over, quota=0)["details"]
    assert details["queueDetails"] == {
        "name": "q",
        "queueAllocatedNonPreemptibleResources": {"nvidia.com/gpu": "500m"},
        "podGroupRequestedNonPreemptibleResources": {"nvidia.com/gpu": "2"},
        "queueDeservedResources": {"nvidia.com/gpu": "0"},
    }
