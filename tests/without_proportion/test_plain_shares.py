"""Plain shares, in place of proportion where that is deleted: a sound plugin, and its rules."""

from kaisched.engine.policy import default_policy
from kaisched.framework.plugins.loader import answered_questions
from kaisched.testing import ClusterBuilder, check_plugin
from tests.without_proportion.plain_shares import PlainShares

SHARD = {
    "plugins": {
        each.plugin.name: {"enabled": each.plugin.name == PlainShares.name}
        for each in default_policy().plugins
        if "fair_share" in answered_questions(type(each.plugin))
    }
}
"""Nobody else divides."""


def run(cluster):
    return cluster.run("reclaim", shard=SHARD, plugins=[PlainShares])


def full(**queue):
    """Return a cluster of 4 GPUs that are all held by queue a."""
    cluster = ClusterBuilder().node("n0", gpu=4).queue("a", **queue).queue("b", deserved=2)
    for number in range(4):
        cluster.job(f"a{number}", queue="a", running={"n0": 1})
    return cluster


def test_it_keeps_the_contract_of_plugins():
    check_plugin(PlainShares)


def test_a_queue_takes_up_to_its_quota_what_others_hold_above_theirs():
    ran = run(full(deserved=2).job("b0", queue="b", tasks=2).job("b1", queue="b"))
    assert ran.evicted == {"a3-0": "n0", "a2-0": "n0"}
    assert ran.promised == {"b0-0": "n0", "b0-1": "n0"}


def test_nobody_falls_below_its_quota():
    ran = run(full(deserved=3).job("b0", queue="b", tasks=2))
    assert ran.evicted == {}
