"""Columns of our kinds, as kubectl gets them from a server."""

import json

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import MERGE, Client
from kaisched.objects.crds import custom_resource_definitions
from kaisched_apiserver import ApiServer
from tests.waiting import until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = "/apis/scheduling.run.ai/v2/queues"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "vision"},
    "spec": {"parentQueue": "lab", "stopPolicy": "Hold", "resources": {"gpu": {"quota": 8}}},
}
STATUS = {
    "allocated": {"cpu": "4", "nvidia.com/gpu": "6500m"},
    "requested": {"cpu": "4", "nvidia.com/gpu": "12"},
    "fairShare": {"cpu": "8", "nvidia.com/gpu": "8"},
    "saturation": "81%",
    "pendingJobs": 3,
    "conditions": [
        {"type": "Orphan", "status": "False", "reason": "ParentUsable"},
        {"type": "Ready", "status": "True", "reason": "Usable"},
    ],
}


def test_a_queue_shows_what_it_holds_and_asks_for_and_whether_it_is_usable():
    with ApiServer() as server:
        client = Client(Access(server.url))
        for definition in custom_resource_definitions().values():
            assert client.call("POST", CRDS, body=definition).is_done
        until(lambda: client.call("POST", PATH, body=QUEUE).is_done)
        path = f"{PATH}/vision/status"
        assert client.call("PATCH", path, body={"status": STATUS}, content_type=MERGE).is_done
        table = json.loads(client.call("GET", PATH, accept=TABLE).data)
    heads = [it["name"] for it in table["columnDefinitions"]]
    row = dict(zip(heads, table["rows"][0]["cells"], strict=True))
    shown = ("Name", "Parent", "GPU quota", "Allocated", "Requested", "Stop", "State")
    assert [row[it] for it in shown] == ["vision", "lab", 8, "6500m", "12", "Hold", "Usable"]
    assert [row[it] for it in ("Fair share", "Saturation", "Pending")] == ["8", "81%", 3]
