"""Shares that are claims, when templates, claims and pods come, change and go."""

from msgspec.structs import replace

from kaisched.cluster.store import update
from kaisched.objects.decode import decode_object
from kaisched.objects.devices import ResourceClaimTemplate as Template
from tests.unit.cluster.claims.test_share_claims import share, with_memory, world_of
from tests.unit.cluster.claims.test_shared_devices import shared_node


def template_of(name, amount="40Gi"):
    meta = {"name": name, "namespace": "team"}
    return decode_object({"metadata": meta, "spec": with_memory(amount)}, Template)[0]


def test_a_template_that_comes_or_goes_changes_why_its_pods_wait():
    world = world_of([80])
    share(world, "a")
    store, name = world.cluster.store, "kaisched-gpu-fraction-0.5"

    def why():
        return store.pods.pod("team/a").constraints.wait[1]

    of_claim = f"template {name} of its claim gpu-share"
    store.snapshot()
    assert why() == f"{of_claim} does not exist yet"
    update(store, template_of(name, "1Gi"))
    foreign = f'{of_claim} does not ask for what gpu-fraction: "0.5" says'
    assert why() == f"{foreign}: delete it, and it is made anew"
    update(store, template_of(name))
    assert why() == "claim gpu-share is not made from its template yet"
    assert list(store.device_claims.shares.wanted(lambda _: True)) == []
    update(store, template_of(name), is_gone=True)
    assert why() == f"{of_claim} does not exist yet"


def test_a_pod_that_asks_for_another_share_needs_the_template_of_the_first_no_more():
    world = world_of([80])
    store = world.cluster.store

    def wanted():
        return [it.name for it in store.device_claims.shares.wanted(lambda _: True)]

    for part in ("0.5", "0.25"):
        share(world, "a", part=part)
        store.snapshot()
        assert wanted() == [f"kaisched-gpu-fraction-{part}"]
    share(world, "b", part="0.25")
    world.cluster.delete(world.cluster.pod("team/a"))
    assert wanted() == ["kaisched-gpu-fraction-0.25"]
    without = world.cluster.pod("team/b")
    update(store, replace(without, metadata=replace(without.metadata, annotations={})))
    assert wanted() == []


def test_a_claim_that_is_there_needs_no_template_any_more():
    world = world_of([])
    share(world, "a", part="5")
    shared_node(world, "n1", 80)
    store = world.cluster.store
    template = template_of("kaisched-gpu-memory-5", "5Mi")
    world.cluster.load([template])
    store.snapshot()
    assert [it.name for it in world.claims()] == ["a-gpu-share"]
    world.cluster.delete(template)
    assert list(store.device_claims.shares.wanted(lambda _: True)) == []
