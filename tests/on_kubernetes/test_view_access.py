"""The live view behind the API server: who may get a Queue sees its jobs."""

import json

import pytest

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.daemon.access import Reviews, reviewed_access
from kaisched.daemon.http_wire import Request
from kaisched.daemon.view_pages import ViewPages
from kaisched.testing.builder import ClusterBuilder
from kaisched.view.publisher import Publisher
from kaisched_apiserver import ApiServer, Rule
from tests.on_kubernetes.test_metrics_access import REVIEW

VIEW = Rule(("get",), (), (), urls=("/kaisched/view",))
QUEUES = (("get",), ("scheduling.run.ai",), ("queues",))


@pytest.fixture(scope="module")
def pages():
    ran = (
        ClusterBuilder()
        .node("n0", gpu=2)
        .queue("a")
        .queue("b")
        .job("mine", queue="a", tasks=1, gpu=1)
        .job("theirs", queue="b", tasks=1, gpu=1)
        .run()
    )
    publisher = Publisher("default")
    publisher.take(ran.result, cycle=1, time_s=1.7e9, duration_s=0.1)
    with ApiServer() as server:
        access = server.api.access
        names = ("admin", "anna", "bob", "carl")
        access.tokens = {"ours": "us", **{f"of-{name}": name for name in names}}
        access.rules = {
            "us": list(REVIEW),
            "admin": [VIEW, Rule(*QUEUES)],
            "anna": [VIEW, Rule(*QUEUES, names=("a",))],
            "bob": [VIEW],
            "carl": [Rule(*QUEUES)],
        }
        client = Client(Access(server.url, authorization=lambda: "Bearer ours"), timeout_s=60.0)
        yield (
            ViewPages(lambda: [publisher], reviewed_access(Reviews(client))).pages["/api/v1/"].make
        )


def asked(pages, path, token):
    page = pages(Request({}, "", "", f"/api/v1{path}", f"Bearer {token}"))
    return page.status, json.loads(page.body) if page.content_type.endswith("json") else page.body


@pytest.mark.parametrize(
    ("token", "seen", "hidden"), [("of-admin", 2, 0), ("of-anna", 1, 1), ("of-bob", 0, 2)]
)
def test_a_user_sees_jobs_of_queues_that_it_may_get_and_totals(pages, token, seen, hidden):
    status, jobs = asked(pages, "/jobs", token)
    assert (status, jobs["total"], jobs["hidden"]) == (200, seen, hidden)
    assert asked(pages, "/jobs/default/theirs", token)[0] == (200 if seen == 2 else 404)
    queues = asked(pages, "/queues", token)[1]["queues"]
    assert [(it["name"], it["running"]) for it in queues] == [("a", 1), ("b", 1)]
    names = [it["podGroup"] for it in asked(pages, "/nodes", token)[1]["nodes"][0]["holders"]]
    assert names.count(None) == hidden


def test_who_is_not_known_sees_nothing(pages):
    assert asked(pages, "/queues", "stolen")[0] == 401


@pytest.mark.fault("I141")
@pytest.mark.parametrize("path", ["", "/overview", "/queues", "/jobs", "/fairness", "/nodes"])
def test_who_may_not_get_the_view_reads_nothing_of_it(pages, path):
    status, said = asked(pages, path, "of-carl")
    assert status == 403
    assert (
        said
        == b"carl may not get /kaisched/view: bind it to the ClusterRole kaisched-view-reader\n"
    )
