"""The status of queues and pod groups, computed after cycles from what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kaisched.core.axis import ALLOCATED_STATES, GPU, Amounts, IntVec, TaskState
from kaisched.core.devices import card_mib
from kaisched.core.refusals import Refusal
from kaisched.core.shares import children_quota, over_subscribed
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import QueueTable
from kaisched.core.tree import roll_up
from kaisched.errors import ObjectError
from kaisched.framework.report.records import QueueShare
from kaisched.framework.report.result import CycleResult, ShareTable, without_session
from kaisched.units import (
    CLAIMED_GPU,
    IN_THOUSANDTHS,
    MEBIBYTE,
    MEMORY_UNIT,
    format_amount,
    is_in_bytes,
)

# -- conditions of queues --------------------------------------------------------------------------
# This module only computes it; ``reports`` decides what is written and when.

TRUE: Final = "True"
FALSE: Final = "False"
READY: Final = "Ready"
ORPHAN: Final = "Orphan"
OVER_QUOTA: Final = "OverQuota"
OVER_LIMIT: Final = "OverLimit"
OVER_SUBSCRIBED: Final = "OverSubscribed"
UNSCHEDULABLE: Final = "Unschedulable"
"""Types of a queue's conditions; ``Orphan`` and ``OverQuota`` are KAI-Scheduler's."""
_CLEAR: Final = {
    ORPHAN: "ParentUsable",
    OVER_QUOTA: "WithinQuota",
    OVER_LIMIT: "WithinLimit",
    OVER_SUBSCRIBED: "WithinQuota",
    UNSCHEDULABLE: "AllCounts",
}
"""The reasons of all but ``Ready`` where they do not hold."""
_NAMES: Final = {"gpu": "nvidia.com/gpu"}
_NOT_DIVIDED: Final = "pods"
_WRITTEN: Final = {"gpu": 0.001, "memory": MEMORY_UNIT / 1e6}
"""GPUs for thousandths, megabytes for units of memory."""
_PARENT: Final = "spec.parentQueue"


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts in base units as Kubernetes quantities, without pod slots.

    Zeros are included: a merge patch leaves what it does not name as it was.
    """
    found = {}
    for name, amount in amounts.items():
        shown, unit = _NAMES.get(name, name), "m" if name in IN_THOUSANDTHS else ""
        if unit == "m" and amount % 1000 == 0:
            amount, unit = amount // 1000, ""  # noqa: PLW2901 - the same amount, shorter
        if is_in_bytes(name):
            amount, unit = _in_bytes(amount)  # noqa: PLW2901 - the same amount, as it is written
        if name != _NOT_DIVIDED:
            found[shown] = f"{amount}{unit}" if amount > 0 else "0"
    return found


def _in_bytes(amount: int) -> tuple[int, str]:
    """Return an amount of memory in MiB if that is a whole number, else in bytes."""
    return (amount * MEMORY_UNIT, "") if amount % MEBIBYTE else (amount // MEBIBYTE, "Mi")


class QueueStatuses:
    """The desired status of queues, computed again for those that changed."""

    def __init__(self) -> None:
        """Begin without a snapshot."""
        self._seen: tuple[int, object] | None = None
        self._queues: QueueTable | None = None
        self._words: tuple[object, ...] = ()
        """Names of resources, problems and faults of queues, as of the last call."""
        self._numbers: Amounts = np.zeros((0, 0), np.int64)
        """``(X, Q)`` all numbers that the status of a queue shows, as of the last call."""
        self._class = ""
        """The device class that has GPUs, also once no pod has a claim any more."""

    def changed(
        self, snapshot: Snapshot, shares: Sequence[QueueShare], faults: Mapping[str, ObjectError]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name, status) of the queues whose status may have changed since the last call.

        Args:
            snapshot: of the cycle.
            shares: what the cycle found.
            faults: by name, what is wrong with queues that are not used.

        """
        now = (snapshot.revision, faults)
        if now == self._seen:
            return
        self._seen = now
        table = without_session(shares)
        self._class = class_of_gpus(snapshot) or self._class
        if not isinstance(table, ShareTable):
            yield from self._statuses(snapshot, table, faults, None)
            return
        words = (table.resources, table.problems, table.unschedulable, faults, self._class)
        numbers = np.vstack(
            (table.allocated, table.requested, _firm(snapshot), _misplaced(snapshot)[None])
        )
        rows = None
        if self._queues is table.queues and self._words == words:
            rows = np.any(numbers != self._numbers, axis=0).nonzero()[0].tolist()
        self._queues, self._words, self._numbers = table.queues, words, numbers
        yield from self._statuses(snapshot, table, faults, rows)

    def _statuses(
        self,
        snapshot: Snapshot,
        shares: Sequence[QueueShare],
        faults: Mapping[str, ObjectError],
        rows: Sequence[int] | None,
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, status in queue_statuses(snapshot, shares, faults, rows):
            for key in ("allocated", "allocatedNonPreemptible", "requested"):
                if self._class and CLAIMED_GPU in status[key]:
                    status[key][self._class] = status[key][CLAIMED_GPU]
            yield name, status


def class_of_gpus(snapshot: Snapshot) -> str:
    """Return the device class whose devices count as GPUs; empty without claims, or of several.

    KAI counts GPUs by claim under the names of classes, kaisched all of them together.
    """
    classes = () if snapshot.claims is None else tuple(snapshot.claims.gpu_classes)
    return classes[0] if len(classes) == 1 else ""


def queue_statuses(
    snapshot: Snapshot,
    shares: Sequence[QueueShare],
    faults: Mapping[str, ObjectError],
    rows: Sequence[int] | None = None,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, status) of every queue, including those that are not used.

    Args:
        snapshot: of the cycle.
        shares: what the cycle found.
        faults: by name, what is wrong with queues that are not used.
        rows: the shares to yield alone.

    """
    firm, misplaced, queues = _firm(snapshot), _misplaced(snapshot), snapshot.queues
    table = without_session(shares)
    deserved = table.deserved if isinstance(table, ShareTable) else queues.deserved
    promised = over_subscribed(queues, deserved, firm, snapshot.axis.names)
    names, sums = snapshot.axis.names, children_quota(queues, deserved)
    for share in shares if rows is None else (shares[row] for row in rows):
        row = queues.row_of_name.get(share.name)
        if row is not None:
            held = {name: int(firm[at, row]) for at, name in enumerate(names)}
            left = share.unschedulable
            yield (
                share.name,
                {
                    "allocated": quantities(share.allocated),
                    "allocatedNonPreemptible": quantities(held),
                    "requested": quantities(share.requested),
                    "childQueues": _below(queues, share.name),
                    "childrenQuota": _written(names, sums[:, row].tolist()),
                    "conditions": _conditions(
                        _why_not_ready(share, int(misplaced[row])),
                        {
                            OVER_QUOTA: _over_quota(share),
                            OVER_LIMIT: _over_limit(queues.limit[:, row], share, names),
                            OVER_SUBSCRIBED: promised.get(row),
                            UNSCHEDULABLE: left and (left.reason, left.message),
                        },
                    ),
                },
            )
    if rows is None:
        nothing = quantities(dict.fromkeys(names, 0))
        for name, fault in faults.items():
            yield name, _unused(fault, nothing, _below(queues, name))


def _written(names: Sequence[str], amounts: Sequence[int]) -> dict[str, float]:
    """Return quotas in the units in which queues write them, without pod slots."""
    found = zip(names, amounts, strict=True)
    return {
        name: round(amount * _WRITTEN.get(name, 1), 6)
        for name, amount in found
        if name != _NOT_DIVIDED
    }


def _firm(snapshot: Snapshot) -> Amounts:
    """Return ``(R, Q)`` what the non-preemptible jobs of queues hold, at every level."""
    return roll_up(snapshot.allocated_non_preemptible, snapshot.queues.tree)


def _unused(fault: ObjectError, nothing: dict[str, str], below: list[str]) -> dict[str, Any]:
    """Return the status of a queue that is not used."""
    is_orphan = fault.path == _PARENT
    reason = "ParentUnusable" if is_orphan else "Invalid"
    ready, _, *others = _conditions((reason, str(fault)), {})
    orphan = _condition(ORPHAN, TRUE if is_orphan else FALSE, reason, "")
    return {
        **dict.fromkeys(("allocated", "allocatedNonPreemptible", "requested"), nothing),
        "childQueues": below,
        "conditions": [ready, orphan, *others],
    }


def _misplaced(snapshot: Snapshot) -> IntVec:
    """``(Q,)`` how many jobs wait in a queue which has queues below it."""
    jobs, row_of_name = snapshot.jobs, snapshot.queues.row_of_name
    found: IntVec = np.zeros(len(snapshot.queues), np.int64)
    rows = np.flatnonzero((jobs.refusal == int(Refusal.QUEUE_NOT_LEAF)) & (jobs.pending > 0))
    for job in rows.tolist():
        if (row := row_of_name.get(jobs.queue_name[job])) is not None:
            found[row] += 1
    return found


def _below(queues: QueueTable, name: str) -> list[str]:
    """Return the names of the queues directly below a queue, sorted."""
    row = queues.row_of_name.get(name)
    if row is None:
        return []
    below = np.flatnonzero(queues.tree.parent_of_queue == row).tolist()
    return sorted(queues.name[at] for at in below)


def _conditions(
    not_ready: tuple[str, str] | None, found: Mapping[str, tuple[str, str] | None]
) -> list[dict[str, str]]:
    """Return all conditions of a queue.

    Args:
        not_ready: reason and message of the worst problem of one that cannot be used.
        found: by type, reason and message of what else is to be said of it.

    """
    ready = (TRUE, "Usable", "") if not_ready is None else (FALSE, *not_ready)
    said = [_condition(READY, *ready)]
    for type_, clear in _CLEAR.items():
        it = found.get(type_)
        told = (FALSE, clear, "") if it is None else (TRUE, *it)
        said.append(_condition(type_, *told))
    return said


def _why_not_ready(share: QueueShare, misplaced: int) -> tuple[str, str] | None:
    """Return the worst problem of a queue; None for one that is usable."""
    if not misplaced:
        return share.problem
    text = f"{misplaced} jobs name this queue, which has queues below it; name one of those"
    return "NotLeaf", text


def _over_quota(share: QueueShare) -> tuple[str, str] | None:
    over = sorted(
        name
        for name, most in share.deserved.items()
        if 0 <= most < share.allocated.get(name, 0) and name != _NOT_DIVIDED
    )
    if not over:
        return None
    text = f"it holds more {' and '.join(over)} than its quota; the excess may be reclaimed"
    return "AboveQuota", text


def _over_limit(limit: IntVec, share: QueueShare, names: Sequence[str]) -> tuple[str, str] | None:
    """Return what a queue holds beyond its limit, not by our binds."""
    over = [
        f"{name} {format_amount(name, share.allocated[name])} of a limit of"
        f" {format_amount(name, most)}"
        for name, most in zip(names, limit.tolist(), strict=True)
        if most < share.allocated.get(name, 0) and name != _NOT_DIVIDED
    ]
    if not over:
        return None
    return "AboveLimit", f"it holds {' and '.join(over)}: nothing that asks for more of it starts"


def _condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def matches(current: Any, desired: Mapping[str, Any]) -> bool:
    """Tell whether a status has the desired values, apart from the times of conditions."""
    if not isinstance(current, Mapping):
        return False
    return all((_plain(current.get(key)) or None) == (it or None) for key, it in desired.items())


def stamped(desired: dict[str, Any], current: Any, now: str) -> dict[str, Any]:
    """Return a queue's status with the time at which the status of each condition last changed.

    Args:
        desired: the status to be written.
        current: the status that the object has.
        now: the time, as it is written.

    """
    before: dict[tuple[str, str], str] = {}
    for it in current.get("conditions") or () if isinstance(current, Mapping) else ():
        if isinstance(it, Mapping) and it.get("lastTransitionTime"):
            before[str(it.get("type")), str(it.get("status"))] = str(it["lastTransitionTime"])
    conditions = [
        {**it, "lastTransitionTime": before.get((it["type"], it["status"]), now)}
        for it in desired["conditions"]
    ]
    return {**desired, "conditions": conditions}


def _plain(value: Any) -> Any:
    """Return a part of a status without times."""
    if not isinstance(value, list):
        return value
    return [
        {key: part for key, part in it.items() if key != "lastTransitionTime"}
        if isinstance(it, Mapping)
        else it
        for it in value
    ]


# -- shares of queues ------------------------------------------------------------------------------
# With usage history every fair share moves all the time. So queues take turns, a few in each
# round.

MOST_QUEUES: Final = 10
"""Queues whose status is computed per round."""


class QueueShares:
    """The part of the status of queues that changes with what others do."""

    def __init__(self) -> None:
        """Begin without queues."""
        self._queues: QueueTable | None = None
        self._numbers: Amounts = np.zeros((0, 0), np.int64)
        """``(X, Q)`` the numbers of which the status of each queue was last made."""
        self._next = 0

    def changed(
        self, snapshot: Snapshot, result: CycleResult
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name, status) of a few queues for which it has changed, each in its turn."""
        shares = without_session(result.shares)
        if not isinstance(shares, ShareTable):
            return
        pending = pending_jobs(snapshot, result)
        numbers = np.vstack((shares.fair_share, shares.allocated, pending[None]))
        if shares.queues is not self._queues or numbers.shape != self._numbers.shape:
            self._numbers = np.full_like(numbers, -1)
            self._queues, self._next = shares.queues, 0
        rows = np.any(numbers != self._numbers, axis=0).nonzero()[0]
        rows = np.roll(rows, -int(np.searchsorted(rows, self._next)))[:MOST_QUEUES]
        for row in rows.tolist():
            self._numbers[:, row], self._next = numbers[:, row], row + 1
            yield shares.queues.name[row], share_status(shares[row], int(pending[row]))


def share_status(share: QueueShare, pending: int) -> dict[str, Any]:
    """Return the share of a queue as the status shows it; a null removes what was there."""
    fair = share.fair_share
    shown = quantities(fair)
    endless = quantities({name: 1 for name, amount in fair.items() if amount < 0})
    full = share.saturation
    return {
        "fairShare": {**shown, **dict.fromkeys(endless, "unlimited")},
        "saturation": None if full is None else f"{full:.0%}",
        "pendingJobs": pending,
    }


def pending_jobs(snapshot: Snapshot, result: CycleResult) -> IntVec:
    """Return ``(Q,)`` how many jobs stay pending in each queue and those below it."""
    queue = snapshot.jobs.queue_of_job[result.records.rows]
    count = np.bincount(queue[queue >= 0], minlength=len(snapshot.queues))
    before = np.concatenate([[0], np.cumsum(count)])
    found: IntVec = before[snapshot.queues.tree.end_of_queue] - before[:-1]
    return found


# -- amounts of pod groups -------------------------------------------------------------------------


class GroupAmounts:
    """The amounts that pod groups ask for and hold, computed again after changes."""

    def __init__(self) -> None:
        """Begin without a snapshot."""
        self._sums: Amounts = np.zeros((0, 0), np.int64)
        """``(2 R, J)`` what jobs ask for, pending or not, above what they hold."""
        self._generation = self._revision = -1

    def changed(
        self,
        snapshot: Snapshot,
        is_declared: Callable[[str], bool],
        also: Sequence[int] = (),
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (job, status) of pod groups whose amounts differ from the last snapshot.

        Yield all of them when the rows have changed their meaning since.

        Args:
            snapshot: the present one.
            is_declared: tells whether a job has a pod group.
            also: rows of jobs to yield in any case.

        """
        if snapshot.revision == self._revision and not also:
            return
        self._revision = snapshot.revision
        names = snapshot.axis.names
        size = len(names)
        for row in sorted({*self._count(snapshot), *also}):
            job = snapshot.jobs.name[row]
            if not is_declared(job):
                continue
            asked, held = self._sums[:size, row].tolist(), self._sums[size:, row].tolist()
            is_firm = not snapshot.jobs.is_preemptible[row]
            firm = held if is_firm else [0] * size
            amounts = (("requested", asked), ("allocated", held), ("allocatedNonPreemptible", firm))
            yield (
                job,
                {
                    "resourcesStatus": {
                        key: quantities(dict(zip(names, it, strict=True))) for key, it in amounts
                    }
                },
            )

    def _count(self, snapshot: Snapshot) -> list[int]:
        """Sum the pods of each job; return the jobs that are new or have other sums."""
        sums, before = _sums(snapshot), self._sums
        if snapshot.generation != self._generation or len(sums) != len(before):
            before = sums[:, :0]
        self._generation, self._sums = snapshot.generation, sums
        known = before.shape[1]
        is_other = np.any(sums[:, :known] != before, axis=0)
        return [*np.flatnonzero(is_other).tolist(), *range(known, sums.shape[1])]


def _sums(snapshot: Snapshot) -> Amounts:
    """Return ``(2 R, J)`` what jobs ask for, pending or not, above what they hold."""
    tasks, shapes = snapshot.tasks, snapshot.shapes
    holds = ALLOCATED_STATES[tasks.state]
    pods = np.flatnonzero((holds | (tasks.state == TaskState.PENDING)) & (tasks.job_of_task >= 0))
    shape = tasks.shape_of_task[pods]
    request = shapes.charge[:, shape]
    if shapes.by_card is not None:
        size = card_mib(snapshot.nodes, tasks.node_of_task[pods])
        request[GPU] -= shapes.by_card.saved(shape, size)
    amounts = np.vstack((request, request * holds[pods]))
    sums = np.zeros((len(amounts), len(snapshot.jobs.name)), np.int64)
    for row, more in zip(sums, amounts, strict=True):
        np.add.at(row, tasks.job_of_task[pods], more)
    return sums
