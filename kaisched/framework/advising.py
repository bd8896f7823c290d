"""Advice on pending jobs that was tried, within a budget: the record, and what would help."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from kaisched.core.refusals import code_named
from kaisched.framework.advice import Advice, Kind, sentence_of
from kaisched.framework.proposals import proposals
from kaisched.framework.trials import helps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.framework.advice import Change
    from kaisched.framework.records import CycleResult, DecisionRecord

BUDGET: Final = 100_000
"""What the trials of one result may cost, in units of 5 us: half a second (measured)."""
TRIALS: Final = 4
"""So many changes are tried for a job."""
_BASE: Final = 400
"""What a cycle costs however small the cluster, in the same unit."""
_WAITING: Final = 70
"""What each waiting job adds, since victims may be searched for it; a row of a table adds 1."""


class Adviser:
    """Tries changes for the pending jobs of one result, one after the other until it is tired."""

    def __init__(self, result: CycleResult, budget: int = BUDGET) -> None:
        """Have tried nothing yet."""
        self._records, self._session = result.records, result.records.session
        # A trial asks the same plugins: where one failed, it would speak of that failure.
        self._left = 0 if result.stats.abandoned or result.failures else budget
        snapshot = self._session.snapshot
        rows = len(snapshot.nodes) + len(snapshot.tasks.name) + len(snapshot.queues)
        self._cost = _BASE + rows + _WAITING * self._session.jobs_waiting

    def record(self, job: int) -> DecisionRecord:
        """Return the record of one job with the advice that was tried."""
        return self._advised(job, self._records.record(job))

    def records(self) -> Iterator[DecisionRecord]:
        """Return the records of all jobs that stay pending, by name."""
        name = self._session.jobs.name
        rows = sorted(self._records.rows.tolist(), key=lambda row: name[row])
        return (self.record(row) for row in rows)

    def _advised(self, job: int, record: DecisionRecord) -> DecisionRecord:
        advice: list[Advice] = []
        found = proposals(self._session, job, code_named(record.reason, record.plugin))
        for kind, changes in islice(found if self._left >= self._cost else (), TRIALS):
            if self._left < self._cost:
                break
            advice.append(self._tried(job, kind, changes))
        if not advice:
            return record
        message = f"{record.message}; {sentence_of(advice)}"
        return replace(record, message=message, advice=tuple(advice))

    def _tried(self, job: int, kind: Kind, changes: tuple[Change, ...]) -> Advice:
        self._left -= self._cost
        is_enough = helps(self._session, job, kind, changes)
        if kind is Kind.NODES and not is_enough and self._left >= self._cost:
            # Others may come before it on the new nodes.
            self._left -= self._cost
            more = (replace(changes[0], amount=2 * changes[0].amount + 1), *changes[1:])
            if helps(self._session, job, kind, more):
                return Advice(kind, more, helps=True)
        return Advice(kind, changes, is_enough)
