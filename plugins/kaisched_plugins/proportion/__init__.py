"""Proportion: computes fair shares, orders queues by them, and enforces limits."""

from kaisched_plugins.proportion.plugin import Proportion

__all__ = ["Proportion"]
