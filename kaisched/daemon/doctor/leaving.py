"""Check for pods that were deleted long ago, still exist and block what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from kaisched.cluster.facts import STUCK_AFTER_S, is_overdue
from kaisched.cluster.kubernetes.resources import PODS
from kaisched.cluster.pods import leaving_of
from kaisched.daemon.doctor.finding import Finding, named
from kaisched.errors import ClusterUnavailable
from kaisched.objects.labels import node_pool_of
from kaisched.objects.shard import read_args
from kaisched.objects.wire import BAD_JSON, ObjectMeta
from kaisched.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.doctor.finding import Visit

_PAGE: Final = 5000
_ACCEPT: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_CHECK: Final = "leaving pods"
_FIX: Final = (
    "see what keeps each: a finalizer, a container that cannot be killed, or a node that is gone"
    " and is still listed"
)


class _Item(msgspec.Struct):
    metadata: ObjectMeta


class _Meta(msgspec.Struct, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    items: list[_Item] | None = None


def leaving_pods(visit: Visit) -> Iterator[Finding]:
    """Name the pods whose room the shards no longer expect, since their deletion does not end."""
    after_s = {
        one.shard.spec.partition_label_value: read_args(one.shard.spec.args).get(
            "stuck_after_s", STUCK_AFTER_S
        )
        for one in visit.shards
    }
    now_s = visit.clock.now_s()
    stuck: list[str] = []
    number = 0
    for meta in _pods(visit):
        leaving, pool = leaving_of(meta), node_pool_of(meta)
        if leaving is None or pool not in after_s:
            continue
        number += 1
        age_s = now_s - leaving.asked_s
        if is_overdue(age_s, leaving.grace_s, after_s[pool]):
            stuck.append(f"{meta.namespace}/{meta.name} (for {format_duration(round(age_s))})")
    if stuck:
        text = (
            f"{len(stuck)} pods were deleted long ago and still hold resources, which no job is"
            f" promised: {named(stuck)}"
        )
        yield Finding(_CHECK, "warn", text, _FIX)
    else:
        yield Finding(_CHECK, "ok", f"none is stuck; {number} are being deleted")


def _pods(visit: Visit) -> Iterator[ObjectMeta]:
    query = {"limit": str(_PAGE)}
    while True:
        answer = visit.client.call("GET", PODS.path, query=query, accept=_ACCEPT)
        if not answer.is_done:
            raise ClusterUnavailable(f"pods cannot be listed: {answer.text()}")
        try:
            page = msgspec.json.decode(answer.data, type=_Page)
        except BAD_JSON as wrong:
            raise ClusterUnavailable("the list of pods cannot be read") from wrong
        yield from (item.metadata for item in page.items or ())
        if not page.metadata.continue_:
            return
        query = {**query, "continue": page.metadata.continue_}
