"""Tools for tests: policies as pictures, small clusters, and the conformance kit for plugins.

``kaisched.testing.strategies`` holds the hypothesis strategies and has to be imported separately,
so that nothing else here needs hypothesis.
"""

from kaisched.testing.builder import ClusterBuilder, Ran
from kaisched.testing.kit import check_plugin
from kaisched.testing.world import World, draw, explain_difference

__all__ = ["ClusterBuilder", "Ran", "World", "check_plugin", "draw", "explain_difference"]
