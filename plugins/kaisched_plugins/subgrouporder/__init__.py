"""Subgroup order: which subgroup of a structured job is placed first."""

from kaisched_plugins.subgrouporder.plugin import SubGroupOrder

__all__ = ["SubGroupOrder"]
