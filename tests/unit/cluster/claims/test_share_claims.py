"""Pods whose shares of GPUs are claims: the templates that are made, and why pods wait."""

import random
from collections import Counter
from fractions import Fraction

import pytest

from kaisched.objects.decode import decode_object
from kaisched.objects.devices import ResourceClaimTemplate as Template
from tests.unit.cluster.claims.test_shared_devices import counts, fullness, shared_node
from tests.unit.cluster.claims.worlds import DRIVER, World, asking

FRACTION, MEMORY, CARDS = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"


def share(
    world,
    name,
    queue="team",
    part="0.5",
    cards=0,
    *,
    is_named=True,
    group="",
    others=(),
    scheduler="kaisched",
    labels=(),
):
    """Add a pod with a share, and with its claim as the policy of the API server writes it."""
    kind = "fraction" if "." in part else "memory"
    template = f"kaisched-gpu-{kind}-{part}" + (f"-x{cards}" if cards else "")
    notes = {f"gpu-{kind}": part} | ({CARDS: str(cards)} if cards else {})
    notes |= {"pod-group-name": group} if group else {}
    named = [{"name": "gpu-share", "resourceClaimTemplateName": template}] if is_named else []
    named += [{"name": it, "resourceClaimTemplateName": it} for it in others]
    world.put(
        "Pod",
        name,
        "team",
        metadata={"labels": {"kai.scheduler/queue": queue, **dict(labels)}, "annotations": notes},
        spec={
            "schedulerName": scheduler,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}],
            "resourceClaims": named,
        },
    )


def world_of(*nodes, **quotas):
    world = World(share_class=DRIVER, **(quotas or {"team": 9}))
    for at, sizes in enumerate(nodes):
        shared_node(world, f"n{at + 1}", *sizes)
    return world


def asked(world, claim):
    """Return how much memory a claim asks for."""
    [found] = [it for it in world.claims() if it.name == claim]
    [request] = found.spec.devices.requests
    return request.exactly.count, request.exactly.capacity.requests["memory"]


def test_two_halves_share_a_device_and_the_third_waits():
    world = world_of([80])
    for name in "abc":
        share(world, name)
    world.cycle()
    world.cycle()
    assert sorted(world.nodes.values()) == ["", "n1", "n1"]
    assert asked(world, "a-gpu-share") == (1, "40960Mi")
    assert counts(world, "a") == (500, 500)
    assert fullness(world) == {"n1/gpu-0": 1}
    [waiting] = [it for it, node in world.nodes.items() if not node]
    assert world.reason(waiting)[0] == "NoRoom"


def test_memory_and_fractions_mix_on_a_device():
    world = world_of([80])
    share(world, "a", part="0.25")
    share(world, "b", part="40960")
    share(world, "c", part="0.25")
    share(world, "d", part="1")
    world.cycle()
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 3, "": 1}
    assert fullness(world) == {"n1/gpu-0": 1}


def test_a_share_of_each_of_two_devices():
    world = world_of([80], [80, 80])
    share(world, "a", cards=2)
    world.cycle()
    assert world.devices("a-gpu-share") == ["n2/gpu-0", "n2/gpu-1"]
    assert counts(world, "a") == (1000, 1000)


def test_a_share_never_takes_a_device_that_cannot_be_shared():
    world = World(share_class=DRIVER, team=9)
    devices = [{"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}]
    world.node("n1", "H100", devices=devices)
    shared_node(world, "n2", 80)
    for name in "abc":
        share(world, name)
    world.cycle()
    assert Counter(world.nodes.values()) == {"n2": 2, "": 1}
    world.template("whole")
    world.pod("w", "team", "whole")
    world.cycle()
    assert world.nodes["w"] == "n1"


def test_a_share_with_another_claim_beside_it_has_both():
    world = world_of([80])
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "net.example.com", "nodeName": "n1", "pool": pool}
    world.put("ResourceSlice", "net", spec=spec | {"devices": [{"name": "nic"}]})
    del world.slices["net"]
    selecting = [{"cel": {"expression": 'device.driver == "net.example.com"'}}]
    world.put("DeviceClass", "net", spec={"selectors": selecting})
    request = [{"name": "nic", "exactly": {"deviceClassName": "net", "count": 1}}]
    world.put(
        "ResourceClaimTemplate", "nic", "team", spec={"spec": {"devices": {"requests": request}}}
    )
    share(world, "a", others=["nic"])
    share(world, "b", others=["nic"])
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 1, "": 1}


def test_a_gang_of_shares_starts_whole_or_not_at_all():
    world = world_of([80])
    world.put("PodGroup", "pg", "team", spec={"minMember": 3, "queue": "team"})
    for name in "abc":
        share(world, name, group="pg")
    world.cycle()
    assert set(world.nodes.values()) == {""}
    assert fullness(world) == {}
    shared_node(world, "n2", 80)
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 2, "n2": 1}


def test_shares_are_reclaimed_and_given_back():
    world = world_of([80, 80], a=1, b=1)
    for at in range(4):
        share(world, f"a{at}", "a")
    world.cycle()
    share(world, "b1", "b")
    result = world.cycle()
    assert [it.action for it in result.evictions] == ["reclaim"]
    world.cycle()
    assert world.nodes["b1"] == "n1"
    assert all(it == 1 for it in fullness(world).values())


# -- why a pod waits ------------------------------------------------------------------------------


def test_a_pod_without_the_claim_hears_how_to_get_it():
    world = world_of([80])
    share(world, "a", is_named=False)
    world.cycle()
    [[fault]] = [list(it.values()) for it in world.cluster.store.members.faults().values()]
    assert "resourceClaimTemplateName: kaisched-gpu-fraction-0.5" in fault


def test_of_devices_of_two_sizes_a_fraction_is_no_one_amount():
    world = world_of([40], [80])
    share(world, "a")
    share(world, "b", part="20480")
    world.cycle()
    assert world.nodes["a"] == ""
    assert world.nodes["b"]
    reason, message = world.reason("a")
    assert reason == "DeviceClaim"
    assert "have from 40960 to 81920 MiB" in message
    assert "ask for gpu-memory" in message
    world.cluster.delete(world.slices["n1-gpus"])
    world.cycle()
    assert world.nodes["a"] == "n2"


def test_where_no_device_can_be_shared_the_pod_says_so():
    world = World(share_class=DRIVER, team=9)
    world.node("n1", "H100")
    share(world, "a")
    share(world, "b", part="5")
    world.cycle()
    for name in "ab":
        reason, message = world.reason(name)
        assert reason == "DeviceClaim"
        assert f"no device of class {DRIVER} can be shared" in message
    shared_node(world, "n2", 80)
    world.cycle()
    assert world.nodes == {"a": "n2", "b": "n2"}


@pytest.mark.parametrize("whose", ["another scheduler's", "another pool's"])
def test_no_template_is_made_for_pods_of_others(whose):
    world = world_of([80])
    more = {"labels": {"kai.scheduler/node-pool": "x"}} if whose == "another pool's" else {}
    scheduler = "other" if whose == "another scheduler's" else "kaisched"
    share(world, "a", scheduler=scheduler, **more)
    world.cycle()
    assert list(world.claims()) == []


def with_memory(amount):
    spec = asking(1)
    exactly = spec["devices"]["requests"][0]["exactly"]
    exactly["capacity"] = {"requests": {"memory": amount}}
    exactly["selectors"] = [{"cel": {"expression": "device.allowMultipleAllocations"}}]
    return {"spec": spec}


def test_a_template_of_somebody_else_is_left_alone_and_named():
    world = world_of([80])
    name = "kaisched-gpu-fraction-0.5"
    world.put("ResourceClaimTemplate", name, "team", spec=with_memory("1Gi"))
    share(world, "a")
    world.cycle()
    reason, message = world.reason("a")
    assert (reason, world.nodes["a"]) == ("DeviceClaim", "")
    assert (
        f'template {name} of its claim gpu-share does not ask for what gpu-fraction: "0.5"'
        in message
    )
    assert "make the pod anew" in message


def test_a_claim_from_a_foreign_template_is_refused_also_when_the_template_is_gone():
    world = world_of([80])
    name = "kaisched-gpu-fraction-0.5"
    world.put("ResourceClaimTemplate", name, "team", spec=with_memory("1Gi"))
    share(world, "a")
    world.cycle()
    template, _ = decode_object({"metadata": {"name": name, "namespace": "team"}}, Template)
    world.cluster.delete(template)
    world.cycle()
    reason, message = world.reason("a")
    assert (reason, world.nodes["a"]) == ("DeviceClaim", "")
    wrong = 'claim a-gpu-share does not ask for what gpu-fraction: "0.5" says: make the pod anew'
    assert wrong in message
    share(world, "b")  # for it the template is made anew
    world.cycle()
    world.cycle()
    assert world.nodes == {"a": "", "b": "n1"}
    assert wrong in world.reason("a")[1]


def test_a_foreign_claim_gets_no_whole_device_where_none_can_be_shared():
    world = World(share_class=DRIVER, team=9)
    world.node("n1", "H100")
    world.template("kaisched-gpu-memory-5")
    share(world, "a", part="5")
    world.cycle()
    assert world.nodes["a"] == ""
    assert f"no device of class {DRIVER} can be shared" in world.reason("a")[1]
    shared_node(world, "n2", 80)
    world.cycle()
    assert world.nodes["a"] == ""
    assert 'does not ask for what gpu-memory: "5" says' in world.reason("a")[1]


def test_where_devices_differ_a_fraction_of_none_of_them_is_a_foreign_claim():
    world = world_of([80])
    for name, amount in (("0.5", "40Gi"), ("0.25", "1Gi")):
        template = f"kaisched-gpu-fraction-{name}"
        world.put("ResourceClaimTemplate", template, "team", spec=with_memory(amount))
    share(world, "a")
    share(world, "b", part="0.25")
    shared_node(world, "n2", 40)
    world.cycle()
    assert [bool(world.nodes[it]) for it in "ab"] == [True, False]
    assert 'does not ask for what gpu-fraction: "0.25" says' in world.reason("b")[1]


def test_a_template_whose_amount_is_written_in_another_unit_is_ours():
    world = world_of([80])
    world.put(
        "ResourceClaimTemplate", "kaisched-gpu-fraction-0.5", "team", spec=with_memory("40Gi")
    )
    share(world, "a")
    world.cycle()
    assert world.nodes["a"] == "n1"


def test_pods_that_run_are_not_troubled_by_a_template_that_has_changed():
    world = world_of([80])
    share(world, "a")
    world.cycle()
    world.put("ResourceClaimTemplate", "kaisched-gpu-fraction-0.5", "team", spec=with_memory("1Gi"))
    world.cycle()
    assert world.nodes["a"] == "n1"
    assert counts(world, "a") == (500, 500)


@pytest.mark.parametrize("seed", range(3))
def test_in_any_history_no_device_is_overfull(seed):
    chance = random.Random(f"share claims {seed}")
    world = world_of([80], [80, 80], [80, 80, 80], a=2, b=3)
    for step in range(12):
        for _ in range(chance.randrange(4)):
            name, part = f"p{step}{chance.randrange(1000)}", chance.choice(["0.3", "0.5", "9000"])
            share(world, name, chance.choice("ab"), part, chance.choice([0, 0, 2]))
        running = [it for it, node in world.nodes.items() if node]
        if running and chance.random() < 0.4:
            world.delete(chance.choice(running))
        world.cycle(for_s=chance.choice([0.5, 2.0]))
        assert all(it <= Fraction(1) for it in fullness(world).values())
    for name in list(world.nodes):
        world.delete(name)
    world.cluster.advance_to(world.cluster.clock.now_s() + 10)
    assert list(world.claims()) == []


def test_devices_that_differ_by_less_than_a_mebibyte_have_the_same_memory():
    world = world_of([80])
    devices = [
        {
            "name": "gpu-0",
            "allowMultipleAllocations": True,
            "capacity": {"memory": {"value": (80 << 30) + 5}},
        }
    ]
    world.node("n2", "H100", devices=devices)
    for name in "abcd":
        share(world, name)
    world.cycle()
    world.cycle()
    assert Counter(world.nodes.values()) == {"n1": 2, "n2": 2}
    assert asked(world, "a-gpu-share") == (1, "40960Mi")


def test_a_plan_says_that_a_template_is_missing_and_not_that_somebody_makes_it():
    world = world_of([80])
    share(world, "a")
    store = world.cluster.store
    settled = store.snapshot()  # as a plan takes it: nobody makes anything of it
    shape = settled.tasks.shape_of_task[
        max(at for at, it in enumerate(settled.tasks.name) if it == "team/a")
    ]
    _, why = settled.shapes.constraints[shape].wait
    assert why == "template kaisched-gpu-fraction-0.5 of its claim gpu-share does not exist yet"
