"""One suite for every usage store: the same samples, the same numbers.

The independent computation goes through the samples second by second. The past ends now, since a
real server answers for its own time.
"""

import math
import time

import pytest

from kaisched.core.usage import PARTS, UsageState
from kaisched.objects.usage import parse_cron
from kaisched.usage.history import Window
from tests.contract.usage_stores import MAKERS
from tests.unit.usage.samples import HOUR, RESOURCES, independent, sample

QUEUES = ["a", "b", "c"]


@pytest.fixture(params=MAKERS)
def make(request, tmp_path):
    maker = request.param(tmp_path)
    yield maker
    maker.close()


def now_minute():
    return math.floor(time.time() / 60) * 60.0


def steps(hours, held, end_s, gap=(0.0, 0.0)):
    """A sample a minute until ``end_s``, GPUs by queue from the hours since the begin."""
    begin_s = end_s - hours * HOUR
    for minute in range(int(hours * 60) + 1):
        at = minute / 60
        if not gap[0] < at < gap[1]:
            yield sample(begin_s + 60 * minute, **held(at))


def day(at):
    return {
        "a": 8 if at % 6 < 3 else 1,
        "b": min(int(at), 9) if at < 20 else 0,
        "c": 2 if 10 <= at < 10.5 else 0,
    }


WINDOWS = {
    "sliding": lambda end_s: Window(size_s=12 * HOUR),
    "sliding, longer than the past": lambda end_s: Window(),
    "half-life": lambda end_s: Window(size_s=24 * HOUR, half_life_s=2 * HOUR),
    "short half-life": lambda end_s: Window(half_life_s=0.5 * HOUR),
    "tumbling": lambda end_s: Window("tumbling", 5 * HOUR, anchor_s=end_s - 23.5 * HOUR),
    "tumbling, half-life": lambda end_s: Window(
        "tumbling", 24 * HOUR, half_life_s=6 * HOUR, anchor_s=end_s - 31 * HOUR
    ),
    "cron": lambda end_s: Window("cron", cron=_hours_ago(end_s, 5)),
}


def _hours_ago(end_s, hours):
    """An expression that fired so many hours before the end, on the hour, and not since.

    One of fixed hours would begin anew in the middle of a test, and then a second is everything.
    """
    return parse_cron(f"0 {time.gmtime(end_s - hours * HOUR).tm_hour} * * *")


@pytest.mark.fault("C57")
def test_windows_and_decay_are_those_of_the_definition(make):
    end_s = now_minute()
    samples = list(steps(24, day, end_s))
    for name, window_of in WINDOWS.items():
        window = window_of(end_s)
        store = make.store(samples, window)
        now_s = time.time()
        usage = store.usage(now_s, QUEUES, RESOURCES)
        expected = [
            independent(samples, now_s, window.start(now_s), window.half_life_s, queue)
            for queue in QUEUES
        ]
        for row in usage.parts:
            found = (row / PARTS).tolist()
            assert found == pytest.approx(expected, abs=make.tolerance), name
        assert usage.state == UsageState.FRESH
        assert usage.coverage == pytest.approx(1.0, abs=0.01), name
        assert 0 <= usage.age_s < now_s - end_s + 70


def test_24_gpu_hours_of_100_are_024(make):
    end_s = now_minute()
    samples = list(steps(10, lambda at: {"a": 8 if at < 3 else 0}, end_s))
    usage = make.store(samples, Window(size_s=10 * HOUR)).usage(time.time(), ["a"], RESOURCES)
    assert usage.parts[2, 0] / PARTS == pytest.approx(0.24, abs=0.005)


@pytest.mark.fault("C46")
def test_a_gap_is_told_and_counts_for_nobody(make):
    end_s = now_minute()
    samples = list(steps(8, lambda at: {"a": 5, "b": 0}, end_s, gap=(2, 4)))
    usage = make.store(samples, Window()).usage(time.time(), ["a", "b"], RESOURCES)
    assert (usage.parts[2] / PARTS).tolist() == pytest.approx([0.5, 0.0], abs=0.005)
    assert usage.coverage == pytest.approx(1 - (2 - 300 / HOUR) / 8, abs=0.01)


def test_queues_that_came_and_went(make):
    end_s = now_minute()
    samples = list(steps(6, lambda at: {"a": 4} if at < 2 else {"b": 6, "c": 4}, end_s))
    usage = make.store(samples, Window()).usage(time.time(), [*QUEUES, "new"], RESOURCES)
    expected = [0.4 * 2 / 6, 0.6 * 4 / 6, 0.4 * 4 / 6, 0.0]
    # Without marks of their end, series hold for five minutes more.
    assert (usage.parts[2] / PARTS).tolist() == pytest.approx(expected, abs=0.01)


def test_a_capacity_that_changes_counts_over_the_same_window(make):
    end_s = now_minute()
    samples = [
        sample(end_s - 8 * HOUR + 60 * at, capacity=5 if at < 240 else 15, a=5) for at in range(481)
    ]
    usage = make.store(samples, Window()).usage(time.time(), ["a"], RESOURCES)
    assert usage.parts[2, 0] / PARTS == pytest.approx(0.5, abs=0.005)
