"""A cluster in memory: an API server's view of the objects, and a stand-in for the kubelets."""

from kaisched.cluster.embedded.cluster import EmbeddedCluster as EmbeddedCluster
from kaisched.cluster.embedded.history import Happening as Happening
