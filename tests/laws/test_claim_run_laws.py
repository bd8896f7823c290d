"""Claims that are carried out in a run: the same bytes as one by one, and only where promised."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched import Plugin, hookimpl
from kaisched.actions.eviction.claim_runs import ClaimRuns
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.registry import PluginSetting
from tests.laws.clusters import NOW_S
from tests.laws.queued import make_queued

POLICY = default_policy()
RUNS = (19, 20, 32, 36)
"""Clusters in which claims of reclaim and preempt make runs, some of them cut short."""
NO_RUNS = (5, 82, 434)
"""Clusters in which it takes a close look to see that claims are none: a unit leaves room for two
pods, there is room before, or one unit holds more than another."""


class Silent(Plugin):
    """Refuses no claim, but promises nothing."""

    name = "silent"

    @hookimpl
    def claim_gate(self, session, action, job, ask):
        return None


def decided(seed, policy=POLICY):
    """Return all that two cycles decide, with every sentence about evictions."""
    snapshot, memory, told = make_queued(seed).store().snapshot(), Memory(), []
    for number in range(2):
        result, memory = run_cycle(snapshot, None, policy, NOW_S + number, memory)
        outcome = result.records.session.outcome
        told.append([result.bind_tasks.tolist(), result.bind_nodes.tolist()])
        told.append([result.nominate_tasks.tolist(), result.nominate_nodes.tolist()])
        told.append([repr(eviction) for eviction in result.evictions])
        told.append([repr(step) for step in outcome.steps])
        told.append([outcome.refusal.tolist(), repr(outcome.claims)])
        told.append([repr(record) for record in result.records])
        told.append(repr(memory.facts))
        told.append(repr(result.failures))
    return told


@pytest.fixture
def claims(monkeypatch):
    """Count the claims that were carried out in runs."""
    carry_out, counted = ClaimRuns.carry_out, []

    def counting(self, ahead, victim_list):
        done = carry_out(self, ahead, victim_list)
        counted.append(len(done))
        return done

    monkeypatch.setattr(ClaimRuns, "carry_out", counting)
    return counted


@pytest.mark.proportion
@pytest.mark.parametrize("seed", RUNS + NO_RUNS)
def test_claims_in_a_run_get_what_they_would_get_one_by_one(seed, claims, monkeypatch):
    together = decided(seed)
    assert (sum(claims) > 0) == (seed in RUNS)
    monkeypatch.setattr(ClaimRuns, "carry_out", lambda *_: np.empty(0, np.int64))
    assert decided(seed) == together


@pytest.mark.proportion
def test_a_plugin_that_promises_nothing_judges_every_claim_by_itself(claims):
    first = RUNS[0]
    told = decided(first)
    assert sum(claims) > 0
    claims.clear()
    policy = replace(
        POLICY, plugins=(*POLICY.plugins, PluginSetting(Silent(Silent.Arguments()), 1))
    )
    assert decided(first, policy) == told
    assert claims
    assert sum(claims) == 0
