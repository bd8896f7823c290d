import numpy as np
import pytest

from kaisched.sim.ticks import NEVER, EventHeap, run_ticks, tick_at, ticks_at


def test_events_come_tick_by_tick_and_in_the_order_they_went_in():
    events = EventHeap()
    for tick, event in ((7, 1), (3, 2), (7, -5), (3, 0), (9, 4)):
        events.add(tick, event)
    out = []
    while events.next_tick != NEVER:
        tick = events.next_tick
        out.append((tick, events.take(tick)))
    assert out == [(3, [2, 0]), (7, [1, -5]), (9, [4])]


def test_nothing_is_due_at_a_tick_without_events():
    events = EventHeap()
    assert events.take(3) == []
    events.add(4, 1)
    assert events.take(3) == []
    assert events.next_tick == 4


def test_an_event_may_be_added_to_the_tick_just_taken():
    events = EventHeap()
    events.add(4, 1)
    assert events.take(4) == [1]
    events.add(4, 2)
    assert events.take(4) == [2]


@pytest.mark.parametrize(
    ("time_s", "tick"), [(0, 0), (0.1, 1), (59.9, 1), (60, 1), (60.1, 2), (9_408_690, 156_812)]
)
def test_times_round_up(time_s, tick):
    assert tick_at(time_s) == tick
    assert ticks_at(np.array([time_s])).tolist() == [tick]


def test_every_job_runs_for_a_tick_at_least():
    assert run_ticks(np.array([0.0, 1.0, 60.0, 61.0])).tolist() == [1, 1, 1, 2]
