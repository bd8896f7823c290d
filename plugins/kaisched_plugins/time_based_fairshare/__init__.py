"""Time-based fairshare: gives queues that used much of the surplus lately less of it now."""

from kaisched_plugins.time_based_fairshare.plugin import TimeBasedFairshare

__all__ = ["TimeBasedFairshare"]
