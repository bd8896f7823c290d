"""Comparing the heads of queues job by job hands out what predicting their sequences does."""

import pytest
from hypothesis import given, settings

from kaisched.actions.order import stepwise
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S
from tests.laws.crowded import crowded, make_crowded

NEVER = 1 << 30


def decided(cluster, few):
    """Return what a cycle decides that takes up to so many free places for few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepwise, "FEW", few)
        patch.setattr(stepwise, "FEW_OF_QUEUES", NEVER)
        snapshot = cluster.store().snapshot()
        return run_cycle(snapshot, None, default_policy(), NOW_S, Memory())[0].encode()


BEGIN = stepwise.Contest.__init__


def forgetful(self, *arguments):
    """Make a contest that keeps no keys."""
    BEGIN(self, *arguments)
    self._is_kept = False


@given(crowded)
@settings(max_examples=10)
def test_heads_are_handed_out_in_the_order_of_predictions(cluster):
    assert decided(cluster, 0) == decided(cluster, NEVER)


@given(crowded)
@settings(max_examples=10)
def test_keys_that_are_kept_are_those_that_plugins_would_answer(cluster):
    """Asking about every queue before every choice gives the same bytes."""
    kept = decided(cluster, NEVER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepwise.Contest, "__init__", forgetful)
        assert decided(cluster, NEVER) == kept


def test_few_queues_are_asked_about_again(monkeypatch):
    """The law above would be empty if nothing was kept."""
    asked = []

    def ask(self, level, rows, *more):
        asked.append((len(rows), len(level.rows)))
        return method(self, level, rows, *more)

    method = stepwise.Contest._ask
    monkeypatch.setattr(stepwise.Contest, "_ask", ask)
    for seed in range(5):
        decided(make_crowded(seed, nodes=6, queues=6, running=2, pending=15), NEVER)
    assert sum(some < every for some, every in asked) > 5
