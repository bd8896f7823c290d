"""Asking the plugins about nodes: filters, rooms, scores, and what moves make stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.refusals import Refusal
from kaisched.framework.answers import (
    Answer,
    CycleAbandonedError,
    code_fault,
    fits,
    room_fault,
    stale_fault,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from kaisched.core.axis import CodeVec, IntVec, RowVec
    from kaisched.framework.session import Session

_FAILED = int(Refusal.PLUGIN_FAILED)
_EVERYTHING = (np.empty(0, np.int64), np.empty(0, np.int64))


class NodeQuestions:
    """The questions about nodes, ready to be asked; the others are in dispatch.py."""

    def __init__(self, answers: Mapping[str, tuple[Answer, ...]]) -> None:
        """Take the answers to the node questions out of all answers."""
        self._filters = answers["node_filter"]
        self._rooms = answers["node_room"]
        self._scores = answers["node_score"]
        self._moves = answers["on_moves"]
        # Room for the rounding of a few sums of products.
        self._highest = sum(answer.weight for answer in self._scores) * (1 + 1e-12)
        self.has_moves = bool(self._moves)
        self.has_rooms = bool(self._rooms)
        self.fills_first = all(answer.owner.is_score_rising for answer in self._scores)
        """True when every score promises to rise as identical pods fill a node."""

    def _codes(
        self, session: Session, answers: Iterable[Answer], count: int, **arguments: object
    ) -> CodeVec | None:
        codes: CodeVec | None = None
        for answer in answers:
            try:
                said = answer.call(session=session, **arguments)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                said = np.full(count, _FAILED, np.int16)
            if said is None:
                continue
            if fault := code_fault(said, count):
                answer.fail(session, fault)
                said = np.full(count, _FAILED, np.int16)
            said = said.astype(np.int16, copy=False)
            codes = said if codes is None else np.where(codes != 0, codes, said)
        return codes

    def node_filter(self, session: Session, shape: int, rows: RowVec) -> CodeVec | None:
        """Return codes ``(K,)``, or None for no objection."""
        return self._codes(session, self._filters, len(rows), shape=shape, rows=rows)

    def node_room(self, session: Session, shape: int, rows: RowVec) -> IntVec | None:
        """Return the least room any plugin leaves ``(K,)``, or None for no bound."""
        least: IntVec | None = None
        for answer in self._rooms:
            try:
                room = answer.call(session=session, shape=shape, rows=rows)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                room = np.zeros(len(rows), np.int64)
            if room is None:
                continue
            if fault := room_fault(room, len(rows)):
                answer.fail(session, fault)
                room = np.zeros(len(rows), np.int64)
            least = room if least is None else np.minimum(least, room)
        return least

    def node_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> npt.NDArray[np.float64]:
        """Return the weighted sum of scores ``(K,)``."""
        total: npt.NDArray[np.float64] | None = None
        for answer in self._scores:
            try:
                score = answer.call(session=session, shape=shape, rows=rows, extra=extra)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                continue
            if score is None:
                continue
            if not fits(score, rows.shape, "f"):
                answer.fail(session, wrong(score, rows.shape, "f"))
                continue
            weighted = score * answer.weight
            total = weighted if total is None else total + weighted
        if total is None:
            return np.zeros(len(rows))
        # One look at the sum; NaN compares false with everything. Only if it is odd, one by one.
        low, high = np.minimum.reduce, np.maximum.reduce  # half the price of the methods
        if rows.size and not (low(total) >= 0.0 and high(total) <= self._highest):
            return self._careful_score(session, shape, rows, extra)
        return total

    def _careful_score(
        self, session: Session, shape: int, rows: RowVec, extra: IntVec
    ) -> npt.NDArray[np.float64]:
        """Sum only the scores inside [0, 1] and name the plugins of the others."""
        total = np.zeros(len(rows))
        for answer in self._scores:
            try:
                score = answer.call(session=session, shape=shape, rows=rows, extra=extra)
            except Exception:  # noqa: BLE001, S112 - noted by the caller already
                continue
            if score is None or not fits(score, rows.shape, "f"):
                continue
            if not (score.min() >= 0.0 and score.max() <= 1.0):
                answer.fail(session, "answered scores outside [0, 1]")
                continue
            total += score * answer.weight
        return total

    def on_moves(
        self, session: Session, task: RowVec, node: RowVec, sign: int
    ) -> list[tuple[RowVec, RowVec]]:
        """Tell every listener, and return what each says is stale; after a failure, everything."""
        stale: list[tuple[RowVec, RowVec]] = []
        for answer in self._moves:
            try:
                said = answer.call(session=session, task=task, node=node, sign=sign)
            except CycleAbandonedError:
                raise
            except Exception as error:  # noqa: BLE001
                answer.fail(session, error)
                said = _EVERYTHING
            if said is None:
                continue
            if fault := stale_fault(said):
                answer.fail(session, fault)
                said = _EVERYTHING
            stale.append(said)
        return stale
