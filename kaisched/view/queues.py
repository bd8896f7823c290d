"""Documents of queues, and of the shard as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, GPU
from kaisched.core.tables import DRAINED, HELD
from kaisched.core.usage import PARTS
from kaisched.errors import ConfigError
from kaisched.objects.faults import did_you_mean
from kaisched.view.plan_document import queue_document
from kaisched.view.shown import by_name, envelope, gpus, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import IntVec
    from kaisched.core.usage import Usage
    from kaisched.view.projects import Projects
    from kaisched.view.reading import Reading

_STOPS: Final = {HELD: "Hold", DRAINED: "HoldAndDrain"}


def queues_document(
    reading: Reading, name: str | None = None, projects: Projects | None = None
) -> dict[str, Any]:
    """Return all queues, parents first; or one with those above and below it.

    ``projects`` are those of all node pools.

    Raises:
        ConfigError: there is no such queue.

    """
    entries = queue_entries(reading, rows_around(reading, name), projects)
    return {**envelope(reading.view), "queues": entries}


def rows_around(reading: Reading, name: str | None) -> list[int]:
    """Return the rows of a queue and of those above and below it; all of them without a name.

    Raises:
        ConfigError: there is no such queue.

    """
    queues = reading.snapshot.queues
    if name is None:
        return list(range(len(queues)))
    below = rows_below(reading, name)
    return [*sorted(queues.tree.path(below.start).tolist()), *below[1:]]


def rows_below(reading: Reading, name: str) -> range:
    """Return the rows of a queue and of those below it.

    Raises:
        ConfigError: there is no such queue.

    """
    row = row_of_queue(reading, name)
    return range(row, int(reading.snapshot.queues.tree.end_of_queue[row]))


def row_of_queue(reading: Reading, name: str) -> int:
    """Return the row of a queue.

    Raises:
        ConfigError: there is no such queue.

    """
    queues = reading.snapshot.queues
    row = queues.row_of_name.get(name, -1)
    if row < 0:
        raise ConfigError(f"there is no queue {name}", fix=did_you_mean(name, list(queues.name)))
    return row


def queue_entries(
    reading: Reading, rows: Iterable[int], projects: Projects | None = None
) -> list[dict[str, Any]]:
    """Return an entry for each of these queues."""
    queues, shares, resources = reading.snapshot.queues, reading.view.shares, _resources(reading)
    jobs = _JobsOfQueues(reading)
    return [
        {
            **queue_document(share),
            "limit": by_name(resources, queues.limit[:, row].tolist()),
            "saturation": None if (full := share.saturation) is None else round(full, 4),
            "figures": dict(share.figures),
            "usage": _usage_of(reading.view.usage, resources, row),
            "problem": None if share.problem is None else share.problem[1],
            "stopPolicy": _STOPS.get(int(queues.stop_of_queue[row])),
            "running": jobs.running(row),
            "pending": jobs.reasons(row),
            "project": projects and projects.document(reading.view.shard, share.name),
        }
        for row in rows
        for share in (shares[row],)
    ]


def overview_document(reading: Reading) -> dict[str, Any]:
    """Return the totals of the shard."""
    view, snapshot = reading.view, reading.snapshot
    queue = snapshot.jobs.queue_of_job
    held = int(reading.gpu_held[queue >= 0].sum())
    state = reading.state[snapshot.tasks.job_of_task >= 0]
    last = view.history.cycles[-1] if view.history.cycles else None
    return {
        **envelope(view),
        "cycle": view.cycle,
        "time": stamp(view.time_s),
        "durationSeconds": None if last is None else round(last.duration_s, 6),
        "abandoned": view.abandoned or None,
        "failures": [
            {"plugin": it.plugin, "question": it.question, "error": it.error}
            for it in view.failures
        ],
        "capacity": by_name(_resources(reading), snapshot.total.tolist()),
        "gpus": {"total": gpus(int(snapshot.total[GPU])), "held": gpus(held)},
        "nodes": len(snapshot.nodes),
        "queues": len(snapshot.queues),
        "jobs": {
            "running": int(np.count_nonzero(reading.running)),
            "pending": len(view.waiting.rows),
        },
        "pods": {
            "running": int(np.count_nonzero(ALLOCATED_STATES[state])),
            "pending": int(reading.pending.sum()),
        },
        "pending": reading.reasons_of(view.waiting.rows),
        "evictions": sum(len(it.evictions) for it in view.history.decisions),
        "usage": _usage(view.usage),
    }


def cycles_document(reading: Reading) -> dict[str, Any]:
    """Return how long the last cycles took, by action and by plugin, the latest first."""
    return {
        **envelope(reading.view),
        "cycles": [
            {
                "cycle": it.cycle,
                "time": stamp(it.time_s),
                "durationSeconds": round(it.duration_s, 6),
                "actions": {name: round(took_s, 6) for name, took_s in it.by_action.items()},
                "plugins": {name: round(took_s, 6) for name, took_s in it.by_plugin.items()},
                "pending": it.pending,
                "binds": it.binds,
                "evictions": it.evictions,
                "nominations": it.nominations,
            }
            for it in reversed(reading.view.history.cycles)
        ],
    }


class _JobsOfQueues:
    """Jobs by queue, those of queues below included: a subtree is one slice of the queues."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._tree = reading, reading.snapshot.queues.tree
        queue, rows = reading.snapshot.jobs.queue_of_job, reading.view.waiting.rows
        rows = rows[queue[rows] >= 0]
        self._waiting = rows[np.argsort(queue[rows], kind="stable")]
        self._queue = queue[self._waiting]
        runs = np.flatnonzero((reading.running > 0) & (queue >= 0))
        count: IntVec = np.bincount(queue[runs], minlength=len(reading.snapshot.queues))
        self._before = np.concatenate([[0], np.cumsum(count)])

    def running(self, queue: int) -> int:
        return int(self._before[self._tree.end_of_queue[queue]] - self._before[queue])

    def reasons(self, queue: int) -> dict[str, int]:
        ends = [queue, int(self._tree.end_of_queue[queue])]
        start, end = np.searchsorted(self._queue, ends).tolist()
        return self._reading.reasons_of(self._waiting[start:end]) if end > start else {}


def _resources(reading: Reading) -> tuple[str, ...]:
    return reading.snapshot.axis.names


def _usage_of(usage: Usage | None, resources: tuple[str, ...], row: int) -> dict[str, float] | None:
    """Return what a queue used lately, as a part of the capacity; None without a history."""
    if usage is None:
        return None
    column = usage.parts[:, row].tolist()
    return {
        name: part / PARTS for name, part in zip(resources, column, strict=True) if name != "pods"
    }


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "state": usage.state.value,
        "reasons": list(usage.reasons),
        "coverage": round(usage.coverage, 4),
    }
