"""Checks of queues: faults, and fields that KAI-Scheduler would read differently."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.cluster.kubernetes.resources import QUEUES
from kaisched.cluster.kubernetes.statuses import OVER_SUBSCRIBED, TRUE
from kaisched.cluster.pools.projects import different_lists, lacking_queues
from kaisched.daemon.doctor.finding import Finding, named
from kaisched.errors import ClusterUnavailable
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.labels import DEFAULT_QUEUE, NODE_POOL, QUEUE_PROJECT, node_pool_of
from kaisched.objects.load import check_queues
from kaisched.objects.queue import Queue
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.daemon.doctor.finding import Visit

_IN_KAI: Final = {
    "limit": ("no limit here, and nothing may run in KAI-Scheduler", "limit: -1"),
    "overQuotaWeight": ("a weight of 1 here, and no surplus in KAI-Scheduler", "overQuotaWeight"),
}
_EASY: Final = 5000
"""Faults named in one answer, at most."""


def queues(visit: Visit) -> Iterator[Finding]:
    """Check every queue alone, against the others, and against how KAI-Scheduler reads it."""
    raw = _raw(visit)
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
    """Name projects whose lists of node pools do not go with their queues."""
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


def _raw(visit: Visit) -> list[dict[str, Any]]:
    """Return the queues as written, since decoding fills in omitted fields."""
    items: list[dict[str, Any]] = []
    query = {"limit": str(_EASY)}
    while True:
        answer = visit.client.call("GET", QUEUES.path, query=query)
        if not answer.is_done:
            raise ClusterUnavailable(f"queues cannot be listed: {answer.text()}")
        try:
            page = msgspec.json.decode(answer.data)
            items += [it for it in page.get("items") or [] if isinstance(it, dict)]
            token = str((page.get("metadata") or {}).get("continue") or "")
        except (AttributeError, *BAD_JSON) as wrong:
            raise ClusterUnavailable("the list of queues cannot be read") from wrong
        if not token:
            return items
        query = {**query, "continue": token}
