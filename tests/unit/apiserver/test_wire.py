"""HTTP as it comes: in pieces, in chunks, several at once, or not at all."""

import json
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.errors import ConfigError
from kaisched_apiserver.connection import BadHttpError, take_body, take_head
from kaisched_apiserver.requests import read_protobuf
from tests.contract.apiserver.client import pod

TURNS = 100
"""Of the server's loop; it takes what has come in each of them."""


@pytest.fixture
def talk(server):
    """Send bytes, in pieces, and return what comes back until the server is silent or gone."""

    def send(*pieces):
        with socket.create_connection((server.address, server.port)) as wire:
            for piece in pieces:
                wire.sendall(piece)
            for _ in range(TURNS):  # by then the server has answered all that it will
                server.call(lambda: None)
            wire.setblocking(False)
            got = b""
            try:
                while data := wire.recv(65_536):
                    got += data
            except BlockingIOError:
                return got, True
            return got, False

    return send


def statuses(got):
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d+) ", got)]


def test_requests_on_one_connection_are_answered_in_order(talk):
    got, is_open = talk(b"GET /readyz HTTP/1.1\r\n\r\nGET /no HTTP/1.1\r\n\r\n" * 2)
    assert statuses(got) == [200, 404, 200, 404]
    assert is_open


def test_a_connection_is_closed_on_request(talk):
    got, is_open = talk(b"GET /readyz HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert statuses(got) == [200]
    assert not is_open


def test_a_request_may_come_in_pieces(talk):
    body = json.dumps(pod("p")).encode()
    head = (
        b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    )
    whole = head + body
    got, _ = talk(whole[:30], whole[30 : len(head) + 5], whole[len(head) + 5 :])
    assert statuses(got) == [201]


def test_a_body_may_come_in_chunks(talk):
    body = json.dumps(pod("p")).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(it), it) for it in (body[:9], body[9:]))
    got, _ = talk(
        b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\n\r\n"
    )
    assert statuses(got) == [201]


def test_a_client_that_waits_is_told_to_go_on(talk):
    got, _ = talk(
        b"POST /api/v1/namespaces HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    )
    assert statuses(got) == [100]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /x HTTP/2.0\r\n\r\n", 400),
        (b"GET /x HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET /" + b"x" * 70_000, 431),
    ],
)
def test_what_is_no_http_ends_the_connection(talk, sent, status):
    got, is_open = talk(sent)
    assert statuses(got) == [status]
    assert not is_open


def test_a_head_has_no_body(talk):
    for path in (b"/readyz", b"/api/v1/pods"):
        got, _ = talk(b"HEAD %b HTTP/1.1\r\n\r\n" % path)
        assert got.endswith(b"\r\n\r\n")


def test_a_taken_port_is_an_error_that_names_it(server):
    other = type(server)(port=server.port)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {server.port}"):
        other.start()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error(data):
    buffer = bytearray(data)
    try:
        head = take_head(buffer)
        body = None if head is None else take_body(buffer, head.length)
    except BadHttpError as error:
        body = error.status
    assert body is None or isinstance(body, bytes) or body in {400, 413, 431}


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_an_error(data):
    try:
        found = read_protobuf(b"k8s\0" + data)
    except ValueError:
        return
    assert found is None or "kind" in found


def test_a_namespace_in_protobuf_is_read():
    """The bytes that ``kubectl create namespace team-a`` sends."""
    meta = b"\x0a\x06team-a\x12\x00\x1a\x00"
    raw = b"\x0a" + bytes([len(meta)]) + meta
    type_ = b"\x0a\x02v1\x12\x09Namespace"
    body = b"k8s\0\x0a" + bytes([len(type_)]) + type_ + b"\x12" + bytes([len(raw)]) + raw
    assert read_protobuf(body) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a"},
    }


def test_other_kinds_in_protobuf_are_told_that_they_are_not(client, pods):
    type_ = b"\x0a\x02v1\x12\x03Pod"
    body = b"k8s\0\x0a" + bytes([len(type_)]) + type_
    answer = client.ask("POST", pods, body, type_="application/vnd.kubernetes.protobuf")
    assert answer.code == 415
