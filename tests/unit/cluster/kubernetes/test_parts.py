"""Lines, pauses, leadership, write queue, access, quantities: the small parts by themselves."""

import datetime as dt
import threading
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.config import incluster_config
from urllib3.exceptions import InsecureRequestWarning

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes import access
from kaisched.cluster.kubernetes.access import find_access
from kaisched.cluster.kubernetes.client import Absence, Answer, Pace, Pauses
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import lines_of
from kaisched.cluster.kubernetes.resources import ALL, PODS, bare_event
from kaisched.cluster.kubernetes.statuses import quantities
from kaisched.cluster.kubernetes.write_queue import WriteQueue
from kaisched.errors import ClusterUnavailable, ConfigError, ObjectError
from kaisched.units import MEBIBYTE, MEGABYTE
from tests.waiting import PATIENCE_S, until


@pytest.mark.fault("A17")
@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=40))
def test_a17_lines_do_not_depend_on_where_the_stream_is_cut(data, sizes):
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    chunks.append(data[at:])
    whole = [line for line in data.split(b"\n")[:-1] if line.strip()]
    assert list(lines_of(chunks)) == whole


@pytest.mark.fault("A17")
def test_a17_a_line_without_end_is_not_kept():
    with pytest.raises(ObjectError, match="longer than"):
        list(lines_of([b"x" * 600_000, b"x" * 600_000], longest=1 << 20))


@pytest.mark.fault("A17")
@pytest.mark.parametrize("line", [b"{", b"[]", b'{"type":"ADDED"}', b'{"type":"ADDED","object":1}'])
def test_a17_what_is_no_event_is_told(line):
    for watched in (PODS, ALL[-4]):
        with pytest.raises(ObjectError):
            watched.read_event(line)
    with pytest.raises(ObjectError):
        bare_event(line)


def test_pauses_grow_up_to_a_limit_and_obey_the_server():
    pauses = Pauses(0.1, 2.0)
    taken = [pauses.next_s() for _ in range(200)]
    assert all(0.1 <= pause_s <= 2.0 for pause_s in taken)
    assert taken[0] <= 0.3
    assert max(taken) > 1.0
    assert pauses.next_s(asked_s=9.0) == 9.0
    pauses.reset()
    assert pauses.next_s() <= 0.3


def test_the_gate_shuts_by_itself_before_a_write_could_end_too_late():
    leadership = Leadership()
    assert not leadership.is_held()
    leadership.renew(monotonic_s() + 1000.0)
    assert leadership.is_held(900.0)
    assert not leadership.is_held(1100.0)
    leadership.end()
    assert not leadership.is_held()


class Work:
    """Notes what happens to it; may want several tries or wait for a signal."""

    def __init__(self, name, log, tries=1, wait=None):
        self.name, self.log, self.tries, self.wait = name, log, tries, wait
        self.is_begun = False

    def send(self):
        self.is_begun = True
        if self.wait is not None:
            self.wait.wait(PATIENCE_S)
        self.tries -= 1
        self.log.append(self.name)
        return 0.01 if self.tries else None

    def drop(self, why):
        self.log.append(f"{self.name}: {why}")


@pytest.fixture
def leadership():
    leadership = Leadership()
    leadership.renew(monotonic_s() + 3600.0)
    return leadership


def emptied(write_queue):
    until(lambda: write_queue.waiting == 0)


def test_work_goes_by_rank_and_is_tried_again(leadership):
    log, hold = [], threading.Event()
    write_queue = WriteQueue(leadership, writers=1, per_second=1000, write_s=1.0)
    first = Work("first", log, wait=hold)
    write_queue.put(0, first)
    until(lambda: first.is_begun)
    write_queue.put(3, Work("last", log))
    write_queue.put(1, Work("twice", log, tries=2))
    later = Work("later", log)
    write_queue.put(2, later, delay_s=3600.0)
    hold.set()
    until(lambda: write_queue.waiting == 1)
    assert not later.is_begun
    write_queue.close(PATIENCE_S)
    assert (log[:2], sorted(log[2:])) == (["first", "twice"], ["last", "later: stopping", "twice"])


def test_work_that_has_to_wait_is_done_in_its_time(leadership):
    log = []
    write_queue = WriteQueue(leadership, writers=1, per_second=1000, write_s=1.0)
    start_s = time.monotonic()
    write_queue.put(0, Work("later", log), delay_s=0.1)
    emptied(write_queue)
    assert time.monotonic() - start_s >= 0.1
    write_queue.close(PATIENCE_S)
    assert log == ["later"]


def test_nothing_is_sent_through_a_shut_gate(leadership):
    log = []
    write_queue = WriteQueue(leadership, writers=2, per_second=1000, write_s=1.0)
    leadership.end()
    write_queue.put(0, Work("work", log))
    emptied(write_queue)
    write_queue.close(PATIENCE_S)
    assert log == ["work: we do not lead"]


@pytest.mark.fault("A7")
def test_no_more_is_sent_a_second_than_allowed(leadership):
    log = []
    write_queue = WriteQueue(leadership, writers=4, per_second=50, write_s=1.0)
    start_s = time.monotonic()
    for number in range(25):
        write_queue.put(0, Work(str(number), log))
    emptied(write_queue)
    took_s = time.monotonic() - start_s
    write_queue.close(PATIENCE_S)
    assert len(log) == 25
    assert took_s >= 19 / 50  # a tenth of a second may be caught up on


def test_closing_finishes_what_is_under_way_and_drops_the_rest(leadership):
    log, hold = [], threading.Event()
    write_queue = WriteQueue(leadership, writers=1, per_second=1000, write_s=1.0)
    under_way = Work("under way", log, tries=2, wait=hold)
    write_queue.put(0, under_way)
    until(lambda: under_way.is_begun)
    write_queue.put(0, Work("waiting", log))
    closing = threading.Thread(target=write_queue.close, args=(PATIENCE_S,))
    closing.start()
    until(lambda: log)
    hold.set()
    closing.join()
    assert log == ["waiting: stopping", "under way", "under way: stopping"]
    assert not write_queue.put(0, Work("late", log))


def test_a_piece_of_work_with_a_bug_does_not_end_the_writer(leadership):
    log = []

    class Bug(Work):
        def send(self):
            raise ZeroDivisionError

    write_queue = WriteQueue(leadership, writers=1, per_second=1000, write_s=1.0)
    write_queue.put(0, Bug("bug", log))
    write_queue.put(0, Work("next", log))
    emptied(write_queue)
    write_queue.close(PATIENCE_S)
    assert log == ["bug: a bug", "next"]


def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path):
    missing = tmp_path / "nowhere"
    with pytest.raises(ConfigError, match=r"nowhere.*kubernetes\.kubeconfig"):
        find_access(missing)
    bad = tmp_path / "bad"
    bad.write_text("clusters: 7\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="no access to a cluster"):
        find_access(bad)


def test_a_kubeconfig_says_where_and_who(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: sesame}}]\n"
        "contexts: [{name: one, context: {cluster: c, user: u}}]\n",
        encoding="utf-8",
    )
    access = find_access(file)
    assert access.host == "http://127.0.0.1:1"
    assert access.authorization() == "Bearer sesame"
    with pytest.raises(ConfigError):
        find_access(file, "two")


def test_a_server_that_is_not_verified_is_no_warning_a_connection(tmp_path):
    file = tmp_path / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\n"
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1',"
        " insecure-skip-tls-verify: true}}]\n"
        "users: [{name: u, user: {token: sesame}}]\n"
        "contexts: [{name: one, context: {cluster: c, user: u}}]\n",
        encoding="utf-8",
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        access = find_access(file)
        warnings.warn("unverified", InsecureRequestWarning, stacklevel=1)
        warnings.warn("another", UserWarning, stacklevel=1)
    assert [str(it.message) for it in said] == ["another"]
    assert access.pool["cert_reqs"] == "CERT_NONE"


@pytest.fixture
def in_pod(tmp_path, monkeypatch):
    """As if we ran in a pod, whose token is read whenever it is asked for; return its file."""
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("first", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    loader = incluster_config.InClusterConfigLoader
    read = loader._read_token_file

    def read_once(self):
        read(self)
        self.token_expires_at = dt.datetime.min  # noqa: DTZ901 - as the client has it

    monkeypatch.setattr(loader, "_read_token_file", read_once)
    return tmp_path / "token"


@pytest.mark.fault("A18")
def test_a18_a_renewed_token_is_used_within_a_second(in_pod, monkeypatch):
    now_s = 100.0
    monkeypatch.setattr(access, "monotonic_s", lambda: now_s)
    found = find_access()
    assert found.authorization() == "bearer first"
    in_pod.write_text("second", encoding="utf-8")
    now_s += 0.9
    assert found.authorization() == "bearer first", "asking for it takes a third of a write"
    now_s += 0.2
    assert found.authorization() == "bearer second"


@pytest.mark.fault("A18")
def test_a18_a_token_that_is_not_there_for_a_moment_is_no_end(in_pod):
    found = find_access()
    in_pod.write_text("", encoding="utf-8")
    with pytest.raises(ClusterUnavailable, match="the token cannot be read"):
        found.authorization()
    in_pod.write_text("third", encoding="utf-8")
    assert found.authorization() == "bearer third"


def test_amounts_are_written_as_quantities():
    amounts = {"cpu": 1500, "memory": 1024 * MEBIBYTE, "gpu": 2500, "pods": 3, "x.io/y": 4}
    assert quantities(amounts) == {
        "cpu": "1500m",
        "memory": "1024Mi",
        "nvidia.com/gpu": "2500m",
        "x.io/y": "4",
    }
    claimed = {"gpu": 2244, "gpu-by-claim": 2244}
    assert quantities(claimed) == {"nvidia.com/gpu": "2244m", "gpu-by-claim": "2244m"}
    assert quantities({"gpu-by-claim": 9000}) == {"gpu-by-claim": "9"}
    assert quantities({"gpu": 8000, "cpu": 0}) == {"nvidia.com/gpu": "8", "cpu": "0"}
    assert quantities({"memory": 1000 * MEGABYTE}) == {"memory": "1000000000"}


def test_an_answer_that_is_no_status_is_told_as_it_is():
    assert Answer(502, b"<html>").text() == "502 : <html>"
    status = b'{"code":409,"reason":"Conflict","message":"no"}'
    assert Answer(409, status).text() == "409 Conflict: no"


def test_a_kind_that_is_named_is_looked_for_often_for_a_while(monkeypatch):
    """And not for ever: somebody may name what is never served."""
    now_s = [100.0]
    monkeypatch.setattr("kaisched.cluster.kubernetes.client.monotonic_s", lambda: now_s[0])
    absence = Absence(Pace())
    assert absence.pause_s() == 60.0
    assert absence.expect()
    looked = []
    for now_s[0] in (100.0, 129.0, 130.0, 159.0, 160.0):
        looked.append((absence.pause_s(), absence.expect()))
    assert looked == [(1.0, False), (1.0, False), (60.0, False), (60.0, False), (60.0, True)]
    assert absence.pause_s() == 1.0
