"""A log that is read late, or never, blocks nothing and reports every line it loses."""

import json
import os
import threading

import pytest
import structlog

from kaisched.telemetry import logs
from kaisched.telemetry.logs import LinePipe, configure_logs


@pytest.fixture
def ends():
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        try:
            os.close(descriptor)
        except OSError:
            continue


def test_lines_come_out_as_they_went_in(ends):
    read, write = ends
    pipe = LinePipe(write)
    pipe.write("one\n")
    pipe.write("t\u0142wo\udc80\n")
    assert pipe.drain(60.0)
    assert os.read(read, 100) == "one\nt\u0142wo\\udc80\n".encode()


@pytest.mark.fault("B37")
def test_who_writes_does_not_wait_and_is_told_later_what_was_lost(ends, monkeypatch):
    monkeypatch.setattr(logs, "MOST_LINES", 100)
    read, write = ends
    told = []
    monkeypatch.setattr(LinePipe, "_log_dropped", lambda pipe: told.append(pipe.dropped))
    pipe = LinePipe(write)
    for _ in range(5000):
        pipe.write("x" * 999 + "\n")  # there is no reader, so a blocking write would wait for ever
    assert not pipe.drain(0.05)
    dropped = pipe.dropped
    assert dropped >= 5000 - 100 - 66  # besides the waiting lines and those in a pipe
    lines = []

    def reading():
        while data := os.read(read, 1 << 16):
            lines.append(data)

    reader = threading.Thread(target=reading)
    reader.start()
    assert pipe.drain(60.0)
    os.close(write)
    reader.join()
    assert b"".join(lines).count(b"\n") == 5000 - dropped
    assert told[-1] == dropped


def test_what_was_lost_is_a_line_of_the_log(ends, monkeypatch):
    read, write = ends
    with os.fdopen(write, "w", closefd=False) as stream:
        monkeypatch.setattr("sys.stderr", stream)
        configure_logs(now_s=lambda: 0.0)
        pipe = LinePipe(write)
        pipe.dropped = 7
        pipe.write("{}\n")
    data = b""
    while data.count(b"\n") < 2:
        data += os.read(read, 1000)
    structlog.reset_defaults()
    lines = [json.loads(line) for line in data.splitlines()]
    assert lines[1] | {"ts": ""} == {
        "ts": "",
        "event": "log_lines_dropped",
        "level": "warning",
        "lines": 7,
    }


@pytest.mark.fault("B37")
def test_a_closed_log_does_no_harm(ends):
    read, write = ends
    os.close(read)
    pipe = LinePipe(write)
    for _ in range(10):
        pipe.write("x\n")
    assert pipe.drain(60.0)
