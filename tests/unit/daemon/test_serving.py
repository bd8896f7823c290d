"""Pages over real HTTP on loopback."""

import gzip
import os
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from kaisched.daemon.http_server import Server, listen, metrics_page, probe_page
from kaisched.daemon.http_wire import Reads, Source
from kaisched.daemon.loop import Check
from kaisched.errors import ConfigError
from kaisched.telemetry.metrics import CycleCollector, registry_of


@pytest.fixture
def checks():
    return [Check("loop", True, "turning"), Check("cycles", True, "none failed")]


@pytest.fixture
def server(checks):
    pages = {
        "/metrics": Source(metrics_page(registry_of(CycleCollector())), Reads(headers=("accept",))),
        "/readyz": probe_page(lambda: tuple(checks)),
    }
    running = Server([listen("127.0.0.1", 0, pages, "metrics.port")])
    yield running
    running.close()


def get(server, path, method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.headers["Content-Type"], body


def test_metrics_are_served_in_the_format_asked_for(server):
    status, kind, body = get(server, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert "# TYPE kaisched_cycle_duration_seconds histogram" in body
    _, kind, _ = get(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")


def test_what_is_long_is_compressed_for_clients_that_take_it(server):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "br, gzip"})
    response = connection.getresponse()
    packed = response.read()
    connection.close()
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.headers["Vary"] == "Accept-Encoding"
    assert int(response.headers["Content-Length"]) == len(packed)
    assert b"kaisched_cycle_duration_seconds" in gzip.decompress(packed)
    assert get(server, "/readyz", **{"Accept-Encoding": "gzip"})[2] == "ok\n", "too short for it"


def test_a_probe_says_ok_and_more_when_asked(server):
    assert get(server, "/readyz") == (200, "text/plain; charset=utf-8", "ok\n")
    _, _, body = get(server, "/readyz?verbose")
    assert body == "[+] loop: turning\n[+] cycles: none failed\nok\n"


def test_a_probe_that_fails_says_what_is_wrong(checks, request):
    checks[1] = Check("cycles", False, "3 failed in a row")
    server = request.getfixturevalue("server")  # it fetches answers to probes ahead of time
    status, _, body = get(server, "/readyz")
    assert (status, body) == (503, "[-] cycles: 3 failed in a row\nfailed\n")


def test_head_has_no_body(server):
    status, _, body = get(server, "/readyz", method="HEAD")
    assert (status, body) == (200, "")


def test_an_unknown_page_names_those_there_are(server):
    status, _, body = get(server, "/metric")
    assert (status, body) == (404, "here are /metrics, /readyz\n")


def test_a_taken_port_is_one_line_that_names_the_setting(server):
    with pytest.raises(ConfigError) as caught:
        Server([listen("127.0.0.1", server.port, {}, "health.port")])
    assert str(caught.value) == (
        f"health.port: cannot listen on 127.0.0.1 port {server.port}: Address already in use;"
        " choose another port, or 0 for any that is free"
    )


@pytest.mark.fault("H119")
def test_a_cluster_in_memory_gives_no_metrics_to_strangers():
    """It cannot check tokens, so open metrics must be asked for."""
    words = ["run", "--metrics-port", "0", "--metrics-bind-address", "0.0.0.0"]
    run = subprocess.run(
        [sys.executable, "-m", "kaisched", *words],
        env={k: v for k, v in os.environ.items() if not k.startswith("KAISCHED_")},
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert run.returncode == 2
    assert run.stderr.splitlines()[-1].startswith(
        "kaisched: metrics.authentication: a cluster in memory knows no tokens, and this address"
    )
    assert "listen on 127.0.0.1, or set it to none" in run.stderr
