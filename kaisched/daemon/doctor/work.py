"""Checks of what work asks for: queues, topologies, shares of GPUs, and claims on devices."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.cluster.claims.conversion import taken_by
from kaisched.cluster.claims.gpus import OfferedDevices
from kaisched.cluster.kubernetes.resources import (
    DEVICES,
    NODES,
    PODS,
    QUEUES,
    TAINT_RULES,
    TOPOLOGIES,
    list_cluster,
)
from kaisched.cluster.kubernetes.statuses import OVER_SUBSCRIBED, TRUE
from kaisched.cluster.pools.projects import different_lists, lacking_queues
from kaisched.core.claims.model import Device, Site
from kaisched.core.claims.selectors import DeviceClass, is_in
from kaisched.core.constraints import domain_paths, domains_at
from kaisched.daemon.doctor import Finding, counted, listed, named, of_binding
from kaisched.engine.planning import fill, open_cluster
from kaisched.engine.policy import build_policy
from kaisched.errors import KaischedError
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.reach import reaches
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.devices import DeviceClass as ClassObject
from kaisched.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from kaisched.objects.gpus import (
    MEMORY,
    Card,
    Stage,
    can_share,
    card_mib_of,
    groups_of,
    reservation_of,
)
from kaisched.objects.labels import (
    DEFAULT_QUEUE,
    GPU_CONFIG_MAP,
    GPU_GROUP,
    GPU_GROUPS,
    KAI_SCHEDULER,
    NODE_POOL,
    QUEUE_PROJECT,
    RESERVATION,
    is_reservation,
    node_pool_of,
)
from kaisched.objects.load import Loaded, check_queues
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.queue import Queue
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from kaisched.core.claims.model import Taken
    from kaisched.core.claims.offer import Pool
    from kaisched.core.tables import TopologyLevel
    from kaisched.daemon.doctor import Visit
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.report.reach import Reach
    from kaisched.framework.report.result import Records
    from kaisched.framework.session.session import Session
    from kaisched.objects.shard import SchedulingShard

_IN_KAI: Final = {
    "limit": ("no limit here, and nothing may run in KAI-Scheduler", "limit: -1"),
    "overQuotaWeight": ("a weight of 1 here, and no surplus in KAI-Scheduler", "overQuotaWeight"),
}


def queues(visit: Visit) -> Iterator[Finding]:
    """Check every queue alone, against the others, and against how KAI-Scheduler reads it."""
    # As written, since decoding fills in omitted fields.
    raw: list[dict[str, Any]] = list(listed(visit, QUEUES.path, "queues", dict))
    read: list[Queue] = []
    bad: list[str] = []
    for obj in raw:
        try:
            queue, _ = decode_object(obj, Queue)
        except BadObject as wrong:
            bad.append(str(wrong.errors[0]))
        else:
            read.append(queue)
    valid, problems = check_queues(read)
    bad += map(str, problems)
    for text in sorted(bad)[:_MOST]:
        yield Finding("queues", "fail", text, "until then its jobs wait")
    if len(bad) > _MOST:
        yield Finding("queues", "fail", f"{len(bad) - _MOST} more have faults")
    yield from _in_pools(visit, valid)
    yield from _meanings(raw)
    yield from _over_subscribed(raw)
    if not bad and valid:
        yield Finding("queues", "ok", f"{len(valid)} queues make a forest")


_MOST: Final = 10


def _in_pools(visit: Visit, valid: list[Queue]) -> Iterator[Finding]:
    if not valid and visit.settings.kubernetes.kueue:
        return  # they are Kueue's
    if not valid:
        fix = "make one, such as those of deploy/kustomize/components"
        yield Finding("queues", "fail", "there are no queues: every job waits", fix)
        return
    pools = {one.shard.spec.partition_label_value for one in visit.shards}
    strays = [queue.name for queue in valid if node_pool_of(queue.metadata) not in pools]
    if strays:
        text = f"in no shard's pool, so without a share: {named(strays)}"
        yield Finding("queues", "warn", text, f"set their label {NODE_POOL}, or drop it")
    yield from _lists(visit, valid)
    if DEFAULT_QUEUE not in {queue.name for queue in valid}:
        text = f"no queue {DEFAULT_QUEUE}: pods without the label of a queue are refused"
        yield Finding("queues", "warn", text, "make it, or label every pod")
    yield from _for_anybody(valid)


def _for_anybody(valid: list[Queue]) -> Iterator[Finding]:
    """Name the queues that deserve something for work that names no queue."""
    by_name = {queue.name: queue for queue in valid}
    children = Counter(queue.spec.parent_queue for queue in valid)
    queue = by_name.get(DEFAULT_QUEUE)
    while queue is not None:
        deserved = [name for name, it in sorted(queue.spec.resources.items()) if it.quota]
        if deserved:
            text = (
                f"{queue.name} deserves {' and '.join(deserved)}, which pods without the label of a"
                " queue may then hold against the quotas of others"
            )
            yield Finding("queues", "warn", text, "set its quotas to 0, as KAI-Scheduler ships it")
        above = queue.spec.parent_queue or ""
        queue = by_name.get(above) if children[above] == 1 else None


def _lists(visit: Visit, valid: list[Queue]) -> Iterator[Finding]:
    """Name projects whose lists of node pools contradict their queues."""
    for it in different_lists(valid):
        yield Finding("queues", "warn", it.text, it.fix)
    specs = [one.shard.spec for one in visit.shards]
    served = {it.partition_label_value: it.admits_all_projects for it in specs}
    lacking = lacking_queues(valid, served)
    if lacking:
        pairs = [f"{project} in {pool}" for project, pool in lacking]
        text = f"no queue in a node pool of their list, which is passed over: {named(pairs)}"
        fix = f"make one with the label {QUEUE_PROJECT}, or set admitsAllProjects in the shard"
        yield Finding("queues", "warn", text, fix)


def _meanings(raw: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    """Name the queues that omit a field whose absence KAI-Scheduler reads differently."""
    for key, (meaning, fix) in _IN_KAI.items():
        names = [
            str(obj.get("metadata", {}).get("name", ""))
            for obj in raw
            for resources in [(obj.get("spec") or {}).get("resources") or {}]
            if isinstance(resources, dict)
            and any(isinstance(it, dict) and it.get(key) is None for it in resources.values())
        ]
        if names:
            text = f"{key} is left out, which is {meaning}: {named(names)}"
            yield Finding("queues", "warn", text, f"write {fix} out")


def _over_subscribed(raw: Iterable[dict[str, Any]]) -> Iterator[Finding]:
    """Name the queues that promise more than their quota, as the daemon wrote into their status."""
    told = [
        f"{name}: {it.get('message', '')}"
        for obj in raw
        for name in [str(obj.get("metadata", {}).get("name", ""))]
        for it in _conditions(obj)
        if it.get("type") == OVER_SUBSCRIBED and it.get("status") == TRUE
    ]
    for text in sorted(told)[:_MOST]:
        fix = "nothing is stopped; raise its quota, or lower those of the queues below"
        yield Finding("queues", "warn", text, fix)
    if len(told) > _MOST:
        yield Finding("queues", "warn", f"{len(told) - _MOST} more promise more than their quota")


def _conditions(obj: dict[str, Any]) -> list[dict[str, Any]]:
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    return [it for it in found or () if isinstance(it, dict)]


_MOST_GANGS: Final = 10
"""Sizes of gangs that are told for each shard."""
_MOST_DOMAINS: Final = 3
_LABEL: Final = "label its nodes, or drop the level from the Topology"
_WAIT: Final = "wait, ask for fewer pods, or require a wider level"


def topologies(visit: Visit) -> Iterator[Finding]:
    """Say what is free in the domains of each topology, and which gangs that wait fit in one.

    Nothing without any topology: the pods of a large cluster are not read for that.
    """
    if visit.served is None or not visit.served.has(TOPOLOGIES):
        return
    if not list_cluster(visit.client, [TOPOLOGIES]).objects:
        return
    listed = Loaded(objects=list(list_cluster(visit.client, visit.kinds).objects))
    for one in visit.shards:
        where = f" in shard {one.shard.name}" if len(visit.shards) > 1 else ""
        records = _next_cycle(visit, one, listed)
        if records is None:
            continue  # its policy cannot be used, which the check of shards says
        session: Session = records.session
        for name, levels in sorted(session.nodes.topologies.items()):
            yield from _free_in(f"topology {name}", where, levels, session)
        found = list(reaches(session, records.rows))
        for reach in found[:_MOST_GANGS]:
            yield _gang(reach, where)
        if len(found) > _MOST_GANGS:
            text = f"{len(found) - _MOST_GANGS} more sizes of gangs wait{where}"
            yield Finding("topologies", "ok", text)


def _next_cycle(visit: Visit, one: FoundShard, listed: Loaded) -> Records | None:
    """Return what still waits after the next cycle of a shard, run on a copy in this process."""
    try:
        policy, _ = build_policy(one.shard, one.file)
    except KaischedError:
        return None
    names = visit.settings.scheduler_names
    cluster = open_cluster(one.shard, policy, visit.clock, names)
    fill(cluster, listed)
    result, _ = run_cycle(cluster.snapshot(), None, policy, visit.clock.now_s(), Memory())
    return result.records


def _free_in(
    check: str, where: str, levels: Sequence[TopologyLevel], session: Session
) -> Iterator[Finding]:
    """Say how much of the idle GPUs the domains of each level have, and which nodes have none."""
    nodes = session.nodes
    if not len(nodes):
        return
    missing = [each.label for each in levels if not any(each.label in it for it in nodes.labels)]
    if missing:
        text = f"no node{where} has the label {missing[0]}: jobs that require a level wait"
        yield Finding(check, "warn", text, _LABEL)
        return
    paths = domain_paths(levels, nodes.labels)
    outside = [name for name, path in zip(nodes.name, paths, strict=True) if path is None]
    if outside:
        text = f"{len(outside)} of {len(nodes)} nodes{where} lack a label of it: {named(outside)}"
        yield Finding(check, "warn", text, "label them; they are not used for a required level")
    idle = np.maximum(session.axis.whole_gpus(session.capacity.idle), 0)
    idle *= nodes.statics.is_ready & ~nodes.statics.is_unschedulable
    for at in range(len(levels)):
        domains = domains_at(levels, at, nodes.labels)
        free = domains.sums(idle)
        if not free.size:
            return
        best = int(np.argmax(free))
        text = f"{counted(len(free), 'domain')} of {domains.word}{where}: "
        if free[best]:
            most, total = (format_amount("gpu", int(it)) for it in (free[best], free.sum()))
            text += f"{total} GPUs are free, {most} of them in {domains.names[best]}"
        else:
            text += "no GPU is free"
        yield Finding(check, "ok", text)


def _gang(reach: Reach, where: str) -> Finding:
    """Say how many gangs of one size fit, and where; or which domain is nearest."""
    check = f"topology {reach.topology}"
    more = len(reach.jobs) - 1
    whose = reach.jobs[0] + (f" and {more} more" if more else "")
    size = f"{counted(reach.pods, 'pod')} ({reach.asks} each)"
    gang = f"gangs of {size} in one {reach.level}{where}, as {whose}"
    if not reach.best:
        near = "no node has its labels"
        if reach.nearest:
            near = f"best is {reach.nearest}, short by {counted(reach.short, 'pod')}"
        though = f", though in all there is room for {reach.in_all}" if reach.in_all else ""
        return Finding(check, "warn", f"{gang}: none fits{though}; {near}", _WAIT)
    told = ", ".join(f"{count} in {name}" for name, count in reach.best[:_MOST_DOMAINS])
    left = len(reach.best) - _MOST_DOMAINS
    told += f" and others in {left} more" if left > 0 else ""
    return Finding(check, "ok", f"{gang}: {reach.fits} of {reach.in_all} fit, {told}")


_SHARING: Final = "gpu sharing"
_ENDED: Final = ("Succeeded", "Failed")


def gpu_sharing(visit: Visit) -> Iterator[Finding]:
    """Say what keeps pods from sharing GPUs; nothing where no shard lets them."""
    sharing = [one.shard for one in visit.shards if one.shard.has_reservations]
    if not sharing:
        return
    listed = list_cluster(visit.client, [NODES, PODS]).objects
    found: list[Finding] = []
    for shard in sharing:
        nodes = [
            it
            for it in listed
            if isinstance(it, Node)
            and node_pool_of(it.metadata) == shard.spec.partition_label_value
        ]
        found += _of_nodes(shard.name, nodes, shard.spec.gpu_resources)
    every = [it for it in listed if isinstance(it, Pod)]
    pods = [it for it in every if it.spec.node_name]
    resources = {name for shard in sharing for name in shard.spec.gpu_resources}
    schedulers = {*visit.settings.scheduler_names, KAI_SCHEDULER}
    found += [*_of_pods(pods, schedulers, sorted(resources)), *_of_lookups(visit, sharing, every)]
    yield from found
    if not found:
        number = sum(is_reservation(pod.metadata) for pod in pods)
        yield Finding(_SHARING, "ok", f"{number} GPUs are shared, each held by a reservation pod")


def _of_nodes(shard: str, nodes: Sequence[Node], resources: Sequence[str]) -> Iterator[Finding]:
    """Name the nodes whose GPUs cannot be shared, or not by memory."""
    with_gpus = [node for node in nodes if _offers(node, resources)]
    ours = [node for node in with_gpus if _offers(node, resources[:1])]
    if not ours:
        text = f"no node of shard {shard} offers {resources[0]}, which reservation pods ask for"
        fix = "list what the device plugin offers first in spec.gpuResources; GPUs that only claims"
        yield Finding(_SHARING, "warn", text, f"{fix} can have are not shared")
    others = [node.name for node in with_gpus if node not in ours]
    if ours and others:
        text = f"{len(others)} nodes offer other GPUs than {resources[0]}: {named(others)}"
        yield Finding(_SHARING, "warn", text, "no share can start there; use a shard of their own")
    closed = [node.name for node in ours if not can_share(node, resources)]
    if closed:
        text = f"GPUs of {len(closed)} nodes are slices, which are not shared: {named(closed)}"
        yield Finding(_SHARING, "warn", text, "switch time slicing or MIG off there, or ignore it")
    unknown = [node.name for node in ours if node.name not in closed and not card_mib_of(node)]
    if unknown:
        text = f"{len(unknown)} nodes do not say how much memory a GPU has: {named(unknown)}"
        fix = "run NVIDIA's GPU feature discovery, or set their label nvidia.com/gpu.memory in MiB"
        yield Finding(_SHARING, "warn", text, fix)


def _of_lookups(
    visit: Visit, shards: Sequence[SchedulingShard], pods: Sequence[Pod]
) -> Iterator[Finding]:
    """Name the pods that never start: they look up their GPU in a ConfigMap that is not written."""
    silent = {
        one.spec.partition_label_value
        for one in shards
        if one.spec.gpu_sharing is not None and not one.spec.gpu_sharing.config_maps
    }
    waiting = [
        pod.key
        for pod in pods
        if GPU_CONFIG_MAP in pod.metadata.annotations
        and not pod.spec.node_name
        and pod.spec.scheduler_name in visit.settings.scheduler_names
        and node_pool_of(pod.metadata) in silent
    ]
    if waiting:
        text = f"{len(waiting)} pods wait that look up their GPU in a ConfigMap: {named(waiting)}"
        fix = "set spec.gpuSharing.configMaps: true, or make them anew without KAI's webhook"
        yield Finding(_SHARING, "warn", text, fix)


def _offers(node: Node, resources: Sequence[str]) -> bool:
    amounts = node.status.allocatable or node.status.capacity
    return any(str(amounts.get(name, "0")) != "0" for name in resources)


def _of_pods(
    pods: Sequence[Pod], schedulers: AbstractSet[str], resources: Sequence[str]
) -> Iterator[Finding]:
    """Name reservation pods that tell no GPU, and pods whose GPU nothing holds, or that have none.

    Args:
        pods: on nodes.
        schedulers: whose pods may share GPUs.
        resources: names that count as whole GPUs.

    """
    reservations = [it for it in map(reservation_of, pods) if it and it.stage is Stage.HOLDS]
    silent = [it.key.partition("/")[2] for it in reservations if not it.gpu]
    if silent:
        text = f"{len(silent)} reservation pods tell no GPU yet: {named(silent)}"
        fix = f"see why the agent does not run: kubectl -n {RESERVATION} describe pods"
        yield Finding(_SHARING, "warn", text, fix)
    users = [
        (pod, groups_of(pod, resources, may_share=pod.spec.scheduler_name in schedulers))
        for pod in pods
        if not is_reservation(pod.metadata) and pod.status.phase not in _ENDED
    ]
    if amiss := [pod.key for pod, groups in users if groups.fault]:
        text = f"{len(amiss)} pods name groups of GPUs that no scheduler gave them: {named(amiss)}"
        fix = f"these do not count; remove {GPU_GROUP} and {GPU_GROUPS} from them"
        yield Finding(_SHARING, "warn", text, fix)
    held = {it.card for it in reservations}
    lost = [
        pod.key
        for pod, groups in users
        if any(Card(pod.spec.node_name, it) not in held for it in groups.names)
    ]
    if lost:
        text = f"{len(lost)} pods use a GPU that no reservation pod holds: {named(lost)}"
        fix = "it is reserved again if the pods say which it is; else delete them when you can"
        yield Finding(_SHARING, "warn", text, fix)


_CLAIMS: Final = "claims"
_SWITCH: Final = "set resourceClaims: true in a SchedulingShard, or leave them to another scheduler"
_MOST_NODES: Final = 5


def claims(visit: Visit) -> Iterator[Finding]:
    """Say which drivers and classes there are, and what nodes have free for claims."""
    is_served = visit.served is not None and all(map(visit.served.has, DEVICES))
    is_wanted = any(one.shard.spec.resource_claims for one in visit.shards)
    if not is_wanted:
        if is_served:
            text = "resource claims are served, and no shard allocates them: their pods wait"
            yield Finding(_CLAIMS, "warn", text, _SWITCH)
        return
    if not is_served:
        text = "resource.k8s.io is served neither as v1 nor as v1beta2: pods with claims wait"
        yield Finding(_CLAIMS, "fail", text, "use Kubernetes 1.34 or later")
        return
    rules = [TAINT_RULES] if visit.served is not None and visit.served.has(TAINT_RULES) else []
    listed = list_cluster(visit.client, [*DEVICES, *rules, NODES])
    for warning in listed.warnings:
        yield Finding(_CLAIMS, "warn", warning)
    offered, taken = (
        OfferedDevices(),
        taken_by(it for it in listed.objects if isinstance(it, ResourceClaim)),
    )
    for obj in listed.objects:
        if isinstance(obj, ResourceSlice | ClassObject | DeviceTaintRule):
            offered.update(obj)
    sites = [Site(it.name, it.metadata.labels) for it in listed.objects if isinstance(it, Node)]
    at = {site.name: offered.offer.pools(site) for site in sorted(sites)}
    yield from _drivers(at, taken)
    for name, of_class in sorted(offered.offer.classes.items()):
        yield _class(name, of_class, at, taken)
    if not offered.offer.classes:
        fix = "install the driver, which brings its class"
        yield Finding(_CLAIMS, "warn", "there is no device class: no claim can be allocated", fix)


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
        yield Finding(_CLAIMS, "warn", "no driver offers a device to any node", fix)


def _class(name: str, of_class: DeviceClass, at: dict[str, list[Pool]], taken: Taken) -> Finding:
    """Report how much of a class each node has, and has free."""
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


_SHARE_CLAIMS: Final = "share claims"
_MIB: Final = 1 << 20
_BINDING: Final = (
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/kaisched-share-claims"
)
_NO_DEVICES: Final = (
    "let the driver offer devices that several claims may have (with NVIDIA's, the feature gate"
    " ConsumableShares), and switch DRAConsumableCapacity on where Kubernetes is older than 1.36"
)
_NO_POLICY: Final = (
    "helm upgrade --reset-then-reuse-values --set gpuClaims.create=true, or with kustomize add"
    " components/gpu-claims; or write the claim into every such pod"
)


def share_claims(visit: Visit) -> Iterator[Finding]:
    """Say what keeps shares that are claims from starting; nothing where no shard has such."""
    wanted = {one.shard.share_class: one.shard.name for one in visit.shards}
    wanted.pop("", None)
    is_served = visit.served is not None and all(map(visit.served.has, DEVICES))
    if not wanted or not is_served:
        return  # the check of claims says that nothing is served
    offered = OfferedDevices()
    for obj in list_cluster(visit.client, DEVICES[:2]).objects:
        if isinstance(obj, ClassObject | ResourceSlice):
            offered.update(obj)
    offered.count(set)
    for name, shard in sorted(wanted.items()):
        yield _shared_class(offered, name, shard)
    yield from _policy(visit)


def _shared_class(offered: OfferedDevices, name: str, shard: str) -> Finding:
    """Say whether pods may share devices of a class."""
    if name not in offered.classes:
        text = f"device class {name} of shard {shard} does not exist: pods with a share wait"
        return Finding(
            _SHARE_CLAIMS, "warn", text, "install the driver, or name its class in the shard"
        )
    sizes = sorted({size // _MIB for size in offered.shared.sizes(name, MEMORY)})
    if not sizes:
        text = f"no device of class {name} can be shared by its {MEMORY}: pods with a share wait"
        return Finding(_SHARE_CLAIMS, "warn", text, _NO_DEVICES)
    if len(sizes) > 1:
        text = f"devices of class {name} have from {sizes[0]} to {sizes[-1]} MiB: pods with"
        text += " gpu-fraction wait"
        return Finding(
            _SHARE_CLAIMS, "warn", text, "ask for gpu-memory, or make a class for each size"
        )
    return Finding(
        _SHARE_CLAIMS, "ok", f"pods may share devices of class {name}, of {sizes[0]} MiB each"
    )


def _policy(visit: Visit) -> Iterator[Finding]:
    """Look for the policy that writes the claim into pods."""
    text = "no policy writes the claim into pods with a share: those that do not name it wait"
    there = Finding(_SHARE_CLAIMS, "ok", "a policy writes the claim into pods with a share")
    missing = Finding(_SHARE_CLAIMS, "warn", text, _NO_POLICY)
    unknown = "a policy writes the claim into pods"
    yield of_binding(visit, _BINDING, there=there, missing=missing, unknown=unknown)
