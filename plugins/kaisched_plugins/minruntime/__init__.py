"""Minruntime: a job that has just started is safe from reclaim and preempt for a while."""

from kaisched_plugins.minruntime.plugin import MinRuntime

__all__ = ["MinRuntime"]
