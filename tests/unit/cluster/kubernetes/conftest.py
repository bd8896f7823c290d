"""An API server with a namespace, and what a shard's writers share."""

import pytest
import structlog
from msgspec import json

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.pods import Writers
from kaisched_apiserver import ApiServer


@pytest.fixture
def server():
    with ApiServer() as server:
        yield server


@pytest.fixture
def client(server):
    return Client(Access(server.url), connections=2, timeout_s=60.0)


@pytest.fixture
def news():
    """What the store would be told."""
    return []


@pytest.fixture
def writers(client, news):
    leadership = Leadership()
    leadership.renew(1e9, "us", 3, "kaisched-a")
    return Writers(client, leadership, news.append, structlog.get_logger())


@pytest.fixture
def make_pod(client):
    """Create a pod in the namespace ``default`` and return it."""

    def make(name, **spec):
        body = {
            "metadata": {"name": name, "labels": spec.pop("labels", {})},
            "spec": {"containers": [{"name": "main", "image": "none"}], **spec},
        }
        answer = client.call("POST", "/api/v1/namespaces/default/pods", body=body)
        assert answer.is_done, answer.text()
        return json.decode(answer.data)

    return make


@pytest.fixture
def get_pod(client):
    def get(name):
        return json.decode(client.call("GET", f"/api/v1/namespaces/default/pods/{name}").data)

    return get
