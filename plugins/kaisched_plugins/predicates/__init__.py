"""Predicates: on which nodes a pod may run at all."""

from kaisched_plugins.predicates.plugin import Predicates

__all__ = ["Predicates"]
