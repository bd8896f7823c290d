"""Against a real server: a week of fifty queues, live exporters that restart, and a kill.

The independent computation is a sum over minutes, with nothing of the stores in it.
"""

import math
import time

import numpy as np
import pytest

from kaisched.core.usage import PARTS, UsageState
from kaisched.daemon.http_server import Server, listen, metrics_page
from kaisched.daemon.http_wire import Page, Reads, Source
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.records import QueueShare
from kaisched.objects.usage import parse_cron
from kaisched.telemetry.metrics import CycleCollector, registry_of
from kaisched.telemetry.published import Published
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import policy_of
from kaisched.usage.feed import UsageFeed
from kaisched.usage.history import HOLD_S, MemoryStore, Sample, Window
from tests.contract.prometheus import Prometheus, free_port, needs_prometheus, past_of
from tests.contract.usage_stores import asking
from tests.waiting import until

pytestmark = [pytest.mark.real, needs_prometheus]

HOUR, DAY = 3600.0, 86_400.0
QUEUES = tuple(f"team-{number}" for number in range(50))
MINUTES = 7 * 24 * 60


class Week:
    """Fifty queues that hold more or less of 400 GPUs, by the minute, until now.

    GPUs only: CPUs and memory take the same way, and the contract asks for them.
    """

    def __init__(self, folder):
        chance = np.random.default_rng(4)
        self.end_s = math.floor(time.time() / 60) * 60.0
        self.times = self.end_s - 60.0 * np.arange(MINUTES, -1, -1)
        # Jobs of an hour or so, quieter at the end of the list and on some days.
        blocks = chance.integers(0, 17, (MINUTES // 45 + 1, len(QUEUES)))
        blocks[chance.random(blocks.shape) < np.linspace(0, 0.9, len(QUEUES))] = 0
        self.held = np.repeat(blocks, 45, axis=0)[: MINUTES + 1] * 1000
        self.capacity = np.full(MINUTES + 1, 400_000)
        self.capacity[2000:5000] = 300_000
        restarts = (self.times[3000], self.times[7001])
        server = Prometheus(folder)
        server.backfill(past_of(self.samples(), cut_at=restarts))
        self.server = server.start()

    def samples(self):
        for at, time_s in enumerate(self.times.tolist()):
            capacity = self.capacity[at : at + 1]
            yield Sample(time_s, ("gpu",), QUEUES, self.held[at : at + 1], capacity)

    def expected(self, start_s, now_s, half_life_s):
        """Usage by queue: every minute in twelve slices."""
        slices = (np.arange(12) + 0.5) * 5.0
        moments = self.times[:, None] + slices
        counts = (moments >= start_s) & (moments < now_s)
        weights = np.where(counts, 0.5 ** ((now_s - moments) / (half_life_s or math.inf)), 0.0)
        weight = weights.sum(axis=1)
        return (weight @ self.held) / (weight @ self.capacity)


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    week = Week(tmp_path_factory.mktemp("week"))
    yield week
    week.server.kill()


MODES = {
    "a week": lambda end_s: Window(),
    "three days": lambda end_s: Window(size_s=3 * DAY),
    "a week, half-life a day": lambda end_s: Window(half_life_s=DAY),
    "a week, half-life an hour": lambda end_s: Window(half_life_s=HOUR),
    "tumbling, two days": lambda end_s: Window("tumbling", 2 * DAY, anchor_s=end_s - 5.2 * DAY),
    "tumbling, half-life": lambda end_s: Window(
        "tumbling", 10 * DAY, half_life_s=2 * DAY, anchor_s=end_s - 6.1 * DAY
    ),
    "cron, monthly or the last four days": lambda end_s: Window("cron", cron=_days_ago(end_s, 4)),
    "cron, half-life": lambda end_s: Window("cron", half_life_s=DAY, cron=_days_ago(end_s, 3)),
}


def _days_ago(end_s, days):
    """An expression that fired so many days before the end, at noon, and not since."""
    day = time.gmtime(end_s - days * DAY)
    return parse_cron(f"0 12 {day.tm_mday} {day.tm_mon} *")


@pytest.mark.fault("C43")
@pytest.mark.parametrize("mode", MODES)
def test_a_week_of_fifty_queues_is_right_within_half_a_percent(week, mode):
    """With two replacements of the exporter in it, whose series end without a mark."""
    window = MODES[mode](week.end_s)
    store = asking(week.server.url, window)
    now_s = time.time()
    usage = store.usage(now_s, QUEUES, ["gpu"])
    store.close()
    expected = week.expected(window.start(now_s), now_s, window.half_life_s)
    assert (usage.parts[0] / PARTS).tolist() == pytest.approx(expected.tolist(), abs=0.005 / 10)
    assert usage.parts[0].sum() / PARTS == pytest.approx(expected.sum(), rel=0.005)
    assert usage.coverage > 0.99
    assert usage.age_s < HOLD_S


@pytest.mark.parametrize("mode", MODES)
def test_the_embedded_sums_of_the_week_are_the_same(week, mode):
    window = MODES[mode](week.end_s)
    store = MemoryStore(window)
    for sample in week.samples():
        store.record(sample)
    now_s = week.end_s + 30
    usage = store.usage(now_s, QUEUES, ["gpu"])
    expected = week.expected(window.start(now_s), now_s, window.half_life_s)
    assert (usage.parts[0] / PARTS).tolist() == pytest.approx(expected.tolist(), abs=0.0002)


@pytest.mark.fault("C48")
@pytest.mark.fault("C49")
def test_two_weeks_do_not_exceed_the_points_of_a_server(week):
    """The limit is 11,000; two weeks by the minute are 20,160."""
    store = asking(week.server.url, Window(size_s=14 * DAY))
    usage = store.usage(time.time(), QUEUES, ["gpu"])
    store.close()
    begin = next(note for note in usage.reasons if "history begins" in note)
    assert "inside the window" in begin
    expected = week.expected(0.0, time.time(), None)
    assert (usage.parts[0] / PARTS).tolist() == pytest.approx(expected.tolist(), abs=0.0005)
    assert "asked in steps of 120 s: much history, or many queues" in usage.reasons


DAY_LONG = {"windowSize": "1d"}


@pytest.fixture(scope="module")
def thirds(tmp_path_factory):
    """Six hours in which three queues shared 40 GPUs as evenly as they can be divided."""
    end_s = math.floor(time.time() / 60) * 60.0
    held, capacity = np.array([[14_000, 13_000, 13_000]]), np.array([40_000])
    samples = [
        Sample(end_s - 60.0 * ago, ("gpu",), ("a", "b", "c"), held, capacity)
        for ago in range(360, -1, -1)
    ]
    server = Prometheus(tmp_path_factory.mktemp("thirds"))
    server.backfill(past_of(samples))
    yield server.start(), end_s
    server.kill()


@pytest.mark.parametrize(
    ("minutes", "arguments", "evicted"),
    [(40, DAY_LONG, 0), (40, {"evictionCost": "0s"}, 1), (330, DAY_LONG, 1)],
)
def test_a_gpu_that_cannot_be_divided_is_handed_on_when_enough_is_owed(
    thirds, minutes, arguments, evicted
):
    """R35: b lacks 13 minutes of a GPU after 40 minutes, and after 5 and a half hours 1 h 50.

    What only rounding gives is worth a sixteenth of the history here, an hour and a half.
    """
    server, end_s = thirds
    builder = ClusterBuilder().node("n0", gpu=40)
    for queue, runs in {"a": 14, "b": 13, "c": 13}.items():
        builder.queue(queue)
        for at in range(runs + 1):
            builder.job(f"{queue}{at}", queue=queue, running={"n0": 1} if at < runs else None)
    snapshot = builder.store().snapshot()
    window = Window("tumbling", 7 * DAY, anchor_s=end_s - 60.0 * minutes)
    store = asking(server.url, window)
    usage = UsageFeed(store, 60.0).answer(end_s, snapshot.queues.name, snapshot.axis.names)
    store.close()
    plugin = {"enabled": True, "arguments": {"kValue": 1, **arguments}}
    policy = policy_of({"plugins": {"time-based-fairshare": plugin}})
    result, _ = run_cycle(snapshot, usage, policy, end_s, Memory())
    assert usage.weighed_s == 60.0 * minutes
    assert [pod.pod[:9] for pod in result.evictions] == ["default/a"] * evicted


class Exporter:
    """Pages that a server scrapes every second."""

    def __init__(self):
        self.port = free_port()
        self.text = ""
        self.page = lambda _: Page(200, "text/plain; version=0.0.4", self.text.encode())
        pages = {"/metrics": Source(self.answer, Reads(headers=("accept",)))}
        self.server = Server([listen("127.0.0.1", self.port, pages, "test")])

    def answer(self, request):
        return self.page(request)

    @property
    def scrape(self):
        return f"{{job_name: us, static_configs: [{{targets: ['127.0.0.1:{self.port}']}}]}}"


@pytest.fixture
def live(tmp_path):
    exporter = Exporter()
    server = Prometheus(tmp_path / "live", exporter.scrape)
    yield exporter, server
    server.kill()
    exporter.server.close()


def fine(server, **changes):
    """A store that asks for GPUs every half second, in steps of a second."""
    metrics = {
        "allocation": {"gpu": "kai_queue_allocated_gpus"},
        "capacity": {"gpu": "kaisched_capacity_gpus"},
    }
    return asking(
        server.url,
        Window(size_s=HOUR),
        fetch_s=0.5,
        resolution_s=1.0,
        timeout_s=5.0,
        **metrics,
        **changes,
    )


def gpus_of(store, queues, now_s=None):
    return (store.usage(now_s or time.time(), queues, ["gpu"]).parts[0] / PARTS).tolist()


def test_what_our_own_exporter_publishes_is_what_the_store_asks_for(live):
    exporter, server = live
    amounts = {"cpu": 0, "memory": 0, "gpu": 3000}
    share = QueueShare('team "a"\\', None, amounts, amounts, amounts, amounts)
    idle = QueueShare("b", None, *[dict.fromkeys(amounts, 0)] * 4)
    collector = CycleCollector()
    published = Published(shares=(share, idle))
    total = np.array([0, 0, 4000])
    collector.publish(published.with_history(("cpu", "memory", "gpu"), ("b",), total, None))
    exporter.page = metrics_page(registry_of(collector))
    server.start()
    store = fine(server)
    queues = ['team "a"\\', "b"]
    until(lambda: gpus_of(store, queues) == [0.75, 0.0])
    assert store.usage(time.time(), queues, ["gpu"]).state == UsageState.FRESH
    store.close()


@pytest.mark.fault("C43")
@pytest.mark.fault("C45")
def test_an_exporter_that_restarts_every_second_and_a_half_loses_nothing(live):
    exporter, server = live
    server.start()
    end_s, pod = time.time() + 9, 0
    while time.time() < end_s:
        pod += 1
        exporter.text = (
            f'kai_queue_allocated_gpus{{queue_name="a",pod="{pod}"}} 4\n'
            f'kai_queue_allocated_gpus{{queue_name="b",pod="{pod}"}} 1\n'
            "kaisched_capacity_gpus 8\n"
        )
        time.sleep(1.5)
    store = fine(server)
    found = gpus_of(store, ["a", "b"])
    store.close()
    assert found == pytest.approx([0.5, 0.125], rel=0.02)


@pytest.mark.fault("C39")
def test_a_killed_server_is_stale_and_then_fresh_again(live):
    exporter, server = live
    exporter.text = 'kai_queue_allocated_gpus{queue_name="a"} 4\nkaisched_capacity_gpus 8\n'
    server.start()
    store = fine(server, staleness_s=2.5)
    until(lambda: gpus_of(store, ["a"]) == [0.5])
    assert store.usage(time.time(), ["a"], ["gpu"]).state == UsageState.FRESH
    server.kill()
    until(lambda: store.usage(time.time(), ["a"], ["gpu"]).state == UsageState.STALE)
    stale = store.usage(time.time(), ["a"], ["gpu"])
    assert stale.parts[0, 0] == PARTS // 2
    assert stale.age_s > 2.5
    assert any("the last fetch failed" in reason for reason in stale.reasons)
    assert any("carried on" in reason for reason in stale.reasons)
    server.start()
    until(lambda: store.usage(time.time(), ["a"], ["gpu"]).state == UsageState.FRESH)
    again = store.usage(time.time(), ["a"], ["gpu"])
    assert again.parts[0, 0] == PARTS // 2
    assert [reason for reason in again.reasons if "history begins" not in reason] == []
    store.close()


def test_an_exporter_that_went_is_stale_although_the_server_answers(live):
    exporter, server = live
    exporter.text = 'kai_queue_allocated_gpus{queue_name="a"} 4\nkaisched_capacity_gpus 8\n'
    server.start()
    store = fine(server, staleness_s=2.5)
    until(lambda: gpus_of(store, ["a"]) == [0.5])
    exporter.text = ""
    until(lambda: store.usage(time.time(), ["a"], ["gpu"]).state == UsageState.STALE)
    until(
        lambda: any(
            "no sample of the last" in reason
            for reason in store.usage(time.time(), ["a"], ["gpu"]).reasons
        )
    )
    store.close()


@pytest.mark.fault("C44")
def test_of_a_pair_of_servers_each_sample_counts_once(live):
    """Rows of two replicas that scrape the same exporter, joined in one place."""
    exporter, server = live
    exporter.text = (
        'kai_queue_allocated_gpus{queue_name="a",replica="0"} 4\n'
        'kai_queue_allocated_gpus{queue_name="a",replica="1"} 4\n'
        'kaisched_capacity_gpus{replica="0"} 8\nkaisched_capacity_gpus{replica="1"} 8\n'
    )
    server.start()
    store = fine(server, replica_label="replica")
    until(lambda: gpus_of(store, ["a"]) == [0.5])
    store.close()


def spoilt(lines, metric, value, begin_s, end_s):
    """Lines with the values of a metric replaced for a time; without a value, taken out."""
    for line in lines:
        name, _, rest = line.partition(" ")
        if metric in name and begin_s <= float(rest.split()[1]) < end_s:
            if value is not None:
                yield f"{name} {value} {rest.split()[1]}"
        else:
            yield line


SPOILT = {
    # It holds for five minutes more, in which queue a held all there was.
    "capacity is unknown for three hours": ("kube_node", None, (180 * 4 + 5 * 8) / (185 * 8)),
    "capacity is no number for three hours": ("kube_node", "NaN", 0.5),
    "use is no number for an hour": ('queue_name="a"', "NaN", 0.4 * 5 / 6),
    "use is below 0 for an hour": ('queue_name="a"', "-7", 0.4 * 5 / 6),
}


@pytest.mark.fault("C42")
@pytest.mark.parametrize("case", SPOILT)
def test_what_is_no_amount_is_left_out_by_a_real_server_too(tmp_path, case):
    """Six hours: queue a holds 4 of 10 GPUs, in the three hours without capacity all of 8."""
    metric, value, expected = SPOILT[case]
    end_s = math.floor(time.time() / 60) * 60.0
    begin_s = end_s - 6 * HOUR
    is_capacity = metric == "kube_node"
    held = [8000 if is_capacity and at >= 180 else 4000 for at in range(361)]
    total = [8000 if is_capacity else 10_000] * 361
    samples = [
        Sample(
            begin_s + 60.0 * at, ("gpu",), ("a", "b"), np.array([[gpus, 1000]]), np.array([all_])
        )
        for at, (gpus, all_) in enumerate(zip(held, total, strict=True))
    ]
    hours = (3, 7) if is_capacity else (2, 3)
    lines = spoilt(
        past_of(samples), metric, value, begin_s + hours[0] * HOUR, begin_s + hours[1] * HOUR
    )
    server = Prometheus(tmp_path)
    server.backfill(lines)
    try:
        store = asking(server.start().url, Window(size_s=DAY), staleness_s=DAY)
        usage = store.usage(time.time(), ["a", "b"], ["gpu"])
        store.close()
    finally:
        server.kill()
    assert usage.parts[0, 0] / PARTS == pytest.approx(expected, abs=0.01)
    assert usage.parts[0, 1] / PARTS == pytest.approx(1 / (8 if is_capacity else 10), abs=0.005)
    if not is_capacity:
        assert any("left out" in reason for reason in usage.reasons)
