"""The stopwatch adds up what plugins take, by the clock it was given."""

import pytest

from kaisched.telemetry.stopwatch import Stopwatch


def test_seconds_and_calls_add_up():
    times = iter([0.0, 1.0, 5.0, 7.0])
    watch = Stopwatch(lambda: next(times))
    answer = watch.wrap("gang", "job_gate", lambda value: value + 1)
    assert [answer(1), answer(value=2)] == [2, 3]
    assert watch.seconds == {("gang", "job_gate"): 3.0}
    assert watch.calls == {("gang", "job_gate"): 2}
    assert watch.by_plugin() == {"gang": 3.0}


def test_a_call_that_raises_is_timed_and_raises():
    times = iter([0.0, 1.0])
    watch = Stopwatch(lambda: next(times))
    with pytest.raises(ZeroDivisionError):
        watch.wrap("gang", "job_gate", lambda: 1 / 0)()
    assert watch.by_plugin() == {"gang": 1.0}
    watch.reset()
    assert watch.by_plugin() == {}
