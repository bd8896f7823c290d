"""Claims for extended resources when classes, claims and pods come and go in unusual orders."""

import dataclasses

from msgspec.structs import replace

from kaisched.cluster.claims.generated import NOTE, GeneratedClaims, draft_key, owner_of
from kaisched.cluster.store import update
from kaisched.objects.devices import (
    DeviceClaim,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kaisched.objects.wire import ObjectMeta
from tests.unit.cluster.claims.test_both_kinds import migrating, plugin_node
from tests.unit.cluster.claims.test_extended import GPU, NVIDIA, asking_pod, backed, backing
from tests.unit.cluster.claims.worlds import DRIVER

OTHER = "example.com/tpu"


def claim(name, pod="team/p", uid="1", *, is_generated=True):
    meta = ObjectMeta(
        name=name,
        namespace="team",
        uid=name,
        annotations={NOTE: "true"} if is_generated else {},
        owner_references=[owner_of(pod, uid)],
    )
    return ResourceClaim(metadata=meta)


def test_a_class_that_backs_nothing_any_more_makes_no_claims():
    world = backed(team=4)
    world.node("n1", "H100")
    world.cluster.snapshot()
    world.put("DeviceClass", DRIVER, spec={})
    asking_pod(world, "a")
    world.cycle()
    assert world.nodes == {"a": ""}
    assert not world.cluster.store.device_claims.generated.drafts


def test_a_class_that_comes_later_backs_nothing_that_nodes_offer_by_a_plugin():
    world = backed(team=4)
    world.node("n1", "H100")
    plugin_node(world, "n2", 1, OTHER)
    world.cluster.snapshot()
    world.put("DeviceClass", "tpu", spec={"extendedResourceName": OTHER})
    asking_pod(world, "a", resource=OTHER)
    world.cycle()
    assert world.nodes == {"a": "n2"}
    assert list(world.claims()) == []


def test_a_claim_from_a_template_was_no_draft_of_its_pod():
    special = GeneratedClaims()
    assert special.drafts_of(claim("c")) == [(draft_key("team/p", "1"), "1")]
    assert special.drafts_of(claim("c", is_generated=False)) == []


def test_of_two_claims_for_extended_resources_the_end_of_one_is_not_that_of_the_other():
    world = backed(team=4)
    world.node("n1", "H100", "H100")
    asking_pod(world, "a")
    world.cycle()
    store = world.cluster.store
    [mine] = world.claims()
    pod = store.pods.pod("team/a")
    earlier = replace(mine, metadata=replace(mine.metadata, name="earlier", uid="earlier"))
    update(store, earlier)
    update(store, mine)
    store.look_again(store.device_claims.update(earlier, is_gone=True))
    assert store.pods.pod("team/a").device_claims == pod.device_claims
    assert pod.device_claims


def test_gpus_of_a_pods_own_claim_are_pieces_of_the_bridged_resource_once():
    world = migrating(team=8)
    world.template("own")
    world.put(
        "Pod",
        "a",
        "team",
        metadata={"labels": {"kai.scheduler/queue": "team"}},
        spec={
            "schedulerName": "kaisched",
            "containers": [{"name": "c", "resources": {"limits": {GPU: 1}}}],
            "resourceClaims": [{"name": "own", "resourceClaimTemplateName": "own"}],
        },
    )
    store = world.cluster.store
    world.cluster.snapshot()
    request = dict(store.pods.pod("team/a").request)
    assert request["gpu"] == 1000
    store.look_again(["team/a"])
    assert store.pods.pod("team/a").request == request


def test_a_claim_of_an_earlier_try_neither_keeps_its_pod_waiting_nor_serves_it():
    world = backed(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a")
    store = world.cluster.store
    store.snapshot()
    drafted = store.pods.pod("team/a")
    update(store, claim("earlier", "team/a", drafted.uid))
    store.snapshot()
    again = store.pods.pod("team/a")
    assert again.constraints.wait is None
    assert again.device_claims == drafted.device_claims
    world.remove("DeviceClass", DRIVER)
    store.snapshot()
    assert store.pods.pod("team/a").device_claims == ()


def test_gpus_of_a_vendor_without_a_class_stay_counted_where_the_pod_runs():
    world = backed(team=4)
    backing(world, NVIDIA)
    world.node("n1", "H100")
    container = {"name": "c", "resources": {"limits": {NVIDIA: 1, "amd.com/gpu": 1}}}
    spec = {"schedulerName": "kaisched", "nodeName": "n1", "containers": [container]}
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    store = world.cluster.store
    store.snapshot()
    row = store.pods.pod("team/a")
    assert row.request["gpu"] == 2000
    [position] = [it.position for it in row.extended if it.resource == NVIDIA]
    request = DeviceRequest(name=f"container-0-request-{position}")
    made = claim("made", row.key, row.uid)
    update(store, replace(made, spec=ResourceClaimSpec(devices=DeviceClaim(requests=[request]))))
    assert [it.name for it in store.pods.pod("team/a").device_claims] == ["made"]
    assert store.pods.pod("team/a").request["gpu"] == 2000


def test_a_claim_of_another_pod_of_the_name_is_not_given_back_for_this_one():
    world = backed(team=4)
    asking_pod(world, "a")
    pod, store = world.cluster.pod("team/a"), world.cluster.store
    update(store, claim("c", "team/a", pod.metadata.uid))
    special = store.device_claims.generated
    assert special.suspects == {"team/c": ("team/a", pod.metadata.uid)}
    update(store, replace(pod, metadata=replace(pod.metadata, uid="another")))
    assert special.pods["team/a"].uid == "another"
    assert special.left_over(lambda _: True) == []
    assert not special.suspects


def sent(*, is_bound=True):
    """A world in which the claim of a pod is on its way, with the key of the draft."""
    world = backed(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a")
    store, result = world.cluster.store, world.decide(world.cluster.snapshot())
    [bind] = result.binds
    store.device_claims.assume(store.pods.pod("team/a"), dict(bind.claims), lambda: "share")
    special = store.device_claims.generated
    if is_bound:
        special.pods["team/a"] = dataclasses.replace(special.pods["team/a"], node="n1")
    special.changed.clear()
    [key] = special.drafts
    return store.device_claims, key


def test_a_draft_stays_while_its_bind_is_under_way_or_nobody_knows_of_it():
    claims, key = sent()
    assert claims.settle_sent(lambda _: True, 1.0) == []
    assert claims.settle_sent(lambda _: False, 1.0) == []
    assert key in claims.sent
    assert key in claims.generated.drafts
    assert not claims.generated.changed


def test_a_pod_whose_bind_came_to_nothing_is_looked_at_again():
    claims, key = sent(is_bound=False)
    assert claims.settle_sent(lambda _: False, 1.0) == []
    assert key not in claims.sent
    assert claims.generated.changed == {"team/a"}
    assert claims.held == {}


def test_a_pod_whose_claim_is_there_is_looked_at_again_without_the_draft():
    claims, key = sent()
    claims.sent.get(key, claims.generated.pods["team/a"].uid).is_seen = True
    claims.settle_sent(lambda _: False, 1.0)
    assert key not in claims.generated.drafts
    assert claims.generated.changed == {"team/a"}


def test_a_draft_that_a_pod_keeps_on_a_node_with_the_plugin_stays():
    world = migrating(team=4)
    world.cluster.snapshot()
    container = {"name": "c", "resources": {"limits": {NVIDIA: 1}}}
    spec = {"schedulerName": "kaisched", "nodeName": "n1", "containers": [container]}
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    claims = world.cluster.store.device_claims
    drafts = dict(claims.generated.drafts)
    assert drafts
    claims.settle_sent(lambda _: False, 1.0)
    assert dict(claims.generated.drafts) == drafts
    assert not claims.generated.changed


def test_a_draft_of_a_pod_that_is_gone_is_forgotten_although_another_of_its_name_runs():
    claims, key = sent()
    pod = claims.generated.pods["team/a"]
    claims.forget("team/a")
    claims.generated.pods["team/a"] = dataclasses.replace(pod, uid="another")
    claims.settle_sent(lambda _: False, 1.0)
    assert key not in claims.sent
    assert key not in claims.generated.drafts
