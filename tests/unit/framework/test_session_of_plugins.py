"""What plugins may touch of a session: the shipped ones touch nothing else."""

from types import SimpleNamespace

import pytest

from kaisched.engine.policy import default_policy
from kaisched.framework import cycle as cycles
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.testing.builder import policy_of
from kaisched.testing.guard import BeyondViewError, GuardedSession, open_session
from tests.laws.crowded import make_crowded
from tests.unit.framework.fakes import job, plugin, policy, store

HISTORY = {"kValue": 1, "usageDBConfig": {"clientType": "memory"}}
SLICES = {"plugins": {"time-based-fairshare": {"arguments": {"handOver": "timeSlices"}}}}


@pytest.mark.parametrize("rules", [default_policy(), policy_of(HISTORY | SLICES)])
def test_shipped_plugins_keep_to_what_is_theirs_and_decide_the_same(monkeypatch, rules):
    snapshots = [make_crowded(seed).store().snapshot() for seed in range(8)]
    plain = [run_cycle(each, None, rules, 1e3, Memory())[0].encode() for each in snapshots]
    monkeypatch.setattr(cycles, "Session", GuardedSession)
    for snapshot, expected in zip(snapshots, plain, strict=True):
        result, _ = run_cycle(snapshot, None, rules, 1e3, Memory())
        assert result.failures == ()
        assert len(list(result.records)) == len(result.records)
        assert result.encode() == expected


@pytest.mark.parametrize("name", ["ledger", "outcome", "placement", "ask", "memory", "_x"])
def test_what_is_the_hosts_is_refused_to_a_plugin(name):
    session = open_session(store(job("a")).snapshot(), policy(), 0.0)
    with pytest.raises(BeyondViewError, match=rf"session\.{name} is not for plugins"):
        getattr(session, name)


def test_nothing_of_a_session_is_set_by_a_plugin():
    session = open_session(store(job("a")).snapshot(), policy(), 0.0)
    with pytest.raises(BeyondViewError, match="plugins set nothing of a session: now_s"):
        session.now_s = 7.0


def test_a_plugin_that_reaches_beyond_is_named_like_one_that_fails(monkeypatch):
    monkeypatch.setattr(cycles, "Session", GuardedSession)
    nosy = plugin("nosy", job_gate=lambda session, action, job: session.outcome.refusal[job])
    result, _ = run_cycle(store(job("a")).snapshot(), None, policy(nosy), 0.0, Memory())
    assert [(each.plugin, each.question) for each in result.failures] == [("nosy", "job_gate")]


def test_all_that_moves_is_there_as_of_now():
    opened = GuardedSession.__mro__[1]  # the host's own, which tests may look into
    made = store(job("a", pods=2), job("b"))
    rules = policy()
    session = opened(made.snapshot(), None, rules, 0.0, Memory(), rules.questions)
    before = seen(session)
    assert session.moves == 0
    session.statement().allocate(0, 1)
    after = seen(session)
    assert session.moves > 0
    assert (before.active, after.active) == ([0, 0], [1, 0])
    assert (before.pending, after.pending) == ([2, 1], [1, 1])
    assert (before.node, after.node) == (-1, 1)
    assert (before.held, after.held) == (0, 1000)
    assert (before.state, after.state) == (0, int(session.ledger.state[0]))


def seen(session):
    return SimpleNamespace(
        active=session.podset_active_now.tolist(),
        pending=session.podset_pending_now.tolist(),
        node=int(session.node_of_task_now[0]),
        held=int(session.held_now[2, 0]),
        state=int(session.state_now[0]),
    )
