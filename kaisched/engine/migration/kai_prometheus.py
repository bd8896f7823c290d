"""The Prometheus part of KAI-Scheduler's Config, as settings of shards and of the chart."""

from __future__ import annotations

from typing import Final

from kaisched.engine.migration.files import Migration
from kaisched.engine.migration.parts import Part, Reasons
from kaisched.objects.usage import check_url
from kaisched.units import UnitError, parse_duration
from kaisched.usage.history import HOLD_S

_SERVER: Final = "kaisched deploys no Prometheus: set it at your own server"
_REASONS: Final[Reasons] = {
    "instanceName": _SERVER,
    "storageClassName": f"{_SERVER}; a history of the kind sqlite has usageVolume in the chart",
    "storageSize": f"{_SERVER}; a history of the kind sqlite has usageVolume in the chart",
    "enablePersistentStorage": f"{_SERVER}; a history of the kind sqlite has usageVolume in the"
    " chart",
    "accountingLabelKey": "the ServiceMonitor of the chart has its own labels",
    "accountingLabelValue": "the ServiceMonitor of the chart has its own labels",
}
_MONITOR: Final[Reasons] = dict.fromkeys(
    ("interval", "scrapeTimeout", "bearerTokenFile"),
    "the chart's ServiceMonitor scrapes every 30 s, within 10 s, with the token of Prometheus",
)
_NOBODY_ASKS: Final = "no shard has a usageDBConfig with clientType: prometheus, so nobody asks it"


def take_prometheus(part: Part, made: Migration) -> None:
    """Take the keys that shards and chart have too, and tell of the rest."""
    asking = [
        config
        for spec in made.shards.values()
        if (config := spec.get("usageDBConfig", {})).get("clientType") == "prometheus"
    ]
    _take_address(part, asking)
    probe = part.part("externalPrometheusHealthProbe")
    if asking:
        _take_probe(probe, asking)
        probe.rest({})
    else:
        probe.rest({"*": _NOBODY_ASKS})
    _take_interval(part, asking)
    _take_retention(part, asking)
    monitor = part.part("serviceMonitor")
    made.service_monitor = monitor.switch("enabled")
    monitor.rest(_MONITOR)
    part.rest(_REASONS)


def _take_address(part: Part, asking: list[dict[str, object]]) -> None:
    is_deployed = part.switch("enabled")
    url = part.text("externalPrometheusUrl")
    if url:
        try:
            check_url(url)
        except UnitError as error:
            part.wrong("externalPrometheusUrl", str(error), url, error.fix)
        if not asking:
            part.to_do(_NOBODY_ASKS, "externalPrometheusUrl")
        for config in asking:
            if not config.get("connectionStringEnvVar"):
                config.setdefault("connectionString", url)
    elif is_deployed:
        part.to_do(
            "the server of KAI-Scheduler's operator goes with the operator: keep it, or bring your"
            " own, as docs/how-to/bring-your-prometheus.md says",
            "enabled",
        )


def _take_probe(probe: Part, asking: list[dict[str, object]]) -> None:
    """Take how often the server is asked whether it answers; the Config has seconds."""
    taken: dict[str, object] = {
        key: seconds for key in ("interval", "timeout") if (seconds := probe.seconds(key))
    }
    retries = probe.number("maxRetries")
    if retries is not None:
        taken["maxRetries"] = retries
    for config in asking if taken else ():
        config.setdefault("healthProbe", taken)


def _take_interval(part: Part, asking: list[dict[str, object]]) -> None:
    """Ask in steps of the interval at which the server has samples: there is nothing between."""
    interval = part.duration("sampleInterval")
    if not interval:
        return
    if not asking:
        part.to_do(_NOBODY_ASKS, "sampleInterval")
    for config in asking:
        params = config.get("usageParams")
        inner = params.get("extraParams") if isinstance(params, dict) else None
        extra = inner if isinstance(inner, dict) else config.setdefault("extraParams", {})
        if isinstance(extra, dict):
            extra.setdefault("queryResolution", interval)
    part.to_do(f"let your server scrape kaisched every {interval}", "sampleInterval")
    if parse_duration(interval) > HOLD_S:
        part.to_do("a sample counts for five minutes at most: scrape more often", "sampleInterval")


def _take_retention(part: Part, asking: list[dict[str, object]]) -> None:
    period = part.duration("retentionPeriod")
    if not period:
        return
    part.to_do(f"let your server keep what it scrapes for {period}", "retentionPeriod")
    for config in asking:
        params = config.get("usageParams")
        window = params.get("windowSize", "1w") if isinstance(params, dict) else "1w"
        if parse_duration(window) > parse_duration(period):
            text = f"a shard's window of {window} is longer: what is older than {period} is lost"
            part.to_do(text, "retentionPeriod")
