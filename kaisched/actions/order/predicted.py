"""The fair order of jobs: each queue predicts a block of its sequence, its parent merges them.

At every level the queue with the lowest key is next. A queue's key depends on what it has allocated
and on its best candidate, so the order changes with each placement. Asking the plugins after every
placement would cost more than the rest of the cycle. But keys can also be asked for *assumed*
positions ("if this queue's first three jobs were placed"). So each queue predicts a block of its
own sequence in one question, and its parent merges the children's blocks. Predictions assume that
every job is placed. When a job is not, the queues on its path discard their predictions and start
again from what they really hold. The order is the same as if plugins were asked every time.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heapreplace
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from kaisched.actions.order.job_order import leaf_lists, order_entry

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.actions.order.job_order import LeafJobs
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session

    Key: TypeAlias = tuple[float | int, ...]


# One queue's predicted sequence of candidates, a node of the tree of queues.

FIRST_BLOCK: Final = 8
_FEW: Final = 4
LARGEST_BLOCK: Final = 256
"""Blocks double from the first to the largest while predictions hold; after a miss they start small
again. Estimates: a block of 8 costs hardly more than one item, of 256 a tenth of a millisecond."""


class Pick(NamedTuple):
    """A candidate's turn: its row among the candidates, and a refusal code (0 to try it)."""

    at: int
    code: int


class QueueSequence:
    """The predicted next items of a queue.

    ``items`` and ``keys`` have one entry for each item. ``head`` counts the items whose turn is
    over, ``pulled`` the items that the parent has merged into its own.
    """

    __slots__ = (
        "__weakref__",
        "_parent",
        "assumed",
        "assumed_strict",
        "block",
        "children",
        "entries",
        "head",
        "heap",
        "is_shut",
        "items",
        "jobs",
        "keys",
        "next_job",
        "pulled",
        "row",
    )

    def __init__(self, row: int, parent: QueueSequence | None) -> None:
        """Start with nothing predicted; ``row`` is the queue's, -1 for the root of all."""
        self.row = row
        # A weak reference: a cycle of references would keep the session alive.
        self._parent = None if parent is None else ref(parent)
        self.children: list[QueueSequence] = []
        self.jobs: LeafJobs | None = None
        """Of a leaf: the candidates still waiting, in order; ``items`` are the first of them."""
        self.entries: list[tuple[Any, ...]] | None = None
        """Of a leaf: sort entries of ``jobs``, made when a job is first put back."""
        self.next_job = 0
        self.items: list[Pick] = []
        self.keys: list[Key] = []
        self.head = 0
        self.pulled = 0
        self.block = FIRST_BLOCK
        self.assumed: Amounts | None = None
        """``(R,)`` what the queue would hold after its last item."""
        self.assumed_strict: Amounts | None = None
        """``(R,)`` what of that is non-preemptible."""
        self.heap: list[tuple[Key, int, int]] | None = None
        self.is_shut = False
        """True when this queue itself refuses the last item: no item behind it can be predicted."""

    @property
    def parent(self) -> QueueSequence | None:
        """The sequence of the queue above; None of the root."""
        return None if self._parent is None else self._parent()

    @property
    def waiting(self) -> LeafJobs:
        """The jobs of a leaf."""
        assert self.jobs is not None
        return self.jobs

    def is_alone(self) -> bool:
        """Tell whether the queue has no sibling with candidates."""
        above = self.parent
        return above is not None and len(above.children) == 1

    def is_running_dry(self) -> bool:
        """Tell whether a leaf has few predicted items left and jobs to predict more."""
        return (
            self.jobs is not None
            and len(self.items) - self.pulled < _FEW
            and self.next_job < len(self.jobs)
        )

    def next_block(self) -> list[int]:
        """Return the candidate rows of a leaf's next block."""
        end = self.next_job + self.block
        self.waiting.settle(end)
        return self.waiting.rows[self.next_job : end]

    def grow_block(self) -> None:
        """Double the size of the next block."""
        self.block = min(self.block * 2, LARGEST_BLOCK)

    def drop_head(self) -> None:
        """Take a leaf's first waiting job out."""
        self.waiting.drop_first(1)
        if self.entries is not None:
            del self.entries[0]

    def restart(self) -> None:
        """Discard predictions, and the items whose turn is over."""
        if self.jobs is not None:
            self.jobs.drop_first(self.head)
            if self.entries is not None:
                del self.entries[: self.head]
            self.next_job = 0
        self.heap = None
        self.is_shut = False
        for child in self.children:
            child.pulled = child.head
        self.items.clear()
        self.keys.clear()
        self.head = 0
        self.pulled = 0
        self.assumed = None
        self.assumed_strict = None
        self.block = FIRST_BLOCK


# Predicts queues' sequences in blocks: one question for many positions.
#
# A leaf's block assumes that each job before an item is placed; an inner queue merges its
# children's sequences under the same assumption. One question asks gates or keys for all positions
# of a block.


class _Block(NamedTuple):
    """Items of one or several sequences, with the plugins' answers about them."""

    at: RowVec
    counted: Amounts
    """``(R, K)`` what each item would add to its queue: 0 where a child has refused it."""
    codes: CodeVec | None
    keys: list[Key]


def _running_dry(leaf: QueueSequence) -> list[QueueSequence]:
    """Return a leaf and the siblings that will soon need a block too: one question for all."""
    sequences = [leaf]
    if leaf.parent is not None:
        sequences += [
            other for other in leaf.parent.children if other is not leaf and other.is_running_dry()
        ]
    return sequences


class Prediction:
    """Extends sequences; asks the plugins about assumed positions."""

    def __init__(self, session: Session, action: str, candidates: Candidates) -> None:
        """Bind the session, the action and its candidates."""
        self._session = session
        self._action = action
        self._ask = session.ask
        self._candidates = candidates
        self._is_strict = ~session.jobs.is_preemptible[candidates.job]
        self._has_strict = bool(self._is_strict.any())

    def extend(self, sequence: QueueSequence) -> bool:
        """Predict at least one more item of a sequence; False when there is none."""
        if sequence.jobs is not None:
            if sequence.next_job >= len(sequence.jobs):
                return False
            self.extend_leaves(_running_dry(sequence))
            return True
        merged = [] if sequence.is_shut else self._merge(sequence)
        if not merged:
            return False
        sequence.grow_block()
        if sequence.parent is None:
            sequence.items.extend(merged)
        else:
            self._take_merged(sequence, merged)
        return True

    def extend_leaves(self, leaves: list[QueueSequence]) -> None:
        """Predict the next block of several leaves in one question."""
        blocks = [leaf.next_block() for leaf in leaves]
        at = np.array([row for block in blocks for row in block], np.int64)
        lengths = np.array([len(block) for block in blocks])
        ask = self._candidates.asks(self._session, at)
        block = self._answered(leaves, at, ask, ask, lengths)
        start = 0
        for leaf, length in zip(leaves, lengths.tolist(), strict=True):
            self._take_block(leaf, block, start, start + length)
            start += length

    def _answered(
        self,
        sequences: list[QueueSequence],
        at: RowVec,
        ask: Amounts,
        counted: Amounts,
        lengths: IntVec,
    ) -> _Block:
        """Ask gates and keys for consecutive positions of each sequence."""
        session = self._session
        job = self._candidates.job[at]
        queue = np.repeat([sequence.row for sequence in sequences], lengths)
        held = self._positions([self._held(sequence) for sequence in sequences], counted, lengths)
        strict = held
        if self._has_strict:
            bases = [self._held_strict(sequence) for sequence in sequences]
            strict = self._positions(bases, counted * self._is_strict[at], lengths)
        codes = self._ask.queue_gate(session, self._action, queue, job, ask, held, strict)
        keys: list[Key] = [()] * len(at)
        if not all(sequence.is_alone() for sequence in sequences):
            columns = self._ask.contest(session, queue, job, held, ask)
            if columns:
                keys = list(zip(*(column.tolist() for column in columns), strict=True))
        return _Block(at, counted, codes, keys)

    def _positions(self, bases: list[Amounts], counted: Amounts, lengths: IntVec) -> Amounts:
        """``(R, K)`` what each sequence's queue would hold before each of its items."""
        before = np.cumsum(counted, axis=1) - counted
        base = np.stack(bases, axis=1)
        starts = np.cumsum(lengths) - lengths
        positions: Amounts = before + np.repeat(base - before[:, starts], lengths, axis=1)
        return positions

    def _held(self, sequence: QueueSequence) -> Amounts:
        if sequence.assumed is None:
            session = self._session
            held = session.ledger.held if session.has_moved else session.held
            sequence.assumed = held[:, sequence.row].copy()
        return sequence.assumed

    def _held_strict(self, sequence: QueueSequence) -> Amounts:
        if sequence.assumed_strict is None:
            sequence.assumed_strict = self._session.ledger.held_non_preemptible[
                :, sequence.row
            ].copy()
        return sequence.assumed_strict

    def _assume(self, sequence: QueueSequence, block: _Block, start: int, end: int) -> None:
        """Count accepted items in what the queue would hold."""
        counted = block.counted[:, start:end]
        sequence.assumed = self._held(sequence) + counted.sum(axis=1)
        if self._has_strict:
            strict = counted * self._is_strict[block.at[start:end]]
            sequence.assumed_strict = self._held_strict(sequence) + strict.sum(axis=1)

    def _take_block(self, leaf: QueueSequence, block: _Block, start: int, end: int) -> None:
        """Append a leaf's part of a block, up to and with the first item that is refused.

        Positions behind a refused item are wrong: they counted it.
        """
        code = 0
        if block.codes is not None:
            refused = np.flatnonzero(block.codes[start:end])
            if refused.size:
                end = start + int(refused[0]) + 1
                code = int(block.codes[end - 1])
        rows = block.at[start:end].tolist()
        leaf.items.extend([Pick(row, 0) for row in rows])
        leaf.keys.extend(block.keys[start:end])
        if code:
            leaf.items[-1] = Pick(rows[-1], code)
        accepted = end - 1 if code else end
        if accepted > start:
            self._assume(leaf, block, start, accepted)
        leaf.next_job += end - start
        leaf.grow_block()

    def _take_merged(self, sequence: QueueSequence, merged: list[Pick]) -> None:
        """Append merged items up to and with the first that this queue itself refuses.

        The children's predictions behind such an item are wrong as well: they counted it. So the
        queue predicts no more until the item's turn has come and the path starts anew.
        """
        at = np.array([item.at for item in merged], np.int64)
        accepted = np.array([item.code == 0 for item in merged])
        ask = self._candidates.asks(self._session, at)
        block = self._answered([sequence], at, ask, ask * accepted, np.array([len(at)]))
        end = len(merged)
        if block.codes is not None:
            refused = np.flatnonzero((block.codes != 0) & accepted)
            if refused.size:
                end = int(refused[0])
                sequence.is_shut = True
        sequence.items.extend(merged[:end])
        sequence.keys.extend(block.keys[:end])
        if end:
            self._assume(sequence, block, 0, end)
        if sequence.is_shut and block.codes is not None:
            sequence.items.append(Pick(merged[end].at, int(block.codes[end])))
            sequence.keys.append(block.keys[end])

    # -- merging ---------------------------------------------------------------------------------

    def _merge(self, sequence: QueueSequence) -> list[Pick]:
        """Take the next block of the children's items, best key first."""
        if len(sequence.children) == 1:
            return self._drain(sequence.children[0], sequence.block)
        heap = sequence.heap
        if heap is None:
            heap = sequence.heap = self._heads(sequence)
        merged: list[Pick] = []
        while heap and len(merged) < sequence.block:
            _, row, index = heap[0]
            child = sequence.children[index]
            merged.append(child.items[child.pulled])
            child.pulled += 1
            if self._reaches(child):
                heapreplace(heap, (child.keys[child.pulled], row, index))
            else:
                heappop(heap)
        return merged

    def _heads(self, sequence: QueueSequence) -> list[tuple[Key, int, int]]:
        heap = [
            (child.keys[child.pulled], child.row, index)
            for index, child in enumerate(sequence.children)
            if self._reaches(child)
        ]
        heapify(heap)
        return heap

    def _drain(self, child: QueueSequence, count: int) -> list[Pick]:
        while len(child.items) < child.pulled + count and self.extend(child):
            pass
        taken = child.items[child.pulled : child.pulled + count]
        child.pulled += len(taken)
        return taken

    def _reaches(self, child: QueueSequence) -> bool:
        return child.pulled < len(child.items) or self.extend(child)


class PredictedOrder:
    """Hands out candidates one after the other, from predicted sequences of queues."""

    def __init__(self, session: Session, action: str, candidates: Candidates) -> None:
        """Sort the candidates into their queues."""
        self._session = session
        self.candidates = candidates
        self._prediction = Prediction(session, action, candidates)
        self._alive = np.ones(len(candidates), np.bool_)
        self._root = QueueSequence(-1, None)
        self._path_of_queue: dict[int, list[QueueSequence]] = {}
        """By leaf queue: its sequence, the parent's sequence, and so on up to the root."""
        self._sequences: list[QueueSequence] = [self._root]
        self._lay_out()

    # -- for the caller --------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Pick | None:
        """Return the item ``ahead`` places from now, assuming those before it are placed."""
        root = self._root
        wanted = root.head + ahead
        while len(root.items) <= wanted:
            if not (self._alive.any() and self._prediction.extend(root)):
                return None
        return root.items[wanted]

    def placed(self, item: Pick) -> None:
        """Report that the next item was placed as predicted."""
        self._alive[item.at] = False
        for sequence in self._path_of(item):
            sequence.head += 1

    def refused(self, item: Pick) -> None:
        """Report that the next item was not placed; it leaves the order."""
        path = self._path_of(item)
        leaf = path[0]
        if item.code and leaf.items[leaf.head] == item:
            # The leaf predicted the refusal: no queue on the path has counted the item.
            self.placed(item)
            return
        self._alive[item.at] = False
        for sequence in path:
            sequence.restart()
        leaf.drop_head()

    def again(self, item: Pick) -> None:
        """Put the item just placed back with its next batch."""
        path = self._path_of(item)
        for sequence in path:
            sequence.restart()
        leaf = path[0]
        jobs = leaf.waiting
        if leaf.entries is None:
            jobs.settle(len(jobs))
            leaf.entries = order_entry(self._session, self.candidates, jobs.rows)
        entry = order_entry(self._session, self.candidates, [item.at])[0]
        place = bisect_left(leaf.entries, entry)
        jobs.insert(place, item.at)
        leaf.entries.insert(place, entry)
        self._alive[item.at] = True

    def drop(self, gone: RowVec) -> None:
        """Take out candidates that can no longer be placed, in whichever queue they wait."""
        self._alive[gone] = False
        for sequence in self._sequences:
            sequence.restart()
        if not np.count_nonzero(self._alive):
            return
        for leaf, *_ in self._path_of_queue.values():
            if leaf.entries is not None:
                marks = self._alive[leaf.waiting.rows].tolist()
                leaf.entries = list(compress(leaf.entries, marks))
            leaf.waiting.keep(self._alive)

    def waiting(self) -> BoolVec:
        """``(C,)`` which candidates still wait for their turn."""
        return self._alive

    # -- the tree --------------------------------------------------------------------------------

    def _path_of(self, item: Pick) -> list[QueueSequence]:
        return self._path_of_queue[int(self.candidates.queue[item.at])]

    def _lay_out(self) -> None:
        tree = self._session.queues.tree
        sequences: dict[int, QueueSequence] = {}
        for jobs in leaf_lists(self._session, self.candidates):
            above = self._root
            path = [above]
            for row in reversed(tree.path(jobs.queue).tolist()):
                sequence = sequences.get(row)
                if sequence is None:
                    sequence = sequences[row] = QueueSequence(row, above)
                    above.children.append(sequence)
                above = sequence
                path.insert(0, sequence)
            above.jobs = jobs
            self._path_of_queue[jobs.queue] = path
        self._sequences.extend(sequences.values())
        if len(self._path_of_queue) > 1:
            # Every leaf's first block in one question.
            self._prediction.extend_leaves([path[0] for path in self._path_of_queue.values()])
