"""Jobs in a pool that name a queue of another pool: that of their project counts."""

import pytest

from kaisched.cluster.state import Kept, restored
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.shard import GPU_RESOURCES
from tests.contract.clusters import make, pod
from tests.oracles.accounts import content
from tests.unit.cluster.pools.test_lists import gang
from tests.unit.cluster.pools.worlds import POOL, World, listed, node_in, queue_in

H100 = {POOL: "h100"}


def two(*queues, pools=("h100", "a100"), **options):
    world = World(*pools, **options)
    for name in pools:
        world.load(node_in(name, f"n-{name}", 8))
    world.load(*queues)
    return world


def told(world, name, pool="h100"):
    key = f"ns/pg-{name}-{name}", pool
    return world.reasons.get(key), world.messages.get(key)


def test_a_label_of_a_pool_finds_the_queue_of_the_project_there():
    world = two(queue_in("a100", "a", 8, project="t"), queue_in("h100", "b", 8, project="t"))
    world.load(pod("x", "a", labels=H100, uid="x"))
    world.cycle()
    assert world.node_of("x") == "n-h100"
    queues = world.ports["h100"].snapshot().queues
    row = queues.row_of_name["b"]
    assert world.ports["h100"].snapshot().allocated[2, row] == 1000


@pytest.mark.parametrize("named", ["t-a100", "t-h100", "t"])
def test_queues_without_the_label_are_of_one_project_by_their_names(named):
    world = two(queue_in("a100", "t-a100", 8), queue_in("h100", "t-h100", 8))
    world.load(pod("x", named, labels=H100, uid="x"))
    world.cycle()
    assert world.node_of("x") == "n-h100"


def test_a_job_whose_project_has_no_queue_in_its_pool_hears_what_is_missing():
    world = two(queue_in("a100", "a", 8, project="t"), queue_in("h100", "other", 8))
    world.load(queue_in("a100", "c", 8, project="t"))
    world.load(pod("x", "a", labels=H100, uid="x"), listed("y", "h100", 1, "c"))
    world.cycle()
    text = (
        "queue {} is in node pool a100; project t has no queue in node pool h100, which would have"
        " the labels kai.scheduler/node-pool: h100 and kaisched.io/project: t"
    )
    assert told(world, "x") == ("QueueDoesNotExist", text.format("a"))
    assert told(world, "y") == ("QueueDoesNotExist", text.format("c"))
    world.load(queue_in("h100", "b", 8, project="t"))
    world.cycle()
    assert (world.node_of("x"), world.node_of("y")) == ("n-h100", "n-h100")


def test_a_queue_that_comes_counts_for_a_gang_with_a_list_that_waits():
    world = two(queue_in("a100", "a", 8, project="t"))
    gang(world, "g", 2, "h100")
    world.cycle()
    assert world.reasons["ns/g", "h100"] == "QueueDoesNotExist"
    world.load(queue_in("h100", "b", 8, project="t"))
    world.cycle()
    assert [world.node_of(f"g-{at}") for at in range(2)] == ["n-h100"] * 2


def test_a_queue_that_comes_or_goes_counts_for_jobs_that_are_there():
    world = two(pod("x", "a", 1, labels=H100, uid="x", spec={"schedulingGates": [{"name": "g"}]}))
    world.cycle()
    store = world.ports["h100"].store

    def queue_of():
        return store.rows.jobs.queue_name[store.rows.row_of_job("ns/pg-x-x")]

    assert queue_of() == "a"
    world.load(queue_in("h100", "b", 8, project="t"))
    world.cycle()
    assert queue_of() == "a"
    world.load(queue_in("a100", "a", 8, project="t"))
    world.cycle()
    assert queue_of() == "b"
    world.delete(world.cluster._objects["Queue", "b"])
    world.cycle()
    assert queue_of() == "a"
    world.load(queue_in("h100", "a", 8))  # the queue itself moves into the pool
    world.cycle()
    assert queue_of() == "a"


def test_a_queue_that_nobody_has_made_is_told_as_such():
    world = two(queue_in("h100", "team", 8))
    world.load(pod("x", "taem", labels=H100, uid="x"))
    world.cycle()
    assert told(world, "x") == (
        "QueueDoesNotExist",
        'queue taem does not exist; did you mean "team"?',
    )


def test_where_one_pool_is_served_names_mean_what_they_say():
    """No other pool, no guess: a job that names ``q`` does not get ``q-default``."""
    world = two(queue_in("default", "q-default", 8), pools=("default",))
    world.load(pod("x", "q", uid="x"))
    world.cycle()
    assert told(world, "x", "default")[0] == "QueueDoesNotExist"
    world.load(queue_in("a100", "q", 8))  # of a pool that another process serves
    world.cycle()
    assert world.node_of("x") == "n-default"


def test_a_pool_that_admits_all_projects_makes_up_the_queue_for_a_label_too():
    world = two(queue_in("a100", "t-a100", 8), admits=("h100",))
    world.load(pod("x", "t-a100", labels=H100, uid="x"), pod("y", "typo", labels=H100, uid="y"))
    world.cycle()
    assert world.node_of("x") == "n-h100"
    assert list(world.ports["h100"].snapshot().queues.name) == ["t-h100"]
    reason, message = told(world, "y")
    assert reason == "QueueDoesNotExist"
    assert message.startswith("queue typo does not exist")


def test_jobs_that_are_gone_are_forgotten():
    world = two(queue_in("a100", "a", 8))
    world.load(pod("x", "a", labels=H100, uid="x"), listed("z", "h100", 1, "a"))
    world.cycle()
    named_queues = world.ports["h100"].store.pools.named_queues
    assert set(named_queues._lacking) == {"ns/pg-z-z"}
    for name in "xz":
        world.delete(world.cluster.pod(f"ns/{name}"))
    world.load(pod("y", "a", labels=H100, uid="y"))
    world.run_to(10)
    assert set(named_queues._queue_of) == {"ns/pg-y-y"}
    assert not named_queues._lacking


def test_a_store_made_again_counts_in_the_same_queues():
    world = two(queue_in("a100", "a", 8, project="t"), queue_in("h100", "b", 8, project="t"))
    world.load(pod("x", "a", labels=H100, uid="x"), pod("y", "c", labels=H100, uid="y"))
    world.load(make_gang(), pod("g-0", "a", labels=H100, annotations={"pod-group-name": "g"}))
    world.cycle()
    for name, port in world.ports.items():
        objects = [*world.cluster._objects.values(), *world.cluster.pods()]
        kept = Kept()
        for obj in objects:
            kept.put(obj)
        again = restored(objects, kept.state_of(port.store), ["kaisched"], name, GPU_RESOURCES)
        assert content(again.snapshot()) == content(port.store.snapshot())


def make_gang():
    return make(PodGroup, "g", labels=H100, spec={"queue": "a", "minMember": 1})
