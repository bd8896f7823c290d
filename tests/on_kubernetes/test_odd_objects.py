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


@pytest.mark.fault("D59")
@pytest.mark.parametrize("amount", ["1e2000000", "1e400", "9223372036854775808", "1e30"])
def test_d59_a_request_beyond_all_numbers_waits_and_says_why(cluster, amount):
    cluster.start().wait_leading()
    huge = {"name": "main", "image": "none", "resources": {"requests": {"memory": amount}}}
    cluster.pod("huge", "a", containers=[huge])
    cluster.pod("p", "a")
    assert set(cluster.wait_placed("p")) == {"p"}
    assert "more than any node has" in said_of(cluster, "huge")


@pytest.mark.fault("D64")
@pytest.mark.usefixtures("server")  # definitions of ours would not keep it
def test_d64_groups_that_make_no_sense_are_told_and_others_go_on(cluster):
    """A minimum of 2^31 is beyond the field; a server with our definitions would not store it."""
    cluster.start().wait_leading()
    for name, minimum in (("fewer", -1), ("huge", 2**31), ("more", 5)):
        cluster.gang(name, "a", 2, minimum=minimum)
    cluster.gang("good", "a", 2)
    assert set(cluster.wait_placed("good-0", "good-1")) == {"good-0", "good-1"}
    for name in ("fewer", "huge"):
        assert "pod group" in said_of(cluster, f"{name}-0"), name
    assert "2 of the 5 pods" in said_of(cluster, "more-0")
    path = f"{GROUPS}/{cluster.namespace}/podgroups/fewer"
    condition = until(
        lambda: cluster.must("GET", path).get("status", {}).get("schedulingConditions")
    )
    assert condition[0]["reason"] == "InvalidPodGroup"
    cluster.must("PATCH", path, {"spec": {"minMember": 2}}, "application/merge-patch+json")
    cluster.wait_placed("fewer-0", "fewer-1")


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
