"""The server's clock: ours is corrected by no more than its answers prove."""

from email.utils import formatdate

import pytest

from kaisched.clock import ManualClock, ServerClock, date_s


def header(at_s):
    return formatdate(at_s, usegmt=True)


def observed(clock, own, server_s, *, took_s=0.1):
    """Let an answer come that the server began at a time of its own, half-way."""
    sent_s = own.now_s()
    own.sleep(took_s)
    clock.observe(header(int(server_s)), sent_s, own.now_s())


@pytest.mark.fault("I140")
@pytest.mark.parametrize("ahead_s", [3600.0, -1800.0])
def test_the_servers_clock_is_gone_by(ahead_s):
    own = ManualClock(1_000_000.0)
    clock = ServerClock(own)
    assert clock.now_s() == own.now_s()
    for _ in range(20):
        observed(clock, own, own.now_s() + 0.05 + ahead_s)
        own.sleep(0.37)
        assert clock.now_s() == pytest.approx(own.now_s() + ahead_s, abs=1.11)
    assert clock.skew_s == pytest.approx(ahead_s, abs=0.2)  # each answer says more


def test_a_clock_that_may_be_right_is_left_alone():
    own = ManualClock(1_000_000.2)
    clock = ServerClock(own)
    observed(clock, own, own.now_s() + 0.05)
    observed(clock, own, own.now_s() + 5.0, took_s=10.0)  # a slow answer proves nothing
    assert clock.skew_s == 0.0


def test_after_a_clock_was_set_the_next_answer_is_believed():
    own = ManualClock(1_000_000.0)
    clock = ServerClock(own)
    observed(clock, own, own.now_s() + 3600.0)
    assert clock.skew_s > 3000.0
    observed(clock, own, own.now_s())
    assert abs(clock.skew_s) < 1.2


@pytest.mark.parametrize("text", ["", "yesterday", "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_an_answer_without_a_time_says_nothing(text):
    own = ManualClock(1_000_000.0)
    clock = ServerClock(own)
    clock.observe(text, 0.0, 1.0)
    assert date_s(text) is None
    assert clock.now_s() == own.now_s()
