"""The live view over HTTP: pages, ETags, the stream, and readers that mean no good."""

import json
import socket
import threading
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest
import structlog

from kaisched.clock import ManualClock, SystemClock
from kaisched.cluster.kubernetes.client import Answer
from kaisched.config.settings import ViewListener
from kaisched.daemon.access import (
    MOST_REVIEWS,
    Reviews,
    TooManyQueuesError,
    open_access,
    reviewed_access,
)
from kaisched.daemon.http_server import Server
from kaisched.daemon.http_wire import Request, is_known_host
from kaisched.daemon.loop import Loop
from kaisched.daemon.view_pages import AHEAD_S, Pacer, ViewPages, view_listener
from kaisched.engine.policy import default_policy
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.telemetry.metrics import CycleCollector
from kaisched.testing.builder import ClusterBuilder
from kaisched.view.api import ENDPOINTS
from kaisched.view.publisher import Publisher
from tests.unit.daemon.test_loop import StoreCluster
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def turning():
    """A loop that turns, with its view; two jobs run and one waits."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    cluster, view = StoreCluster(jobs=3), Publisher("default")
    loop = Loop(
        cluster,
        cluster,
        default_policy(),
        SystemClock(),
        CycleCollector(),
        period_s=0.05,
        view=view,
    )
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    until(lambda: view.view is not None and view.view.cycle > 1)
    yield loop, view
    loop.stop()
    thread.join()
    structlog.configure(**before)


@pytest.fixture(scope="module")
def server(turning):
    running = Server([view_listener(ViewListener(port=0), lambda: [turning[1]], None)])
    yield running
    running.close()


def get(server, path, **headers):
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def document(server, path):
    status, _, body = get(server, path)
    assert status == 200, body
    return json.loads(body)


def test_every_path_that_is_described_is_served(server):
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("{namespace}", "team")
        name = "a" if path.startswith("/queues") else "j0"
        found = document(server, f"/api/v1{path.replace('{name}', name)}")
        assert found["schemaVersion"].startswith("kaisched.io/")
    assert document(server, "/api/v1/openapi.json")["openapi"] == "3.1.0"


def test_a_job_is_told_by_the_loop(server):
    found = document(server, "/api/v1/jobs/team/j2")
    assert found["complete"]
    assert (found["pending"]["reason"], found["pending"]["turn"]["position"]) == ("NoRoom", 1)
    assert "0/1 nodes have room" in found["pending"]["message"]
    listed = document(server, "/api/v1/jobs?name=j2&messages")["jobs"]
    assert [job["message"] for job in listed] == [found["pending"]["message"]]


def test_who_has_the_document_gets_no_second_one(server):
    _, headers, body = get(server, "/api/v1/queues")
    again = get(server, "/api/v1/queues", **{"If-None-Match": headers["ETag"]})
    assert (again[0], again[2], bool(body)) == (304, "", True)
    assert get(server, "/api/v1/queues", **{"If-None-Match": '"other"'})[0] == 200


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/api/v1/other", 404, "there is no /api/v1/other"),
        ("/api/v1/queues/b", 404, "there is no queue b"),
        ("/api/v1/jobs/team/j9", 404, "there is no job or pod team/j9"),
        ("/api/v1/jobs?limit=0", 400, "no such number"),
        ("/api/v1/jobs?sort=later", 400, "no such word"),
        ("/api/v1/jobs?messages=maybe", 400, "no such word"),
        ("/api/v1/jobs?queue=b", 404, "there is no queue b"),
        ("/api/v1/jobs?shard=x", 404, "there is no shard x"),
        ("/api/v1/jobs?at=0", 400, "no earlier cycle is kept"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(server, path, status, said):
    found, _, body = get(server, path)
    error = json.loads(body)["error"]
    assert (found, error["message"]) == (status, said)
    assert error["fix"]


def test_a_page_from_elsewhere_gets_nothing(server):
    assert get(server, "/api/v1/jobs", Host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1", "Host": "localhost:1"}, 200),
    ],
)
def test_a_page_of_another_site_starts_no_trial(server, headers, status):
    assert get(server, "/api/v1/whatif?target=shard&set=kValue=1", **headers)[0] == status


def connect(server, said):
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    sock.sendall(said)
    return sock


def test_a_stream_tells_of_new_revisions(server, turning):
    with connect(server, b"GET /api/v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n") as sock:
        lines = sock.makefile("rb")
        first = next(json.loads(it[5:]) for it in lines if it.startswith(b"data:"))
        turning[0]._source.add_job("team/new")
        turning[0].wake()
        later = next(
            found
            for it in lines
            if it.startswith(b"data:")
            and (found := json.loads(it[5:]))["revision"] > first["revision"]
        )
    assert later["shard"] == "default"
    assert later["cycle"] > first["cycle"]


def test_readers_that_take_nothing_delay_no_cycle(server, turning):
    """They hold their streams and connections; the loop turns, and others are answered."""
    view = turning[1]
    stream = b"GET /api/v1/changes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    half = b"GET /api/v1/jobs HTTP/1.1\r\n"
    with ExitStack() as stack:
        for said in [stream] * 70 + [half] * 70:
            stack.enter_context(connect(server, said))
        before = view.view.cycle
        until(lambda: view.view.cycle > before + 5)
        assert document(server, "/api/v1/overview")["cycle"] > before


def pacer_of(now_s, slept):
    class Clock:
        def sleep(self, seconds):
            slept.append(max(seconds, 0.0))
            now_s[0] += max(seconds, 0.0)

    return Pacer(Clock(), lambda: now_s[0])


def test_lists_take_a_tenth_of_the_time():
    now_s, slept = [0.0], []
    pacer = pacer_of(now_s, slept)
    for _ in range(3):
        with pacer.turn():
            now_s[0] += 0.1
    assert slept == pytest.approx([0.0, 0.9, 0.9])


def test_the_page_of_one_job_does_not_wait_for_the_rest_of_lists():
    now_s, slept = [0.0], []
    pacer = pacer_of(now_s, slept)
    with pacer.turn():
        now_s[0] += 0.5
    for _ in range(2):  # such as finding the job, and then its document
        with pacer.turn(is_of_one=True):
            now_s[0] += 0.1
    assert slept == [0.0, 0.0, 0.0]


def test_pages_of_one_job_take_a_twentieth_of_the_time_in_the_long_run():
    now_s, slept = [0.0], []
    pacer = pacer_of(now_s, slept)
    for _ in range(200):
        with pacer.turn(is_of_one=True):
            now_s[0] += 0.1
    assert slept[:5] == [0.0] * 5  # half a second of work at once
    assert now_s[0] / 20 + AHEAD_S + 0.1 >= 200 * 0.1


def test_a_view_that_fails_costs_no_cycle(monkeypatch):
    cluster, view = StoreCluster(), Publisher("default")
    monkeypatch.setattr(view, "take", lambda *_, **__: 1 / 0)
    loop = Loop(
        cluster, cluster, default_policy(), ManualClock(), CycleCollector(), period_s=1.0, view=view
    )
    assert loop.cycle() is not None
    assert cluster.applied == ["team/j0-0"]


def test_an_inquiry_that_fails_costs_no_cycle(monkeypatch):
    cluster, view = StoreCluster(), Publisher("default")
    loop = Loop(
        cluster, cluster, default_policy(), ManualClock(), CycleCollector(), period_s=1.0, view=view
    )
    cycle = loop.cycle()
    monkeypatch.setattr(view.inquiries, "_answer", lambda *_: 1 / 0)
    monkeypatch.setattr(view.inquiries, "ring", lambda: loop._rest(cycle, 0.0))
    said = []
    monkeypatch.setattr(loop._log, "error", lambda event, **_: said.append(event))
    assert view.inquiries.ask(["team/j0"], 0.0) == {}
    assert said == ["inquiry_failed"]
    assert loop.cycle() is not None


def test_readers_are_answered_before_work_that_was_put_off(monkeypatch):
    cluster, view, done = StoreCluster(), Publisher("default"), []
    loop = Loop(
        cluster,
        cluster,
        default_policy(),
        ManualClock(),
        CycleCollector(),
        period_s=1.0,
        view=view,
        between=lambda _: (done.append("put off"), loop.stop()),
    )
    monkeypatch.setattr(view.inquiries, "answer", lambda _: done.append("answered"))
    loop.run()
    assert done[:2] == ["answered", "put off"]


def test_an_earlier_cycle_of_a_simulation_is_looked_at():
    """Of the jobs of then nobody can tell sentences any more, and nobody waits for them."""
    publisher = Publisher("simulation", most_frames=4)
    ran = ClusterBuilder().node("n", gpu=1).queue("q").job("j", queue="q", gpu=2).run()
    for cycle in (1, 2, 3):
        publisher.take(ran.result, cycle=cycle, time_s=100.0 * cycle, duration_s=0.1)
    running = Server([view_listener(ViewListener(port=0), lambda: [publisher], None)])
    try:
        frames = document(running, "/api/v1/frames")["frames"]
        assert [it["cycle"] for it in frames] == [1, 2, 3]
        assert document(running, "/api/v1/overview?at=2")["cycle"] == 2
        assert document(running, "/api/v1/overview")["cycle"] == 3
        assert not document(running, "/api/v1/jobs/default/j?at=2")["complete"]
    finally:
        running.close()


def test_a_process_without_a_shard_has_no_view():
    pages = ViewPages(list, open_access)
    page = pages.pages["/api/v1/"].make(Request({}, "", "localhost", "/api/v1/queues"))
    assert (page.status, b"leads no shard" in page.body) == (503, True)


def test_before_the_first_cycle_there_is_no_view():
    pages = ViewPages(lambda: [Publisher("default")], open_access)
    page = pages.pages["/api/v1/"].make(Request({}, "", "localhost", "/api/v1/queues"))
    assert page.status == 503
    assert b"no cycle has ended yet" in page.body


# -- users ----------------------------------------------------------------------------------------


class Reviewing:
    """The API server's reviews: `all` may get every queue, `anna` queue a, `bob` none."""

    def __init__(self):
        self.asked = []
        self.is_away = False

    def hurried(self, _):
        return self

    def _may(self, user, queue):
        return user == "all" or (user, queue) == ("anna", "a")

    def call(self, method, path, *, body):
        if self.is_away:
            raise ClusterUnavailable("away")
        self.asked.append(body)
        if body["kind"] == "TokenReview":
            name = body["spec"]["token"]
            known = {"all", "anna", "bob", "carl"}
            status = {"authenticated": name in known, "user": {"username": name}}
        elif "nonResourceAttributes" in (spec := body["spec"]):
            assert spec["nonResourceAttributes"] == {"path": "/kaisched/view", "verb": "get"}
            status = {"allowed": spec["user"] != "carl"}
        else:
            asked = spec["resourceAttributes"]
            assert (asked["group"], asked["resource"], asked["verb"]) == (
                "scheduling.run.ai",
                "queues",
                "get",
            )
            status = {"allowed": self._may(spec["user"], asked.get("name"))}
        return Answer(201, json.dumps({"status": status}).encode())


@pytest.fixture
def api():
    return Reviewing()


def sight(access, token):
    return access(Request({}, "", authorization=f"Bearer {token}" if token else ""))


def test_a_user_sees_the_jobs_of_queues_that_it_may_get(api):
    access = reviewed_access(Reviews(api))
    assert sight(access, "all").sees_all
    anna = sight(access, "anna")
    assert (anna.sees_all, anna.sees("a"), anna.sees("b"), anna.sees("")) == (
        False,
        True,
        False,
        False,
    )


@pytest.mark.fault("I141")
@pytest.mark.parametrize(("token", "status"), [("", 401), ("stranger", 401), ("carl", 403)])
def test_a_stranger_sees_nothing(api, token, status):
    assert sight(reviewed_access(Reviews(api)), token).status == status


def test_without_an_answer_of_the_api_server_nothing_is_shown(api):
    api.is_away = True
    page = sight(reviewed_access(Reviews(api)), "all")
    assert (page.status, b"access cannot be checked" in page.body) == (503, True)


def test_an_answer_counts_for_some_seconds_only(api):
    now_s = [0.0]
    access = reviewed_access(Reviews(api, lambda: now_s[0]))
    for _ in range(3):
        sight(access, "anna").sees("a")
    assert len(api.asked) == 4  # the token, the view, all queues, queue a
    now_s[0] = 11.0
    sight(access, "anna").sees("a")
    assert len(api.asked) == 8


def request_of(path, query=None, token="anna"):
    given = {name: [value] for name, value in (query or {}).items()}
    return Request(given, "", "", f"/api/v1{path}", f"Bearer {token}")


def test_pages_show_a_user_what_it_may_see(api, turning):
    pages = ViewPages(lambda: [turning[1]], reviewed_access(Reviews(api)), Pacer())

    def found(path, token):
        page = pages.pages["/api/v1/"].make(request_of(path, token=token))
        return page.status, json.loads(page.body)

    total = found("/jobs", "anna")[1]["total"]
    assert total >= 3
    assert found("/jobs/team/j2", "anna")[0] == 200
    status, document = found("/jobs", "bob")
    assert (status, document["total"], document["hidden"]) == (200, 0, total)
    assert found("/jobs/team/j2", "bob")[0] == 404
    assert found("/queues", "bob")[1] == found("/queues", "anna")[1]


def test_a_request_asks_about_so_many_queues_at_most(api):
    anna = sight(reviewed_access(Reviews(api)), "anna")
    for at in range(MOST_REVIEWS - 1):  # one was about all queues
        assert not anna.sees(f"q{at}")
    with pytest.raises(TooManyQueuesError):
        anna.sees("one more")


def test_a_cluster_in_memory_shows_nothing_to_strangers():
    with pytest.raises(ConfigError) as caught:
        Reviewing(
            [
                view_listener(
                    ViewListener.model_validate({"bindAddress": "0.0.0.0", "port": 0}), list, None
                )
            ]
        )
    assert caught.value.path == "view.authentication"


@pytest.mark.fault("I141")
@pytest.mark.parametrize(
    ("host", "on_loopback", "elsewhere"),
    [
        ("localhost:8083", True, True),
        ("LOCALHOST", True, True),
        ("127.0.0.1:8083", True, True),
        ("[::1]:8083", True, True),
        ("10.0.0.1:8083", True, True),
        ("gpus.example.com", True, True),  # by the setting
        ("kaisched-view:8083", False, True),
        ("kaisched-view.kaisched.svc:8083", False, True),
        ("kaisched-view.kaisched.svc.cluster.local", False, True),
        ("evil.example", False, False),
        ("evil.svc.example:8083", False, False),
        ("localhost.evil.example", False, False),
        ("10.0.0.1.evil.example", False, False),
        ("", False, False),
        (":8083", False, False),
    ],
)
def test_a_listener_is_called_by_its_own_names_only(host, on_loopback, elsewhere):
    for is_on_loopback, expected in ((True, on_loopback), (False, elsewhere)):
        found = is_known_host(host, ("gpus.example.com",), is_on_loopback=is_on_loopback)
        assert found == expected
