"""A server of the test's own."""

import time

import pytest

from kaisched.cluster.embedded.apiserver import ApiServer
from tests.contract.apiserver.client import Client

PATIENCE_S = 20


@pytest.fixture
def server():
    with ApiServer() as server:
        yield server


@pytest.fixture
def client(server):
    return Client(server.url)


@pytest.fixture
def pods():
    return "/api/v1/namespaces/default/pods"


@pytest.fixture
def eventually():
    """Wait until a function returns something true, and return that."""

    def wait(ask):
        deadline = time.monotonic() + PATIENCE_S
        while not (found := ask()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.02)
        return found

    return wait
