"""Shares as claims: Kubernetes gives claims from our templates the parts that we give them."""

from tests.unit.cluster.claims.recorded_worlds import is_same, pods_of, recorded

CASES = recorded("recorded_shares.json.gz")


def test_shares_are_the_parts_that_kubernetes_gives() -> None:
    assert len(CASES) >= 100
    other = [it["id"] for it in CASES if not is_same(it, it["classes"][0]["metadata"]["name"])]
    assert other == []


def test_shares_are_of_many_sizes_and_some_have_no_room() -> None:
    pods = pods_of(CASES)
    given = [it["claims"][0]["allocation"]["devices"]["results"] for it in pods if it["node"]]
    assert len(given) >= 400
    assert sum(len(it) > 1 for it in given) >= 60
    assert len({str(one["consumedCapacity"]) for it in given for one in it}) >= 100
    assert sum(not it["node"] for it in pods) >= 100
