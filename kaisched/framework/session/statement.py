"""A journal of tentative moves: checkpoint, roll back exactly, commit or discard.

Every entry has an inverse. Amounts are integers, so undoing an entry leaves the ledger exactly as
it was. A commit passes the moves to the session's outcome; nothing is sent to the API server here.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kaisched.core.axis import RowVec
    from kaisched.framework.session.cards import Given
    from kaisched.framework.session.outcome import Reason
    from kaisched.framework.session.session import Session

_RELEASING: Final = int(TaskState.RELEASING)
_ALLOCATED = int(TaskState.ALLOCATED)
_PIPELINED = int(TaskState.PIPELINED)
_EVICTED = (_RELEASING, _PIPELINED)
"""States of an evicted task: leaving, or promised a new place; a task that may stay runs again."""
_FEW = 8
"""Up to so many tasks are evicted faster one by one."""


class Batch(NamedTuple):
    """Pending tasks placed on idle capacity, or nominated for capacity being released."""

    tasks: RowVec
    nodes: RowVec
    shape: int
    """That of all tasks; -1 for tasks that were placed one by one."""
    state: int


class Release(NamedTuple):
    """Running tasks evicted together."""

    tasks: RowVec
    nodes: RowVec
    old_states: np.ndarray[tuple[int], np.dtype[np.int8]]


class Relocation(NamedTuple):
    """A task being released that is nominated for another node."""

    task: int
    node: int
    old_node: int


class Change(NamedTuple):
    """One task moved from one state to another."""

    task: int
    state: int
    node: int
    old_state: int
    old_node: int
    given: Given | None
    """The shared GPUs that it had got in this cycle; None if none."""


Entry: TypeAlias = Batch | Release | Relocation | Change


def evicted_in(entry: Entry) -> list[tuple[int, int]]:
    """Return (task, node) of what an entry of the journal has evicted."""
    if isinstance(entry, Release):
        return list(zip(entry.tasks.tolist(), entry.nodes.tolist(), strict=True))
    if isinstance(entry, Change) and entry.state == _RELEASING:
        return [(entry.task, entry.node)]
    return []


class Statement:
    """Tentative moves on the session's ledger. Open with ``session.statement()``."""

    __slots__ = ("_journal", "_ledger", "_listens", "_session")

    def __init__(self, session: Session) -> None:
        """Start with an empty journal."""
        self._session = session
        self._ledger = session.ledger
        self._journal: list[Entry] = []
        self._listens = session.placement.listens

    def place(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Allocate pending ``tasks`` of one shape to ``nodes``, entry by entry, if idle."""
        self._place(Batch(tasks, nodes, shape, _ALLOCATED))

    def place_each(self, pods: Iterable[tuple[int, int, int]]) -> None:
        """Allocate pending tasks on idle capacity, given as (task, node, shape), one by one.

        Each is asked for when the one before it is placed. Amounts of queues and pods of jobs are
        counted once all are placed.
        """
        tasks: list[int] = []
        nodes: list[int] = []
        place = self._ledger.place_one
        try:
            for task, node, shape in pods:
                place(task, node, shape)
                tasks.append(task)
                nodes.append(node)
                self._note(task, node, 1)
        finally:
            if tasks:
                batch = Batch(np.array(tasks), np.array(nodes), -1, _ALLOCATED)
                self._ledger.count_placed(batch.tasks, batch.nodes, 1)
                self._journal.append(batch)

    def allocate(self, task: int, node: int) -> None:
        """Place a task on idle capacity."""
        self._change(task, _ALLOCATED, node)

    def pipeline(self, task: int, node: int) -> None:
        """Nominate a task for capacity that is being released."""
        self._change(task, _PIPELINED, node)

    def promise(self, tasks: RowVec, nodes: RowVec, shape: int) -> None:
        """Nominate pending ``tasks`` of one shape, entry by entry, for capacity being released."""
        self._place(Batch(tasks, nodes, shape, _PIPELINED))

    def _place(self, batch: Batch) -> None:
        self._ledger.place_pending(*batch)
        self._journal.append(batch)
        self._note(batch.tasks, batch.nodes, 1)

    def evict(self, task: int) -> None:
        """Evict a running task; what it holds is being released from now on."""
        self._change(task, _RELEASING, int(self._ledger.node_of_task[task]))

    def evict_all(self, tasks: RowVec) -> None:
        """Evict running tasks of jobs together."""
        if len(tasks) <= _FEW:
            for task in tasks.tolist():
                self.evict(task)
            return
        ledger = self._ledger
        entry = Release(tasks, ledger.node_of_task[tasks], ledger.state[tasks])
        ledger.release_all(tasks, 1)
        ledger.state[tasks] = _RELEASING
        self._journal.append(entry)
        self._note(tasks, entry.nodes, -1)

    def relocate(self, task: int, node: int) -> None:
        """Nominate an evicted task for another node; it moves once it has left its old one."""
        old_node = self._ledger.relocate(task, node)
        self._journal.append(Relocation(task, node, old_node))
        self._note(task, node, 1)

    def may_spare(self, task: int) -> bool:
        """Tell whether an evicted task could stay: room, cards and devices are not promised."""
        session, ledger = self._session, self._ledger
        shape, node = int(session.tasks.shape_of_task[task]), int(ledger.node_of_task[task])
        is_free = session.devices is None or session.devices.may_stay(task)
        return is_free and session.capacity.may_stay(task, shape, node)

    def spare(self, task: int) -> None:
        """Undo the eviction of a task."""
        old_state = int(self._session.tasks.state[task])
        self._change(task, old_state, int(self._ledger.node_of_task[task]))

    def checkpoint(self) -> int:
        """Return a mark to roll back to."""
        return len(self._journal)

    def rollback(self, mark: int = 0) -> None:
        """Take back every move since ``mark``."""
        ledger = self._ledger
        while len(self._journal) > mark:
            entry = self._journal.pop()
            if isinstance(entry, Batch):
                if entry.shape >= 0:
                    ledger.take_back_pending(*entry)
                else:
                    self._take_back_each(entry)
                self._note(entry.tasks, entry.nodes, -1)
            elif isinstance(entry, Release):
                ledger.release_all(entry.tasks, -1)
                ledger.state[entry.tasks] = entry.old_states
                self._note(entry.tasks, entry.nodes, 1)
            elif isinstance(entry, Relocation):
                ledger.take_back_relocated(entry.task, entry.old_node)
                self._note(entry.task, entry.node, -1)
            else:
                self._set_state(entry.task, entry.old_state, entry.old_node, entry.given)
                self._note_change(
                    entry.task, entry.state, entry.node, entry.old_state, entry.old_node
                )

    def pipeline_all(self, mark: int = 0) -> None:
        """Turn allocations since ``mark`` into nominations: a gang starts whole or waits whole.

        Evictions stay as they are; no evicted task may have been moved since ``mark``. Pods keep
        their cards and devices: in another order there might be none for the last one.
        """
        if not self.has_allocated(mark):
            return  # all of it is a promise already, as nearly always
        moves: list[tuple[int, int, int]] = []
        for entry in self._journal[mark:]:
            assert not isinstance(entry, Relocation | Release)
            if isinstance(entry, Batch):
                pairs = zip(entry.tasks.tolist(), entry.nodes.tolist(), strict=True)
                moves.extend((task, _PIPELINED, node) for task, node in pairs)
            else:
                state = _PIPELINED if entry.state == _ALLOCATED else entry.state
                moves.append((entry.task, state, entry.node))
        cards, again, devices = self._session.capacity.cards, None, self._session.devices
        tasks = [task for task, *_ in moves]
        given = None if cards is None else cards.given_to(tasks)
        with nullcontext() if devices is None else devices.giving(devices.given_to(tasks)):
            self.rollback(mark)
            if cards is not None and given is not None:
                again = cards.as_promises([(task, node) for task, _, node in moves], given)
            for task, state, node in moves:
                self._change(task, state, node, again)

    @property
    def has_pipelined(self) -> bool:
        """True when some move is only a nomination."""
        return self._has_placed(_PIPELINED, 0)

    def has_allocated(self, mark: int = 0) -> bool:
        """Tell whether some move since ``mark`` takes idle capacity."""
        return self._has_placed(_ALLOCATED, mark)

    def _has_placed(self, state: int, mark: int) -> bool:
        return any(
            isinstance(entry, Batch | Change) and entry.state == state
            for entry in self._journal[mark:]
        )

    def evicted(self) -> int:
        """Return how many pods the moves evict, those that get another node included."""
        return sum(len(evicted_in(entry)) for entry in self._journal)

    def commit(self, action: str, beneficiary: int = -1, reason: Reason = "") -> None:
        """Keep the moves, for a job or for none (-1): they become the cycle's intents."""
        outcome, state = self._session.outcome, self._ledger.state
        start = outcome.counts() if beneficiary >= 0 else None
        for entry in self._journal:
            if isinstance(entry, Batch) and entry.state == _ALLOCATED:  # nearly all there is
                outcome.bind(entry.tasks, entry.nodes)
                continue
            for task, node in evicted_in(entry):
                if state[task] in _EVICTED:
                    outcome.evict(task, node, action, beneficiary, reason)
            self._keep(entry)
        payers = self._session.claim_payers
        if payers is not None:
            payers.count_with(self._tasks(), self._ledger)
        self._journal.clear()
        if start is not None:
            outcome.end_step(action, self._session.jobs.name[beneficiary], start)
        outcome.commit()

    def _tasks(self) -> Iterator[int]:
        """Yield the tasks that have moved."""
        for entry in self._journal:
            if isinstance(entry, Batch | Release):
                yield from entry.tasks.tolist()
            else:
                yield entry.task

    def _keep(self, entry: Entry) -> None:
        """Record in the outcome what an entry of the journal has placed."""
        outcome = self._session.outcome
        if isinstance(entry, Batch):
            for task, node in zip(entry.tasks.tolist(), entry.nodes.tolist(), strict=True):
                outcome.nominate(task, node)
        elif isinstance(entry, Change) and entry.state == _ALLOCATED:
            outcome.bind(np.array([entry.task]), np.array([entry.node]))
        elif isinstance(entry, Relocation) or (
            isinstance(entry, Change) and entry.state == _PIPELINED
        ):
            outcome.nominate(entry.task, entry.node)

    def _change(self, task: int, state: int, node: int, again: Given | None = None) -> None:
        """Move a task, which gets the cards ``again``, or keeps those that it has on the node."""
        cards, given = self._session.capacity.cards, None
        if cards is not None:
            given = cards.given_to((task,))
            if again is None and node == self._ledger.node_of_task[task]:
                again = given
        old_state, old_node = self._set_state(task, state, node, again)
        self._journal.append(Change(task, state, node, old_state, old_node, given))
        self._note_change(task, old_state, old_node, state, node)

    def _set_state(self, task: int, state: int, node: int, given: Given | None) -> tuple[int, int]:
        cards = self._session.capacity.cards
        if given is None or cards is None:
            return self._ledger.set_state(task, state, node)
        with cards.giving(given):
            return self._ledger.set_state(task, state, node)

    def _take_back_each(self, batch: Batch) -> None:
        """Undo :meth:`place_each`, the last pod first."""
        pairs = zip(batch.tasks[::-1].tolist(), batch.nodes[::-1].tolist(), strict=True)
        for task, node in pairs:
            self._ledger.take_back_one(task, node)
        self._ledger.count_placed(batch.tasks, batch.nodes, -1)

    def _note_change(self, task: int, old_state: int, old_node: int, state: int, node: int) -> None:
        if old_node >= 0 and old_state != _RELEASING:
            self._note(task, old_node, -1)
        if node >= 0 and state != _RELEASING:
            self._note(task, node, 1)

    def _note(self, tasks: RowVec | int, nodes: RowVec | int, sign: int) -> None:
        """Notify devices and plugins of moves, if any of them listen."""
        if self._listens:
            record_moves = self._session.placement.record_moves
            record_moves(np.atleast_1d(tasks), np.atleast_1d(nodes), sign)
