"""Usage store on a Prometheus server: the only package that knows its query client."""

from kaisched.usage.prometheus.store import PrometheusStore

__all__ = ["PrometheusStore"]
