"""Open pools: those of a list in which a job could be, as the queues and shards are now."""

from kaisched.cluster.pools.book import Listed, OpenPools
from kaisched.cluster.pools.owners import FixedOwners
from kaisched.cluster.pools.projects import Projects
from tests.unit.cluster.pools.worlds import queue_in


def test_pools_are_open_that_are_served_and_have_the_project_or_admit_all():
    projects, owners = Projects(), FixedOwners("h100", {"h100": False})
    open_pools, listed = OpenPools(projects, owners), Listed(("a100", "h100"), "a", "ns/p")
    assert open_pools.of(listed) == []
    projects.put(queue_in("h100", "a", 8, project="t"))
    assert open_pools.of(listed) == ["h100"]
    owners.served = {"h100": False, "a100": False}
    assert open_pools.of(listed) == ["h100"]
    owners.served = {"h100": False, "a100": True}
    assert open_pools.of(listed) == ["a100", "h100"]
    owners.served = {"h100": False, "a100": False}
    projects.put(queue_in("a100", "b", 8, project="t"))
    assert open_pools.of(listed) == ["a100", "h100"]
    assert open_pools.of(Listed(listed.pools, "other", "ns/q")) == []
    owners.served = {"h100": False}
    assert open_pools.of(listed) == ["h100"], "nobody serves the other, though it has a queue"
