"""Victims in an order that a plugin gives: the first that suffice, and as a whole."""

import numpy as np
import pytest

from kaisched.core.refusals import PluginRefusal
from kaisched.engine.policy import default_policy
from kaisched.framework.plugins.plugin import Plugin
from kaisched.framework.plugins.questions import hookimpl
from kaisched.testing import ClusterBuilder

STAYS = PluginRefusal("TestStays", "it stays", cure="None.")
LATER = PluginRefusal("TestLater", "it goes later", cure="None.", is_retried=True)
OUT = {name: {"enabled": False} for name in default_policy().questions.answers("fair_share")}
"""Without the policy that else decides."""


class Ordering(Plugin):
    """Lets the youngest job of any queue go first."""

    name = "ordering"
    refusals = (STAYS, LATER)
    takes_from_own_queue = True
    kept = ""
    """The name of a job without which no plan is borne out."""
    first_pass = 100
    """So many units are named in the first pass."""

    @hookimpl
    def victim_order(self, session, claim, units):
        rows = np.argsort(-session.jobs.created_s[units.job], kind="stable")
        if claim.pass_number == 0 and len(rows) > self.first_pass:
            return rows[: self.first_pass], int(LATER)
        return rows, 0

    @hookimpl
    def plan_gate(self, session, claim, units):
        names = [session.jobs.name[row] for row in units.job.tolist()]
        stays = self.kept and f"default/{self.kept}" not in names
        return np.full(len(names), int(STAYS) if stays else 0, np.int16)


def variant(**attributes):
    return type("Variant", (Ordering,), {"name": "ordering", **attributes})


def world(gpus):
    made = ClusterBuilder().node("n0", gpu=6).queue("a").queue("b")
    for at, (queue, size) in enumerate((("a", 2), ("b", 1), ("a", 1), ("b", 2))):
        made.job(f"r{at}", queue=queue, gpu=size, running={"n0": 1}, priority=60)
    return made.job("claim", queue="b", gpu=gpus)


def gone(ran):
    return sorted(name.partition("-")[0] for name in ran.evicted)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (1, ["r3"]),
        (2, ["r3"]),
        (3, ["r2", "r3"]),
        (4, ["r1", "r2", "r3"]),
        (6, ["r0", "r1", "r2", "r3"]),
    ],
)
def test_the_first_in_order_go_whosever_they_are(gpus, expected):
    ran = world(gpus).run("reclaim", plugins=[variant()], shard={"plugins": OUT})
    assert gone(ran) == expected
    assert ran.promised == {"claim-0": "n0"}


def test_what_the_claim_can_do_without_is_put_back_the_last_one_first():
    made = ClusterBuilder().node("n0", gpu=3).queue("a").queue("b")
    made.job("big", queue="a", gpu=2, running={"n0": 1}).job("small", queue="a", running={"n0": 1})
    ran = made.job("claim", queue="b", gpu=2).run(
        "reclaim", plugins=[variant()], shard={"plugins": OUT}
    )
    assert gone(ran) == ["big"]


def test_what_has_to_go_along_is_not_put_back():
    made = ClusterBuilder().node("n0", gpu=3).queue("a").queue("b")
    made.job("big", queue="a", gpu=2, running={"n0": 1}).job("small", queue="a", running={"n0": 1})
    ran = made.job("claim", queue="b", gpu=2).run(
        "reclaim", plugins=[variant(kept="small")], shard={"plugins": OUT}
    )
    assert gone(ran) == ["big", "small"]


def test_where_the_plan_gate_refuses_the_first_set_the_next_in_order_goes():
    """The youngest of all would do; without the job r1 no plan is borne out."""
    ran = world(2).run("reclaim", plugins=[variant(kept="r1")], shard={"plugins": OUT})
    assert gone(ran) == ["r1", "r3"]


def test_a_plan_that_is_not_borne_out_is_none_and_says_why():
    ran = world(2).run("reclaim", plugins=[variant(kept="none")], shard={"plugins": OUT})
    assert not ran.evicted
    (record,) = ran.result.records
    assert "it stays" in record.message


def test_who_is_left_out_for_a_reason_that_is_retried_may_go_in_the_next_pass():
    ran = world(4).run("reclaim", plugins=[variant(first_pass=1)], shard={"plugins": OUT})
    assert gone(ran) == ["r1", "r2", "r3"]


def test_without_the_word_for_it_reclaim_leaves_the_claim_s_own_queue_alone():
    ran = world(3).run(
        "reclaim", plugins=[variant(takes_from_own_queue=False)], shard={"plugins": OUT}
    )
    assert gone(ran) == ["r0", "r2"]


def test_an_elastic_pod_is_not_put_back_if_the_last_to_go_is_its_core():
    """What g has on n1 makes no room for the claim, which fits where the core was."""
    made = ClusterBuilder().node("n0", gpu=2).node("n1", gpu=1).queue("a").queue("b")
    made.job("g", queue="a", tasks=3, min_tasks=2, running={"n0": 2, "n1": 1})
    ran = made.job("claim", queue="b", gpu=2).run(
        "reclaim", plugins=[variant()], shard={"plugins": OUT}
    )
    assert sorted(ran.evicted) == ["g-0", "g-1", "g-2"]
