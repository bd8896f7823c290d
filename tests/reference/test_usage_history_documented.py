"""The reference page of usage history lists every key, and the defaults it states are so."""

import re
from pathlib import Path

import msgspec
import pytest

from kaisched.objects.usage import UsageConfig, UsageExtraParams, UsageHealthProbe, UsageParams
from kaisched.units import parse_duration
from kaisched.usage import settings
from kaisched.usage.history import Window
from kaisched.usage.settings import read_usage

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "usage-history.md").read_text(encoding="utf-8")
KINDS = (UsageConfig, UsageParams, UsageExtraParams, UsageHealthProbe)


def rows():
    """Key to default, list by list."""
    for lines in re.findall(r"((?:^- `.*\n)+)", PAGE, re.MULTILINE):
        yield dict(re.findall(r"^- `(\w+)`(?: \((.*?)\))?: ", lines, re.MULTILINE))


@pytest.mark.parametrize(("kind", "listed"), list(zip(KINDS, rows(), strict=True)))
def test_every_key_is_listed(kind, listed):
    assert set(listed) == {field.encode_name for field in msgspec.structs.fields(kind)}


def test_the_defaults_are_those_of_the_code():
    _, params, extra, probe = rows()
    made = read_usage(UsageConfig(client_type="prometheus"), "default", environ={})

    def seconds(table, key):
        return parse_duration(re.match(r"`([^`]+)`", table[key])[1])

    assert made.window == Window(size_s=seconds(params, "windowSize"))
    assert (made.fetch_s, made.staleness_s, made.wait_s) == (
        seconds(params, "fetchInterval"),
        seconds(params, "stalenessPeriod"),
        seconds(params, "waitTimeout"),
    )
    asked = made.prometheus
    assert (asked.timeout_s, asked.resolution_s) == (
        seconds(extra, "usageQueryTimeout"),
        seconds(extra, "queryResolution"),
    )
    assert (asked.probe.interval_s, asked.probe.timeout_s, asked.probe.retries) == (
        seconds(probe, "interval"),
        seconds(probe, "timeout"),
        int(probe["maxRetries"].strip("`")),
    )
    for resource in ("gpu", "cpu", "memory"):
        assert extra[f"{resource}AllocationMetric"] == f"`{asked.allocation[resource]}`"
        assert extra[f"{resource}CapacityMetric"] == f"`{asked.capacity[resource]}`"
    assert f"`{settings.PROMETHEUS_URL}`" in PAGE
