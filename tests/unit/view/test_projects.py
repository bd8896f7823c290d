"""Totals of projects over node pools."""

import json

import msgspec
import pytest

from kaisched.clock import ManualClock
from kaisched.daemon.access import open_access
from kaisched.daemon.http_wire import Request
from kaisched.daemon.view_pages import Pacer, ViewPages
from kaisched.engine.planning import PlannedShards
from kaisched.engine.policy import build_policy
from kaisched.objects.shard import SchedulingShard, ShardSpec
from kaisched.objects.wire import ObjectMeta
from kaisched.view import api
from kaisched.view.publisher import Publisher
from tests.contract.clusters import pod
from tests.unit.cluster.pools.worlds import POOL, node_in, queue_in

POOLS = ("default", "h100", "a100")


class Process:
    """The shards of a process, one for each pool, and the pages of their live views."""

    def __init__(self, *objects, pools=POOLS, admits=()):
        shards = [
            SchedulingShard(
                metadata=ObjectMeta(name=f"of-{name}"),
                spec=ShardSpec(
                    partition_label_value="" if name == "default" else name,
                    admits_all_projects=name in admits,
                ),
            )
            for name in pools
        ]
        policies = [(it, build_policy(it)[0]) for it in shards]
        self._planned = PlannedShards(policies, ManualClock(1e9))
        self._cycle = 0
        self.publishers = [
            Publisher(it.metadata.name, pool=it.spec.partition_label_value) for it in shards
        ]
        no_rest = Pacer(ManualClock(0.0))
        pages = ViewPages(lambda: self.publishers, open_access, no_rest).pages
        self._page = pages["/api/v1/"]
        self.load(*objects)

    def load(self, *objects):
        self._planned.cluster.load(objects)
        steps, _ = self._planned.round()
        self._cycle += 1
        for step in steps:
            (publisher,) = (it for it in self.publishers if it.shard == step.shard)
            publisher.take(step.result, cycle=self._cycle, time_s=1e9, duration_s=0.1)

    def queues(self, shard="", name=""):
        path = f"/api/v1/queues{'/' if name else ''}{name}"
        query = {"shard": [shard]} if shard else {}
        page = self._page.make(Request(query, "", "localhost", path))
        assert page.status == 200, page.body
        found = json.loads(page.body)
        msgspec.convert(found, api.Queues)
        return {it["name"]: it for it in found["queues"]}


def in_pool(name, pool, queue, gpus=1):
    labels = {} if pool == "default" else {POOL: pool}
    return pod(name, queue, gpus, labels=labels, uid=name)


def vision(*more):
    """The project has quotas of 2, 4 and 6, and jobs in two of the pools."""
    return Process(
        *(node_in(name, f"n-{name}", 8) for name in POOLS),
        queue_in("default", "vision", 2),
        queue_in("h100", "vision-h100", 4),
        queue_in("a100", "seeing", 6, project="vision"),
        *(in_pool(f"h{at}", "h100", "vision-h100") for at in range(9)),
        *(in_pool(f"a{at}", "a100", "seeing") for at in range(3)),
        *more,
    )


def gpus(amounts):
    return {key: amounts[key]["gpu"] for key in ("fairShare", "allocated", "requested", "deserved")}


ALL = {"fairShare": 11, "allocated": 11, "requested": 12, "deserved": 12}


@pytest.mark.proportion
@pytest.mark.parametrize(
    ("shard", "queue"), [("", "vision"), ("of-h100", "vision-h100"), ("of-a100", "seeing")]
)
def test_a_project_is_added_up_over_its_pools_whichever_is_asked_for(shard, queue):
    project = vision().queues(shard, queue)[queue]["project"]
    assert project["name"] == "vision"
    assert gpus(project) == ALL
    assert [(it["nodePool"], it["shard"], it["queue"]) for it in project["pools"]] == [
        ("default", "of-default", "vision"),
        ("h100", "of-h100", "vision-h100"),
        ("a100", "of-a100", "seeing"),
    ]
    parts = [gpus(it) for it in project["pools"]]
    assert parts == [
        {"fairShare": 0, "allocated": 0, "requested": 0, "deserved": 2},
        {"fairShare": 8, "allocated": 8, "requested": 9, "deserved": 4},
        {"fairShare": 3, "allocated": 3, "requested": 3, "deserved": 6},
    ]
    assert {key: sum(it[key] for it in parts) for key in ALL} == ALL


def test_a_quota_that_is_unlimited_in_one_pool_has_no_sum():
    found = vision(queue_in("h100", "vision-h100", -1)).queues(name="vision")
    assert found["vision"]["project"]["deserved"]["gpu"] is None
    assert found["vision"]["project"]["allocated"]["gpu"] == 11


def test_a_queue_of_one_pool_has_no_sums():
    process = vision(queue_in("h100", "alone-h100", 1), queue_in("a100", "alone-h100-too", 1))
    assert process.queues("of-h100")["alone-h100"]["project"] is None
    one = Process(queue_in("default", "vision", 2), pools=("default",))
    assert one.queues()["vision"]["project"] is None


def test_the_label_says_it_before_the_name_and_a_second_queue_of_a_pool_does_not_count():
    process = vision(queue_in("h100", "other", 1, project="vision"))
    project = process.queues()["vision"]["project"]
    assert [it["queue"] for it in project["pools"]] == ["vision", "other", "seeing"]
    assert process.queues("of-h100")["vision-h100"]["project"] is None


def test_what_changes_in_another_pool_is_seen_at_once():
    process = vision()
    before = process.queues(name="vision")["vision"]["project"]["allocated"]["gpu"]
    process.load(in_pool("a9", "a100", "seeing"))
    after = process.queues(name="vision")["vision"]["project"]["allocated"]["gpu"]
    assert (before, after) == (11, 12)


def test_a_queue_that_was_made_up_counts_and_departments_do():
    """The second job asks for more than a node of the first pool has, and goes on at once."""
    process = Process(
        node_in("h100", "n0", 1),
        node_in("default", "n1", 8),
        queue_in("h100", "dept", 1),
        queue_in("h100", "team", 1, parent="dept"),
        *(
            pod(
                f"x{at}",
                "team",
                at + 1,
                annotations={"kaisched.io/node-pools": "h100,default"},
                uid=f"{at}",
            )
            for at in range(2)
        ),
        pools=("h100", "default"),
        admits=("default",),
    )
    for name in ("team", "dept"):
        project = process.queues(name=name)[name]["project"]
        assert [it["queue"] for it in project["pools"]] == [name, f"{name}-default"]
        assert project["deserved"]["gpu"] == 1
