"""Topology: places the pods of a job, or of a part of it, in one domain of a data centre."""

from kaisched_plugins.topology.plugin import Topology

__all__ = ["Topology"]
