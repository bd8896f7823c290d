"""Tests of policies as pictures, clusters in a few lines, and the conformance kit for plugins.

``kaisched.testing.strategies`` holds the hypothesis strategies and is imported by itself, so that
nothing else here needs hypothesis.
"""

from kaisched.testing.builder import ClusterBuilder, Ran
from kaisched.testing.kit import check_plugin
from kaisched.testing.world import World, draw, explain_difference

__all__ = ["ClusterBuilder", "Ran", "World", "check_plugin", "draw", "explain_difference"]
