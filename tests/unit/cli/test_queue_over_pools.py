"""``kaisched queue show`` adds a project up over the node pools of a running scheduler."""

import json
import re
from pathlib import Path

import pytest

from kaisched.config.settings import ViewListener
from kaisched.daemon.http_server import Server
from kaisched.daemon.view_pages import view_listener
from tests.unit.view.test_projects import vision

pytestmark = [pytest.mark.usefixtures("rested"), pytest.mark.proportion]

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-node-pools.md"


@pytest.fixture(scope="module")
def server():
    publishers = vision().publishers
    running = Server([view_listener(ViewListener(port=0), lambda: publishers, None)])
    yield f"http://127.0.0.1:{running.port}"
    running.close()


def test_the_table_has_each_pool_and_the_sum(run, server):
    show = ("queue", "show", "vision-h100", "--server", server, "--shard-name", "of-h100")
    code, out, _ = run(*show)
    assert code == 0
    table = out[out.index("Over node pools: GPUs") :].partition("\n\n")[0]
    rows = [line.split() for line in table.splitlines()[2:]]
    assert rows == [
        ["vision", "default", "vision", "0", "0", "0", "2"],
        ["vision", "h100", "vision-h100", "8", "8", "9", "4"],
        ["vision", "a100", "seeing", "3", "3", "3", "6"],
        ["vision", "all", "11", "11", "12", "12"],
    ]
    assert table in re.sub(r"[ \t]+\n", "\n", PAGE.read_text(encoding="utf-8"))
    (found,) = json.loads(run(*show, "-o", "json")[1])["queues"]
    assert found["project"]["deserved"]["gpu"] == 12


def test_the_list_has_no_sums(run, server):
    code, out, _ = run("queue", "ls", "--server", server)
    assert (code, "Over node pools" in out) == (0, False)


SHARD = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: %s}
spec: {partitionLabelValue: "%s"}
---"""
IN_POOL = """
apiVersion: v1
kind: Node
metadata: {name: n-%(pool)s, labels: {kai.scheduler/node-pool: "%(pool)s"}}
status: {allocatable: {cpu: "64", memory: 512Gi, nvidia.com/gpu: "8", pods: "110"}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: t-%(pool)s, labels: {kai.scheduler/node-pool: "%(pool)s"}}
spec: {resources: {gpu: {quota: 4}}}
---"""
LISTED = """
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: team
  labels: {kai.scheduler/queue: t-x}
  annotations: {kaisched.io/node-pools: "x, y"}
spec:
  schedulerName: kaisched
  containers: [{name: main, resources: {limits: {nvidia.com/gpu: "%s"}}}]
---"""


@pytest.fixture
def files(tmp_path):
    """Two pools; a job that starts in the first, and one that is too big for either."""
    file = tmp_path / "pools.yaml"
    pools = "".join(IN_POOL % {"pool": pool} for pool in "xy")
    shards = SHARD % ("of-x", "x") + SHARD % ("of-y", "y")
    file.write_text(shards + pools + LISTED % ("a", 3) + LISTED % ("b", 9), encoding="utf-8")
    return file


def test_files_with_several_shards_have_the_sums_too(run, files):
    code, out, _ = run("queue", "show", "t-y", "-f", files)
    assert code == 0
    table = out[out.index("Over node pools: GPUs") :].partition("\n\n")[0]
    assert [line.split() for line in table.splitlines()[2:]] == [
        ["t", "x", "t-x", "3", "3", "3", "4"],
        ["t", "y", "t-y", "0", "0", "0", "4"],
        ["t", "all", "3", "3", "3", "8"],
    ], table
    found = json.loads(run("queue", "show", "t-x", "-f", files, "-o", "json")[1])
    assert [it["name"] for it in found["queues"]] == ["t-x"]
    assert found["queues"][0]["project"]["deserved"]["gpu"] == 8


def test_the_queue_says_which_shard_is_meant(run, files):
    code, _, err = run("queue", "show", "t-y", "-f", files, "--shard-name", "of-x")
    assert (code, "there is no queue t-y" in err) == (2, True)
    code, _, err = run("queue", "show", "t-z", "-f", files)
    assert (code, "there is no queue t-z" in err) == (2, True)
    code, _, err = run("queue", "show", "t-y", "-f", files, "--shard-name", "of-z")
    assert (code, "--shard-name: no such shard (value 'of-z'); known: of-x, of-y" in err) == (
        2,
        True,
    )


def test_files_with_one_shard_have_none(run, manifests):
    code, out, _ = run("queue", "show", "a", "-f", manifests, "-o", "json")
    assert (code, json.loads(out)["queues"][0]["project"]) == (0, None)


def test_why_asks_the_shard_that_has_the_job(run, files):
    code, out, _ = run("why", "b", "-f", files)
    assert (code, out.splitlines()[0]) == (0, "Pod team/b is pending: ExceedsAnyNode")
    code, out, _ = run("why", "team/a", "-f", files)
    assert (code, "does not wait" in out) == (0, True)
    code, _, err = run("why", "c", "-f", files)
    assert (code, "c" in err) == (2, True)
    code, _, err = run("why", "b", "-f", files, "--shard-name", "of-z")
    assert (code, "no such shard" in err) == (2, True)
