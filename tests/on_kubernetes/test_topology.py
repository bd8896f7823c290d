"""Topologies over an API server: a gang is placed in one rack, and hears what is missing."""

from tests.waiting import until

WISH = {"topology": "dc", "requiredTopologyLevel": "rack"}
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"


def rename(rig, alias):
    """Give the level another alias, while jobs that name it wait."""
    found = rig.must("GET", f"{TOPOLOGIES}/dc")
    found["spec"]["levels"][0]["alias"] = alias
    rig.must("PUT", f"{TOPOLOGIES}/dc", found)


def test_a_gang_waits_for_its_topology_and_then_has_one_rack(rig):
    for name, rack in (("n0", "r1"), ("n1", "r2"), ("n2", "r2")):
        rig.node(name, gpus=2, labels={"example.com/rack": rack})
    rig.queue("a", 6)
    rig.start_kubelet()
    rig.start()
    rig.gang("g", "a", 3, topologyConstraint=WISH)
    told = until(lambda: rig.condition("g-0").get("message"))
    assert "there is no topology dc" in told
    spec = {"levels": [{"nodeLabel": "example.com/rack", "alias": "rack"}]}
    rig.must(
        "POST",
        TOPOLOGIES,
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {"name": "dc"},
            "spec": spec,
        },
    )
    placed = rig.wait_placed("g-0", "g-1", "g-2")
    assert set(placed.values()) == {"n1", "n2"}
    rig.gang("h", "a", 3, topologyConstraint=WISH)
    wanted = "no rack has room for its 3 pods together: best is rack r1, short by 1 pod"
    until(lambda: wanted in rig.condition("h-0").get("message", ""))
    rename(rig, "tier")
    until(lambda: "topology dc has no level rack" in rig.condition("h-0").get("message", ""))
    rename(rig, "rack")
    until(lambda: wanted in rig.condition("h-0").get("message", ""))
    rig.must("DELETE", f"{TOPOLOGIES}/dc")
    until(lambda: "there is no topology dc" in rig.condition("h-0").get("message", ""))
