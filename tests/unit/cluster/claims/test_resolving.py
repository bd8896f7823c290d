"""What the claims of a pod demand, if it is worked out again and again."""

from dataclasses import replace

import pytest

from kaisched.cluster.claims.device_claims import NOTHING_KNOWN, OFF, ON
from kaisched.core.refusals import Refusal
from tests.unit.cluster.claims.test_both_kinds import NVIDIA, migrating
from tests.unit.cluster.claims.worlds import World

OTHER = (int(Refusal.VOLUME_CLAIM), "volume v does not exist")


def waiting_for(wait, *claims):
    """Return the claims of a world, and a pod that names some and waits for something else."""
    world = World(team=9)
    world.node("n1", "H100", "H100")
    world.claim("c")
    named = [{"name": it, "resourceClaimName": it} for it in claims]
    spec = {"schedulerName": "kaisched", "containers": [{"name": "c"}], "resourceClaims": named}
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    store = world.cluster.store
    row = store.pods.pod("team/a")
    return store.device_claims, replace(row, constraints=replace(row.constraints, wait=wait))


def test_a_pod_that_waits_for_something_else_goes_on_waiting_for_it():
    claims, row = waiting_for(OTHER, "c")
    assert claims.resolved(row).constraints.wait == OTHER


def test_a_claim_that_keeps_a_pod_waiting_is_told_first():
    claims, row = waiting_for(OTHER, "none")
    wait = claims.resolved(row).constraints.wait
    assert wait == (int(Refusal.DEVICE_CLAIM), "claim none does not exist")


def test_a_pod_waits_no_more_for_a_claim_that_is_there():
    claims, row = waiting_for((int(Refusal.DEVICE_CLAIM), "claim c does not exist"), "c")
    assert claims.resolved(row).constraints.wait is None


def test_a_pod_that_runs_waits_for_no_claim():
    claims, row = waiting_for(None, "none")
    assert claims.resolved(replace(row, node="n1")).constraints.wait is None


def test_claims_that_cannot_be_read_keep_waiting_pods_alone():
    claims, row = waiting_for(None, "c")
    claims.set_reading("the API server does not answer")
    wait = (int(Refusal.DEVICE_CLAIM), "the API server does not answer")
    assert claims.resolved(row).constraints.wait == wait
    assert claims.resolved(replace(row, node="n1")).constraints.wait is None


def test_devices_that_are_being_given_back_count_where_a_pod_runs():
    claims, row = waiting_for(None, "c")
    claims.leftovers.clearing.add("team/c")
    assert claims.resolved(row).constraints.wait[1].endswith("devices that are being given back")
    [use] = claims.resolved(replace(row, node="n1")).constraints.claims
    assert use.key == "team/c"


def own_claim():
    """Return the claims of a world, a pod with one from a template, its key and what it gets."""
    world = World(team=9)
    world.node("n1", "H100", "H100")
    world.template("x")
    world.pod("a", "team", "x")
    store, result = world.cluster.store, world.decide(world.cluster.snapshot())
    [bind] = result.binds
    [(key, allocation)] = bind.claims
    return store.device_claims, store.pods.pod("team/a"), key, allocation


def test_a_claim_of_its_own_is_known_by_its_key_only_while_it_has_devices_and_no_pod():
    claims, row, key, allocation = own_claim()

    def known_as(pod):
        [use] = claims.resolved(pod).constraints.claims
        return use.key

    assert known_as(row) == ""
    claims.assume(row, {key: allocation}, lambda: "share")
    assert known_as(row) == ""
    claims.sent.take_back(row.key, row.uid)
    assert known_as(row) == key, "a bind that failed may have left the devices to it"
    assert known_as(replace(row, node="n1")) == ""


def test_a_pod_hears_that_claims_are_not_read_until_they_are():
    claims, row = waiting_for(None, "c")
    claims.set_reading(OFF)
    off = claims.resolved(row)
    assert "does not set resourceClaims" in off.fault
    assert claims.resolved(replace(row, fault="another")).fault == "another"
    claims.set_reading(ON)
    assert claims.resolved(off).fault == ""
    assert claims.resolved(replace(row, fault=NOTHING_KNOWN)).fault == ""
    assert claims.resolved(replace(row, fault="another")).fault == "another"


@pytest.mark.parametrize("resource", [NVIDIA, "example.com/gpu"])
def test_pieces_of_the_bridged_resource_are_the_gpus_of_a_claim_in_queues(resource):
    world = migrating(resource, driver=4, team=8)
    world.template("own", 2)
    world.pod("a", "team", "own")
    world.cluster.snapshot()
    row = world.cluster.store.pods.pod("team/a")
    assert row.request["gpu-by-claim"] == 2000
    assert row.constraints.claimed_milli == 0


@pytest.mark.parametrize("by_plugin", [0, 1])
def test_gpus_by_claim_are_pieces_of_the_bridged_resource_once_and_while_there_is_one(by_plugin):
    world = migrating(driver=4, team=8)
    world.template("own", 2)
    limits = {"limits": {NVIDIA: by_plugin}} if by_plugin else {}
    spec = {
        "schedulerName": "kaisched",
        "containers": [{"name": "c", "resources": limits}],
        "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "own"}],
    }
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    store = world.cluster.store

    def row():
        world.cluster.snapshot()
        return store.pods.pod("team/a")

    amounts = {"gpu": 2000 + by_plugin * 1000, "gpu-by-claim": 2000}
    for _ in range(2):
        assert {name: row().request[name] for name in amounts} == amounts
        assert row().asked.get("gpu", 0) == by_plugin * 1000
        store.look_again(["team/a"])
    world.remove("Node", "n1")
    if not by_plugin:
        assert row().asked is None
        assert "gpu" not in row().request
        assert row().request["gpu-by-claim"] == 2000
