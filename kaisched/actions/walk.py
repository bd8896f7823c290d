"""The order in which an action takes jobs: a tree of queues, asked again as shares move.

At every level the queue with the lowest key is next, and a queue's key depends on what it holds and on
its best candidate, so the order changes with each placement. Asking the plugins after every placement
would cost more than all the rest of the cycle; but keys depend on *assumed* positions just as well
("if this queue's first three jobs were placed"), so each queue predicts a block of its own sequence in
one question, and its parent merges the children's sequences, all under the assumption that every job
is placed. When one is not, the queues on its path throw their predictions away and start again from
what is really held. The order that comes out is that of asking after each placement.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heapify, heappop, heapreplace
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from kaisched.actions.job_order import LeafJobs, leaf_lists, order_entry

if TYPE_CHECKING:
    from kaisched.actions.candidates import Candidates
    from kaisched.core.axis import Amounts, BoolVec, CodeVec, RowVec
    from kaisched.framework.session import Session

    Key: TypeAlias = tuple[float | int, ...]

_FIRST_BLOCK = 8
_LARGEST_BLOCK = 256
"""Blocks double from the first to the largest while predictions hold; after a miss they start small."""


class Item(NamedTuple):
    """A candidate's turn: its row among the candidates, and a refusal code (0 to try it)."""

    at: int
    code: int


class _Queue:
    """One queue's predicted sequence. ``head`` counts what the caller has consumed."""

    __slots__ = (
        "ask_more",
        "assumed",
        "assumed_np",
        "block",
        "children",
        "entries",
        "head",
        "heap",
        "items",
        "jobs",
        "keys",
        "next_job",
        "parent",
        "pulled",
        "row",
    )

    def __init__(self, row: int, parent: _Queue | None) -> None:
        self.row = row
        self.parent = parent
        self.children: list[_Queue] = []
        self.jobs: LeafJobs | None = None
        """Leaf: candidate rows in order, those still waiting."""
        self.entries: list[tuple[Any, ...]] | None = None
        """Leaf: sort entries beside ``jobs``, made when a job first comes back."""
        self.next_job = 0
        self.items: list[Item] = []
        self.keys: list[Key] = []
        self.head = 0
        self.pulled = 0
        """How many items the parent's merge has taken."""
        self.block = _FIRST_BLOCK
        self.assumed: Amounts | None = None
        self.assumed_np: Amounts | None = None
        self.heap: list[tuple[Key, int, int]] | None = None
        self.ask_more = True

    @property
    def waiting(self) -> LeafJobs:
        """The jobs of a leaf."""
        assert self.jobs is not None
        return self.jobs


class QueueWalk:
    """Hands out candidates one turn after the other."""

    def __init__(self, session: Session, action: str, candidates: Candidates) -> None:
        """Lay the candidates out under their queues."""
        self._session = session
        self._action = action
        self._ask = session.ask
        self.candidates = candidates
        self._is_np = ~session.jobs.is_preemptible[candidates.job]
        self._has_np = bool(self._is_np.any())
        self._alive = np.ones(len(candidates), np.bool_)
        self._root = _Queue(-1, None)
        self._leaf_of_queue: dict[int, _Queue] = {}
        self._lay_out()

    # -- for the caller -----------------------------------------------------------------------------

    def peek(self, ahead: int = 0) -> Item | None:
        """Return the item ``ahead`` turns from now, assuming those before it are placed."""
        if not self._alive.any():
            return None
        root = self._root
        wanted = root.head + ahead
        while len(root.items) <= wanted:
            if not self._extend(root):
                return None
        return root.items[wanted]

    def placed(self, item: Item) -> None:
        """Say that the next item was placed as predicted."""
        self._alive[item.at] = False
        node: _Queue | None = self._leaf_of(item)
        while node is not None:
            node.head += 1
            node = node.parent

    def refused(self, item: Item) -> None:
        """Say that the next item was not placed; it leaves the walk."""
        leaf = self._leaf_of(item)
        if item.code and leaf.items[leaf.head] == item:
            # The leaf foresaw it, so no prediction rested on it; those above counted nothing.
            self.placed(item)
            return
        self._alive[item.at] = False
        self._forget(leaf)
        leaf.waiting.drop_first(1)
        if leaf.entries is not None:
            del leaf.entries[0]

    def again(self, item: Item, ask: Amounts, size: int) -> None:
        """Put the item just placed back with its next batch."""
        leaf = self._leaf_of(item)
        self.candidates.size[item.at] = size
        self.candidates.ask[:, item.at] = ask
        self._forget(leaf)
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
        """Take candidates out that have become hopeless, wherever they wait."""
        self._alive[gone] = False
        if not self._alive.any():
            return
        for node in (*self._leaves, *self._inner):
            self._rebase(node)
        for leaf in self._leaves:
            if leaf.entries is not None:
                marks = self._alive[leaf.waiting.rows].tolist()
                leaf.entries = list(compress(leaf.entries, marks))
            leaf.waiting.keep(self._alive)

    def waiting(self) -> BoolVec:
        """``(C,)`` which candidates still wait for their turn."""
        return self._alive

    def _leaf_of(self, item: Item) -> _Queue:
        return self._leaf_of_queue[int(self.candidates.queue[item.at])]

    # -- layout -----------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        tree = self._session.queues.tree
        nodes: dict[int, _Queue] = {-1: self._root}
        leaves: list[_Queue] = []
        for jobs in leaf_lists(self._session, self.candidates):
            path = tree.path(jobs.queue).tolist()
            above = self._root
            for row in reversed(path):
                node = nodes.get(row)
                if node is None:
                    node = nodes[row] = _Queue(row, above)
                    above.children.append(node)
                above = node
            above.jobs = jobs
            leaves.append(above)
            self._leaf_of_queue[jobs.queue] = above
        self._inner = [node for node in nodes.values() if node.children or node is self._root]
        self._leaves = leaves
        if len(self.candidates) == 1:
            self._foresee_the_only_one()
        elif len(leaves) > 1:
            self._predict(leaves)  # every leaf's first block in one question

    def _foresee_the_only_one(self) -> None:
        """Predict a lone candidate without a question: the gates were asked just now."""
        node: _Queue | None = self._leaves[0]
        self._leaves[0].next_job = 1
        while node is not None:
            node.items.append(Item(0, 0))
            node.keys.append(())
            node.pulled = 1
            node = node.parent

    # -- prediction ---------------------------------------------------------------------------------------

    def _extend(self, node: _Queue) -> bool:
        """Predict at least one more item of a queue; False when it has no more."""
        return self._extend_inner(node) if node.children else self._extend_leaf(node)

    def _extend_leaf(self, leaf: _Queue) -> bool:
        if leaf.jobs is None or leaf.next_job >= len(leaf.jobs):
            return False
        self._predict([leaf])
        return True

    def _next_block(self, leaf: _Queue) -> list[int]:
        end = leaf.next_job + leaf.block
        leaf.waiting.settle(end)
        return leaf.waiting.rows[leaf.next_job : end]

    def _predict(self, leaves: list[_Queue]) -> None:
        """Predict the next block of several leaves at once."""
        blocks = [self._next_block(leaf) for leaf in leaves]
        at = np.array([row for block in blocks for row in block], np.int64)
        lengths = np.array([len(block) for block in blocks])
        ask = self.candidates.ask[:, at]
        queue = np.repeat([leaf.row for leaf in leaves], lengths)
        starts = np.cumsum(lengths) - lengths
        held = self._positions(leaves, ask, starts, lengths, non_preemptible=False)
        held_np = held
        if self._has_np:
            asked_np = ask * self._is_np[at]
            held_np = self._positions(leaves, asked_np, starts, lengths, non_preemptible=True)
        job = self.candidates.job[at]
        codes = self._ask.queue_gate(self._session, self._action, queue, job, ask, held, held_np)
        keys = self._keys(leaves, queue, held, ask)
        for leaf, start, length in zip(leaves, starts.tolist(), lengths.tolist(), strict=True):
            self._take_block(leaf, at, codes, keys, ask, start, length)

    def _positions(
        self,
        leaves: list[_Queue],
        ask: Amounts,
        starts: RowVec,
        lengths: RowVec,
        *,
        non_preemptible: bool,
    ) -> Amounts:
        """``(R, K)`` what each queue would hold before each of its items."""
        total = np.cumsum(ask, axis=1)
        before = total - ask
        base = np.stack(
            [self._base(leaf, non_preemptible=non_preemptible) for leaf in leaves], axis=1
        )
        positions: Amounts = before + np.repeat(base - before[:, starts], lengths, axis=1)
        return positions

    def _base(self, node: _Queue, *, non_preemptible: bool) -> Amounts:
        session = self._session
        if non_preemptible:
            if node.assumed_np is None:
                ledger = session.ledger
                node.assumed_np = ledger.held_non_preemptible[:, node.row].copy()
            return node.assumed_np
        if node.assumed is None:
            held = session.ledger.held if session.has_moved else session.held
            node.assumed = held[:, node.row].copy()
        return node.assumed

    def _keys(self, nodes: list[_Queue], queue: RowVec, held: Amounts, ask: Amounts) -> list[Key]:
        """Return key tuples; none are needed where no queue has anybody to be compared with."""
        if all(node.parent is not None and len(node.parent.children) == 1 for node in nodes):
            return [()] * len(queue)
        columns = self._ask.queue_order(self._session, queue, held, ask)
        if not columns:
            return [()] * len(queue)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _take_block(
        self,
        leaf: _Queue,
        at: RowVec,
        codes: CodeVec | None,
        keys: list[Key],
        ask: Amounts,
        start: int,
        length: int,
    ) -> None:
        """Append a block; after a refusal the positions behind it are wrong, so it ends there."""
        rows = at[start : start + length].tolist()
        end = length
        refused = None
        if codes is not None:
            block = codes[start : start + length]
            if block.any():
                first = int(block.argmax() if block.dtype == np.bool_ else (block != 0).argmax())
                refused = int(block[first])
                end = first + 1
        last = end if refused is None else end - 1
        for offset in range(last):
            leaf.items.append(Item(rows[offset], 0))
        leaf.keys.extend(keys[start : start + last])
        if refused is not None:
            leaf.items.append(Item(rows[last], refused))
            leaf.keys.append(keys[start + last])
        if last:
            self._assume(leaf, at[start : start + last], ask[:, start : start + last])
        leaf.next_job += end
        leaf.block = min(leaf.block * 2, _LARGEST_BLOCK)

    def _assume(self, node: _Queue, at: RowVec, ask: Amounts) -> None:
        """Count accepted asks in what the queue would hold."""
        node.assumed = self._base(node, non_preemptible=False) + ask.sum(axis=1)
        if self._has_np:
            base = self._base(node, non_preemptible=True)
            node.assumed_np = base + (ask * self._is_np[at]).sum(axis=1)

    # -- merging ----------------------------------------------------------------------------------------------

    def _extend_inner(self, node: _Queue) -> bool:
        merged = self._merge(node, node.block)
        if not merged:
            return False
        node.block = min(node.block * 2, _LARGEST_BLOCK)
        if node is self._root:
            node.items.extend(merged)
            return True
        at = np.array([item.at for item in merged], np.int64)
        counted = np.array([item.code == 0 for item in merged])
        ask = self.candidates.ask[:, at]
        weighed = ask * counted
        queue = np.full(len(at), node.row)
        start, length = np.zeros(1, np.int64), np.array([len(at)])
        held = self._positions([node], weighed, start, length, non_preemptible=False)
        held_np = held
        if self._has_np:
            held_np = self._positions(
                [node], weighed * self._is_np[at], start, length, non_preemptible=True
            )
        codes = self._ask.queue_gate(
            self._session, self._action, queue, self.candidates.job[at], ask, held, held_np
        )
        keys = self._keys([node], queue, held, ask)
        self._take_merged(node, merged, at, weighed, codes, keys)
        return True

    def _take_merged(
        self,
        node: _Queue,
        merged: list[Item],
        at: RowVec,
        weighed: Amounts,
        codes: CodeVec | None,
        keys: list[Key],
    ) -> None:
        """Append merged items up to the first that this queue itself refuses.

        Behind such an item the children's predictions are wrong as well (they counted it), so nothing
        more is predicted here until its turn has come and the path starts anew.
        """
        end = len(merged)
        own = merged[-1]
        if codes is not None:
            refused = np.flatnonzero((codes != 0) & np.array([item.code == 0 for item in merged]))
            if refused.size:
                end = int(refused[0])
                own = Item(merged[end].at, int(codes[end]))
                node.ask_more = False
        node.items.extend(merged[:end])
        node.keys.extend(keys[:end])
        if end:
            self._assume(node, at[:end], weighed[:, :end])
        if end < len(merged):
            node.items.append(own)
            node.keys.append(keys[end])

    def _merge(self, node: _Queue, count: int) -> list[Item]:
        """Take the next ``count`` items of the children, best key first."""
        if not node.ask_more:
            return []
        children = node.children
        if len(children) == 1:
            return self._drain(children[0], count)
        heap = node.heap
        if heap is None:
            heap = node.heap = []
            for index, child in enumerate(children):
                if self._reach(child):
                    heap.append((child.keys[child.pulled], child.row, index))
            heapify(heap)
        merged: list[Item] = []
        while heap and len(merged) < count:
            _, row, index = heap[0]
            child = children[index]
            merged.append(child.items[child.pulled])
            child.pulled += 1
            if self._reach(child):
                heapreplace(heap, (child.keys[child.pulled], row, index))
            else:
                heappop(heap)
        return merged

    def _drain(self, child: _Queue, count: int) -> list[Item]:
        while len(child.items) < child.pulled + count and self._extend(child):
            pass
        taken = child.items[child.pulled : child.pulled + count]
        child.pulled += len(taken)
        return taken

    def _reach(self, child: _Queue) -> bool:
        return child.pulled < len(child.items) or self._extend(child)

    # -- when a prediction failed ------------------------------------------------------------------------------

    def _forget(self, leaf: _Queue) -> None:
        """Start the queues on a leaf's path again from what is really held."""
        node: _Queue | None = leaf
        while node is not None:
            self._rebase(node)
            node = node.parent

    def _rebase(self, node: _Queue) -> None:
        """Throw predictions away; consumed items are done with."""
        if node.jobs is not None:
            node.jobs.drop_first(node.head)
            if node.entries is not None:
                del node.entries[: node.head]
            node.next_job = 0
        if node.children:
            node.heap = None
            node.ask_more = True
            for child in node.children:
                child.pulled = child.head
        else:
            node.pulled = 0
        node.items.clear()
        node.keys.clear()
        node.head = 0
        node.pulled = 0
        node.assumed = None
        node.assumed_np = None
        node.block = _FIRST_BLOCK
