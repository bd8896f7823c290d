"""Open pools: those of a list in which a job could be, as the queues and shards are now."""

from kaisched.cluster.pods import Ours
from kaisched.cluster.pools.book import Listed, PoolBook
from kaisched.cluster.pools.owners import FixedOwners
from tests.unit.cluster.pools.worlds import queue_in


def test_pools_are_open_that_are_served_and_have_the_project_or_admit_all():
    owners = FixedOwners("h100", {"h100": False})
    book = PoolBook(Ours(frozenset(), "h100", ()), owners)
    projects, listed = book.projects, Listed(("a100", "h100"), "a", "ns/p")
    assert book.open_pools(listed) == []
    projects.put(queue_in("h100", "a", 8, project="t"))
    assert book.open_pools(listed) == ["h100"]
    owners.served = {"h100": False, "a100": False}
    assert book.open_pools(listed) == ["h100"]
    owners.served = {"h100": False, "a100": True}
    assert book.open_pools(listed) == ["a100", "h100"]
    owners.served = {"h100": False, "a100": False}
    projects.put(queue_in("a100", "b", 8, project="t"))
    assert book.open_pools(listed) == ["a100", "h100"]
    assert book.open_pools(Listed(listed.pools, "other", "ns/q")) == []
    owners.served = {"h100": False}
    assert book.open_pools(listed) == ["h100"], "nobody serves the other, though it has a queue"
