"""Documents of queues and their projects, of the shard as a whole, and of what was before.

Which queues of several node pools are of one project is said by rule L3 of
docs/explanation/node-pools.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, CPU, GPU
from kaisched.core.tables import DRAINED, HELD
from kaisched.core.usage import PARTS, UsageState
from kaisched.errors import ConfigError
from kaisched.framework.report.records import QueueShare
from kaisched.framework.report.result import ShareTable
from kaisched.objects.faults import did_you_mean
from kaisched.objects.labels import QUEUE_PROJECT, pool_name
from kaisched.units import UNLIMITED
from kaisched.view.documents import amounts, by_name, envelope, gpus, queue_document, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.core.axis import IntVec
    from kaisched.core.usage import Usage
    from kaisched.view.history import Frame, Sample
    from kaisched.view.live import LiveView
    from kaisched.view.paths import Part
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
        "wrong": list(_wrong(reading)),
        "oldestWaitSeconds": _oldest_s(reading),
        "waiting": gpus(int(reading.gpu_pending[view.waiting.rows].sum())),
        "furthest": queue_entries(reading, _furthest(reading)),
    }


def _oldest_s(reading: Reading) -> float | None:
    waits_s = reading.view.time_s - reading.since_s[reading.view.waiting.rows]
    known = waits_s[np.isfinite(waits_s) & (reading.running[reading.view.waiting.rows] == 0)]
    return round(float(known.max()), 1) if len(known) else None


_FEW: Final = 3


def _wrong(reading: Reading) -> Iterator[str]:
    """Yield what an operator should look at now, a line each."""
    view, nodes = reading.view, reading.snapshot.nodes
    usage = view.usage
    if usage is not None and usage.state is not UsageState.FRESH:
        yield f"usage history is {usage.state.value}: {'; '.join(usage.reasons)}"
    lost = [nodes.name[row] for row in np.flatnonzero(~nodes.statics.is_ready).tolist()]
    if lost:
        yield f"{_number(len(lost), 'node')} not ready: {_some(lost)}"
    above = [it.name for it in _above_quota(reading)]
    if above:
        yield (
            f"{_number(len(above), 'queue')} above quota while others that are below theirs wait:"
            f" {_some(above)}"
        )
    put_off = reading.reasons_of(view.waiting.rows).get("PutOff", 0)
    if put_off:
        yield f"{_number(put_off, 'job')} put off to later cycles: more wait than a cycle tries"


def _above_quota(reading: Reading) -> list[QueueShare]:
    """Return the leaf queues above their quota of GPUs, if any other waits below its own."""
    queues = reading.snapshot.queues
    leaves = [reading.view.shares[row] for row in np.flatnonzero(queues.tree.is_leaf).tolist()]

    def of(share: QueueShare) -> tuple[float, float, float]:
        amounts = (share.allocated, share.deserved, share.requested)
        held, quota, asked = (it.get("gpu", 0) for it in amounts)
        return held, math.inf if quota < 0 else quota, asked

    has_claim = any(held < min(quota, asked) for held, quota, asked in map(of, leaves))
    return [it for it in leaves if of(it)[0] > of(it)[1]] if has_claim else []


def _number(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")


MOST_FURTHEST: Final = 8


def _furthest(reading: Reading) -> list[int]:
    """Return the leaf queues that ask for GPUs and hold furthest from their fair share of them.

    Where nobody asks for GPUs, the same of CPUs.
    """
    shares, leaves = reading.view.shares, reading.snapshot.queues.tree.is_leaf
    if not isinstance(shares, ShareTable):
        return []
    for resource in (GPU, CPU):
        fair, held = shares.fair_share[resource], shares.allocated[resource]
        asks = leaves & (shares.requested[resource] > 0) & (fair < UNLIMITED)
        rows = np.flatnonzero(asks)
        if len(rows):
            order = np.argsort(-np.abs(held[rows] - fair[rows]), kind="stable")
            found: list[int] = rows[order][:MOST_FURTHEST].tolist()
            return found
    return []


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


_AMOUNTS: Final = ("fairShare", "allocated", "requested", "deserved")
_LABEL, _NAME_WITH_POOL, _NAME = range(3)
"""By what a queue is that of its project in a pool: the first that there is counts."""


class PoolQueues(NamedTuple):
    """The queues of one node pool after a cycle of its shard."""

    shard: str
    pool: str
    """Label value of the pool; empty for the pool of objects without the label."""
    shares: Sequence[QueueShare]
    labels: Sequence[Mapping[str, str]]
    """Of each queue, in the order of ``shares``."""


class Projects:
    """The projects that have queues in several of these pools."""

    def __init__(self, pools: Iterable[PoolQueues]) -> None:
        """Find the queue of each project in each pool."""
        self._pools = list(pools)
        self._rows: dict[str, dict[int, int]] = {}
        """By project and pool, the row of its queue there."""
        self._project_of: dict[tuple[str, str], str] = {}
        """By shard and queue; only the queues that count."""
        for at, pool in enumerate(self._pools):
            self._find(at, pool)

    def _find(self, at: int, pool: PoolQueues) -> None:
        found: dict[str, tuple[int, str, int]] = {}
        for row, (share, labels) in enumerate(zip(pool.shares, pool.labels, strict=True)):
            project, how = _project(share.name, labels, pool.pool)
            one = (how, share.name, row)
            found[project] = min(found.get(project, one), one)
        for project, (_, name, row) in found.items():
            self._rows.setdefault(project, {})[at] = row
            self._project_of[pool.shard, name] = project

    def document(self, shard: str, queue: str) -> dict[str, Any] | None:
        """Return the sums of a queue's project, and its part in each pool.

        None where the project has a queue in one pool only.
        """
        project = self._project_of.get((shard, queue), "")
        rows = self._rows.get(project, {})
        if len(rows) < 2:  # noqa: PLR2004 - several
            return None
        parts = [(self._pools[at], self._pools[at].shares[row]) for at, row in rows.items()]
        return {
            "name": project,
            **_amounts_of(queue_document(_sum(project, [share for _, share in parts]))),
            "pools": [
                {
                    "nodePool": pool_name(pool.pool),
                    "shard": pool.shard,
                    "queue": share.name,
                    **_amounts_of(queue_document(share)),
                }
                for pool, share in parts
            ],
        }


def _project(queue: str, labels: Mapping[str, str], pool: str) -> tuple[str, int]:
    """Return the project of a queue, and by what it is known."""
    if project := labels.get(QUEUE_PROJECT):
        return project, _LABEL
    ending = f"-{pool_name(pool)}"
    if queue.endswith(ending) and queue != ending:
        return queue.removesuffix(ending), _NAME_WITH_POOL
    return queue, _NAME


def _sum(project: str, shares: Sequence[QueueShare]) -> QueueShare:
    """Return the sums; what is unlimited in one pool is unlimited in all."""
    return QueueShare(
        project,
        None,
        _added([share.fair_share for share in shares]),
        _added([share.allocated for share in shares]),
        _added([share.requested for share in shares]),
        _added([share.deserved for share in shares]),
    )


def _added(columns: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for column in columns:
        for name, amount in column.items():
            before = total.get(name, 0)
            total[name] = -1 if -1 in {amount, before} else before + amount
    return total


def _amounts_of(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: document[key] for key in _AMOUNTS}


def projects_of(views: Iterable[tuple[str, LiveView | None]]) -> Projects | None:
    """Return the projects of the pools whose views are there; None for those of one alone."""
    found = [(pool, view) for pool, view in views if view is not None]
    if len(found) == 1:
        return None
    return Projects(
        PoolQueues(it.shard, pool, it.shares, it.snapshot.queues.labels) for pool, it in found
    )


def fairness_document(reading: Reading, name: str, part: Part) -> dict[str, Any]:
    """Return what a queue and those directly below it held over time.

    Without a name, those at the top; where there is only one, it and those directly below it.

    Raises:
        ConfigError: there is no such queue.

    """
    wanted, names = _wanted(reading, name), reading.snapshot.queues.name
    samples = reading.view.history.samples
    resource = samples[-1].resource if samples else "gpu"
    samples = tuple(it for it in samples if it.resource == resource)
    rows = [{queue: row for row, queue in enumerate(it.queues)} for it in samples]
    parent_of = reading.snapshot.queues.tree.parent_of_queue

    def entry(queue: int) -> dict[str, Any]:
        at = [it.get(names[queue], -1) for it in rows]
        pairs = list(zip(samples, at, strict=True))
        parent = int(parent_of[queue])
        return {
            "name": names[queue],
            "parent": names[parent] if parent >= 0 else None,
            "fairShare": [_amount(resource, it.fair, row) for it, row in pairs],
            "allocated": [_amount(resource, it.held, row) for it, row in pairs],
            "usage": [_used(it, row) for it, row in pairs],
        }

    return {
        **envelope(reading.view),
        **part.document(len(wanted)),
        "resource": resource,
        "times": [stamp(it.time_s) for it in samples],
        "queues": [entry(queue) for queue in part.of(wanted)],
    }


def _wanted(reading: Reading, name: str) -> list[int]:
    parent = reading.snapshot.queues.tree.parent_of_queue
    top = [row_of_queue(reading, name)] if name else np.flatnonzero(parent < 0).tolist()
    return [*top, *np.flatnonzero(parent == top[0]).tolist()] if len(top) == 1 else top


def _amount(resource: str, column: IntVec, row: int) -> float | int | None:
    if row < 0 or column[row] >= UNLIMITED:
        return None
    return amounts({resource: int(column[row])})[resource]


def _used(sample: Sample, row: int) -> float | None:
    return None if row < 0 or sample.usage is None else round(int(sample.usage[row]) / PARTS, 6)


def frames_document(reading: Reading, kept: Sequence[Frame]) -> dict[str, Any]:
    """Return the cycles that can be looked at, the earliest first."""
    return {
        **envelope(reading.view),
        "frames": [{"cycle": it.cycle, "time": stamp(it.time_s)} for it in kept],
    }
