"""Jobs with lists of node pools, and the shards of one process that own them one after another."""

import itertools

import pytest

from kaisched.cluster.state import Kept, restored
from kaisched.objects.labels import format_time
from kaisched.objects.node import Topology, TopologyLevel, TopologySpec
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.workloads import Job
from tests.contract.clusters import make, node, pod, queue
from tests.oracles.accounts import content
from tests.unit.cluster.pools.worlds import LIST, POOL, World, listed, node_in, queue_in


def two(first=8, second=8, **options):
    world = World("h100", "a100", **options)
    world.load(
        node_in("h100", "h0", first),
        node_in("a100", "a0", second),
        queue_in("h100", "a", 8, project="team"),
        queue_in("a100", "a-there", 8, project="team"),
    )
    return world


def job_of(world, name):
    """The job of a pod without a group."""
    return f"ns/pg-{name}-{name}"


def test_a_job_starts_in_the_first_pool_of_its_list():
    world = two()
    world.load(listed("x", "h100, a100"), listed("y", "a100,h100"))
    world.cycle()
    assert (world.node_of("x"), world.node_of("y")) == ("h0", "a0")


def test_a_job_goes_on_to_the_next_pool_when_the_first_has_no_room():
    world = two(first=2)
    world.load(listed("big", "h100,a100", 2), listed("x", "h100,a100", 2))
    world.cycle()
    world.run_to(9)
    assert world.node_of("x") == ""
    world.run_to(11)
    assert (world.node_of("big"), world.node_of("x")) == ("h0", "a0")
    assert world.moves == [(10.0, job_of(world, "x"), "a100")]


def test_its_queue_is_that_of_its_project_in_each_pool():
    world = two(first=0)
    world.load(listed("x", "h100,a100"))
    world.run_to(1)
    store = world.ports["a100"].store
    row = store.rows.row_of_job(job_of(world, "x"))
    assert store.rows.jobs.queue_name[row] == "a-there"
    assert store.rows.jobs.queue_of_job.data[row] == store.rows.row_of_queue("a-there")


def test_what_can_never_start_in_a_pool_does_not_wait_there():
    world = two(first=1)
    world.load(listed("x", "h100,a100", 4))
    world.cycle()
    assert world.moves == [(0.0, job_of(world, "x"), "a100")]
    assert world.reasons[job_of(world, "x"), "h100"] == "ExceedsAnyNode"


def test_a_gang_that_is_larger_than_every_rack_does_not_wait_for_one():
    """L13: no end of other work would do; a full rack is worth waiting for."""
    world = World("h100", "a100")
    level = TopologyLevel(node_label="rack")
    world.load(make(Topology, "dc", spec=TopologySpec(levels=(level,))))
    for pool, racks in (("h100", "AB"), ("a100", "CC")):
        world.load(queue_in(pool, "a" if pool == "h100" else "a-there", 8, project="team"))
        for at, rack in enumerate(racks):
            labels = {POOL: pool, "rack": rack}
            world.load(node(f"{pool}-{at}", 2, labels=labels))
    for name, size in (("large", 4), ("first", 2), ("second", 2), ("waits", 2)):
        within = {"topology": "dc", "requiredTopologyLevel": "rack"}
        gang(world, name, size, "h100,a100", topologyConstraint=within)
    world.cycle()
    assert [move[:2] for move in world.moves] == [(0.0, "ns/large")]
    assert world.reasons["ns/large", "h100"] == "NoDomainIsLargeEnough"
    assert {world.node_of(f"large-{at}") for at in range(4)} == {"a100-0", "a100-1"}


def test_what_a_pool_does_not_offer_may_be_had_in_the_next():
    world = two(without_shares=("a100",))
    half = {"gpu-fraction": "0.5"}
    world.load(listed("x", "a100,h100", annotations=half, spec={"containers": [{}]}))
    world.run_to(1)
    assert world.reasons[job_of(world, "x"), "a100"] == "Unsupported"
    assert world.node_of("x") == "h0"


def test_a_list_of_one_and_a_label_stay_where_they_are():
    world = two(first=1)
    world.load(listed("x", "h100", 4), pod("y", "a", 4, labels={POOL: "h100"}, uid="y"))
    world.run_to(30)
    assert world.moves == []
    assert (world.node_of("x"), world.node_of("y")) == ("", "")


def test_the_list_of_the_queue_counts_or_of_a_queue_above():
    world = World("h100", "default")
    world.load(
        node_in("h100", "h0"),
        node_in("default", "n0"),
        queue_in("default", "dept", 8, nodePools=["h100", "default"]),
        queue_in("default", "a", 8, parent="dept"),
        queue_in("h100", "a-h100", 8),
        queue_in("default", "own", 8, nodePools=["default"]),
        pod("x", "a", uid="x"),
        pod("y", "own", uid="y"),
        pod("z", "a-h100", labels={POOL: "h100"}, uid="z"),
    )
    world.cycle()
    assert [world.node_of(it) for it in "xyz"] == ["h0", "n0", "h0"]


def test_a_list_that_comes_with_the_queue_later_counts_too():
    world = World("h100", "default")
    world.load(node_in("h100", "h0"), node_in("default", "n0", 0), pod("x", "a", uid="x"))
    world.cycle()
    world.load(queue_in("default", "a", 8, nodePools=["h100"]), queue_in("h100", "a-h100", 8))
    world.cycle()
    assert world.node_of("x") == "h0"


def gang(world, name, size, pools, minimum=0, **rest):
    spec = {"queue": "a", "minMember": minimum or size, **rest}
    world.load(make(PodGroup, name, annotations={LIST: pools}, spec=spec))
    for number in range(size):
        world.load(pod(f"{name}-{number}", "a", annotations={"pod-group-name": name}))


def search(world, size, pools, **rest):
    """A Job whose pods are trials, each independent of the others."""
    notes = {"kaisched.io/independent-pods": "true"}
    world.load(make(Job, "hpo", uid="hpo", annotations=notes, spec={"parallelism": size}))
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "hpo", "uid": "hpo"}
    for number in range(size):
        metadata = {"ownerReferences": [{**reference, "controller": True}]}
        world.load(listed(f"t-{number}", pools, metadata=metadata, uid=f"t{number}", **rest))


def test_a_gang_is_in_one_pool_and_independent_pods_are_in_several():
    """Worked example X19."""
    world = two(first=5, second=6)
    gang(world, "g", 8, "h100,a100")
    world.run_to(60)
    assert [world.node_of(f"g-{number}") for number in range(8)] == [""] * 8
    for number in range(8):
        world.delete(world.cluster.pod(f"ns/g-{number}"))
    search(world, 8, "h100,a100")
    world.run_to(80)
    nodes = [world.node_of(f"t-{number}") for number in range(8)]
    assert (nodes.count("h0"), nodes.count("a0")) == (5, 3)


def test_a_gang_whose_group_is_seen_first_or_last_is_in_one_pool():
    for is_first in (True, False):
        world = two(first=2, second=8)
        pods = [pod(f"g-{at}", "a", annotations={"pod-group-name": "g"}) for at in range(4)]
        if not is_first:
            world.load(*pods)
            world.cycle()
        gang(world, "g", 4, "h100,a100")
        world.load(*pods)
        world.run_to(3)
        assert {world.node_of(it.name) for it in pods} == {"a0"}


ALONE = {"kaisched.io/independent-pods": "true"}


@pytest.mark.parametrize("is_first", [True, False])
def test_pods_of_a_pod_group_are_independent_if_it_says_so(is_first):
    """What the group says of queue and preemptibility holds for each of them."""
    world = two(first=5, second=6)
    own = {"pod-group-name": "g", "kai.scheduler/skip-podgrouper": "true"}
    pods = [pod(f"g-{number}", "none", annotations=own) for number in range(8)]
    spec = {"queue": "a", "minMember": 8, "preemptibility": "non-preemptible"}
    group = make(PodGroup, "g", annotations={**ALONE, LIST: "h100,a100"}, spec=spec)
    world.load(*((group, *pods) if is_first else (*pods, group)))
    world.run_to(80)
    nodes = [world.node_of(it.name) for it in pods]
    assert (nodes.count("h0"), nodes.count("a0")) == (5, 3)
    jobs = world.ports["a100"].store.snapshot().jobs
    there = jobs.active.nonzero()[0].tolist()
    assert {jobs.queue_name[row] for row in there} == {"a-there"}
    assert not jobs.is_preemptible[there].any()


def test_pods_of_a_pod_group_are_a_gang_again_once_it_says_so_no_more():
    world = two(first=5, second=6)
    label = {"labels": {POOL: "h100"}}
    world.load(
        *(
            pod(f"g-{at}", "a", annotations={"pod-group-name": "g"}, metadata=label)
            for at in range(4)
        )
    )
    store = world.ports["h100"].store
    for annotations, jobs in (({}, 1), (ALONE, 4), ({}, 1)):
        spec = {"queue": "a", "minMember": 4}
        world.load(make(PodGroup, "g", annotations=annotations, metadata=label, spec=spec))
        assert len({member.job for _, member in store.pods.values()}) == jobs


def test_times_double_with_each_lap_and_a_change_makes_a_pool_due():
    """Worked example X20."""
    world = two(first=1, second=1)
    holder = listed("b", "a100", 1)
    world.load(listed("h", "h100", 1), holder, listed("x", "h100,a100", 1))
    world.run_to(70)
    assert [(at, to) for at, _, to in world.moves] == [
        (10, "a100"),
        (20, "h100"),
        (40, "a100"),
        (60, "h100"),
    ]
    world.delete(world.cluster.pod("ns/b"))
    world.run_to(77)  # the pod that was deleted at 70 has gone at 75
    assert [(at, to) for at, _, to in world.moves[4:]] == [(75, "a100")]
    assert world.node_of("x") == "a0"


def test_stays_double_in_each_pool_lap_by_lap():
    """Worked example X20, without a change."""
    world = two(first=1, second=1)
    world.load(listed("h", "h100", 1), listed("b", "a100", 1), listed("x", "h100,a100", 1))
    world.run_to(140)
    assert [(at, to) for at, _, to in world.moves] == [
        (10, "a100"),
        (20, "h100"),
        (40, "a100"),
        (60, "h100"),
        (100, "a100"),
        (140, "h100"),
    ]


def test_no_stay_is_longer_than_five_minutes():
    world = two(first=1, second=1)
    world.load(listed("h", "h100", 1), listed("b", "a100", 1), listed("x", "h100,a100", 1))
    world.run_to(2000, step_s=10)
    times = [at for at, _, _ in world.moves]
    assert max(b - a for a, b in itertools.pairwise(times)) == 300


@pytest.mark.proportion
def test_non_preemptible_work_skips_pools_without_quota_for_it():
    """Worked example X17: the pool of an over-quota project is no place for it."""
    world = World("h100", "a100", "default", admits=("default",))
    world.load(
        node_in("h100", "h0"),
        node_in("a100", "a0", 4),
        node_in("default", "n0"),
        queue_in("h100", "t-h100", 2, project="t"),
        queue_in("a100", "t", 4, project="t"),
    )
    fixed = {"kai.scheduler/preemptibility": "non-preemptible"}
    world.load(listed("x", "h100,a100,default", 4, "t", labels=fixed))
    world.cycle()
    world.cycle()
    assert world.node_of("x") == "a0"
    world.load(listed("y", "h100,a100,default", 4, "t", labels=fixed))
    world.run_to(15)
    assert world.node_of("y") == ""
    assert world.reasons[job_of(world, "y"), "h100"] == "NonPreemptibleOverQuota"
    assert world.reasons[job_of(world, "y"), "default"] == "NonPreemptibleOverQuota"
    world.load(listed("z", "h100,a100,default", 4, "t"))
    world.run_to(16)
    assert world.node_of("z") == "h0"


def test_a_project_without_a_queue_takes_part_with_no_quota_where_that_is_wanted():
    world = World("h100", "spare", admits=("spare",))
    world.load(
        node_in("h100", "h0", 1),
        node_in("spare", "s0"),
        queue_in("h100", "dept", 1),
        queue_in("h100", "team", 1, parent="dept"),
        listed("x", "h100,spare", 1, "team"),
        listed("y", "h100,spare", 1, "team"),
    )
    world.run_to(12)
    assert {world.node_of("x"), world.node_of("y")} == {"h0", "s0"}
    queues = world.ports["spare"].snapshot().queues
    assert list(queues.name) == ["dept-spare", "team-spare"]
    assert queues.deserved[2].tolist() == [0, 0]
    assert queues.weight[2].tolist() == [2.0, 2.0]
    assert queues.labels[1] == {"kaisched.io/made-up": "true"}


def test_a_project_without_a_queue_is_out_of_other_pools():
    world = World("h100", "spare")
    world.load(node_in("h100", "h0", 0), node_in("spare", "s0"), queue_in("h100", "team", 1))
    world.load(listed("x", "h100,spare", 1, "team"))
    world.run_to(30)
    assert world.moves == []


def test_idle_pools_are_tried_before_work_is_evicted():
    """P18: with ``idleFirst`` nobody goes while another pool is idle."""
    for order, evicted in (("strict", 1), ("idleFirst", 0)):
        world = two(first=2, second=2, order=order)
        world.load(queue_in("h100", "other", 0))
        world.load(listed("v", "h100", 2, "other"))
        world.cycle()
        world.load(listed("x", "h100,a100", 2))
        world.run_to(12)
        gone = [it for it in world.cluster.history if it.what == "evicted"]
        assert len(gone) == evicted, order
    assert world.node_of("x") == "a0"


@pytest.mark.parametrize(
    ("patience_s", "evicted", "node"), [(0, 0, "a0"), (14, 0, "a0"), (15, 1, "h0")]
)
def test_a_job_waits_for_its_delay_before_it_goes_on_if_the_pool_has_patience(
    patience_s, evicted, node
):
    """P16: it may evict in its first pool 25 s after it came; it would go on after 10."""
    world = two(first=2, second=2, patience_s=patience_s)
    world.load(queue_in("h100", "other", 0))
    world.load(listed("v", "h100", 2, "other"))
    world.cycle()
    delay, now = {"kai.scheduler/preemption-delay": "25s"}, {"creationTimestamp": format_time(0)}
    world.load(listed("x", "h100,a100", 2, annotations=delay, metadata=now))
    world.run_to(40)
    assert sum(it.what == "evicted" for it in world.cluster.history) == evicted
    assert world.node_of("x") == node


def test_room_that_comes_free_here_does_not_send_a_job_away_earlier():
    """L12: changes in its own pool do not end a stay; those of others do."""
    world = two(first=1, second=1)
    world.load(listed("h", "h100", 1), listed("b", "a100", 1), listed("x", "h100,a100", 1))
    world.run_to(25)  # x is here for the second time since 20
    world.load(node_in("h100", "h1", 0))
    world.run_to(39)
    assert [at for at, _, _ in world.moves] == [10, 20]
    world.run_to(40)
    assert [at for at, _, _ in world.moves] == [10, 20, 40]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h100,h100", "'h100' is listed twice"),
        ("h100,,a100", "names an empty node pool"),
        ("h 100", "is no name of a node pool"),
    ],
)
def test_a_wrong_list_is_told(text, said):
    world = World("h100", "default")
    world.load(node_in("default", "n0"), queue_in("default", "a"), listed("x", text))
    world.cycle()
    assert world.reasons[job_of(world, "x"), "default"] == "InvalidPodGroup"
    store = world.ports["default"].store
    assert said in store.members.fault_of(job_of(world, "x"))


def test_a_wrong_list_is_told_where_nobody_serves_the_pool_of_the_label():
    world = two()
    world.load(listed("x", "h100,h100"), listed("y", "a100", 1))
    world.cycle()
    assert world.reasons[job_of(world, "x"), "a100"] == "InvalidPodGroup"
    assert "listed twice" in world.ports["a100"].store.members.fault_of(job_of(world, "x"))
    assert world.ports["h100"].store.members.fault_of(job_of(world, "x")) == ""
    assert world.node_of("y") == "a0"


def test_a_wrong_list_that_is_mended_is_no_fault_any_more():
    world = two()
    world.load(listed("x", "h100,h100"))
    world.cycle()
    world.load(listed("x", "h100"))
    world.cycle()
    assert world.node_of("x") == "h0"


def test_a_list_of_pools_that_nobody_serves_is_told_by_the_default_shard():
    world = World("h100", "default")
    world.load(node_in("default", "n0"), queue_in("default", "a"), listed("x", "b200,gone"))
    world.cycle()
    fault = world.ports["default"].store.members.fault_of(job_of(world, "x"))
    assert fault == (
        "no shard serves a node pool of its list (b200, gone); there are: default, h100"
    )


def test_a_pool_of_the_list_that_nobody_serves_is_passed_over():
    world = World("h100", "default")
    world.load(node_in("default", "n0"), queue_in("default", "a"), listed("x", "gone,default"))
    world.cycle()
    assert world.node_of("x") == "n0"


def test_bound_pods_win_over_the_order_of_the_list():
    """After a restart: the pool of the bound pods owns the job (P13)."""
    world = two()
    gang(world, "g", 2, "h100,a100")
    world.load(pod("g-1", "a", annotations={"pod-group-name": "g"}, where="a0", phase="Running"))
    world.cycle()
    assert world.pool_of("ns/g") == "a100"
    assert world.node_of("g-0") == "a0"


def test_owners_of_jobs_that_are_gone_are_forgotten():
    world = two()
    world.load(listed("x", "h100,a100"))
    world.cycle()
    assert world.pool_of(job_of(world, "x")) == "h100"
    world.delete(world.cluster.pod("ns/x"))
    world.run_to(10)
    assert world.owners.owner(job_of(world, "x")) is None
    assert not any(port.store.pools.jobs for port in world.ports.values())


def test_nodes_of_another_pool_take_their_jobs_with_them():
    world = two()
    world.load(listed("x", "h100,a100"))
    world.cycle()
    assert world.pool_of(job_of(world, "x")) == "h100"
    world.load(node_in("a100", "h0"))
    world.cycle()
    assert world.pool_of(job_of(world, "x")) == "a100"
    assert world.node_of("x") == "h0"


def test_a_started_job_is_never_moved():
    world = two(first=1)
    world.load(listed("x", "a100,h100", 1))
    world.cycle()
    world.load(node_in("h100", "h1"), queue_in("h100", "a", 16, project="team"))
    world.run_to(40)
    assert (world.node_of("x"), world.moves) == ("a0", [])


def test_a_store_made_again_owns_what_it_owned():
    world = two(first=1, order="idleFirst")
    world.load(listed("h", "h100", 1), listed("x", "h100,a100", 1, spec={"schedulingGates": []}))
    world.load(listed("y", "a100,h100", 8), listed("z", "a100,h100", 8))
    world.run_to(12)
    for name, port in world.ports.items():
        kept = Kept()
        for obj in (*world.cluster._objects.values(), *world.cluster.pods()):
            kept.put(obj)
        state = kept.state_of(port.store)
        objects = [*world.cluster._objects.values(), *world.cluster.pods()]
        value = "" if name == "default" else name
        again = restored(objects, state, ["kaisched"], value, GPU_RESOURCES)
        assert content(again.snapshot()) == content(port.store.snapshot())
        assert state.pools.served == {"h100": False, "a100": False}


def held(world):
    """GPUs that each queue holds, by pool."""
    found = {}
    for pool, port in world.ports.items():
        s = port.store.snapshot()
        for at, name in enumerate(s.queues.name):
            if gpus := int(s.allocated[2, at]) // 1000:
                found.setdefault(pool, {})[name] = gpus
    return found


def unlisted(world, *places):
    """A job without list or label; its pods are on nodes, or wait."""
    note = {"pod-group-name": "g"}
    for at, where in enumerate(places):
        phase = "Running" if where else "Pending"
        world.load(pod(f"g-{at}", "a-there", annotations=note, where=where, phase=phase))


def beside(*before):
    """The pools a100 and default, with a node and a queue each."""
    world = World("a100", "default")
    unlisted(world, *before)
    world.load(
        node_in("a100", "a0", 8),
        queue_in("a100", "a-there", 8, project="t"),
        node("d0", 8),
        queue("t-default", labels={"kaisched.io/project": "t"}),
        make(PodGroup, "g", spec={"queue": "a-there", "minMember": 1}),
    )
    return world


def test_pods_without_list_or_label_count_where_their_node_is():
    world = beside("a0", "a0")
    assert held(world) == {"a100": {"a-there": 2}}
    world = beside()
    unlisted(world, "a0", "a0")
    assert held(world) == {"a100": {"a-there": 2}}


def test_the_rest_of_their_job_is_there_too_until_none_of_it_is():
    world = beside()
    unlisted(world, "", "a0")
    world.cycle()
    assert (world.node_of("g-0"), held(world)) == ("a0", {"a100": {"a-there": 2}})
    for name in ("g-0", "g-1"):
        world.delete(world.cluster.pod(f"ns/{name}"))
    world.clock.advance_to(60.0)
    world.cycle()
    unlisted(world, "")
    world.cycle()
    assert (world.node_of("g-0"), held(world)) == ("d0", {"default": {"t-default": 1}})


def test_a_job_waits_where_its_labels_say_once_nothing_of_it_runs_elsewhere():
    world = beside()
    unlisted(world, "", "a0")
    world.ports["a100"].store.snapshot()
    world.delete(world.cluster.pod("ns/g-1"))
    world.clock.advance_to(60.0)
    world.cycle()
    assert world.node_of("g-0") == "d0"


def test_pods_move_with_the_label_of_their_node():
    world = beside()
    unlisted(world, "d0", "d0")
    assert held(world) == {"default": {"t-default": 2}}
    world.load(node_in("a100", "d0", 8))
    assert held(world) == {"a100": {"a-there": 2}}
    world.load(node("d0", 8))
    assert held(world) == {"default": {"t-default": 2}}
