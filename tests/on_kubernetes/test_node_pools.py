"""Jobs with lists of node pools, with the daemon on an API server."""

import pytest

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


def gang(cluster, name, size, pools):
    """A pod group with a list, and its pods."""
    path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{cluster.namespace}/podgroups"
    body = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": {LIST: pools}},
        "spec": {"queue": "team", "minMember": size},
    }
    cluster.must("POST", path, body)
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
        pools.start(shards=[file], kubernetes={"otherPools": (other,), "namespace": "default"})
    placed = pools.wait_placed("small", *(f"wide-{number}" for number in range(6)))
    assert placed.pop("small") == "node-one"
    assert set(placed.values()) == {"node-two"}
    pods = pools.pods()
    marks = {
        it["message"].partition(" ")[0]
        for pod in pods.values()
        for it in pod["status"]["conditions"]
        if it["type"] == "kaisched.io/InNodePool"
    }
    assert marks == {"one", "two"}
    assert "kaisched.io/lease" in pods["small"]["metadata"]["annotations"]
