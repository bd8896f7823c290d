"""Proportion: the fair share of each queue, the order of queues, and their limits."""

from kaisched_plugins.proportion.plugin import Proportion

__all__ = ["Proportion"]
