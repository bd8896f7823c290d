"""Settings of a usage store: ``usageDBConfig`` with defaults, KAI-Scheduler's if it has them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

from kaisched.errors import ConfigError
from kaisched.objects.labels import time_of
from kaisched.objects.usage import check_url, metrics_of, parse_cron, quoted, seconds_of
from kaisched.units import UnitError
from kaisched.usage.history import WEEK_S, Window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.objects.usage import UsageConfig, UsageHealthProbe, UsageParams

StoreType = Literal["prometheus", "sqlite", "memory"]

FETCH_S: Final = 60.0
STALENESS_S: Final = 300.0
WAIT_S: Final = 60.0
QUERY_TIMEOUT_S: Final = 10.0
RESOLUTION_S: Final = 60.0
PROMETHEUS_URL: Final = "http://prometheus-operated.kai-scheduler.svc.cluster.local:9090"
"""Address of the server that KAI's operator runs."""
PROBE_INTERVAL_S: Final = 30.0
PROBE_TIMEOUT_S: Final = 10.0
PROBE_RETRIES: Final = 5
QUEUE_LABEL: Final = "queue_name"

_ALLOCATION: Final = {
    "gpu": "kai_queue_allocated_gpus",
    "cpu": "kai_queue_allocated_cpu_cores",
    "memory": "kai_queue_allocated_memory_bytes",
}
_CAPACITY: Final = {"gpu": "nvidia_com_gpu", "cpu": "cpu", "memory": "memory"}


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """How a server is asked whether it answers."""

    interval_s: float = PROBE_INTERVAL_S
    timeout_s: float = PROBE_TIMEOUT_S
    retries: int = PROBE_RETRIES


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Queries to a Prometheus server. Metrics are PromQL expressions by resource."""

    url: str
    allocation: Mapping[str, str]
    capacity: Mapping[str, str]
    replica_label: str = ""
    timeout_s: float = QUERY_TIMEOUT_S
    """Timeout of a whole fetch."""
    resolution_s: float = RESOLUTION_S
    bearer_token_file: str = ""
    ca_file: str = ""
    is_insecure: bool = False
    probe: ProbeSettings = field(default_factory=ProbeSettings)


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Settings of a usage store."""

    type: StoreType = "sqlite"
    window: Window = field(default_factory=Window)
    path: Path = Path()
    """Path of the file, for ``sqlite``."""
    prometheus: PrometheusSettings | None = None
    fetch_s: float = FETCH_S
    """Time between two writes of samples, and between two answers."""
    staleness_s: float = STALENESS_S
    wait_s: float = WAIT_S
    """Longest wait for a first answer before the first cycle."""
    is_frozen_when_stale: bool = True
    """Whether stale numbers are extended with our own samples; otherwise plain weights count."""


def read_usage(
    config: UsageConfig,
    shard: str,
    file: str = "",
    environ: Mapping[str, str] = os.environ,
) -> UsageSettings:
    """Return the settings of a configuration that has no faults (see objects.usage).

    Args:
        config: the shard's configuration.
        shard: the shard's name, part of the default file name of ``sqlite``.
        file: file of the shard, for messages.
        environ: environment with ``connectionStringEnvVar``.

    Raises:
        ConfigError: the variable is not set, or its value is no address.

    """
    store = cast("StoreType", config.client_type or "sqlite")
    params = config.usage_params
    fetch_s = seconds_of(params.fetch_interval) or FETCH_S
    connection = _connection(config, store, file, environ)
    staleness_s = seconds_of(params.staleness_period)
    wait_s = seconds_of(params.wait_timeout)
    return UsageSettings(
        store,
        window_of(params),
        Path(connection) if connection else default_path(shard, environ),
        _prometheus(config, connection) if store == "prometheus" else None,
        fetch_s,
        max(STALENESS_S, fetch_s) if staleness_s is None else staleness_s,
        WAIT_S if wait_s is None else wait_s,
        params.when_stale != "ignore",
    )


def in_memory(params: UsageParams) -> UsageSettings:
    """Return the settings of a store in memory for parameters that have no faults."""
    fetch_s = seconds_of(params.fetch_interval) or FETCH_S
    return UsageSettings("memory", window_of(params), fetch_s=fetch_s)


def default_path(shard: str, environ: Mapping[str, str]) -> Path:
    """Return the default path of a shard's file, in the XDG state folder."""
    home = environ.get("XDG_STATE_HOME") or str(Path(environ.get("HOME") or "/") / ".local/state")
    return Path(home) / "kaisched" / f"usage-{shard}.sqlite3"


def _connection(
    config: UsageConfig, store: StoreType, file: str, environ: Mapping[str, str]
) -> str:
    variable = config.connection_string_env_var
    if not variable:
        return config.connection_string
    path = "spec.usageDBConfig.connectionStringEnvVar"
    value = environ.get(variable, "")
    if not value:
        fix = "set the variable, or write a connectionString"
        raise ConfigError(
            f"the variable {variable} is not set", file=file, path=path, value=variable, fix=fix
        )
    if store == "prometheus":
        try:
            check_url(value)
        except UnitError as error:
            message = f"the variable {variable} holds {error}"
            raise ConfigError(message, file=file, path=path, fix=error.fix) from None
    return value


def window_of(params: UsageParams) -> Window:
    """Return the window of parameters that have no faults."""
    start = params.tumbling_window_start_time
    kind = params.window_type or "sliding"
    return Window(
        kind,
        seconds_of(params.window_size) or WEEK_S,
        seconds_of(params.half_life_period) or None,
        time_of(start) if start is not None and kind == "tumbling" else 0.0,
        parse_cron(params.cron_string) if kind == "cron" else None,
        seconds_of(params.granularity),
    )


def _probe(probe: UsageHealthProbe | None) -> ProbeSettings:
    if probe is None:
        return ProbeSettings()
    return ProbeSettings(
        seconds_of(probe.interval) or PROBE_INTERVAL_S,
        seconds_of(probe.timeout) or PROBE_TIMEOUT_S,
        PROBE_RETRIES if probe.max_retries is None else probe.max_retries,
    )


def _prometheus(config: UsageConfig, url: str) -> PrometheusSettings:
    extra = config.extra
    said = metrics_of(extra)
    labels = [f"{name}={quoted(value)}" for name, value in sorted(extra.match_labels.items())]
    chosen = f"{{{','.join(labels)}}}" if labels else ""
    return PrometheusSettings(
        (url or PROMETHEUS_URL).rstrip("/"),
        {
            resource: said.get(f"{resource}AllocationMetric", metric) + chosen
            for resource, metric in _ALLOCATION.items()
        },
        {
            resource: said[key] + chosen
            if (key := f"{resource}CapacityMetric") in said
            else f"kube_node_status_capacity{{{','.join([f'resource={quoted(name)}', *labels])}}}"
            for resource, name in _CAPACITY.items()
        },
        extra.replica_label,
        seconds_of(extra.usage_query_timeout) or QUERY_TIMEOUT_S,
        seconds_of(extra.query_resolution) or RESOLUTION_S,
        extra.bearer_token_file,
        extra.ca_file,
        extra.insecure_skip_verify,
        _probe(config.health_probe),
    )
