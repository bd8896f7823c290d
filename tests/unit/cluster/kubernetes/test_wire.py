"""Requests over kept connections: framing of answers, what is kept, and what is an error."""

import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.exceptions import HTTPError

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.wire import BrokenAnswerError, Wire, _close_all, is_plain
from kaisched.errors import ClusterUnavailable
from tests.waiting import PATIENCE_S

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Sends answers as they are written here, and keeps what it was sent."""

    def __init__(self, answers, context=None):
        self.answers, self.heads, self.bodies, self.connections = list(answers), [], [], 0
        self._context = context
        self._lines = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._run, daemon=True)]
        self._threads[0].start()

    def _run(self):
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self._context is not None:
                try:
                    line = self._context.wrap_socket(line, server_side=True)
                except OSError:
                    continue
            self._lines.append(line)
            self._threads.append(threading.Thread(target=self._serve, args=(line,), daemon=True))
            self._threads[-1].start()

    def _serve(self, line):
        with line, suppress(OSError):  # either side may end at any time
            self._answer(line)

    def _answer(self, line):
        data = b""
        while self.answers:
            while b"\r\n\r\n" not in data:
                piece = line.recv(4096)
                if not piece:
                    return
                data += piece
            head, _, data = data.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            while len(data) < length:
                data += line.recv(4096)
            self.heads.append(head)
            self.bodies.append(data[:length])
            data = data[length:]
            answer, is_last = self.answers.pop(0), False
            if isinstance(answer, tuple):
                answer, is_last = answer[0], True
            for piece in answer if isinstance(answer, list) else [answer]:
                line.sendall(piece)
            if is_last:
                return
        while line.recv(4096):  # open until the other side ends
            pass

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in self._lines:
            with suppress(OSError):  # it has ended already
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)


@contextmanager
def serving(*answers, context=None, **pool):
    server = Server(answers, context)
    scheme = "http" if context is None else "https"
    wire = Wire(f"{scheme}://127.0.0.1:{server.port}", pool, most=2)
    try:
        yield server, wire
    finally:
        _close_all(wire._idle)
        server.close()


def ask(wire, body=b"{}", timeout_s=PATIENCE_S):
    return wire.exchange(
        "PATCH", "/a?b=c", {"Accept": "x/y"}, body, connect_s=PATIENCE_S, timeout_s=timeout_s
    )


def test_a_request_is_sent_as_it_is_and_the_connection_is_used_again():
    with serving(OK, b"HTTP/1.1 409 Conflict\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n") as (
        server,
        wire,
    ):
        assert ask(wire, b'{"x":1}')[::2] == (200, b"{}")
        refused = ask(wire, b"")
    assert (refused.code, refused.fields[b"retry-after"], refused.data) == (409, b"3", b"")
    head = server.heads[0].decode().split("\r\n")
    assert head[:3] == ["PATCH /a?b=c HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Accept: x/y"]
    assert (server.bodies, server.connections) == ([b'{"x":1}', b""], 1)


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=12), st.booleans())
def test_an_answer_does_not_depend_on_how_it_is_cut(data, sizes, is_chunked):
    if is_chunked:
        parts = [data[at : at + 7] for at in range(0, len(data), 7)]
        body = b"".join(b"%X;x=y\r\n%s\r\n" % (len(part), part) for part in parts)
        head, body = b"Transfer-Encoding: chunked", body + b"0\r\nSum: 1\r\n\r\n"
    else:
        head, body = b"Content-Length: %d" % len(data), data
    whole = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n" + head + b"\r\n\r\n" + body
    pieces, at = [], 0
    for size in sizes:
        pieces.append(whole[at : at + size])
        at += size
    with serving([*pieces, whole[at:]], OK) as (server, wire):
        assert ask(wire)[::2] == (201, data)
        assert ask(wire)[::2] == (200, b"{}")
        assert server.connections == 1


def test_without_a_length_the_answer_ends_with_the_connection():
    with serving((b"HTTP/1.1 200 OK\r\n\r\nall of it",), OK) as (server, wire):
        assert ask(wire).data == b"all of it"
        assert ask(wire).data == b"{}"
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        OK + b"more than it says",
    ],
)
def test_a_connection_that_ends_or_is_out_of_step_is_not_used_again(answer):
    with serving([answer], OK) as (server, wire):
        assert ask(wire).data == b"{}"
        assert ask(wire).data == b"{}"
        assert server.connections == 2


def test_a_connection_that_the_server_closed_meanwhile_costs_nothing():
    with serving((OK,), OK) as (server, wire):
        ask(wire)
        server._threads[1].join(PATIENCE_S)
        assert ask(wire).code == 200
        assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno field\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    ],
)
def test_a_broken_answer_is_told_and_its_connection_given_up(answer):
    with serving((answer,), OK) as (_, wire):
        with pytest.raises(BrokenAnswerError):
            ask(wire)
        assert ask(wire).code == 200


def test_an_answer_that_does_not_come_is_not_awaited_for_ever():
    with serving(b"HTTP/1.1 200 OK\r\n", OK) as (server, wire):
        with pytest.raises(TimeoutError):
            ask(wire, timeout_s=0.05)
        assert ask(wire).code == 200
        assert server.connections == 2


def test_no_server_is_an_error_of_the_client():
    with serving() as (server, _):
        port = server.port
    client = Client(Access(f"http://127.0.0.1:{port}"))
    with pytest.raises(ClusterUnavailable, match="no answer from the API server: NewConnection"):
        client.call("POST", "/x", body={})
    assert client.requests.read()["POST", "none"][0] == 1


def test_a_path_that_is_not_plain_and_a_header_that_is_two_are_not_sent():
    assert is_plain("/api/v1/pods?x=%20")
    assert not any(is_plain(it) for it in ("", "/a b", "/a\r\nX: y", "/ä"))
    with serving(OK) as (server, _):
        client = Client(
            Access(f"http://127.0.0.1:{server.port}", authorization=lambda: "a\r\nX-More: b")
        )
        with pytest.raises(ValueError, match="header"):
            client.call("POST", "/x", body={})
        assert not server.heads


def test_certificates_are_checked_as_they_are_for_watches(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with serving(OK, context=context) as (_, wire), pytest.raises((HTTPError, OSError)):
        ask(wire)  # nobody we know has signed it
    with serving(OK, context=context, ca_certs=str(certificate)) as (_, wire):
        assert ask(wire).code == 200
    names = {"ca_certs": str(certificate), "server_hostname": "elsewhere"}
    with serving(OK, context=context, **names) as (_, wire), pytest.raises((HTTPError, OSError)):
        ask(wire)
    with serving(OK, context=context, cert_reqs="CERT_NONE") as (_, wire):
        assert ask(wire).code == 200


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a key and a certificate for 127.0.0.1 that signs itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: certificates were not tried")
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=ours"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "-", "-out", "-"]
    made = subprocess.run(["openssl", "req", "-x509", *words], check=True, capture_output=True)
    file.write_bytes(made.stdout)
    return file
