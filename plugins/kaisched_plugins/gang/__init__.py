"""Gang: places all pods that a job needs, or none; then one elastic pod at a time."""

from kaisched_plugins.gang.plugin import Gang

__all__ = ["Gang"]
