"""Entitlements small enough to work out by hand. Ticks are minutes, amounts GPU ticks."""

import numpy as np
import pytest

from kaisched.sim.outcome import entitled_until, error_between, jain_of

HOUR = 60


def entitled(run, tick):
    return entitled_until(run, np.array([tick]))[:, 0].tolist()


def job(queue, gpus, hours, at="0s", **more):
    return {
        "queue": queue,
        "arrivals": {"at": [at]},
        "gpus": gpus,
        "duration": f"{hours}h",
        **more,
    }


def test_a_queue_is_entitled_to_no_more_than_its_work(ran):
    run = ran(jobs=[job("a", 4, 1), job("b", 2, 3)])
    assert entitled(run, HOUR) == pytest.approx([4 * HOUR, 2 * HOUR])
    assert entitled(run, 6 * HOUR) == pytest.approx([4 * HOUR, 6 * HOUR])


def test_what_one_leaves_goes_to_the_others_by_weight(ran):
    """8 GPUs: c asks for one, a and b for more than there is, three to one."""
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


def test_error_is_what_is_in_the_wrong_hands():
    assert error_between(np.array([6.0, 2.0]), np.array([4.0, 4.0])) == 0.25
    assert error_between(np.array([8.0, 0.0]), np.array([4.0, 4.0])) == 0.5
    assert error_between(np.zeros(2), np.zeros(2)) == 0


def test_jain_is_one_for_equal_parts_and_one_half_where_one_of_two_has_all():
    assert jain_of(np.array([3.0, 1.0]), np.array([6.0, 2.0])) == pytest.approx(1)
    assert jain_of(np.array([8.0, 0.0]), np.array([4.0, 4.0])) == pytest.approx(0.5)
    assert jain_of(np.array([5.0, 7.0]), np.array([5.0, 0.0])) == pytest.approx(1)
    assert jain_of(np.zeros(2), np.zeros(2)) == 1
