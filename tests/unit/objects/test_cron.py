"""When a cron expression last fired, and when it fires next."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.objects.usage import parse_cron
from kaisched.units import UnitError

BERLIN = ZoneInfo("Europe/Berlin")


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def berlin(text, fold=0):
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


@pytest.mark.parametrize(
    ("text", "now", "fired"),
    [
        ("0 * * * *", "2025-06-01T14:30", "2025-06-01T14:00"),
        ("0 * * * *", "2025-06-01T14:00", "2025-06-01T13:00"),
        ("0 */6 * * *", "2025-06-01T12:00", "2025-06-01T06:00"),
        ("0 12 * * 1", "2025-01-15T15:00", "2025-01-13T12:00"),
        ("0 0 1 * *", "2025-03-31T23:00", "2025-03-01T00:00"),
        ("@monthly", "2025-03-31T23:00", "2025-03-01T00:00"),
        ("@weekly", "2025-01-15T15:00", "2025-01-12T00:00"),
        ("0 0 29 2 *", "2025-01-01T00:00", "2024-02-29T00:00"),
        ("0 0 29 2 *", "2104-02-28T00:00", "2096-02-29T00:00"),
        ("0 0 31 * *", "2025-05-01T00:00", "2025-03-31T00:00"),
        ("30 9-17/4 * * mon-fri", "2025-01-12T00:00", "2025-01-10T17:30"),
        ("0 0 1 jan,jul *", "2025-06-30T00:00", "2025-01-01T00:00"),
        ("0 0 13 * 5", "2025-06-12T00:00", "2025-06-06T00:00"),
        ("0 0 13 * 5", "2025-06-15T00:00", "2025-06-13T00:00"),
        ("5/20 0 * * 7", "2025-01-13T00:00", "2025-01-12T00:45"),
        ("0 0 L * *", "2025-03-15T00:00", "2025-02-28T00:00"),
        ("0 0 * * mon#1", "2025-03-15T00:00", "2025-03-03T00:00"),
    ],
)
def test_the_last_time_before_now(text, now, fired):
    assert parse_cron(text).before(utc(now)) == utc(fired)


@pytest.mark.parametrize(
    ("text", "now", "fired"),
    [
        ("0 0 * * *", berlin("2025-03-31T00:00"), berlin("2025-03-30T00:00")),
        ("0 0 * * *", berlin("2025-10-27T00:00"), berlin("2025-10-26T00:00")),
        ("30 2 * * *", berlin("2025-03-30T12:00"), berlin("2025-03-30T03:30")),
        ("30 2 * * *", berlin("2025-10-26T12:00"), berlin("2025-10-26T02:30")),
        ("0 * * * *", berlin("2025-10-26T02:10", 1), berlin("2025-10-26T02:00", 1)),
    ],
    ids=["23 hours", "25 hours", "skipped", "twice", "twice, every hour"],
)
def test_in_a_named_zone(text, now, fired):
    assert parse_cron(f"CRON_TZ=Europe/Berlin {text}").before(now) == fired


def test_days_in_which_the_clock_changes_are_as_long_as_they_are():
    cron = parse_cron("TZ=Europe/Berlin 0 0 * * *")
    spring = berlin("2025-03-31T00:00") - cron.before(berlin("2025-03-31T00:00"))
    autumn = berlin("2025-10-27T00:00") - cron.before(berlin("2025-10-27T00:00"))
    assert (spring, autumn) == (23 * 3600, 25 * 3600)


@given(
    st.sampled_from(["* * * * *", "*/7 3-9 * * *", "0 0 1 * 1", "59 23 31 12 *", "0 0 29 2 *"]),
    st.sampled_from(["", "CRON_TZ=America/New_York ", "CRON_TZ=Australia/Lord_Howe "]),
    st.integers(0, 4_000_000_000),
)
def test_it_is_before_now_and_nothing_lies_between(text, zone, now_s):
    cron = parse_cron(zone + text)
    fired = cron.before(now_s)
    assert fired < now_s
    assert cron.before(fired + 1) == fired
    next_s = cron.after(now_s)
    assert next_s >= now_s
    assert cron.after(next_s) == next_s
    assert cron.before(next_s) == fired
    assert cron.after(fired + 1) == next_s


@pytest.mark.parametrize(
    ("text", "now", "fires"),
    [
        ("@monthly", "2026-02-01", "2026-02-01"),
        ("@monthly", "2026-02-01T00:01", "2026-03-01"),
        ("0 0 29 2 *", "2096-03-01", "2104-02-29"),
        ("0 0 13 * 5", "2025-06-07", "2025-06-13"),
    ],
)
def test_the_next_time_from_now_on(text, now, fires):
    assert parse_cron(text).after(utc(now)) == utc(fires)


def test_the_next_time_where_clocks_change():
    skipped = parse_cron("CRON_TZ=Europe/Berlin 30 2 * * *")
    assert skipped.after(berlin("2025-03-30T01:00")) == berlin("2025-03-30T03:30")
    hourly = parse_cron("CRON_TZ=Europe/Berlin 0 * * * *")
    assert hourly.after(berlin("2025-10-26T02:10")) == berlin("2025-10-26T02:00", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 0 * *", "has 4 fields instead of five"),
        ("60 * * * *", "'60' is no minute"),
        ("0 0 0 * *", "'0' is no day of month"),
        ("0 0 * smarch *", "'smarch' is no month"),
        ("9-5 * * * *", "'9-5' is no minute"),
        ("*/0 * * * *", "is no minute"),
        ("0 0 31 2 *", "never fires"),
        ("@every 1h", "is no time of the day"),
        ("CRON_TZ=Mars/Olympus 0 0 * * *", "'Mars/Olympus' is no time zone"),
        ("CRON_TZ=../../etc/passwd 0 0 * * *", "is no time zone"),
        ("", "has 0 fields"),
        ("1,,2 * * * *", "'1,,2' is no minute"),
        (7, "no cron expression"),
    ],
)
def test_what_is_none_says_what_to_write(text, said):
    with pytest.raises(UnitError) as error:
        parse_cron(text)
    assert said in str(error.value)
    assert error.value.fix
