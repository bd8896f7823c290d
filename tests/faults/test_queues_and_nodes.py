"""Queues and nodes that are odd, many or change under running jobs: rows E of the catalogue."""

import time

import pytest
from msgspec.structs import replace

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.cluster.store import StateStore, update
from kaisched.config.loading import load_settings
from kaisched.core.axis import GPU
from kaisched.core.tree import roll_up
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import read_shard, shards_in
from kaisched.errors import ConfigError, ObjectError
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.objects.shard import SchedulingShard
from kaisched.units import MEBIBYTE
from tests.contract.clusters import group, make, node, pod, queue
from tests.faults.deciding import NOW_S, decide, placed, reasons, store_of, told
from tests.oracles.accounts import assert_adds_up


def running(name, queue_name="a", gpus=1, where="n0"):
    return pod(name, queue_name, gpus, where=where, phase="Running")


@pytest.mark.fault("E79")
@pytest.mark.parametrize(
    ("broken", "reason", "mended"),
    [
        pytest.param([queue("x", "y"), queue("y", "x")], "QueueOrphan", [queue("y")], id="a ring"),
        pytest.param([queue("x", "x")], "QueueDoesNotExist", [queue("x")], id="its own parent"),
        pytest.param([queue("x", "late")], "QueueOrphan", [queue("late")], id="a missing parent"),
    ],
)
def test_a_broken_subtree_rests_and_heals(broken, reason, mended):
    """What runs in it is kept, and told of like what waits."""
    store = store_of(*broken, running("r", "x"), pod("p", "x"), pod("other"))
    result = decide(store)
    assert placed(result) == {"other": "n0"}
    assert reasons(result) == {"p": reason, "r": reason}
    assert len(result.evictions) == 0
    assert store.snapshot().nodes.idle[GPU].tolist() == [7000]
    assert "x" in {problem.name for problem in store.problems()}
    told(store, *mended)
    healed = store.snapshot()
    assert healed.allocated[GPU, healed.queues.row_of_name["x"]] == 1000
    assert placed(decide(store)) == {"other": "n0", "p": "n0"}
    assert store.problems() == []


@pytest.mark.fault("E79")
def test_a_thousand_levels_are_a_tree_like_any_other():
    chain = [queue(f"q{at}", f"q{at - 1}" if at else "") for at in range(1000)]
    store = store_of(*reversed(chain), pod("p", "q999"), pod("q", "q500"))
    result = decide(store)
    assert placed(result) == {"p": "n0"}
    assert reasons(result) == {"q": "QueueNotLeaf"}


@pytest.mark.fault("E80")
def test_a_queue_may_move_while_its_jobs_run():
    store = store_of(queue("x"), queue("y"), queue("q", "x"), running("r", "q", 3))
    assert held(store.snapshot()) == {"x": 3000, "y": 0, "q": 3000}
    update(store, queue("q", "y"))
    assert held(store.snapshot()) == {"x": 0, "y": 3000, "q": 3000}
    assert len(decide(store).evictions) == 0


def held(snapshot):
    """The GPUs that queues x, y and q hold, with all below them."""
    everything = roll_up(snapshot.allocated, snapshot.queues.tree)
    return {name: int(everything[GPU, snapshot.queues.row_of_name[name]]) for name in "xyq"}


@pytest.mark.fault("E80")
def test_the_jobs_of_a_deleted_queue_are_kept_and_told():
    store = store_of(queue("q"), running("r", "q", 3), pod("p", "q"))
    update(store, queue("q"), is_gone=True)
    for later_s in (0.0, 10_000.0):
        result = decide(store, now_s=NOW_S + later_s)
        assert (placed(result), len(result.evictions)) == ({}, 0)
        assert reasons(result) == dict.fromkeys("pr", "QueueDoesNotExist")
    assert store.snapshot().nodes.idle[GPU].tolist() == [5000]
    update(store, queue("q"))
    assert placed(decide(store)) == {"p": "n0"}


@pytest.mark.fault("E80")
def test_queues_of_one_display_name_are_two():
    shown = {"displayName": "The team", "resources": {"gpu": {"quota": 1}}}
    two = [make(type(queue("x")), name, spec=shown) for name in ("one", "two")]
    store = store_of(*two, pod("p", "one"), pod("q", "two"))
    assert placed(decide(store)) == {"p": "n0", "q": "n0"}
    assert store.problems() == []


@pytest.mark.fault("E83")
def test_ten_thousand_queues_of_ten_resources_are_one_cycle():
    names = [f"x.io/r{at}" for at in range(6)]
    store = RowStore(extended=names)
    amounts = {"cpu": 64_000, "memory": MEBIBYTE << 20, "gpu": 8000, "pods": 110}
    for at in range(50):
        store.put_node(NodeRow(f"n{at:03d}", {**amounts, **dict.fromkeys(names, 8)}))
    bounds = {"gpu": 1000, "cpu": 1000, **dict.fromkeys(names, 1)}
    for at in range(100):
        store.put_queue(QueueRow(f"d{at}"))
    for at in range(9900):
        store.put_queue(QueueRow(f"q{at}", f"d{at % 100}", quota=bounds, limit=bounds))
    shape = store.intern_shape({"cpu": 1000, "gpu": 1000, **dict.fromkeys(names, 1)})
    for at in range(0, 9900, 10):
        store.add_job(
            f"ns/j{at}",
            f"q{at}",
            priority=50,
            is_preemptible=True,
            created_s=0.0,
            tasks=[(f"ns/j{at}-0", shape)],
        )
    assert store.snapshot().allocated.shape == (10, 10_000)
    begin_s = time.process_time()
    assert len(placed(decide(store))) == 400
    assert time.process_time() - begin_s < 20.0


@pytest.mark.fault("E86")
def test_the_pods_of_a_node_that_left_the_pool_count_until_they_are_gone():
    store = store_of(running("r", "a", 3), pod("p", gpus=8), node("n1", 4))
    update(store, node("n0", labels={"kai.scheduler/node-pool": "other"}))
    snapshot = store.snapshot()
    assert snapshot.nodes.name == ("n1",)
    assert snapshot.allocated[GPU, snapshot.queues.row_of_name["a"]] == 3000
    result = decide(store)
    assert (placed(result), len(result.evictions)) == ({}, 0)
    update(store, running("r"), is_gone=True)
    assert store.snapshot().allocated.sum() == 0
    assert_adds_up(store.snapshot())


@pytest.mark.fault("E86")
def test_a_shard_without_nodes_places_nothing_and_says_so():
    store = told(StateStore(node_pool="empty"), node("n0"))
    in_pool = {"kai.scheduler/node-pool": "empty"}
    told(store, queue("a", labels=in_pool), pod("p", labels=in_pool))
    assert len(store.snapshot().nodes) == 0
    result = decide(store)
    assert (placed(result), list(reasons(result))) == ({}, ["p"])


@pytest.mark.fault("E86")
def test_no_node_belongs_to_two_shards():
    """A pool is one value of one label, so only shards of the same value could share nodes."""
    one, two = (
        make(SchedulingShard, name, spec={"partitionLabelValue": "pool"}) for name in ("one", "two")
    )
    with pytest.raises(ConfigError, match="two shards for the same nodes"):
        shards_in([], [one, two])


def shrunk(gpus):
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": gpus, "pods": 110, "x.io/y": 4}
    return replace(node("n0"), status=replace(node("n0").status, allocatable=amounts))


@pytest.mark.fault("E87")
@pytest.mark.parametrize("gpus", [2, 0, "-1", "garbage", "1e400", 2**63])
def test_a_node_that_shrinks_keeps_its_pods_and_takes_no_more(gpus):
    store = store_of(node("n1", 1), running("r", "a", 4), pod("p"), pod("q"))
    update(store, shrunk(gpus))
    result = decide(store)
    assert set(placed(result).values()) == {"n1"}
    assert len(result.evictions) == 0
    is_nonsense = gpus not in (0, 2)
    assert [problem.name for problem in store.problems()] == ["n0"] * is_nonsense
    snapshot = store.snapshot()
    assert snapshot.allocated[GPU, snapshot.queues.row_of_name["a"]] == 4000
    update(store, node("n0"))
    assert len(placed(decide(store))) == 2
    assert store.problems() == []
    assert_adds_up(store.snapshot())


@pytest.mark.fault("E90")
def test_resources_of_nodes_that_nobody_asks_for_are_not_counted():
    store = store_of(pod("p", extra={"x.io/y": 1}))
    for at in range(50):
        many = {f"vendor.io/{at}-{number}": 4 for number in range(100)}
        amounts = {"cpu": "64", "memory": "1Gi", "nvidia.com/gpu": 1, "pods": 110, **many}
        one = node(f"m{at}")
        update(store, replace(one, status=replace(one.status, allocatable=amounts)))
    assert store.snapshot().axis.names == ("cpu", "memory", "gpu", "pods", "x.io/y")
    assert placed(decide(store)) == {"p": "n0"}


@pytest.mark.fault("E88")
@pytest.mark.parametrize("gpus", [8, 4])
def test_a_node_that_flaps_has_its_pods_again_when_it_is_back(gpus):
    """Smaller or not: what runs there takes its room first, and nobody is evicted for it."""
    store = store_of(running("r", "a", 3), running("s", "a", 3), pod("p", "b", 2))
    for _ in range(3):
        update(store, node("n0"), is_gone=True)
        result = decide(store)
        assert (placed(result), len(result.evictions)) == ({}, 0)
        assert list(reasons(result)) == ["p"]
        update(store, node("n0", gpus))
        assert store.snapshot().nodes.idle[GPU].tolist() == [(gpus - 6) * 1000]
        assert_adds_up(store.snapshot())
    result = decide(store)
    assert placed(result) == ({"p": "n0"} if gpus == 8 else {})


@pytest.mark.fault("E88")
def test_a_node_that_is_not_ready_for_a_moment_keeps_its_pods_and_gets_none():
    store = store_of(running("r", "a", 3), pod("p"))
    down = {"conditions": [{"type": "Ready", "status": "False"}]}
    for _ in range(2):
        update(store, node("n0", status=down))
        result = decide(store)
        assert (placed(result), len(result.evictions)) == ({}, 0)
        update(store, node("n0"))
    assert placed(decide(store)) == {"p": "n0"}


@pytest.mark.fault("E89")
def test_a_node_without_gpus_for_some_seconds_keeps_its_pods_and_gets_none():
    """As when the driver starts anew; a pod that asks for none may go there all the while."""
    store = store_of(running("r", "a", 3), pod("p"), pod("c", gpus=0))
    for gpus in (0, 8, 0):
        update(store, node("n0", gpus))
        snapshot = store.snapshot()
        assert snapshot.nodes.idle[GPU].tolist() == [(gpus - 3) * 1000]
        assert snapshot.total[GPU] == gpus * 1000
        assert snapshot.allocated[GPU, snapshot.queues.row_of_name["a"]] == 3000
    result = decide(store)
    assert (placed(result), len(result.evictions)) == ({"c": "n0"}, 0)
    update(store, node("n0"))
    assert placed(decide(store)) == {"c": "n0", "p": "n0"}


@pytest.mark.fault("E92")
def test_a_configuration_that_becomes_nonsense_counts_at_the_next_start(tmp_path):
    settings, shard = tmp_path / "kaisched.yaml", tmp_path / "shard.yaml"
    settings.write_text(
        "kind: SchedulerConfiguration\napiVersion: kaisched.io/v1alpha1\nschedulePeriod: 5s\n",
        encoding="utf-8",
    )
    shard.write_text(
        "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\n"
        "metadata: {name: s}\nspec: {kValue: 0.5}\n",
        encoding="utf-8",
    )
    loaded, policy = load_settings(settings), build_policy(read_shard(shard).shard, str(shard))[0]
    before = loaded.shown()
    for file in (settings, shard):
        file.write_text("kind: [nonsense", encoding="utf-8")
    assert loaded.shown() == before
    result, _ = run_cycle(store_of(pod("p")).snapshot(), None, policy, NOW_S, Memory())
    assert placed(result) == {"p": "n0"}
    for start, file in ((load_settings, settings), (read_shard, shard)):
        with pytest.raises((ConfigError, ObjectError), match=file.name):
            start(file)


@pytest.mark.fault("I122")
def test_pods_on_a_node_that_is_gone_are_no_victims_and_hinder_no_others():
    """Of the gang in a two pods are lost with their node; two and the single pods are not."""
    gang = [
        pod(
            f"g{at}",
            "a",
            2,
            where="n0" if at < 2 else "gone",
            phase="Running",
            annotations={"pod-group-name": "g"},
        )
        for at in range(4)
    ]
    alone = pod("lost", "a", 4, where="gone", phase="Running")
    singles = [running(f"s{at}") for at in range(4)]
    claims = [pod(f"w{at}", "b", 4) for at in range(2)]
    store = store_of(
        queue("a", gpu=4),
        queue("b", gpu=8),
        group("g", "a", minMember=4),
        *gang,
        alone,
        *singles,
        *claims,
    )
    result = decide(store)
    assert not result.failures
    nominated = {it.pod.partition("/")[2]: it.node for it in result.nominations}
    assert nominated == {"w0": "n0", "w1": "n0"}
    gone = {it.pod.partition("/")[2] for it in result.evictions}
    assert gone == {"g0", "g1", "s0", "s1", "s2", "s3"}
    snapshot = store.snapshot()
    assert snapshot.allocated[GPU, snapshot.queues.row_of_name["a"]] == 16_000
    for obj in (alone, *gang[2:]):
        update(store, obj, is_gone=True)
    snapshot = store.snapshot()
    assert snapshot.allocated[GPU, snapshot.queues.row_of_name["a"]] == 8000
