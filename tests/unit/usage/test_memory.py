"""Windows, decay and coverage, on the store that keeps samples in the process."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.core.usage import PARTS, UsageState
from kaisched.objects.usage import parse_cron
from kaisched.usage.history import HOLD_S, MemoryStore, Window
from tests.unit.usage.samples import HOUR, RESOURCES, fill, independent, sample, units_of


def every_minute(hours, held):
    """Samples from 0 on, ``held(minute)`` being the GPUs of queue a; one more at the end."""
    return [sample(60 * at, a=held(at)) for at in range(60 * hours + 1)]


def test_use_has_its_own_age_even_within_a_stretch():
    """Stretches of this window are 14 minutes; a held all for five, then b."""
    store = MemoryStore(Window(half_life_s=12 * HOUR))
    fill(store, [sample(0, a=10), sample(300, b=10), sample(600)])
    first, second = store.usage(600, ["a", "b"], RESOURCES).parts[2].tolist()
    assert first / second == pytest.approx(0.5 ** (300 / (12 * HOUR)), rel=1e-8)


@pytest.mark.parametrize(("first", "then", "share"), [(8, 0, 0.8 / 3), (0, 8, 1.6 / 3)])
def test_hourly_use_decays_as_published(first, then, share):
    """Half-life 1 h, 10 GPUs: 8 an hour ago and 0 now give 0.267, and vice versa 0.533."""
    held = [first] * 60 + [then] * 60
    store = MemoryStore(Window(half_life_s=HOUR))
    fill(store, [sample(60 * at, a=gpus) for at, gpus in enumerate(held)])
    assert units_of(store.usage(2 * HOUR, ["a"], RESOURCES)) == pytest.approx(
        share * PARTS, rel=1e-6
    )


def test_a_tumbling_window_begins_anew_at_its_edge():
    window = Window("tumbling", size_s=HOUR, anchor_s=0.0)
    store = fill(MemoryStore(window), every_minute(1, lambda at: 10)[:-1])
    assert units_of(store.usage(HOUR - 1, ["a"], RESOURCES)) == PARTS
    fresh = fill(store, [sample(HOUR + 30, a=0)])
    usage = fresh.usage(HOUR + 60, ["a"], RESOURCES)
    assert units_of(usage) == PARTS // 2
    assert usage.coverage == 1.0


def test_what_was_before_an_edge_does_not_leak_over_it():
    """A sample at the very edge: the stretch before it ends there."""
    store = MemoryStore(Window("tumbling", size_s=24 * HOUR))
    fill(store, [sample(24 * HOUR - 50, a=10), sample(24 * HOUR, a=0), sample(24 * HOUR + 50, a=0)])
    assert units_of(store.usage(24 * HOUR + 50, ["a"], RESOURCES)) == 0


def test_a_tumbling_window_that_is_yet_to_begin_is_empty():
    window = Window("tumbling", size_s=HOUR, anchor_s=100 * HOUR)
    usage = fill(MemoryStore(window), every_minute(1, lambda at: 10)).usage(HOUR, ["a"], RESOURCES)
    assert (units_of(usage), usage.coverage) == (0, 1.0)


def test_a_cron_window_begins_when_it_fires():
    window = Window("cron", cron=parse_cron("0 * * * *"))
    store = fill(MemoryStore(window), every_minute(2, lambda at: 10 * (at < 90)))
    assert units_of(store.usage(2 * HOUR, ["a"], RESOURCES)) == PARTS // 2
    assert units_of(store.usage(2 * HOUR + 60, ["a"], RESOURCES)) == 0


def test_coverage_counts_from_the_first_sample():
    store = MemoryStore(Window())
    assert store.usage(0.0, ["a"], RESOURCES).coverage == 0.0
    fill(store, [sample(1000, a=1)])
    assert store.usage(1010.0, ["a"], RESOURCES).coverage == 1.0


@pytest.mark.parametrize(
    ("window", "then_s", "weighed_s"),
    [
        (Window(), 1000.0, 0.0),
        (Window(), 1000.0 + HOUR, HOUR),
        (Window(size_s=HOUR), 1000.0 + 5 * HOUR, HOUR),
        (Window(half_life_s=HOUR), 1000.0 + HOUR, round(HOUR / 2 / math.log(2))),
        (Window(half_life_s=HOUR), 1000.0 + 90 * HOUR, round(HOUR / math.log(2))),
    ],
)
def test_it_is_told_how_much_of_the_past_the_parts_stand_for(window, then_s, weighed_s):
    store = fill(MemoryStore(window), [sample(1000, a=1)])
    assert store.usage(then_s, ["a"], RESOURCES).weighed_s == weighed_s


def test_without_a_sample_there_is_no_past():
    assert MemoryStore(Window()).usage(5.0, ["a"], RESOURCES).weighed_s == 0


def test_nothing_known_is_absent_and_says_so():
    usage = MemoryStore(Window()).usage(5.0, ["a", "b"], RESOURCES)
    assert usage.parts.tolist() == [[0, 0]] * 3
    assert (usage.state, usage.age_s) == (UsageState.ABSENT, math.inf)
    assert usage.reasons == ("no sample has been taken yet",)


def test_old_samples_are_stale_and_say_so():
    store = fill(MemoryStore(Window(), staleness_s=300), [sample(0, a=1), sample(60, a=1)])
    assert store.usage(360, ["a"], RESOURCES).state == UsageState.FRESH
    usage = store.usage(361, ["a"], RESOURCES)
    assert (usage.state, usage.age_s) == (UsageState.STALE, 301.0)
    assert usage.reasons == ("the last sample is 301 s old",)


@pytest.mark.fault("B31")
def test_a_clock_that_was_set_back_adds_nothing():
    store = fill(MemoryStore(Window()), [sample(1000, a=10), sample(1060, a=10)])
    fill(store, [sample(100, a=0), sample(160, a=0)])
    assert units_of(store.usage(160, ["a"], RESOURCES)) == pytest.approx(PARTS / 2, abs=1)


@pytest.mark.fault("B31")
def test_a_clock_that_leapt_forward_adds_no_more_than_a_sample_holds():
    store = fill(MemoryStore(Window()), [sample(0, a=10), sample(1e6 - 60, a=0), sample(1e6, a=0)])
    window = MemoryStore(Window(size_s=2e6))
    fill(window, [sample(0, a=10), sample(1e6, a=0), sample(1e6 + HOLD_S, a=0)])
    assert units_of(store.usage(1e6, ["a"], RESOURCES)) == 0
    assert units_of(window.usage(1e6 + HOLD_S, ["a"], RESOURCES)) == PARTS // 2


gpus = st.integers(0, 10)
histories = st.lists(st.tuples(st.integers(1, 400), gpus, gpus), min_size=1, max_size=60)
windows = st.sampled_from(
    [
        Window(size_s=1800.0),
        Window(size_s=7200.0, half_life_s=900.0),
        Window("tumbling", size_s=1800.0, anchor_s=500.0),
        Window("tumbling", size_s=3600.0, half_life_s=1200.0),
        Window("cron", cron=parse_cron("*/20 * * * *")),
        Window("cron", half_life_s=600.0, cron=parse_cron("17 * * * *")),
    ]
)


@given(histories, windows, st.integers(0, 400))
def test_sums_are_those_of_the_definition(steps, window, after):
    now_s, samples = 0.0, []
    for step, first, second in steps:
        now_s += step
        samples.append(sample(now_s, a=first, b=second))
    now_s += after
    store = fill(MemoryStore(window), samples)
    usage = store.usage(now_s, ["a", "b"], RESOURCES)
    start_s = window.start(now_s)
    expected = [
        independent(samples, now_s, start_s, window.half_life_s, queue) for queue in ("a", "b")
    ]
    # Within a stretch (1/720 of the window) use counts as even; slices are a second wide.
    assert usage.parts[2] / PARTS == pytest.approx(expected, abs=0.005)
    assert (usage.parts[0] == usage.parts[2]).all()
    assert 0 <= usage.coverage <= 1


@given(histories, windows)
def test_sums_kept_up_to_date_are_those_made_anew(steps, window):
    store, now_s = MemoryStore(window), 0.0
    for step, first, second in steps:
        now_s += step
        store.record(sample(now_s, a=first, b=second))
    before = store.usage(now_s, ["a", "b"], RESOURCES)
    store.history._sum_anew()
    after = store.usage(now_s, ["a", "b"], RESOURCES)
    # In a new sum, use is even within a stretch: it is at most this much too old or too young.
    half_life_s = window.half_life_s or math.inf
    blurred = PARTS * math.log(2) * store.history.window.grain_s(0.0) / half_life_s
    assert np.abs(before.parts - after.parts).max() <= 1 + blurred


def test_a_week_of_a_thousand_queues_stays_small():
    store = MemoryStore(Window())
    names = {f"q{at}": 1 for at in range(100)}
    for at in range(3 * 10_080):
        store.record(sample(60 * at, capacity=100, **names))
    history = store.history
    assert len(history._kept) <= 721
    assert units_of(store.usage(60 * 3 * 10_080, list(names), RESOURCES)) == PARTS // 100


@pytest.mark.parametrize("gap", [0.1, 0.35, 0.5, 0.501, 0.7, 0.999])
def test_the_number_of_stretches_does_not_depend_on_the_length_of_samples(gap):
    """Otherwise memory and file grow when the time between turns changes."""
    store = MemoryStore(Window(size_s=720.0))
    for at in range(round(1500 / gap)):
        store.record(sample(gap * at, a=at % 5))
    stretches = [*store.history._kept, store.history.open]
    assert len(stretches) <= 722
    assert all(this.end_s == that.start_s for this, that in itertools.pairwise(stretches))


def test_an_answer_for_a_time_before_the_first_sample_held_has_no_use_in_it():
    """The part of the last sample that an answer included must not stay in the sums."""
    first = sample(100, a=8, b=2)
    store = fill(MemoryStore(Window()), [first])
    assert units_of(store.usage(160, first.queues, first.resources)) > 0
    before = store.usage(100, first.queues, first.resources)
    assert before.parts.tolist() == [[0, 0]] * len(RESOURCES)
