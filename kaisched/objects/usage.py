"""``usageDBConfig`` of a SchedulingShard: the store of usage history, and the part that counts.

Keys are KAI-Scheduler's, with durations and metrics as texts; docs/reference/usage-history.md marks
additions. :mod:`kaisched.usage.settings` fills in the defaults.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Final, Literal

from kaisched.objects.wire import StrictWire

USAGE_STORES: Final = ("prometheus", "sqlite", "memory")


class UsageExtraParams(StrictWire, frozen=True, kw_only=True):
    """Queries to Prometheus. Metrics are names or PromQL expressions."""

    usage_query_timeout: str | int | None = None
    query_resolution: str | int | None = None
    gpu_allocation_metric: str | None = None
    cpu_allocation_metric: str | None = None
    memory_allocation_metric: str | None = None
    gpu_capacity_metric: str | None = None
    cpu_capacity_metric: str | None = None
    memory_capacity_metric: str | None = None
    match_labels: dict[str, str] = {}
    """Labels of the series that count, for a server that several clusters share."""
    replica_label: str = ""
    """Label that differs between copies of an exporter or server: the largest copy counts."""
    bearer_token_file: str = ""
    ca_file: str = ""
    insecure_skip_verify: bool = False


class UsageParams(StrictWire, frozen=True, kw_only=True):
    """Window of the usage history. Durations are texts."""

    half_life_period: str | int | None = None
    window_size: str | int | None = None
    window_type: Literal["sliding", "tumbling", "cron"] | None = None
    tumbling_window_start_time: str | None = None
    cron_string: str | None = None
    granularity: str | int | None = None
    fetch_interval: str | int | None = None
    staleness_period: str | int | None = None
    wait_timeout: str | int | None = None
    when_stale: Literal["freeze", "ignore"] | None = None
    extra_params: UsageExtraParams | None = None


class UsageHealthProbe(StrictWire, frozen=True, kw_only=True):
    """How often a Prometheus server is asked whether it answers, and when it counts as gone."""

    interval: str | int | None = None
    timeout: str | int | None = None
    """Of each try."""
    max_retries: int | None = None
    """Tries after the first until the server counts as gone."""


class UsageConfig(StrictWire, frozen=True, kw_only=True):
    """Store of the usage history."""

    client_type: str = ""
    connection_string: str = ""
    connection_string_env_var: str = ""
    usage_params: UsageParams = UsageParams()
    extra_params: UsageExtraParams | None = None
    """As in KAI's guide; KAI's code reads it from ``usageParams``."""
    health_probe: UsageHealthProbe | None = None

    @property
    def extra(self) -> UsageExtraParams:
        """The extra parameters from either of their two places."""
        return self.usage_params.extra_params or self.extra_params or UsageExtraParams()
