"""Checks of shards: their policies, their leases, and their nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.resources import NODES, SHARDS, list_cluster, watched_kinds
from kaisched.daemon.doctor.finding import Finding, failures, named
from kaisched.daemon.pool_owners import shard_of_pool
from kaisched.engine.policy import build_policy
from kaisched.engine.shards import shards_in
from kaisched.errors import ClusterUnavailable, KaischedError
from kaisched.objects.labels import NODE_POOL, node_pool_of, pool_name, time_of
from kaisched.objects.shard import SchedulingShard
from kaisched.units import UnitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.doctor.finding import Visit

_ABSENT: Final = 404


def policies(visit: Visit) -> Iterator[Finding]:
    """Find the shards, and build the policy of each, for later checks too."""
    files, among = visit.settings.shards, []
    if not files and (visit.served is None or visit.served.has(SHARDS)):
        listed = list_cluster(visit.client, [SHARDS])
        among = [obj for obj in listed.objects if isinstance(obj, SchedulingShard)]
        for warning in listed.warnings:
            yield Finding("shards", "fail", warning, "correct the shard: nothing runs before")
    pools: dict[str, list[str]] = {}
    for shard in among:
        pools.setdefault(shard.spec.partition_label_value, []).append(shard.name)
    for pool, names in sorted(pools.items()):
        if len(names) > 1:
            text = f"nodes of pool {pool or '(none)'} are in two shards: {named(names)}"
            fix = "give each shard a partitionLabelValue of its own"
            yield Finding("shards", "fail", text, fix)
    if any(len(names) > 1 for names in pools.values()):
        return
    visit.shards = shards_in(files, sorted(among, key=lambda it: it.name))
    tables = []
    for one in visit.shards:
        name = f"shard {one.shard.name}"
        try:
            policy, said = build_policy(one.shard, one.file)
        except KaischedError as wrong:
            yield from failures(name, wrong)
            continue
        for text in [*one.warnings, *said]:
            yield Finding(name, "warn", text)
        tables.append(policy.workloads)
        plugins, actions = len(policy.plugins), ", ".join(it.name for it in policy.actions)
        yield Finding(name, "ok", f"{plugins} plugins; {actions}")
    visit.kinds = watched_kinds(tables, None)


def leases(visit: Visit) -> Iterator[Finding]:
    """Say who leads each shard."""
    if not visit.settings.leader_election.enabled:
        text = "leader election is off: two processes for one shard would both act"
        yield Finding("leases", "warn", text, "set leaderElection.enabled, or run one process")
        return
    for one in visit.shards:
        yield _lease(visit, f"kaisched-{one.shard.name}")
    for pool, shard in shard_of_pool(visit.settings.kubernetes.other_pools).items():
        yield _lease_of_other(visit, pool_name(pool), f"kaisched-{shard}")


def _lease_of_other(visit: Visit, pool: str, name: str) -> Finding:
    """Say who leads the shard of a pool that another process serves, if we may know."""
    try:
        return _lease(visit, name)
    except ClusterUnavailable as wrong:
        text = f"{wrong}: jobs of node pool {pool} are not taken while no process serves it"
        fix = f"let the account get leases/{name} in namespace {visit.namespace}"
        return Finding(f"lease {name}", "warn", text, fix)


def _lease(visit: Visit, name: str) -> Finding:
    namespace, check = visit.namespace, f"lease {name}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    answer = visit.client.call("GET", path)
    if answer.code == _ABSENT:
        fix = "apply deploy/, which includes it: the account may not create leases"
        return Finding(check, "warn", f"there is none in namespace {namespace}", fix)
    if not answer.is_done:
        raise ClusterUnavailable(f"lease {namespace}/{name} cannot be read: {answer.text()}")
    spec: dict[str, Any] = msgspec.json.decode(answer.data).get("spec") or {}
    holder = str(spec.get("holderIdentity") or "")
    if not holder:
        return Finding(check, "warn", "no process leads", "start the scheduler, and see its logs")
    try:
        age_s = visit.clock.now_s() - time_of(str(spec.get("renewTime") or ""))
        lasts_s = float(spec.get("leaseDurationSeconds") or 0)
    except (UnitError, ValueError, TypeError):
        fix = "delete the holder from the lease"
        return Finding(check, "warn", f"held by {holder}, without a time of renewal", fix)
    if age_s > lasts_s:
        fix = "see why no process takes it over: is one running, and may it update the lease?"
        return Finding(check, "warn", f"{holder} has not renewed it for {age_s:.0f} s", fix)
    return Finding(check, "ok", f"held by {holder}")


def nodes(visit: Visit) -> Iterator[Finding]:
    """Say whether every node is in exactly one of our shards."""
    listed = list_cluster(visit.client, [NODES])
    for warning in listed.warnings:
        yield Finding("nodes", "warn", warning, "correct the node")
    pools = {one.shard.spec.partition_label_value for one in visit.shards}
    found = [(obj.metadata.name, node_pool_of(obj.metadata)) for obj in listed.objects]
    if not found:
        yield Finding("nodes", "warn", "there are none")
        return
    strays = [name for name, pool in found if pool not in pools]
    if strays:
        text = f"{len(strays)} of {len(found)} nodes are in no shard: {named(strays)}"
        fix = f"set their label {NODE_POOL}, or make a shard with that partitionLabelValue"
        yield Finding("nodes", "warn", text, fix)
    for one in visit.shards:
        pool = one.shard.spec.partition_label_value
        if all(of_node != pool for _, of_node in found):
            text = f"shard {one.shard.name} has no node: none is labelled {pool or 'without pool'}"
            yield Finding("nodes", "warn", text, f"label nodes {NODE_POOL}={pool}")
    if not strays:
        yield Finding("nodes", "ok", f"each of {len(found)} nodes is in one shard")
