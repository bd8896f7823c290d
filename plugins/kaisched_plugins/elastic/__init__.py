"""Elastic: jobs that lack their minimum before jobs that could grow."""

from kaisched_plugins.elastic.plugin import Elastic

__all__ = ["Elastic"]
