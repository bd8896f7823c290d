"""The kinds to watch, from the workloads of the shards and the API that the server serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kaisched.cluster.kubernetes.resources import kinds_with, owner
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.objects.gangs import GANG_API, GANG_API_PLURAL, GANG_API_VERSIONS, gang_api_row
from kaisched.objects.wire import BAD_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.resources import Watched
    from kaisched.objects.workloads import Table, Workload

_UNAUTHORIZED, _FORBIDDEN, _ABSENT = 401, 403, 404


class AccountUnknownError(ClusterUnavailable):
    """The server does not know our account."""


def watched_kinds(
    tables: Iterable[Table],
    gangs: Workload | None,
    *,
    is_deleting: bool = False,
    has_kueue: bool = False,
    has_claims: bool = False,
    has_share_claims: bool = False,
) -> tuple[Watched, ...]:
    """Return all kinds to watch for the shards of a process.

    Args:
        tables: the workloads of each shard.
        gangs: the row of Kubernetes' own gang API; None without it.
        is_deleting: victims are deleted, not evicted, so that budgets do not count.
        has_kueue: Kueue's objects are read.
        has_claims: a shard allocates claims on devices.
        has_share_claims: in a shard shares of GPUs are claims.

    Raises:
        ConfigError: two shards read one kind in different ways; an object is read once for all.

    """
    rows: dict[tuple[str, str], Workload] = {}
    for table in tables:
        for key, row in table.items():
            other = rows.setdefault(key, row)
            if _reading(other) != _reading(row):
                raise ConfigError(
                    f"two shards read {row.kind} of {row.api_group} in different ways",
                    path="spec.plugins",
                    fix="make their plugins read it in one way, or run a process for each shard",
                )
    owners = [owner(row) for row in rows.values()]
    owners += [] if gangs is None else [owner(gangs)]
    return kinds_with(
        owners,
        is_deleting=is_deleting,
        has_kueue=has_kueue,
        has_claims=has_claims,
        has_share_claims=has_share_claims,
    )


def _reading(row: Workload) -> tuple[object, ...]:
    return row.api_version, row.plural, row.read, row.other_versions


def find_gang_api(client: Client) -> Workload | None:
    """Return the row of Kubernetes' own gang API in the best served version; None for none.

    Raises:
        ClusterUnavailable: the server does not list its API.
        AccountUnknownError: the server does not know our account.

    """
    path = f"/apis/{GANG_API}"
    versions = {str(it.get("version", "")) for it in _asked(client, path, "versions")}
    serving = {
        version
        for version in versions & {*GANG_API_VERSIONS}
        if GANG_API_PLURAL in {it.get("name") for it in _asked(client, f"{path}/{version}")}
    }
    return gang_api_row(serving)


def _asked(client: Client, path: str, part: str = "resources") -> list[dict[str, Any]]:
    answer = client.call("GET", path)
    if answer.code in {_ABSENT, _FORBIDDEN}:
        return []
    if not answer.is_done:
        wrong = AccountUnknownError if answer.code == _UNAUTHORIZED else ClusterUnavailable
        raise wrong(f"the server does not say what it serves: {answer.text()}")
    try:
        found = msgspec.json.decode(answer.data)
    except BAD_JSON as error:
        raise ClusterUnavailable(f"an answer is no JSON: {error}") from error
    listed = found.get(part) if isinstance(found, dict) else None
    return [it for it in listed or () if isinstance(it, dict)]
