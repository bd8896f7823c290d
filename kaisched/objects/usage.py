"""``usageDBConfig`` of a SchedulingShard: where usage history is kept, and which part of it counts.

KAI-Scheduler's keys, durations and metrics as texts; what is added is marked so in
docs/reference/usage-history.md. :mod:`kaisched.usage.settings` fills in the defaults.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import Final, Literal

from kaisched.objects.wire import StrictWire

USAGE_STORES: Final = ("prometheus", "sqlite", "memory")


class UsageExtraParams(StrictWire, frozen=True, kw_only=True):
    """How Prometheus is asked. Metrics are names or PromQL expressions."""

    usage_query_timeout: str | int | None = None
    query_resolution: str | int | None = None
    gpu_allocation_metric: str | None = None
    cpu_allocation_metric: str | None = None
    memory_allocation_metric: str | None = None
    gpu_capacity_metric: str | None = None
    cpu_capacity_metric: str | None = None
    memory_capacity_metric: str | None = None
    match_labels: dict[str, str] = {}
    """Only series with these labels count; for a server that several clusters share."""
    replica_label: str = ""
    """The label that tells copies of one exporter or server apart: the largest copy counts."""
    bearer_token_file: str = ""
    ca_file: str = ""
    insecure_skip_verify: bool = False


class UsageParams(StrictWire, frozen=True, kw_only=True):
    """The window of the usage history. Durations as texts."""

    half_life_period: str | int | None = None
    window_size: str | int | None = None
    window_type: Literal["sliding", "tumbling", "cron"] | None = None
    tumbling_window_start_time: str | None = None
    cron_string: str | None = None
    fetch_interval: str | int | None = None
    staleness_period: str | int | None = None
    wait_timeout: str | int | None = None
    when_stale: Literal["freeze", "ignore"] | None = None
    extra_params: UsageExtraParams | None = None


class UsageConfig(StrictWire, frozen=True, kw_only=True):
    """Where the usage history is kept."""

    client_type: str = ""
    connection_string: str = ""
    connection_string_env_var: str = ""
    usage_params: UsageParams = UsageParams()
    extra_params: UsageExtraParams | None = None
    """Here is where KAI's guide has it; KAI's code reads it from ``usageParams``."""

    @property
    def extra(self) -> UsageExtraParams:
        """The extra parameters, wherever they were written."""
        return self.usage_params.extra_params or self.extra_params or UsageExtraParams()
