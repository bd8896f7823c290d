"""Servers under hostile clients: limits, deadlines, and one log line for many refusals."""

import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPSConnection
from types import SimpleNamespace

import pytest
import structlog

from kaisched.daemon.http_server import Server, listen, probe_page
from kaisched.daemon.http_wire import USUAL, Page, Reads, Source, Tls
from kaisched.daemon.loop import Check
from kaisched.errors import ConfigError
from tests.waiting import PATIENCE_S, until

LIMITS = USUAL._replace(
    connections=20, head_s=PATIENCE_S, whole_s=2 * PATIENCE_S, head_bytes=500, tell_s=0.1
)
HUGE = b"x" * 40_000_000
FOR_EVER_S = 1e6


@pytest.fixture
def asked():
    """Requests that reached the parent, in order."""
    return []


@pytest.fixture
def made():
    """Answers to them, in order."""
    return []


@pytest.fixture
def gate():
    """The page /slow is made once this is set."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def log():
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def serving(asked, made, gate, log):
    """Serve some pages, with other limits."""

    def slow(request):
        asked.append(request)
        gate.wait(PATIENCE_S)
        made.append(Page(200, "text/plain", b"slow\n"))
        return made[-1]

    pages = {
        "/livez": probe_page(lambda: (Check("loop", True, "turns"),)),
        "/slow": Source(slow, Reads(("shard=", "verbose"), ("accept",))),
        "/huge": Source(lambda _: Page(200, "text/plain", HUGE)),
    }
    with ExitStack() as stack:

        def start(**limits):
            limits = LIMITS._replace(threads=2, **limits)
            server = Server([listen("127.0.0.1", 0, pages, "metrics.port", limits=limits)])
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture
def server(serving):
    return serving()


def get(server, path, **headers):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def connect(server, said=b""):
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    sock.sendall(said)
    return sock


def heard(sock):
    """Receive until the other side closes the connection."""
    parts = []
    with sock:
        try:
            while part := sock.recv(1 << 16):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)


def reasons(log):
    """Count the logged refusals by reason."""
    found = {}
    for line in list(log):
        if line["event"] == "http_clients_refused":
            assert line["setting"] == "metrics.port"
            for reason, count in line["reasons"].items():
                found[reason] = found.get(reason, 0) + count
    return found


@pytest.mark.fault("I128")
def test_who_drips_is_dropped_when_its_time_is_over(serving, log):
    dripping = connect(serving(head_s=0.4), b"GET /livez HTT")
    dripped = threading.Event()

    def drip():
        while not dripped.wait(0.1):
            try:
                dripping.sendall(b"P")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    assert heard(dripping) == b""
    dripped.set()
    thread.join()
    until(lambda: reasons(log).get("late") == 1)


@pytest.mark.fault("I128")
def test_who_does_not_take_the_answer_is_dropped_too(serving, log):
    lazy = connect(serving(whole_s=1.0), b"GET /huge HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: reasons(log).get("late") == 1)
    assert len(heard(lazy)) < len(HUGE)


@pytest.mark.fault("I128")
def test_an_answer_that_is_taken_slowly_comes_whole(server):
    assert get(server, "/huge") == (200, HUGE.decode())


@pytest.mark.fault("I128")
def test_a_crowd_costs_its_own_oldest_and_locks_nobody_out(server, log):
    crowd = [connect(server, b"GET /li") for _ in range(LIMITS.connections)]
    assert get(server, "/livez") == (200, "ok\n")
    assert heard(crowd[0]) == b""
    until(lambda: reasons(log).get("crowded") == 1)
    crowd[-1].sendall(b"vez HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert heard(crowd[-1]).endswith(b"ok\n")
    for sock in crowd:
        sock.close()


@pytest.mark.fault("I128")
@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400", "malformed"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400", "malformed"),
        (b"GET /livez\r\n\r\n", b"400", "malformed"),
        (b"GET /livez HTTP/2.0\r\n\r\n", b"400", "malformed"),
        (b"GET /livez HTTP/1.1\r\nno colon\r\n\r\n", b"400", "malformed"),
        (
            b"GET /livez?" + b"&".join([b"a"] * 40) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"400",
            "malformed",
        ),
        (b"POST /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"405", "method"),
        (b"GET /" + b"a" * 600, b"431", "too_long"),
    ],
)
def test_what_is_no_request_is_refused_and_counted(server, log, said, status, reason):
    assert heard(connect(server, said)).startswith(b"HTTP/1.1 " + status)
    until(lambda: reasons(log).get(reason) == 1)


@pytest.mark.fault("I128")
def test_who_drops_the_line_is_a_number_in_one_line(server, log, gate, capfd):
    for _ in range(5):
        connect(server, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").close()
        connect(server, b"GE").close()
    until(lambda: reasons(log).get("gone", 0) >= 5)
    gate.set()
    assert get(server, "/livez") == (200, "ok\n")
    assert len(log) <= 5
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.fault("I128")
@pytest.mark.parametrize("query", ["", "?verbose"])
@pytest.mark.parametrize("fresh_s", [0.2, FOR_EVER_S])
def test_probes_wait_for_the_scheduler_only_once_it_has_said_nothing_for_a_while(
    log, query, fresh_s
):
    """Answers of a busy parent are fetched ahead; one that hangs fails its probe by silence."""
    may_answer, is_asked, is_ok = threading.Event(), threading.Event(), [True]
    may_answer.set()

    def checks():
        is_asked.set()
        may_answer.wait(PATIENCE_S)
        return (Check("loop", is_ok[0], "turns"),)

    limits = LIMITS._replace(poll_s=0.02, fresh_s=fresh_s)
    server = Server(
        [listen("127.0.0.1", 0, {"/livez": probe_page(checks)}, "health.port", limits=limits)]
    )
    try:
        assert get(server, f"/livez{query}")[0] == 200
        may_answer.clear()
        is_asked.clear()
        until(is_asked.is_set)  # the last answer is older than this
        if fresh_s == FOR_EVER_S:
            assert get(server, f"/livez{query}")[0] == 200
            return
        time.sleep(fresh_s)
        late = connect(server, f"GET /livez{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        late.settimeout(0.1)
        with pytest.raises(TimeoutError):
            late.recv(1)
        is_ok[0] = False
        may_answer.set()
        late.settimeout(PATIENCE_S)
        until(lambda: get(server, f"/livez{query}") == (503, "[-] loop: turns\nfailed\n"))
        assert b"[-] loop: turns" in heard(late)
    finally:
        may_answer.set()
        server.close()


@pytest.mark.fault("I128")
def test_equal_questions_are_asked_once(server, asked, gate):
    crowd = [
        connect(
            server,
            f"GET /slow?shard=a&x={at} HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: text/a\r\n\r\n".encode(),
        )
        for at in range(10)
    ]
    until(lambda: len(asked) == 1)
    other = connect(server, b"GET /slow?shard=b&verbose=7 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: len(asked) == 2)
    gate.set()
    assert all(heard(sock).endswith(b"slow\n") for sock in [*crowd, other])
    assert [(it.query, it.accept) for it in asked] == [
        ({"shard": ["a"]}, "text/a"),
        ({"shard": ["b"], "verbose": [""]}, ""),
    ]


def test_a_page_that_fails_costs_one_line_however_often_it_is_asked_for(log):
    def wrong(request):
        raise RuntimeError("no such queue")

    server = Server([listen("127.0.0.1", 0, {"/wrong": Source(wrong)}, "metrics.port")])
    try:
        for _ in range(3):
            assert get(server, "/wrong") == (500, "failed; the log says why\n")
    finally:
        server.close()
    (line,) = [it for it in log if it["event"] == "http_page_failed"]
    assert (line["path"], line["err"]) == ("/wrong", "RuntimeError: no such queue")


def test_a_server_ends_at_once_though_a_page_is_being_made(asked, made, server):
    waiting = connect(server, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
    until(lambda: asked)
    server.close()
    assert made == []
    assert heard(waiting) == b""


@pytest.mark.fault("I128")
def test_a_process_that_ends_is_started_again(server, log):
    assert get(server, "/livez") == (200, "ok\n")
    server._process.kill()
    # Clients that connect meanwhile wait: the socket is still open.
    assert get(server, "/livez") == (200, "ok\n")
    (line,) = [it for it in log if it["event"] == "http_process_ended"]
    assert (line["setting"], line["code"]) == ("metrics.port", -signal.SIGKILL)


def test_a_parent_that_is_killed_takes_its_process_along(tmp_path):
    """Otherwise a restarted scheduler would find the port taken."""
    code = (
        "from kaisched.daemon.http_server import Server, listen; import time;"
        "s = Server([listen('127.0.0.1', 0, {}, 'test')]);"
        "print(s.port, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with parent:
        port = int(parent.stdout.readline())
        parent.kill()
    until(lambda: _is_free(port))


def _is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
            sock.listen()
        except OSError:
            return False
        return True


def test_ports_of_one_process_have_limits_of_their_own(log):
    pages = {"/livez": probe_page(lambda: (Check("loop", True, "turns"),))}
    few = LIMITS._replace(connections=2)
    listeners = [listen("127.0.0.1", 0, pages, it, limits=few) for it in ("a.port", "b.port")]
    server, other = Server(listeners), SimpleNamespace(port=listeners[1].port)
    try:
        crowd = [connect(server, b"GET /li") for _ in range(2)]
        assert get(other, "/livez") == (200, "ok\n")
        assert get(server, "/livez") == (200, "ok\n")
        assert heard(crowd[0]) == b""
        until(lambda: [it["setting"] for it in log if it["event"] == "http_clients_refused"])
        told = [it for it in log if it["event"] == "http_clients_refused"]
        assert {it["setting"] for it in told} == {"a.port"}
        crowd[1].close()
    finally:
        server.close()


def test_a_stream_gets_what_is_pushed_and_is_one_of_a_few(log):
    source = Source(lambda _: Page(200, "text/event-stream", b"first\n", is_stream=True))
    limits = LIMITS._replace(streams=1, beat_s=0.1)
    listener = listen("127.0.0.1", 0, {"/changes": source}, "metrics.port", limits=limits)
    news = [b"second\n"]
    listener.news = lambda: news.pop() if reading.is_set() and news else b""
    reading = threading.Event()
    server = Server([listener])
    try:
        stream = connect(server, b"GET /changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        found = b""
        while b"second" not in found or b":\n\n" not in found:
            found += stream.recv(1 << 16)
            reading.set()
        assert found.index(b"first") < found.index(b"second")
        assert get(server, "/changes") == (503, "too many streams are open\n")
        stream.close()
        until(lambda: reasons(log).get("streams") == 1)
    finally:
        server.close()


@pytest.mark.fault("I128")
def test_threads_are_those_that_were_asked_for(server, gate):
    assert get(server, "/livez") == (200, "ok\n")
    before = threading.active_count()
    crowd = [
        connect(server, b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(LIMITS.connections)
    ]
    time.sleep(0.1)
    assert threading.active_count() == before
    gate.set()
    for sock in crowd:
        sock.close()


# -- TLS -----------------------------------------------------------------------------------------


def certificate(folder, name):
    """Return the files of a self-signed certificate and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    files = folder / "tls.crt", folder / "tls.key"
    command = ["openssl", "req", "-x509", *words, "-out", files[0], "-keyout", files[1]]
    subprocess.run(
        [*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True
    )
    return Tls(*map(str, files))


def secure_get(server, tls):
    context = ssl.create_default_context(cafile=tls.cert)
    connection = HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_pages_are_served_by_https_and_a_new_certificate_is_taken_up(tmp_path, log):
    tls = certificate(tmp_path, "first")
    pages = {"/livez": probe_page(lambda: (Check("loop", True, "turns"),))}
    limits = LIMITS._replace(reload_s=0.1)
    server = Server([listen("127.0.0.1", 0, pages, "metrics.port", tls=tls, limits=limits)])
    hasty = Server(
        [listen("127.0.0.1", 0, pages, "metrics.port", tls=tls, limits=LIMITS._replace(head_s=0.4))]
    )
    try:
        assert secure_get(server, tls) == (200, "ok\n")
        assert heard(connect(server, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")) == b""
        silent = connect(hasty)
        assert heard(silent) == b""
        until(lambda: reasons(log).get("handshake") and reasons(log).get("late"))
        certificate(tmp_path, "second")

        def is_new():
            try:
                return secure_get(server, tls) == (200, "ok\n")
            except ssl.SSLError:
                return False

        until(is_new)
    finally:
        server.close()
        hasty.close()


def test_a_certificate_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "tls.crt").write_text("none", encoding="utf-8")
    tls = Tls(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    with pytest.raises(ConfigError) as caught:
        Server([listen("127.0.0.1", 0, {}, "metrics.port", tls=tls)])
    assert "metrics.certFile: certificate and key cannot be used" in str(caught.value)
    assert "name files of PEM" in str(caught.value)
