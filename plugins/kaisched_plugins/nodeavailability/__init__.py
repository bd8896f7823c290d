"""Node availability: nodes with idle room now before nodes whose room is still being released."""

from kaisched_plugins.nodeavailability.plugin import NodeAvailability

__all__ = ["NodeAvailability"]
