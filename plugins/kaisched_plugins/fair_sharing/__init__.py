"""Fair sharing by KEP-1714: what queues lend each other goes by weight, down a tree of quotas."""

from kaisched_plugins.fair_sharing.plugin import FairSharing

__all__ = ["FairSharing"]
