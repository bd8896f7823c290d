"""The desired status of queues and pod groups, in the form of KAI-Scheduler's kinds.

This module only computes it; ``reports`` decides what is written and when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kaisched.core.axis import Amounts, RowVec
from kaisched.core.refusals import Refusal
from kaisched.core.snapshot import Snapshot
from kaisched.core.states import ALLOCATED_STATES, TaskState
from kaisched.core.tree import roll_up
from kaisched.errors import ObjectError
from kaisched.framework.report.records import QueueShare
from kaisched.units import MEBIBYTE, MEMORY_UNIT, is_in_bytes

TRUE: Final = "True"
FALSE: Final = "False"
READY: Final = "Ready"
ORPHAN: Final = "Orphan"
OVER_QUOTA: Final = "OverQuota"
"""Types of a queue's conditions; the last two are KAI-Scheduler's."""
_UNITS: Final = {"cpu": ("cpu", "m"), "gpu": ("nvidia.com/gpu", "m")}
_NOT_DIVIDED: Final = "pods"
_PARENT: Final = "spec.parentQueue"


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts in base units as Kubernetes quantities, without pod slots.

    Zeros are included: a merge patch leaves what it does not name as it was.
    """
    found = {}
    for name, amount in amounts.items():
        shown, unit = _UNITS.get(name, (name, ""))
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


# -- queues ----------------------------------------------------------------------------------------


class QueueStatuses:
    """The desired status of queues, computed again after changes."""

    def __init__(self) -> None:
        """Begin without a snapshot."""
        self._seen: tuple[int, object] | None = None

    def changed(
        self, snapshot: Snapshot, shares: Sequence[QueueShare], faults: Mapping[str, ObjectError]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (name, status) of all queues; of none if nothing has changed since the last call.

        Args:
            snapshot: of the cycle.
            shares: what the cycle found.
            faults: by name, what is wrong with queues that are not used.

        """
        now = (snapshot.revision, faults)
        if now != self._seen:
            self._seen = now
            yield from queue_statuses(snapshot, shares, faults)


def queue_statuses(
    snapshot: Snapshot, shares: Sequence[QueueShare], faults: Mapping[str, ObjectError]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, status) of every queue, including those that are not used.

    Args:
        snapshot: of the cycle.
        shares: what the cycle found.
        faults: by name, what is wrong with queues that are not used.

    """
    children: dict[str, list[str]] = {}
    for share in shares:
        children.setdefault(share.parent or "", []).append(share.name)
    firm = roll_up(snapshot.allocated_non_preemptible, snapshot.queues.tree)
    misplaced = _misplaced(snapshot)
    names = snapshot.axis.names
    for share in shares:
        row = snapshot.queues.row_of_name.get(share.name)
        if row is not None:
            held = {name: int(firm[at, row]) for at, name in enumerate(names)}
            below = sorted(children.get(share.name, ()))
            yield (
                share.name,
                {
                    "allocated": quantities(share.allocated),
                    "allocatedNonPreemptible": quantities(held),
                    "requested": quantities(share.requested),
                    "childQueues": below,
                    "conditions": [
                        _ready(share, misplaced[share.name]),
                        _condition(ORPHAN, FALSE, "ParentUsable", ""),
                        _over_quota(share),
                    ],
                },
            )
    nothing = quantities(dict.fromkeys(names, 0))
    for name, fault in faults.items():
        yield name, _unused(fault, nothing, sorted(children.get(name, ())))


def _unused(fault: ObjectError, nothing: dict[str, str], below: list[str]) -> dict[str, Any]:
    """Return the status of a queue that is not used."""
    is_orphan = fault.path == _PARENT
    reason = "ParentUnusable" if is_orphan else "Invalid"
    return {
        **dict.fromkeys(("allocated", "allocatedNonPreemptible", "requested"), nothing),
        "childQueues": below,
        "conditions": [
            _condition(READY, FALSE, reason, str(fault)),
            _condition(ORPHAN, TRUE if is_orphan else FALSE, reason, ""),
            _condition(OVER_QUOTA, FALSE, "WithinQuota", ""),
        ],
    }


def _misplaced(snapshot: Snapshot) -> Counter[str]:
    """Count the jobs that wait in a queue which has queues below it, by its name."""
    jobs = snapshot.jobs
    rows = np.flatnonzero((jobs.refusal == int(Refusal.QUEUE_NOT_LEAF)) & (jobs.pending > 0))
    return Counter(jobs.queue_name[row] for row in rows.tolist())


def _ready(share: QueueShare, misplaced: int) -> dict[str, str]:
    """Return the condition that says whether a queue is usable, and its worst problem if not."""
    if misplaced:
        text = f"{misplaced} jobs name this queue, which has queues below it; name one of those"
        return _condition(READY, FALSE, "NotLeaf", text)
    if share.problem is not None:
        return _condition(READY, FALSE, *share.problem)
    return _condition(READY, TRUE, "Usable", "")


def _over_quota(share: QueueShare) -> dict[str, str]:
    over = sorted(
        name
        for name, most in share.deserved.items()
        if 0 <= most < share.allocated.get(name, 0) and name != _NOT_DIVIDED
    )
    if not over:
        return _condition(OVER_QUOTA, FALSE, "WithinQuota", "")
    return _condition(OVER_QUOTA, TRUE, "AboveQuota", f"it holds more {' and '.join(over)} than"
                      " its quota; the excess may be reclaimed")  # fmt: skip


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


# -- pod groups ------------------------------------------------------------------------------------


class GroupAmounts:
    """The amounts that pod groups ask for and hold, computed again after changes."""

    def __init__(self) -> None:
        """Begin without a snapshot."""
        self._before: tuple[int, Amounts] = (-1, np.zeros((0, 0), np.int64))
        self._revision = -1

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
        now = _amounts(snapshot)
        generation, before = self._before
        self._before = (snapshot.generation, now)
        is_new = np.ones(now.shape[1], np.bool_)
        if generation == snapshot.generation and len(before) == len(now):
            known = before.shape[1]
            is_new[:known] = np.any(now[:, :known] != before, axis=0)
        names = snapshot.axis.names
        size = len(names)
        is_new[list(also)] = True
        for row in np.flatnonzero(is_new).tolist():
            job = snapshot.jobs.name[row]
            if not is_declared(job):
                continue
            asked, held = now[:size, row].tolist(), now[size:, row].tolist()
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


def _amounts(snapshot: Snapshot) -> Amounts:
    """Return ``(2 R, J)`` what jobs ask for, pending or not, above what they hold."""
    tasks, jobs = snapshot.tasks, len(snapshot.jobs.name)
    state = tasks.state
    holds = ALLOCATED_STATES[state]
    rows: RowVec = np.flatnonzero((holds | (state == TaskState.PENDING)) & (tasks.job_of_task >= 0))
    job, holds = tasks.job_of_task[rows], holds[rows]
    request = snapshot.shapes.charge[:, tasks.shape_of_task[rows]]
    found: Amounts = np.zeros((2 * len(request), jobs), np.int64)
    for at, amount in enumerate(request):
        np.add.at(found[at], job, amount)
        np.add.at(found[at + len(request)], job[holds], amount[holds])
    return found
