"""Every answer to a bind: the pod is bound once, or what was assumed of it is taken back."""

import msgspec
import pytest
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.binder import BindWork, GangBinds
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.pods import EPOCH, LEADER, LEASE, StatusPatch
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind, Nominate
from kaisched_apiserver import Fault


class Store:
    """Counts what is taken back."""

    def __init__(self):
        self.refuted, self.held_back = [], []

    def refute_bind(self, key, uid):
        assert uid
        self.refuted.append(key)

    refute_eviction = refute_bind

    def hold_back(self, key, now_s, uid, why):
        assert why.startswith("it could not be bound to node n0: ")
        self.held_back.append(key)
        self.refute_bind(key, uid)


def refuted(news):
    store = Store()
    for it in news:
        if not isinstance(it, Change):
            it(store)
    return store.refuted


def held_back(news):
    store = Store()
    for it in news:
        if callable(it):
            it(store)
    return store.held_back


@pytest.fixture
def work(writers, make_pod):
    """A bind of a new pod to n0."""

    def work(name, gang=None, uid="", **spec):
        pod = make_pod(name, **spec)
        uid = uid or pod["metadata"]["uid"]
        bind = Bind(f"default/{name}", uid, "n0", "default/g", 0, 0)
        return BindWork(writers, bind, gang or GangBinds("default/g"))

    return work


def test_a_pod_is_bound_and_marked_with_its_leader(work, news, get_pod):
    assert work("p").send() is None
    pod = get_pod("p")
    assert pod["spec"]["nodeName"] == "n0"
    assert pod["metadata"]["annotations"] == {LEASE: "kaisched-a", LEADER: "us", EPOCH: "3"}
    assert refuted(news) == []


@pytest.mark.fault("A11")
def test_a11_a_pod_that_another_has_bound_is_taken_back(work, news, client):
    binding = work("p")
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n9"}}
    assert client.call("POST", "/api/v1/namespaces/default/pods/p/binding", body=body).is_done
    assert binding.send() is None
    assert refuted(news) == ["default/p"]
    told = [it.obj.spec.node_name for it in news if isinstance(it, Change)]
    assert told == ["n9"]


@pytest.mark.fault("A12")
def test_a12_a_pod_made_anew_under_the_same_name_is_not_touched(work, news, get_pod):
    assert work("p", uid="11111111-1111-1111-1111-111111111111").send() is None
    assert "nodeName" not in get_pod("p")["spec"]
    assert refuted(news) == ["default/p"]


@pytest.mark.fault("A12")
def test_a12_a_pod_that_is_gone_is_taken_back(work, news, client):
    binding = work("p")
    assert client.call("DELETE", "/api/v1/namespaces/default/pods/p").is_done
    assert binding.send() is None
    assert refuted(news) == ["default/p"]
    assert [it.is_gone for it in news if isinstance(it, Change)] == [True]


def test_a_pod_with_gates_is_taken_back(work, news):
    assert work("p", schedulingGates=[{"name": "x.io/later"}]).send() is None
    assert refuted(news) == ["default/p"]


@pytest.mark.fault("A9")
def test_a09_a_lost_answer_is_looked_up(work, news, server, get_pod):
    server.faults.add(Fault("drop_after", subresource="binding"))
    binding = work("p")
    assert binding.send() > 0
    assert binding.send() is None
    assert get_pod("p")["spec"]["nodeName"] == "n0"
    assert refuted(news) == []
    assert sum(seen.subresource == "binding" for seen in server.log) == 1


@pytest.mark.fault("A10")
def test_a10_what_never_arrived_is_sent_again(work, server, get_pod):
    server.faults.add(Fault("drop_before", subresource="binding"))
    binding = work("p")
    assert binding.send() > 0
    assert binding.send() is None  # the pod is read, and bound at once
    assert get_pod("p")["spec"]["nodeName"] == "n0"


@pytest.mark.fault("A7")
def test_a07_the_server_says_how_long_to_wait(work, server):
    server.faults.add(Fault("status", subresource="binding", code=429, retry_after_s=7))
    assert work("p").send() >= 7.0


def answering(writers, monkeypatch, code, message):
    """Let the server answer every request with a refusal."""
    answer = Answer(code, msgspec.json.encode({"code": code, "message": message}))
    monkeypatch.setattr(writers.client, "call", lambda *_, **__: answer)


def test_who_lacks_a_right_is_told_to_get_it_and_tries_again(work, writers, news, monkeypatch):
    message = (
        'pods "p" is forbidden: User "ann" cannot create resource "pods/binding" in API group ""'
        ' in the namespace "default"'
    )
    binding = work("p")
    answering(writers, monkeypatch, 403, message)
    with capture_logs() as logs:
        assert binding.send() > 0
    told = {"event": "bind_forbidden", "needs": "create on pods/binding"}
    assert logs == [{"log_level": "error", "answer": f"403 : {message}", **told}]
    assert held_back(news) == []


@pytest.mark.fault("I138")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            403,
            (
                "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'kaisched-fence' with binding"
                " 'kaisched-fence' denied request: not the leader"
            ),
        ),
        (422, "ValidatingAdmissionPolicy 'no-rush' with binding 'x' denied request: not today"),
        (400, "the webhook is wrong"),
    ],
)
def test_a_bind_that_admission_refuses_gives_its_room_back_at_once(
    work, writers, news, monkeypatch, code, message
):
    gang = GangBinds("default/g")
    binding, other = work("p", gang), work("q", gang)
    answering(writers, monkeypatch, code, message)
    with capture_logs() as logs:
        assert binding.send() is None
    assert [(it["event"], it["why"]) for it in logs] == [("bind_failed", f"{code} : {message}")]
    assert held_back(news) == ["default/p"]
    assert other.send() is None  # the rest of its gang is not begun, and not held back
    assert (refuted(news), held_back(news)) == (["default/p", "default/q"], ["default/p"])


@pytest.mark.fault("A7")
def test_a_server_that_asks_for_a_day_does_not_get_it(work, server):
    server.faults.add(Fault("status", subresource="binding", code=429, retry_after_s=86400))
    assert work("p").send() == 30.0


@pytest.mark.fault("A10")
def test_a_bind_is_given_up_in_the_end(work, server, news):
    server.faults.add(Fault("status", subresource="binding", code=503, times=None))
    binding = work("p")
    assert binding.send() > 0
    binding.begun_s -= 100.0
    assert binding.send() is None
    assert refuted(news) == ["default/p"]


@pytest.mark.fault("I121")
@pytest.mark.parametrize("fault", [Fault("drop_after"), Fault("status", code=504, times=None)])
def test_a_bind_that_may_have_happened_is_taken_back_by_nobody(work, server, news, writers, fault):
    """Neither for taking long, nor when it is dropped: whoever reads the pod knows."""
    fault.subresource = "binding"
    server.faults.add(fault)
    server.faults.add(Fault("drop_before", verb="get", plural="pods", times=None))
    binding = work("p")
    writers.under_way.add((binding.bind.pod, binding.bind.uid))
    assert binding.send() > 0
    binding.begun_s -= 100.0
    assert binding.send() > 0
    assert writers.under_way
    binding.drop("stopping")
    assert refuted(news) == []
    assert not writers.under_way


def test_what_was_never_sent_is_dropped_and_taken_back(work, news):
    work("p").drop("stopping")
    assert refuted(news) == ["default/p"]


@pytest.mark.fault("A11")
@pytest.mark.fault("A13")
def test_the_rest_of_a_gang_that_cannot_be_whole_is_not_begun(work, news, client, get_pod):
    gang = GangBinds("default/g")
    first, second, third = (work(name, gang) for name in ("p", "q", "r"))
    assert first.send() is None
    assert client.call("DELETE", "/api/v1/namespaces/default/pods/q").is_done
    assert second.send() is None
    assert third.send() is None
    assert "nodeName" not in get_pod("r")["spec"]
    assert sorted(refuted(news)) == ["default/q", "default/r"]


def test_a_nominated_node_is_named(writers, make_pod, get_pod):
    uid = make_pod("p")["metadata"]["uid"]
    nominate = Nominate("default/p", uid, "n7", "default/g", 0, 0)
    assert (
        StatusPatch(
            writers, nominate.pod, nominate.uid, {"nominatedNodeName": nominate.node}, "nominate"
        ).send()
        is None
    )
    assert get_pod("p")["status"]["nominatedNodeName"] == "n7"


@pytest.mark.fault("B26")
def test_b26_a_write_is_over_before_the_lead_may_be(client, server, make_pod):
    """Each request has a time of its own, and it is the hurried one that counts."""
    make_pod("p")
    server.faults.add(Fault(verb="get", plural="pods", delay_s=30.0))
    with pytest.raises(ClusterUnavailable):  # in its own time it would have its answer
        client.hurried(0.2).call("GET", "/api/v1/namespaces/default/pods/p")
    assert client.timeout_s == 60.0
