"""Predicting queues' sequences in blocks: one question for many positions.

A leaf's block assumes that each job before an item is placed; an inner queue merges its children's
lines under the same assumption. Gates and keys are asked for all positions of a block at once.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kaisched.actions.line import Item

if TYPE_CHECKING:
    from kaisched.actions.candidates import Candidates
    from kaisched.actions.line import Key, Line
    from kaisched.core.axis import Amounts, CodeVec, IntVec, RowVec
    from kaisched.framework.session import Session


class _Block(NamedTuple):
    """Items of one or several lines, with what was answered about them."""

    at: RowVec
    counted: Amounts
    """``(R, K)`` what each would add to its queue: nothing where a child has refused it."""
    codes: CodeVec | None
    keys: list[Key]


def _running_dry(leaf: Line) -> list[Line]:
    """Return a leaf and its siblings that will soon need another block: one question for all."""
    lines = [leaf]
    if leaf.parent is not None:
        lines += [
            other for other in leaf.parent.children if other is not leaf and other.is_running_dry()
        ]
    return lines


class Prediction:
    """Extends lines; asks the plugins about assumed positions."""

    def __init__(self, session: Session, action: str, candidates: Candidates) -> None:
        """Bind what is asked about."""
        self._session = session
        self._action = action
        self._ask = session.ask
        self._candidates = candidates
        self._is_strict = ~session.jobs.is_preemptible[candidates.job]
        self._has_strict = bool(self._is_strict.any())

    def extend(self, line: Line) -> bool:
        """Predict at least one more item; False when there is none."""
        if line.jobs is not None:
            if line.next_job >= len(line.jobs):
                return False
            self.extend_leaves(_running_dry(line))
            return True
        merged = [] if line.is_shut else self._merge(line)
        if not merged:
            return False
        line.grow_block()
        if line.parent is None:
            line.items.extend(merged)
        else:
            self._take_merged(line, merged)
        return True

    def extend_leaves(self, leaves: list[Line]) -> None:
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
        self, lines: list[Line], at: RowVec, ask: Amounts, counted: Amounts, lengths: IntVec
    ) -> _Block:
        """Ask gates and keys for consecutive positions of each line."""
        session = self._session
        job = self._candidates.job[at]
        queue = np.repeat([line.row for line in lines], lengths)
        held = self._positions([self._held(line) for line in lines], counted, lengths)
        strict = held
        if self._has_strict:
            bases = [self._held_strict(line) for line in lines]
            strict = self._positions(bases, counted * self._is_strict[at], lengths)
        codes = self._ask.queue_gate(session, self._action, queue, job, ask, held, strict)
        keys: list[Key] = [()] * len(at)
        if not all(line.is_alone() for line in lines):
            columns = self._ask.queue_order(session, queue, held, ask)
            if columns:
                keys = list(zip(*(column.tolist() for column in columns), strict=True))
        return _Block(at, counted, codes, keys)

    def _positions(self, bases: list[Amounts], counted: Amounts, lengths: IntVec) -> Amounts:
        """``(R, K)`` what each line's queue would hold before each of its items."""
        before = np.cumsum(counted, axis=1) - counted
        base = np.stack(bases, axis=1)
        starts = np.cumsum(lengths) - lengths
        positions: Amounts = before + np.repeat(base - before[:, starts], lengths, axis=1)
        return positions

    def _held(self, line: Line) -> Amounts:
        if line.assumed is None:
            session = self._session
            held = session.ledger.held if session.has_moved else session.held
            line.assumed = held[:, line.row].copy()
        return line.assumed

    def _held_strict(self, line: Line) -> Amounts:
        if line.assumed_strict is None:
            line.assumed_strict = self._session.ledger.held_non_preemptible[:, line.row].copy()
        return line.assumed_strict

    def _assume(self, line: Line, block: _Block, start: int, end: int) -> None:
        """Count accepted items in what the queue would hold."""
        counted = block.counted[:, start:end]
        line.assumed = self._held(line) + counted.sum(axis=1)
        if self._has_strict:
            strict = counted * self._is_strict[block.at[start:end]]
            line.assumed_strict = self._held_strict(line) + strict.sum(axis=1)

    def _take_block(self, leaf: Line, block: _Block, start: int, end: int) -> None:
        """Append a leaf's part of a block, up to and with the first item that is refused.

        Behind a refusal the positions are wrong: they counted it.
        """
        code = 0
        if block.codes is not None:
            refused = np.flatnonzero(block.codes[start:end])
            if refused.size:
                end = start + int(refused[0]) + 1
                code = int(block.codes[end - 1])
        rows = block.at[start:end].tolist()
        leaf.items.extend([Item(row, 0) for row in rows])
        leaf.keys.extend(block.keys[start:end])
        if code:
            leaf.items[-1] = Item(rows[-1], code)
        accepted = end - 1 if code else end
        if accepted > start:
            self._assume(leaf, block, start, accepted)
        leaf.next_job += end - start
        leaf.grow_block()

    def _take_merged(self, line: Line, merged: list[Item]) -> None:
        """Append merged items up to and with the first that this queue itself refuses.

        Behind such an item the children's predictions are wrong as well (they counted it), so
        nothing more is predicted here until its turn has come and the path starts anew.
        """
        at = np.array([item.at for item in merged], np.int64)
        accepted = np.array([item.code == 0 for item in merged])
        ask = self._candidates.asks(self._session, at)
        block = self._answered([line], at, ask, ask * accepted, np.array([len(at)]))
        end = len(merged)
        if block.codes is not None:
            refused = np.flatnonzero((block.codes != 0) & accepted)
            if refused.size:
                end = int(refused[0])
                line.is_shut = True
        line.items.extend(merged[:end])
        line.keys.extend(block.keys[:end])
        if end:
            self._assume(line, block, 0, end)
        if line.is_shut and block.codes is not None:
            line.items.append(Item(merged[end].at, int(block.codes[end])))
            line.keys.append(block.keys[end])

    # -- merging ---------------------------------------------------------------------------------

    def _merge(self, line: Line) -> list[Item]:
        """Take the next block of the children's items, best key first."""
        if len(line.children) == 1:
            return self._drain(line.children[0], line.block)
        heap = line.heap
        if heap is None:
            heap = line.heap = self._heads(line)
        merged: list[Item] = []
        while heap and len(merged) < line.block:
            _, row, index = heap[0]
            child = line.children[index]
            merged.append(child.items[child.pulled])
            child.pulled += 1
            if self._reaches(child):
                heapreplace(heap, (child.keys[child.pulled], row, index))
            else:
                heappop(heap)
        return merged

    def _heads(self, line: Line) -> list[tuple[Key, int, int]]:
        heap = [
            (child.keys[child.pulled], child.row, index)
            for index, child in enumerate(line.children)
            if self._reaches(child)
        ]
        heapify(heap)
        return heap

    def _drain(self, child: Line, count: int) -> list[Item]:
        while len(child.items) < child.pulled + count and self.extend(child):
            pass
        taken = child.items[child.pulled : child.pulled + count]
        child.pulled += len(taken)
        return taken

    def _reaches(self, child: Line) -> bool:
        return child.pulled < len(child.items) or self.extend(child)
