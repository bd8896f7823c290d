"""Events about claims in unusual orders, and objects with impossible amounts."""

import pytest

from kaisched.cluster.events import remove, upsert
from kaisched.cluster.store import StateStore
from kaisched.objects.decode import decode_object
from kaisched.objects.kinds import type_of
from tests.unit.cluster.claims.worlds import DRIVER, World, asking

_VERSIONS = {"Pod": "v1"}


def obj(kind, name, namespace="team", *, uid="", spec=None, **more):
    type_ = type_of(_VERSIONS.get(kind, "resource.k8s.io/v1"), kind)
    meta = {"name": name, "namespace": namespace, "uid": uid}
    return decode_object({"metadata": meta, "spec": spec or {}, **more}, type_)[0]


def pod(uid, claim="", template=""):
    named = [{"name": "c", "resourceClaimName": claim}] if claim else []
    named += [{"name": "t", "resourceClaimTemplateName": template}] if template else []
    containers = [{"name": "c"}]
    spec = {"schedulerName": "kaisched", "containers": containers, "resourceClaims": named}
    return obj("Pod", "p", uid=uid, spec=spec)


def store_of(*objects):
    store = StateStore()
    for it in (obj("DeviceClass", DRIVER, ""), *objects):
        upsert(store, it)
    return store


def test_the_end_of_a_pod_is_not_that_of_another_of_its_name():
    old, new = pod("1", claim="c"), pod("2", claim="c")
    store = store_of(obj("ResourceClaim", "c", uid="c", spec=asking(1)), old, new)
    remove(store, old)
    assert store.device_claims.users_of("team/c") == ["team/p"]
    remove(store, new)
    assert store.device_claims.users_of("team/c") == []


def test_a_pod_in_the_place_of_another_has_none_of_its_claims():
    store = store_of(obj("ResourceClaim", "c", uid="c", spec=asking(1)), pod("1", claim="c"))
    upsert(store, pod("2"))
    assert store.device_claims.users_of("team/c") == []
    assert store.snapshot().claims is None


@pytest.mark.parametrize("is_first", [False, True])
def test_a_template_says_that_claims_are_read_whenever_it_comes(is_first):
    template = obj("ResourceClaimTemplate", "t", spec={"spec": asking(1)})
    events = [template, pod("1", template="t")]
    store = StateStore()
    for it in events if is_first else reversed(events):
        upsert(store, it)
    found = store.pods.pod("team/p")
    assert found.fault == ""
    assert found.constraints.wait[1] == "claim t is not made from its template yet"


def test_a_claim_that_a_pod_names_twice_is_one():
    world = World(team=9)
    world.node("n1", "H100", "H100")
    world.claim("c")
    named = [{"name": it, "resourceClaimName": "c"} for it in ("first", "second")]
    spec = {"schedulerName": "kaisched", "containers": [{"name": "c"}], "resourceClaims": named}
    world.put("Pod", "a", "team", metadata={"labels": {"kai.scheduler/queue": "team"}}, spec=spec)
    world.cycle()
    assert world.devices("c") == ["n1/gpu-0"]
    world.delete("a")
    assert world.cluster.store.device_claims.users_of("team/c") == []
