"""Quotas that cannot all be used: more below a queue than it has, or than the nodes have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.errors import ObjectError
from kaisched.objects.faults import Source
from kaisched.objects.queue import Queue
from kaisched.units import UNLIMITED, format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.snapshot import Snapshot
    from kaisched.objects.load import Loaded


def quota_sums(
    snapshot: Snapshot, loaded: Loaded, *, is_lent: bool = False
) -> Iterator[ObjectError]:
    """Yield each queue whose children have more quota than it may use, and likewise the roots.

    Where the policy lends, quotas of a queue and of those below it add up, so only their sum in the
    cluster is compared.
    """
    queues, tree = snapshot.queues, snapshot.queues.tree
    have = snapshot.axis.charged(snapshot.nodes.allocatable.sum(axis=1))
    parents = np.full_like(tree.parent_of_queue, -1) if is_lent else tree.parent_of_queue
    for parent in sorted({-1, *parents.tolist()}):
        children = np.flatnonzero(parents == parent)
        for at, resource in enumerate(snapshot.axis.names):
            quotas = queues.deserved[at, children]
            summed = sum(int(it) for it in quotas if it < UNLIMITED)
            if parent >= 0:
                quota, limit = int(queues.deserved[at, parent]), int(queues.limit[at, parent])
                bound = min(quota, limit)
                word = "quota" if quota <= limit else "limit"
                where, whose = queues.name[parent], f"its own {word} of"
            else:
                bound = int(have[at]) if len(snapshot.nodes) else UNLIMITED
                where, whose = queues.name[_largest(children, quotas)] if summed else "", ""
            if summed > 0 and bound < summed:
                whole = "of all queues" if is_lent else "of all top-level queues"
                yield _error(resource, (summed, bound), where, (whose, whole), loaded)


def _largest(children: np.ndarray, quotas: np.ndarray) -> int:
    """Return the queue with the most quota, where that is a number."""
    return int(children[np.where(quotas < UNLIMITED, quotas, -1).argmax()])


def _error(
    resource: str, amounts: tuple[int, int], queue: str, words: tuple[str, str], loaded: Loaded
) -> ObjectError:
    whose, whole = words
    summed, bound = (format_amount(resource, amount) for amount in amounts)
    source = loaded.sources.get((Queue.KIND, queue), Source())
    who, against, fix = (
        ("of its children", f"{whose} {bound}", "lower them, or raise that of the queue")
        if whose
        else (
            whole,
            f"the {bound} that the nodes in the files have",
            "lower them, or give all nodes",
        )
    )
    return ObjectError(
        f"the quotas {who} add up to {summed} {resource}, more than {against}",
        file=source.file,
        document=source.document,
        kind=Queue.KIND,
        name=queue,
        path=f"spec.resources.{resource}.quota",
        fix=fix,
    )
