"""Claims for extended resources when classes, claims and pods come and go in unusual orders."""

from msgspec.structs import replace

from kaisched.cluster.claims.generated import NOTE, owner_of
from kaisched.cluster.store import update
from kaisched.objects.devices import (
    DeviceClaim,
    DeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kaisched.objects.wire import ObjectMeta
from tests.unit.cluster.claims.test_both_kinds import plugin_node
from tests.unit.cluster.claims.test_extended import NVIDIA, asking_pod, backed, backing
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
    assert not world.cluster.store.device_claims.generated.unwritten


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


def test_a_claim_of_an_earlier_try_neither_keeps_its_pod_waiting_nor_serves_it():
    world = backed(team=4)
    world.node("n1", "H100")
    asking_pod(world, "a")
    store = world.cluster.store
    store.snapshot()
    waiting = store.pods.pod("team/a")
    update(store, claim("earlier", "team/a", waiting.uid))
    store.snapshot()
    again = store.pods.pod("team/a")
    assert again.constraints.wait is None
    assert again.device_claims == waiting.device_claims
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
    generated = store.device_claims.generated
    assert generated.suspects == {"team/c": ("team/a", pod.metadata.uid)}
    update(store, replace(pod, metadata=replace(pod.metadata, uid="another")))
    assert generated.pods["team/a"].uid == "another"
    assert generated.left_over(lambda _: True) == []
    assert not generated.suspects
