"""Histograms of the domains that gangs with a topology constraint use."""

from prometheus_client import generate_latest

from kaisched.core.tables import TopologyConstraint
from kaisched.telemetry.metrics import CycleCollector, registry_of
from kaisched.telemetry.published import BOUNDS, Published, Spread
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group

RACK = TopologyConstraint("t", "", "rack")


def cluster(*, unlabelled=False):
    """Zone z of racks A and B with two nodes each of one GPU."""
    builder = ClusterBuilder().topology("t", "zone", rack="example.com/rack").queue("a")
    for name in ("A1", "A2", "B1", "B2"):
        labels = {"zone": "z", "example.com/rack": name[0]}
        builder.node(name, gpu=1, labels={} if unlabelled and name[0] == "B" else labels)
    return builder


def told(builder, before=None):
    """Run a cycle; return the starts and the sum of domains by level."""
    ran = builder.run("allocate")
    published = (before or Published()).with_starts(ran.snapshot, ran.result)
    return published, {key: (sum(it.counts), it.total) for key, it in published.domains.items()}


def test_a_gang_that_starts_counts_once_for_each_level():
    _, spread = told(cluster().job("a1", queue="a", tasks=3, topology=RACK))
    assert spread == {("t", "zone"): (1, 1), ("t", "rack"): (1, 2)}


def test_the_constraint_of_a_subgroup_counts_too():
    leaves = (Group("x", 2, topology=RACK), Group("y", 2, topology=RACK))
    parts = {"groups": Group("", None, leaves), "podsets": ("x", "x", "y", "y")}
    _, spread = told(cluster().job("a1", queue="a", tasks=4, **parts))
    assert spread["t", "rack"] == (1, 2)


def test_who_asks_for_no_domain_or_is_alone_or_only_grows_does_not_count():
    builder = cluster().job("a1", queue="a", tasks=2).job("a2", queue="a", topology=RACK)
    _, spread = told(builder)
    assert spread["t", "rack"] == (0, 0)
    grows = cluster().job("a1", queue="a", tasks=4, min_tasks=1, running={"A1": 1}, topology=RACK)
    _, spread = told(grows)
    assert spread["t", "rack"] == (0, 0)


def test_nodes_without_labels_are_one_domain_more():
    _, spread = told(cluster(unlabelled=True).job("a1", queue="a", tasks=4, topology=RACK))
    assert spread == {("t", "zone"): (1, 2), ("t", "rack"): (1, 2)}


def test_starts_add_up_and_a_topology_that_is_gone_is_forgotten():
    gang = cluster().job("a1", queue="a", tasks=3, topology=RACK)
    published, _ = told(gang)
    published, spread = told(gang, published)
    assert spread["t", "rack"] == (2, 4)
    _, spread = told(ClusterBuilder().topology("u", "rack").queue("a"), published)
    assert spread == {("u", "rack"): (0, 0)}


def test_a_scrape_shows_cumulated_buckets():
    spread = Spread().plus(1).plus(3).plus(BOUNDS[-1] + 1)
    collector = CycleCollector()
    collector.publish(Published(domains={("t", "rack"): spread}))
    lines = set(generate_latest(registry_of(collector)).decode().splitlines())
    name, labels = "kaisched_topology_domains", 'level="rack",topology="t"'
    assert lines >= {
        f'{name}_bucket{{le="1.0",{labels}}} 1.0',
        f'{name}_bucket{{le="2.0",{labels}}} 1.0',
        f'{name}_bucket{{le="3.0",{labels}}} 2.0',
        f'{name}_bucket{{le="64.0",{labels}}} 2.0',
        f'{name}_bucket{{le="+Inf",{labels}}} 3.0',
        f"{name}_count{{{labels}}} 3.0",
        f"{name}_sum{{{labels}}} 69.0",
    }
