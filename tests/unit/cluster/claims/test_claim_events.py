"""Events about claims in unusual orders, and objects with impossible amounts."""

import msgspec
import pytest
from msgspec import structs

from kaisched.cluster.claims.generated import NOTE
from kaisched.cluster.store import StateStore, update
from kaisched.objects.decode import decode_object, decode_stored, type_of
from kaisched.objects.devices import ResourceClaim
from kaisched.objects.requests import IMPLICIT
from tests.unit.cluster.claims.test_shared_devices import counts, shared_node, template
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
        update(store, it)
    return store


@pytest.mark.parametrize("is_first", [False, True])
def test_a_template_says_that_claims_are_read_whenever_it_comes(is_first):
    template = obj("ResourceClaimTemplate", "t", spec={"spec": asking(1)})
    events = [template, pod("1", template="t")]
    store = StateStore()
    for it in events if is_first else reversed(events):
        update(store, it)
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


def stored(kind, name, namespace="team", **more):
    """Return an object that a server has, whatever its contents."""
    meta = {"name": name, "namespace": namespace, "uid": name}
    raw = msgspec.json.encode({"metadata": meta, **more})
    return decode_stored(raw, type_of("resource.k8s.io/v1", kind))[0]


def device(**more):
    memory = {"value": "80Gi", "requestPolicy": {"validRange": {"min": "1Mi", **more}}}
    return {"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": memory}}


@pytest.mark.parametrize("step", ["0", "-5"])
def test_a_device_whose_steps_are_none_gives_any_amount(step):
    world = World(team=9)
    world.node("n1")
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": [device(step=step)]}
    world.cluster.load([stored("ResourceSlice", "s", "", spec=spec)])
    template(world, "half", "40Gi")
    for name in "abc":
        world.pod(name, "team", "half")
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n1"]


@pytest.mark.parametrize("amount", ["half", "-40Gi"])
def test_a_claim_that_does_not_say_how_much_it_has_of_a_device_has_all_of_it(amount):
    world = World(team=9)
    shared_node(world, "n1", 80)
    result = {"driver": DRIVER, "pool": "n1", "device": "gpu-0", "shareID": "u"}
    result |= {"request": "gpus", "consumedCapacity": {"memory": amount}}
    status = {"allocation": {"devices": {"results": [result]}}}
    world.cluster.load([stored("ResourceClaim", "c", spec=asking(1), status=status)])
    template(world, "half", "40Gi")
    world.pod("a", "team", "half")
    world.cycle()
    assert world.nodes["a"] == ""


def test_a_running_pod_counts_its_devices_whatever_becomes_of_the_owner_of_its_claim():
    world, store = running()
    claim = next(world.claims())
    bare = structs.replace(claim, metadata=structs.replace(claim.metadata, owner_references=[]))
    update(store, bare)
    assert counts(world, "a") == (2000, 2000)


def test_a_running_pod_counts_its_other_devices_when_a_claim_of_it_is_gone():
    world, store = running()
    update(store, next(world.claims()), is_gone=True)
    assert counts(world, "a") == (1000, 1000)


def running():
    world = World(team=9)
    world.node("n1", "H100", "H100")
    world.template("x")
    world.template("y")
    world.pod("a", "team", "x", "y")
    world.cycle()
    assert counts(world, "a") == (2000, 2000)
    return world, world.cluster.store


@pytest.mark.parametrize(("uid", "is_left_over"), [("1", True), ("0", False)])
def test_a_claim_is_given_back_for_the_pod_that_owns_it_alone(uid, is_left_over):
    store = store_of(made_for(uid))
    assert store.device_claims.generated.left_over(lambda pod: not pod.node) == []
    update(store, asking_for(f"{IMPLICIT}{DRIVER}"))
    found = store.device_claims.generated.left_over(lambda pod: not pod.node)
    assert [(key, pod.uid) for key, pod in found] == [("team/p-made", "1")] * is_left_over


def test_a_common_claim_counts_for_a_job_from_which_its_first_pod_is_taken():
    """Counted with the first pod of each job that waits for it."""
    world = World(team=9)
    world.node("n1", "H100")
    world.claim("c")
    for name in ("g", "h"):
        world.put("PodGroup", name, "team", spec={"minMember": 1, "queue": "team"})
    for name in "ab":
        world.pod(name, "team", claim="c", group="g")
    assert [counts(world, name) for name in "ab"] == [(1000, 1000), (0, 0)]
    world.pod("a", "team", claim="c", group="h")
    assert [counts(world, name) for name in "ab"] == [(1000, 1000), (1000, 1000)]


@pytest.mark.parametrize("resource", ["cpu", "kubernetes.io/gpu", ""])
def test_a_class_backs_extended_resources_alone(resource):
    world = World(team=9)
    world.node("n1")
    world.node("n2", "H100")
    world.put("Node", "n2", status={"allocatable": {"memory": "9Gi", "pods": 9}})
    world.put("DeviceClass", DRIVER, spec={"extendedResourceName": resource})
    world.cluster.snapshot()
    assert world.cluster.store.device_claims.gpus.bridged == ""


def test_two_pods_never_get_one_claim_from_their_templates():
    world = World(team=9)
    world.node("n1", "H100", "H100", "H100")
    world.claim("b-c")
    world.template("b-c")
    world.template("c")
    world.pod("a", "team", "b-c")
    world.pod("a-b", "team", "c")
    world.pod("x", "team", claim="b-c")
    world.cycle()
    assert set(world.nodes.values()) == {"n1"}
    assert len({world.devices(it.name)[0] for it in world.claims()}) == 3


def made_for(uid):
    """A claim for extended resources of a pod with a UID."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    meta = {"annotations": {NOTE: "true"}, "ownerReferences": [owner]}
    meta |= {"name": "p-made", "namespace": "team", "uid": "made"}
    return decode_object({"metadata": meta, "spec": asking(1)}, ResourceClaim)[0]


def asking_for(resource):
    container = {"name": "c", "resources": {"limits": {resource: 1}}}
    return obj("Pod", "p", uid="1", spec={"schedulerName": "kaisched", "containers": [container]})


def test_a_pod_waits_no_more_for_a_claim_of_which_the_watch_tells_the_end_by_its_name():
    """Neither owner nor annotations are told then; nodes of both kinds could take the pod."""
    world = World(team=9)
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110}
    world.put("Node", "n1", status={"allocatable": {**amounts, "nvidia.com/gpu": 2}})
    world.node("n2", "H100")
    backed = {"extendedResourceName": "nvidia.com/gpu", "selectors": []}
    world.put("DeviceClass", DRIVER, spec=backed)
    store, claim = world.cluster.store, made_for("1")
    update(store, asking_for("nvidia.com/gpu"))
    update(store, claim)
    store.snapshot()
    assert "is being given back" in store.pods.pod("team/p").constraints.wait[1]
    update(store, obj("ResourceClaim", claim.name, uid="made"), is_gone=True)
    assert store.pods.pod("team/p").constraints.wait is None
    assert store.device_claims.generated.left_over(lambda pod: not pod.node) == []


def test_the_end_of_a_claim_is_not_that_of_another_of_its_name():
    new = obj("ResourceClaim", "c", uid="new", spec=asking(1))
    store = store_of(new, pod("1", claim="c"))
    update(store, obj("ResourceClaim", "c", uid="old"), is_gone=True)
    assert store.device_claims.claim("team/c") == new
    assert store.pods.pod("team/p").constraints.wait is None
    update(store, new, is_gone=True)
    assert store.pods.pod("team/p").constraints.wait[1] == "claim c does not exist"
