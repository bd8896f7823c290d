"""Metrics of claims by device class: what nodes have, what claims have, and who waits."""

from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from kaisched.telemetry import metrics as module
from kaisched.telemetry.metrics import CycleCollector, DeviceCounts, registry_of
from kaisched.telemetry.published import Published
from tests.unit.cluster.claims.worlds import DRIVER, World

PREFIX = "kaisched_device_class_"


@pytest.fixture
def world():
    """Two nodes: one with two H100, one with an A100; classes of all devices and of H100."""
    world = World(a=10)
    world.node("n0", "h100", "h100")
    world.node("n1", "a100")
    cel = {"expression": f'device.attributes["{DRIVER}"].model == "h100"'}
    world.put("DeviceClass", "h100", spec={"selectors": [{"cel": cel}]})
    return world


def figures(world):
    return world.cluster.store.device_claims.figures(world.cluster.snapshot())


def scraped(world, *, has_claims=True):
    """The numbers by class: devices, allocated, waiting."""
    collector = CycleCollector()
    nodes = world.cluster.snapshot().nodes
    claims = figures(world) if has_claims else None
    collector.publish(replace(Published(nodes=nodes), claims=claims))
    lines = generate_latest(registry_of(collector)).decode().splitlines()
    found = {}
    for line in lines:
        if line.startswith(PREFIX):
            series, number = line.rsplit(" ", 1)
            name, label = series.removeprefix(PREFIX).split("{")
            found.setdefault(label.removeprefix('class="').rstrip('"}'), {})[name] = float(number)
    return {
        name: tuple(it.get(key, -1) for key in ("devices", "allocated_devices", "waiting_claims"))
        for name, it in found.items()
    }


def test_devices_count_in_each_class_that_they_are_in(world):
    assert scraped(world) == {DRIVER: (3, 0, 0), "h100": (2, 0, 0), "other": (-1, -1, 0)}


def test_what_a_claim_has_is_allocated_and_what_waits_is_told(world):
    world.template("one", 2, "h100")
    world.pod("p", "a", "one")
    world.pod("q", "a", "one")
    assert scraped(world)[DRIVER] == (3, 0, 2)
    world.cycle()
    assert scraped(world) == {DRIVER: (3, 2, 1), "h100": (2, 2, 0), "other": (-1, -1, 0)}
    world.delete(next(name for name, node in world.nodes.items() if node))
    assert scraped(world)[DRIVER] == (3, 0, 1)


def test_a_claim_that_has_its_devices_does_not_wait_whoever_does(world):
    world.claim("c", 1)
    world.pod("p", "a", claim="c")
    world.cycle()
    world.pod("q", "a", claim="c")
    assert scraped(world)[DRIVER] == (3, 1, 0)


def test_a_claim_of_a_class_that_does_not_exist_is_told_as_other(world):
    exactly = {"deviceClassName": "nobody", "count": 1}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    world.put("ResourceClaim", "c", "team", spec=spec)
    world.pod("p", "a", claim="c")
    assert scraped(world)["other"] == (-1, -1, 1)


def test_a_claim_that_no_pod_waits_for_does_not_wait(world):
    world.claim("c", 1)
    assert scraped(world)[DRIVER] == (3, 0, 0)


def test_each_alternative_of_a_claim_is_one_of_its_classes(world):
    choice = [
        {"name": name, "deviceClassName": of, "count": 3}
        for name, of in (("x", DRIVER), ("y", "h100"))
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": choice}]}}
    world.put("ResourceClaim", "c", "team", spec=spec)
    world.pod("p", "a", claim="c")
    assert (scraped(world)[DRIVER][2], scraped(world)["h100"][2]) == (1, 1)


def test_devices_of_nodes_of_others_and_of_pools_being_updated_do_not_count(world):
    pool = {"name": "n9", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n9", "devices": [{"name": "gpu-0"}]}
    world.put("ResourceSlice", "n9", spec=spec | {"pool": pool})
    assert scraped(world)[DRIVER] == (3, 0, 0)
    newer = {"name": "n0", "generation": 2, "resourceSliceCount": 2}
    world.put("ResourceSlice", "n0-2", spec=spec | {"nodeName": "n0", "pool": newer})
    assert scraped(world)[DRIVER] == (1, 0, 0)


@pytest.mark.parametrize(("value", "number"), [("a", 5), ("b", 3)])
def test_devices_for_nodes_with_a_label_count_if_there_is_such_a_node(world, value, number):
    amounts = {"cpu": 64, "memory": "256Gi", "pods": 110}
    world.put("Node", "n2", metadata={"labels": {"zone": "a"}}, status={"allocatable": amounts})
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [value]}]}
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{at}"} for at in range(2)]
    selector = {"nodeSelectorTerms": [term]}
    spec = {"driver": DRIVER, "nodeSelector": selector, "devices": devices, "pool": pool}
    world.put("ResourceSlice", "net", spec=spec)
    assert scraped(world)[DRIVER] == (number, 0, 0)


def test_there_are_no_series_where_claims_are_not_allocated(world):
    assert scraped(world, has_claims=False) == {}


def test_there_are_only_so_many_classes(world, monkeypatch):
    monkeypatch.setattr(module, "CLASS_CAP", 1)
    world.template("one", 1)
    world.put(
        "ResourceClaim",
        "c",
        "team",
        spec={
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "h100", "count": 1}}]
            }
        },
    )
    world.pod("p", "a", claim="c")
    assert scraped(world) == {DRIVER: (3, 0, 0), "other": (-1, -1, 1)}


def test_a_pool_is_counted_again_only_when_it_or_a_class_changes(world, monkeypatch):
    pools = []
    count = module._pool
    monkeypatch.setattr(module, "_pool", lambda *args: pools.append(1) or count(*args))
    counts = DeviceCounts()
    for _ in range(2):
        counts.of(figures(world), world.cluster.snapshot().nodes)
    assert len(pools) == 2
    world.node("n2", "h100")
    assert counts.of(figures(world), world.cluster.snapshot().nodes)[0]["h100"] == 3
    assert len(pools) == 3
    world.put("DeviceClass", "all", spec={"selectors": []})
    assert counts.of(figures(world), world.cluster.snapshot().nodes)[0]["all"] == 4
    assert len(pools) == 6
