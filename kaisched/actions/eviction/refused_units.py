"""Counts why units may not be evicted for a claim, for the reason of a search without a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.refusals import text_of

if TYPE_CHECKING:
    from kaisched.core.axis import CodeVec


class RefusedUnits:
    """How often each refusal stood in the way of one claim."""

    def __init__(self) -> None:
        """Start without any."""
        self._times: dict[int, int] = {}

    def __contains__(self, code: int) -> bool:
        """Tell whether a refusal was noted."""
        return code in self._times

    def note(self, code: int, times: int = 1) -> None:
        """Note a refusal."""
        self._times[code] = self._times.get(code, 0) + times

    def note_all(self, codes: CodeVec) -> None:
        """Note the refusals of units; 0 is none."""
        refused = codes[codes != 0]
        if refused.size:
            counts = np.bincount(refused)
            for code in counts.nonzero()[0].tolist():  # of thousands of codes one or two occur
                self.note(code, int(counts[code]))

    def most_said(self) -> int:
        """Return the most frequent one, those first that the next pass may lift; 0 for none."""
        return max(self._times, key=self._weight, default=0)

    def _weight(self, code: int) -> tuple[bool, int, str]:
        """Return the sort key of a refusal; names break ties, since codes differ by process."""
        text = text_of(code)
        return text.is_retried, self._times[code], text.name
