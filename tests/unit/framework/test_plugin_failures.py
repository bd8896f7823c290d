"""A plugin that raises or answers nonsense is contained and named, whatever the question."""

from dataclasses import replace

import numpy as np
import pytest

from kaisched.actions.allocate import Allocate
from kaisched.actions.reclaim import Reclaim
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.core.constraints import Constraints, PodTerm
from kaisched.core.devices import DeviceDemand
from kaisched.engine.policy import default_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.questions import QUESTIONS
from kaisched.testing.builder import Group, Job, Task
from tests.unit.framework.fakes import cycle, job, placed, plugin, policy, store, with_default

ELSEWHERE = {
    "workloads",  # see test_workload_rows.py
    "is_guaranteed",  # and test_report_questions.py
    "refusal_reason",
    "node_reason",
    "proposals",
    "queue_problems",
    "queue_figures",
    "broken_rules",
}
ASKED = [name for name in QUESTIONS if name not in ELSEWHERE]
DIVISION = {"fair_share", "head_start", "over_quota_weights"}
ANYTHING_GOES = {"session_open", "session_close"}
ALONG = {"plan_gate": {"victim_order": lambda units, **_: (np.arange(len(units)), 0)}}
"""Questions that are asked where another one is answered."""


def raises(**_):
    raise RuntimeError("out of order")


def rows_of(arguments):
    for name in ("job", "queue", "task", "rows", "active", "level"):
        if isinstance(arguments.get(name), np.ndarray):
            return len(arguments[name])
    return 1


def columns(question, array):
    return (array,) if question.endswith("_order") else array


NONSENSE = {
    "raises": lambda _: raises,
    "a word": lambda _: lambda **_: "nonsense",
    "a number": lambda _: lambda **_: 7,
    "too long": lambda question: (
        lambda **given: columns(question, np.zeros(rows_of(given) + 1, np.int64))
    ),
    "NaN": lambda question: lambda **given: columns(question, np.full(rows_of(given), np.nan)),
    "words": lambda question: lambda **given: columns(question, np.full(rows_of(given), "x")),
}


PART = Task("part-0", {"gpu": 0}, Constraints(devices=DeviceDemand(500_000)))
NEAR = Task(
    "near-0", {"gpu": 1000}, Constraints(pod_affinity=(PodTerm("zone", ("ns",), False, ()),))
)
SHARES = {
    "spreads_shares": (Job("part", "r", (PART,), root=Group("default", 1)),),
    "node_domains": (Job("near", "r", (NEAR,), root=Group("default", 1)),),
}
"""Jobs without which a question is not asked."""


def world(*more):
    """A world in which every question is asked, those about victims included.

    Queue o holds a node beyond its share, which a job of queue claims needs as a whole.
    """
    parts = Group("root", None, (Group("x", 1), Group("y", 1)))
    tasks = (Task("s-0", {"gpu": 1000}, podset="x"), Task("s-1", {"gpu": 2000}, podset="y"))
    mixed = (Task("m-0", {"gpu": 1000}), Task("m-1", {"gpu": 2000}))
    runs = [Task(f"o-{at}", {"gpu": 1000}, state=TaskState.RUNNING, node="n2") for at in range(8)]
    return store(
        *(Job(task.name, "o", (task,), root=Group("default", 1)) for task in runs),
        job("c", "claims", gpu=8),
        job("a", "q", pods=3, minimum=2),
        job("b", "r"),
        Job("s", "q", tasks, root=parts),
        Job("m", "r", mixed, root=Group("default", 2)),
        *more,
        job("huge", "r", gpu=3, pods=9, minimum=9),
        nodes=(4, 4, 8),
        queues=(
            *(QueueRow(name, quota={"gpu": 0}) for name in "oqr"),  # all they get is surplus
            QueueRow("claims", quota={"gpu": 8000}),
        ),
    ).snapshot()


@pytest.mark.fault("G106")
@pytest.mark.fault("G108")
@pytest.mark.parametrize(
    ("question", "nonsense"),
    [
        (question, nonsense)
        for question in ASKED
        for nonsense in NONSENSE
        if question not in ANYTHING_GOES or nonsense == "raises"
    ],
)
def test_nonsense_is_contained_and_named(question, nonsense):
    """The cycle ends with a result that can be read, and says which plugin failed at what."""
    answers = {**ALONG.get(question, {}), question: NONSENSE[nonsense](question)}
    rules = replace(with_default(plugin(**answers)), actions=(Allocate(), Reclaim()))
    result = cycle(world(*SHARES.get(question, ())), rules)
    result.encode()
    named = {(failure.plugin, failure.question) for failure in result.failures}
    assert ("fake", question) in named
    assert bool(result.stats.abandoned) == (question in DIVISION)


@pytest.mark.parametrize(
    "ahead",
    [-1, 10**9, 12_000],
    ids=["less than none", "more than is wanted", "more than there is"],
)
def test_a_head_start_that_cannot_be_is_nonsense(ahead):
    result = cycle(world(), with_default(plugin(head_start=lambda queue, **_: queue * 0 + ahead)))
    assert result.stats.abandoned == "head start: plugin fake answered nonsense"


@pytest.mark.fault("G106")
@pytest.mark.parametrize("question", sorted(DIVISION))
def test_a_failed_division_abandons_the_cycle(question):
    """No intents, every pending job says why, and the facts of before are kept."""
    rules = with_default(plugin(**{question: raises, "session_close": lambda **_: "new"}))
    before = Memory({"fake": "old"}, {"free_capacity": "anything"})
    result, after = run_cycle(world(), None, rules, 0.0, before)
    assert (len(result.binds), len(result.nominations), len(result.evictions)) == (0, 0, 0)
    assert {record.reason for record in result.records} == {"PluginFailed"}
    assert len(result.records) == 6
    assert all("abandoned" in record.message for record in result.records)
    assert after.facts == {"fake": "old"}
    assert after.hints == {}


class AsksLate:
    """An action that needs the division after others have placed pods."""

    name = "late"

    def run(self, session):
        assert session.fair_share is not None


def test_what_was_placed_before_the_cycle_was_abandoned_is_taken_back():
    """The result tells of the snapshot alone: nothing is held, and the job is pending again."""
    rules = policy(plugin(fair_share=raises), actions=(Allocate(), AsksLate()))
    result = cycle(store(job("a")).snapshot(), rules)
    assert result.stats.abandoned
    assert len(result.binds) == 0
    assert [record.pod_group for record in result.records] == ["default/a"]
    assert result.shares[0].allocated["gpu"] == 0


@pytest.mark.parametrize("nonsense", ["raises", "a word", "too long", "NaN"])
@pytest.mark.parametrize("question", sorted(DIVISION))
def test_a_division_that_no_action_asks_for_fails_in_the_cycle(question, nonsense):
    """Reports ask for the shares: by then it would be too late to name the plugin."""
    rules = with_default(plugin(**{question: NONSENSE[nonsense](question)}))
    result = cycle(world(), replace(rules, actions=()))
    named = {(failure.plugin, failure.question) for failure in result.failures}
    assert named == {("fake", question)}
    assert result.stats.abandoned
    assert result.shares[0].fair_share["gpu"] == 0
    result.encode()


def test_a_cycle_of_our_plugins_divides_only_if_somebody_asks():
    rules = replace(default_policy(), actions=())
    result, _ = run_cycle.__wrapped__(world(), None, rules, 0.0, Memory())  # the check would ask
    session = result.records.session
    assert "fair_share" not in session.__dict__
    assert result.shares[0].fair_share["gpu"] == 8000


def test_a_failed_division_inside_another_answer_abandons_too():
    """A score that rests on fair shares cannot count as neutral when these fail."""

    def score(session, rows, **_):
        return np.zeros(len(rows)) + session.fair_share.sum()

    rules = policy(plugin("divides", fair_share=raises), plugin("scores", node_score=score))
    result = cycle(store(job("a")).snapshot(), rules)
    assert result.stats.abandoned
    assert {failure.plugin for failure in result.failures} == {"divides"}


@pytest.mark.fault("G108")
@pytest.mark.parametrize("code", [-1, 7777, 65536])
def test_a_number_that_is_no_refusal_closes_the_gate(code):
    """65536 cut to 16 bits would be 0, which opens it."""

    def gate(job, **_):
        return np.full(len(job), code)

    result = cycle(store(job("a")).snapshot(), with_default(plugin(job_gate=gate)))
    assert placed(result) == {}
    assert [(each.reason, each.plugin) for each in result.records] == [("PluginFailed", "fake")]


@pytest.mark.fault("G106")
def test_a_failed_filter_closes_all_nodes():
    result = cycle(store(job("a")).snapshot(), with_default(plugin(node_filter=raises)))
    assert placed(result) == {}
    assert [miss.reason for miss in result.records[0].node_misses] == ["PluginFailed"]


def test_a_failed_room_is_no_room():
    result = cycle(store(job("a")).snapshot(), with_default(plugin(node_room=raises)))
    assert placed(result) == {}


def test_room_for_fewer_than_no_pods_is_no_room():
    result = cycle(
        store(job("a")).snapshot(),
        with_default(plugin(node_room=lambda rows, **_: np.full(len(rows), -3))),
    )
    assert placed(result) == {}
    assert result.failures[0].question == "node_room"


@pytest.mark.fault("G106")
def test_a_failed_score_is_neutral():
    """The other plugins' scores decide, as if it were not there."""
    rules = with_default(plugin(weight=1e6, node_score=raises))
    snapshot = store(job("a"), nodes=(4, 2)).snapshot()
    assert placed(cycle(snapshot, rules)) == placed(cycle(snapshot)) == {"a-0": "n1"}


@pytest.mark.fault("G106")
def test_a_failed_order_is_left_out():
    snapshot = store(job("a"), job("b", priority=75), nodes=(1,)).snapshot()
    assert placed(cycle(snapshot, with_default(plugin(job_order=raises)))) == {"b-0": "n0"}


@pytest.mark.parametrize("size", [-1, 5])
def test_a_batch_that_cannot_be_is_the_next_plugins_question(size):
    """Neither fewer than no pods nor more than wait: the gang plugin answers instead."""
    wrong = plugin(batch_size=lambda job, **_: np.full(len(job), size))
    result = cycle(store(job("a", pods=2, minimum=2)).snapshot(), with_default(wrong))
    assert sorted(placed(result)) == ["a-0", "a-1"]
    assert result.failures[0].question == "batch_size"


@pytest.mark.parametrize("rows", [[0, 0], [4], [-1], [99]])
def test_a_batch_of_other_pods_is_the_next_plugins_question(rows):
    """Rows twice, of another job, of no task at all: the gang plugin answers instead."""
    parts = Group("root", None, (Group("x", 1), Group("y", 1)))
    tasks = tuple(Task(f"s-{x}", {"gpu": 1000}, podset=x) for x in "xy")
    snapshot = store(Job("s", "q", tasks, root=parts), job("other", pods=3)).snapshot()
    rules = with_default(plugin(next_batch=lambda **_: np.array(rows)))
    result = cycle(snapshot, rules)
    assert {"s-x", "s-y"} <= set(placed(result))
    assert ("fake", "next_batch") in {(each.plugin, each.question) for each in result.failures}


def test_a_listener_that_fails_makes_every_filter_be_asked_again():
    """What its silence hides is unknown, so nothing known of nodes is kept."""
    asked = []

    def node_filter(rows, **_):
        asked.append(len(rows))

    rules = policy(plugin("a", on_moves=raises), plugin("b", node_filter=node_filter))
    cycle(store(job("a", pods=3, minimum=1)).snapshot(), rules)
    assert len(asked) > 1
