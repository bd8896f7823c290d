"""Runs every check once, in order; a failing check stops no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.daemon.doctor import Finding, cluster, failures, work
from kaisched.errors import KaischedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.daemon.doctor import Visit

CHECKS: Final[dict[str, Callable[[Visit], Iterator[Finding]]]] = {
    "server": cluster.reachable,
    "account": cluster.account,
    "clock": cluster.clock,
    "kinds": cluster.kinds,
    "features": cluster.features,
    "shards": cluster.policies,
    "rights": cluster.rights,
    "leases": cluster.leases,
    "nodes": cluster.nodes,
    "gpu sharing": work.gpu_sharing,
    "claims": work.claims,
    "share claims": work.share_claims,
    "queues": work.queues,
    "topologies": work.topologies,
    "leaving pods": cluster.leaving_pods,
    "queue use": cluster.queue_use,
    "usage": cluster.usage,
}
"""Ordered so that each check finds the answers that it needs from earlier ones."""


def examine(visit: Visit) -> Iterator[Finding]:
    """Yield the findings of every check; stop early if the server does not answer."""
    for name, check in CHECKS.items():
        yield from _run(name, check, visit)
        if visit.served is None:
            return


def _run(name: str, check: Callable[[Visit], Iterator[Finding]], visit: Visit) -> Iterator[Finding]:
    try:
        yield from check(visit)
    except KaischedError as wrong:
        yield from failures(name, wrong)
    except Exception as wrong:  # noqa: BLE001 - a bug in one check must not hide what others find
        # The type only: the message may hold anything, even credentials.
        text = f"the check itself failed: {type(wrong).__name__}"
        yield Finding(name, "fail", text, "report it as a bug, with the version")
