"""Whose turn it is: positions, which job is ahead, and the key that decides it."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched import Plugin, hookimpl
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.records import Because
from kaisched.framework.report.turns import Turns
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of
from tests.unit.framework.fakes import cycle, job, store

WAITS = policy_of(actions=("stalegang",))
STARTS = policy_of(actions=("allocate",))


def decided(made, policy=WAITS):
    return run_cycle(made.store().snapshot(), None, policy, 1e6, Memory())[0]


def turns_of(made, policy=WAITS):
    """Return the turns of the waiting jobs by name, and the names of all jobs by row."""
    result = decided(made, policy)
    turns, names = Turns(result), result.records.session.jobs.name
    rows = result.records.rows.tolist()
    return {names[row].removeprefix("default/"): turns.turn(row) for row in rows}, names


def one_queue():
    return ClusterBuilder().node("n0", gpu=8).queue("a", deserved=8)


def test_inside_a_queue_the_keys_of_the_plugins_decide_then_creation_then_the_name():
    made = one_queue().job("old", queue="a", priority=10).job("low", queue="a", priority=10)
    turns, names = turns_of(made.job("high", queue="a", priority=90))
    assert {name: (turn.position, turn.of) for name, turn in turns.items()} == {
        "high": (1, 3),
        "old": (2, 3),
        "low": (3, 3),
    }
    assert turns["high"].ahead is None
    assert names[turns["old"].ahead.job] == "default/high"
    assert turns["old"].ahead.because[:4] == ("priority", "priority", 10, 90)
    assert turns["old"].ahead.because.text("low") == "low has the lower priority, 10 against 90"
    assert turns["low"].ahead.because[:2] == ("", "creation")
    assert turns["low"].ahead.because.text("low") == "low was created later"


def test_of_jobs_created_at_once_the_name_decides():
    result = cycle(store(job("b"), job("a")).snapshot(), WAITS)
    assert Turns(result).turn(1).ahead is None
    (place, of, ahead, _) = Turns(result).turn(0)
    assert (place, of, ahead.job) == (2, 2, 1)
    assert ahead.because == Because("", "name", "default/b", "default/a")
    assert ahead.because.text("b") == "the name of b comes later"


def test_of_two_queues_it_is_said_which_of_them_comes_later():
    made = ClusterBuilder().node("n0", gpu=8)
    for queue in "ab":
        made.queue(queue, deserved=4).job(f"{queue}1", queue=queue)
    off = {"plugins": {name: {"enabled": False} for name in policies()}}
    result = decided(made, policy_of(off, actions=("stalegang",)))
    turns = Turns(result)
    (row,) = [row for row, name in enumerate(result.records.session.jobs.name) if "b1" in name]
    said = turns.because(row, turns.turn(row).ahead)
    assert said == "queue b was created later, or its name comes later"


class Letters(Plugin):
    """Orders sibling queues by the first letter of the names, the last one first."""

    name = "letters"

    @hookimpl
    def queue_order(self, session, queue, held, ask):
        del held, ask
        names = session.queues.name
        return (-np.array([ord(names[row][0]) for row in queue.tolist()]),)


class Named(Letters):
    def key_names(self, question):
        assert question == "queue_order"
        return ("-letter",)


class Failing(Letters):
    def key_names(self, question):
        raise RuntimeError(question)


class Saying(Named):
    def key_words(self, question):
        assert question == "queue_order"
        return ("{whose} has {own}, the other {other}",)


@pytest.mark.parametrize(
    ("plugin", "because"),
    [
        (Letters, Because("letters", "key 1", -97, -98)),
        (Named, Because("letters", "letter", 97, 98)),
        (Failing, Because("letters", "key 1", -97, -98)),
        (Saying, Because("letters", "letter", 97, 98, "{whose} has {own}, the other {other}")),
    ],
)
def test_the_first_of_a_queue_is_behind_the_head_of_the_queue_before_its_own(plugin, because):
    made = ClusterBuilder().node("n0", gpu=8)
    for queue in ("b-top", "a-top"):
        made.queue(queue, deserved=4).queue(f"{queue[0]}-leaf", parent=queue, deserved=4)
        made.job(f"{queue[0]}1", queue=f"{queue[0]}-leaf").job(
            f"{queue[0]}2", queue=f"{queue[0]}-leaf"
        )
    off = {"plugins": {name: {"enabled": False} for name in policies()}}
    turns, names = turns_of(made, policy_of(off, [plugin], actions=("stalegang",)))
    first = turns["a1"]
    assert (names[first.ahead.job], first.ahead.because) == ("default/b1", because)
    assert [(level.position, level.of) for level in first.levels] == [(1, 1), (2, 2)]
    assert {names[level.head] for level in turns["a2"].levels} == {"default/a1"}
    assert names[turns["a2"].ahead.job] == "default/a1"
    assert turns["b1"].ahead is None


def policies():
    """Return the plugins of the default policy that order queues."""
    questions = WAITS.questions
    return {*questions.answers("queue_order"), *questions.answers("head_order")}


LENDS = {"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}}
HIGH = {"fair-sharing": {"enabled": True, "arguments": {"highPriorityFrom": 100}}}


@pytest.mark.proportion
@pytest.mark.parametrize("plugins", [{}, LENDS, LENDS | HIGH])
def test_shipped_policies_name_all_their_keys(plugins):
    policy = policy_of({"plugins": plugins}, actions=("stalegang",))
    result = decided(one_queue().job("j", queue="a"), policy)
    opened, (row,) = result.records.session, np.zeros((1, 1), np.int64)
    amounts = np.zeros((len(opened.axis), 1), np.int64)
    asked = {
        "job_order": (row,),
        "queue_order": (row, amounts, amounts),
        "head_order": (row, row, amounts, amounts),
    }
    for question, arguments in asked.items():
        keys = opened.ask.named_keys(question, opened, *arguments)
        assert [key.name for key in keys if key.name.startswith("key ")] == []
        for plugin in policy.plugins:
            named = [key for key in keys if key.plugin == plugin.plugin.name]
            assert not named or len(named) == len(plugin.plugin.key_names(question))
            assert not named or len(named) == len(plugin.plugin.key_words(question))
        told = [Because(key.plugin, key.name, 1, 0, key.words).text("queue a") for key in keys]
        assert [it for it in told if "queue a" not in it or "{" in it or "(" in it] == []


def test_without_a_sentence_the_name_of_the_key_and_its_numbers_are_told():
    assert Because("letters", "letter", 97, 98).text("a") == "letter 97 against 98 (letters)"


def test_numbers_are_told_with_as_few_digits_as_show_which_is_which():
    told = "{own} against {other}"
    assert Because("p", "k", 1 / 3, 0.5, told).text("a") == "0.333 against 0.5"
    assert Because("p", "k", 1 / 3, 0.33334, told).text("a") == "0.33333 against 0.33334"
    assert Because("p", "k", None, 2, told).text("a") == "none against 2"


def test_what_takes_no_part_has_no_turn():
    made = one_queue().job("nowhere", queue="missing").job("gang", queue="a", min_tasks=2)
    made.job("plain", queue="a")
    result = decided(made)
    turns = {record.pod_group: Turns(result).document(row) for row, record in by_row(result)}
    assert [name for name, turn in turns.items() if turn] == ["default/plain"]
    assert turns["default/plain"]["of"] == 1


def by_row(result):
    return [(row, result.records.record(row)) for row in result.records.rows.tolist()]


class Broken(Plugin):
    name = "broken"

    @hookimpl
    def fair_share(self, session):
        raise RuntimeError("no shares")

    @hookimpl
    def queue_order(self, session, queue, held, ask):
        del held, ask
        return (session.fair_share[0, queue],)


@pytest.mark.parametrize("action", ["allocate", "stalegang"])
def test_without_shares_there_is_no_order(action):
    """Be it that an action needs them, or only who reads the order."""
    made = one_queue().queue("b").job("one", queue="a").job("two", queue="b")
    off = {"plugins": {name: {"enabled": False} for name in policies()}}
    result = decided(made, policy_of(off, [Broken], actions=(action,)))
    assert result.stats.abandoned
    assert [Turns(result).turn(row) for row in result.records.rows.tolist()] == [None, None]


@given(st.integers(0, 2**32).map(random.Random))
@settings(max_examples=20, deadline=None)
def test_the_job_whose_turn_is_next_is_the_first_to_start(rng):
    """One job and no other has nothing ahead of it."""
    made = ClusterBuilder().node("n0", gpu=100)
    for top in "xyz":
        made.queue(top, deserved=rng.randint(0, 9), priority=rng.randint(0, 2))
        for leaf in "pq":
            made.queue(top + leaf, parent=top, deserved=rng.randint(0, 4))
            for at in range(rng.randint(0, 3)):
                made.job(
                    f"{top}{leaf}{at}",
                    queue=top + leaf,
                    gpu=rng.randint(1, 3),
                    priority=50 + rng.randint(0, 1),
                    running={"n0": 1} if rng.random() < 0.5 else None,
                )
    turns, _ = turns_of(made)
    started = decided(made, STARTS).binds
    next_ones = [name for name, turn in turns.items() if turn.ahead is None]
    assert next_ones == [bind.pod_group.removeprefix("default/") for bind in started[:1]]


def test_where_gates_refuse_all_that_wait_nothing_has_a_place():
    made = one_queue().job("gang", queue="a", tasks=1, min_tasks=2)
    turns, _ = turns_of(made)
    assert turns == {"gang": None}
