"""A Prometheus server that answers nonsense, half or much; by row of the catalogue of faults."""

import time

import pytest

from kaisched.core.usage import UsageState
from kaisched.objects.usage import quoted
from kaisched.usage.prometheus.queries import Client
from tests.contract.prometheus import Prometheus, needs_prometheus
from tests.contract.usage_stores import asked_of
from tests.faults.asking import HALF_AND_A_FIFTH, ready, shares, told
from tests.unit.usage.samples import RESOURCES
from tests.waiting import until


@pytest.mark.fault("C42")
@pytest.mark.parametrize("junk", ["NaN", "+Inf", "-Inf", "-1", "1e309", "five", None, 7])
def test_c42_a_queue_without_a_number_is_left_out_and_counted(fake, opened, junk):
    def change(query, found):
        if query.startswith("sum by"):
            found[0]["value"][1] = junk
        return found

    fake.change = change
    usage = told(opened(fake.url), "gpu: left out 1 answers without a number")
    assert usage.state == UsageState.PARTIAL
    assert shares(usage) == [0.0, 0.2, 0.0]


@pytest.mark.fault("C42")
def test_c42_series_that_are_no_amounts_are_told(fake, opened):
    fake.change = lambda query, found: (
        [{"metric": {}, "value": [0, "3"]}] if "min_over_time" in query else found
    )
    usage = told(opened(fake.url), "gpu: 3 series have values below 0, left out")
    assert usage.state == UsageState.PARTIAL


@pytest.mark.fault("C42")
@pytest.mark.parametrize("capacity", ["NaN", "0", "1e-300", "-5"])
def test_c42_a_capacity_that_is_none_is_not_divided_by(fake, opened, capacity):
    def change(query, found):
        if "nvidia" in query and found and "values" in found[0]:
            found[0]["values"] = [[at, capacity] for at, _ in found[0]["values"]]
        return found

    fake.change = change
    usage = told(opened(fake.url), "gpu: ")
    assert shares(usage) == [0.0] * 3
    assert shares(usage, "cpu") == HALF_AND_A_FIFTH


@pytest.mark.fault("C42")
@pytest.mark.parametrize("body", [b"[]", b'{"data": 7}', b"<html>", b"", b'{"status": "success"}'])
def test_c42_an_answer_of_another_form_is_one_line(fake, opened, body):
    def serve(request):
        request.send_response(200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    fake.serve = serve
    usage = told(opened(fake.url), "the last fetch failed")
    assert "Traceback" not in usage.reasons[0]
    assert "Error" not in usage.reasons[0]


@pytest.mark.fault("C47")
@pytest.mark.parametrize("factor", [1000, 3600])
def test_c47_a_slip_of_units_is_not_believed(fake, opened, factor):
    """Millicores for cores, or a counter for a gauge: far more used than there was."""

    def change(query, found):
        if query.startswith("sum by") and "gpus" in query:
            for entry in found:
                entry["value"][1] = str(float(entry["value"][1]) * factor)
        return found

    fake.change = change
    usage = told(
        opened(fake.url), f"gpu: queue a used {500 * factor / 1000:.3g} times the capacity"
    )
    assert (usage.state, shares(usage)) == (UsageState.PARTIAL, [0.0] * 3)
    assert shares(usage, "cpu") == HALF_AND_A_FIFTH


@pytest.mark.fault("C50")
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


@pytest.mark.fault("C54")
def test_c54_an_answer_with_half_of_the_data_is_partial(fake, opened):
    """A queue that it does not name keeps what was last known of it."""
    store = opened(fake.url)
    ready(store)
    fake.warnings = ["3 of 5 stores did not answer"]
    fake.change = lambda query, found: found[1:] if query.startswith("sum by") else found
    usage = told(store, "the server warns: 3 of 5 stores did not answer")
    assert (usage.state, shares(usage)) == (UsageState.PARTIAL, HALF_AND_A_FIFTH)


@pytest.mark.fault("C56")
def test_c56_ten_thousand_queues_are_a_dozen_questions(fake, opened):
    names = [f"q{at}" for at in range(10_000)]

    def change(query, found):
        if query.startswith("count(") and "min_over_time" not in query:
            found[0]["value"][1] = "10000"
        if query.startswith("sum by"):
            return [{"metric": {"queue_name": name}, "value": [0, "0.001"]} for name in names]
        return found

    fake.change = change
    store = opened(fake.url, fetch_s=3600.0, timeout_s=600.0)
    until(store.is_ready)
    begin = time.process_time()
    usage = store.usage(time.time(), names, RESOURCES)
    assert time.process_time() - begin < 1.0
    assert usage.parts.shape == (3, 10_000)
    assert len(fake.asked) <= 15
    steps = next(reason for reason in usage.reasons if "asked in steps" in reason)
    assert "asked in steps of 3060 s" in steps
