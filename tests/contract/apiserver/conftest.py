"""The servers of the contract: ours always, a real one where the environment has one."""

import itertools
import os

import pytest

from kaisched_apiserver import ApiServer
from tests.contract.apiserver.client import Client
from tests.contract.apiserver.real import is_there, real_client

_numbers = itertools.count()


@pytest.fixture(scope="session", params=["embedded", "real"] if is_there() else ["embedded"])
def client(request, tmp_path_factory):
    if request.param == "embedded":
        with ApiServer() as server:
            yield Client(server.url)
    else:
        with real_client(tmp_path_factory.mktemp("real")) as client:
            yield client


@pytest.fixture
def is_real(client, request):
    return request.node.callspec.params["client"] == "real"


@pytest.fixture
def ns(client):
    """A namespace of the test's own."""
    name = f"contract-{os.getpid()}-{next(_numbers)}"
    answer = client.post(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )
    assert answer.code == 201
    yield name
    client.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
    client.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def pods(ns):
    """The path of the namespace's pods."""
    return f"/api/v1/namespaces/{ns}/pods"
