"""Metrics: one state a scrape, names and labels as documented, nothing unbounded."""

import dataclasses
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client import generate_latest

from kaisched.core.usage import Usage, UsageState
from kaisched.framework.intents import Bind, Evict, Nominate
from kaisched.framework.report.records import CycleStats, PluginFailure, QueueShare
from kaisched.framework.report.result import CycleResult
from kaisched.telemetry.metrics import (
    HISTORY,
    METRICS,
    QUEUE_CAP,
    AdapterCollector,
    AdapterState,
    CycleCollector,
    Durations,
    Watch,
    registry_of,
)
from kaisched.telemetry.published import BUCKETS_S, PAIR_CAP, Published
from kaisched.units import MEBIBYTE

NONE = np.zeros(0, np.int64)


def share(name, gpus=1000, deserved=-1):
    amounts = {"cpu": 1500, "memory": 2 * MEBIBYTE, "gpu": gpus, "pods": 3, "example.com/fpga": 4}
    return QueueShare(name, None, amounts, amounts, amounts, {"gpu": deserved})


class Waiting:
    """Two pending jobs, whose records may be asked for the reason only."""

    def counts(self):
        return {"NoRoom": 2}


def result(shares=(), abandoned="", failures=()):
    return CycleResult(
        binds=[Bind("a/p", "u", "n", "a/g", 0, 0)],
        evictions=[Evict("a/q", "u", "n", "a/g", "reclaim", "b/g", "why", 0, 0)],
        nominations=[Nominate("a/r", "u", "n", "a/g", 0, 0)],
        records=Waiting(),
        shares=shares,
        stats=CycleStats(3, 1, 1, 1, 1, abandoned),
        failures=failures,
        bind_tasks=NONE,
        bind_nodes=NONE,
        evict_tasks=NONE,
        nominate_tasks=NONE,
        nominate_nodes=NONE,
    )


def adapter_state():
    late = Durations()
    for seconds in (0.002, 0.2, 3.0, 60.0):
        late.add(seconds)
    return AdapterState(
        is_leading=True,
        lease_age_s=1.5,
        watches=(
            Watch("pods", 2.0, True, {"start": 1}, 3, 4, 5),
            Watch("jobs.batch", 9.0, False, {}, 0, 0, 0),
        ),
        news=6,
        waiting={"decisions": (7, 0.5), "reports": (0, 0.0)},
        writes={("bind", "done"): (8, 0.0)},
        requests={("POST", "busy"): (9, 0.25)},
        renewals=late.read(),
    )


def scrape(published):
    collector = CycleCollector()
    collector.publish(published)
    text = generate_latest(registry_of(collector)).decode()
    return dict(
        line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")
    )


def test_a_cycle_is_counted():
    values = scrape(Published().after(result([share("a")]), 0.02, 1000.0, {"gang": 0.5}))
    assert values['kaisched_cycles_total{outcome="completed"}'] == "1.0"
    assert values['kaisched_cycles_total{outcome="failed"}'] == "0.0"
    assert values["kaisched_last_cycle_timestamp_seconds"] == "1000.0"
    assert values["kaisched_binds_total"] == "1.0"
    assert values["kaisched_nominations_total"] == "1.0"
    assert values['kaisched_evictions_total{action="reclaim"}'] == "1.0"
    assert values['kaisched_pending_jobs{reason="NoRoom"}'] == "2.0"
    assert values['kaisched_plugin_seconds_total{plugin="gang"}'] == "0.5"


def test_queue_amounts_are_in_the_units_their_names_say():
    values = scrape(Published().after(result([share("a", gpus=2500)]), 0.02, 0.0, {}))
    assert values['kaisched_queue_fair_share_gpus{queue="a"}'] == "2.5"
    assert values['kaisched_queue_fair_share_cpu_cores{queue="a"}'] == "1.5"
    assert float(values['kaisched_queue_allocated_memory_bytes{queue="a"}']) == 2 * 2**20
    assert values['kaisched_queue_requested_pieces{queue="a",resource="example.com/fpga"}'] == "4.0"
    assert values['kaisched_queue_deserved_gpus{queue="a"}'] == "+Inf"
    assert not any("queue" in name and "pods" in name for name in values)


@pytest.mark.fault("I123")
def test_the_queue_that_is_put_off_is_named_and_the_others_are_zero():
    many = [share(f"q{row}") for row in range(QUEUE_CAP + 2)]
    put_off = {"q1": 7, f"q{QUEUE_CAP}": 2, f"q{QUEUE_CAP + 1}": 3}
    said = dataclasses.replace(result(many), put_off=put_off)
    values = scrape(Published().after(said, 0.02, 0.0, {}))
    named = {name: value for name, value in values.items() if "put_off" in name}
    assert named['kaisched_put_off_jobs{queue="q1"}'] == "7.0"
    assert named['kaisched_put_off_jobs{queue="q2"}'] == "0.0"
    assert named['kaisched_put_off_jobs{queue="other"}'] == "5.0"
    assert len(named) == QUEUE_CAP + 1


def evicted(queue, beneficiary_queue, kind):
    who = {"queue": queue, "beneficiary_queue": beneficiary_queue, "kind": kind}
    return Evict("a/q", "u", "n", "a/g", "reclaim", "b/g", "why", 0, 0, **who)


def test_evictions_are_counted_by_queue_preemptor_and_reason():
    gone = [evicted("a", "b", "fair_sharing")] * 2 + [evicted("a", "a", "priority")]
    published = Published()
    for _ in range(2):
        said = dataclasses.replace(result([share("a"), share("b")]), evictions=gone)
        published = published.after(said, 0.02, 0.0, {})
    name = "kaisched_queue_evictions_total"
    values = {key: value for key, value in scrape(published).items() if key.startswith(name)}
    assert values == {
        f'{name}{{preemptor="b",queue="a",reason="fair_sharing"}}': "4.0",
        f'{name}{{preemptor="a",queue="a",reason="priority"}}': "2.0",
    }


@pytest.mark.fault("I132")
def test_evictions_of_queues_that_are_gone_are_forgotten():
    gone = [evicted("a", "b", "reclaim"), evicted("b", "c", "reclaim"), evicted("b", "", "drain")]
    published = Published()
    for names, evictions in (("abc", gone), ("bc", ())):
        said = dataclasses.replace(result([share(name) for name in names]), evictions=evictions)
        published = published.after(said, 0.02, 0.0, {})
    assert published.queue_evictions == {("b", "c", "reclaim"): 1, ("b", "", "drain"): 1}


def test_combinations_of_queues_beyond_the_cap_are_one_series_for_each_reason():
    gone = [evicted(f"q{row}", "b", "reclaim") for row in range(PAIR_CAP + 3)]
    gone += [evicted("q0", "b", "reclaim"), evicted("new", "b", "preempt")]
    published = Published().after(dataclasses.replace(result(), evictions=gone), 0.02, 0.0, {})
    assert len(published.queue_evictions) == PAIR_CAP + 2
    assert published.queue_evictions["q0", "b", "reclaim"] == 2
    assert published.queue_evictions["other", "other", "reclaim"] == 3
    assert published.queue_evictions["other", "other", "preempt"] == 1


def test_pending_demand_is_what_is_asked_for_and_not_held():
    one = dataclasses.replace(share("a"), allocated={"gpu": 400, "cpu": 2000, "memory": 0})
    values = scrape(Published().after(result([one]), 0.02, 0.0, {}))
    assert values['kaisched_queue_pending_gpus{queue="a"}'] == "0.6"
    assert values['kaisched_queue_pending_cpu_cores{queue="a"}'] == "0.0"
    assert float(values['kaisched_queue_pending_memory_bytes{queue="a"}']) == 2 * 2**20


def test_durations_fill_cumulated_buckets():
    published = Published()
    for duration_s in (0.001, 0.02, 0.02, 99.0):
        published = published.after(result(), duration_s, 0.0, {})
    values = scrape(published)
    assert values['kaisched_cycle_duration_seconds_bucket{le="0.001"}'] == "1.0"
    assert values['kaisched_cycle_duration_seconds_bucket{le="0.03"}'] == "3.0"
    assert values[f'kaisched_cycle_duration_seconds_bucket{{le="{BUCKETS_S[-1]}"}}'] == "3.0"
    assert values['kaisched_cycle_duration_seconds_bucket{le="+Inf"}'] == "4.0"
    assert values["kaisched_cycle_duration_seconds_count"] == "4.0"
    assert float(values["kaisched_cycle_duration_seconds_sum"]) == pytest.approx(99.041)


def test_totals_grow_and_gauges_are_replaced():
    published = Published().after(result([share("a")]), 0.02, 1.0, {"gang": 0.5})
    published = published.after(result([share("b")]), 0.02, 2.0, {"gang": 0.25})
    values = scrape(published)
    assert values["kaisched_binds_total"] == "2.0"
    assert values['kaisched_plugin_seconds_total{plugin="gang"}'] == "0.75"
    assert 'kaisched_queue_fair_share_gpus{queue="a"}' not in values


def test_failures_and_outcomes_are_told_apart():
    faults = (PluginFailure("gang", "job_gate", "boom"), PluginFailure("gang", "job_gate", "boom"))
    published = Published().after(result(abandoned="fair share", failures=faults), 0.02, 1.0, {})
    values = scrape(published.after_failure(0.5, 2.0))
    assert values['kaisched_cycles_total{outcome="abandoned"}'] == "1.0"
    assert values['kaisched_cycles_total{outcome="failed"}'] == "1.0"
    assert values['kaisched_plugin_failures_total{plugin="gang"}'] == "2.0"


def test_queues_beyond_the_cap_are_one_series():
    shares = [share(f"q{row:05d}") for row in range(QUEUE_CAP + 3)]
    values = scrape(Published().after(result(shares), 0.02, 0.0, {}))
    series = [name for name in values if name.startswith("kaisched_queue_fair_share_gpus")]
    assert len(series) == QUEUE_CAP + 1
    assert values['kaisched_queue_fair_share_gpus{queue="other"}'] == "3.0"


def test_what_is_served_is_what_is_listed():
    faults = (PluginFailure("gang", "job_gate", "boom"),)
    collector = CycleCollector()
    collector.publish(Published().after(result([share("a")], failures=faults), 0.02, 1.0, {"g": 1}))
    families = [*collector.collect(), *AdapterCollector(adapter_state).collect()]
    listed = {series.name.removesuffix("_total"): series for series in METRICS}
    assert [family.name for family in families] == list(listed)
    for family in families:
        series = listed[family.name]
        assert (family.type, family.documentation) == (series.kind, series.help)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert (
            labels
            <= set(series.labels)
            <= {
                "queue",
                "queue_name",
                "resource",
                "action",
                "plugin",
                "reason",
                "outcome",
                "state",
                "kind",
                "write",
                "outbox",
                "method",
                "answer",
                "figure",
                "preemptor",
                "topology",
                "level",
                "class",  # of so many device classes as CLASS_CAP, and other
                "node",
                "card",  # of so many shared GPUs as CARD_CAP, at most
            }
        )


def test_what_a_policy_tells_of_its_queues_is_served_by_name():
    collector = CycleCollector()
    told = replace(share("a"), figures={"share": 0.25, "weight": math.inf})
    collector.publish(Published().after(result([told, share("b")]), 0.02, 1.0, {}))
    (family,) = [it for it in collector.collect() if it.name == "kaisched_queue_figure_ratio"]
    assert [(it.labels, it.value) for it in family.samples] == [
        ({"queue": "a", "figure": "share"}, 0.25),
        ({"queue": "a", "figure": "weight"}, math.inf),
    ]


def test_the_adapter_shows_what_it_is_asked_and_zeros_for_the_rest():
    text = generate_latest(registry_of(AdapterCollector(adapter_state))).decode()
    lines = {it for it in text.splitlines() if not it.startswith("#")}
    assert lines >= {
        "kaisched_leader_state 1.0",
        "kaisched_lease_age_seconds 1.5",
        'kaisched_lease_renewal_seconds_bucket{le="0.01"} 1.0',
        'kaisched_lease_renewal_seconds_bucket{le="2.0"} 2.0',
        'kaisched_lease_renewal_seconds_bucket{le="+Inf"} 4.0',
        "kaisched_lease_renewal_seconds_sum 63.202",
        'kaisched_watch_age_seconds{kind="pods"} 2.0',
        'kaisched_watch_lists_total{kind="pods",reason="start"} 1.0',
        'kaisched_watch_lists_total{kind="pods",reason="expired"} 0.0',
        'kaisched_watch_errors_total{kind="pods"} 3.0',
        'kaisched_watch_objects_left_out_total{kind="pods"} 4.0',
        'kaisched_cache_mismatches_total{kind="pods"} 5.0',
        "kaisched_waiting_changes 6.0",
        'kaisched_waiting_writes{outbox="decisions"} 7.0',
        'kaisched_write_wait_seconds{outbox="decisions"} 0.5',
        'kaisched_writes_total{outcome="done",write="bind"} 8.0',
        'kaisched_writes_total{outcome="failed",write="evict"} 0.0',
        'kaisched_api_requests_total{answer="busy",method="POST"} 9.0',
        'kaisched_api_seconds_total{answer="busy",method="POST"} 0.25',
    }
    # A kind that is not served sends nothing: its age would only grow.
    assert not any(it.startswith('kaisched_watch_age_seconds{kind="jobs') for it in lines)


def test_names_follow_the_convention():
    units = (
        r"(seconds|jobs|pods|gpus|cpu_cores|memory_bytes|pieces|ratio|state|changes|writes|domains"
        r"|devices|claims"
        r"|total)"
    )
    # The names of KAI-Scheduler's queue controller, so that history outlives a change of scheduler.
    ours = rf"kaisched_[a-z_]+_{units}|kai_queue_allocated_(gpus|cpu_cores|memory_bytes)"
    assert [s.name for s in METRICS if not re.fullmatch(ours, s.name)] == []


def test_history_goes_on_under_the_names_of_kai():
    shares = [share("team", gpus=2500), *(share(f"q{at}") for at in range(QUEUE_CAP + 1))]
    values = scrape(Published().after(result(shares), 0.02, 0.0, {}))
    assert values['kai_queue_allocated_gpus{queue_name="team"}'] == "2.5"
    assert values['kai_queue_allocated_cpu_cores{queue_name="team"}'] == "1.5"
    assert values['kai_queue_allocated_memory_bytes{queue_name="team"}'] == "2.097152e+06"
    assert f'kai_queue_allocated_gpus{{queue_name="q{QUEUE_CAP}"}}' in values


def test_what_the_cycle_knew_of_the_past_is_told():
    usage = Usage(np.array([[0, 0], [0, 0], [250_000_000, 0]]), 7.5, 0.75, UsageState.PARTIAL)
    axis = ("cpu", "memory", "gpu")
    published = Published().with_history(
        axis, ("a", "b"), np.array([8000, 64 * MEBIBYTE, 4000]), usage
    )
    values = scrape(published)
    assert values['kaisched_queue_usage_ratio{queue="a",resource="gpu"}'] == "0.25"
    assert values["kaisched_capacity_gpus"] == "4.0"
    assert values["kaisched_capacity_memory_bytes"] == "6.7108864e+07"
    assert values["kaisched_usage_age_seconds"] == "7.5"
    assert values["kaisched_usage_coverage_ratio"] == "0.75"
    states = {name: value for name, value in values.items() if "usage_state" in name}
    assert states == {
        f'kaisched_usage_state{{state="{state}"}}': "1.0" if state == "partial" else "0.0"
        for state in UsageState
    }


def test_the_first_scrape_works_before_the_first_cycle():
    values = scrape(Published())
    assert values["kaisched_last_cycle_timestamp_seconds"] == "0.0"


@pytest.mark.parametrize(("server", "lines"), [(None, []), (True, ["1.0"]), (False, ["0.0"])])
def test_whether_a_usage_server_answers_is_shown_where_there_is_one(server, lines):
    total = np.array([1000])
    published = Published().with_history(("gpu",), ("a",), total, None, server=server)
    (series,) = (it for it in HISTORY if it.name == "kaisched_usage_server_state")
    family = series.family(series.read(published))
    assert [str(sample.value) for sample in family.samples] == lines
