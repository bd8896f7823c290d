"""SchedulingShards as a cluster stores them: whatever they hold, with what was usable last.

A definition of ours checks most of a shard, but neither plugins nor their arguments, and another
definition checks less. So an edit may be wrong. The status of a shard remembers its last usable
spec, which a process takes that starts meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgspec

from kaisched.cluster.kubernetes.resources import whole
from kaisched.engine.shards import policy_errors
from kaisched.errors import Collector, KaischedError
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import KubernetesObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

USABLE: Final = "Usable"
"""The type of the condition."""
LAST_USABLE: Final = "lastUsableSpec"
"""The key of the status with the last usable spec."""
MOST_MESSAGE: Final = 1024


class StoredShard(KubernetesObject, frozen=True, kw_only=True):
    """A shard whose spec may have any form."""

    API_VERSION: ClassVar[str] = SchedulingShard.API_VERSION
    KIND: ClassVar[str] = SchedulingShard.KIND
    IS_NAMESPACED: ClassVar[bool] = False

    spec: Any = None
    status: Any = None


STORED: Final = whole(StoredShard, "schedulingshards")


class Reading(NamedTuple):
    """A shard as its spec says, or the errors of the spec."""

    shard: SchedulingShard | None
    errors: tuple[KaischedError, ...] = ()


def read(stored: StoredShard) -> Reading:
    """Read the present spec of a shard."""
    try:
        shard, _ = decode_object(_plain(stored, stored.spec), SchedulingShard)
    except BadObject as bad:
        rest = bad.obj if isinstance(bad.obj, SchedulingShard) else None
        more = policy_errors(rest, reported=bad.errors) if rest is not None else []
        return Reading(None, (*bad.errors, *more))
    errors = policy_errors(shard)
    return Reading(None if errors else shard, tuple(errors))


def last_usable(stored: StoredShard) -> SchedulingShard | None:
    """Return the shard as it was usable last; None if the status does not say it."""
    status = stored.status if isinstance(stored.status, dict) else {}
    spec = status.get(LAST_USABLE)
    return None if spec is None else read(msgspec.structs.replace(stored, spec=spec)).shard


def usable_among(
    stored: Iterable[StoredShard],
) -> tuple[list[SchedulingShard], dict[str, tuple[KaischedError, ...]]]:
    """Return all shards, wrong ones as they were usable last, and the errors of these by name.

    Raises:
        KaischedError: a shard is wrong and was never usable; it holds the errors of all such.

    """
    shards, wrong, errors = [], {}, Collector()
    for each in stored:
        reading = read(each)
        shard = reading.shard or last_usable(each)
        if reading.errors:
            wrong[each.name] = reading.errors
        if shard is None:
            errors.errors += reading.errors
        else:
            shards.append(shard)
    errors.stop_if_any()
    return shards, wrong


def desired_status(stored: StoredShard, reading: Reading, now: str) -> Mapping[str, Any] | None:
    """Return the part of the status that is to be written; None if it is there."""
    status = stored.status if isinstance(stored.status, dict) else {}
    listed = status.get("conditions")
    conditions = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    others = [it for it in conditions if it.get("type") != USABLE]
    before = next((it for it in conditions if it.get("type") == USABLE), {})
    message = "; ".join(map(str, reading.errors))[:MOST_MESSAGE]
    ours = {
        "type": USABLE,
        "status": "False" if reading.errors else "True",
        "reason": "Wrong" if reading.errors else "Read",
        "message": message,
    }
    is_same = all(before.get(key) == value for key, value in ours.items())
    is_kept = bool(reading.errors) or status.get(LAST_USABLE) == stored.spec
    if is_same and is_kept:
        return None
    since = before.get("lastTransitionTime") if before.get("status") == ours["status"] else None
    desired: dict[str, Any] = {
        "conditions": [*others, {**ours, "lastTransitionTime": since or now}]
    }
    if not reading.errors:
        desired[LAST_USABLE] = stored.spec
    return desired


def _plain(stored: StoredShard, spec: object) -> dict[str, Any]:
    meta = msgspec.to_builtins(stored.metadata)
    plain = {"apiVersion": stored.API_VERSION, "kind": stored.KIND, "metadata": meta}
    return plain if spec is None else {**plain, "spec": spec}
