"""A server of the test's own."""

import pytest

from kaisched_apiserver import ApiServer
from tests.contract.apiserver.client import Client


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
