"""Entitlements small enough to compute by hand. Ticks are minutes, amounts GPU ticks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched.sim.entitlement import Course, fitted
from kaisched.sim.outcome import entitled_until, error_between, jain_of
from tests.unit.sim.conftest import job

HOUR = 60


def entitled(run, tick):
    return entitled_until(run, np.array([tick]))[:, 0].tolist()


def test_a_queue_is_entitled_to_no_more_than_its_work(ran):
    run = ran(jobs=[job("a", 4, 1), job("b", 2, 3)])
    assert entitled(run, HOUR) == pytest.approx([4 * HOUR, 2 * HOUR])
    assert entitled(run, 6 * HOUR) == pytest.approx([4 * HOUR, 6 * HOUR])


def test_what_one_leaves_goes_to_the_others_by_weight(ran):
    """8 GPUs: c asks for one, a and b for more than all, with weights of three to one."""
    queues = [{"name": "a", "overQuotaWeight": 3}, {"name": "b"}, {"name": "c"}]
    backlog = [
        {"queue": name, "arrivals": {"backlog": "endless"}, "duration": "1h"} for name in "ab"
    ]
    run = ran(queues=queues, jobs=[*backlog, job("c", 1, 6)])
    assert entitled(run, 4 * HOUR) == pytest.approx(
        [7 * 0.75 * 4 * HOUR, 7 * 0.25 * 4 * HOUR, 4 * HOUR], rel=1e-3
    )


def test_quota_comes_before_weight_and_a_limit_caps(ran):
    queues = [{"name": "a", "quota": 6, "overQuotaWeight": 0}, {"name": "b", "limit": 1}]
    backlog = [
        {"queue": name, "arrivals": {"backlog": "endless"}, "duration": "1h"} for name in "ab"
    ]
    run = ran(queues=queues, jobs=backlog)
    assert entitled(run, 3 * HOUR) == pytest.approx([18 * HOUR, 3 * HOUR], rel=1e-3)


def test_the_tree_divides_level_by_level(ran):
    queues = [
        {"name": "left"},
        {"name": "right"},
        {"name": "a", "parent": "left"},
        {"name": "b", "parent": "left"},
        {"name": "c", "parent": "right"},
    ]
    backlog = [
        {"queue": name, "arrivals": {"backlog": "endless"}, "duration": "1h"} for name in "abc"
    ]
    run = ran(queues=queues, jobs=backlog)
    assert entitled(run, HOUR) == pytest.approx([2 * HOUR, 2 * HOUR, 4 * HOUR], rel=1e-3)


def test_time_that_was_not_there_is_not_divided(ran):
    """Half of the nodes are away for the first two hours."""
    nodes = [{"count": 2, "gpus": 4, "outages": [{"at": "0s", "until": "2h"}]}]
    jobs = [{"queue": "a", "arrivals": {"backlog": "endless"}, "duration": "1h"}]
    run = ran(nodes=nodes, jobs=jobs)
    assert entitled(run, 3 * HOUR)[0] == pytest.approx(4 * 2 * HOUR + 8 * HOUR, rel=1e-3)


def test_time_in_which_nothing_was_to_be_done_is_nobodys(ran):
    """8 GPUs are idle for two hours; a and b then share the other two."""
    backlog = {"arrivals": {"backlog": "endless", "begin": "2h"}, "gpus": 2, "duration": "1h"}
    run = ran(jobs=[{"queue": name, **backlog} for name in "ab"])
    assert entitled(run, 2 * HOUR) == [0, 0]
    assert entitled(run, 4 * HOUR) == pytest.approx([8 * HOUR, 8 * HOUR], rel=1e-3)


def test_who_comes_late_is_entitled_to_no_more_than_the_time_that_was_left(ran):
    """A is there from the beginning, b for the last of four hours: 8 of 32 GPU-hours."""
    a = {"queue": "a", "arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "1h"}
    b = {"queue": "b", "arrivals": {"backlog": "endless", "begin": "3h"}, "duration": "1h"}
    run = ran(jobs=[a, b])
    assert entitled(run, 4 * HOUR) == pytest.approx([24 * HOUR, 8 * HOUR], rel=1e-3)


def test_who_comes_late_makes_up_for_it_as_far_as_there_is_time(ran):
    """Half of the time is left to b: it is entitled to all of it, which is its half."""
    a = {"queue": "a", "arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "1h"}
    b = {"queue": "b", "arrivals": {"backlog": "endless", "begin": "2h"}, "duration": "1h"}
    run = ran(jobs=[a, b])
    assert entitled(run, 4 * HOUR) == pytest.approx([16 * HOUR, 16 * HOUR], rel=1e-3)


def test_a_limit_holds_in_the_time_that_is_left(ran):
    """B may hold 2 GPUs and comes for the last two of four hours."""
    queues = [{"name": "a"}, {"name": "b", "limit": 2}]
    a = {"queue": "a", "arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "1h"}
    b = {"queue": "b", "arrivals": {"backlog": "endless", "begin": "2h"}, "duration": "1h"}
    run = ran(queues=queues, jobs=[a, b])
    assert entitled(run, 4 * HOUR) == pytest.approx([28 * HOUR, 4 * HOUR], rel=1e-3)


def test_quotas_beyond_the_cluster_are_told_as_they_are(ran):
    queues = [{"name": "a", "quota": 8}, {"name": "b", "quota": 8}]
    backlog = {"arrivals": {"backlog": "endless"}, "gpus": 2, "duration": "1h"}
    run = ran(queues=queues, jobs=[{"queue": name, **backlog} for name in "ab"])
    assert entitled(run, HOUR) == pytest.approx([8 * HOUR, 8 * HOUR])


def by_weight(weights):
    """A division of one level in plain floats, by weight and up to each request."""

    def divide(total, request):
        share = np.zeros(len(weights))
        while True:
            open_ = request - share > 1e-9
            left = total - share.sum()
            if left <= 1e-9 or not open_.any():
                return share
            step = min(left / weights[open_].sum(), ((request - share) / weights)[open_].min())
            share[open_] += step * weights[open_]

    return divide


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_shares_fit_and_nobody_could_get_more_of_those_who_got_more_for_their_weight(data):
    queues, spans = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    amounts = st.lists(st.integers(0, 40), min_size=spans, max_size=spans)
    asked = np.array([[0, *np.cumsum(data.draw(amounts))] for _ in range(queues)], np.float64)
    weights = np.array(data.draw(st.lists(st.integers(1, 4), min_size=queues, max_size=queues)))
    rest = 10.0 * np.arange(spans, -1, -1)
    course = Course(asked, rest)
    share = fitted(by_weight(weights), course, (asked + rest).min(axis=1), float(rest[0]))
    slack = 1e-3 * rest[0]

    def fits(share):
        return (np.maximum(share[:, None] - asked, 0).sum(axis=0) <= rest + slack).all()

    assert fits(share)
    assert (share <= asked[:, -1] + slack).all()
    for more in range(queues):
        raised = share.copy()
        raised[more] += 5 * slack
        assert not fits(raised) or raised[more] > asked[more, -1], "time is left"
        for less in range(queues):
            moved = raised.copy()
            moved[less] -= 5 * slack
            is_richer = moved[less] / weights[less] > raised[more] / weights[more]
            assert not (less != more and is_richer and moved[less] > 0 and fits(moved))


def test_error_is_what_is_in_the_wrong_hands():
    assert error_between(np.array([6.0, 2.0]), np.array([4.0, 4.0])) == 0.25
    assert error_between(np.array([8.0, 0.0]), np.array([4.0, 4.0])) == 0.5
    assert error_between(np.zeros(2), np.zeros(2)) == 0


def test_jain_is_one_for_equal_parts_and_one_half_where_one_of_two_has_all():
    assert jain_of(np.array([3.0, 1.0]), np.array([6.0, 2.0])) == pytest.approx(1)
    assert jain_of(np.array([8.0, 0.0]), np.array([4.0, 4.0])) == pytest.approx(0.5)
    assert jain_of(np.array([5.0, 7.0]), np.array([5.0, 0.0])) == pytest.approx(1)
    assert jain_of(np.zeros(2), np.zeros(2)) == 1
