"""Plugin kit: it accepts plugins that keep the promises and names broken promises."""

from typing import ClassVar

import numpy as np
import pytest

from kaisched import Arguments, Plugin, hookimpl
from kaisched.errors import ConfigError
from kaisched.framework.plugins.loader import installed_plugins
from kaisched.testing import check_plugin

INSTALLED = [
    entry for entry in installed_plugins().by_name.values() if entry.distribution == "kaisched"
]


class Fine(Plugin):
    """Scores by row, in [0, 1]."""

    name = "fine"

    class Arguments(Arguments):
        """How steep."""

        factor: float = 1.0

    @hookimpl
    def node_score(self, session, shape, rows, extra):
        return np.clip(rows * self.arguments.factor / 100, 0, 1)

    @hookimpl
    def job_order(self, session, job):
        return (-session.jobs.priority[job],)


def broken(question, answer, **attributes):
    """Make a plugin that answers one question with a function of the hook's arguments."""
    return type("Broken", (Plugin,), {"name": "broken", question: hookimpl(answer), **attributes})


def too_large(self, session, shape, rows, extra):
    return rows + 2.0


def of_integers(self, session, shape, rows, extra):
    return np.zeros(len(rows), np.int64)


def of_all_nodes(self, session, shape, rows, extra):
    return np.zeros(len(session.nodes))


def normalised(self, session, shape, rows, extra):
    return rows / max(rows.max(initial=0), 1)


def nan(self, session, shape, rows, extra):
    return np.full(len(rows), np.nan)


def counting(self, session, shape, rows, extra):
    self.calls = getattr(self, "calls", 0) + 1
    return np.full(len(rows), min(self.calls / 1000, 1.0))


def writing(self, session, shape, rows, extra):
    rows[:] = 0
    return np.zeros(len(rows))


def falling(self, session, shape, rows, extra):
    return np.maximum(1.0 - extra / 10, 0.0)


def into_amounts(self, session, shape, rows, extra):
    if session.moves:
        session.held_now[0] += 1
    return np.zeros(len(rows))


def behind_the_view(self, session, shape, rows, extra):
    return session.placement.free_capacity(shape).room[rows].astype(float)


def into_the_session(self, session, shape, rows, extra):
    session.total = None
    return np.zeros(len(rows))


@pytest.mark.parametrize("entry", INSTALLED, ids=lambda entry: entry.name)
def test_every_shipped_plugin_passes(entry):
    check_plugin(entry.plugin)


def test_a_plugin_that_keeps_the_promises_passes():
    check_plugin(Fine, {"factor": 2})


def test_arguments_that_do_not_fit_are_the_shard_s_error():
    with pytest.raises(ConfigError):
        check_plugin(Fine, {"faktor": 2})


@pytest.mark.fault("G109")
@pytest.mark.fault("G112")
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (too_large, "node_score: an answer outside"),
        (nan, "node_score: an answer outside"),
        (of_integers, "node_score: it answered int64, not an array of kind 'f'"),
        (of_all_nodes, "node_score: a row's answer depends on the other rows"),
        (normalised, "node_score: a row's answer depends on the other rows"),
        (counting, "node_score: asked twice, it answers differently"),
        (counting, "an instance holds more than its arguments"),
        (writing, "node_score: it wrote to its arguments"),
        (into_amounts, "something wrote to the session"),
        (behind_the_view, "session.placement is not for plugins"),
        (into_the_session, "plugins set nothing of a session: total"),
    ],
)
def test_a_score_that_breaks_a_promise_is_named(answer, told):
    with pytest.raises(AssertionError, match=told.replace("[", r"\[")):
        check_plugin(broken("node_score", answer))


def test_a_false_promise_of_rising_scores_is_named():
    check_plugin(broken("node_score", falling))
    with pytest.raises(AssertionError, match="promises rising scores"):
        check_plugin(broken("node_score", falling, is_score_rising=True))


@pytest.mark.parametrize(
    ("question", "answer", "told"),
    [
        ("job_order", lambda self, session, job: job, "not a tuple of key columns"),
        ("batch_size", lambda self, session, job: np.full(len(job), -1), "outside"),
        ("fair_share", lambda self, session: np.zeros(3), "fair_share: not an int64 array"),
        (
            "fair_share",
            lambda self, session: np.full((len(session.axis), len(session.queues)), -1),
            "a share below 0",
        ),
        (
            "over_quota_weights",
            lambda self, session, resource, queue, group, active, weights: weights * np.inf,
            "no finite number",
        ),
        ("session_close", lambda self, session: {1: 2}, "change on their way through JSON"),
        ("session_close", lambda self, session: object(), "JSON cannot hold"),
        ("next_batch", lambda self, session, job: np.zeros(2, np.int64), "not a set of pending"),
        ("on_moves", lambda self, session, task, node, sign: 3, "not a pair of arrays"),
    ],
)
def test_other_answers_that_break_a_promise_are_named(question, answer, told):
    with pytest.raises(AssertionError, match=told):
        check_plugin(broken(question, answer))


def test_what_the_loader_would_refuse_is_refused_here_too():
    class Nameless(Plugin):
        """Answers a question with another signature."""

        name: ClassVar[str] = "nameless"

        @hookimpl
        def node_score(self, session):
            return None

    with pytest.raises(AssertionError, match="node_score"):
        check_plugin(Nameless)


def test_a_plugin_that_names_its_keys_names_each_of_them():
    def two_keys(self, session, job):
        return -session.jobs.priority[job], session.jobs.created_s[job]

    with pytest.raises(AssertionError, match="job_order: it names 1 keys, and answers 2"):
        check_plugin(broken("job_order", two_keys, key_names=lambda *_: ("-priority",)))
    check_plugin(broken("job_order", two_keys, key_names=lambda *_: ("-priority", "creation")))
