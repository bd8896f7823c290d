"""Reports where very many objects change at once, and those that rest on what is no longer so."""

import time

import msgspec
import pytest
from structlog.testing import capture_logs

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.kubernetes.status_writer import POD, QUEUE, WEIGHTS
from kaisched.cluster.kubernetes.write_queue import Entry, ReportQueue, ReportWriters
from tests.laws.reported import NEVER, QUEUES, STRATEGIC, TEAM, Cluster
from tests.waiting import until

FALSE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "old"}


def condition(cluster, name):
    pod = next(it for it in cluster.objects("", "pods") if it["metadata"]["name"] == name)
    conditions = pod["status"].get("conditions", ())
    return next((it for it in conditions if it["type"] == "PodScheduled"), {})


def status(cluster, plural, name):
    objects = cluster.objects("scheduling.run.ai", plural)
    return next(it for it in objects if it["metadata"]["name"] == name).get("status", {})


def waiting():
    """Return a cluster with a pod that is told, in a moment, that it waits."""
    cluster = Cluster(nodes=1)
    cluster.pod("block", "a", 8)
    cluster.pass_time(1.0)
    cluster.pod("p", "a", 1)
    cluster.deliver()
    cluster.now_s += 1.0
    cluster.next_cycle()
    return cluster


# -- what rests on what is no longer so ------------------------------------------------------------


@pytest.mark.fault("I127")
def test_a_pod_that_was_bound_in_the_meantime_is_told_nothing():
    cluster = waiting()
    # Bound by whoever leads by now: the watch has not told us yet.
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n000"}}
    cluster.server.must("POST", f"{TEAM}/pods/p/binding", body)
    cluster.write()
    assert cluster.server.refused == 1
    assert condition(cluster, "p")["status"] == "True"
    cluster.deliver()
    cluster.now_s += 60.0
    cluster.write()
    assert (cluster.server.refused, condition(cluster, "p")["status"]) == (1, "True")


@pytest.mark.fault("I127")
def test_a_report_that_was_refused_is_written_once_the_watch_has_told_more():
    cluster = waiting()
    patch = {"metadata": {"labels": {"x": "y"}}}
    cluster.server.must("PATCH", f"{TEAM}/pods/p", patch, STRATEGIC)
    cluster.write()
    assert cluster.server.refused == 1
    cluster.deliver()
    cluster.write()
    assert "0/1 nodes have room" in condition(cluster, "p")["message"]


@pytest.mark.fault("I127")
def test_a_pod_on_a_node_that_is_said_to_wait_is_mended_in_the_next_cycle():
    cluster = waiting()
    cluster.overwrite(f"{TEAM}/pods/block", {"conditions": [FALSE]})
    cluster.deliver()
    cluster.next_cycle()
    cluster.write()
    said = condition(cluster, "block")
    assert said["status"] == "True"
    assert "reason" not in said
    assert "message" not in said


@pytest.mark.fault("I127")
def test_a_pod_of_another_scheduler_is_left_alone():
    cluster = Cluster(nodes=1)
    spec = {"nodeName": "n000", "containers": [{"name": "main", "image": "none"}]}
    body = {"metadata": {"name": "theirs"}, "spec": spec}
    cluster.server.must("POST", f"{TEAM}/pods", body)
    cluster.overwrite(f"{TEAM}/pods/theirs", {"conditions": [FALSE]})
    cluster.pass_time(2.0)
    assert condition(cluster, "theirs")["message"] == "old"


@pytest.mark.fault("I127")
def test_a_queue_that_was_made_anew_is_not_told_what_the_old_one_held():
    cluster = waiting()
    cluster.server.must("DELETE", f"{QUEUES}/a", {})
    spec = {"resources": {"gpu": {"quota": 4}}}
    cluster.server.must("POST", QUEUES, {"metadata": {"name": "a"}, "spec": spec})
    cluster.write()
    assert status(cluster, "queues", "a") == {}


@pytest.mark.fault("I130")
def test_who_overwrites_a_status_again_and_again_is_not_raced():
    cluster = waiting()
    cluster.pass_time(2.0)
    before = cluster.counts()
    for _ in range(300):
        cluster.overwrite(f"{QUEUES}/a", {"allocated": {"cpu": "7"}})
        cluster.pass_time(0.2)
    assert 3 <= cluster.counts() - before <= 12


def test_what_the_server_does_not_take_is_logged_once_in_a_while(monkeypatch):
    cluster = waiting()
    message = "events are forbidden"
    answer = Answer(403, msgspec.json.encode({"code": 403, "message": message}))
    monkeypatch.setattr(cluster.server, "call", lambda *_, **__: answer)
    told = []
    for seconds in (0.0, 30.0, 31.0):
        cluster.now_s += seconds
        for name in ("p", "block"):
            cluster.reporter.note(Note(f"team/{name}", "a-uid", "Scheduled", "Binding", "so it is"))
        with capture_logs() as logs:
            cluster.write()
        told.append([it for it in logs if "/events" in it.get("path", "")])
    (first,), second, (third,) = told
    assert second == []
    assert first == third
    assert first["event"] == "report_refused"
    assert first["answer"] == f"403 : {message}"


@pytest.mark.parametrize("name", ["p", "a." * 100 + "b", "a" * 253])
def test_an_event_has_a_name_that_a_server_takes(name):
    cluster = Cluster(nodes=1)
    cluster.reporter.note(Note(f"team/{name}", "a-uid", "Scheduled", "Binding", "so it is"))
    cluster.write()
    assert len(cluster.objects("", "events")) == 1


# -- very many at once -----------------------------------------------------------------------------


@pytest.mark.fault("I130")
def test_a_gang_of_512_that_came_pod_by_pod_says_nothing_of_waiting_once_it_is_bound():
    cluster = Cluster(nodes=64)
    cluster.group("g", "a", 512)
    for number in range(512):
        cluster.pod(f"g-{number}", "a", 1, "g")
        if number % 16 == 0:
            cluster.pass_time(0.5, per_second=20)
    cluster.pass_time(1.0, per_second=20)
    assert all(it["spec"].get("nodeName") for it in cluster.objects("", "pods"))
    cluster.pass_time(2.0, per_second=20)
    assert list(cluster.wrong()) == []
    assert status(cluster, "podgroups", "g")["schedulingConditions"] == []
    assert status(cluster, "queues", "a")["allocated"]["nvidia.com/gpu"] == "512"


@pytest.mark.fault("I130")
@pytest.mark.slow  # 4,096 pods on an API server
def test_queues_and_groups_do_not_stand_behind_thousands_of_pods():
    names = tuple(f"q{at}" for at in range(8))
    cluster = Cluster(nodes=0, queues=names)
    for number in range(4096):
        cluster.pod(f"p{number}", names[number % 8], 1)
    cluster.group("g", "q0", 2)
    cluster.pod("g-0", "q0", 1, "g")
    cluster.pass_time(2.0, per_second=100)
    assert [it for it in cluster.wrong() if not it.startswith("pod ")] == []
    cluster.server.must("POST", QUEUES, {"metadata": {"name": "late"}, "spec": {}})
    cluster.pod("g-1", "q0", 1, "g")
    cluster.pass_time(2.0, per_second=100)
    wrong = list(cluster.wrong())
    assert [it for it in wrong if not it.startswith("pod ")] == []
    assert len(wrong) > 3000, "the test shows nothing where nothing waits"


# -- the report queue ------------------------------------------------------------------------------


@pytest.fixture
def report_queue():
    report_queue = ReportQueue(WEIGHTS, now=lambda: report_queue.time)
    report_queue.time = 0.0
    return report_queue


@pytest.mark.fault("I130")
def test_each_kind_has_its_share_of_the_writes(report_queue):
    for number in range(1000):
        report_queue.put(Entry(POD, f"pods/{number}"), 0.0)
    for number in range(30):
        report_queue.put(Entry(QUEUE, f"queues/{number}"), 0.0)
    taken = []
    for _ in range(45):
        taken.append(report_queue.take())
        report_queue.done(taken[-1])
    assert sum(entry.what == QUEUE for entry in taken) == 30
    assert sum(entry.what == POD for entry in taken) == 15


def test_an_object_has_one_entry_and_its_last_time_counts(report_queue):
    entry = Entry(POD, "pods/a")
    report_queue.put(entry, 5.0)
    report_queue.put(entry, 1.0)
    report_queue.put(entry, 3.0)
    assert (report_queue.waiting, report_queue.next_s()) == (1, 3.0)
    report_queue.time = 2.0
    assert report_queue.take() is None
    assert report_queue.oldest_s == 2.0
    report_queue.time = 3.0
    assert report_queue.take() == entry
    assert report_queue.take() is None


def test_one_object_is_written_by_one_writer_at_a_time(report_queue):
    first, second = Entry(QUEUE, "x"), Entry(POD, "x")
    report_queue.put(first, 0.0)
    report_queue.put(second, 0.0)
    assert report_queue.take() == first
    assert report_queue.take() is None
    report_queue.done(first)
    report_queue.time = 0.1
    assert report_queue.take() == second


def test_what_is_tried_again_has_waited_since_the_first_time(report_queue):
    entry = Entry(POD, "x")
    report_queue.put(entry, 0.0)
    for at in range(1, 4):  # the server is in trouble
        assert report_queue.take() == entry
        report_queue.time = float(at)
        assert report_queue.oldest_s == float(at)
        report_queue.put(entry, report_queue.time)
        report_queue.done(entry)
    assert report_queue.oldest_s == 3.0
    assert report_queue.take() == entry
    report_queue.done(entry)
    assert (report_queue.waiting, report_queue.oldest_s) == (0, 0.0)


def test_nothing_is_due_while_the_server_is_in_trouble(report_queue):
    report_queue.put(Entry(POD, "x"), 0.0)
    report_queue.pause(1.0)
    assert (report_queue.take(), report_queue.next_s()) == (None, 1.0)
    report_queue.time = 1.0
    assert report_queue.take() is not None


def test_an_event_that_cannot_be_written_is_left_out_in_the_end():
    cluster = waiting()
    cluster.write()
    cluster.server.trouble.extend([NEVER] * 90)
    cluster.reporter._on_reported("team/p", "uid", "why")
    for _ in range(40):
        cluster.now_s += 2.0
        cluster.write(1)
    assert cluster.reporter._desired._events == {}


# -- the writers -----------------------------------------------------------------------------------


@pytest.fixture
def written():
    """Start writers on a real report queue; return what they wrote, with when."""
    log, leadership = [], Leadership()
    report_queue = ReportQueue(WEIGHTS)

    def step():
        entry = report_queue.take()
        if entry is None:
            return False
        report_queue.done(entry)
        log.append((monotonic_s(), entry.key))
        if entry.key == "bug":
            raise ZeroDivisionError
        return True

    writers = ReportWriters(report_queue, step, leadership, per_second=50, write_s=1.0)
    yield report_queue, leadership, log
    writers.close()


def put(report_queue, *keys):
    for key in keys:
        report_queue.put(Entry(POD, key), 0.0)


def test_no_more_reports_are_written_a_second_than_allowed_and_a_bug_ends_no_writer(written):
    report_queue, leadership, log = written
    leadership.renew(monotonic_s() + 3600.0)
    start_s = monotonic_s()
    put(report_queue, "bug", *(str(number) for number in range(30)))
    until(lambda: len(log) == 31)
    assert log[-1][0] - start_s >= 25 / 50  # a tenth of a second may be caught up on


def test_no_report_is_written_while_we_do_not_lead_and_none_is_lost(written):
    report_queue, leadership, log = written
    put(report_queue, "a")
    time.sleep(0.3)
    assert log == []
    leadership.renew(monotonic_s() + 3600.0)
    until(lambda: [key for _, key in log] == ["a"])
