"""Metrics behind the API server: whose token it is, and whether that user may get them."""

from urllib.error import HTTPError
from urllib.request import Request as Ask
from urllib.request import urlopen

import pytest

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched.daemon.access import KEPT_S, Reviews, guarded
from kaisched.daemon.http_server import Server, listen
from kaisched.daemon.http_wire import Page, Request, Source
from kaisched_apiserver import ApiServer, Rule
from kaisched_apiserver.playground import kubeconfig_of
from tests.processes import ANY_PORTS, Daemon
from tests.waiting import until

REVIEW = [
    Rule(("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    Rule(("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
]
METRICS = Rule(("get",), (), (), urls=("/metrics",))


@pytest.fixture
def server():
    with ApiServer() as server:
        server.api.access.tokens = {"ours": "us", "of-prom": "prometheus", "of-team": "team-a"}
        server.api.access.rules = {"us": list(REVIEW), "prometheus": [METRICS], "team-a": []}
        yield server


@pytest.fixture
def clock():
    return ManualClock(100.0)


@pytest.fixture
def access(server, clock):
    client = Client(Access(server.url, authorization=lambda: "Bearer ours"), timeout_s=60.0)
    return Reviews(client, clock.now_s)


def asked(access, authorization, path="/metrics"):
    ours = Source(lambda _: Page(200, "", b""))
    page = guarded(ours, access).make(Request({}, "", "", path, authorization))
    return page.status, page.body.decode()


@pytest.mark.fault("I128")
@pytest.mark.parametrize(
    ("authorization", "status", "said"),
    [
        ("Bearer of-prom", 200, ""),
        ("bearer of-prom", 200, ""),
        ("", 401, "a bearer token is needed\n"),
        ("Basic b2YtcHJvbQ==", 401, "a bearer token is needed\n"),
        ("Bearer ", 401, "a bearer token is needed\n"),
        ("Bearer stolen", 401, "the API server does not know this token\n"),
        (
            "Bearer of-team",
            403,
            "team-a may not get /metrics: bind it to the ClusterRole kaisched-metrics-reader\n",
        ),
    ],
)
def test_only_who_may_get_them_gets_them(access, authorization, status, said):
    assert asked(access, authorization) == (status, said)


def test_each_page_is_a_right_of_its_own(access):
    assert asked(access, "Bearer of-prom") == (200, "")
    assert asked(access, "Bearer of-prom", "/observed")[0] == 403


@pytest.mark.fault("I128")
def test_where_nothing_can_be_asked_nobody_may(server, access):
    server.stop()
    status, said = asked(access, "Bearer of-prom")
    assert status == 503
    assert said.startswith("access cannot be checked: no answer from the API server")
    assert "of-prom" not in said


def test_a_missing_right_of_ours_says_which_role_is_missing(server, access):
    server.api.access.rules["us"] = []
    status, said = asked(access, "Bearer of-prom")
    assert status == 503
    assert said == (
        "access cannot be checked: we may not make a TokenReview; apply the role kaisched-review of"
        " deploy/ and bind it to our account\n"
    )


def test_an_answer_counts_for_some_seconds(server, access, clock):
    assert asked(access, "Bearer of-prom") == (200, "")
    server.api.access.rules["prometheus"] = []
    clock.sleep(KEPT_S - 0.1)
    assert asked(access, "Bearer of-prom") == (200, "")
    clock.sleep(0.2)
    assert asked(access, "Bearer of-prom")[0] == 403


def test_what_is_kept_is_bounded_and_holds_no_token(server, clock, monkeypatch):
    monkeypatch.setattr("kaisched.daemon.access.MOST_USERS", 3)
    client = Client(Access(server.url, authorization=lambda: "Bearer ours"), timeout_s=60.0)
    reviews = Reviews(client, clock.now_s)
    access = reviews
    for number in range(5):
        asked(access, f"Bearer guess-{number}")
    kept = reviews._users._found
    assert len(kept) == 3
    assert "guess" not in repr(kept)


@pytest.mark.fault("I128")
def test_a_page_that_is_guarded_is_so_over_http(access):
    page = Source(lambda _: Page(200, "text/plain", b"queues\n"))
    server = Server([listen("127.0.0.1", 0, {"/metrics": guarded(page, access)}, "metrics.port")])
    url = f"http://127.0.0.1:{server.port}/metrics"
    try:
        with pytest.raises(HTTPError) as caught:
            urlopen(url)
        with caught.value as answer:
            assert (answer.code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        with urlopen(Ask(url, headers={"Authorization": "Bearer of-prom"})) as answer:
            assert answer.read() == b"queues\n"
    finally:
        server.close()


@pytest.mark.fault("I128")
@pytest.mark.slow  # a process that starts
def test_a_daemon_asks_the_server_about_scrapes_and_nobody_about_probes(server, tmp_path):
    server.api.access.rules["us"] = [*REVIEW, Rule(("*",), ("*",), ("*",))]
    (tmp_path / "kubeconfig").write_text(kubeconfig_of(server.url, "ours"), encoding="utf-8")
    daemon = Daemon(
        tmp_path / "log",
        *("--cluster", "kubernetes", *ANY_PORTS),
        KUBECONFIG=str(tmp_path / "kubeconfig"),
        KAISCHED_METRICS__AUTHENTICATION="kubernetes",
        KAISCHED_KUBERNETES__OBSERVE="true",
    )
    pages = ("/metrics", "/observed", "/livez")
    try:
        port = until(lambda: (it := daemon.ports()).keys() >= set(pages) and it)
        told = {
            (page, token): status_of(port[page], page, token)
            for page in pages
            for token in ("", "of-prom", "of-team")
        }
    finally:
        daemon.end()
    assert told == {
        ("/metrics", ""): 401,
        ("/metrics", "of-prom"): 200,
        ("/metrics", "of-team"): 403,
        ("/observed", ""): 401,
        ("/observed", "of-prom"): 403,
        ("/observed", "of-team"): 403,
        ("/livez", ""): 200,
        ("/livez", "of-prom"): 200,
        ("/livez", "of-team"): 200,
    }


def status_of(port, page, token):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urlopen(Ask(f"http://127.0.0.1:{port}{page}", headers=headers), timeout=60) as answer:
            return answer.status
    except HTTPError as refused:
        with refused:
            return refused.code
