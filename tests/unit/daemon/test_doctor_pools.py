"""What ``kaisched doctor`` says of projects in several node pools."""

from tests.unit.daemon.test_doctor import client_of, found, healthy, of, server, shard, texts

__all__ = ["healthy", "server"]
RUN = "/apis/scheduling.run.ai/v2/queues"


def queue(server, name, pool, project, pools=()):
    labels = {"kaisched.io/project": project, **({"kai.scheduler/node-pool": pool} if pool else {})}
    spec = {"resources": {"gpu": {"quota": 4}}, "nodePools": list(pools)}
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }
    answer = client_of(server).call("POST", RUN, body=body)
    assert answer.is_done, answer.text()


def test_a_project_without_a_queue_in_a_pool_of_its_list_is_told(healthy):
    shard(healthy, "fast", "fast")
    shard(healthy, "slow", "slow")
    queue(healthy, "t-fast", "fast", "t", ["fast", "slow"])
    queue(healthy, "u-fast", "fast", "u", ["fast", "slow"])
    queue(healthy, "u-slow", "slow", "u", ["fast", "slow"])
    text = "no queue in a node pool of their list, which is passed over: t in slow"
    (told,) = [it for it in of(found(healthy), "queues", "warn") if it.text == text]
    assert told.fix == (
        "make one with the label kaisched.io/project, or set admitsAllProjects in the shard"
    )


def test_a_pool_that_admits_all_projects_lacks_no_queue(healthy):
    shard(healthy, "fast", "fast")
    shard(healthy, "slow", "slow", admitsAllProjects=True)
    queue(healthy, "t-fast", "fast", "t", ["fast", "slow"])
    assert not [it for it in texts(found(healthy), "queues", "warn") if "of their list" in it]


def test_queues_of_one_project_with_different_lists_are_told(healthy):
    for name in ("fast", "slow"):
        shard(healthy, name, name)
    queue(healthy, "t-fast", "fast", "t", ["fast", "slow"])
    queue(healthy, "t-slow", "slow", "t", ["slow"])
    assert (
        "queues of project t list different node pools: t-fast (fast, slow), t-slow (slow)"
        in texts(found(healthy), "queues", "warn")
    )
