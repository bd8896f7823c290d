"""The order in which an action takes jobs: a tree of queues, asked again as shares move.

At every level the queue with the lowest key is next. A queue's key depends on what the queue holds
and on its best candidate, so the order changes with each placement. Asking the plugins after every
placement would cost more than the rest of the cycle. But keys can also be asked for *assumed*
positions ("if this queue's first three jobs were placed"). So each queue predicts a block of its
own sequence in one question, and its parent merges the children's blocks. Predictions assume that
every job is placed. When a job is not, the queues on its path discard their predictions and start
again from what they really hold. The order is the same as if plugins were asked every time.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import compress
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kaisched.actions.order.job_order import leaf_lists, order_entry
from kaisched.actions.order.prediction import Prediction
from kaisched.actions.order.sequence import Pick, QueueSequence

if TYPE_CHECKING:
    from kaisched.actions.order.candidates import Candidates
    from kaisched.core.axis import BoolVec, RowVec
    from kaisched.framework.session.session import Session

__all__ = ["FairOrder", "Pick", "PredictedOrder"]


class FairOrder(Protocol):
    """Hands out candidates in fair order; the caller reports what became of each."""

    def peek(self, ahead: int = 0) -> Pick | None:
        """Return the item ``ahead`` places from now, if known, assuming those before are placed."""
        ...

    def placed(self, item: Pick) -> None:
        """Report that the next item was placed."""
        ...

    def refused(self, item: Pick) -> None:
        """Report that the next item was not placed; it leaves the order."""
        ...

    def again(self, item: Pick) -> None:
        """Put the item just placed back with its next batch."""
        ...

    def drop(self, gone: RowVec) -> None:
        """Take out candidates that can no longer be placed."""
        ...

    def waiting(self) -> BoolVec:
        """``(C,)`` which candidates still wait for their turn."""
        ...


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
