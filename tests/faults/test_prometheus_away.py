"""A Prometheus server that is away, slow or not ours; by row of the catalogue of faults.

What a real server does in earnest (C43 to C46, C48, C49) is in tests/contract; what a file
does (C58) is in tests/unit/usage/test_sqlite.py.
"""

import socket
import time

import pytest

from kaisched.core.usage import UsageState
from kaisched.usage.prometheus.queries import BoundedSession, Client, QueryError
from tests.contract.usage_stores import asked_of
from tests.faults.asking import HALF_AND_A_FIFTH, QUEUES, held_now, ready, shares, told
from tests.faults.fake_prometheus import FakePrometheus
from tests.unit.usage.samples import RESOURCES, sample
from tests.waiting import until


def test_the_fake_is_believed(fake, opened):
    usage = ready(opened(fake.url))
    assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
    assert usage.coverage == 1.0
    assert usage.age_s == pytest.approx(5, abs=3)


@pytest.mark.fault("C39")
def test_c39_a_server_that_is_down_at_the_start(opened):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        store = opened(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        usage = told(store, "127.0.0.1 did not answer", "refused")
    assert (usage.state, shares(usage), usage.coverage) == (UsageState.ABSENT, [0.0] * 3, 0.0)
    assert not store.is_ready()


@pytest.mark.fault("C39")
def test_c39_a_server_that_comes_and_goes(fake, opened):
    store = opened(fake.url)
    ready(store)
    for _ in range(3):
        fake.serve = lambda request: request.answer(503, {"error": "starting up"})
        usage = told(store, "answered 503: starting up")
        assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
        fake.serve = None
        until(lambda: "503" not in repr(store.usage(time.time(), QUEUES, RESOURCES).reasons))


@pytest.mark.fault("C39")
def test_c39_stale_numbers_are_carried_on_with_what_is_seen_here(fake, opened):
    """An hour of five GPUs of ten, then a minute of ten, the server being away."""
    store = opened(fake.url, staleness_s=10.0)
    ready(store)
    fake.serve = lambda request: request.answer(503, {"error": "gone"})
    told(store, "gone")
    usage = store.usage(held_now(store, a=10), QUEUES, RESOURCES)
    assert usage.state == UsageState.STALE
    hour = 61 * 60
    assert shares(usage)[0] == pytest.approx((0.5 * hour + 60) / (hour + 60), rel=0.003)
    assert shares(usage)[1] == pytest.approx(0.2 * hour / (hour + 60), rel=0.003)
    assert any("carried on" in reason for reason in usage.reasons)


@pytest.mark.fault("C39")
def test_c39_stale_numbers_are_ignored_where_the_shard_says_so(fake, opened):
    store = opened(fake.url, staleness_s=10.0, is_frozen_when_stale=False)
    ready(store)
    fake.serve = lambda request: request.answer(503, {"error": "gone"})
    usage = store.usage(time.time() + 60, QUEUES, RESOURCES)
    assert (usage.state, shares(usage)) == (UsageState.STALE, [0.0] * 3)
    assert any("history is ignored" in reason for reason in usage.reasons)


def drip(request, end, *, in_headers):
    """A byte now and then."""
    try:
        if not in_headers:
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while not end.wait(0.2):
            request.wfile.write(b"H")
            request.wfile.flush()
    except OSError:
        return


@pytest.mark.fault("C40")
@pytest.mark.parametrize("in_headers", [True, False], ids=["in the headers", "in the body"])
def test_c40_a_server_that_drips_is_left_when_time_is_up(fake, opened, in_headers):
    fake.serve = lambda request: drip(request, fake.end, in_headers=in_headers)
    store = opened(fake.url)
    told(store, "took longer than usageQueryTimeout")  # and not when the server is done


def test_nobody_waits_for_a_server_that_drips(fake, opened):
    fake.serve = lambda request: drip(request, fake.end, in_headers=True)
    store = opened(fake.url, timeout_s=60.0)
    until(lambda: fake.asked)
    store.record(sample(0, a=1))
    usage = store.usage(0.0, QUEUES, RESOURCES)
    assert usage.state == UsageState.ABSENT
    assert not any("took longer" in reason for reason in usage.reasons)


@pytest.mark.fault("C40")
def test_c40_a_server_that_says_nothing_is_left_when_time_is_up(fake, opened):
    fake.serve = lambda _: fake.end.wait(30)
    told(opened(fake.url), "took longer than usageQueryTimeout")


@pytest.mark.fault("C41")
def test_c41_absent_is_not_zero(fake, opened):
    """The capacity of GPUs vanishes: what was known of them stays, CPUs go on."""
    store = opened(fake.url)
    ready(store)
    fake.change = lambda query, found: [] if "nvidia" in query and "group" in query else found
    usage = told(store, "gpu: the window has no time at which kai_queue_allocated_gpus and")
    assert usage.state == UsageState.PARTIAL
    assert shares(usage) == HALF_AND_A_FIFTH


@pytest.mark.fault("C41")
def test_c41_nothing_at_all_is_absent(fake, opened):
    fake.change = lambda query, found: found if query == "time()" else []
    usage = told(opened(fake.url), "gpu: the window", "cpu: the window", "memory: the window")
    assert (usage.state, shares(usage)) == (UsageState.ABSENT, [0.0] * 3)


def sent_on(to):
    def serve(request):
        request.send_response(302)
        request.send_header("Location", to)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return serve


@pytest.mark.fault("C51")
def test_c51_no_credentials_follow_a_redirect(fake, opened):
    elsewhere = FakePrometheus()
    fake.serve = sent_on(f"http://localhost:{elsewhere.port}/api/v1/query")
    store = opened(fake.url.replace("//", "//me:secret@"))
    usage = told(store, "redirects us to localhost", "no credentials are sent elsewhere")
    elsewhere.close()
    assert elsewhere.asked == []
    assert fake.asked[0][1]["Authorization"].startswith("Basic ")
    assert "secret" not in repr(usage)
    assert "secret" not in fake.asked[0][0]


@pytest.mark.fault("C51")
@pytest.mark.parametrize("status", [401, 403])
def test_c51_a_refusal_says_what_to_set(fake, opened, status):
    fake.serve = lambda request: request.answer(status, {"error": "no"})
    told(opened(fake.url), f"refuses us ({status}): set bearerTokenFile")


@pytest.mark.fault("C51")
def test_c51_a_token_is_read_anew_each_time(fake, opened, tmp_path):
    token = tmp_path / "token"
    store = opened(fake.url, bearer_token_file=str(token))
    told(store, f"bearerTokenFile {token} cannot be read")
    token.write_text("first\n")
    ready(store)
    token.write_text("second\n")
    until(lambda: fake.asked[-1][1]["Authorization"] == "Bearer second")
    assert fake.asked[0][1]["Authorization"] == "Bearer first"


@pytest.mark.fault("C52")
def test_c52_an_answer_without_end_is_cut(fake):
    def serve(request):
        request.send_response(200)
        request.end_headers()
        try:
            while not fake.end.is_set():
                request.wfile.write(b" " * 65536)
        except OSError:
            return

    fake.serve = serve
    client = Client(asked_of(fake.url), BoundedSession(most_bytes=1 << 20))
    client.begin()
    with pytest.raises(QueryError, match="answered more than 1 MiB"):
        client.ask("time()")
    client.close()


@pytest.mark.fault("C53")
@pytest.mark.parametrize(("ahead_s", "word"), [(600.0, "ahead of"), (-600.0, "behind")])
def test_c53_a_clock_that_differs_is_told_and_does_no_harm(fake, opened, ahead_s, word):
    fake.ahead_s = ahead_s
    usage = told(opened(fake.url), f"the server's clock is {word} ours by more than 5 s")
    assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
    assert usage.age_s == pytest.approx(5, abs=3)


@pytest.mark.fault("C49")
def test_c49_a_server_that_finds_it_too_much_is_asked_for_less(fake, opened):
    """Real servers say so; each time the steps become four times as long."""

    def serve(request):
        if "%3A60s" in request.path or "%3A240s" in request.path:
            request.answer(
                422, {"error": "query processing would load too many samples into memory"}
            )
        else:
            fake.serve = None
            request.do_GET()
            fake.serve = serve

    fake.serve = serve
    usage = told(opened(fake.url), "asked in steps of 960 s")
    assert usage.state == UsageState.FRESH
