"""Predicts queues' sequences in blocks: one question for many positions.

A leaf's block assumes that each job before an item is placed; an inner queue merges its children's
sequences under the same assumption. One question asks gates or keys for all positions of a block.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.actions.order.sequence import Pick

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.actions.order.sequence import Key, QueueSequence
    from kaisched.core.axis import Amounts, CodeVec, IntVec, RowVec
    from kaisched.framework.session.session import Session


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
