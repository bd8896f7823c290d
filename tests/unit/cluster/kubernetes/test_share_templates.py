"""The requests that make templates of shares, answer by answer."""

from collections import deque
from types import SimpleNamespace

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.client import Answer, Counts
from kaisched.cluster.kubernetes.device_claims import AGAIN_S, ShareTemplates
from kaisched.errors import ClusterUnavailable
from kaisched.objects.gpus import Share, claim_spec, template_for

MADE = template_for("team", "kaisched-gpu-memory-5", claim_spec(Share(0, 5, 1), "gpu", 0))


class Client:
    """Answers with what it is told, one after the other."""

    def __init__(self, *answers):
        self.answers, self.sent = deque(answers), []

    def call(self, method, path, body=None, content_type=""):
        self.sent.append((method, path, body))
        answer = self.answers.popleft()
        if answer is None:
            raise ClusterUnavailable("no answer")
        return answer


def answer(code, message=""):
    return Answer(code, msgspec.json.encode({"kind": "Status", "message": message, "code": code}))


def works(backend, *answers, missing=(MADE,)):
    """Return the client and the requests that are made after a cycle."""
    client = Client(*answers)
    writers = SimpleNamespace(client=client, counts=Counts(), log=structlog.get_logger())
    shares = SimpleNamespace(wanted=lambda _: list(missing))
    store = SimpleNamespace(
        device_claims=SimpleNamespace(shares=shares), pods=SimpleNamespace(is_ours=None)
    )
    return client, list(backend.upkeep((), writers, store))


def test_a_template_is_made_once_and_again_if_it_stays_missing(monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr("kaisched.cluster.kubernetes.device_claims.monotonic_s", lambda: now_s[0])
    backend = ShareTemplates()
    client, (work,) = works(backend, answer(201))
    assert work.send() is None
    ((method, path, body),) = client.sent
    assert (method, path) == (
        "POST",
        "/apis/resource.k8s.io/v1/namespaces/team/resourceclaimtemplates",
    )
    assert body["apiVersion"] == "resource.k8s.io/v1"
    assert body["kind"] == "ResourceClaimTemplate"
    assert works(backend)[1] == []
    now_s[0] += AGAIN_S
    assert len(works(backend)[1]) == 1
    assert works(backend, missing=())[1] == []  # it was seen
    assert len(works(backend)[1]) == 1  # and deleted since


@pytest.mark.parametrize("code", [201, 409])
def test_one_that_is_there_is_as_good_as_made(code):
    _, (work,) = works(ShareTemplates(), answer(code))
    with capture_logs() as logs:
        assert work.send() is None
    assert [it["event"] for it in logs] == (["template_made"] if code == 201 else [])


@pytest.mark.parametrize("first", [None, answer(429), answer(503)])
def test_an_answer_that_may_pass_is_asked_again(first):
    client, (work,) = works(ShareTemplates(), first, answer(201))
    assert work.send() > 0
    assert work.send() is None
    assert len(client.sent) == 2


def test_a_server_of_an_earlier_version_gets_the_earlier_one():
    client, (work,) = works(ShareTemplates(), answer(404), answer(201))
    assert work.send() is None
    assert [it[2]["apiVersion"] for it in client.sent] == [
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta2",
    ]


@pytest.mark.parametrize(
    ("message", "needs"),
    [
        (
            'resourceclaimtemplates is forbidden: User "us" cannot create resource',
            "create on resourceclaimtemplates of resource.k8s.io",
        ),
        ("exceeded quota", None),
    ],
)
def test_a_refusal_is_logged_with_the_right_that_is_missing(message, needs):
    _, (work,) = works(ShareTemplates(), answer(403, message))
    with capture_logs() as logs:
        assert work.send() is None
    (entry,) = logs
    assert (entry["event"], entry["log_level"]) == ("template_not_made", "error")
    assert entry["template"] == "team/kaisched-gpu-memory-5"
    assert entry.get("needs") == needs
