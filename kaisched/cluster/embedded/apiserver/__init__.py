"""A small Kubernetes API server on loopback, for tests and for trying out.

What it does and does not: ``docs/reference/embedded-api-server.md``.
"""

from kaisched.cluster.embedded.apiserver.access import Access as Access
from kaisched.cluster.embedded.apiserver.access import Rule as Rule
from kaisched.cluster.embedded.apiserver.connection import Seen as Seen
from kaisched.cluster.embedded.apiserver.faults import Fault as Fault
from kaisched.cluster.embedded.apiserver.faults import Faults as Faults
from kaisched.cluster.embedded.apiserver.server import ApiServer as ApiServer
