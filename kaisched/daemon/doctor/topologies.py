"""Checks of topologies: their labels, and which gangs still fit in one domain of each level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.cluster.kubernetes.resources import TOPOLOGIES, list_cluster
from kaisched.core.constraints import domain_paths, domains_at
from kaisched.daemon.doctor.finding import Finding, counted, named
from kaisched.engine.planning import fill, open_cluster
from kaisched.engine.policy import build_policy
from kaisched.errors import KaischedError
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.report.reach import reaches
from kaisched.objects.load import Loaded
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.core.tables import TopologyLevel
    from kaisched.daemon.doctor.finding import Visit
    from kaisched.engine.shards import FoundShard
    from kaisched.framework.report.reach import Reach
    from kaisched.framework.report.result import Records
    from kaisched.framework.session.session import Session

_MOST: Final = 10
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
            yield from _free(f"topology {name}", where, levels, session)
        found = list(reaches(session, records.rows))
        for reach in found[:_MOST]:
            yield _gang(reach, where)
        if len(found) > _MOST:
            text = f"{len(found) - _MOST} more sizes of gangs wait{where}"
            yield Finding("topologies", "ok", text)


def _next_cycle(visit: Visit, one: FoundShard, listed: Loaded) -> Records | None:
    """Return what still waits after the next cycle of a shard, run on a copy in this process."""
    try:
        policy, _ = build_policy(one.shard, one.file)
    except KaischedError:
        return None
    names = visit.settings.scheduler_names
    cluster = open_cluster(one.shard, visit.clock, names, policy.workloads, policy.stuck_after_s)
    fill(cluster, listed)
    result, _ = run_cycle(cluster.snapshot(), None, policy, visit.clock.now_s(), Memory())
    return result.records


def _free(
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
