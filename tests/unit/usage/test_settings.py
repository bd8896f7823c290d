"""Usage settings of a shard, with KAI-Scheduler's defaults."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaisched.errors import ConfigError
from kaisched.objects.load import load_text
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.usage import check_expression, quoted
from kaisched.units import UnitError
from kaisched.usage.history import Window
from kaisched.usage.settings import read_usage

HEAD = "apiVersion: kai.scheduler/v1\nkind: SchedulingShard\nmetadata: {name: s}\nspec:\n"


def settings_of(config, environ=None):
    loaded = load_text(f"{HEAD}  usageDBConfig: {config}\n")
    assert [str(problem) for problem in loaded.problems] == []
    (shard,) = loaded.of(SchedulingShard)
    return read_usage(shard.spec.usage_db_config, "s", "s.yaml", environ or {"HOME": "/home/me"})


def test_the_defaults_are_kais():
    settings = settings_of("{clientType: prometheus}")
    assert settings.window == Window("sliding", 604_800.0, None)
    assert (settings.fetch_s, settings.staleness_s, settings.wait_s) == (60, 300, 60)
    asked = settings.prometheus
    assert (asked.timeout_s, asked.resolution_s) == (10, 60)
    assert asked.url == "http://prometheus-operated.kai-scheduler.svc.cluster.local:9090"
    assert asked.allocation == {
        "gpu": "kai_queue_allocated_gpus",
        "cpu": "kai_queue_allocated_cpu_cores",
        "memory": "kai_queue_allocated_memory_bytes",
    }
    assert asked.capacity == {
        "gpu": 'kube_node_status_capacity{resource="nvidia_com_gpu"}',
        "cpu": 'kube_node_status_capacity{resource="cpu"}',
        "memory": 'kube_node_status_capacity{resource="memory"}',
    }


def test_without_a_client_type_a_file_of_our_own_is_kept():
    settings = settings_of("{}")
    assert settings.type == "sqlite"
    assert settings.path == Path("/home/me/.local/state/kaisched/usage-s.sqlite3")
    state = settings_of("{}", {"XDG_STATE_HOME": "/state"})
    assert state.path == Path("/state/kaisched/usage-s.sqlite3")
    assert settings_of("{connectionString: /data/u.db}").path == Path("/data/u.db")


def test_both_forms_of_durations_are_read():
    window = settings_of("{usageParams: {windowSize: 2w, halfLifePeriod: 1h30m}}").window
    assert (window.size_s, window.half_life_s) == (1_209_600, 5400)


@pytest.mark.fault("E82")
def test_a_half_life_of_zero_is_none():
    assert settings_of("{usageParams: {halfLifePeriod: 0s}}").window.half_life_s is None


def test_staleness_is_no_shorter_than_the_interval_of_fetching():
    assert settings_of("{usageParams: {fetchInterval: 10m}}").staleness_s == 600


def test_windows_of_the_other_types():
    tumbling = settings_of(
        "{usageParams: {windowType: tumbling, tumblingWindowStartTime: 1970-01-02T00:00:00Z}}"
    ).window
    assert (tumbling.type, tumbling.anchor_s) == ("tumbling", 86_400)
    cron = settings_of("{usageParams: {windowType: cron, cronString: 0 0 1 * *}}").window
    assert cron.start(86_400.0 * 35) == 86_400.0 * 31


EXTRA = "extraParams: {gpuCapacityMetric: sum(g), gpuAllocationMetric: a, queryResolution: 5m}"


@pytest.mark.parametrize("written", [EXTRA, f"usageParams: {{{EXTRA}}}"], ids=["guide", "code"])
def test_metrics_are_overridden_in_either_place(written):
    asked = settings_of(f"{{clientType: prometheus, {written}}}").prometheus
    assert (asked.allocation["gpu"], asked.capacity["gpu"]) == ("a", "sum(g)")
    assert asked.resolution_s == 300
    assert asked.allocation["cpu"] == "kai_queue_allocated_cpu_cores"


def test_labels_choose_series_of_every_metric():
    asked = settings_of("{clientType: prometheus, extraParams: {matchLabels: {cluster: eu}}}")
    assert asked.prometheus.allocation["gpu"] == 'kai_queue_allocated_gpus{cluster="eu"}'
    assert (
        asked.prometheus.capacity["cpu"] == 'kube_node_status_capacity{resource="cpu",cluster="eu"}'
    )


def test_the_address_may_stand_in_a_variable():
    config = "{clientType: prometheus, connectionStringEnvVar: PROM}"
    assert settings_of(config, {"PROM": "http://p:9090/"}).prometheus.url == "http://p:9090"
    with pytest.raises(ConfigError) as unset:
        settings_of(config)
    assert str(unset.value) == (
        "s.yaml: spec.usageDBConfig.connectionStringEnvVar: the variable PROM is not set"
        " (value 'PROM'); set the variable, or write a connectionString"
    )
    with pytest.raises(ConfigError, match="the variable PROM holds no address"):
        settings_of(config, {"PROM": "p:9090"})


@pytest.mark.fault("C50")
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_a_quoted_value_stays_one_value(value):
    check_expression(f"a{{b={quoted(value)}}}")
    assert quoted(value).isprintable()


@pytest.mark.fault("C50")
@given(st.text("ab(){}[]\"'`\\#\n&=,", max_size=12))
def test_what_is_accepted_cannot_leave_its_parentheses(text):
    """A plain automaton checks: the bracket after the text closes the one before it."""
    try:
        check_expression(text)
    except UnitError:
        return
    depth, quote, at = 1, "", 0
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\" and quote != "`"
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
            assert char != "#"
        assert depth >= 1
        at += 1
    assert (depth, quote) == (1, "")
