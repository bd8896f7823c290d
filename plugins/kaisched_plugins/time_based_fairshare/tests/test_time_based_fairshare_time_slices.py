"""Whose time slice it is, rule by rule, in one group of siblings; which jobs are indivisible."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from kaisched import GPU
from kaisched.testing import ClusterBuilder, check_plugin
from kaisched.testing.builder import policy_of
from kaisched.testing.guard import open_session
from kaisched_plugins.time_based_fairshare import TimeBasedFairshare
from kaisched_plugins.time_based_fairshare.handover import (
    Contest,
    Group,
    Indivisible,
    Side,
    cut_of,
    has_way_free,
    indivisible_jobs_of,
    share_out,
)
from kaisched_plugins.time_based_fairshare.history import entitlement

NOW_S = 1000.0
SURPLUS = 16
MARGIN = 0.25


def side(tag=1.0, *, held=0, waits=True, wants=99, has=0, weight=0.5, owed=0.0):
    return Side(weight, tag, has, wants, held, waits, owed)


def group(sides, *indivisible_jobs, passed=(), by_budget=False, surplus=SURPLUS, **more):
    """Sides by queue number; a job is (queue, GPUs, age), or (queue, GPUs) where it waits.

    Jobs are numbered, and their leaf queues have the numbers of the sides.
    """
    made = [
        (
            indivisible_job[0],
            Indivisible(
                at,
                indivisible_job[0],
                {GPU: indivisible_job[1]},
                NOW_S - indivisible_job[2] if indivisible_job[2:] else math.nan,
            ),
        )
        for at, indivisible_job in enumerate(indivisible_jobs)
    ]
    return Group(
        {GPU: Contest(surplus, MARGIN, sides)},
        made,
        NOW_S,
        slice_s=100.0,
        is_by_budget=by_budget,
        held=lambda queue, resource: sides[queue].held,
        covers=lambda queue, resource, amount: False,
        is_passed_over=lambda queue: queue in passed,
        **more,
    )


def given(sides, *indivisible_jobs, **options):
    siblings = group(sides, *indivisible_jobs, **options)
    share_out(siblings)
    return {queue: each.ahead for queue, each in sides.items() if each.ahead}


# -- claims --------------------------------------------------------------------------------------


def test_a_claim_needs_all_who_lose_to_have_used_a_margin_more():
    assert given({0: side(0.0), 1: side(0.25, held=16)}, (0, 16)) == {0: 16}
    assert given({0: side(0.0), 1: side(0.24, held=16)}, (0, 16)) == {}


def test_who_keeps_enough_loses_nothing():
    """It holds no more than its weight's part of what the job leaves, or wants no more."""
    assert given({0: side(1.0), 1: side(0.0, held=4, waits=False)}, (0, 12)) == {0: 12}
    assert given({0: side(1.0), 1: side(0.0, wants=4)}, (0, 12)) == {0: 12}


def test_a_queue_never_gets_more_than_it_wants():
    """What is deserved covers such jobs together, what runs counts once, and limits stand."""
    both = {0: side(0.0, held=12, has=4, wants=8, weight=0.25), 1: side(9.0)}
    assert given(both, (0, 6, 50), (0, 6, 50)) == {0: 8}
    runs_and_waits = {0: side(0.0, held=6, wants=14, weight=0.25), 1: side(9.0)}
    assert given(runs_and_waits, (0, 6, 50), (0, 8)) == {0: 14}
    over_its_limit = {0: side(0.0, held=11, has=1, wants=5, weight=0.25), 1: side(9.0)}
    assert given(over_its_limit, (0, 10, 50)) == {0: 5}


def test_a_job_is_judged_by_what_it_takes_itself_waiting_or_running():
    """Beside others of its queue it asks for no more: else it was indivisible until it ran."""
    waits = {0: side(0.0, held=5, wants=16), 1: side(9.0, held=11)}
    assert given(waits, (0, 6)) == {}
    assert given(waits, (0, 6, 10)) == {}
    assert given(waits, (0, 9)) == {0: 14}
    beside_deserved = {0: side(0.0, held=2, has=4, wants=16), 1: side(9.0, held=11)}
    assert given(beside_deserved, (0, 10)) == {}
    assert given(beside_deserved, (0, 11)) == {0: 9}


def test_among_those_who_wait_the_least_used_goes_first():
    sides = {0: side(0.2, weight=0.25), 1: side(0.1, weight=0.25), 2: side(2.0, held=16)}
    assert given(sides, (0, 16), (1, 16)) == {1: 16}


def test_between_equals_the_older_queue_goes_first():
    sides = {0: side(0.1, weight=0.25), 1: side(0.1, weight=0.25), 2: side(2.0, held=16)}
    assert given(sides, (0, 16), (1, 16)) == {0: 16}


def test_small_work_that_waits_goes_first_too():
    siblings = group({0: side(0.2), 1: side(0.1)}, (0, 16))
    share_out(siblings)
    assert not siblings.granted
    assert has_way_free(siblings) == 1


def test_who_had_the_way_free_and_took_nothing_is_passed_over():
    assert given({0: side(0.2), 1: side(0.1)}, (0, 16), passed=(1,)) == {0: 16}


def test_what_is_not_due_yet_is_awaited_below():
    siblings = group({0: side(1.0), 1: side(1.0, held=16)}, (0, 16))
    share_out(siblings)
    assert siblings.postponed == {0}
    assert not siblings.granted


def test_a_job_larger_than_the_surplus_here_saves_while_it_is_awaited_above():
    """Half of the cluster is the department's: its small work leaves that to others for a while."""
    sides = {0: side(0.0), 1: side(1.0, held=8)}
    assert given(dict(sides), (0, 16), surplus=8) == {}
    siblings = group(sides, (0, 16), surplus=8, awaited=frozenset({0}))
    share_out(siblings)
    assert (sides[0].ahead, sides[1].ahead) == (8, 0)
    assert [(queue, need) for queue, _, need in siblings.saving] == [(0, {GPU: 8})]
    assert not siblings.granted


def test_nothing_is_saved_for_a_job_that_used_as_much_as_its_siblings():
    assert given({0: side(1.0), 1: side(1.0)}, (0, 16), surplus=8, awaited=frozenset({0})) == {0: 8}
    assert given({0: side(1.1), 1: side(1.0)}, (0, 16), surplus=8, awaited=frozenset({0})) == {}


def test_other_queues_below_a_department_make_way_for_its_job():
    """They hold 8 of what the department is given: it is 16 in all, not 24."""
    sides = {0: side(0.0, held=8), 1: side(1.0, held=8)}
    siblings = group(sides, (0, 16))
    siblings.held = lambda queue, resource: 0
    share_out(siblings)
    assert sides[0].ahead == 16


def test_a_job_within_its_part_is_not_indivisible():
    assert given({0: side(0.0), 1: side(9.0, held=16)}, (0, 8)) == {}


@pytest.mark.parametrize("short", [{"surplus": 11}, {}])
def test_what_cannot_be_had_is_not_claimed(short):
    sides = {0: side(0.0, wants=99 if short else 11), 1: side(9.0, held=16)}
    assert given(sides, (0, 12), **short) == {}


def test_what_the_quota_covers_is_not_taken_from_the_surplus():
    assert given({0: side(0.0, has=3), 1: side(9.0, held=16)}, (0, 15)) == {0: 12}


def test_what_the_queue_holds_already_is_needed_too():
    assert given({0: side(0.0, held=3), 1: side(9.0, held=13)}, (0, 12)) == {0: 15}


# -- slices --------------------------------------------------------------------------------------


def test_a_time_slice_goes_on_until_one_who_waits_has_used_a_margin_less():
    running = side(1.0, held=16)
    assert given({0: running, 1: side(0.76)}, (0, 16, 500)) == {0: 16}
    assert given({0: side(1.0, held=16), 1: side(0.75)}, (0, 16, 500)) == {}


def test_who_does_not_wait_ends_no_time_slice():
    assert given({0: side(1.0, held=16), 1: side(0.0, waits=False)}, (0, 16, 500)) == {0: 16}


def test_a_young_time_slice_goes_on():
    """At least the shortest time slice, times the weight compared with the average."""
    assert given({0: side(9.0, held=16), 1: side(0.0)}, (0, 16, 99)) == {0: 16}
    assert given({0: side(9.0, held=16), 1: side(0.0)}, (0, 16, 100)) == {}
    heavy = {0: side(9.0, held=16, weight=0.75), 1: side(0.0, weight=0.25)}
    assert given(heavy, (0, 16, 149)) == {0: 16}


def test_a_time_slice_ends_where_quotas_have_taken_the_surplus():
    assert given({0: side(0.0, held=16), 1: side(9.0)}, (0, 16, 10), surplus=15) == {}


def test_no_claim_comes_through_a_young_time_slice():
    sides = {0: side(9.0, held=16), 1: side(0.0)}
    assert given(sides, (0, 16, 10), (1, 16)) == {0: 16}


def test_several_indivisible_jobs_run_while_there_is_room():
    sides = {at: side(1.0, held=6 * (at < 2), weight=1 / 3) for at in range(3)}
    assert given(sides, (0, 6, 10), (1, 6, 10), (2, 6)) == {0: 6, 1: 6}


# -- budgets -------------------------------------------------------------------------------------


def test_a_time_slice_lasts_until_the_budget_is_used():
    left = {0: side(9.0, held=16, owed=0.01), 1: side(0.0, owed=0.5)}
    assert given(left, (0, 16, 10), (1, 16), by_budget=True) == {0: 16}
    used = {0: side(9.0, held=16, owed=0.0), 1: side(0.0, owed=0.5)}
    assert given(used, (0, 16, 10), (1, 16), by_budget=True) == {1: 16}


def test_who_has_used_its_budget_claims_nothing():
    used = {0: side(0.0, owed=0.0), 1: side(9.0, held=16, owed=-1.0)}
    assert given(used, (0, 16), by_budget=True) == {}


def test_when_all_budgets_are_used_nobody_is_interrupted():
    used = {0: side(9.0, held=16, owed=-1.0), 1: side(0.0, owed=-0.5)}
    assert given(used, (0, 16, 500), (1, 16), by_budget=True) == {0: 16}


@pytest.mark.parametrize(
    ("budgets", "left", "cut"),
    [
        ([(0.5, 0.5), (0.3, 0.3), (0.2, 0.2)], 1.0, 0.0),  # on time
        ([(0.5, 0.5), (0.3, 0.3), (0.2, 0.2)], 1 / 3, 2 / 3),  # all at the end
        (
            [(0.5, -0.2), (0.3, 0.3), (0.2, 0.2)],
            1 / 3,
            1 / 3,
        ),  # the first has had more than its own
        ([(0.3, 0.2), (0.2, 0.2)], 0.4, 0.0),  # the hours are enough for both
        ([(0.3, 0.2), (0.2, 0.2)], 0.2, 0.4),
        ([(0.3, 0.06), (0.2, 0.2)], 0.1, 0.5),  # a fifth is unused of one: it loses that
        ([(0.3, 0.0), (0.2, -0.1)], 0.1, 0.0),
        ([], 0.1, 0.0),
    ],
)
def test_late_budgets_lose_the_same_part_of_each(budgets, left, cut):
    assert cut_of(budgets, left) == pytest.approx(cut)


# -- which jobs ----------------------------------------------------------------------------------


def session_of(builder):
    return open_session(builder.store().snapshot(), policy_of(), NOW_S)


def indivisible_jobs_in(builder):
    session = session_of(builder)
    queues = session.queues
    has = entitlement(queues.tree, queues.deserved, queues.weight, session.total)
    return {
        (
            session.jobs.name[indivisible_job.job].partition("/")[2],
            indivisible_job.amounts[GPU],
            indivisible_job.is_running,
        )
        for indivisible_job in indivisible_jobs_of(session, has.own)
    }


def pair(**queue):
    return ClusterBuilder().node("n0", gpu=8).node("n1", gpu=8).queue("a", **queue).queue("b")


def test_indivisible_jobs_are_more_than_what_a_queue_can_count_on():
    builder = pair().job("small", queue="a", gpu=8).job("large", queue="a", gpu=4, tasks=3)
    assert indivisible_jobs_in(builder) == {("large", 12000, False)}
    assert indivisible_jobs_in(pair(deserved=12).job("large", queue="a", gpu=4, tasks=3)) == set()


def test_only_the_core_counts():
    builder = pair().job("elastic", queue="a", gpu=4, tasks=4, min_tasks=2)
    assert indivisible_jobs_in(builder) == set()


def test_the_first_that_waits_and_all_that_run():
    builder = pair().job("later", queue="a", gpu=4, tasks=3)
    builder.job("first", queue="a", gpu=4, tasks=4, priority=75)
    builder.job("runs", queue="b", gpu=3, tasks=4, running={"n0": 2, "n1": 2})
    assert indivisible_jobs_in(builder) == {("first", 16000, False), ("runs", 12000, True)}


def test_work_that_may_not_be_preempted_is_not_indivisible():
    assert (
        indivisible_jobs_in(pair().job("fixed", queue="a", gpu=4, tasks=3, priority=100)) == set()
    )


# -- the plugin ----------------------------------------------------------------------------------


DAY_S = 86_400.0
TUMBLING = {"windowType": "tumbling", "tumblingWindowStartTime": "2026-07-01T00:00:00Z"}
MONTHLY = {"windowType": "cron", "cronString": "@monthly"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"handOver": "timeSlices", "halfLifePeriod": "1h"},
        {"handOver": "budgets", **TUMBLING},
        {"handOver": "budgets", **MONTHLY},
    ],
)
def test_it_keeps_the_contract_of_plugins(arguments):
    check_plugin(TimeBasedFairshare, arguments)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"handOver": "budgets"}, "a window that ends"),
        ({"handOver": "budgets", "windowType": "tumbling"}, "with a tumblingWindowStartTime"),
        ({"handOver": "budgets", "windowType": "cron"}, "with a cronString such as @monthly"),
        ({"handOver": "budgets", **MONTHLY, "windowType": "sliding"}, "a window that ends"),
        ({"handOver": "budgets", **TUMBLING, "halfLifePeriod": "1h"}, "drop halfLifePeriod"),
        ({"handOver": "budgets", **MONTHLY, "halfLifePeriod": "1h"}, "drop halfLifePeriod"),
        ({"windowType": "cron", "cronString": "monthly"}, "instead of five; write minute"),
        ({"handOver": "timeSlices", "windowSize": "0s"}, "windowSize"),
        ({"windowSize": "long"}, "no duration"),
        ({"tumblingWindowStartTime": "noon"}, "RFC 3339"),
        ({"handOver": "turns"}, "'none', 'timeSlices' or 'budgets'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        TimeBasedFairshare.Arguments.model_validate(wrong)


def test_the_length_of_the_history():
    def length(**given):
        return TimeBasedFairshare.Arguments.model_validate(given).history_s(0.0)

    assert length() == 7 * 86_400
    assert length(halfLifePeriod="1h") == pytest.approx(3600 / np.log(2))
    assert length(halfLifePeriod="1w", windowSize="1h") == 3600


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("cron", "now", "days"),
    [
        ("@monthly", "2026-01-15", 31),
        ("@monthly", "2026-02-15", 28),
        ("@monthly", "2028-02-15", 29),
        ("@monthly", "2026-04-30T23:59", 30),
        ("@monthly", "2026-03-01", 28),  # the very end of February
        ("0 0 * * 1", "2026-03-01", 7),
        ("0 0 1 */3 *", "2026-02-01", 90),
        ("0 0 1,15 * *", "2026-02-20", 14),
        ("CRON_TZ=Europe/Berlin @monthly", "2026-03-15", 31 - 1 / 24),
        ("CRON_TZ=Europe/Berlin @monthly", "2026-10-15", 31 + 1 / 24),
        ("CRON_TZ=Europe/Berlin @daily", "2026-03-29T12:00", 23 / 24),
    ],
)
def test_a_window_of_the_calendar_has_its_real_length(cron, now, days):
    given = {"windowType": "cron", "cronString": cron}
    arguments = TimeBasedFairshare.Arguments.model_validate(given)
    assert arguments.history_s(utc(now)) == pytest.approx(days * DAY_S)


def test_the_seen_part_of_a_budget_period():
    given = {**TUMBLING, "windowSize": "1d", "tumblingWindowStartTime": "1970-01-01T06:00:00Z"}
    tumbling = TimeBasedFairshare.Arguments.model_validate({"handOver": "budgets", **given})
    monthly = TimeBasedFairshare.Arguments.model_validate({"handOver": "budgets", **MONTHLY})
    assert tumbling.seen(3.5 * DAY_S, math.inf) == 0.25
    assert monthly.seen(utc("2026-02-08"), math.inf) == 0.25
    assert monthly.seen(utc("2026-02-28"), 7 * DAY_S) == 0.25, "begun three weeks into the month"
    assert monthly.seen(utc("2026-03-01"), math.inf) == 1.0
    assert math.isnan(TimeBasedFairshare.Arguments().seen(0, 0))
