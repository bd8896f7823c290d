"""Faults of the usage history, each named by its row in the project's catalogue of faults (C39..).

A fake server does here what a real one does too seldom. What a real one does in earnest (C43 to
C46, C48, C49) is in tests/contract; what a file does (C58) in tests/unit/usage/test_sqlite.py.
"""

import socket
import time

import numpy as np
import pytest

from kaisched.core.usage import PARTS, UsageState
from kaisched.objects.cron import parse_cron
from kaisched.objects.labels import time_of
from kaisched.objects.promql import quoted
from kaisched.usage.feed import believed
from kaisched.usage.memory import MemoryStore
from kaisched.usage.port import Sample
from kaisched.usage.prometheus.client import Client
from kaisched.usage.prometheus.http import BoundedSession, QueryError
from kaisched.usage.window import Window
from tests.contract.prometheus import Prometheus, needs_prometheus
from tests.contract.usage_stores import asked_of, asking, until
from tests.faults.fake_prometheus import FakePrometheus
from tests.unit.usage.samples import HOUR, RESOURCES, fill, parts_of, sample

QUEUES = ["a", "b", "c"]
HALF_AND_A_FIFTH = [0.5, 0.2, 0.0]


@pytest.fixture
def fake():
    server = FakePrometheus()
    yield server
    server.close()


@pytest.fixture
def opened():
    """Make stores and close them."""
    stores = []

    def make(url, window=None, **changes):
        changes = {"fetch_s": 0.1, "timeout_s": 1.0, **changes}
        store = asking(url, window or Window(), is_awaited=False, **changes)
        stores.append(store)
        return store

    yield make
    for store in stores:
        store.close()


def told(store, *words):
    """Wait until the answer has all these words in its reasons, and return it."""

    def is_told():
        reasons = store.usage(time.time(), QUEUES, RESOURCES).reasons
        return all(any(word in reason for reason in reasons) for word in words)

    until(is_told)
    return store.usage(time.time(), QUEUES, RESOURCES)


def shares(usage, resource="gpu"):
    return (usage.parts[RESOURCES.index(resource)] / PARTS).tolist()


def ready(store):
    until(store.is_ready)
    return store.usage(time.time(), QUEUES, RESOURCES)


def held_now(store, **gpus):
    """What this process sees itself, a minute long, from now on."""
    now_s = time.time()
    store.record(sample(now_s, **gpus))
    store.record(sample(now_s + 60, **gpus))
    return now_s + 60


def test_the_fake_is_believed(fake, opened):
    usage = ready(opened(fake.url))
    assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
    assert usage.coverage == 1.0
    assert usage.age_s == pytest.approx(5, abs=3)


def test_c39_a_server_that_is_down_at_the_start(opened):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        store = opened(f"http://127.0.0.1:{nobody.getsockname()[1]}")
        usage = told(store, "127.0.0.1 did not answer", "refused")
    assert (usage.state, shares(usage), usage.coverage) == (UsageState.ABSENT, [0.0] * 3, 0.0)
    assert not store.is_ready()


def test_c39_a_server_that_comes_and_goes(fake, opened):
    store = opened(fake.url)
    ready(store)
    for _ in range(3):
        fake.serve = lambda request: request.answer(503, {"error": "starting up"})
        usage = told(store, "answered 503: starting up")
        assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
        fake.serve = None
        until(lambda: not store.usage(time.time(), QUEUES, RESOURCES).reasons[:1] or "503" not in
              store.usage(time.time(), QUEUES, RESOURCES).reasons[0])  # fmt: skip


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


@pytest.mark.parametrize("in_headers", [True, False], ids=["in the headers", "in the body"])
def test_c40_a_server_that_drips_is_left_when_time_is_up(fake, opened, in_headers):
    fake.serve = lambda request: drip(request, fake.end, in_headers=in_headers)
    begin = time.monotonic()
    store = opened(fake.url)
    now_s = time.monotonic()
    store.record(sample(0, a=1))
    usage = store.usage(0.0, QUEUES, RESOURCES)
    assert time.monotonic() - now_s < 0.2
    assert usage.state == UsageState.ABSENT
    told(store, "took longer than usageQueryTimeout")
    assert time.monotonic() - begin < 5.0


def test_c40_a_server_that_says_nothing_is_left_when_time_is_up(fake, opened):
    fake.serve = lambda _: fake.end.wait(30)
    told(opened(fake.url), "took longer than usageQueryTimeout")


def test_c41_absent_is_not_zero(fake, opened):
    """The capacity of GPUs vanishes: what was known of them stays, CPUs go on."""
    store = opened(fake.url)
    ready(store)
    fake.change = lambda query, found: [] if "nvidia" in query and "group" in query else found
    usage = told(store, "gpu: the window has no time at which kai_queue_allocated_gpus and")
    assert usage.state == UsageState.PARTIAL
    assert shares(usage) == HALF_AND_A_FIFTH


def test_c41_nothing_at_all_is_absent(fake, opened):
    fake.change = lambda query, found: found if query == "time()" else []
    usage = told(opened(fake.url), "gpu: the window", "cpu: the window", "memory: the window")
    assert (usage.state, shares(usage)) == (UsageState.ABSENT, [0.0] * 3)


@pytest.mark.parametrize("junk", ["NaN", "+Inf", "-Inf", "-1", "1e309", "five", None, 7])
def test_c42_a_queue_without_a_number_is_left_out_and_counted(fake, opened, junk):
    def change(query, found):
        if query.startswith("sum_over_time"):
            found[0]["value"][1] = junk
        return found

    fake.change = change
    usage = told(opened(fake.url), "gpu: left out 1 answers without a number")
    assert usage.state == UsageState.PARTIAL
    assert shares(usage) == [0.0, 0.2, 0.0]


def test_c42_series_that_are_no_amounts_are_told(fake, opened):
    fake.change = lambda query, found: (
        [{"metric": {}, "value": [0, "3"]}] if "unless" in query else found
    )
    usage = told(opened(fake.url), "gpu: 3 series have a value that is no amount, left out")
    assert usage.state == UsageState.PARTIAL


@pytest.mark.parametrize("capacity", ["NaN", "0", "1e-300", "-5"])
def test_c42_a_capacity_that_is_none_is_not_divided_by(fake, opened, capacity):
    def change(query, found):
        if "group" in query and "nvidia" in query:
            found[0]["values"] = [[at, capacity] for at, _ in found[0]["values"]]
        return found

    fake.change = change
    usage = told(opened(fake.url), "gpu: ")
    assert shares(usage) == [0.0] * 3
    assert shares(usage, "cpu") == HALF_AND_A_FIFTH


@pytest.mark.parametrize("body", [b"[]", b'{"data": 7}', b"<html>", b"", b'{"status": "success"}'])
def test_c42_an_answer_of_another_form_is_one_line(fake, opened, body):
    def serve(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    fake.serve = serve
    usage = told(opened(fake.url), "the last fetch is of no use")
    assert "Traceback" not in usage.reasons[0]
    assert "Error" not in usage.reasons[0]


@pytest.mark.parametrize("factor", [1000, 3600])
def test_c47_a_slip_of_units_is_not_believed(fake, opened, factor):
    """Millicores for cores, or a counter for a gauge: far more used than there was."""

    def change(query, found):
        if query.startswith("sum_over_time") and "gpus" in query:
            for entry in found:
                entry["value"][1] = str(float(entry["value"][1]) * factor)
        return found

    fake.change = change
    usage = told(
        opened(fake.url), f"gpu: queue a used {500 * factor / 1000:.3g} times the capacity"
    )
    assert (usage.state, shares(usage)) == (UsageState.PARTIAL, [0.0] * 3)
    assert shares(usage, "cpu") == HALF_AND_A_FIFTH


@pytest.mark.real
@needs_prometheus
@pytest.mark.parametrize(
    "value", ['x"} or vector(9) #', "a\\", "line\nbreak", "{}", "naïve ☃", "\x00\x7f", "'`"]
)
def test_c50_a_label_value_is_taken_by_its_letters(one_server, value):
    """A real server reads the query back: one selector, with the literal value."""
    client = Client(asked_of(one_server.url))
    client.begin()
    (found,) = client.ask(f'label_replace(vector(1), "read", {quoted(value)}, "", "")')
    client.close()
    assert found["metric"] == {"read": value}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory):
    server = Prometheus(tmp_path_factory.mktemp("plain")).start()
    yield server
    server.kill()


def sent_on(to):
    def serve(request):
        request.send_response(302)
        request.send_header("Location", to)
        request.send_header("Content-Length", "0")
        request.end_headers()

    return serve


def test_c51_no_credentials_follow_a_redirect(fake, opened):
    elsewhere = FakePrometheus()
    fake.serve = sent_on(f"http://localhost:{elsewhere.port}/api/v1/query")
    store = opened(fake.url.replace("//", "//me:secret@"))
    usage = told(store, "sends us on to localhost", "no credentials are sent elsewhere")
    elsewhere.close()
    assert elsewhere.asked == []
    assert fake.asked[0][1]["Authorization"].startswith("Basic ")
    assert "secret" not in repr(usage)
    assert "secret" not in fake.asked[0][0]


@pytest.mark.parametrize("status", [401, 403])
def test_c51_a_refusal_says_what_to_set(fake, opened, status):
    fake.serve = lambda request: request.answer(status, {"error": "no"})
    told(opened(fake.url), f"refuses us ({status}): set bearerTokenFile")


def test_c51_a_token_is_read_anew_each_time(fake, opened, tmp_path):
    token = tmp_path / "token"
    store = opened(fake.url, bearer_token_file=str(token))
    told(store, f"bearerTokenFile {token} cannot be read")
    token.write_text("first\n")
    ready(store)
    token.write_text("second\n")
    until(lambda: fake.asked[-1][1]["Authorization"] == "Bearer second")
    assert fake.asked[0][1]["Authorization"] == "Bearer first"


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


@pytest.mark.parametrize(("ahead_s", "word"), [(600.0, "ahead of"), (-600.0, "behind")])
def test_c53_a_clock_that_differs_is_told_and_does_no_harm(fake, opened, ahead_s, word):
    fake.ahead_s = ahead_s
    usage = told(opened(fake.url), f"the server's clock is {word} ours by more than 5 s")
    assert (usage.state, shares(usage)) == (UsageState.FRESH, HALF_AND_A_FIFTH)
    assert usage.age_s == pytest.approx(5, abs=3)


def test_c54_an_answer_with_half_of_the_data_is_partial(fake, opened):
    """A queue that it does not name keeps what was last known of it."""
    store = opened(fake.url)
    ready(store)
    fake.warnings = ["3 of 5 stores did not answer"]
    fake.change = lambda query, found: found[1:] if query.startswith("sum_over_time") else found
    usage = told(store, "the server warns: 3 of 5 stores did not answer")
    assert (usage.state, shares(usage)) == (UsageState.PARTIAL, HALF_AND_A_FIFTH)


def test_c56_ten_thousand_queues_are_a_dozen_questions(fake, opened):
    names = [f"q{at}" for at in range(10_000)]

    def change(query, found):
        if query.startswith("count(") and "unless" not in query:
            found[0]["value"][1] = "10000"
        if query.startswith("sum_over_time"):
            return [{"metric": {"queue_name": name}, "value": [0, "0.001"]} for name in names]
        return found

    fake.change = change
    store = opened(fake.url, fetch_s=60.0, timeout_s=10.0)
    until(store.is_ready)
    begin = time.process_time()
    usage = store.usage(time.time(), names, RESOURCES)
    assert time.process_time() - begin < 1.0
    assert usage.parts.shape == (3, 10_000)
    assert len(fake.asked) <= 13
    steps = next(reason for reason in usage.reasons if "asked in steps" in reason)
    assert "asked in steps of 1560 s" in steps


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


@pytest.mark.parametrize(
    ("midnight", "hours"), [("2025-03-30T00:00+01:00", 23), ("2025-10-26T00:00+02:00", 25)]
)
def test_c57_a_day_is_as_long_as_it_is(midnight, hours):
    """Used for its first hour only; the day after begins with nothing."""
    begin = time_of(midnight)
    store = MemoryStore(Window("cron", cron=parse_cron("CRON_TZ=Europe/Berlin 0 0 * * *")))
    end = begin + hours * HOUR
    for at in range(-60, hours * 60):
        store.record(sample(begin + 60 * at, a=10 if at < 60 else 0))
    assert parts_of(store.usage(end, ["a"], RESOURCES)) == pytest.approx(PARTS / hours, abs=1)
    assert parts_of(store.usage(end + 60, ["a"], RESOURCES)) == 0


def test_c57_the_first_window_and_one_that_is_yet_to_begin():
    window = Window("tumbling", HOUR, anchor_s=HOUR)
    store = fill(MemoryStore(window), [sample(60 * at, a=10) for at in range(60)])
    early = store.usage(HOUR - 1, ["a"], RESOURCES)
    assert (parts_of(early), early.coverage) == (0, 1.0)
    fill(store, [sample(HOUR + 60 * at, a=5) for at in range(60)])
    assert parts_of(store.usage(2 * HOUR - 1, ["a"], RESOURCES)) == PARTS // 2
    assert parts_of(store.usage(2 * HOUR, ["a"], RESOURCES)) == 0


def test_c46_with_most_samples_gone_nothing_is_decided_by_history():
    """Evictions need evidence: of what is less than half known, the plain weights stand."""
    store = MemoryStore(Window())
    fill(store, [sample(600 * at, a=10) for at in range(40)])
    usage = store.usage(24_000.0, ["a"], RESOURCES)
    assert parts_of(usage) == PARTS
    assert usage.coverage == pytest.approx(0.5, abs=0.01)
    fill(store, [sample(36_000 + 1200 * at, a=10) for at in range(20)])
    thin = believed(store.usage(60_000.0, ["a"], RESOURCES))
    assert thin.coverage < 0.5
    assert parts_of(thin) == 0
    assert "history is not used" in thin.reasons[-1]


def test_c42_a_sample_that_is_nonsense_does_not_reach_a_decision():
    """In process, too: more used than ever was there makes the resource unbelievable."""
    store = MemoryStore(Window())
    used, none = np.array([[5000], [9]]), np.array([0, 3])
    for at in range(3):
        store.record(Sample(60.0 * at, ("gpu", "fpga"), ("a",), used, none))
    usage = store.usage(120.0, ["a"], ["gpu", "fpga"])
    assert usage.parts.tolist() == [[0], [0]]
    assert usage.state == UsageState.PARTIAL
    assert usage.reasons == (
        "gpu: used, but its capacity is 0",
        "fpga: queue a used 3 times the capacity; do both count in the same unit?",
    )
