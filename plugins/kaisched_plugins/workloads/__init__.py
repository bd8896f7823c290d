"""Workloads: declares kinds of workload that make gangs, beside the built-in kinds."""

from kaisched_plugins.workloads.plugin import Workloads

__all__ = ["Workloads"]
