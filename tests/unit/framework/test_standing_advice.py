"""Advice that stands: few trials for many jobs, queues in turn, and no word changes in vain."""

from dataclasses import replace

import pytest

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.core.axis import TaskState
from kaisched.engine.policy import default_policy
from kaisched.framework.advice import standing as standing_advice
from kaisched.framework.advice.advice import Change, Kind
from kaisched.framework.advice.standing import CHECK_S, HOLD_S, StandingAdvice
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.unit.framework.fakes import job, plugin, store

POLICY = default_policy()
TRIED = "(tried 1970-01-01 00:00 UTC)"


def after(made, now_s=0.0, policy=POLICY):
    return run_cycle(made.snapshot(), None, policy, now_s, Memory())[0]


def settle(advice, result, most=200):
    """Try on until nothing is left to be tried; return how many trials that took."""
    begun = advice.trials
    for _ in range(most):
        count = advice.trials
        advice.find(result)
        if advice.trials == count and advice.left > 0:
            break
    return advice.trials - begun


def words(advice, result, name):
    session = result.records.session
    row = list(session.jobs.name).index(f"default/{name}")
    return advice.words(session, row, result.records.record(row))


def test_nothing_is_said_before_it_was_tried():
    result, advice = after(store(job("a", gpu=9), nodes=(8,))), StandingAdvice()
    assert words(advice, result, "a") is None
    advice.find(result)
    assert words(advice, result, "a") == f"would help {TRIED}: 1 more node like n0 but with gpu 9"


def test_thousands_that_wait_alike_cost_few_trials():
    jobs = [job(f"j{at:04}", gpu=1 + at % 2, created_s=float(at)) for at in range(2000)]
    result, advice = after(store(*jobs, nodes=(1,))), StandingAdvice()
    assert settle(advice, result) <= 32  # of two kinds of jobs
    assert "others are ahead (tried 1970-01-01 00:00 UTC): 1000 jobs of queue q that ask for" in (
        words(advice, result, "j1001")
    )
    assert words(advice, result, "j0002").endswith(": 1 more node like n0")


def test_where_nothing_has_changed_nothing_is_tried_again():
    made, advice = store(job("a", gpu=9), job("b", gpu=2), nodes=(1,)), StandingAdvice()
    assert settle(advice, after(made)) > 0
    assert settle(advice, after(made, 10 * HOLD_S)) == 0


def test_what_has_changed_is_tried_again_after_a_while_and_what_is_still_so_stands():
    made, advice = store(job("a", gpu=9), nodes=(8,)), StandingAdvice()
    settle(advice, after(made))
    made.put_queue(QueueRow("other"))
    assert settle(advice, after(made, CHECK_S / 2)) == 0
    result = after(made, CHECK_S)
    assert settle(advice, result) == 1
    assert TRIED in words(advice, result, "a")


def test_what_is_not_so_any_more_goes_and_something_else_comes_but_not_at_once():
    queue = QueueRow("q", limit={"gpu": 2000})
    made, advice = store(job("a", gpu=4), nodes=(8,), queues=(queue,)), StandingAdvice()
    settle(advice, after(made))
    made.put_node(NodeRow("n0", {"cpu": 64000, "gpu": 3000, "pods": 110}))
    soon, later = after(made, HOLD_S / 2), after(made, HOLD_S)
    settle(advice, soon)
    assert words(advice, soon, "a") == ""
    settle(advice, later)
    assert words(advice, later, "a") == (
        "would help (tried 1970-01-01 00:05 UTC): a limit of gpu 4 for queue q together with"
        " 1 more node like n0 but with gpu 4"
    )


def test_a_number_that_is_too_large_by_now_is_not_said_any_more():
    jobs = [job(f"j{at}", gpu=8, created_s=float(at)) for at in range(4)]
    made, advice = store(*jobs, nodes=(8,)), StandingAdvice()
    settle(advice, after(made))
    assert words(advice, after(made), "j3") == f"would help {TRIED}: 3 more nodes like n0"
    for name in ("j1", "j2"):
        made.remove_job(made.row_of_job(f"default/{name}"))
    result = after(made, CHECK_S)
    settle(advice, result)
    assert words(advice, result, "j3") == ""
    result = after(made, HOLD_S)
    settle(advice, result)
    assert words(advice, result, "j3").endswith(": 1 more node like n0")


def test_each_of_some_jobs_that_wait_alike_hears_its_own_number():
    jobs = [job(f"j{at}", gpu=8, created_s=float(at)) for at in range(4)]
    result, advice = after(store(*jobs, nodes=(8,))), StandingAdvice()
    settle(advice, result)
    told = [words(advice, result, f"j{at}").partition("): ")[2] for at in (1, 2, 3)]
    assert told == ["1 more node like n0", "2 more nodes like n0", "3 more nodes like n0"]


def test_another_reason_says_nothing_of_the_old_one():
    queue = QueueRow("q", limit={"gpu": 2000})
    made, advice = store(job("a", gpu=4), nodes=(8,), queues=(queue,)), StandingAdvice()
    settle(advice, after(made))
    made.put_queue(QueueRow("q"))
    made.put_node(NodeRow("n0", {"cpu": 64000, "gpu": 3000, "pods": 110}))
    result = after(made, 1.0)
    assert words(advice, result, "a") == ""
    settle(advice, result)
    assert "1 more node like n0 but with gpu 4" in words(advice, result, "a")


def test_another_job_of_the_name_hears_nothing_of_the_first():
    made, advice = store(job("a", gpu=9), nodes=(8,)), StandingAdvice()
    settle(advice, after(made))
    again = store(job("a", gpu=10), nodes=(8,))
    assert words(advice, after(again), "a") == ""


def test_queues_are_served_in_turn_however_much_one_asks():
    queues = (QueueRow("many"), QueueRow("one"))
    jobs = [job(f"m{at:02}", "many", gpu=9 + at) for at in range(20)]
    made = store(*jobs, job("last", "one", gpu=90), nodes=(8,), queues=queues)
    result, advice = after(made), StandingAdvice()
    while not words(advice, result, "last"):
        advice.find(result)
    assert sum(bool(words(advice, result, f"m{at:02}")) for at in range(20)) <= 12
    settle(advice, result)
    assert all(words(advice, result, f"m{at:02}") for at in range(20))


def test_a_large_cluster_tries_one_change_and_pays_for_it_after_other_cycles(monkeypatch):
    monkeypatch.setattr(standing_advice, "STEPS", 500)
    jobs = [job(f"j{at:02}", gpu=9 + at, created_s=float(at)) for at in range(20)]
    result, advice = after(store(*jobs, nodes=(8,))), StandingAdvice()
    counts = []
    for _ in range(12):  # each costs some 1,800 steps
        advice.find(result)
        counts.append(advice.trials)
    assert counts == [1] * 4 + [2] * 4 + [3] * 4


def test_a_cycle_in_which_something_failed_tries_nothing():
    def fails(**_):
        raise ValueError("no")

    policy = replace(POLICY, plugins=(*POLICY.plugins, plugin(session_open=fails)))
    result, advice = after(store(job("a", gpu=9), nodes=(8,)), policy=policy), StandingAdvice()
    assert result.failures
    advice.find(result)
    assert advice.trials == 0


def test_jobs_that_break_a_trial_do_not_keep_others_from_theirs(monkeypatch):
    jobs = [job("bad", gpu=9), job("good", gpu=10, created_s=1.0)]
    result, advice = after(store(*jobs, nodes=(8,))), StandingAdvice()
    known = standing_advice.proposals

    def proposals(session, row, code):
        if session.jobs.name[row] == "default/bad":
            raise ValueError("a bug")
        return known(session, row, code)

    monkeypatch.setattr(standing_advice, "proposals", proposals)
    with pytest.raises(ValueError, match="a bug"):
        advice.find(result)
    settle(advice, result)
    assert (words(advice, result, "bad"), bool(words(advice, result, "good"))) == (None, True)


def test_waiting_is_told_as_a_time_of_day():
    queues = tuple(QueueRow(name, quota={"gpu": 2000}) for name in "qr")
    made = store(
        job("old", "r", pods=4),
        job("a", "q", pods=2, minimum=2, preemption_delay_s=60.0),
        nodes=(4,),
        queues=queues,
    )
    made.snapshot()
    for at in range(4):
        row = made.row_of_task(f"default/old-{at}")
        made.set_state(row, TaskState.RUNNING, made.row_of_node("n0"))
    result, advice = after(made), StandingAdvice()
    settle(advice, result)
    assert "waiting until 1970-01-01 00:01:00 UTC" in words(advice, result, "a")
    result = after(made, 30.0)  # it stays the same moment
    settle(advice, result)
    assert "waiting until 1970-01-01 00:01:00 UTC" in words(advice, result, "a")


def test_who_is_gone_is_forgotten():
    made, advice = store(*(job(f"j{at}", gpu=9) for at in range(9)), nodes=(8,)), StandingAdvice()
    settle(advice, after(made))
    for at in range(1, 9):
        made.remove_job(made.row_of_job(f"default/j{at}"))
    settle(advice, after(made, HOLD_S))
    assert list(advice.told) == ["default/j0"]


def test_what_is_gone_is_named_no_more():
    made, advice = store(job("run"), job("a"), nodes=(1,)), StandingAdvice()
    made.snapshot()
    made.set_state(made.row_of_task("default/run-0"), TaskState.RUNNING, made.row_of_node("n0"))
    result = after(made)
    settle(advice, result)
    assert words(advice, result, "a").endswith("1 more node like n0; or the end of default/run")
    made.remove_job(made.row_of_job("default/run"))
    made.add_job(
        "default/other",
        "q",
        priority=50,
        is_preemptible=False,
        created_s=0.0,
        tasks=[("default/other-0", made.intern_shape({"gpu": 1000}))],
    )
    made.snapshot()
    made.set_state(made.row_of_task("default/other-0"), TaskState.RUNNING, made.row_of_node("n0"))
    result = after(made, HOLD_S)
    settle(advice, result)
    assert words(advice, result, "a").endswith("1 more node like n0; or the end of default/other")


def test_a_look_ends_though_numbers_change_after_each_cycle(monkeypatch):
    monkeypatch.setattr(standing_advice, "STEPS", 500)
    queue = QueueRow("q", limit={"gpu": 2000})
    made, advice = store(job("a", gpu=4), nodes=(8,), queues=(queue,)), StandingAdvice()
    numbers = iter(range(100))

    def proposals(session, row, code):
        yield from known(session, row, code)
        yield Kind.NODES, (Change("n0", amount=50 + next(numbers)),)
        yield Kind.NODES, (Change("n0", amount=250 + next(numbers)),)

    known = standing_advice.proposals
    monkeypatch.setattr(standing_advice, "proposals", proposals)
    for _ in range(40):
        advice.find(after(made))
        if advice.told:
            break
    assert len(advice.told) == 1
