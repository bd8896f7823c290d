"""Every question is asked as it declares: by one guard, in the shard's order, unless promised."""

import inspect

import numpy as np
import pytest

from kaisched.core.refusals import Refusal
from kaisched.framework.plugins.asking import Questions, manager_of
from kaisched.framework.plugins.combine import CycleAbandonedError, FirstRefusal
from kaisched.framework.plugins.plugin import Plugin, PluginSetting
from kaisched.framework.plugins.questions import QUESTIONS, hookimpl
from tests.unit.framework.fakes import job, plugin, session, store

ROWS = np.arange(2)
FAILED = int(Refusal.PLUGIN_FAILED)


def opened(*plugins):
    return session(store(job("a", pods=2), job("b")).snapshot(), *plugins)


def raises(*_, **__):
    raise RuntimeError("out of order")


def failed(of):
    return [(each.plugin, each.question, each.error) for each in of.failures]


def test_what_is_declared_is_what_pluggy_asks():
    assert set(vars(manager_of(()).hook)) == set(QUESTIONS)
    for name, combine in QUESTIONS.items():
        assert combine.parameters == tuple(inspect.signature(getattr(Plugin, name)).parameters)[1:]


def test_a_question_cannot_declare_rows_that_it_is_not_asked_about():
    def question(self, session, job):
        """Has no such argument."""

    with pytest.raises(ValueError, match="tuple"):
        FirstRefusal("rows").declare(question, may_be_silent=False)


def test_answers_stand_in_the_order_of_the_shard_and_are_what_pluggy_found():
    heard = []

    def recording(name):
        return lambda **_: heard.append(name)

    shard = [plugin(name, node_filter=lambda **_: None) for name in ("m", "z", "a")]
    assert Questions(shard).answers("node_filter") == ("m", "z", "a")
    one = opened(*(plugin(it.plugin.name, node_filter=recording(it.plugin.name)) for it in shard))
    one.ask.node_filter(one, 0, ROWS)
    assert heard == ["m", "z", "a"]


def test_two_plugins_with_one_name_are_refused():
    with pytest.raises(ValueError, match="already registered"):
        Questions([plugin("x"), plugin("x")])


def test_an_inherited_question_is_no_answer_but_an_inherited_answer_is():
    class Child(type(plugin("parent", job_gate=lambda **_: None).plugin)):
        name = "child"

    questions = Questions([PluginSetting(Child(Child.Arguments()))])
    answered = [name for name in QUESTIONS if questions.answers(name)]
    assert answered == ["job_gate"]


class Odd(np.ndarray):
    """An array on which every look fails."""

    shape = property(raises)


def test_an_answer_that_cannot_even_be_looked_at_is_nonsense():
    odd = np.zeros(2, np.int16).view(Odd)
    one = opened(plugin("x", node_filter=lambda **_: odd))
    assert one.ask.node_filter(one, 0, ROWS).tolist() == [FAILED, FAILED]
    assert failed(one) == [("x", "node_filter", "RuntimeError: out of order")]


def test_a_score_out_of_range_is_asked_for_once():
    asked = []

    def too_much(rows, **_):
        asked.append(rows)
        return np.array([0.5, 2.0])

    one = opened(plugin("x", node_score=too_much))
    assert one.ask.node_score(one, 0, ROWS, ROWS).tolist() == [0.0, 0.0]
    assert failed(one) == [("x", "node_score", "answered scores outside [0, 1]")]
    assert len(asked) == 1


def test_of_what_one_plugin_refuses_the_next_hears_nothing():
    heard = []

    def refuses(taken, **_):
        heard.append(taken.tolist())
        return np.array([0, int(Refusal.QUEUE_ON_HOLD), 0], np.int16)

    one = opened(plugin("x", scenario_gate=refuses), plugin("y", scenario_gate=refuses))
    codes = one.ask.scenario_gate(one, None, range(3), np.array([False, True, True]))
    assert codes.tolist() == [0, int(Refusal.QUEUE_ON_HOLD), 0]
    assert heard == [[False, True, True], [False, False, True]]


def promising(name, question, answer, **promises):
    """Return a plugin that answers a question, with methods that promise something of it."""
    setting = plugin(name, **{question: answer})
    made = type("Promising", (type(setting.plugin),), promises)
    return PluginSetting(made(made.Arguments()))


@pytest.mark.parametrize(
    ("question", "of"), [("over_quota_weights", "weight_transform"), ("head_start", "head_start")]
)
def test_who_promises_to_be_silent_about_the_division_is_not_asked(question, of):
    silent = promising("x", question, raises, is_silent=lambda *_: True)
    assert getattr(opened(silent), of) is None
    speaks = plugin("y", **{question: lambda **_: None})
    assert getattr(opened(silent, speaks), of) is not None


@pytest.mark.parametrize(
    ("question", "of"), [("over_quota_weights", "weight_transform"), ("head_start", "head_start")]
)
def test_a_promise_about_the_division_that_fails_abandons_the_cycle(question, of):
    one = opened(promising("x", question, lambda **_: None, is_silent=raises))
    with pytest.raises(CycleAbandonedError, match=f"{question}: plugin x failed"):
        getattr(one, of)
    assert failed(one) == [("x", question, "RuntimeError: out of order")]


def test_who_promises_to_be_silent_about_moves_hears_of_none():
    heard = []

    def listens(sign, **_):
        heard.append(sign)

    silent = opened(promising("x", "on_moves", raises, is_silent=lambda *_: True))
    assert not silent.placement.listens
    silent.statement().allocate(0, 0)
    assert failed(silent) == []
    both = opened(
        promising("x", "on_moves", raises, is_silent=lambda *_: True),
        plugin("y", on_moves=listens),
    )
    both.statement().allocate(0, 0)
    assert (heard, failed(both)) == ([1], [])


def test_who_fails_to_say_whether_it_is_silent_about_moves_hears_of_them():
    heard = []
    one = opened(promising("x", "on_moves", lambda **_: heard.append(1), is_silent=raises))
    one.statement().allocate(0, 0)
    assert heard == [1]
    assert failed(one) == [("x", "on_moves", "RuntimeError: out of order")]


def test_a_weight_that_is_no_number_is_told_as_such():
    one = opened(plugin("x", over_quota_weights=lambda weights, **_: weights * np.inf))
    with pytest.raises(CycleAbandonedError, match="weights: plugin x answered nonsense"):
        one.weight_transform(ROWS, ROWS, ROWS, ROWS > 0, np.ones(2))
    assert failed(one)[0][2] == "answered a weight that is no finite number"


def test_the_state_of_a_plugin_is_there_when_the_next_one_opens():
    seen = []
    opened(
        plugin("x", session_open=lambda **_: "of x"),
        plugin("y", session_open=raises),
        plugin("z", session_open=lambda session: seen.append(dict(session.state))),
    )
    assert seen == [{"x": "of x"}]


def test_a_method_of_its_own_is_no_answer():
    class Marked(Plugin):
        name = "marked"

        @hookimpl
        def job_gate(self, session, action, job):
            return None

        def helper(self):
            return None

    questions = Questions([PluginSetting(Marked(Marked.Arguments()))])
    assert [name for name in QUESTIONS if questions.answers(name)] == ["job_gate"]
