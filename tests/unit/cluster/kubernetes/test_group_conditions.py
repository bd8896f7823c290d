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
