"""Victims leave in order, all or none that matters; a budget's refusal is remembered."""

from dataclasses import replace

import pytest
import structlog
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.evictor import EvictionPlan, Evictor
from kaisched.framework.intents import Evict
from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.test_binder import refuted


@pytest.fixture
def protected():
    return []


class Sent:
    """A plan in the hands of one writer, which takes what is to be sent in turn."""

    def __init__(self, writers, victims, promises, protect):
        self.works = []
        self.plan = EvictionPlan(
            Evictor(writers, protect), victims, promises, lambda work, _: self.works.append(work)
        )
        self.plan.start()

    def send(self):
        """Send on; return None when all is settled, or the pause before the next try."""
        while self.works:
            work = self.works.pop(0)
            pause_s = work.send()
            if pause_s is not None:
                self.works.append(work)
            if pause_s:
                return pause_s
        return None

    def drop(self, why):
        while self.works:
            self.works.pop(0).drop(why)


@pytest.fixture
def plan(writers, protected):
    """The victims of one job."""

    def plan(*pods, writers=writers, promises=(), ignores_budget=False):
        victims = [
            Evict(
                f"default/{pod['metadata']['name']}",
                pod["metadata"]["uid"],
                "n0",
                "default/v",
                "reclaim",
                "default/b",
                "more than its share",
                0,
                0,
                ignores_budget=ignores_budget,
            )
            for pod in pods
        ]
        return Sent(writers, victims, promises, lambda *said: protected.append(said))

    return plan


def protect(client, selector):
    """Let no pod be disrupted that is selected."""
    body = {
        "metadata": {"name": "budget"},
        "spec": {"maxUnavailable": 0, "selector": selector},
    }
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    assert client.call("POST", path, body=body).is_done


@pytest.fixture
def budget(client):
    """Protect pods with the label."""
    protect(client, {"matchLabels": {"app": "safe"}})


def ready(client, make_pod, name, **spec):
    pod = make_pod(name, nodeName="n0", **spec)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    assert client.call(
        "PATCH", path, body={"status": status}, content_type="application/merge-patch+json"
    ).is_done
    return pod


def test_victims_are_asked_to_leave(plan, make_pod, get_pod):
    victims = [make_pod(name, nodeName="n0") for name in ("p", "q")]
    assert plan(*victims).send() is None
    for name in ("p", "q"):
        pod = get_pod(name)
        assert pod["metadata"]["deletionTimestamp"]
        assert "DisruptionTarget" in {it["type"] for it in pod["status"]["conditions"]}


def test_nobody_is_evicted_in_vain(plan, budget, client, make_pod, get_pod, news, protected):
    """The second of two victims is protected: the first keeps running."""
    free = ready(client, make_pod, "free")
    safe = ready(client, make_pod, "safe", labels={"app": "safe"})
    assert plan(free, safe).send() is None
    assert "deletionTimestamp" not in get_pod("free")["metadata"]
    assert sorted(refuted(news)) == ["default/free", "default/safe"]
    assert [said[0] for said in protected] == ["default/safe"]
    assert protected[0][2] >= 10.0


@pytest.mark.fault("E93")
def test_a_budget_that_selects_every_pod_protects_every_pod(
    plan, client, make_pod, get_pod, news, protected
):
    protect(client, {})
    victims = [ready(client, make_pod, name) for name in ("p", "q")]
    assert plan(*victims).send() is None
    assert not any("deletionTimestamp" in get_pod(name)["metadata"] for name in ("p", "q"))
    assert sorted(refuted(news)) == ["default/p", "default/q"]
    assert [said[0] for said in protected] == ["default/p"]


def test_deleting_does_not_ask_budgets(plan, budget, writers, client, make_pod, get_pod, protected):
    safe = ready(client, make_pod, "safe", labels={"app": "safe"})
    writers = type(writers)(
        writers.client, writers.leadership, writers.post, writers.log, is_deleting=True
    )
    assert plan(safe, writers=writers).send() is None
    pod = get_pod("safe")
    assert pod["metadata"]["deletionTimestamp"]
    reasons = {it["type"]: it.get("reason") for it in pod["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "PreemptionByScheduler"
    assert "Ready" in reasons
    assert protected == []


def sent(server):
    return [(it.verb, it.subresource) for it in server.log if it.verb != "get"]


@pytest.mark.parametrize("others", [0, 1])
def test_a_pod_that_its_budget_does_not_hold_for_is_deleted(
    plan, budget, client, make_pod, get_pod, protected, others
):
    """Of a plan of several the dry runs say so too."""
    victims = [
        ready(client, make_pod, f"safe{at}", labels={"app": "safe"}) for at in range(others + 1)
    ]
    assert plan(*victims, ignores_budget=True).send() is None
    for victim in victims:
        pod = get_pod(victim["metadata"]["name"])
        assert pod["metadata"]["deletionTimestamp"]
        assert "DisruptionTarget" in {it["type"] for it in pod["status"]["conditions"]}
    assert protected == []


def test_a_pod_whose_budget_lets_it_go_after_all_is_evicted(plan, server, client, make_pod):
    victim = ready(client, make_pod, "free")
    server.log.clear()
    assert plan(victim, ignores_budget=True).send() is None
    assert sent(server) == [("create", "eviction")]


@pytest.mark.parametrize("code", [403, 422])
def test_a_deletion_that_the_server_refuses_is_not_asked_for_again_at_once(
    plan, budget, server, client, make_pod, get_pod, protected, code
):
    victim = ready(client, make_pod, "safe", labels={"app": "safe"})
    server.faults.add(Fault("status", verb="delete", code=code, times=None))
    assert plan(victim, ignores_budget=True).send() is None
    assert "deletionTimestamp" not in get_pod("safe")["metadata"]
    assert [said[0] for said in protected] == ["default/safe"]


def test_a_former_leader_deletes_nothing(plan, budget, server, client, make_pod, get_pod):
    """The fence knows evictions: a pod is deleted only after a budget alone has refused one."""
    victim = ready(client, make_pod, "safe", labels={"app": "safe"})
    server.faults.add(Fault("status", subresource="eviction", code=403, times=None))
    assert plan(victim, ignores_budget=True).send() is None
    assert "deletionTimestamp" not in get_pod("safe")["metadata"]


def test_a_victim_that_is_gone_already_is_no_obstacle(plan, client, make_pod, get_pod):
    gone, there = make_pod("gone", nodeName="n0"), make_pod("there", nodeName="n0")
    path = "/api/v1/namespaces/default/pods/gone?gracePeriodSeconds=0"
    assert client.call("DELETE", path).is_done
    assert plan(gone, there).send() is None
    assert get_pod("there")["metadata"]["deletionTimestamp"]


def test_another_pod_of_the_name_is_not_evicted(plan, make_pod, get_pod):
    pod = make_pod("p", nodeName="n0")
    other = {"metadata": {"name": "p", "uid": "11111111-1111-1111-1111-111111111111"}}
    assert plan(other).send() is None
    assert get_pod("p")["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "deletionTimestamp" not in get_pod("p")["metadata"]


@pytest.mark.parametrize("effect", ["status", "drop_before", "drop_after"])
def test_a_passing_fault_is_waited_out(plan, server, make_pod, get_pod, protected, effect):
    server.faults.add(Fault(effect, subresource="eviction", code=503))
    work = plan(make_pod("p", nodeName="n0"))
    assert work.send() > 0
    assert work.send() is None
    assert get_pod("p")["metadata"]["deletionTimestamp"]
    assert protected == []


@pytest.mark.fault("A8")
def test_a_plan_goes_on_where_a_fault_has_stopped_it(plan, server, make_pod, get_pod):
    """Every other request fails: to three victims' dry runs and evictions five more are added."""
    victims = [make_pod(f"p{number}", nodeName="n0") for number in range(3)]
    work = plan(*victims)
    for _ in range(5):
        server.faults.add(Fault("status", subresource="eviction", code=503, skip=1))
        assert work.send() is not None
    assert work.send() is None
    assert all(get_pod(f"p{number}")["metadata"]["deletionTimestamp"] for number in range(3))
    assert sum(seen.subresource == "eviction" for seen in server.log) == 6 + 5


@pytest.mark.parametrize("effect", ["drop_after", "drop_before"])
def test_an_eviction_without_an_answer_is_told_though_its_pod_is_gone_since(
    plan, server, client, make_pod, writers, effect
):
    """Nobody knows whether it went by itself: who evicts says for whom it was asked to go."""
    with capture_logs() as log:
        writers = replace(writers, log=structlog.get_logger())
        server.faults.add(Fault(effect, subresource="eviction"))
        work = plan(make_pod("p", nodeName="n0"), writers=writers)
        assert work.send() > 0
        path = "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0"
        assert client.call("DELETE", path).is_done
        assert work.send() is None
    told = [(it["event"], it["pod"], it["beneficiary"]) for it in log]
    assert told == [("eviction_unanswered", "default/p", "default/b")]


def test_what_is_dropped_lives_on(plan, make_pod, get_pod, news):
    work = plan(make_pod("p", nodeName="n0"))
    work.drop("we do not lead")
    assert "deletionTimestamp" not in get_pod("p")["metadata"]
    assert refuted(news) == ["default/p"]


def test_the_reason_is_noted_for_people(writers, make_pod, plan):
    notes = []
    writers = type(writers)(
        writers.client, writers.leadership, writers.post, writers.log, note=notes.append
    )
    assert plan(make_pod("p", nodeName="n0"), writers=writers).send() is None
    assert [(note.reason, note.text) for note in notes] == [("Evicted", "more than its share")]


@pytest.mark.parametrize(
    ("has_tenants", "whose", "said"),
    [
        (True, "b", "reclaim: its room goes to a job of another queue"),
        (True, "a", "reclaimed for b/secret"),
        (False, "b", "reclaimed for b/secret"),
    ],
)
def test_who_reads_a_pod_is_not_told_of_jobs_of_other_queues(
    writers, client, make_pod, has_tenants, whose, said
):
    uid, told = ready(client, make_pod, "v")["metadata"]["uid"], []
    names = ("default/v", uid, "n0", "default/v", "reclaim", "b/secret", "reclaimed for b/secret")
    evict = Evict(*names, 0, 0, queue="a", beneficiary_queue=whose)
    heard = replace(writers, note=told.append)
    assert not Evictor(heard, lambda *_: None, has_tenants).evict(evict, set()).why
    assert said in repr(told)
    assert ("secret" in repr(told)) == (said == "reclaimed for b/secret")
