"""Worked numbers of the division, published tables, and where we differ from KAI-Scheduler."""

import numpy as np
import pytest

from kaisched.core import fairshare
from kaisched.core.fairshare import Entitlements, _largest_first, divide_level, divide_surplus
from kaisched.units import UNLIMITED

GPU = 1000


def entitlements(deserved, weight, request, limit=None, priority=None) -> Entitlements:
    """Columns from GPUs; older queues stand first."""
    count = len(request)

    def gpus(values):
        return np.array([[v if v == UNLIMITED else round(v * GPU) for v in values]])

    return Entitlements(
        gpus(deserved),
        gpus([UNLIMITED] * count if limit is None else limit),
        gpus(request),
        np.array([weight], dtype=np.float64),
        np.array([0] * count if priority is None else priority),
        np.arange(count),
    )


def divide(total, *args, transform=None, **kwargs) -> list[float]:
    return divide_and_left(total, entitlements(*args, **kwargs), transform)[0]


def divide_and_left(total, columns, transform=None):
    share, left = divide_level(
        np.array([[round(total * GPU)]]),
        np.zeros(len(columns.rank), dtype=np.intp),
        columns,
        np.array([GPU]),
        transform,
    )
    return [amount / GPU for amount in share[0].tolist()], left[0, 0] / GPU


def history(usage, k):
    used = np.array(usage)
    return lambda _r, q, _g, _a, w: np.maximum(0.0, w + k * (w - used[q]))


INF = UNLIMITED


@pytest.mark.parametrize(
    ("total", "columns", "shares", "left"),
    [
        (1, entitlements([3], [0], [2]), [2], 0),
        (7, entitlements([3], [0], [5]), [3], 4),
        (15, entitlements([2, 2], [2, 2], [6, 6]), [6, 6], 3),
        (12, entitlements([2, 2], [2, 2], [6, 6]), [6, 6], 0),
        (8, entitlements([2, 2], [1, 3], [6, 6]), [3, 5], 0),
        (12, entitlements([2, 2], [2, 2], [6, 6], limit=[5, INF]), [5, 6], 1),
        (11, entitlements([2, 2], [1, 4], [10, 10]), [3, 8], 0),
        (11, entitlements([2, 2], [2, 2], [6, 6]), [6, 5], 0),
        (6, entitlements([2, 2], [100, 1], [6, 6], priority=[1, 2]), [2, 4], 0),
        (4, entitlements([2, 2], [1, 1], [6, 6], priority=[1, 2]), [2, 2], 0),
        (5, entitlements([2, 2, 1], [2, 2, 2], [5, 5, 0], priority=[2, 2, 1]), [3, 2, 0], 0),
        (1000, entitlements([250, 150], [1, 2], [5000, 5000]), [450, 550], 0),
        (1000, entitlements([250, 150], [1, 2], [5000, 5000], limit=[INF, 400]), [600, 400], 0),
        (9999, entitlements([1000] * 3, [1] * 3, [10000] * 3), [3333] * 3, 0),
        (9999, entitlements([0] * 3, [6, 2, 1], [10000] * 3), [6666, 2222, 1111], 0),
        (
            45,
            entitlements([12, 7, 2], [12, 7, 2], [32.55, 9.5, 1.65], limit=[INF, INF, 2]),
            [32.55, 9.5, 1.65],
            1.3,
        ),
    ],
)
def test_published_table_of_kai(total, columns, shares, left):
    assert divide_and_left(total, columns) == (shares, left)


def test_published_runai_over_quota_priority_low_1_high_3():
    assert divide(104, [3, 1], [1, 3], [200, 200]) == [28, 76]


def test_published_kai_simulator_70_and_30():
    assert divide(100, [10, 10], [3, 1], [100, 100]) == [70, 30]


def test_published_kep_1714_story_3():
    assert divide(150, [0, 0, 0], [1, 1, 3], [150] * 3) == [30, 30, 90]


def test_worked_number_a_tie_of_fractions_goes_to_the_older():
    assert divide(10, [2, 2], [1, 3], [10, 10]) == [4, 6]


def test_worked_number_b_second_round():
    assert divide(9, [0] * 3, [1] * 3, [1, 9, 9]) == [1, 4, 4]


def test_worked_number_c_deserved_is_never_scaled_down():
    assert divide_and_left(8, entitlements([6, 6], [1, 1], [8, 8])) == ([6, 6], 0)


def test_worked_number_d_priority_then_a_fraction():
    assert divide(10, [0, 0], [1, 1], [7.5, 10], priority=[200, 100]) == [7.5, 2.5]


@pytest.mark.parametrize(
    ("usage", "shares"),
    [([0.6, 0.2], [3, 7]), ([1.0, 0.0], [0, 10]), ([1.0, 1.0], [5, 5])],
    ids=["E", "F", "G: plain weights when history leaves nobody anything"],
)
def test_worked_numbers_e_to_g_history(usage, shares):
    assert divide(10, [0, 0], [1, 1], [10, 10], transform=history(usage, 1.0)) == shares


def test_worked_number_h_nobody_gets_more_than_requested():
    """KAI gives 2.0 and 1.0: the rounding unit is not capped by the request."""
    assert divide(3, [0, 0], [1, 1], [1.6, 1.6]) == [1.6, 1.4]


def test_worked_number_i_the_rounding_stays_inside_the_priority():
    """KAI gives 2, 2, 1: the last unit leaks to the lower priority."""
    assert divide(5, [0] * 3, [1] * 3, [5] * 3, priority=[200, 200, 100]) == [3, 2, 0]


@pytest.mark.parametrize(
    ("k", "usage", "shares"),
    [
        (0, [1, 0], [8, 8]),
        (0.5, [1, 0], [4, 12]),
        (0.5, [0.75, 0.25], [6, 10]),
        (1, [1, 0], [0, 16]),
        (1, [0.75, 0.25], [4, 12]),
        (1, [0.96875, 0.03125], [1, 15]),
        (1, [0.97, 0.03], [0, 16]),
        (2, [0.75, 0.25], [0, 16]),
    ],
)
def test_derived_two_equal_queues_with_history(k, usage, shares):
    assert divide(16, [0, 0], [1, 1], [99, 99], transform=history(usage, k)) == shares


def test_derived_history_with_and_without_quota():
    transform = history([0.6, 0.2], 1.0)
    assert divide(100, [0, 0], [1, 1], [200, 200], transform=transform) == [33, 67]
    assert divide(100, [10, 10], [3, 1], [200, 200], transform=transform) == [70, 30]


@pytest.mark.parametrize(("k", "third"), [(0, 5), (0.5, 8), (1, 11), (1.16, 12), (2, 16)])
def test_derived_burst_of_a_third_queue(k, third):
    # All three fractions are equal at k = 0 and at k = 1 (ideal 2.67, 10.67, 2.67), so age decides
    # who gets the one or two spare GPUs. The derived 5 and 11 hold for the second oldest.
    shares = divide(16, [0] * 3, [1] * 3, [99, 16, 99], transform=history([0.5, 0, 0.5], k))
    assert shares[1] == third


def test_derived_burst_at_k_1_for_the_youngest_of_a_tie():
    transform = history([0.5, 0.5, 0], 1)
    assert divide(16, [0] * 3, [1] * 3, [99, 99, 16], transform=transform) == [3, 3, 10]


def test_derived_three_queues_that_each_need_everything():
    assert divide(16, [0] * 3, [1] * 3, [16] * 3, transform=history([1, 0, 0], 10)) == [0, 8, 8]


def test_derived_end_to_end_weights_of_kai():
    # Share weights 0.9899 and 0.0101 for k = 100.
    transform = history([1, 0], 100)
    assert divide(10_000, [0, 0], [10_000, 1], [20_000, 20_000], transform=transform) == [9899, 101]


def test_unlimited_quota_is_the_whole_amount():
    assert divide(10, [UNLIMITED, 2], [0, 0], [99, 99]) == [10, 2]


@pytest.mark.fault("E81")
def test_without_weights_no_surplus_is_shared_and_lower_priorities_may_have_it():
    assert divide_and_left(10, entitlements([0, 0], [0, 0], [9, 9])) == ([0, 0], 10)
    assert divide(10, [0, 0], [0, 1], [9, 9], priority=[2, 1]) == [0, 9]


def test_negative_weights_count_as_none():
    assert divide(10, [0, 0], [-1, 1], [9, 9]) == [0, 9]


def test_surplus_on_top_of_a_given_share():
    share, left = divide_surplus(
        np.array([[500]]),
        np.zeros(1, dtype=np.intp),
        np.array([[3 * GPU]]),
        entitlements([3], [1], [5]),
        np.array([GPU]),
    )
    assert (share.tolist(), left.tolist()) == ([[3500]], [[0]])


def test_groups_and_resources_do_not_touch_each_other():
    group = np.array([1, 0, 1, 0])
    columns = np.zeros((2, 4), dtype=np.int64)
    share, left = divide_level(
        np.array([[10, 20], [7, 0]]),
        group,
        Entitlements(
            columns,
            columns + UNLIMITED,
            columns + 100,
            np.ones((2, 4)),
            np.zeros(4, dtype=np.int64),
            np.arange(4),
        ),
        np.array([1, 1]),
    )
    assert share.tolist() == [[10, 5, 10, 5], [0, 4, 0, 3]]
    assert not left.any()


def test_requests_beyond_what_floats_hold():
    assert divide(10, [0, 0], [1, 1], [(1 << 52), (1 << 52)]) == [5, 5]


@pytest.mark.parametrize("answer", [np.nan, np.inf])
def test_a_fold_that_answers_no_number_is_an_error(answer):
    with pytest.raises(ValueError, match="no finite numbers"):
        divide(10, [0, 0], [1, 1], [9, 9], transform=lambda *a: a[-1] * answer)


def test_negative_answers_of_a_fold_count_as_nothing():
    assert divide(
        10, [0, 0], [1, 1], [20, 20], transform=lambda *_: np.array([-5.0, 1.0])[-2:]
    ) == [
        0,
        10,
    ]


def test_the_fold_is_asked_each_round_about_those_who_still_want():
    asked = []

    def transform(resource, queue, group, active, weights):
        asked.append((resource.tolist(), queue.tolist(), active.tolist(), weights.tolist()))
        return weights

    divide(9, [0] * 3, [1, 1, 2], [1, 9, 9], transform=transform)
    assert asked == [
        ([0, 0, 0], [0, 1, 2], [True] * 3, [0.25, 0.25, 0.5]),
        ([0, 0], [1, 2], [True] * 2, [1 / 3, 2 / 3]),
    ]


def test_too_many_rows_for_one_key_are_ordered_all_the_same(monkeypatch):
    args = (np.array([0, 0, 1, 1, 1]), np.array([0.2, 0.5, 0.1, 0.7, 0.7]), 2)
    expected = _largest_first(*args).tolist()
    monkeypatch.setattr(fairshare, "_KEY_BITS", 8)
    assert _largest_first(*args).tolist() == expected == [1, 0, 3, 4, 2]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(("parts", "order"), [(0.98, [1, 0]), (0.49, [0, 1]), (0.0, [0, 1])])
def test_fractions_a_millionth_apart_differ_and_closer_ones_are_a_tie_of_the_older(
    count, parts, order
):
    """In steps of 2**-20: a younger queue that is owed so much more comes first (R8)."""
    contest = np.zeros(2, np.int64)
    missed = np.array([0.5, 0.5 + parts * 2.0**-20])
    assert _largest_first(contest, missed, count).tolist() == order
