"""Makes the table of claims that a snapshot has."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kaisched.core.claims.table import ClaimTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kaisched.cluster.claims.offered import Offered
    from kaisched.cluster.claims.specs import Specs
    from kaisched.core.claims.table import Bridge, Held


def table_of(
    offered: Offered,
    specs: Specs,
    held: Mapping[str, Held],
    consumers: Mapping[str, int],
    keys_of_pod: Mapping[str, tuple[str, ...]],
    users: Mapping[str, Iterable[str]],
    row_of_task: Callable[[str], int],
    bridge: Bridge | None = None,
) -> ClaimTable:
    """Return the table.

    Args:
        offered: slices and classes.
        specs: what claims ask for.
        held: by claim, what it has.
        consumers: by claim, how many pods may use it.
        keys_of_pod: by pod, its claims.
        users: by claim, its pods.
        row_of_task: gives the row of a pod, or a negative number.
        bridge: where a resource is offered by claims that other nodes offer by a plugin.

    """
    rows = {pod: row_of_task(pod) for pod in keys_of_pod}
    return ClaimTable(
        offer=offered.offer,
        specs=specs.all,
        selectors=specs.selectors,
        held=MappingProxyType(dict(held)),
        consumers=MappingProxyType({key: number for key, number in consumers.items() if number}),
        claims_of_task=MappingProxyType(
            {rows[pod]: keys for pod, keys in keys_of_pod.items() if rows[pod] >= 0}
        ),
        users=MappingProxyType({key: _rows(rows, users.get(key, ())) for key in held}),
        bridge=bridge,
        gpu_classes=offered.gpus.counting,
    )


def _rows(rows: dict[str, int], pods: Iterable[str]) -> tuple[int, ...]:
    return tuple(row for pod in pods if (row := rows[pod]) >= 0)
