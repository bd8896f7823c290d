"""The probe of a usage server: against a real Prometheus, and against ones that do not answer."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kaisched.objects.usage import UsageConfig, UsageHealthProbe
from kaisched.usage.prometheus.store import HealthProbe
from kaisched.usage.settings import read_usage
from tests.contract.prometheus import Prometheus, free_port, needs_prometheus
from tests.waiting import until


def asked(url, interval="1s", retries=0):
    config = UsageConfig(
        client_type="prometheus",
        connection_string=url,
        health_probe=UsageHealthProbe(interval=interval, timeout="5s", max_retries=retries),
    )
    return read_usage(config, "default", environ={}).prometheus


class _Answers(BaseHTTPRequestHandler):
    """Answers of a stand-in: those of ``server.answers`` in turn, the last one for ever."""

    def do_POST(self):
        self.do_GET()

    def do_GET(self):
        answers = self.server.answers
        code, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.server.asked += 1
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Stay silent."""


GOOD = (200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}')


@pytest.fixture
def stand_in():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.answers, server.asked = [GOOD], 0
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def probing():
    """Start a probe; all are closed at the end."""
    started = []

    def probing(*args, **options):
        started.append(HealthProbe(*args, **options))
        return started[-1]

    yield probing
    for probe in started:
        probe.close()


def first(probe):
    until(probe.health, what="a first answer of the probe")
    return probe.health()


@pytest.mark.real
@needs_prometheus
def test_a_real_server_answers_until_it_is_killed_and_when_it_is_back(tmp_path, probing):
    server = Prometheus(tmp_path).start()
    try:
        told = []
        probe = probing(asked(server.url), told.append)
        assert first(probe) == (True, "127.0.0.1 answers queries")
        server.kill()
        until(lambda: not probe.health().is_reachable, what="the probe to notice")
        assert probe.health().message == "127.0.0.1 did not answer: Connection refused"
        server.start()
        until(lambda: probe.health().is_reachable, what="the probe to notice again")
        found = [it.is_reachable for it in told]
        assert [found[0], False in found, found[-1]] == [True, True, True]
    finally:
        server.kill()


def test_a_server_that_nobody_runs_is_not_reachable(probing):
    found = first(probing(asked(f"http://127.0.0.1:{free_port()}")))
    assert found == (False, "127.0.0.1 did not answer: Connection refused")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, b"not here"), "127.0.0.1 answered 404, which is no answer of Prometheus"),
        (
            (401, b"{}"),
            (
                "127.0.0.1 refuses us (401): set bearerTokenFile, or user and password in the"
                " connectionString"
            ),
        ),
    ],
)
def test_an_answer_that_is_none_of_prometheus_counts_as_no_answer(
    stand_in, probing, answer, message
):
    stand_in.answers = [answer]
    assert first(probing(asked(stand_in.url))) == (False, message)


def test_a_failed_try_is_repeated_before_the_server_counts_as_gone(stand_in, probing):
    stand_in.answers = [(503, b"busy"), (503, b"busy"), GOOD]
    told = []
    probing(asked(stand_in.url, retries=19), lambda health: told.append((health, stand_in.asked)))
    until(lambda: told, what="a first answer of the probe")
    assert told[0] == ((True, "127.0.0.1 answers queries"), 3)


def test_a_password_in_the_address_is_never_told(probing):
    found = first(probing(asked(f"http://user:hush-hush@127.0.0.1:{free_port()}")))
    assert "hush-hush" not in found.message


def test_a_probe_that_is_closed_asks_no_more(stand_in, probing):
    probe = probing(asked(stand_in.url, interval="1s"))
    first(probe)
    probe.close()
    assert not probe._thread.is_alive()
