"""A Prometheus server as the memory: the only place that knows its query client."""

from kaisched.usage.prometheus.store import PrometheusStore

__all__ = ["PrometheusStore"]
