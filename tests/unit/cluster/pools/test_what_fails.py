"""What fails around node pools: labels that others write, and very many jobs that wait."""

import pytest

from kaisched.core.axis import TaskState
from kaisched.objects.podgroup import PodGroup
from tests.contract.clusters import make, pod
from tests.unit.cluster.pools.test_lists import gang, job_of, two
from tests.unit.cluster.pools.worlds import LIST, POOL, World, listed, node_in, queue_in


def labelled(pool, **rest):
    """A pod with the label alone, and with the queue of its project there."""
    return pod("x", {"h100": "a", "a100": "a-there"}[pool], labels={POOL: pool}, uid="x", **rest)


def counts_in(world, name):
    """Return the pools whose shards have a pod as one of a job of theirs."""
    found = set()
    for pool, port in world.ports.items():
        tasks = port.snapshot().tasks
        for row in (at for at, it in enumerate(tasks.name) if it == f"ns/{name}"):
            if tasks.job_of_task[row] >= 0 and tasks.state[row] != TaskState.GONE:
                found.add(pool)
    return found


def test_a_label_that_is_changed_by_hand_takes_a_waiting_job_along():
    world = two(first=0)
    world.load(labelled("h100"))
    world.cycle()
    assert (world.node_of("x"), counts_in(world, "x")) == ("", {"h100"})
    world.load(labelled("a100"))
    world.cycle()
    assert (world.node_of("x"), counts_in(world, "x")) == ("a0", {"a100"})


def test_a_label_that_is_changed_during_a_decision_leaves_one_owner(monkeypatch):
    """The decision rests on what was: its bind ends, and the job is in the pool of its node."""
    world = two()
    world.load(labelled("h100"))
    port = world.ports["h100"]
    as_it_was = port.snapshot
    changes = [labelled("a100")]

    def snapshot():
        found = as_it_was()
        while changes:
            world.load(changes.pop())
        return found

    monkeypatch.setattr(port, "snapshot", snapshot)
    world.cycle("h100")
    monkeypatch.undo()
    assert world.node_of("x") == "h0"
    for until_s in (1, 30):
        world.run_to(until_s)
        assert (world.node_of("x"), len(counts_in(world, "x"))) == ("h0", 1)
    done = {it.what for it in world.cluster.history}
    assert not done & {"evicted", "bind_failed"}


def test_the_label_of_another_selector_counts_at_once_and_nothing_goes_to_and_fro():
    """The job has the list of its queue; five seconds into its stay another selector moves it."""
    world = World("h100", "a100")
    for name, at, queue in (("h100", "h0", "a"), ("a100", "a0", "a-there")):
        lists = {"nodePools": ["h100", "a100"], "project": "a"}
        world.load(node_in(name, at, 1), queue_in(name, queue, 8, **lists))
        world.load(pod(f"h-{name}", queue, labels={POOL: name}, uid=name))
    world.cycle()
    world.load(pod("x", "a", uid="x"))
    world.run_to(5)
    assert counts_in(world, "x") == {"h100"}
    world.load(labelled("a100"))
    world.run_to(6)
    assert counts_in(world, "x") == {"a100"}
    world.run_to(60)
    assert (counts_in(world, "x"), world.moves) == ({"a100"}, [])


def test_pods_lose_their_list_with_the_group_that_has_it():
    """They are in the pool of their label then, and wait there for a group."""
    world = World("h100", "default")
    world.load(node_in("h100", "h0", 2), queue_in("h100", "a-h100", 2, project="a"))
    world.load(node_in("default", "n0", 2), queue_in("default", "a", 2))
    world.load(pod("block", "a-h100", 2, labels={POOL: "h100"}, uid="block"))
    world.cycle()
    gang(world, "g", 2, "h100,default")
    world.run_to(1)
    assert (counts_in(world, "g-0"), counts_in(world, "g-1")) == ({"h100"}, {"h100"})
    world.delete(world.cluster._objects["PodGroup", "ns/g"])
    world.run_to(30)
    assert (counts_in(world, "g-0"), counts_in(world, "g-1")) == ({"default"}, {"default"})
    assert not any(port.store.pools.jobs for port in world.ports.values())
    assert (world.reasons["ns/g", "default"], world.moves) == ("InvalidPodGroup", [])


POOLS = ("p0", "p1", "p2", "p3")


def crowd(jobs):
    """Full pools, and jobs that list them all."""
    world = World(*POOLS)
    for pool in POOLS:
        world.load(node_in(pool, f"n-{pool}", 0), queue_in(pool, f"a-{pool}", 8, project="a"))
        world.load(
            node_in(pool, f"m-{pool}", 1), pod(f"h-{pool}", f"a-{pool}", labels={POOL: pool})
        )
    world.cycle()
    world.load(*(listed(f"j{at:05}", ",".join(POOLS), queue_name="a-p0") for at in range(jobs)))
    return world


def test_moves_of_many_jobs_are_bounded_by_their_stays():
    """Each lap takes as many moves as there are jobs and pools, and twice as long as the last."""
    jobs = 40
    world = crowd(jobs)
    world.run_to(280, step_s=10)
    laps = [(10, 40), (60, 120), (160, 280)]
    first, second, third = (sum(a <= at <= b for at, _, _ in world.moves) for a, b in laps)
    assert (first, second, third) == (jobs * 4, jobs * 4, jobs * 4)
    assert len({job for _, job, _ in world.moves}) == jobs


@pytest.mark.proportion
def test_a_department_has_its_limit_in_each_pool():
    world = World("h100", "a100")
    limited = {"resources": {"gpu": {"quota": 2, "limit": 2}}}
    for name, at in (("h100", "h0"), ("a100", "a0")):
        world.load(
            node_in(name, at, 8),
            queue_in(name, f"dept-{name}", 2, **limited),
            queue_in(name, f"a-{name}", 8, parent=f"dept-{name}", project="a"),
        )
    world.load(*(listed(f"x{at}", "h100,a100", queue_name="a-h100") for at in range(6)))
    world.run_to(60)
    nodes = [world.node_of(f"x{at}") for at in range(6)]
    assert (nodes.count("h0"), nodes.count("a0"), nodes.count("")) == (2, 2, 2)


def bound(name, node_name):
    notes = {"pod-group-name": "g"}
    return pod(f"g-{name}", "a", annotations=notes, where=node_name, phase="Running", uid=name)


def test_pods_of_one_job_in_two_pools_stay_and_the_pool_with_more_has_the_job():
    """After M7, or while an administrator labels nodes anew one by one: nobody is evicted."""
    world = two()
    gang(world, "g", 4, "h100,a100")
    world.load(bound("0", "h0"), bound("1", "a0"), bound("2", "a0"))
    world.run_to(300, step_s=5)
    assert world.pool_of("ns/g") == "a100"
    assert [world.node_of(f"g-{at}") for at in range(4)] == ["h0", "a0", "a0", "a0"]
    assert not [it for it in world.cluster.history if it.what == "evicted"]


def test_nodes_that_are_labelled_anew_one_by_one_cost_no_running_gang_its_pods():
    world = two(first=4)
    world.load(node_in("h100", "h1", 4))
    gang(world, "g", 8, "h100,a100")
    world.cycle()
    assert {world.node_of(f"g-{at}") for at in range(8)} == {"h0", "h1"}
    for at, name in enumerate(("h0", "h1")):
        world.load(node_in("a100", name, 4))
        world.run_to(300 * (at + 1), step_s=5)
        assert world.pool_of("ns/g") == ("h100", "a100")[at]
    assert not [it for it in world.cluster.history if it.what == "evicted"]


@pytest.mark.parametrize("is_queue_first", [True, False])
def test_a_list_of_a_queue_counts_for_jobs_that_were_read_before_it(is_queue_first):
    """The default pool had the job by then, and the other one got it by its list: both decided."""
    world = World("h100", "default")
    world.load(node_in("h100", "h0"), node_in("default", "n0"))
    listing = queue_in("default", "a", 8, project="t", nodePools=["h100", "default"])
    job = pod("x", "a", uid="x")
    world.load(*((listing, job) if is_queue_first else (job, listing)))
    world.load(queue_in("h100", "b", 8, project="t"))
    assert owners_of(world, job_of(world, "x")) == ["h100"]
    world.load(queue_in("default", "a", 8, project="t"))
    assert owners_of(world, job_of(world, "x")) == ["default"]


def owners_of(world, job):
    """Return the pools whose stores have a job, once each has looked who owns it."""
    for _ in range(2):
        for port in world.ports.values():
            port.snapshot()
    return [name for name, port in world.ports.items() if port.store.members.pods_of(job)]


def test_a_group_that_gets_a_label_in_place_of_its_list_is_read_in_the_pool_of_the_label():
    """Its pods had the list when the group was read; the label of the pods is read later."""
    world = World("one", "two")
    world.load(node_in("one", "n1"), queue_in("one", "a", 8), node_in("two", "n2", 0))
    spec = {"queue": "a", "minMember": 1}
    said = {"annotations": {"pod-group-name": "g"}, "uid": "g0"}
    world.load(make(PodGroup, "g", annotations={LIST: "two"}, spec=spec), pod("g-0", **said))
    world.cycle()
    world.load(make(PodGroup, "g", labels={POOL: "one"}, spec=spec))
    world.load(pod("g-0", labels={POOL: "one"}, **said))
    world.cycle()
    assert world.node_of("g-0") == "n1"


def test_a_group_whose_pods_had_lists_is_that_of_its_pool_once_they_are_gone():
    world = World("one", "default")
    world.load(node_in("one", "n1", 0), node_in("default", "n0"), queue_in("default", "a", 8))
    world.load(make(PodGroup, "g", spec={"queue": "a", "minMember": 1}))
    world.load(listed("g-0", "one", annotations={"pod-group-name": "g"}))
    world.cycle()
    world.delete(world.cluster.pod("ns/g-0"))
    world.run_to(10)
    world.load(pod("g-1", annotations={"pod-group-name": "g"}, uid="g1"))
    world.cycle()
    assert world.node_of("g-1") == "n0"
