"""Rules and dashboards ask for what is published; a real Prometheus scrapes the daemon."""

import json
import re
import subprocess
import time

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from kaisched.core.refusals import TEXTS
from kaisched.telemetry.metrics import METRICS
from kaisched.usage.prometheus.store import evictions_of, period_of
from tests.contract.prometheus import needs_prometheus
from tests.deploy.manifests import DEPLOY
from tests.deploy.promql import grouped_by, metrics_of, selectors_of

MONITORING = DEPLOY / "monitoring"
RULES = [
    rule
    for group in yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
BOARDS = {
    path.name: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((MONITORING / "dashboards").glob("*.json"))
}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, board in BOARDS.items()
    for panel in board["panels"]
]
QUEUE_EVICTIONS = "kaisched_queue_evictions_total"
FIGURES = "kaisched_queue_figure_ratio"
SHARED_USE = "kaisched_shared_gpu_used_ratio"
USAGE_SERVER = "kaisched_usage_server_state"
DOMAINS = "kaisched_topology_domains"
CLASSES = tuple(it.name for it in METRICS if it.labels == ("class",))
NOT_HERE = (FIGURES, QUEUE_EVICTIONS, SHARED_USE, USAGE_SERVER, DOMAINS, *CLASSES)
"""Metrics of what the daemon of these tests has not."""
QUERIES = {
    **{rule.get("alert", rule.get("record")): rule["expr"] for rule in RULES},
    **{
        f"{name}/{panel['title']}/{target['refId']}": target["expr"]
        for name, board in BOARDS.items()
        for panel in board["panels"]
        for target in panel["targets"]
    },
}
RECORDED = {rule["record"]: grouped_by(rule["expr"]) - {"le"} for rule in RULES if "record" in rule}
FROM_THE_TARGET = {"job", "instance", "pod", "namespace"}


def published():
    """Each series' labels, by its name as Prometheus stores it."""
    names = {}
    for series in METRICS:
        suffixes = {"histogram": ("_bucket", "_sum", "_count")}.get(series.kind, ("",))
        for suffix in suffixes:
            names[series.name + suffix] = {*series.labels, *(["le"] if suffix == "_bucket" else [])}
    return {**names, **RECORDED}


# -- names and labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_only_what_is_published(name):
    known = published()
    named = metrics_of(QUERIES[name])
    assert named
    for metric, labels in named:
        assert metric in known
        assert labels <= known[metric] | FROM_THE_TARGET
    grouped = grouped_by(QUERIES[name])
    assert grouped <= set().union(FROM_THE_TARGET, *(known[metric] for metric, _ in named))


def test_a_query_about_nothing_would_be_noticed():
    assert metrics_of('kaisched_bind_total{quue="a"}') == [("kaisched_bind_total", {"quue"})]
    assert "kaisched_bind_total" not in published()
    assert grouped_by("sum by (quue, le) (x) / on (a) y") == {"quue", "le", "a"}


@pytest.mark.parametrize("panel", PANELS)
def test_a_legend_shows_labels_that_are_left(panel):
    for target in panel["targets"]:
        shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        left = grouped_by(target["expr"]) or set().union(
            *(published()[name] for name, _ in metrics_of(target["expr"]))
        )
        assert shown <= left


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_an_annotation_shows_labels_that_are_left(rule):
    shown = set(re.findall(r"\$labels\.(\w+)", str(rule.get("annotations"))))
    assert shown <= grouped_by(rule["expr"]) | {"queue"}
    if "alert" in rule:
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_reasons_in_rules_exist():
    named = re.findall(r'reason=~"([^"]+)"', " ".join(QUERIES.values()))
    known = {text.name for text in TEXTS.values()}
    assert {reason for names in named for reason in names.split("|")} <= known
    assert named


def test_every_published_metric_about_cycles_and_gpus_is_on_a_board():
    """CPU cores and bytes are on it too; some amounts of them are not."""
    used = {name for query in QUERIES.values() for name, _ in metrics_of(query)}
    left_out = {name for name in published() if name not in used and not name.endswith("_pieces")}
    assert left_out == {
        f"kaisched_queue_{share}_{unit}"
        for share in ("requested", "pending", "deserved")
        for unit in ("cpu_cores", "memory_bytes")
    } | {f"kai_queue_allocated_{unit}" for unit in ("cpu_cores", "memory_bytes")}


def test_boards_have_identities_and_panels_of_their_own():
    uids = [board["uid"] for board in BOARDS.values()]
    assert len(set(uids)) == len(uids)
    for board in BOARDS.values():
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        spots = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
        assert len(set(spots)) == len(spots)


# -- the rules -----------------------------------------------------------------------------------


def test_the_operators_rules_are_the_rules():
    (operators,) = yaml.safe_load_all((MONITORING / "prometheus-rule.yaml").read_text("utf-8"))
    rules = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))
    assert operators["spec"] == rules


def test_every_alert_is_tested_to_fire_and_to_be_silent():
    tests = yaml.safe_load((MONITORING / "rules-test.yaml").read_text(encoding="utf-8"))["tests"]
    checks = [check for test in tests for check in test.get("alert_rule_test", ())]
    alerts = {rule["alert"] for rule in RULES if "alert" in rule}
    assert {check["alertname"] for check in checks if check.get("exp_alerts")} == alerts
    assert {check["alertname"] for check in checks if not check.get("exp_alerts")} == alerts


@pytest.mark.real
@needs_prometheus
@pytest.mark.parametrize(
    "words", [("check", "rules", "rules.yaml"), ("test", "rules", "rules-test.yaml")]
)
def test_promtool_finds_nothing_wrong(words):
    run = subprocess.run(
        ["promtool", *words], capture_output=True, check=False, cwd=MONITORING, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


# -- the daemon, scraped -------------------------------------------------------------------------


def test_a_scrape_shows_the_names_and_labels_of_the_list(daemon):
    daemon.wait_for("kaisched_queue_usage_ratio{")
    families = list(text_string_to_metric_families(daemon.scrape()))
    known = published()
    samples = [sample for family in families for sample in family.samples]
    for sample in samples:
        assert set(sample.labels) == known[sample.name]
    unseen = known.keys() - RECORDED.keys() - {sample.name for sample in samples}
    # No queue of the example has an extended resource, or loses a pod; no pod shares a GPU, and no
    # claim is allocated; there is no topology; the default policy has no figures; no server has the
    # usage history.
    left = {name for name in unseen if not name.endswith("_pieces")}
    spreads = {DOMAINS + suffix for suffix in ("_bucket", "_sum", "_count")}
    assert left == {FIGURES, QUEUE_EVICTIONS, SHARED_USE, USAGE_SERVER, *spreads, *CLASSES}


def filled_in(query):
    """The query as Grafana sends it, about the last minute only."""
    return query.replace("$__rate_interval", "1m").replace("$queue", ".*").replace("[5m]", "[1m]")


@pytest.mark.real
@pytest.mark.slow
@needs_prometheus
def test_a_real_prometheus_scrapes_the_daemon_and_answers_every_query(prometheus):
    prometheus.wait_for("kaisched:queue_fair_share_gpus:avg1h")
    prometheus.wait_for("kaisched:cycle_duration_seconds:p99_10m")
    prometheus.wait_for("rate(kaisched_cycles_total[1m])")
    prometheus.wait_for("kaisched_usage_age_seconds < Inf")
    (up,) = prometheus.query("up")
    assert up["value"][1] == "1"
    asked = {name: filled_in(query) for name, query in QUERIES.items()}
    alerts = {rule["alert"]: rule["expr"] for rule in RULES if "alert" in rule}
    empty = [
        name
        for name, query in asked.items()
        if name not in alerts
        and not any(it in query for it in NOT_HERE)
        and not prometheus.query(query)
    ]
    assert empty == []
    # An alert of a cluster that is well has no data; what it compares has. rules-test.yaml shows
    # that each does fire.
    empty = [
        selector
        for query in alerts.values()
        for selector in selectors_of(query)
        if not prometheus.query(selector)
    ]
    assert empty == []


@pytest.mark.real
@pytest.mark.slow
@needs_prometheus
def test_reports_add_up_what_a_real_prometheus_has(prometheus):
    prometheus.wait_for("kaisched_queue_allocated_gpus offset 3s > 0")
    now_s = time.time()
    period = period_of(prometheus.url, "gpu", now_s - 600, now_s)
    assert 0 < sum(period.used.values()) <= period.capacity * len(period.used)
    assert period.entitled is not None
    assert period.entitled.keys() == period.used.keys()
    assert 0 < period.covered_s <= 600
    assert evictions_of(prometheus.url, now_s - 600, now_s) == []
