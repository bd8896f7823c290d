"""Redacted claims on devices: no names are left, and the same pods get the same devices."""

import msgspec
import pytest

from kaisched.engine.policy import build_policy
from kaisched.engine.recording import record
from kaisched.engine.recording_file import encoded
from kaisched.engine.redaction import redacted
from kaisched.engine.replaying import replay, sealed
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import SchedulingShard
from tests.unit.cluster.claims.test_share_claims import share
from tests.unit.cluster.claims.worlds import World

DRIVER = "gpu.acme.com"


def chosen(model, **more):
    text = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].model == "{model}"'
    return {"deviceClassName": "acme-gpus", "selectors": [{"cel": {"expression": text}}], **more}


@pytest.fixture
def world():
    """Two nodes with devices; everything that can have a name has a name."""
    world = World(**{"acme-team": 8})
    selecting = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    world.put("DeviceClass", "acme-gpus", spec=selecting)
    for name, models in (("acme-n1", ("acme-a", "acme-b")), ("acme-n2", ("acme-b", "acme-b"))):
        devices = [
            {
                "name": f"acme-gpu-{at}",
                "attributes": {
                    "model": {"string": model},
                    "acme.io/rack": {"string": "acme-r1"},
                    "level": {"int": 3},
                },
                "capacity": {"memory": {"value": "80Gi"}},
                "taints": [{"key": "acme.io/old", "value": "acme", "effect": "NoSchedule"}],
            }
            for at, model in enumerate(models)
        ]
        world.node(name, *models, driver=DRIVER, devices=devices)
    tolerations = [{"key": "acme.io/old", "operator": "Exists"}]
    two = {"name": "acme-two", "exactly": chosen("acme-b", count=2, tolerations=tolerations)}
    either = {
        "name": "acme-any",
        "firstAvailable": [
            {"name": "acme-none", **chosen("acme-x")},
            {"name": "acme-a", **chosen("acme-a", tolerations=tolerations)},
        ],
    }
    same = [{"matchAttribute": "acme.io/rack", "requests": ["acme-two"]}]
    opaque = {"driver": DRIVER, "parameters": {"acme": "acme"}}
    config = [{"requests": ["acme-two"], "opaque": opaque}]
    claims = {"requests": [two], "constraints": same, "config": config}
    world.put("ResourceClaimTemplate", "acme-pair", "team", spec={"spec": {"devices": claims}})
    world.put("ResourceClaim", "acme-own", "team", spec={"devices": {"requests": [either]}})
    rule = {"deviceSelector": {"pool": "acme-n1", "device": "acme-gpu-1"}}
    rule["taint"] = {"key": "acme.io/broken", "effect": "NoExecute"}
    world.put("DeviceTaintRule", "acme-rule", spec=rule)
    world.pod("acme-p", "acme-team", "acme-pair")
    return world


def recorded(world, **spec):
    world.cluster.snapshot()
    shard, _ = decode_object({"metadata": {"name": "s"}, "spec": spec}, SchedulingShard)
    policy, _ = build_policy(shard)
    now_s = world.cluster.clock.now_s()
    made = record(
        "manifests", world.cluster.state(), shard, policy, schedulers=["kaisched"], now_s=now_s
    )
    return sealed(made, replay(made).result)


def test_no_name_is_left_and_the_same_is_decided(world):
    for later in (False, True):
        recording = recorded(world)
        bare, warnings = redacted(recording)
        assert warnings == []
        text = encoded(bare).decode()
        assert "acme" not in text
        assert "DeviceTaintRule" in text
        before, after = replay(recording).result, replay(bare).result
        assert len(before.binds) == len(after.binds) == 1
        for one, other in zip(before.binds, after.binds, strict=True):
            assert other.node == one.node.replace("acme-n", "node-")
            given = [[r.device.pool for r in it.results] for _, it in one.claims]
            now = [[r.device.pool for r in it.results] for _, it in other.claims]
            assert now == [[it.replace("acme-n", "node-") for it in row] for row in given]
        if not later:
            world.cycle()
            world.pod("acme-q", "acme-team", claim="acme-own")


def test_redacting_twice_gives_the_same_bytes(world):
    once = redacted(recorded(world)).recording
    assert encoded(redacted(once).recording) == encoded(once)


def test_settings_of_drivers_are_left_out(world):
    objects = [msgspec.json.decode(it) for it in redacted(recorded(world)).recording.objects]
    (template,) = [it for it in objects if it["kind"] == "ResourceClaimTemplate"]
    assert "config" not in template["spec"]["spec"]["devices"]


def test_a_share_that_is_a_claim_stays_one():
    """The name of its template says what it asks for, and no more."""
    world = World(share_class="acme-gpu", **{"acme-team": 8})
    selecting = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    world.put("DeviceClass", "acme-gpu", spec=selecting)
    memory = {"memory": {"value": "80Gi"}}
    devices = [{"name": "acme-d", "allowMultipleAllocations": True, "capacity": memory}]
    world.node("acme-n1", "acme", driver=DRIVER, devices=devices)
    for name in ("acme-a", "acme-b", "acme-c"):
        share(world, name, "acme-team")
    sharing = {"gpuSharing": {"deviceClass": "acme-gpu"}, "resourceClaims": True}
    recording = recorded(world, **sharing)
    bare, warnings = redacted(recording)
    assert warnings == []
    assert "acme" not in encoded(bare).decode()
    before, after = replay(recording).result, replay(bare).result
    assert len(before.binds) == len(after.binds) == 2
    assert encoded(redacted(bare).recording) == encoded(bare)
