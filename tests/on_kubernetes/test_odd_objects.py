"""Objects that make no sense here, among others that do: rows B38 and D of the catalogue."""

import pytest

from tests.on_kubernetes.looking import events
from tests.waiting import until

pytestmark = pytest.mark.slow

GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces"


def said_of(cluster, name):
    """Return what a pod that waits says, once it says something."""
    return until(lambda: cluster.condition(name).get("message"))


@pytest.mark.fault("B38")
@pytest.mark.usefixtures("server")  # definitions of ours would not keep it
def test_b38_what_a_later_version_wrote_is_used_and_kept(cluster):
    cluster.start().wait_leading()
    cluster.queue("later", 4, colour="blue")
    cluster.group("g", "later", 2, mood={"is": "good"})
    for number in range(2):
        cluster.pod(f"g-{number}", "later", group="g")
    cluster.pod("never", "later", 9)
    cluster.wait_placed("g-0", "g-1")
    path = "/apis/scheduling.run.ai/v2/queues/later"
    until(lambda: cluster.must("GET", path).get("status", {}).get("allocated"))
    assert cluster.must("GET", path)["spec"]["colour"] == "blue"
    told = {line["err"].partition(":")[0] for line in events(cluster, "object_doubtful")}
    assert told == {"Queue later", "PodGroup g"}


def test_a_group_that_needs_no_pod_any_more_starts_what_there_is(cluster):
    cluster.start().wait_leading()
    cluster.gang("g", "a", 2, minimum=3)
    parts = [{"name": name, "minMember": 1} for name in ("x", "y")]
    path = f"{GROUPS}/{cluster.namespace}/podgroups"
    cluster.group("parts", "a", None, minSubGroup=2, subGroups=parts)
    labels = {"kai.scheduler/subgroup-name": "x"}
    cluster.pod("parts-x", "a", group="parts", labels=labels)
    assert "2 of the 3 pods" in said_of(cluster, "g-0")
    assert said_of(cluster, "parts-x")
    for name, spec in (("g", {"minMember": 0}), ("parts", {"minSubGroup": 0})):
        cluster.must("PATCH", f"{path}/{name}", {"spec": spec}, "application/merge-patch+json")
    cluster.wait_placed("g-0", "g-1", "parts-x")


@pytest.mark.fault("D69")
def test_d69_names_and_annotations_may_be_as_long_as_can_be(cluster):
    cluster.start().wait_leading()
    long, dotted = "a" * 253, ".".join(["b" * 61] * 4)
    notes = {"example.com/poem": "жизнь ☃ \U0001f9ff " * 10_000}
    cluster.gang(long[:251], "a", 2)
    cluster.pod(dotted, "a", annotations=notes)
    cluster.pod(long, "a", 9, annotations=notes)
    cluster.wait_placed(f"{long[:251]}-0", f"{long[:251]}-1", dotted)
    assert said_of(cluster, long)

    def told():
        found = cluster.must("GET", f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")
        return {it["regarding"]["name"] for it in found["items"]} >= {long, dotted}

    until(told)
