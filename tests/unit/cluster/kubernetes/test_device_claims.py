"""Claims on devices: written before the bind, in the order kubelets rely on, and given back."""

from collections import Counter
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes import device_claims as module
from kaisched.cluster.kubernetes.device_claims import FINALIZER
from kaisched.cluster.kubernetes.resources import DEVICES, PODS
from kaisched_apiserver import Fault
from kaisched_apiserver.access import Rule
from tests.unit.cluster.kubernetes.live_claims import CLAIMS, LiveWorld, Shard

PLURAL = "resourceclaims"
WRITES = (
    {"verb": "patch", "plural": PLURAL},
    {"verb": "update", "plural": PLURAL, "subresource": "status"},
    {"verb": "create", "plural": "pods", "subresource": "binding"},
)
"""The writes of a bind with a claim, in their order."""


@pytest.fixture
def world(client):
    """A node with two devices and a claim on one."""
    world = LiveWorld(client)
    world.node("n1", 2)
    world.claim("c")
    return world


@pytest.fixture
def shard(client, world):
    return Shard(client)


def writes_in(server):
    return [
        (it.verb, it.plural, it.subresource)
        for it in server.log
        if (it.verb in {"patch", "update"} and it.plural == PLURAL) or it.subresource == "binding"
    ]


def test_finalizer_then_allocation_and_reservation_then_the_bind(world, shard, server):
    pod = world.pod("p", "c")
    server.log.clear()
    assert shard.cycle() == {"p": "n1"}
    assert writes_in(server) == [
        ("patch", PLURAL, ""),
        ("update", PLURAL, "status"),
        ("create", "pods", "binding"),
    ]
    claim = world.get_claim("c")
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["metadata"]["annotations"]["kaisched.io/leader"] == "us"
    assert world.devices("c") == ["n1/gpu-0"]
    user = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    assert claim["status"]["reservedFor"] == [user]
    assert claim["status"]["allocation"]["nodeSelector"] == {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
        ]
    }
    assert world.node_of("p") == "n1"


def test_a_pod_waits_until_its_claim_is_made_from_the_template(world, shard):
    world.template("one")
    world.pod("p", template="one")
    assert shard.cycle() == {}
    assert "claim own is not made from its template yet" in shard.reason("p")
    world.parts.look()
    assert shard.cycle() == {"p": "n1"}


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("write", WRITES, ids=["finalizer", "allocation", "bind"])
def test_a_lost_answer_of_any_write_allocates_once_and_binds(world, shard, server, write, effect):
    world.pod("p", "c")
    server.faults.add(Fault(effect, **write))
    shard.cycle()
    assert (world.node_of("p"), world.devices("c"), world.users("c")) == ("n1", ["n1/gpu-0"], ["p"])


@pytest.mark.parametrize("write", WRITES, ids=["finalizer", "allocation", "bind"])
@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
def test_whoever_leads_after_a_crash_at_any_write_goes_on(
    world, shard, server, client, write, effect
):
    """The first process dies with its request: the next knows the objects only."""
    world.pod("p", "c")
    world.claim("d", 2)
    server.faults.add(Fault(effect, **write))
    shard.handle()
    shard.decide()
    shard.send(most=1)
    after = Shard(client, "them", 2)
    world.pod("q", "d")  # wants both devices, and waits
    for _ in range(3):
        after.cycle()
    assert (world.node_of("p"), world.devices("c"), world.users("c")) == ("n1", ["n1/gpu-0"], ["p"])
    assert (world.node_of("q"), world.devices("d")) == ("", [])


def test_devices_are_taken_from_the_decision_on(world, shard):
    """Neither the claim nor the pod shows anything of it yet."""
    for name in ("d", "e"):
        world.claim(name)
    for name in ("c", "d", "e"):
        world.pod(f"p-{name}", name)
    shard.handle()
    assert sorted(shard.decide()) == ["p-c", "p-d"]
    assert shard.decide() == {}
    shard.send()
    shard.handle(PODS)  # the watch of the claims lags behind
    assert shard.decide() == {}
    shard.cycle()
    given = Counter(it for name in ("c", "d", "e") for it in world.devices(name))
    assert given == {"n1/gpu-0": 1, "n1/gpu-1": 1}
    assert world.node_of("p-e") == ""


def test_a_claim_that_another_has_allocated_meanwhile_is_left_to_it(world, shard):
    world.node("n2", 3)
    world.pod("p", "c")
    shard.handle()
    assert shard.decide() == {"p": "n1"}
    world.allocate("c", "n2", "gpu-0")
    shard.send()
    assert (world.node_of("p"), world.devices("c")) == ("", ["n2/gpu-0"])
    assert shard.cycle() == {}  # held back
    assert shard.cycle() == {"p": "n2"}
    assert (world.node_of("p"), world.users("c")) == ("n2", ["p"])


def test_devices_of_other_schedulers_are_taken(world, shard):
    world.claim("theirs")
    world.allocate("theirs", "n1", "gpu-0")
    world.pod("p", "c")
    shard.cycle()
    assert world.devices("c") == ["n1/gpu-1"]


def test_a_claim_that_changes_between_the_writes_is_read_again(world, shard, server):
    world.pod("p", "c")
    server.faults.add(Fault("status", verb="update", plural=PLURAL, code=409))
    shard.cycle()
    assert (world.node_of("p"), world.devices("c")) == ("n1", ["n1/gpu-0"])


def test_a_pod_that_is_gone_gives_its_devices_back(world, shard, client):
    world.pod("p", "c")
    shard.handle()
    shard.decide()
    (work,) = shard.write_queue.works
    work.steps.settle(lambda: None)
    assert world.devices("c") == ["n1/gpu-0"]
    world.delete_pod("p")
    shard.send()
    claim = world.get_claim("c")
    assert (world.devices("c"), world.users("c")) == ([], [])
    assert not claim["metadata"].get("finalizers")
    world.pod("q", "c")
    assert shard.cycle() == {"q": "n1"}


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("verb", ["update", "patch"])
def test_giving_back_survives_a_lost_answer(world, shard, server, verb, effect):
    world.pod("p", "c")
    shard.handle()
    shard.decide()
    (work,) = shard.write_queue.works
    work.steps.settle(lambda: None)
    world.delete_pod("p")
    server.faults.add(Fault(effect, verb=verb, plural=PLURAL))
    shard.send()
    assert (world.devices("c"), world.get_claim("c")["metadata"].get("finalizers", [])) == ([], [])


def test_pods_that_share_a_claim_are_bound_with_one_allocation(world, shard):
    for name in ("p", "q", "r"):
        world.pod(name, "c")
    while shard.cycle():
        pass
    assert world.devices("c") == ["n1/gpu-0"]
    assert sorted(world.users("c")) == ["p", "q", "r"]
    world.delete_pod("p")
    world.parts.look()
    assert sorted(world.users("c")) == ["q", "r"]
    assert world.devices("c") == ["n1/gpu-0"]


def test_who_shares_a_claim_keeps_it_when_another_bind_fails(world, shard):
    world.pod("p", "c")
    shard.cycle()
    world.pod("q", "c")
    shard.handle()
    assert shard.decide() == {"q": "n1"}
    (work,) = shard.write_queue.works
    work.steps.settle(lambda: None)
    assert sorted(world.users("c")) == ["p", "q"]
    world.delete_pod("q")
    shard.send()
    assert (world.devices("c"), world.users("c")) == (["n1/gpu-0"], ["p"])


def test_settings_and_reports_of_drivers_stay_as_they_are(client):
    world = LiveWorld(client)
    world.node("n1", 1)
    parameters = {"sharing": {"strategy": "TimeSlicing"}, "unknown": [1, {"a": None}]}
    opaque = {"driver": "gpu.example.com", "parameters": parameters}
    world.claim("c", config=[{"requests": ["gpu"], "opaque": opaque}])
    shard = Shard(client)
    world.pod("p", "c")
    shard.cycle()
    raw = world.get_claim("c")
    (config,) = raw["status"]["allocation"]["devices"]["config"]
    assert config == {"source": "FromClaim", "requests": ["gpu"], "opaque": opaque}
    reported = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "data": {"ip": "1"}}
    raw["status"]["devices"] = [reported]
    world.must("PUT", f"{CLAIMS}/c/status", raw)
    world.pod("q", "c")
    assert shard.cycle() == {"q": "n1"}
    raw = world.get_claim("c")
    assert raw["status"]["devices"] == [reported]
    assert raw["status"]["allocation"]["devices"]["config"] == [config]


def test_devices_that_only_a_waiting_pod_has_are_given_back(world, client):
    """A former leader has left them so, and the node has no room any more."""
    world.node("n2", 1)
    pod = world.pod("p", "c")
    world.allocate("c", "n1", "gpu-0", pod)
    world.cordon("n1")
    shard = Shard(client)
    assert shard.cycle() == {}
    assert world.devices("c") == []
    assert shard.cycle() == {"p": "n2"}
    assert (world.devices("c"), world.users("c")) == (["n2/gpu-0"], ["p"])


def test_while_devices_are_given_back_their_pods_wait(world, client):
    world.node("n2", 3)
    pod = world.pod("p", "c")
    world.allocate("c", "n1", "gpu-0", pod)
    world.cordon("n1")
    shard = Shard(client)
    shard.handle()
    assert shard.decide() == {}
    world.cordon("n1", is_cordoned=False)
    shard.handle()
    assert shard.decide() == {}
    assert "claim c is on devices that are being given back" in shard.reason("p")
    shard.send()
    assert shard.cycle() == {"p": "n1"}


def test_what_became_of_an_allocation_that_nobody_answers_for_is_read(world, shard, server):
    """Neither bound nor undone: its devices stay taken until the claim was read."""
    world.claim("d", 2)
    world.pod("p", "c")
    shard.handle()
    shard.decide()
    (work,) = shard.write_queue.works
    work.drop("we do not lead")
    shard.write_queue.works.clear()
    world.pod("q", "d")
    world.delete_pod("p")
    shard.handle()
    assert shard.decide() == {}  # both devices are wanted, and one is in doubt
    shard.send()
    assert shard.cycle() == {"q": "n1"}
    assert sorted(world.devices("d")) == ["n1/gpu-0", "n1/gpu-1"]


@pytest.mark.parametrize(
    ("condition", "patience_s", "node"),
    [("attached", 600.0, "n1"), ("broken", 600.0, ""), ("other", -1.0, "")],
    ids=["ready", "failed", "never"],
)
def test_devices_that_have_to_get_ready_are_waited_for(
    client, monkeypatch, condition, patience_s, node
):
    world = LiveWorld(client)
    device = {
        "name": "fabric-0",
        "bindsToNode": True,
        "bindingConditions": ["attached"],
        "bindingFailureConditions": ["broken"],
    }
    world.node("n1", 1, listed=[device])
    world.claim("c")
    shard = Shard(client)
    world.pod("p", "c")
    shard.handle()
    shard.decide()
    (work,) = shard.write_queue.works
    monkeypatch.setattr(module, "READY_S", patience_s)
    if patience_s > 0:
        assert work.send() == module.POLL_S
        assert (world.node_of("p"), world.devices("c")) == ("", ["n1/fabric-0"])
        _report(world, "c", condition)
    assert work.send() is None
    assert world.node_of("p") == node
    assert world.devices("c") == (["n1/fabric-0"] if node else [])


def _report(world, claim, condition):
    raw = world.get_claim(claim)
    (result,) = raw["status"]["allocation"]["devices"]["results"]
    of = {key: result[key] for key in ("driver", "pool", "device")}
    said = {"type": condition, "status": "True", "reason": "x", "message": ""}
    raw["status"]["devices"] = [{**of, "conditions": [said]}]
    world.must("PUT", f"{CLAIMS}/{claim}/status", raw)


def test_a_missing_right_is_named(world, shard, server):
    world.pod("p", "c")
    shard.handle()
    shard.decide()
    (work,) = shard.write_queue.works
    server.api.access.tokens[""] = "we"
    server.api.access.rules["we"] = [Rule(("get", "list", "patch", "create"), ("*",), ("*",))]
    with capture_logs() as logs:
        assert work.send() > 0
    (told,) = [it["needs"] for it in logs if it["event"] == "claim_forbidden"]
    assert told == (
        "update on resourceclaims/status of resource.k8s.io, and update on resourceclaims/binding"
        " from Kubernetes 1.36"
    )


@pytest.mark.parametrize("kind", DEVICES, ids=lambda it: it.plural)
def test_kinds_are_read_in_the_version_before_too(kind):
    assert [it.api_version for it in kind.others] == ["resource.k8s.io/v1beta2"]


@pytest.mark.parametrize("is_written", [False, True])
def test_who_is_decided_again_while_an_allocation_is_in_doubt_goes_where_its_devices_are(
    world, shard, is_written
):
    """The writers were shut for a moment: the claim may have its devices, and shows nothing yet."""
    world.node("n2", 3)
    world.claim("d")
    world.allocate("d", "n1", "gpu-1")
    world.pod("p", "c")
    world.template("one")
    world.pod("q", template="one")
    world.parts.look()
    shard.handle()
    assert shard.decide() == {"p": "n1", "q": "n2"}
    for work in shard.write_queue.works:
        if is_written:
            work.steps.settle(lambda: None)
        work.drop("we do not lead")
    shard.write_queue.works.clear()
    again = shard.decide()
    shard.send()
    assert again == {"p": "n1", "q": "n2"}
    assert (world.node_of("p"), world.devices("c")) == ("n1", ["n1/gpu-0"])
    assert world.node_of("q") == "n2"


def test_a_pod_is_not_bound_away_from_the_devices_of_its_claim(world, shard):
    """Whatever was decided: the claim says where it can be used."""
    world.node("n2", 1)
    world.pod("p", "c")
    world.allocate("c", "n1", "gpu-0")
    shard.handle()
    assert shard.decide() == {"p": "n1"}
    (work,) = shard.write_queue.works
    work.bind = work.steps._steps[0].bind = replace(work.bind, node="n2")
    shard.send()
    assert (world.node_of("p"), world.devices("c")) == ("", ["n1/gpu-0"])
