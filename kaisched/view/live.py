"""Live view of a shard: what its last cycle found, as immutable arrays taken in the loop.

Taking it costs little, because sentences, names and documents are made later, by whoever reads. So
a view refers to nothing that changes: to the snapshot, to vectors of rows, never to the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kaisched.framework.report.result import ShareTable, granted_to, without_session
from kaisched.view.history import NO_HISTORY, History

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kaisched.core.axis import BoolVec, CodeVec, FloatVec, RowVec
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage
    from kaisched.framework.plugins.asking import NamedKey
    from kaisched.framework.report.records import PluginFailure, QueueShare
    from kaisched.framework.report.result import CycleResult
    from kaisched.framework.session.devices import Devices
    from kaisched.framework.session.session import Session

_ALLOCATE: Final = "allocate"
_ROWS: Final = 5
"""So many columns of moves, from the first on, are rows."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """One shard as of the end of a cycle."""

    shard: str
    snapshot: Snapshot
    """The state that the cycle decided on; :attr:`moves` come on top of it."""
    shares: Sequence[QueueShare]
    waiting: Waiting
    moves: Moves
    misplaced: Mapping[int, str]
    """The queue that each job names which is in none."""
    failures: tuple[PluginFailure, ...]
    abandoned: str
    """Why the cycle ended without decisions; empty if it did not."""
    usage: Usage | None
    time_s: float = 0.0
    """End of the cycle, seconds since 1970."""
    cycle: int = 0
    """Number of the cycle."""
    revision: int = 0
    """Grows when a cycle found anything else than the one before."""
    since_s: float = 0.0
    """End of the first cycle of the revision."""
    history: History = field(default=NO_HISTORY)


def view_of(
    result: CycleResult, shard: str = "", *, usage: Usage | None = None, time_s: float = 0.0
) -> LiveView:
    """Take the view of a cycle's result, in the thread that ran the cycle."""
    session: Session = result.records.session
    snapshot, jobs = session.snapshot, session.jobs
    return LiveView(
        shard,
        snapshot,
        without_session(result.shares),
        _waiting(result, session),
        Moves(
            result.bind_tasks,
            result.bind_nodes,
            result.evict_tasks,
            result.nominate_tasks,
            result.nominate_nodes,
            dict(result.bind_cards),
            {} if session.devices is None else _granted(session.devices, result.bind_tasks),
        ),
        {row: jobs.queue_name[row] for row in np.flatnonzero(jobs.queue_of_job < 0).tolist()},
        result.failures,
        result.stats.abandoned,
        usage,
        time_s,
        since_s=time_s,
    )


def _granted(devices: Devices, bound: RowVec) -> dict[int, tuple[str, ...]]:
    """Return the devices that claims get with bound pods."""
    return {task: granted_to(devices, task) for task in bound.tolist() if task in devices.granted}


def _waiting(result: CycleResult, session: Session) -> Waiting:
    rows, codes, jobs = result.records.rows, result.records.codes, session.jobs
    pending = session.ledger.job_pending if session.has_moved else jobs.pending
    takes_part = (jobs.queue_of_job >= 0) & (jobs.refusal == 0) & (pending > 0)
    is_in_order = takes_part[rows]
    if result.stats.abandoned:
        return Waiting(rows, codes, np.zeros_like(is_in_order), (), jobs.created_s)
    gated = session.ask.job_gate(session, _ALLOCATE, rows)
    if gated is not None:
        is_in_order &= gated == 0
    found = session.ask.named_keys("job_order", session, rows[is_in_order])
    # A plugin may answer with a column that it goes on to change.
    keys = tuple(it._replace(column=it.column.copy()) for it in found)
    return Waiting(rows, codes, is_in_order, keys, jobs.created_s)


def is_same(old: LiveView, new: LiveView) -> bool:
    """Tell whether two views of a shard show the same, apart from the time."""
    if old.snapshot is not new.snapshot or _said(old) != _said(new):
        return False
    before, after = _columns(old), _columns(new)
    return None not in (before, after) and all(map(np.array_equal, before or (), after or ()))


def _said(view: LiveView) -> tuple[object, ...]:
    usage = view.usage
    return (view.abandoned, view.failures, None if usage is None else (usage.state, usage.reasons))


def _columns(view: LiveView) -> list[NDArray[Any]] | None:
    """Return what is compared of a view; None where its shares are a list of the policy's own."""
    if not isinstance(view.shares, ShareTable):
        return None
    used = [] if view.usage is None else [view.usage.parts]
    moved = view.moves[:_ROWS]
    return [view.waiting.rows, view.waiting.codes, *moved, view.shares.fair_share, *used]


def following(before: LiveView | None, view: LiveView, history: History, cycle: int) -> LiveView:
    """Return a view with its numbers, which follow from the view before it."""
    if before is not None and is_same(before, view):
        revision, since_s = before.revision, before.since_s
    else:
        revision, since_s = (0 if before is None else before.revision) + 1, view.time_s
    return replace(view, history=history, cycle=cycle, revision=revision, since_s=since_s)


class Waiting(NamedTuple):
    """The jobs that stay pending after a cycle, and what decides their order."""

    rows: RowVec
    """Their rows, ascending."""
    codes: CodeVec
    """The dominant reason of each."""
    is_in_order: BoolVec
    """Whether each takes part in the order of allocate."""
    keys: tuple[NamedKey, ...]
    """The keys of those that do, inside their queues, low first."""
    queued_s: FloatVec
    """``(J,)`` since when each job is queued: its creation, or when its time was last over."""


class Moves(NamedTuple):
    """What a cycle decided, as rows."""

    bind_tasks: RowVec
    bind_nodes: RowVec
    evict_tasks: RowVec
    nominate_tasks: RowVec
    nominate_nodes: RowVec
    bind_cards: Mapping[int, tuple[int, ...]]
    """The cards of bound pods with a share of GPUs, as slots of their nodes."""
    bind_devices: Mapping[int, tuple[str, ...]]
    """The devices that claims of bound pods get with them."""
