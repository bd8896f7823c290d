"""Wherever a bug strikes in an action, the cycle is sound for all others."""

import pytest
from hypothesis import event, example, given, note
from hypothesis import strategies as st

from kaisched.actions.eviction.relocation import Relocation
from kaisched.actions.eviction.search import Search
from kaisched.framework import cycle as cycles
from kaisched.framework.containment import start_over
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.session.ledger import Ledger
from kaisched.framework.session.outcome import Outcome
from kaisched.framework.session.session import Session
from kaisched.framework.session.statement import Statement
from tests.amounts import amounts_of, assert_equal
from tests.laws.clusters import NOW_S, told
from tests.laws.crowded import crowded, make_crowded, moves_of
from tests.laws.test_eviction_laws import POLICY

PLACES = [
    (Ledger, "place_pending"),
    (Ledger, "set_state"),
    (Ledger, "relocate"),
    (Statement, "commit"),
    (Statement, "rollback"),
    (Outcome, "nominate"),
    (Outcome, "evict"),
    (Relocation, "relocate"),
    (Search, "solve"),
]


def struck(cluster, place, nth, *, for_good):
    """Run a cycle in which a method fails, its work done, at the nth call or from then on."""
    within, method = place
    right, calls, opened = getattr(within, method), [], []

    class Watched(Session):
        def __init__(self, *given):
            super().__init__(*given)
            opened.append(self)

    def wrong(self, *given, **named):
        done = right(self, *given, **named)
        if opened and opened[-1].trying:  # not while a ledger is made again
            calls.append(method)
            if len(calls) == nth or (for_good and len(calls) > nth):
                raise ZeroDivisionError
        return done

    snapshot = cluster.store().snapshot()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(within, method, wrong)
        patch.setattr(cycles, "Session", Watched)
        run = cycles.run_cycle.__wrapped__  # else every failure is a violation
        result, _ = run(snapshot, None, POLICY, NOW_S, Memory())
    return snapshot, result, opened[-1]


# Preempt brings a queue below its limit, and a job that the limit kept out has room.
@example(
    make_crowded(4294967296, nodes=3, queues=1, running=2, pending=2, most=1),
    (Ledger, "place_pending"),
    1,
    False,
)
@given(crowded, st.sampled_from(PLACES), st.integers(1, 4), st.booleans())
def test_a_bug_anywhere_leaves_a_sound_cycle(cluster, place, nth, for_good):
    note(told(cluster))
    snapshot, result, session = struck(cluster, place, nth, for_good=for_good)
    note("\n".join([*moves_of(result), *map(str, result.failures)]))
    event(f"failures {min(len(result.failures), 3)}")
    assert {each.question for each in result.failures} <= {"run"}
    broken = violations(snapshot, result, POLICY, with_records=True)
    assert [each for each in broken if not each.startswith("I24")] == []
    if session.has_moved:
        before = amounts_of(session)
        start_over(session)
        assert_equal(session, before)
