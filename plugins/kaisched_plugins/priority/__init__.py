"""Priority: the higher priority goes first among the jobs of a queue."""

from kaisched_plugins.priority.plugin import Priority

__all__ = ["Priority"]
