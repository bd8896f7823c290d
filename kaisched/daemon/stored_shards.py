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

    from kaisched.usage.history import ServerHealth

USABLE: Final = "Usable"
"""The type of the condition."""
SERVER: Final = "UsageServerReachable"
"""The type of the condition about the server of usage history."""
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


def desired_status(
    stored: StoredShard, reading: Reading, now: str, server: ServerHealth | None = None
) -> Mapping[str, Any] | None:
    """Return the part of the status that is to be written; None if it is there.

    ``server`` says whether the server of usage history answers, if that is known.
    """
    status = stored.status if isinstance(stored.status, dict) else {}
    listed = status.get("conditions")
    conditions = [it for it in listed if isinstance(it, dict)] if isinstance(listed, list) else []
    desired = _with_condition(conditions, _usable_condition(reading), now)
    if server is not None:
        desired = _with_condition(desired, _server_condition(server), now)
    elif reading.shard is not None and not _asks_server(reading.shard):
        desired = [it for it in desired if it.get("type") != SERVER]
    is_kept = bool(reading.errors) or status.get(LAST_USABLE) == stored.spec
    if desired == conditions and is_kept:
        return None
    written: dict[str, Any] = {"conditions": desired}
    if not reading.errors:
        written[LAST_USABLE] = stored.spec
    return written


def is_told_wrong(stored: StoredShard, reading: Reading) -> bool:
    """Tell whether the status says already what is wrong with a shard."""
    status = stored.status if isinstance(stored.status, dict) else {}
    listed = status.get("conditions")
    ours = _usable_condition(reading)
    return any(
        isinstance(it, dict) and all(it.get(key) == value for key, value in ours.items())
        for it in (listed if isinstance(listed, list) else ())
    )


def _usable_condition(reading: Reading) -> dict[str, str]:
    return {
        "type": USABLE,
        "status": "False" if reading.errors else "True",
        "reason": "Wrong" if reading.errors else "Read",
        "message": "; ".join(map(str, reading.errors))[:MOST_MESSAGE],
    }


def _server_condition(server: ServerHealth) -> dict[str, str]:
    return {
        "type": SERVER,
        "status": "True" if server.is_reachable else "False",
        "reason": "Answers" if server.is_reachable else "NoAnswer",
        "message": server.message[:MOST_MESSAGE],
    }


def _with_condition(
    conditions: list[dict[str, Any]], ours: dict[str, str], now: str
) -> list[dict[str, Any]]:
    """Return the conditions with one that is changed or added; the same ones if it is there."""
    before = next((it for it in conditions if it.get("type") == ours["type"]), {})
    if all(before.get(key) == value for key, value in ours.items()):
        return conditions
    since = before.get("lastTransitionTime") if before.get("status") == ours["status"] else None
    others = [it for it in conditions if it.get("type") != ours["type"]]
    return [*others, {**ours, "lastTransitionTime": since or now}]


def _asks_server(shard: SchedulingShard) -> bool:
    usage = shard.spec.usage_db_config
    return usage is not None and usage.client_type == "prometheus"


def _plain(stored: StoredShard, spec: object) -> dict[str, Any]:
    meta = msgspec.to_builtins(stored.metadata)
    plain = {"apiVersion": stored.API_VERSION, "kind": stored.KIND, "metadata": meta}
    return plain if spec is None else {**plain, "spec": spec}
