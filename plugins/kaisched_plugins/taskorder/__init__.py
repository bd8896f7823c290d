"""Task order: the pod with the higher label goes first inside its job."""

from kaisched_plugins.taskorder.plugin import TaskOrder

__all__ = ["TaskOrder"]
