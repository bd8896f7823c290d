"""Nodes with a device plugin beside nodes with devices: who needs a claim, as Kubernetes says.

``both-`` are pods that ask for the resource, and some with a claim of their own; ``apart-`` are
these beside pods that ask for the class by its own name, or for another resource that a class
backs, and devices with taints.
"""

import pytest

from tests.unit.cluster.claims.recorded_worlds import (
    is_same,
    is_same_at_once,
    recorded,
    without_deletions,
)

CASES = recorded("recorded_both_kinds.json.gz")
COUNTED_ONCE = {"apart-43"}
"""A claim on four devices of a node whose plugin offers two GPUs: here the plugin says how many
GPUs such a node has, and claims have no more (rule V16). Kubernetes would give both ways all."""


@pytest.mark.parametrize("group", ["both", "apart"])
def test_pods_need_claims_where_kubernetes_makes_them_and_get_the_same(group: str) -> None:
    cases = [it for it in CASES if it["id"].startswith(f"{group}-")]
    assert len(cases) >= 60
    other = {it["id"] for it in cases if not is_same(it)}
    assert other == {it for it in COUNTED_ONCE if it.startswith(f"{group}-")}


def test_in_one_cycle_they_get_the_same() -> None:
    cases = without_deletions(CASES)
    assert len(cases) >= 100
    assert {it["id"] for it in cases if not is_same_at_once(it)} <= COUNTED_ONCE
