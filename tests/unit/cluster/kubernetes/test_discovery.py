"""Whether a server has Kubernetes' own gang API, and in which version."""

import json

import pytest

from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.resources import AccountUnknownError, find_gang_api
from kaisched.errors import ClusterUnavailable

GROUP = "/apis/scheduling.k8s.io"


class Server:
    """Answers by path; 404 to all others."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def call(self, method, path):
        assert method == "GET"
        self.asked.append(path)
        code, body = self.answers.get(path.removeprefix(GROUP).strip("/") or "group", (404, {}))
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Answer(code, data)


def group(*versions):
    return 200, {"versions": [{"groupVersion": "x", "version": it} for it in versions]}


def resources(*names):
    return 200, {"resources": [{"name": it} for it in names]}


PLURALS = resources("podgroups", "podgroups/status", "workloads")


@pytest.mark.fault("A22")
@pytest.mark.parametrize(
    ("answers", "version"),
    [
        ({}, None),
        ({"group": (403, {})}, None),
        ({"group": group("v1")}, None),
        ({"group": group("v1", "v1alpha1"), "v1alpha1": resources("workloads")}, None),
        ({"group": group("v1", "v1alpha2"), "v1alpha2": PLURALS}, "v1alpha2"),
        ({"group": group("v1", "v1alpha2"), "v1alpha2": resources("workloads")}, None),
        (
            {"group": group("v1alpha2", "v1beta1"), "v1alpha2": PLURALS, "v1beta1": PLURALS},
            "v1beta1",
        ),
        ({"group": group("v1alpha2", "v1beta1"), "v1alpha2": PLURALS}, "v1alpha2"),
        ({"group": group("v9"), "v9": PLURALS}, None),
        ({"group": (200, [])}, None),
        ({"group": (200, {"versions": None})}, None),
        ({"group": (200, {"versions": ["v1alpha2", 7]})}, None),
    ],
)
def test_the_version_that_is_read(answers, version):
    found = find_gang_api(Server(**answers))
    assert (found and found.api_version) == (version and f"scheduling.k8s.io/{version}")


@pytest.mark.fault("A22")
def test_of_other_versions_nothing_is_asked():
    server = Server(group=group("v1", "v1alpha1", "v9"))
    find_gang_api(server)
    assert server.asked == [GROUP]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((500, {}), ClusterUnavailable),
        ((429, {}), ClusterUnavailable),
        ((401, {}), AccountUnknownError),
        ((200, b"<html>"), ClusterUnavailable),
    ],
)
def test_a_server_that_does_not_say_is_told(answer, error):
    for answers in ({"group": answer}, {"group": group("v1alpha2"), "v1alpha2": answer}):
        with pytest.raises(error):
            find_gang_api(Server(**answers))
