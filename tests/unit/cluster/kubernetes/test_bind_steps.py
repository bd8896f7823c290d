"""Steps before a bind: settled in order, undone in reverse if the pod is not bound."""

import pytest
from structlog.testing import capture_logs

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes import binder as module
from kaisched.cluster.kubernetes.binder import (
    BindStep,
    BindWork,
    GangBinds,
    Marks,
    StepFailedError,
    Steps,
)
from kaisched.cluster.kubernetes.cluster import KubernetesCluster
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.store import StateStore
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind
from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.live_claims import FakeWriteQueue
from tests.unit.cluster.kubernetes.test_binder import held_back, refuted

LOST = ClusterUnavailable("no answer")


class Scripted(BindStep):
    """A step whose answers are given beforehand; it writes down what it is asked."""

    def __init__(self, name, log, settles=(), undoes=(), marks=Marks()):  # noqa: B008 - a value
        self.name, self.log, self.given = name, log, marks
        self.answers = {"settle": list(settles), "undo": list(undoes)}

    def settle(self):
        return self._answer("settle")

    def undo(self):
        return self._answer("undo")

    def marks(self):
        return self.given

    def _answer(self, what):
        self.log.append(f"{what} {self.name}")
        answer = self.answers[what].pop(0) if self.answers[what] else None
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def log():
    return []


@pytest.fixture
def work(writers, make_pod):
    """A bind of a new pod to n0 after some steps."""

    def work(*steps, gang=None):
        pod = make_pod("p")
        bind = Bind("default/p", pod["metadata"]["uid"], "n0", "default/g", 0, 0)
        writers.under_way.add((bind.pod, bind.uid))
        return BindWork(writers, bind, gang or GangBinds("default/g"), Steps(steps))

    return work


def test_steps_are_settled_in_order_before_the_bind(work, log, get_pod):
    binding = work(Scripted("a", log, settles=[2.0]), Scripted("b", log, settles=[LOST]))
    assert binding.send() == 2.0
    assert binding.send() > 0  # b gets no answer
    assert "nodeName" not in get_pod("p")["spec"]
    assert binding.send() is None
    assert log == ["settle a", "settle a", "settle b", "settle b"]
    assert get_pod("p")["spec"]["nodeName"] == "n0"


def test_the_binding_carries_the_marks_of_all_steps(work, log, get_pod):
    one = Scripted("a", log, marks=Marks({"card": "x"}, {"uuid": "GPU-1"}))
    other = Scripted("b", log, marks=Marks(annotations={"memory": "4096"}))
    binding = work(one, other)
    said = []
    binding.writers.client.call, call = (
        lambda *args, **more: (said.append(more.get("body")), call(*args, **more))[1],
        binding.writers.client.call,
    )
    assert binding.send() is None
    meta = said[0]["metadata"]
    assert meta["labels"] == {"card": "x"}
    assert {"uuid": "GPU-1", "memory": "4096"}.items() <= meta["annotations"].items()
    assert "kaisched.io/leader" in meta["annotations"]


def test_a_step_that_fails_is_undone_with_those_before_it(work, log, news, writers, get_pod):
    wrong = StepFailedError("taken")
    binding = work(Scripted("a", log), Scripted("b", log, settles=[wrong]), Scripted("c", log))
    assert binding.send() is None
    assert log == ["settle a", "settle b", "undo b", "undo a"]
    assert held_back(news) == ["default/p"]
    assert "nodeName" not in get_pod("p")["spec"]
    assert not writers.under_way


def test_the_pod_keeps_its_room_until_all_is_undone(work, log, news, client, writers):
    binding = work(Scripted("a", log, undoes=[LOST, 0.5]))
    assert client.call("DELETE", "/api/v1/namespaces/default/pods/p").is_done
    assert binding.send() > 0
    assert binding.send() == 0.5
    assert (held_back(news), len(writers.under_way)) == ([], 1)
    assert binding.send() is None
    assert (held_back(news), len(writers.under_way)) == (["default/p"], 0)
    assert log == ["settle a", "undo a", "undo a", "undo a"]


def test_undoing_ends_in_time_and_says_what_is_left(work, log, news, monkeypatch):
    monkeypatch.setattr(module, "UNDO_S", -1.0)
    wrong = StepFailedError("taken")
    binding = work(Scripted("a", log), Scripted("b", log, settles=[wrong], undoes=[LOST]))
    with capture_logs() as logs:
        assert binding.send() is None
    assert log[-2:] == ["undo b", "undo a"]
    assert {"event": "bind_not_undone", "pod": "default/p", "why": "no answer"}.items() <= (
        logs[-1].items()
    )
    assert held_back(news) == ["default/p"]


def test_a_bind_that_may_have_happened_is_not_undone(work, log, server, news):
    server.faults.add(Fault("drop_after", subresource="binding"))
    server.faults.add(Fault("drop_before", verb="get", plural="pods", times=None))
    binding = work(Scripted("a", log))
    assert binding.send() > 0
    binding.begun_s -= 100.0
    assert binding.send() > 0
    binding.drop("stopping")
    assert log == ["settle a"]
    assert refuted(news) == []


def test_who_does_not_lead_undoes_nothing(work, log, news):
    binding = work(Scripted("a", log, settles=[1.0]))
    assert binding.send() == 1.0
    binding.drop("we do not lead")
    assert log == ["settle a"]
    assert refuted(news) == ["default/p"]


def test_the_rest_of_a_gang_is_undone_and_decided_again_at_once(work, log, news):
    gang = GangBinds("default/g")
    binding = work(Scripted("a", log, settles=[1.0]), gang=gang)
    assert binding.send() == 1.0
    gang.give_up("another pod of it is gone")
    assert binding.send() is None
    assert log == ["settle a", "undo a"]
    assert (refuted(news), held_back(news)) == (["default/p"], [])


class _Backend:
    """A backend with a step for each bind, and one write after each cycle."""

    def __init__(self, log):
        self.log = log

    def step(self, bind, writers, store):
        self.log.append(f"step for {bind.pod}: {bind.pod in store.facts.sent}")
        return Scripted("a", self.log)

    def upkeep(self, nominations, writers, store):
        self.log.append(f"upkeep of {len(nominations)}")
        return ["cleared"]


def test_backends_are_asked_for_a_step_of_each_bind_and_for_upkeep_after_each_cycle(log):
    write_queue = FakeWriteQueue()
    cluster = KubernetesCluster(
        None, Leadership(), write_queue, ManualClock(1e9), StateStore(), backends=[_Backend(log)]
    )
    cluster.apply([Bind("default/p", "u", "n0", "default/g", 0, 0)], [], [])
    assert log == ["step for default/p: False", "upkeep of 0"]
    binding, cleared = write_queue.works
    assert cleared == "cleared"
    assert isinstance(binding, BindWork)
    cluster.apply([], [], [])
    assert log[2:] == ["upkeep of 0"]
