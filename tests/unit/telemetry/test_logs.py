"""Logs: JSON lines with a time from the clock, no secrets."""

import io
import json

import pytest
import structlog

from kaisched.framework.report.records import RUN, PluginFailure
from kaisched.telemetry.decisions import log_cycle
from kaisched.telemetry.logs import configure_logs, hide, masked
from tests.unit.telemetry.test_metrics import result


@pytest.fixture
def written():
    stream = io.StringIO()
    configure_logs(now_s=lambda: 1_700_000_000.0, stream=stream)
    yield stream
    structlog.reset_defaults()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line(written):
    structlog.get_logger().info("loop_started", period_s=1.0)
    assert lines(written) == [
        {
            "ts": "2023-11-14T22:13:20.000Z",
            "period_s": 1.0,
            "event": "loop_started",
            "level": "info",
        }
    ]


def test_a_cycle_is_one_line_with_counts_at_level_debug(written):
    log_cycle(structlog.get_logger(), 7, result(), 0.0125)
    assert lines(written) == []
    configure_logs(level="debug", now_s=lambda: 0.0, stream=written)
    log_cycle(structlog.get_logger(), 7, result(), 0.0125)
    (line,) = lines(written)
    assert (line["event"], line["cycle"], line["dur_ms"]) == ("cycle_completed", 7, 12.5)
    assert (line["jobs_pending"], line["binds"], line["evictions"]) == (3, 1, 1)


def test_a_plugin_that_fails_often_is_one_line(written):
    faults = (PluginFailure("gang", "job_gate", "boom"),) * 3
    log_cycle(structlog.get_logger(), 7, result(failures=faults), 0.0125)
    (line,) = lines(written)
    assert (line["event"], line["plugin"], line["times"]) == ("plugin_failed", "gang", 3)


def test_an_action_that_failed_is_an_error(written):
    faults = (PluginFailure("reclaim", RUN, "KeyError: 7 (in solve, line 3 on team/x)"),)
    log_cycle(structlog.get_logger(), 7, result(failures=faults), 0.0125)
    (line,) = lines(written)
    assert (line["event"], line["level"], line["action"]) == ("action_failed", "error", "reclaim")
    assert line["err"] == faults[0].error


def test_an_abandoned_cycle_says_why(written):
    log_cycle(structlog.get_logger(), 7, result(abandoned="fair share"), 0.0125)
    (line,) = lines(written)
    assert (line["event"], line["reason"]) == ("cycle_abandoned", "fair share")


@pytest.mark.fault("H118")
@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("api_token", "hush", "***"),
        ("dbPassword", "hush", "***"),
        ("url", "https://me:hush@host/x", "https://***@host/x"),
        ("url", "https://host:8080/x", "https://host:8080/x"),
        ("node", "n0", "n0"),
        ("token", "", ""),
    ],
)
def test_secrets_are_masked(key, value, shown):
    assert masked(key, value) == shown


def test_a_secret_that_has_another_in_it_is_masked_whole():
    hide("4711-inner")
    hide("outer-4711-inner-outer")
    assert masked("", "it was outer-4711-inner-outer, not 4711-inner") == "it was ***, not ***"


def test_debug_events_are_left_out_by_default(written):
    structlog.get_logger().debug("noise")
    assert written.getvalue() == ""


def test_text_is_for_people():
    stream = io.StringIO()
    configure_logs(log_format="text", now_s=lambda: 0.0, stream=stream)
    structlog.get_logger().info("loop_started")
    structlog.reset_defaults()
    assert "loop_started" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue()
