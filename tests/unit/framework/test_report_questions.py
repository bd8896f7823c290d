"""What plugins say to people: in their own words, contained when they fail, decided by nobody."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched import Change, EvictionReason, Kind, PluginRefusal, Problem, Reason
from kaisched.actions.allocate import Allocate
from kaisched.actions.reclaim import Reclaim
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.refusals import TEXTS, Refusal, code_named, text_of
from kaisched.framework.advice.search import Adviser
from kaisched.framework.invariants.sums import Moves
from kaisched.framework.invariants.violations import violations
from kaisched.framework.plugins.loader import contract_fault
from kaisched.framework.plugins.plugin import Plugin
from kaisched.testing.builder import Group, Job, Task
from tests.unit.framework.fakes import cycle, job, plugin, policy, session, store

TOO_LATE = PluginRefusal(
    "TooLate", "it came after hours", cure="Come earlier.", is_freeable=True, tried=("time",)
)


def shut(session, action, job):
    del session, action
    return np.full(len(job), int(TOO_LATE), np.int16)


def fake(**answers):
    """Return a plugin that refuses every job, with more answers."""
    made = plugin(**({"job_gate": shut} | answers))
    type(made.plugin).refusals = (TOO_LATE,)
    TOO_LATE.claim("fake")
    return made


def decided(*plugins):
    return cycle(store(job("a", gpu=1), nodes=(4,)).snapshot(), policy(*plugins))


def record(**answers):
    (found,) = decided(fake(**answers)).records
    return found


def fails(**_):
    raise RuntimeError("no words")


def test_a_refusal_reaches_people_in_the_words_of_its_plugin():
    found = record(
        refusal_reason=lambda session, action, job, code: Reason(
            f"{action}: job {job} is late", {"minutes": 5, "code": code == TOO_LATE}
        )
    )
    assert (found.reason, found.plugin) == ("TooLate", "fake")
    assert found.message == "allocate: job 0 is late"
    assert found.numbers == {"minutes": 5, "code": True}


def test_without_words_for_the_case_the_sentence_of_the_refusal_stands():
    assert record().message == "it came after hours"
    assert record(refusal_reason=lambda **_: None).message == "it came after hours"


@pytest.mark.fault("G106")
@pytest.mark.parametrize("answer", [fails, lambda **_: "a word"])
def test_a_plugin_that_fails_at_its_words_is_named_in_them(answer):
    found = record(refusal_reason=answer)
    assert found.message == "it came after hours (plugin fake failed to say more)"


@pytest.mark.fault("G106")
@pytest.mark.parametrize(
    ("answer", "more"), [(lambda **_: "by 3", " (by 3)"), (fails, ""), (lambda **_: 7, "")]
)
def test_what_a_plugin_says_of_nodes_that_it_refuses(answer, more):
    refused = np.int16(Refusal.HOST_PORT)
    each = plugin(node_filter=lambda rows, **_: np.full(len(rows), refused), node_reason=answer)
    (found,) = decided(each).records
    assert [it.detail for it in found.node_misses] == [f"host port is in use{more}"]


def test_codes_are_counted_by_the_names_of_plugins():
    assert decided(fake()).records.counts() == {"TooLate": 1}


def test_what_a_plugin_proposes_is_tried_before_it_is_said():
    change = Kind.TIME, (Change("default/a", amount=60),)
    (found,) = Adviser(decided(fake(proposals=lambda **_: [change]))).records()
    assert [(it.kind, it.helps) for it in found.advice] == [(Kind.TIME, False)]
    assert found.message.endswith("would not be enough by itself: 60 s of waiting")


@pytest.mark.fault("G106")
def test_a_plugin_that_fails_at_proposals_proposes_nothing():
    (found,) = Adviser(decided(fake(proposals=fails))).records()
    assert found.advice == ()


def test_problems_of_queues_are_the_first_plugins():
    one = plugin("one", queue_problems=lambda session: {0: Problem("First", "one says so")})
    two = plugin("two", queue_problems=lambda session: {0: Problem("Second", "two does")})
    (share,) = decided(one, two).shares
    assert share.problem == ("First", "one says so")
    (share,) = decided(plugin(queue_problems=fails), two).shares
    assert share.problem == ("Second", "two does")
    assert decided().shares[0].problem is None


@pytest.mark.parametrize("nonsense", [fails, 7, {"share": 0.5}, {"share": np.zeros(9)}, {1: None}])
def test_figures_of_queues_are_the_first_plugins_that_makes_sense(nonsense):
    two = plugin("two", queue_figures=lambda session: {"share": np.full(len(session.queues), 0.5)})
    answer = nonsense if nonsense is fails else lambda **_: nonsense
    (share,) = decided(plugin(queue_figures=answer), two).shares
    assert share.figures == {"share": 0.5}
    assert decided().shares[0].figures == {}


def test_the_rules_of_plugins_are_looked_at():
    rules = policy(plugin(broken_rules=lambda moves: [f"X1 {moves.result.stats.jobs_placed}"]))
    snapshot = store(job("a", gpu=1), nodes=(4,)).snapshot()
    result = cycle(snapshot, replace(rules, plugins=()))
    assert violations(snapshot, result, rules) == ["X1 1"]
    assert isinstance(Moves(snapshot, result).placed, np.ndarray)


@pytest.mark.parametrize(
    ("answer", "said", "failed"),
    [
        (lambda job, **_: job == 1, [False, True], False),
        (lambda **_: None, [False, False], False),
        (fails, [False, False], True),
        (lambda **_: np.array([1.0, 2.0]), [False, False], True),
    ],
)
def test_what_is_guaranteed_is_what_any_plugin_says(answer, said, failed):
    opened = session(store(job("a"), job("b")).snapshot(), plugin(is_guaranteed=answer))
    jobs, ask = np.arange(2), np.zeros((len(opened.axis), 2), np.int64)
    assert opened.ask.is_guaranteed(opened, jobs, ask).tolist() == said
    assert bool(opened.failures) == failed


def wrong(_):
    raise RuntimeError("no words")


def evictions(**answers):
    """Return those of a cycle in which a job of queue b takes what one of queue a holds."""
    holds = Task("r-0", {"gpu": 4000}, state=TaskState.RUNNING, node="n0")
    made = store(
        Job("r", "a", (holds,), root=Group("default", 1)),
        job("w", queue="b", gpu=4),
        nodes=(4,),
        queues=(QueueRow("a"), QueueRow("b", quota={"gpu": 4000})),
    )
    fake = plugin(**answers)
    type(fake.plugin).eviction_kinds = ("by_weight",)
    rules = replace(policy(fake), actions=(Allocate(), Reclaim()))
    return list(cycle(made.snapshot(), rules).evictions)


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ({0: "by_weight"}, "by_weight"),
        ({1: "by_weight"}, "reclaim"),
        ({0: "of_no_plugin"}, "reclaim"),
        ("no dictionary", "reclaim"),
    ],
)
def test_an_eviction_names_both_queues_and_what_entitles_the_claim(kinds, kind):
    (one,) = evictions(eviction_reason=lambda **_: lambda _: EvictionReason("because", kinds))
    assert (one.queue, one.beneficiary_queue, one.kind) == ("a", "b", kind)


def test_an_eviction_is_told_by_the_policy_or_by_the_host():
    def reasons(**answers):
        return [each.reason for each in evictions(**answers)]

    assert reasons() == ["reclaim for default/w of queue b, from queue a"]
    assert reasons(eviction_reason=lambda **_: lambda _: "because") == ["because"]
    failed = "evicted (the policy failed to say why: RuntimeError: no words)"
    assert reasons(eviction_reason=lambda **_: wrong) == [failed]
    assert reasons(eviction_reason=fails) == reasons()


def test_a_code_that_nobody_has_declared_has_the_words_of_a_plugin_without():
    assert text_of(31_000) == TEXTS[Refusal.PLUGIN]
    assert text_of(int(TOO_LATE)) is TOO_LATE.text
    assert code_named("NoRoom") == Refusal.NO_ROOM
    assert code_named("TooLate", "nobody") == 0


def test_refusals_that_cannot_be_told_apart_are_refused_at_load():
    class Same(Plugin):
        name = "same"
        refusals = ()

    Same.refusals = (PluginRefusal("NoRoom", "no", cure="None."),)
    assert contract_fault(Same, "same").endswith("NoRoom has the name of one that the host has")
    twice = [PluginRefusal("Twice", "no", cure="None.") for _ in range(2)]
    Same.refusals = tuple(twice)
    assert contract_fault(Same, "same") == "it lists two refusals called Twice"
    Same.refusals = ["no"]
    assert contract_fault(Same, "same").startswith("its refusals are not a tuple")
    TOO_LATE.claim("fake")
    with pytest.raises(ValueError, match="TooLate is listed by plugin fake too"):
        TOO_LATE.claim("another")
