"""What tests look at afterwards."""

from tests.waiting import until


def events(cluster, name):
    return [line for line in cluster.logs if line["event"] == name]


def binds(server):
    """Pod to how often a bind of it succeeded."""
    counted = {}
    for seen in list(server.log):
        if seen.subresource == "binding" and 200 <= seen.status < 300:
            counted[seen.name] = counted.get(seen.name, 0) + 1
    return counted


def assert_no_overcommit(cluster, gpus=8):
    used = {}
    for pod in cluster.pods().values():
        node = pod["spec"].get("nodeName")
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        if node:
            used[node] = used.get(node, 0) + int(limits.get("nvidia.com/gpu", 0))
    assert all(held <= gpus for held in used.values()), used


def evicting(cluster, count):
    """Return by which actions pods were evicted, once so many evictions have been logged."""
    evicted = until(lambda: len(lines := events(cluster, "pod_evicted")) >= count and lines)
    assert len(evicted) == count
    return {line["action"] for line in evicted}
