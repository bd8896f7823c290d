"""Fair sharing: which waiting jobs count as those that would start if a plan made room for them."""

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kaisched import Constraints, PodTerm, SpreadRule, Toleration
from kaisched.core.constraints import Preferences
from kaisched.framework.memory import Memory
from kaisched.framework.session.session import Session
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import NOW_S, policy_of
from kaisched_plugins.fair_sharing.plans import _CONSTRAINTS, waiting_of

WEB = PodTerm("zone", ("default",), False, ())
NO_LIMIT = {
    "flavor_keys": "a part of the node selector",
    "tolerations": "they open nodes",
    "preferences": "nobody waits for them",
    "label_set": "what others say of it",
    "claims": "amounts count them",
    "claimed_milli": "an amount",
    "devices": "amounts count them",
}
"""What of a pod's constraints leaves it where amounts would."""


def waiting(**constraints):
    builder = ClusterBuilder().queue("q").node("n0", gpu=8)
    builder.job("a", queue="q", constraints=Constraints(**constraints))
    policy = policy_of(actions=["allocate"])
    snapshot = builder.store().snapshot()
    session = Session(snapshot, None, policy, NOW_S, Memory(), policy.questions)
    table: Any = SimpleNamespace(home=np.arange(len(session.queues.name)))
    return [
        job for found in waiting_of(session, table).values() for each in found for job in each.jobs
    ]


@pytest.mark.parametrize(
    "limit",
    [
        {"spread": (SpreadRule(WEB, 1),)},
        {"pod_affinity": (WEB,)},
        {"node_selector": (("a", "b"),)},
        {"host_ports": (("TCP", "", 80),)},
    ],
)
def test_a_job_that_may_fit_nowhere_is_left_out(limit):
    assert waiting(**limit) == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tolerations": (Toleration("", "Exists", "", ""),)},
        {"preferences": Preferences(spread=(SpreadRule(WEB, 1),))},
    ],
)
def test_any_other_counts(more):
    assert waiting(**more) == [0]


def test_each_constraint_is_one_or_the_other():
    names = {each.name for each in fields(Constraints)}
    assert {*_CONSTRAINTS, *NO_LIMIT} == names
    assert not {*_CONSTRAINTS} & {*NO_LIMIT}
