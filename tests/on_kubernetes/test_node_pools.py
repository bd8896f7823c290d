"""Jobs with lists of node pools, with the daemon on an API server."""

import time

import pytest

from tests.on_kubernetes.rig import RUN, elected
from tests.waiting import until

pytestmark = pytest.mark.slow
POOL, LIST = "kai.scheduler/node-pool", "kaisched.io/node-pools"


def shard_file(folder, name, **spec):
    file = folder / f"{name}.yaml"
    lines = [f"{key}: {value}" for key, value in {"partitionLabelValue": name, **spec}.items()]
    file.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\n"
        f"metadata: {{name: {name}}}\nspec: {{{', '.join(lines)}}}\n",
        encoding="utf-8",
    )
    return file


@pytest.fixture
def pools(cluster):
    """Two pools of one node, with four GPUs and eight, and queues of one project in both."""
    for name, gpus in (("one", 4), ("two", 8)):
        cluster.node(f"node-{name}", gpus, {POOL: name})
        cluster.queue(f"team-{name}", gpus, labels={POOL: name, "kaisched.io/project": "team"})
    return cluster


def groups_path(cluster):
    return f"/apis/{RUN}/v2alpha2/namespaces/{cluster.namespace}/podgroups"


def gang(cluster, name, size, pools):
    """A pod group with a list, and its pods."""
    cluster.group(name, "team", size, annotations={LIST: pools})
    for number in range(size):
        cluster.pod(f"{name}-{number}", "team", group=name)


def test_one_process_passes_jobs_on_from_pool_to_pool(pools, tmp_path):
    files = [shard_file(tmp_path, name, poolDwell="1s") for name in ("one", "two")]
    gang(pools, "wide", 6, "one, two")
    pools.pod("small", "team", 4, annotations={LIST: "one, two"})
    pools.start(shards=files).wait_leading()
    pools.wait_placed("small", *(f"wide-{number}" for number in range(6)))
    pools.pod("late", "team", 2, annotations={LIST: "one, two"})  # one is full: a dwell later
    placed = pools.wait_placed("late")
    assert placed.pop("small") == "node-one"
    assert set(placed.values()) == {"node-two"}
    passed = until(lambda: [it for it in pools.logs if it["event"] == "job_passed_on"])
    assert {it["pool"] for it in passed} == {"two"}


def test_processes_that_serve_a_pool_each_pass_jobs_on(pools, tmp_path):
    gang(pools, "wide", 6, "one, two")
    pools.pod("small", "team", 4, annotations={LIST: "one, two"})
    for name, other in (("one", "two"), ("two", "one")):
        file = shard_file(tmp_path, name, poolDwell="1s")
        settings = {"otherPools": (other,), "namespace": "default"}
        pools.start(shards=[file], kubernetes=settings, **elected())
    placed = pools.wait_placed("small", *(f"wide-{number}" for number in range(6)))
    assert placed.pop("small") == "node-one"
    assert set(placed.values()) == {"node-two"}
    pods = pools.pods()
    in_pools = {
        it["message"].partition(" ")[0]
        for pod in pods.values()
        for it in pod["status"]["conditions"]
        if it["type"] == "kaisched.io/InNodePool"
    }
    assert in_pools == {"one", "two"}
    assert "kaisched.io/lease" in pods["small"]["metadata"]["annotations"]


# -- what is written on pod groups -----------------------------------------------------------------


def entries(cluster, name):
    """What the node pools say of a pod group, the newest last."""
    status = cluster.must("GET", f"{groups_path(cluster)}/{name}").get("status", {})
    found = status.get("schedulingConditions", [])
    assert {it["type"] for it in found} <= {"UnschedulableOnNodePool"}
    return sorted(found, key=lambda it: int(it["transitionID"]))


def pools_of(found):
    return [it["nodePool"] for it in found]


def numbers(found):
    return [int(it["transitionID"]) for it in found]


@pytest.fixture
def full_pools(pools):
    """The same two pools, full with work that nobody may evict."""
    for name, gpus in (("one", 4), ("two", 8)):
        pools.pod(
            f"block-{name}", f"team-{name}", gpus, labels={POOL: name}, nodeName=f"node-{name}"
        )
    return pools


def test_each_pool_that_refused_a_job_says_so_until_it_is_placed(full_pools, tmp_path):
    cluster = full_pools
    cluster.start(shards=[shard_file(tmp_path, it, poolDwell="2s") for it in ("one", "two")])
    gang(cluster, "g", 4, "one, two")
    first = until(lambda: pools_of(entries(cluster, "g")) == ["one"] and entries(cluster, "g"))
    assert "room" in first[0]["message"]
    until(lambda: pools_of(entries(cluster, "g")) == ["one", "two"])
    until(lambda: pools_of(entries(cluster, "g")) == ["two", "one"])  # it came back
    found = entries(cluster, "g")
    assert len(set(numbers(found))) == 2
    assert numbers(found)[-1] > numbers(first)[-1]
    theirs = {
        "type": "UnschedulableOnNodePool",
        "nodePool": "foreign",
        "transitionID": "40",
        "reasons": [{"reason": "x"}],
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {"status": {"schedulingConditions": [*found, theirs]}}
    cluster.must("PATCH", f"{groups_path(cluster)}/g/status", body, "application/merge-patch+json")
    until(lambda: numbers(entries(cluster, "g"))[-1] > 40)
    assert theirs in entries(cluster, "g")
    cluster.delete_pod("block-two")
    cluster.wait_placed("g-0", "g-1", "g-2", "g-3")
    until(lambda: entries(cluster, "g") == [theirs])


def test_two_pools_do_not_write_against_each_other(full_pools, tmp_path):
    """Both say why, and no more is written while nothing changes."""
    cluster = full_pools
    cluster.start(shards=[shard_file(tmp_path, it, poolDwell="300s") for it in ("one", "two")])
    gang(cluster, "g", 4, "two, one")
    theirs = {"type": "UnschedulableOnNodePool", "nodePool": "one", "transitionID": "7"}
    until(lambda: pools_of(entries(cluster, "g")) == ["two"])
    body = {"status": {"schedulingConditions": [*entries(cluster, "g"), theirs]}}
    cluster.must("PATCH", f"{groups_path(cluster)}/g/status", body, "application/merge-patch+json")
    until(lambda: numbers(entries(cluster, "g")) == [7, 8])
    time.sleep(3.0)  # what would help is looked for later, and added in one more write
    before = cluster.must("GET", f"{groups_path(cluster)}/g")
    assert max(numbers(before["status"]["schedulingConditions"])) <= 9
    time.sleep(2.0)
    assert cluster.must("GET", f"{groups_path(cluster)}/g") == before


class Selector:
    """A node-pool selector of somebody else, which knows nothing but the entries (P4)."""

    def __init__(self, cluster, name, pools):
        self.cluster, self.name, self.pools, self.given = cluster, name, pools, [pools[0]]

    def step(self):
        newest = pools_of(entries(self.cluster, self.name))[-1:]
        if newest == [self.given[-1]]:
            at = self.pools.index(self.given[-1]) + 1
            self.give(self.pools[at % len(self.pools)])

    def give(self, pool):
        cluster = self.cluster
        body = {"metadata": {"labels": {POOL: pool}}}
        for path in [
            f"{cluster.pods_path}/{it}" for it in cluster.pods() if it.startswith(self.name)
        ]:
            cluster.must("PATCH", path, body, "application/merge-patch+json")
        body["spec"] = {"queue": f"team-{pool}"}
        path = f"{groups_path(cluster)}/{self.name}"
        cluster.must("PATCH", path, body, "application/merge-patch+json")
        self.given.append(pool)


def test_a_selector_of_somebody_else_can_work_from_the_entries(full_pools, tmp_path):
    cluster = full_pools
    cluster.start(shards=[shard_file(tmp_path, it) for it in ("one", "two")]).wait_leading()
    cluster.gang("g", "team-one", 3, labels={POOL: "one"})
    selector = Selector(cluster, "g", ["one", "two"])

    def rounds(count):
        selector.step()
        return len(selector.given) >= count

    until(lambda: rounds(4))
    assert selector.given[:4] == ["one", "two", "one", "two"]
    cluster.delete_pod("block-one")
    until(lambda: selector.step() or {"g-0", "g-1", "g-2"} <= cluster.placed().keys())
    until(lambda: entries(cluster, "g") == [])
    given = list(selector.given)
    for _ in range(5):
        selector.step()
    assert selector.given == given


def test_a_job_of_which_pods_run_has_no_entry_for_the_others(pools, tmp_path):
    """A selector would take a running job to another pool for it."""
    pools.start(shards=[shard_file(tmp_path, it) for it in ("one", "two")]).wait_leading()
    pools.gang("g", "team-one", 6, minimum=2, labels={POOL: "one"})
    pools.wait_placed("g-0", "g-1", "g-2", "g-3")
    until(lambda: "room" in pools.condition("g-5").get("message", ""))
    until(lambda: entries(pools, "g") == [])
    time.sleep(1.5)
    assert entries(pools, "g") == []


def test_pods_are_not_marked_where_their_group_wants_none_of_that(full_pools, tmp_path):
    cluster = full_pools
    cluster.start(shards=[shard_file(tmp_path, it) for it in ("one", "two")]).wait_leading()
    cluster.gang("quiet", "team-one", 2, labels={POOL: "one"}, markUnschedulable=False)
    cluster.gang("loud", "team-one", 2, labels={POOL: "one"})
    until(lambda: pools_of(entries(cluster, "quiet")) == ["one"])
    until(lambda: cluster.condition("loud-0").get("reason") == "Unschedulable")
    time.sleep(1.0)
    assert cluster.condition("quiet-0") == {}
