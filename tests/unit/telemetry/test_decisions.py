"""What the log tells of decisions, and of a minute."""

from dataclasses import replace
from types import SimpleNamespace

import structlog
from structlog.testing import capture_logs

from kaisched.core.titles import TopOwner
from kaisched.framework.intents import Bind, Evict
from kaisched.telemetry.decisions import MOST_LINES, CycleLog
from tests.unit.telemetry.test_metrics import NONE, Waiting, result


class Session:
    """Two jobs; pod 0 is of the first, all others are of the second."""

    jobs = SimpleNamespace(title=("Job nlp/train", "Job cv/sweep"), queue_of_job=(0, 0))
    queues = SimpleNamespace(name=("team",))
    tasks = SimpleNamespace(job_of_task=(0, 1, 1, 1, 1, 1))


class Records(Waiting):
    session = Session
    rows = NONE


NOTHING = replace(result(), records=Records(), binds=[], evictions=[], nominations=[])
IDLE = replace(NOTHING, stats=replace(NOTHING.stats, tasks_bound=0, tasks_evicted=0))
OWNER = TopOwner("Job", "cv", "sweep")


def bind(task, node):
    return Bind(f"x/p{task}", "u", node, "cv/pg-1" if task else "nlp/pg-0", task, 0)


def told_of(log, *cycles, begin_s=1000.0, step_s=1.0):
    with capture_logs() as logs:
        for number, it in enumerate(cycles):
            log.record(number, it, 0.01, begin_s + number * step_s)
    return [line for line in logs if line["event"] != "cycle_completed"]


def cycle_log(**more):
    return CycleLog(structlog.get_logger(), **more)


def test_each_job_that_starts_is_one_line():
    binds = [bind(0, "n0"), *(bind(task, f"n{task}") for task in range(1, 6))]
    first, second = told_of(cycle_log(), replace(NOTHING, binds=binds))
    assert (first["event"], first["job"], first["queue"]) == (
        "job_started",
        "Job nlp/train",
        "team",
    )
    assert (first["pods"], first["nodes"]) == (1, ["n0"])
    assert (second["pods"], second["nodes"], second["more_nodes"]) == (
        5,
        ["n1", "n2", "n3", "n4"],
        1,
    )


def test_evictions_for_one_job_are_one_line():
    def evict(pod, beneficiary, owner):
        return Evict(
            *(pod, "u", "n", "cv/pg-1", "reclaim", beneficiary, "why", 0, 0),
            top_owner=OWNER,
            beneficiary_owner=owner,
        )

    train = TopOwner("Job", "nlp", "train")
    victims = [evict("cv/a", "nlp/pg-0", train), evict("cv/b", "nlp/pg-0", train)]
    told = told_of(cycle_log(), replace(NOTHING, evictions=[*victims, evict("cv/c", "", None)]))
    assert [(it["beneficiary"], it["jobs"], it["pods"]) for it in told] == [
        ("Job nlp/train", ["Job cv/sweep"], 2),
        (None, ["Job cv/sweep"], 1),
    ]
    assert {it["reason"] for it in told} == {"why"}


def test_a_promise_is_told_when_it_is_new():
    promised = replace(NOTHING, nominations=result().nominations)
    told = told_of(cycle_log(), promised, promised, NOTHING, promised)
    assert {it["event"] for it in told} == {"room_promised"}
    assert [it["cycle"] for it in told] == [0, 3]


def test_many_decisions_of_a_cycle_are_counted():
    evicted = [
        Evict(f"a/p{it}", "u", "n", f"a/g{it}", "drain", "", "why", 0, 0)
        for it in range(MOST_LINES + 7)
    ]
    *lines, last = told_of(cycle_log(), replace(NOTHING, evictions=evicted))
    assert len(lines) == MOST_LINES
    assert (last["event"], last["pods_chosen_to_evict"]) == ("decisions_not_listed", 7)


def test_a_minute_with_decisions_is_summed_up_and_an_idle_one_is_not():
    log = cycle_log()
    busy = replace(IDLE, stats=replace(IDLE.stats, tasks_bound=2))
    told = told_of(log, busy, IDLE, IDLE, IDLE, step_s=30.0)
    (line,) = told
    assert (line["event"], line["cycles"], line["binds"]) == ("minute_summed_up", 3, 2)
    assert told_of(log, *[IDLE] * 10, begin_s=1100.0, step_s=30.0) == []


def test_what_is_only_observed_is_not_told_as_done():
    assert told_of(cycle_log(is_observing=True), replace(NOTHING, binds=[bind(0, "n0")])) == []
