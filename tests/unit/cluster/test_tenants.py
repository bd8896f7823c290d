"""What a tenant writes on objects of its own binds no other tenant, with ``queueUsePolicy``."""

import pytest

from kaisched.cluster.rowstore import MOST_UNOFFERED, OF_NO_NODE
from kaisched.cluster.store import StateStore, update
from tests.contract.clusters import node, pod, queue

ELSEWHERE = {"kai.scheduler/node-pool": "other"}
FIRM = {"kai.scheduler/preemptibility": "non-preemptible"}


def store_of(*objects, has_tenants=True):
    store = StateStore(checks_queues=has_tenants)
    for obj in (node("n0"), queue("a", gpu=2), queue("b", gpu=4), *objects):
        update(store, obj)
    return store


def runs(name, labels, created="2026-01-01T00:00:00Z"):
    return pod(name, "a", 1, where="n0", phase="Running", labels=labels, created=created)


def firm(store):
    """The jobs that may not be evicted, and the GPUs that count as such in queue a."""
    found = store.snapshot()
    jobs = zip(found.jobs.name, found.jobs.is_preemptible, strict=True)
    held = found.allocated_non_preemptible[2, found.queues.name.index("a")]
    return sorted(name.rpartition("-")[0] for name, is_it in jobs if not is_it), int(held)


@pytest.mark.parametrize(("has_tenants", "count"), [(True, 2), (False, 4)])
def test_no_more_than_the_quota_is_kept_from_eviction(has_tenants, count):
    """A pod that runs on borrowed room may say anything later."""
    pods = (runs(f"p{at}", FIRM, f"2026-01-0{1 + at}T00:00:00Z") for at in range(4))
    store = store_of(*pods, has_tenants=has_tenants)
    kept, held = firm(store)
    assert (len(kept), held) == (count, 1000 * count)
    assert not has_tenants or all("p0" in it or "p1" in it for it in kept)
    assert store.snapshot() is store.snapshot()


@pytest.mark.parametrize(("has_tenants", "held"), [(True, 1000), (False, 0)])
def test_a_pod_on_a_node_of_ours_counts_whatever_pool_it_names(has_tenants, held):
    store = store_of(runs("p", ELSEWHERE), has_tenants=has_tenants)
    found = store.snapshot()
    assert int(found.allocated[2, found.queues.name.index("a")]) == held


def test_a_pod_of_another_pool_that_waits_is_not_ours():
    assert len(store_of(pod("p", "a", labels=ELSEWHERE)).snapshot().jobs.name) == 0


@pytest.mark.parametrize(("has_tenants", "classes"), [(True, 1), (False, 2)])
def test_anti_affinity_tells_pods_of_other_namespaces_apart_unless_there_are_tenants(
    has_tenants, classes
):
    term = {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {}}}
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    away = {"affinity": {"podAntiAffinity": {hard: [term]}}}
    guard = pod("guard", "a", 0, where="n0", phase="Running", spec=away, namespace="theirs")
    store = StateStore(checks_queues=has_tenants)
    for obj in (node("n0"), queue("a"), queue("b"), pod("p", "b"), pod("q", "b")):
        update(store, obj)
    before = store.snapshot().tasks
    of_p = {int(it) for it in before.shape_of_task}
    update(store, guard)
    after = store.snapshot()
    rows = [at for at, name in enumerate(after.tasks.name) if name == "ns/p"]
    now = {int(after.tasks.shape_of_task[at]) for at in rows}
    assert len(of_p | now) == classes


def test_resources_of_no_node_are_counted_by_name_only_so_far():
    """Each makes every cycle longer, and anybody can make up names."""
    extra = {f"made-up.example/r{at}": "1" for at in range(MOST_UNOFFERED + 1)}
    store = store_of(pod("p", "a", extra=extra))
    names = store.snapshot().axis.names
    assert OF_NO_NODE in names
    assert not any(it.startswith("made-up") for it in names)


def test_a_resource_counts_by_name_once_a_node_has_it():
    names = [f"made-up.example/r{at}" for at in range(MOST_UNOFFERED + 2)]
    store = store_of(*(pod(f"p{at}", "a", extra={it: "1"}) for at, it in enumerate(names)))
    last = names[-1]
    assert last not in store.snapshot().axis.names
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": 8, "pods": 110, last: 4}
    update(store, node("n1", status={"allocatable": amounts}))
    found = store.snapshot()
    task = len(found.tasks.name) - 1  # the row that it has got now
    asked = found.shapes.request[:, found.tasks.shape_of_task[task]]
    assert int(asked[found.axis.position[last]]) == 1
    assert int(asked[found.axis.position[OF_NO_NODE]]) == 0
