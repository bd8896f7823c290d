"""Documents of what was decided lately: evictions, and the timeline of one job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kaisched.core.refusals import text_of
from kaisched.view.queues import rows_below
from kaisched.view.shown import envelope, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.framework.intents import Evict
    from kaisched.view.history import Decisions
    from kaisched.view.live import LiveView
    from kaisched.view.paging import Part
    from kaisched.view.reading import Reading
    from kaisched.view.sight import Sight

MOST_OF_A_JOB: Final = 100
"""Entries of a timeline: the latest of a job."""
_MOST_REASONS: Final = 5
_ANOTHER: Final = "another job"
"""Stands in sentences for a job that the reader does not see."""


def evictions_document(reading: Reading, queue: str, part: Part, sight: Sight) -> dict[str, Any]:
    """Return the evictions of the last cycles, the latest first.

    With a queue, those of jobs in and below it, and those for such jobs. A reader sees an eviction
    who sees the jobs of the queue that lost a pod.

    Raises:
        ConfigError: there is no such queue.

    """
    names = reading.snapshot.queues.name
    wanted = {names[row] for row in rows_below(reading, queue)} if queue else set()
    found = [
        (decided, evict)
        for decided, evict in reading.view.history.evictions()
        if not queue or evict.queue in wanted or evict.beneficiary_queue in wanted
    ]
    seen = [(decided, evict) for decided, evict in found if sight.sees(evict.queue)]
    return {
        **envelope(reading.view),
        **part.document(len(seen)),
        "hidden": len(found) - len(seen),
        "evictions": [_eviction(decided, evict, sight) for decided, evict in part.of(seen)],
    }


def _eviction(decided: Decisions, evict: Evict, sight: Sight) -> dict[str, Any]:
    return {
        "cycle": decided.cycle,
        "time": stamp(decided.time_s),
        "pod": evict.pod,
        "podGroup": evict.pod_group,
        "queue": evict.queue,
        "node": evict.node,
        "action": evict.action,
        "rule": evict.kind or evict.action,
        "beneficiary": _beneficiary(evict, sight),
        "beneficiaryQueue": evict.beneficiary_queue or None,
        "reason": _sentence(evict, sight),
    }


def evictions_of(view: LiveView, job: str, sight: Sight) -> list[dict[str, Any]]:
    """Return why pods of a job were evicted lately, each reason once, the latest first."""
    found = dict.fromkeys(
        (evict.action, _beneficiary(evict, sight), _sentence(evict, sight))
        for _, evict in view.history.evictions()
        if evict.pod_group == job
    )
    return [eviction_of(*it) for it in list(found)[:_MOST_REASONS]]


def eviction_of(action: str, beneficiary: str | None, reason: str) -> dict[str, Any]:
    """Return why pods of a job were evicted."""
    return {"action": action, "beneficiary": beneficiary, "reason": reason}


def _beneficiary(evict: Evict, sight: Sight) -> str | None:
    is_seen = bool(evict.beneficiary) and sight.sees(evict.beneficiary_queue)
    return evict.beneficiary if is_seen else None


def _sentence(evict: Evict, sight: Sight) -> str:
    """Return why a pod was evicted, without the name of a job that the reader does not see."""
    if not evict.beneficiary or sight.sees(evict.beneficiary_queue):
        return evict.reason
    name = rf"(?<![\w.-]){re.escape(evict.beneficiary)}(?![\w-]|\.\w)"
    return re.sub(name, _ANOTHER, evict.reason)


def timeline(view: LiveView, job: str, sight: Sight) -> list[dict[str, Any]]:
    """Return the last decisions on a job, the latest first."""
    found: list[dict[str, Any]] = []
    for decided in reversed(view.history.decisions):
        at = {"cycle": decided.cycle, "time": stamp(decided.time_s)}
        found.extend({**at, **entry} for entry in _of_job(decided, job, sight))
        if len(found) >= MOST_OF_A_JOB:
            break
    return found[:MOST_OF_A_JOB]


def _of_job(decided: Decisions, job: str, sight: Sight) -> Iterator[dict[str, Any]]:
    if job in decided.waits:
        text = text_of(decided.waits[job])
        yield _entry("waits", None, None, text.name)
    for word, moves in (("bound", decided.binds), ("promised", decided.nominations)):
        for move in moves:
            if move.pod_group == job:
                yield _entry(word, move.pod, move.node, None)
    for evict in decided.evictions:
        if evict.pod_group == job:
            yield _entry("evicted", evict.pod, evict.node, _sentence(evict, sight))


def _entry(what: str, pod: str | None, node: str | None, reason: str | None) -> dict[str, Any]:
    return {"what": what, "pod": pod, "node": node, "reason": reason}
