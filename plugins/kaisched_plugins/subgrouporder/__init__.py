"""Subgroup order: which subgroup of a structured job is served first."""

from kaisched_plugins.subgrouporder.plugin import SubGroupOrder

__all__ = ["SubGroupOrder"]
