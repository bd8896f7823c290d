"""Binpack: fill nodes before opening new ones, or spread."""

from kaisched_plugins.binpack.plugin import Binpack

__all__ = ["Binpack"]
