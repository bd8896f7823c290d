"""Workloads: which kinds of workload make gangs, beside those known anyway."""

from kaisched_plugins.workloads.plugin import Workloads

__all__ = ["Workloads"]
