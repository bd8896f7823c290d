"""Time-based fairshare: who has used much of the surplus lately, gets less of it now."""

from kaisched_plugins.time_based_fairshare.plugin import TimeBasedFairshare

__all__ = ["TimeBasedFairshare"]
