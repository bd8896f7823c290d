"""What there was hour by hour: use, waits, starts and evictions, also after a restart."""

import msgspec
import pytest
from structlog.testing import capture_logs

from kaisched.testing.builder import ClusterBuilder
from kaisched.view import api
from kaisched.view.hours import HOUR_S, MOST_HOURS, MOST_WAITS, Hour, Hours, hours_document
from kaisched.view.publisher import Publisher

BEGIN_S = 1_699_999_200.0
"""A whole hour."""


@pytest.fixture(scope="module")
def ran():
    """Two of four GPUs are held, and one job of two GPUs starts; one of eight never can."""
    made = ClusterBuilder().node("n0", gpu=4).queue("a", deserved=4)
    made.job("old", queue="a", tasks=1, gpu=2, running={"n0": 1})
    return made.job("new", queue="a", tasks=1, gpu=2).run()


def after(ran, *times_s, path=None):
    publisher = Publisher("default", hours=path)
    for cycle, time_s in enumerate(times_s, 1):
        publisher.take(ran.result, cycle=cycle, time_s=time_s, duration_s=0.1)
    return publisher


def test_an_hour_has_the_use_between_its_cycles(ran):
    publisher = after(ran, BEGIN_S, BEGIN_S + 600, BEGIN_S + HOUR_S + 600)
    first, second = publisher.hours
    assert (first.seen_s, second.seen_s) == (600, 600)
    assert (first.used, first.capacity) == (4 * 600, 4 * 600)
    assert (first.starts, second.starts) == (2, 1)
    document = hours_document(publisher.view, publisher.hours, 24)
    msgspec.convert(msgspec.json.decode(msgspec.json.encode(document)), api.Hours)
    assert (document["day"]["use"], document["day"]["starts"]) == (1.0, 3)
    assert document["day"]["waitP50Seconds"] == document["week"]["waitP50Seconds"] > 0
    assert [it["starts"] for it in document["hours"]] == [2, 1]


def test_a_week_is_kept(ran):
    times = [BEGIN_S + hour * HOUR_S for hour in range(MOST_HOURS + 5)]
    kept = after(ran, *times).hours
    assert len(kept) == MOST_HOURS
    assert kept[-1].start_s == times[-1]


def test_a_day_is_shorter_than_a_week(ran):
    publisher = after(ran, *(BEGIN_S + hour * HOUR_S for hour in range(48)))
    document = hours_document(publisher.view, publisher.hours, 6)
    told = document["day"]["starts"], document["week"]["starts"]
    assert told == (25, 48), "24 hours, and the one under way"
    assert len(document["hours"]) == 6


def test_many_waits_keep_their_middle_in_bounded_memory():
    hour = Hour(0.0)
    for wait in range(10_000):
        hour.add_wait(float(wait))
    assert hour.starts == 10_000
    assert len(hour.waits) <= MOST_WAITS
    assert sorted(hour.waits)[len(hour.waits) // 2] == pytest.approx(5_000, rel=0.02)


def test_hours_are_there_again_after_a_restart(ran, tmp_path):
    path = tmp_path / "usage.db.hours"
    publisher = after(ran, BEGIN_S, path=path)
    publisher._hours._writing.join()
    again = Hours(path)
    assert [it.starts for it in again.kept] == [1]


def test_a_file_that_has_no_hours_is_left_alone(ran, tmp_path):
    path = tmp_path / "usage.db.hours"
    path.write_text("somebody's notes")
    with capture_logs() as logs:
        publisher = after(ran, BEGIN_S, path=path)
    assert [it["event"] for it in logs] == ["hours_not_read"]
    assert [it.starts for it in publisher.hours] == [1], "in memory"
    assert path.read_text() == "somebody's notes"
