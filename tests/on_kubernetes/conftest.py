"""One cluster a test."""

import pytest
from structlog.testing import capture_logs

from tests.on_kubernetes.rig import KUBECONFIG, Rig


@pytest.fixture
def rig():
    with capture_logs() as logs:
        rig = Rig()
        rig.logs = logs
        try:
            yield rig
        finally:
            rig.close()


@pytest.fixture
def server(rig):
    """The scripted side of the server, which a real one has not."""
    if KUBECONFIG:
        pytest.skip("faults are scripted in the embedded API server only")
    return rig.server


@pytest.fixture
def cluster(rig):
    """Two nodes of eight GPUs and a queue that deserves them all."""
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("a", 16)
    rig.start_kubelet()
    return rig
