"""Shares as claims: Kubernetes gives claims from our templates the parts that we give them.

``shares-`` are of many sizes, ``equal-`` of one size each, so that they are counted together.
"""

from typing import Any

from tests.unit.cluster.claims.recorded_worlds import (
    is_same,
    is_same_at_once,
    recorded,
    without_deletions,
)

CASES = recorded("recorded_shares.json.gz")


def class_of(case: dict[str, Any]) -> str:
    name: str = case["classes"][0]["metadata"]["name"]
    return name


def test_shares_are_the_parts_that_kubernetes_gives() -> None:
    assert len(CASES) >= 180
    other = [it["id"] for it in CASES if not is_same(it, class_of(it))]
    assert other == []


def test_in_one_cycle_they_are_the_same() -> None:
    cases = without_deletions(CASES)
    assert len(cases) >= 110
    assert [it["id"] for it in cases if not is_same_at_once(it, class_of(it))] == []
