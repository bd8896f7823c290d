"""Resource type: pods without GPUs go to nodes without GPUs."""

from kaisched_plugins.resourcetype.plugin import ResourceType

__all__ = ["ResourceType"]
