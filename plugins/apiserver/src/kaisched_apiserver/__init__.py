"""A small Kubernetes API server on loopback, for tests and for trying out.

What it does and does not: ``docs/reference/embedded-api-server.md``.
"""

from kaisched_apiserver.access import Access as Access
from kaisched_apiserver.access import Rule as Rule
from kaisched_apiserver.connection import Fault as Fault
from kaisched_apiserver.connection import Faults as Faults
from kaisched_apiserver.connection import Seen as Seen
from kaisched_apiserver.server import ApiServer as ApiServer
