"""Minruntime: protects a job from reclaim and preempt for a while after its start."""

from kaisched_plugins.minruntime.plugin import MinRuntime

__all__ = ["MinRuntime"]
