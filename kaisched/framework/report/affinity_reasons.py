"""Says which nodes the queues of a job leave it, where their node affinity rules nodes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.constraints import demands_of, in_words
from kaisched.core.refusals import TEXTS, Refusal
from kaisched.core.tables import WORKLOADS

if TYPE_CHECKING:
    from kaisched.framework.report.lack import Lack
    from kaisched.framework.session.session import Session

_BY_QUEUE = TEXTS[Refusal.QUEUE_NODE_AFFINITY].name


def with_affinity(session: Session, job: int, shapes: list[tuple[int, int]], lack: Lack) -> Lack:
    """Add to what a job lacks where its queues let it run, if that is why nodes are out."""
    if session.queues.node_affinity is None:
        return lack
    own = session.shapes.constraints[shapes[0][0]] if shapes else None
    by_queue = any(each.reason == _BY_QUEUE for each in lack.refused)
    if own is None or not own.queue_terms or not (by_queue or own.node_types):
        return lack
    workload = int(session.jobs.workload_of(np.array([job]))[0])
    queue = int(session.jobs.queue_of_job[job])
    rules = [
        f"queue {name} allows {WORKLOADS[workload]} jobs nodes with {in_words(terms)}"
        for name, terms in demands_of(session.queues, workload, queue)
    ]
    numbers = {**lack.numbers, "queue_affinity": rules}
    told = "; ".join(rules)
    if lack.code != Refusal.NO_NODE_ALLOWED:
        return lack._replace(message=f"{lack.message}; {told}", numbers=numbers)
    wish = ""
    if own.node_types:
        numbers["node_types"] = list(own.node_types)
        wish = f" of type {' or '.join(own.node_types)}"
    elif own.own_selector or own.node_terms is not None:
        wish = " as it selects"
    leaf = session.queues.name[queue]
    first = f"no node{wish} that queue {leaf} may use for {WORKLOADS[workload]} jobs"
    return lack._replace(message=f"{first}: {lack.message}; {told}", numbers=numbers)
