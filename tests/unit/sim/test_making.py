import math
from itertools import pairwise

import numpy as np
import pytest

from kaisched.sim.arrivals import (
    DAY_S,
    Bodies,
    Chance,
    JobSize,
    Length,
    OpenTime,
    always,
    evenly,
    poisson,
    weekly,
)
from kaisched.sim.ticks import FOREVER
from kaisched.sim.workload import kind_of

HOUR_S = 3600.0
WEEK_S = 7 * DAY_S


def stream(name="x", seed=1):
    return Chance(seed).stream("test", name)


def test_a_stream_depends_on_seed_purpose_and_name_alone():
    first = Chance(1).stream("sizes", "a").random(3).tolist()
    assert Chance(1).stream("sizes", "a").random(3).tolist() == first
    for other in (Chance(2).stream("sizes", "a"), Chance(1).stream("sizes", "b"), stream("a")):
        assert other.random(3).tolist() != first


def test_open_time_is_laid_out_over_its_spans():
    when = OpenTime([(10, 20), (100, 105)])
    assert when.length_s == 15
    assert when.lay_out(np.array([0.0, 9.5, 10.0, 14.0])).tolist() == [10, 19.5, 100, 104]


def test_no_time_is_open_where_the_end_comes_first():
    assert always(5, 5).length_s == 0
    assert OpenTime([]).length_s == 0


def test_office_hours_are_those_of_working_days():
    when = weekly(0, WEEK_S, days=range(5), opens_s=9 * HOUR_S, closes_s=17 * HOUR_S, first_day=0)
    assert when.length_s == 5 * 8 * HOUR_S
    assert when.lay_out(np.array([0.0, 8 * HOUR_S])).tolist() == [
        9 * HOUR_S,
        DAY_S + 9 * HOUR_S,
    ]


def test_a_week_that_begins_on_a_saturday_opens_on_the_third_day():
    when = weekly(0, WEEK_S, days=range(5), opens_s=9 * HOUR_S, closes_s=17 * HOUR_S, first_day=5)
    assert when.lay_out(np.array([0.0]))[0] == 2 * DAY_S + 9 * HOUR_S


def test_hours_are_cut_at_begin_and_end():
    when = weekly(
        10 * HOUR_S, 11 * HOUR_S, days=[0], opens_s=9 * HOUR_S, closes_s=17 * HOUR_S, first_day=0
    )
    assert (when.length_s, when.lay_out(np.array([0.0]))[0]) == (HOUR_S, 10 * HOUR_S)


def test_arrivals_by_chance_keep_their_rate():
    instants = poisson(10 / HOUR_S, always(0, 1000 * HOUR_S), 10**6, stream())
    assert len(instants) == pytest.approx(10_000, rel=0.05)
    assert (np.diff(instants) > 0).all()
    gaps = np.diff(instants)
    assert float(gaps.std()) == pytest.approx(float(gaps.mean()), rel=0.05)


def test_arrivals_by_chance_stop_at_a_number_and_at_the_end():
    assert len(poisson(1.0, always(0, 1e6), 300, stream())) == 300
    assert poisson(1.0, always(5, 10), 10**6, stream()).max() < 10
    assert len(poisson(1.0, always(0, 0), 10, stream())) == 0


def test_arrivals_at_equal_distances():
    assert evenly(60, always(30, 200), 100).tolist() == [30, 90, 150]
    assert evenly(60, always(0, 200), 2).tolist() == [0, 60]


@pytest.mark.parametrize(
    ("length", "median_s", "mean_s"),
    [
        (Length(fixed_s=60.0), 60, 60),
        (Length(mean_s=600.0), 600 * math.log(2), 600),
        (Length(median_s=600.0, sigma=1.0), 600, 600 * math.exp(0.5)),
    ],
)
def test_run_times_have_their_median_and_mean(length, median_s, mean_s):
    drawn = length.draw(stream(), 200_000)
    assert np.median(drawn) == pytest.approx(median_s, rel=0.02)
    assert drawn.mean() == pytest.approx(mean_s, rel=0.02)


def test_run_times_keep_their_bounds():
    drawn = Length(mean_s=600.0, least_s=300.0, most_s=900.0).draw(stream(), 1000)
    assert (drawn.min(), drawn.max()) == (300, 900)


def bodies(sizes, length, name="g", seed=1):
    return Bodies(name, 0, sizes, length, Chance(seed), 60)


def test_sizes_occur_by_their_shares():
    sizes = [JobSize(kind_of(1, 8), 1, 3.0), JobSize(kind_of(8, 8), 8, 1.0)]
    made = bodies(sizes, Length(fixed_s=60.0))
    small = sum(made.make(0.0).gpus == 1 for _ in range(4000))
    assert small == pytest.approx(3000, rel=0.05)


def test_the_next_job_is_the_same_however_many_are_made():
    sizes = [JobSize(kind_of(1, 8), 1, 1.0), JobSize(kind_of(2, 8), 2, 1.0)]
    one, two = (bodies(sizes, Length(mean_s=6000.0)) for _ in range(2))
    first = [one.make(0.0).ticks for _ in range(600)]
    assert first == [two.make(9.0).ticks for _ in range(600)]
    assert any(a != b for a, b in pairwise(first))


def test_a_job_without_an_end_runs_for_ever_and_a_short_one_for_a_tick():
    sizes = [JobSize(kind_of(1, 8), 1, 1.0)]
    assert bodies(sizes, Length(fixed_s=math.inf)).make(0.0).ticks == FOREVER
    assert bodies(sizes, Length(fixed_s=0.0)).make(0.0).ticks == 1
