"""Checks of claims on devices: what drivers offer, what classes match, what each node has free."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kaisched.cluster.claims.conversion import taken_by
from kaisched.cluster.claims.device_claims import Offered
from kaisched.cluster.kubernetes.resources import DEVICES, NODES, TAINT_RULES, list_cluster
from kaisched.core.claims.model import Device, Site
from kaisched.core.claims.selectors import DeviceClass, is_in
from kaisched.daemon.doctor.finding import Finding
from kaisched.objects.devices import DeviceClass as ClassObject
from kaisched.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from kaisched.objects.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.core.claims.model import Taken
    from kaisched.core.claims.offer import Pool
    from kaisched.daemon.doctor.finding import Visit

_CHECK: Final = "claims"
_SWITCH: Final = "set resourceClaims: true in a SchedulingShard, or leave them to another scheduler"
_MOST_NODES: Final = 5


def claims(visit: Visit) -> Iterator[Finding]:
    """Say which drivers and classes there are, and what nodes have free for claims."""
    is_served = visit.served is not None and all(map(visit.served.has, DEVICES))
    is_wanted = any(one.shard.spec.resource_claims for one in visit.shards)
    if not is_wanted:
        if is_served:
            text = "resource claims are served, and no shard allocates them: their pods wait"
            yield Finding(_CHECK, "warn", text, _SWITCH)
        return
    if not is_served:
        text = "resource.k8s.io is served neither as v1 nor as v1beta2: pods with claims wait"
        yield Finding(_CHECK, "fail", text, "use Kubernetes 1.34 or later")
        return
    rules = [TAINT_RULES] if visit.served is not None and visit.served.has(TAINT_RULES) else []
    listed = list_cluster(visit.client, [*DEVICES, *rules, NODES])
    for warning in listed.warnings:
        yield Finding(_CHECK, "warn", warning)
    offered, taken = (
        Offered(),
        taken_by(it for it in listed.objects if isinstance(it, ResourceClaim)),
    )
    for obj in listed.objects:
        if isinstance(obj, ResourceSlice | ClassObject | DeviceTaintRule):
            offered.put(obj)
    sites = [Site(it.name, it.metadata.labels) for it in listed.objects if isinstance(it, Node)]
    at = {site.name: offered.offer.pools(site) for site in sorted(sites)}
    yield from _drivers(at, taken)
    for name, of_class in sorted(offered.offer.classes.items()):
        yield _class(name, of_class, at, taken)
    if not offered.offer.classes:
        fix = "install the driver, which brings its class"
        yield Finding(_CHECK, "warn", "there is no device class: no claim can be allocated", fix)


def _drivers(at: dict[str, list[Pool]], taken: Taken) -> Iterator[Finding]:
    """Say how many devices each driver offers, and which pools cannot be used."""
    devices: dict[str, set[tuple[str, str, str]]] = {}
    nodes: Counter[str] = Counter()
    faults = {}
    for pools in at.values():
        nodes.update({it.driver for it in pools if it.devices})
        for pool in pools:
            found = {device.identity for _, device in pool.devices}
            devices.setdefault(pool.driver, set()).update(found)
            if pool.fault:
                faults[pool.fault] = pool
    for driver, found in sorted(devices.items()):
        used = sum(it in taken.devices or it in taken.consumed for it in found)
        text = f"{len(found)} devices on {nodes[driver]} nodes, {used} of them taken"
        yield Finding(f"driver {driver}", "ok", text)
    for fault, pool in sorted(faults.items()):
        fix = "none if it passes; else restart the driver on that node"
        yield Finding(f"driver {pool.driver}", "warn", f"{fault}: no device of it is given", fix)
    if not devices:
        fix = "install a driver for dynamic resource allocation"
        yield Finding(_CHECK, "warn", "no driver offers a device to any node", fix)


def _class(name: str, of_class: DeviceClass, at: dict[str, list[Pool]], taken: Taken) -> Finding:
    """Say what a class comes to: how much of it each node has, and has free."""
    check = f"class {name}"
    fault = next((it.fault for it in of_class.selectors if it.fault), "")
    if fault:
        return Finding(check, "warn", f"pods that ask for it wait: {fault}", "use another selector")
    has: dict[str, tuple[int, int]] = {}
    for node, pools in at.items():
        mine = [it for pool in pools for _, it in pool.devices if is_in(of_class, it)]
        if mine:
            has[node] = sum(_is_free(it, taken) for it in mine), len(mine)
    if not has:
        fix = "correct its selectors, or install the driver that they are about"
        return Finding(check, "warn", "no device of any node is in it", fix)
    return Finding(check, "ok", f"free are {_free(has.items())}")


def _free(has: Iterable[tuple[str, tuple[int, int]]]) -> str:
    """Say what nodes have free, those with most first."""
    ordered: Sequence[tuple[str, tuple[int, int]]] = sorted(has, key=lambda it: (-it[1][0], it[0]))
    texts = [f"{free} of {every} on {node}" for node, (free, every) in ordered[:_MOST_NODES]]
    more = len(ordered) - _MOST_NODES
    return ", ".join(texts) + (f" and no more on {more} other nodes" if more > 0 else "")


def _is_free(device: Device, taken: Taken) -> bool:
    is_taken = device.identity in taken.devices or device.identity in taken.consumed
    return not is_taken and not any(
        it.effect in ("NoSchedule", "NoExecute") for it in device.taints
    )
